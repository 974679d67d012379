/* SPDX-License-Identifier: MIT */
/*
 * Listings. An open directory keeps the names it has given out, so that an offset (the entry's
 * position in that list, growing) means the same entry for as long as the directory is open,
 * whatever comes and goes meanwhile. Entries are fetched a page at a time, in the backend's key
 * order, so the first come after the first page; what is created behind the place reached is not in
 * the listing.
 *
 * A page brings names, attributes and bodies together. The bodies of what was listed are handed to
 * the kernel's page cache (fill.c).
 *
 * While the kernel works on an answer (it makes an inode for each entry), the inodes for the next
 * one are made here, ahead of the request. What the answer says of them is taken when it is given.
 */
#include "fs/listing.h"

#include <errno.h>

static struct span entry_name(const struct listing *listing, size_t index)
{
    const size_t *starts = (const size_t *)(const void *)listing->entries.data;
    size_t end = index + 1 < entry_count(listing) ? starts[index + 1] : listing->names.len;
    return span_of(listing->names.data + starts[index], end - starts[index] - 1);
}

#define UNKNOWN_NUMBER 0xffffffff /* of an inode; none would hide the entry */
#define FRESH_MOST 1024           /* inodes that are handed over at a time */
#define LISTING_BUFS 9
static void listing_bufs(struct listing *listing, struct buf *ret_bufs[LISTING_BUFS])
{
    struct buf *bufs[LISTING_BUFS] = {&listing->names,      &listing->entries,  &listing->details,
                                      &listing->page,       &listing->after,    &listing->before,
                                      &listing->fresh_from, &listing->fresh_to, &listing->fresh};
    memcpy(ret_bufs, bufs, sizeof bufs);
}

int listing_open(struct mount *mount, struct inode *dir, struct listing **ret_listing,
                 struct err *err)
{
    (void)err;
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return -ENOMEM;
    listing->mount = mount;
    listing->begun_ms = cache_ms();
    struct buf *bufs[LISTING_BUFS];
    listing_bufs(listing, bufs);
    for (size_t i = 0; i < LISTING_BUFS; i++)
        buf_init(bufs[i], SIZE_MAX / 2);
    pthread_mutex_init(&listing->lock, NULL);
    scoped_lock(&mount->cache->lock);
    listing->dir = inode_ref(dir);
    listing->next = mount->listings;
    listing->link = &mount->listings;
    if (listing->next)
        listing->next->link = &listing->next;
    mount->listings = listing;
    *ret_listing = listing;
    return 0;
}

void listing_take(struct listing *listing)
{
    pthread_mutex_lock(&listing->lock);
}

void listing_leave(struct listing *listing)
{
    pthread_mutex_unlock(&listing->lock);
}

/* Whether items can be walked through a second time for next to nothing. */
static bool walks_again(const struct listing *listing)
{
    return backend_can(listing->dir->volume->backend, BACKEND_ORDERED) &&
           !volume_table(listing->dir->volume)->unordered;
}

/* The kernel knows what was listed so far: its pages may be filled. */
static void fill_listed(struct listing *listing)
{
    if (!listing->fresh_count)
        return;
    if (walks_again(listing))
        fill_walk(listing->mount, listing->dir, buf_span(&listing->fresh_from),
                  buf_span(&listing->fresh_to));
    else
        fill_cached(listing->mount, listing->dir, &listing->fresh);
    listing->fresh_count = 0;
}

static void drop_fresh(struct listing *listing)
{
    struct inode *const *inodes = (struct inode *const *)(const void *)listing->fresh.data;
    scoped_lock(&listing->mount->cache->lock);
    for (size_t i = 0; i < listing->fresh.len / sizeof(struct inode *); i++)
        inode_unref(listing->mount->cache, inodes[i]);
    buf_clear(&listing->fresh);
}

