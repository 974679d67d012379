/* SPDX-License-Identifier: MIT */
/* What the files of beside.h share. */
#ifndef BACKEND_BESIDE_PRIVATE_H
#define BACKEND_BESIDE_PRIVATE_H

#include <pthread.h>

#include "backend/beside.h"

/* A table of the items' backend, and its like in the state database. */
struct pair {
    uint64_t id;
    struct table *state;
    struct pair *next;
};

struct beside {
    struct backend backend; /* first */
    struct backend *items, *state;
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

#define VERSION_TEXT 24
/* The body of a row: the version that its times are of. */
void version_body(uint64_t version, char ret_body[VERSION_TEXT]);
/* The action that notes times: BODY from version_body, MTIME_NS the item's. */
struct action time_action(const struct table *state, struct key key, const char *body,
                          int64_t mtime_ns);
/* Notes META's times for its version. What cannot be noted is noted when it is seen again. */
void note_times(struct beside *, const struct table *state, struct key key,
                const struct item_meta *meta);
int beside_get(struct backend *, const struct table *, struct key, struct item_meta *ret_meta,
               struct buf *body, struct err *);
int beside_walk(struct backend *, const struct table *, const struct walk *, record_fn, void *,
                struct err *);
int beside_query(struct backend *, const struct table *, const struct query *, record_fn, void *,
                 struct err *);

/* --- writing (beside_write.c) --- */

int beside_write(struct backend *, struct action *, size_t count, unsigned flags, struct err *);

#endif
