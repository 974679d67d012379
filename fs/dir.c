/* SPDX-License-Identifier: MIT */
/*
 * Listings. An open directory keeps the names it has given out, so that an offset (the entry's
 * position in that list, growing) means the same entry for as long as the directory is open,
 * whatever comes and goes meanwhile. Entries are fetched a page at a time, in the backend's key
 * order, so the first come after the first page; what is created behind the place reached is not in
 * the listing.
 *
 * A page brings names, attributes and bodies together. When the listing has come to its end, the
 * bodies of what was listed are handed to the kernel's page cache: the first `grep -r` after `ls`
 * then reads nothing from here.
 */
#include "fs/mount.h"

#include <errno.h>

#define PAGE_ENTRIES 1024
#define PAGE_BYTES (4u << 20)
#define STORE_SIZE_MAX (64u << 10) /* bytes of a body handed over ahead of reads */

enum stage { STAGE_DOTS, STAGE_FIRST, STAGE_SCRATCH, STAGE_LOCAL, STAGE_END };

/* What the current page knows of an entry beyond its name. */
struct detail {
    enum { DETAIL_NONE, DETAIL_ITEM, DETAIL_SCRATCH, DETAIL_PARTITION } kind;
    size_t part_at; /* in page */
    size_t part_len;
    size_t body_at, body_len; /* in page */
    struct item_meta meta;
    struct scratch scratch;
};

struct offered {
    struct inode *inode; /* a reference */
    struct body *body;   /* a reference */
};

struct listing {
    struct mount *mount;
    struct inode *dir; /* a reference */
    enum stage stage;
    struct buf names;
    struct buf entries; /* size_t[]: where each name begins in `names`; NUL ends it */
    size_t page_first;  /* index of the first entry that has a detail */
    struct buf details; /* struct detail[] */
    struct buf page;
    struct buf after; /* key part that the next page starts behind */
    uint64_t stamp;
    struct buf offered; /* struct offered[] */
    uint64_t offered_bytes;
    uint64_t prefill_left;
};

static size_t entry_count(const struct listing *listing)
{
    return listing->entries.len / sizeof(size_t);
}

static struct span entry_name(const struct listing *listing, size_t index)
{
    const size_t *starts = (const size_t *)(const void *)listing->entries.data;
    size_t end = index + 1 < entry_count(listing) ? starts[index + 1] : listing->names.len;
    return span_of(listing->names.data + starts[index], end - starts[index] - 1);
}

int listing_open(struct mount *mount, struct inode *dir, struct listing **ret_listing,
                 struct err *err)
{
    (void)err;
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return -ENOMEM;
    *listing = (struct listing){.mount = mount, .prefill_left = mount->prefill_budget};
    struct buf *bufs[] = {&listing->names, &listing->entries, &listing->details,
                          &listing->page,  &listing->after,   &listing->offered};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        buf_init(bufs[i], SIZE_MAX / 2);
    scoped_lock(&mount->cache->lock);
    listing->dir = inode_ref(dir);
    *ret_listing = listing;
    return 0;
}

/* The kernel knows what was listed so far: its pages may be filled. */
static void hand_over(struct listing *listing)
{
    struct mount *mount = listing->mount;
    struct offered *offered = (struct offered *)(void *)listing->offered.data;
    size_t count = listing->offered.len / sizeof *offered;
    if (count == 0)
        return;
    scoped_lock(&mount->cache->lock);
    for (size_t i = 0; i < count; i++) {
        notify_store_locked(mount, offered[i].inode, offered[i].body);
        inode_unref(mount->cache, offered[i].inode);
        body_unref(offered[i].body);
    }
    buf_clear(&listing->offered);
    listing->offered_bytes = 0;
}

void listing_free(struct mount *mount, struct listing *listing)
{
    hand_over(listing);
    buf_release(&listing->names);
    buf_release(&listing->entries);
    buf_release(&listing->details);
    buf_release(&listing->page);
    buf_release(&listing->after);
    buf_release(&listing->offered);
    scoped_lock(&mount->cache->lock);
    inode_unref(mount->cache, listing->dir);
    free(listing);
}

bool listing_keep(struct mount *mount, struct inode *dir)
{
    if (dir->kind == INODE_CONTROL)
        return false;
    if (dir->volume && !backend_can(dir->volume->backend, BACKEND_LOG))
        return false;
    scoped_lock(&mount->cache->lock);
    if (!item_expired(dir->meta.ttl, clock_now_s()))
        return true;
    dir->meta.ttl = 0; /* the listing that follows sets it anew */
    return false;
}

/* --- Fetching --- */