static void drop_ahead(struct listing *listing)
{
    struct cache *cache = listing->mount->cache;
    scoped_lock(&cache->lock);
    for (size_t i = 0; i < listing->ahead_count; i++)
        if (listing->ahead[i])
            inode_unref(cache, listing->ahead[i]);
    listing->ahead_count = 0;
}

static void listing_release(struct mount *mount, struct listing *listing)
{
    struct buf *bufs[LISTING_BUFS];
    listing_bufs(listing, bufs);
    drop_ahead(listing);
    drop_fresh(listing);
    listing_end_scan(listing);
    for (size_t i = 0; i < LISTING_BUFS; i++)
        buf_release(bufs[i]);
    pthread_mutex_destroy(&listing->lock);
    scoped_lock(&mount->cache->lock);
    *listing->link = listing->next;
    if (listing->next)
        listing->next->link = listing->link;
    inode_unref(mount->cache, listing->dir);
    free(listing);
}

void listing_free(struct mount *mount, struct listing *listing)
{
    listing_take(listing); /* it may still be looking ahead */
    listing_leave(listing);
    fill_listed(listing);
    listing_release(mount, listing);
}

void listings_free(struct mount *mount)
{
    while (mount->listings)
        listing_release(mount, mount->listings);
}

/* Where nobody tells of changes, what was listed counts for a while. */
static bool was_listed_locked(const struct mount *mount, const struct inode *dir)
{
    return dir->volume && dir->filled && told_counts(mount, dir);
}

bool listing_keep(struct mount *mount, struct inode *dir)
{
    if (dir->kind == INODE_CONTROL)
        return false;
    bool told = dir->volume ? backend_can(dir->volume->backend, BACKEND_LOG) : all_tell(mount);
    scoped_lock(&mount->cache->lock);
    bool relist = dir->relist;
    dir->relist = false;
    if (relist || (!told && !was_listed_locked(mount, dir)))
        return false;
    if (!dir->volume || !item_gone(volume_table(dir->volume), dir->meta.ttl, clock_now_s()))
        return true;
    dir->meta.ttl = 0; /* the listing that follows sets it anew */
    return false;
}

/* --- Giving out --- */

