/* SPDX-License-Identifier: MIT */
/* What a listing shows, fetched a page at a time: items or partitions, scratch, and what only this
 * mount knows. */
#include "fs/listing.h"

#include <errno.h>

#include "fs/view.h"

#define PAGE_ENTRIES 256 /* about one answer: the next page is fetched while it is worked on */
#define PAGE_BYTES (4u << 20)

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

static void add_part_name(const struct listing *listing, struct span part, const char *suffix,
                          struct buf *name)
{
    key_part_to_name(volume_table(listing->dir->volume), listing->dir->kind == INODE_PARTITION,
                     part, suffix, name);
}

static int fetch_item(void *context, const struct record *record)
{
    struct listing *listing = context;
    bool sorted = listing->dir->kind == INODE_PARTITION;
    struct span part = sorted ? record->key.sort : record->key.partition;
    struct detail detail = {.kind = DETAIL_ITEM,
                            .meta = record->meta,
                            .part_len = part.len,
                            .mark = listing->scan->mark};
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
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    add_part_name(listing, part, KEY_ITEM_SUFFIX, &name);
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
    add_part_name(listing, info->partition, "", &name);
    return add_entry(listing, buf_span(&name), &detail);
}

static int fetch_scratch(void *context, const struct scratch *scratch)
{
    struct listing *listing = context;
    struct detail detail = {.kind = DETAIL_SCRATCH, .scratch = *scratch, .mark = listing->mark};
    detail.part_len = scratch->name.len;
    detail.part_at = keep_in_page(listing, scratch->name);
    return add_entry(listing, scratch->name, &detail);
}

static int fetch_control(void *context, const char *name, enum control_kind kind)
{
    (void)kind;
    struct detail none = {.kind = DETAIL_NONE};
    return add_entry(context, span_text(name), &none);
}

/* All entries of a directory of a view are of one kind, and need no inode to be listed. */
static int fetch_view(void *context, const char *name, enum control_kind kind)
{
    struct listing *listing = context;
    size_t start = listing->names.len;
    listing->view_mode = kind == CONTROL_LINK ? S_IFLNK : S_IFDIR;
    listing->page_first = SIZE_MAX; /* nothing more is known of any of them */
    buf_add(&listing->names, name, strlen(name) + 1);
    buf_add(&listing->entries, &start, sizeof start);
    return buf_error(&listing->names) || buf_error(&listing->entries) ? -ENOMEM : 0;
}

static struct scan_mark mark_now(void *context)
{
    struct mount *mount = context;
    scoped_lock(&mount->cache->lock);
    return mark_now_locked(mount);
}

static int fetch_items(struct listing *listing, struct err *err)
{
    struct inode *dir = listing->dir;
    const struct scan_range range = {
        .partition = dir->kind == INODE_PARTITION ? inode_name(dir) : span_of(NULL, 0),
        .bodies = true,
        .mark = mark_now,
        .mark_context = listing->mount,
    };
    int code = 0;
    if (!listing->scan)
        code = backend_scan_open(dir->volume->backend, volume_table(dir->volume), &range,
                                 &listing->scan, err);
    if (code == 0)
        code = backend_scan_next(listing->scan, PAGE_ENTRIES, fetch_item, listing, err);
    if (code >= 0 && listing->scan->ended) {
        listing_end_scan(listing);
        listing->stage = STAGE_SCRATCH;
    }
    return code < 0 ? code : 0;
}

static int fetch_partitions(struct listing *listing, struct err *err)
{
    struct inode *dir = listing->dir;
    size_t before = entry_count(listing);
    cleanup(buf_release) struct buf after;
    buf_init(&after, SIZE_MAX / 2);
    buf_add_span(&after, buf_span(&listing->after));
    int code = backend_partitions(dir->volume->backend, volume_table(dir->volume), buf_span(&after),
                                  PAGE_ENTRIES, fetch_partition, listing, err);
    if (code == 0 && entry_count(listing) - before < PAGE_ENTRIES)
        listing->stage = STAGE_SCRATCH;
    return code < 0 ? code : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int collect_forbidden(void *context, const char *table, const char *why)
{
    (void)why;
    struct buf *names = context;
    buf_add(names, table, strlen(table) + 1);
    return buf_error(names);
}

/* Tables by name: few enough to take them all. Those that are forbidden have a name too: without
 * it, a copy would take them for removed. */
static int fetch_tables(struct listing *listing, struct err *err)
{
    struct mount *mount = listing->mount;
    cleanup(buf_release) struct buf all;
    buf_init(&all, SIZE_MAX / 2);
    int code = volumes_current(mount, span_of(NULL, 0)) ? 0 : volumes_load(mount, true, err);
    if (code == 0)
        code = source_forbidden(mount->source, collect_forbidden, &all);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        if (!volume->dropped)
            buf_add(&all, volume_table(volume)->name, strlen(volume_table(volume)->name) + 1);
    cleanup_free const char **names = calloc(all.len / 2 + 1, sizeof *names);
    if (!names || buf_error(&all))
        return -ENOMEM;
    size_t count = 0;
    for (size_t at = 0; at < all.len; at += strlen(all.data + at) + 1)
        names[count++] = all.data + at;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count && code == 0; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            code = fetch_control(listing, names[i], CONTROL_DIRECTORY);
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
            return dir_holds_items(dir) ? fetch_items(listing, err)
                                        : fetch_partitions(listing, err);
        listing->stage = STAGE_END;
        if (dir->kind == INODE_ROOT)
            return fetch_tables(listing, err);
        return control_list(listing->mount, inode_name(dir),
                            view_is(inode_name(dir)) ? fetch_view : fetch_control, listing, err);
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

/* Nothing but their names is kept of entries that were given out. */
static void drop_given(struct listing *listing)
{
    struct detail *details = (struct detail *)(void *)listing->details.data;
    size_t count = listing->details.len / sizeof *details, base = listing->page.len;
    size_t drop = listing->given > listing->page_first ? listing->given - listing->page_first : 0;
    if (drop > count)
        drop = count;
    for (size_t i = drop; i < count; i++)
        if (details[i].kind != DETAIL_NONE && details[i].part_at < base)
            base = details[i].part_at;
    for (size_t i = drop; i < count; i++) {
        details[i - drop] = details[i];
        details[i - drop].part_at -= base;
        details[i - drop].body_at -= base;
    }
    listing->page_first += drop;
    listing->details.len = (count - drop) * sizeof *details;
    if (base > 0)
        memmove(listing->page.data, listing->page.data + base, listing->page.len - base);
    listing->page.len -= base;
}

static void fetch_page(struct listing *listing)
{
    drop_given(listing);
    listing->mark = mark_now(listing->mount);
    listing->code = fetch_stage(listing, &listing->fault);
}

void fetch_ahead(struct listing *listing, size_t count)
{
    while (listing->code == 0 && listing->stage != STAGE_END && listing->page.len < PAGE_BYTES &&
           entry_count(listing) < listing->given + count)
        fetch_page(listing);
}

int fetch_until(struct listing *listing, size_t index, struct err *err)
{
    while (listing->code == 0 && entry_count(listing) <= index && listing->stage != STAGE_END)
        fetch_page(listing);
    if (listing->code == 0 || entry_count(listing) > index)
        return 0;
    int code = listing->code;
    if (code == -EINTR && err) /* told once: whoever asks again must not do so for ever */
        listing->code = -EIO;
    return err_set(err, -code, "%s", err_text(&listing->fault, code));
}