static int add_entry(struct listing *listing, struct span name, const struct detail *detail)
{
    size_t start = listing->names.len;
    buf_add_span(&listing->names, name);
    buf_add_char(&listing->names, '\0');
    buf_add(&listing->entries, &start, sizeof start);
    buf_add(&listing->details, detail, sizeof *detail);
    if (buf_error(&listing->names) || buf_error(&listing->entries) || buf_error(&listing->details))
        return -ENOMEM;
    return 0;
}

static size_t keep_in_page(struct listing *listing, struct span bytes)
{
    size_t at = listing->page.len;
    buf_add_span(&listing->page, bytes);
    return at;
}

static enum value_type part_type(const struct listing *listing)
{
    const struct table *table = volume_table(listing->dir->volume);
    return listing->dir->kind == INODE_PARTITION ? table->sort.type : table->partition.type;
}

static int fetch_item(void *context, const struct record *record)
{
    struct listing *listing = context;
    bool sorted = listing->dir->kind == INODE_PARTITION;
    struct span part = sorted ? record->key.sort : record->key.partition;
    struct detail detail = {.kind = DETAIL_ITEM, .meta = record->meta, .part_len = part.len};
    cleanup(buf_release) struct buf rendered;
    buf_init(&rendered, SIZE_MAX / 2);
    struct span shown;
    int code = content_show(volume_table(listing->dir->volume), record->key, &detail.meta,
                            record->body, &rendered, &shown, NULL);
    if (code < 0)
        return code;
    detail.part_at = keep_in_page(listing, part);
    detail.body_at = keep_in_page(listing, shown);
    detail.body_len = shown.len;
    buf_clear(&listing->after);
    buf_add_span(&listing->after, part);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    name_from_part(part_type(listing), part, KEY_ITEM_SUFFIX, &name);
    code = add_entry(listing, buf_span(&name), &detail);
    if (code == 0)
        code = buf_error(&listing->page) ? -ENOMEM : listing->page.len >= PAGE_BYTES;
    return code;
}

static int fetch_partition(void *context, const struct partition_info *info)
{
    struct listing *listing = context;
    struct detail detail = {.kind = DETAIL_PARTITION, .part_len = info->partition.len};
    detail.meta.mtime_ns = info->changed_ns;
    detail.part_at = keep_in_page(listing, info->partition);
    buf_clear(&listing->after);
    buf_add_span(&listing->after, info->partition);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    name_from_part(part_type(listing), info->partition, "", &name);
    return add_entry(listing, buf_span(&name), &detail);
}

static int fetch_scratch(void *context, const struct scratch *scratch)
{
    struct listing *listing = context;
    struct detail detail = {.kind = DETAIL_SCRATCH, .scratch = *scratch};
    detail.part_len = scratch->name.len;
    detail.part_at = keep_in_page(listing, scratch->name);
    return add_entry(listing, scratch->name, &detail);
}

static int fetch_control(void *context, const char *name, bool directory)
{
    (void)directory;
    struct detail none = {.kind = DETAIL_NONE};
    return add_entry(context, span_text(name), &none);
}