static struct inode *adopt_detail_locked(struct listing *listing, const struct detail *detail)
{
    struct mount *mount = listing->mount;
    struct span part = span_of(listing->page.data + detail->part_at, detail->part_len);
    switch (detail->kind) {
    case DETAIL_ITEM: {
        struct span body = span_of(listing->page.data + detail->body_at, detail->body_len);
        if (item_gone(volume_table(listing->dir->volume), detail->meta.ttl, clock_now_s()))
            return NULL;
        return adopt_item_locked(mount, listing->dir, part, &detail->meta, body, detail->mark);
    }
    case DETAIL_PARTITION: {
        struct inode *inode =
            adopt_partition_locked(mount, listing->dir, part, detail->meta.mtime_ns);
        if (inode)
            partition_told_locked(mount, inode, listing->begun_ms);
        return inode;
    }
    case DETAIL_SCRATCH: {
        struct scratch scratch = detail->scratch;
        scratch.name = part;
        return adopt_scratch_locked(mount, listing->dir, &scratch, detail->mark.stamp);
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

/* The inode of entry INDEX, if it was made ahead and still is what the entry stands for. */
static struct inode *ahead_at(const struct listing *listing, size_t index)
{
    if (index < listing->ahead_first || index - listing->ahead_first >= listing->ahead_count)
        return NULL;
    struct inode *inode = listing->ahead[index - listing->ahead_first];
    return inode && inode->state == INODE_ATTACHED && !inode_expired(inode) ? inode : NULL;
}

/* An entry was given out that the kernel had not heard of. */
static void note_fresh_locked(struct listing *listing, struct inode *inode)
{
    if (!walks_again(listing)) {
        buf_add(&listing->fresh, &inode, sizeof(struct inode *));
        if (!buf_error(&listing->fresh))
            inode_ref(inode);
    } else if (listing->fresh_count == 0) {
        buf_clear(&listing->fresh_from);
        buf_add_span(&listing->fresh_from, buf_span(&listing->before));
    }
    listing->fresh_count++;
    buf_clear(&listing->fresh_to);
    buf_add_span(&listing->fresh_to, inode_name(inode));
}

static void note_given_locked(struct listing *listing, struct inode *inode)
{
    if (inode->kind != INODE_ITEM)
        return;
    if (inode->lookups == 1 && !inode->filled)
        note_fresh_locked(listing, inode);
    buf_clear(&listing->before);
    buf_add_span(&listing->before, inode_name(inode));
}

/* Appends the entry as the kernel reads it; false when it does not fit. */
static bool put_entry(struct listing *listing, fuse_req_t req, size_t index,
                      const struct fuse_entry_param *entry, size_t size, bool plus, struct buf *out)
{
    const char *name = entry_name(listing, index).data;
    char *at = out->data + out->len;
    size_t room = size - out->len;
    off_t next = (off_t)index + 1;
    size_t used = plus ? fuse_add_direntry_plus(req, at, room, name, entry, next)
                       : fuse_add_direntry(req, at, room, name, &entry->attr, next);
    if (used > room)
        return false;
    out->len += used;
    listing->given = index + 1;
    return true;
}

/* Appends one entry unless it does not fit; false when it did not. */
static bool emit_locked(struct listing *listing, fuse_req_t req, size_t index, struct inode *inode,
                        size_t size, bool plus, struct buf *out)
{
    bool dot = index < 2;
    struct fuse_entry_param entry = {0};
    if (dot || !plus)
        attr_fill_locked(listing->mount, inode, &entry.attr, &entry.attr_timeout);
    else
        entry_fill_locked(listing->mount, inode, false, &entry);
    if (S_ISDIR(entry.attr.st_mode)) /* its times may have moved since the page was fetched */
        entry.attr_timeout = 0;
    bool fits = put_entry(listing, req, index, &entry, size, plus, out);
    if (plus && !dot && fits)
        note_given_locked(listing, inode);
    else if (plus && !dot)
        inode->lookups--;
    return fits;
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

/* An entry of a view: no inode is made before somebody looks at it. */
static bool emit_view_locked(struct listing *listing, fuse_req_t req, size_t index, size_t size,
                             bool plus, struct buf *out)
{
    const struct inode *root = listing->mount->cache->root;
    cleanup(buf_release) struct buf path;
    buf_init(&path, 1 << 20);
    buf_add_span(&path, inode_name(listing->dir));
    buf_add_char(&path, '/');
    buf_add_span(&path, entry_name(listing, index));
    const struct fuse_entry_param entry = {.attr.st_ino =
                                               inode_number(root, INODE_CONTROL, buf_span(&path)),
                                           .attr.st_mode = listing->view_mode};
    return put_entry(listing, req, index, &entry, size, plus, out);
}

/*
 * Entries of the page from *INDEX on, under one lock, RUN_ENTRIES at most.
 *
 *   RUN_FULL   one did not fit
 *   RUN_ON     there may be more
 *   RUN_ALONE  the page does not settle the next one
 */
#define RUN_ENTRIES 64
enum run { RUN_FULL, RUN_ON, RUN_ALONE };

static enum run emit_run(struct listing *listing, fuse_req_t req, size_t *index, size_t size,
                         bool plus, struct buf *out)
{
    scoped_lock(&listing->mount->cache->lock);
    size_t end = entry_count(listing);
    end = end < *index + RUN_ENTRIES ? end : *index + RUN_ENTRIES;
    for (; *index < end; ++*index) {
        if (listing->view_mode && *index >= 2) {
            if (!emit_view_locked(listing, req, *index, size, plus, out))
                return RUN_FULL;
            continue;
        }
        const struct detail *detail = *index < 2 ? NULL : detail_at(listing, *index);
        struct inode *inode = ahead_at(listing, *index);
        if (!inode && detail)
            inode = adopt_detail_locked(listing, detail);
        if (!inode)
            return RUN_ALONE;
        if (!emit_once_locked(listing, req, *index, inode, size, plus, out))
            return RUN_FULL;
    }
    return RUN_ON;
}

/* An entry that cannot be looked at now: who asks for it is told why. */
static bool emit_name(struct listing *listing, fuse_req_t req, size_t index, size_t size, bool plus,
                      struct buf *out)
{
    const struct fuse_entry_param entry = {.attr.st_ino = UNKNOWN_NUMBER};
    return put_entry(listing, req, index, &entry, size, plus, out);
}

/* One entry that has to be looked at by itself: dots, those of earlier pages, what has moved. */
static bool emit_one(struct listing *listing, fuse_req_t req, size_t index, size_t size, bool plus,
                     struct buf *out)
{
    struct mount *mount = listing->mount;
    struct inode *dir = listing->dir;
    struct inode *inode = index == 1 && dir->parent ? dir->parent : dir;
    bool dot = index < 2;
    int code = dot ? 0 : resolve(mount, dir, entry_name(listing, index), &inode, NULL, NULL);
    if (code == -ENOENT)
        listing->given = index + 1;
    if (code < 0)
        return code == -ENOENT || emit_name(listing, req, index, size, plus, out);
    scoped_lock(&mount->cache->lock);
    bool fits = emit_once_locked(listing, req, index, inode, size, plus, out);
    if (!dot)
        inode_unref(mount->cache, inode);
    return fits;
}

/* The end was given out: all of the directory, as of when it was opened. */
static void note_listed(struct listing *listing)
{
    scoped_lock(&listing->mount->cache->lock);
    listing->dir->filled = true;
    listing->dir->there = entry_count(listing) > 2; /* than the dots */
    inode_told_at(listing->dir, listing->begun_ms);
}

int listing_read(struct listing *listing, fuse_req_t req, off_t offset, size_t size, bool plus,
                 struct buf *out, struct err *err)
{
    /* Before the end it would slow the listing down, unless that waits for a service. */
    if ((listing->stage == STAGE_END && (size_t)offset == entry_count(listing)) ||
        listing->fresh.len >= FRESH_MOST * sizeof(struct inode *))
        fill_listed(listing);
    buf_resize(out, size); /* the room; len counts what is used */
    if (buf_error(out))
        return -ENOMEM;
    out->len = 0;
    listing->given = (size_t)offset; /* what stands before is of no use where a reader has jumped */
    for (size_t index = (size_t)offset;;) {
        int code = fetch_until(listing, index, err);
        if (code == 0 && index >= entry_count(listing))
            note_listed(listing);
        if (code < 0 || index >= entry_count(listing))
            return out->len ? 0 : code; /* told with the next call, which starts at the fault */
        enum run run = emit_run(listing, req, &index, size, plus, out);
        if (run == RUN_ALONE && emit_one(listing, req, index, size, plus, out))
            index++;
        else if (run != RUN_ON)
            return 0;
    }
}

/* What fails here fails again when it is asked for. */
void listing_look_ahead(struct listing *listing)
{
    size_t next = listing->given;
    drop_ahead(listing);
    fetch_ahead(listing, AHEAD_ENTRIES);
    listing->ahead_first = next;
    size_t end = entry_count(listing);
    end = end < next + AHEAD_ENTRIES ? end : next + AHEAD_ENTRIES;
    while (next < end) {
        scoped_lock(&listing->mount->cache->lock);
        for (size_t run = 0; run < RUN_ENTRIES && next < end; run++, next++) {
            const struct detail *detail = detail_at(listing, next);
            struct inode *inode = detail ? adopt_detail_locked(listing, detail) : NULL;
            listing->ahead[listing->ahead_count++] = inode ? inode_ref(inode) : NULL;
        }
    }
}
