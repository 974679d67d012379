/* SPDX-License-Identifier: MIT */
/* What the files of beside.h share. */
#ifndef BACKEND_BESIDE_PRIVATE_H
#define BACKEND_BESIDE_PRIVATE_H

#include <pthread.h>

#include "backend/beside.h"
#include "backend/sqlite/times.h"

/* A table of the items' backend, and its like in the state database. */
struct pair {
    uint64_t id;
    struct table *state;
    struct pair *next;
};

struct beside {
    struct backend backend; /* first */
    struct backend *items, *state;
    struct times *times;
    int64_t trimmed_ns;   /* steady clock, of maintenance alone */
    pthread_mutex_t lock; /* guards all below; held while a pair is made */
    struct pair *pairs;   /* never taken away before the end */
};

static inline struct beside *beside_of(struct backend *backend)
{
    return (struct beside *)backend;
}

/* The table of the state database that belongs to TABLE; made where there is none. */
int beside_state(struct beside *, const struct table *table, const struct table **ret_state,
                 struct err *);

/* --- times (beside_times.c) --- */

struct times_row times_row_of(const struct table *table, struct key key,
                              const struct item_meta *meta);
int beside_get(struct backend *, const struct table *, struct key, struct item_meta *ret_meta,
               struct buf *body, struct err *);
int beside_walk(struct backend *, const struct table *, const struct walk *, record_fn, void *,
                struct err *);
int beside_scan_open(struct backend *, const struct table *, const struct scan_range *,
                     struct scan **ret_scan, struct err *);
int beside_scan_next(struct scan *, size_t limit, record_fn, void *, struct err *);
void beside_scan_close(struct scan *);
int beside_query(struct backend *, const struct table *, const struct query *, record_fn, void *,
                 struct err *);

/* --- writing (beside_write.c) --- */

int beside_write(struct backend *, struct action *, size_t count, unsigned flags, struct err *);

#endif