/* Items or partitions: a page. Ends the stage when it comes back short. */
static int fetch_page(struct listing *listing, struct err *err)
{
    struct inode *dir = listing->dir;
    struct backend *backend = dir->volume->backend;
    const struct table *table = volume_table(dir->volume);
    size_t before = entry_count(listing);
    cleanup(buf_release) struct buf after;
    buf_init(&after, SIZE_MAX / 2);
    buf_add_span(&after, buf_span(&listing->after));
    int code;
    if (dir_holds_items(dir)) {
        struct walk walk = {.after = dir_key(dir, buf_span(&after)),
                            .in_partition = dir->kind == INODE_PARTITION,
                            .limit = PAGE_ENTRIES,
                            .bodies = true};
        code = backend_walk(backend, table, &walk, fetch_item, listing, err);
    } else {
        code = backend_partitions(backend, table, buf_span(&after), PAGE_ENTRIES, fetch_partition,
                                  listing, err);
    }
    if (code == 0 && entry_count(listing) - before < PAGE_ENTRIES)
        listing->stage = STAGE_SCRATCH;
    return code < 0 ? code : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Tables by name: few enough to take them all. */
static int fetch_tables(struct listing *listing)
{
    struct mount *mount = listing->mount;
    scoped_lock(&mount->cache->lock);
    size_t count = 0;
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        count += !volume->dropped;
    cleanup_free const char **names = calloc(count + 1, sizeof *names);
    if (!names)
        return -ENOMEM;
    size_t at = 0;
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        if (!volume->dropped)
            names[at++] = volume_table(volume)->name;
    qsort(names, count, sizeof *names, compare_names);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = fetch_control(listing, names[i], true);
    return code;
}

/* What only this mount knows: files being made, partitions without items. */
static int fetch_locals(struct listing *listing, struct err *err)
{
    struct mount *mount = listing->mount;
    struct inode *dir = listing->dir;
    cleanup(buf_release) struct buf parts; /* of partitions: length, bytes */
    buf_init(&parts, SIZE_MAX / 2);
    int code = 0;
    pthread_mutex_lock(&mount->cache->lock);
    for (struct inode *local = dir->locals; local && code == 0; local = local->local_next) {
        cleanup(buf_release) struct buf name;
        buf_init(&name, SIZE_MAX / 2);
        struct detail none = {.kind = DETAIL_NONE};
        if (local->kind == INODE_PARTITION) {
            size_t len = local->name_len;
            buf_add(&parts, &len, sizeof len);
            buf_add_span(&parts, inode_name(local));
            continue;
        }
        if (local->edit && local->edit->base) /* takes the place of what the backend lists */
            continue;
        inode_file_name(local, &name);
        code = add_entry(listing, buf_span(&name), &none);
    }
    pthread_mutex_unlock(&mount->cache->lock);
    for (size_t at = 0; code == 0 && at < parts.len;) {
        size_t len;
        memcpy(&len, parts.data + at, sizeof len);
        struct partition_info info = {.partition = span_of(parts.data + at + sizeof len, len)};
        info.changed_ns = clock_now_ns();
        at += sizeof len + len;
        uint64_t items;
        int64_t changed_ns;
        code = backend_partition(dir->volume->backend, volume_table(dir->volume), info.partition,
                                 &items, &changed_ns, err);
        code = code == -ENOENT ? fetch_partition(listing, &info) : code; /* else it was listed */
    }
    return code;
}

static int fetch_stage(struct listing *listing, struct err *err)
{
    struct inode *dir = listing->dir;
    struct detail none = {.kind = DETAIL_NONE};
    enum stage stage = listing->stage;
    int code = 0;
    switch (stage) {
    case STAGE_DOTS:
        code = add_entry(listing, span_text("."), &none);
        if (code == 0)
            code = add_entry(listing, span_text(".."), &none);
        listing->stage = dir->kind == INODE_DIRECTORY ? STAGE_SCRATCH : STAGE_FIRST;
        return code;
    case STAGE_FIRST:
        if (dir->kind == INODE_TABLE || dir->kind == INODE_PARTITION)
            return fetch_page(listing, err);
        listing->stage = STAGE_END;
        if (dir->kind == INODE_ROOT)
            return fetch_tables(listing);
        return control_list(listing->mount, inode_name(dir), fetch_control, listing, err);
    case STAGE_SCRATCH: {
        struct scratch place;
        scratch_place(dir, &place);
        listing->stage = STAGE_LOCAL;
        return backend_scratch_list(dir->volume->backend, volume_table(dir->volume),
                                    place.partition, place.parent, fetch_scratch, listing, err);
    }
    case STAGE_LOCAL: listing->stage = STAGE_END; return fetch_locals(listing, err);
    case STAGE_END: break;
    }
    return 0;
}

/* Until entry INDEX is there, or the end. */
static int fetch_until(struct listing *listing, size_t index, struct err *err)
{
    int code = 0;
    while (code == 0 && entry_count(listing) <= index && listing->stage != STAGE_END) {
        listing->page_first = entry_count(listing);
        buf_clear(&listing->details);
        buf_clear(&listing->page);
        pthread_mutex_lock(&listing->mount->cache->lock);
        listing->stamp = cache_stamp(listing->mount->cache);
        pthread_mutex_unlock(&listing->mount->cache->lock);
        code = fetch_stage(listing, err);
    }
    return code;
}

/* --- Giving out --- */

static struct inode *adopt_detail_locked(struct listing *listing, const struct detail *detail)
{
    struct mount *mount = listing->mount;
    struct span part = span_of(listing->page.data + detail->part_at, detail->part_len);
    switch (detail->kind) {
    case DETAIL_ITEM: {
        struct span body = span_of(listing->page.data + detail->body_at, detail->body_len);
        if (item_expired(detail->meta.ttl, clock_now_s()))
            return NULL;
        return adopt_item_locked(mount, listing->dir, part, &detail->meta, body, listing->stamp);
    }
    case DETAIL_PARTITION:
        return adopt_partition_locked(mount, listing->dir, part, detail->meta.mtime_ns);
    case DETAIL_SCRATCH: {
        struct scratch scratch = detail->scratch;
        scratch.name = part;
        return adopt_scratch_locked(mount, listing->dir, &scratch, listing->stamp);
    }
    case DETAIL_NONE: break;
    }
    return NULL;
}

/* What the page knows of entry INDEX; NULL where it is of an earlier page. */
static const struct detail *detail_at(const struct listing *listing, size_t index)
{
    if (index < listing->page_first)
        return NULL;
    return (const struct detail *)(const void *)listing->details.data + index - listing->page_first;
}

/* Its pages are filled once the kernel knows the inode. */
static void offer_locked(struct listing *listing, struct inode *inode)
{
    struct body *body = inode->body;
    uint64_t cost = body ? (body->len + 4095) & ~UINT64_C(4095) : 0;
    if (inode->kind != INODE_ITEM || !body || body->len == 0 || body->len > STORE_SIZE_MAX ||
        inode->lookups != 1 || inode->edit || cost > listing->prefill_left ||
        listing->offered_bytes + body->len > listing->mount->config->cache_size / 2)
        return;
    struct offered offered = {inode, body};
    buf_add(&listing->offered, &offered, sizeof offered);
    if (buf_error(&listing->offered))
        return;
    inode_ref(inode);
    body_ref(body);
    listing->prefill_left -= cost;
    listing->offered_bytes += body->len;
}

/* Appends one entry unless it does not fit; false when it did not. */
static bool emit_locked(struct listing *listing, fuse_req_t req, size_t index, struct inode *inode,
                        size_t size, bool plus, struct buf *out)
{
    const char *name = entry_name(listing, index).data;
    bool dot = index < 2;
    struct fuse_entry_param entry = {0};
    if (dot || !plus)
        attr_fill_locked(listing->mount, inode, &entry.attr, &entry.attr_timeout);
    else
        entry_fill_locked(listing->mount, inode, false, &entry);
    if (S_ISDIR(entry.attr.st_mode)) /* its times may have moved since the page was fetched */
        entry.attr_timeout = 0;
    size_t room = size - out->len, used;
    off_t next = (off_t)index + 1;
    char *at = out->data + out->len;
    if (plus)
        used = fuse_add_direntry_plus(req, at, room, name, &entry, next);
    else
        used = fuse_add_direntry(req, at, room, name, &entry.attr, next);
    if (used > room) {
        if (plus && !dot)
            inode->lookups--;
        return false;
    }
    out->len += used;
    if (plus && !dot)
        offer_locked(listing, inode);
    return true;
}

/* The same for an inode that may be new and needed by nobody. */
static bool emit_once_locked(struct listing *listing, fuse_req_t req, size_t index,
                             struct inode *inode, size_t size, bool plus, struct buf *out)
{
    inode_ref(inode);
    bool fits = emit_locked(listing, req, index, inode, size, plus, out);
    inode_unref(listing->mount->cache, inode);
    return fits;
}

/*
 * Entries of the page from *INDEX on, under one lock, RUN_ENTRIES at most. Stops before one that
 * the page does not settle. False when one did not fit.
 */
#define RUN_ENTRIES 64
static bool emit_run(struct listing *listing, fuse_req_t req, size_t *index, size_t size, bool plus,
                     struct buf *out)
{
    scoped_lock(&listing->mount->cache->lock);
    for (size_t run = 0; run < RUN_ENTRIES && *index < entry_count(listing); run++, ++*index) {
        const struct detail *detail = *index < 2 ? NULL : detail_at(listing, *index);
        struct inode *inode = detail ? adopt_detail_locked(listing, detail) : NULL;
        if (!inode)
            return true;
        if (!emit_once_locked(listing, req, *index, inode, size, plus, out))
            return false;
    }
    return true;
}

/* One entry that has to be looked at by itself: dots, those of earlier pages, what has moved. */
static bool emit_one(struct listing *listing, fuse_req_t req, size_t index, size_t size, bool plus,
                     struct buf *out)
{
    struct mount *mount = listing->mount;
    struct inode *dir = listing->dir;
    struct inode *inode = index == 1 && dir->parent ? dir->parent : dir;
    bool found =
        index >= 2 && resolve(mount, dir, entry_name(listing, index), &inode, NULL, NULL) == 0;
    if (index >= 2 && !found)
        return true; /* gone since */
    scoped_lock(&mount->cache->lock);
    bool fits = emit_once_locked(listing, req, index, inode, size, plus, out);
    if (found)
        inode_unref(mount->cache, inode);
    return fits;
}

int listing_read(struct mount *mount, fuse_req_t req, struct listing *listing, off_t offset,
                 size_t size, bool plus, struct buf *out, struct err *err)
{
    /* Before the end it would only slow the listing down, but memory is bounded. */
    if (listing->stage == STAGE_END || listing->offered_bytes > mount->config->cache_size / 4)
        hand_over(listing);
    buf_resize(out, size); /* the room; len counts what is used */
    if (buf_error(out))
        return -ENOMEM;
    out->len = 0;
    for (size_t index = (size_t)offset;; index++) {
        int code = fetch_until(listing, index, err);
        if (code < 0)
            return out->len ? 0 : code; /* told with the next call, which starts at the fault */
        if (!emit_run(listing, req, &index, size, plus, out))
            return 0;
        code = fetch_until(listing, index, err);
        if (code < 0 || index >= entry_count(listing))
            return out->len ? 0 : code;
        if (!emit_one(listing, req, index, size, plus, out))
            return 0;
    }
}
