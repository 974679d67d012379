/* SPDX-License-Identifier: MIT */
/* An open directory: what dir.c and fetch.c share. */
#ifndef FS_LISTING_H
#define FS_LISTING_H

#include "fs/operations.h"

enum stage { STAGE_DOTS, STAGE_FIRST, STAGE_SCRATCH, STAGE_LOCAL, STAGE_END };

/* What the current page knows of an entry beyond its name. */
struct detail {
    enum { DETAIL_NONE, DETAIL_ITEM, DETAIL_SCRATCH, DETAIL_PARTITION } kind;
    size_t part_at; /* in page */
    size_t part_len;
    size_t body_at, body_len; /* in page */
    struct item_meta meta;
    struct scratch scratch;
    struct scan_mark mark; /* items and scratch: before it was asked for */
};

#define AHEAD_ENTRIES 256 /* about what the kernel asks for at a time */

/* Everything is guarded by `lock`, which the request that reads on holds until it has looked ahead:
 * also while it fetches, since nobody else has use for the same handle. Taken before cache->lock.
 */
struct listing {
    pthread_mutex_t lock;
    struct mount *mount;
    struct listing *next, **link; /* the mount's open directories: cache->lock */
    struct inode *dir;            /* a reference */
    enum stage stage;
    int code; /* negative once it has failed: it stays failed, so that no retry takes what is
                 left out for the end */
    struct err fault;  /* why */
    uint32_t begun_ms; /* of cache_ms */
    struct buf names;
    struct buf entries; /* size_t[]: where each name begins in `names`; NUL ends it */
    mode_t view_mode;   /* type of all entries, in a view; 0: in no view */
    size_t page_first;  /* index of the first entry that has a detail */
    struct buf
        details;       /* struct detail[]: of entries not given out yet, as far as they are known */
    struct buf page;   /* bytes of theirs */
    struct scan *scan; /* of items, from the first page to the last */
    struct buf after;  /* partition that the next page starts behind */
    struct scan_mark mark;              /* of the page, before it was asked for */
    size_t given;                       /* behind the last entry given out */
    struct inode *ahead[AHEAD_ENTRIES]; /* references, or NULL: entries from ahead_first on */
    size_t ahead_first, ahead_count;
    atomic_bool *ahead_flag; /* ends the looking ahead; NULL: there is none. cache->lock */
    /* The items that the kernel first heard of here: their pages are filled at the end. */
    struct buf before;               /* key part of the last entry that was given out */
    struct buf fresh_from, fresh_to; /* key parts: behind this one, up to that */
    struct buf fresh;                /* or the inodes themselves, struct inode *[], references */
    size_t fresh_count;
};

static inline size_t entry_count(const struct listing *listing)
{
    return listing->entries.len / sizeof(size_t);
}

/* The looking ahead begins, to be called off by FLAG (may be NULL), or ends (NULL). */
static inline void listing_looks_ahead(struct listing *listing, atomic_bool *flag)
{
    scoped_lock(&listing->mount->cache->lock);
    listing->ahead_flag = flag;
}

/* It need not go on. */
static inline void listing_call_off(struct listing *listing)
{
    scoped_lock(&listing->mount->cache->lock);
    if (listing->ahead_flag)
        atomic_store(listing->ahead_flag, true);
}

/* listing_take, given up after a moment: whether it was had. */
static inline bool listing_take_soon(struct listing *listing)
{
    int64_t until_ns = clock_now_ns() + NS_PER_S / 10;
    const struct timespec until = {until_ns / NS_PER_S, until_ns % NS_PER_S};
    return pthread_mutex_timedlock(&listing->lock, &until) == 0;
}

/* Fetches pages until entry INDEX is there, or the end. What came before a failure is there; it is
 * told at its place, each time. ERR may be NULL. (fetch.c) */
int fetch_until(struct listing *listing, size_t index, struct err *err);
/* Fetches pages until there are COUNT entries behind the last one given out, as far as they are
 * small. */
void fetch_ahead(struct listing *listing, size_t count);

/* Gives up the scan, if there is one. */
static inline void listing_end_scan(struct listing *listing)
{
    backend_scan_close(listing->scan);
    listing->scan = NULL;
}

#endif
