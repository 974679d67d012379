/* SPDX-License-Identifier: MIT */
/* What the files behind shown.h share. */
#ifndef BACKEND_PROFILE_SHOWN_PRIVATE_H
#define BACKEND_PROFILE_SHOWN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/profile/shown.h"
#include "base/cleanup.h"

/* A table as it was described: kept until the backend is closed, since descriptions lead to it. */
struct shown_table {
    struct profile_table table;   /* first */
    struct table *stored, *shown; /* of `table` */
    struct table *described;      /* by the source */
    const struct profile_choice *choice;
    bool plain; /* the table has no profile any more: shown->lock */
    _Atomic bool strays, left_out;
    struct part_list *parts;  /* of the listing that is under way, or NULL; shown->lock */
    struct shown_table *next; /* described earlier */
};

struct shown {
    struct backend backend; /* first */
    struct backend_ops ops; /* without those that the backend below has not */
    struct backend *stored;
    bool read_only;
    pthread_mutex_t lock; /* guards `tables`, and their `parts` */
    struct shown_table *tables;
};

static inline struct shown *shown_of(struct backend *backend)
{
    return (struct shown *)backend;
}

/* The last description of the table with that id; NULL where it has no profile. */
const struct profile_table *shown_find(struct shown *shown, uint64_t table_id);

/* No call is under way any more. */
void parts_forget(struct shown_table *known);

/* --- One item --- */

/* An item on its way in one direction or the other; buffers are reused. */
struct shown_item {
    struct buf partition, sort;           /* canonical */
    struct buf body;                      /* or why there is none to show */
    struct item_meta meta;                /* of one that is shown */
    bool hidden;                          /* likewise: by its profile, or it has expired */
    int64_t ttl;                          /* of one to be stored: beside the body */
    struct buf made_partition, made_sort; /* for one that is shown: where it should be stored */
};
void shown_item_init(struct shown_item *item);
void shown_item_release(struct shown_item *item);
static inline struct key shown_item_key(const struct shown_item *item)
{
    return (struct key){buf_span(&item->partition), buf_span(&item->sort)};
}

/* The record of the stored table as it is shown, with the text of its file if WITH_BODY, else with
 * the size alone. -EINVAL does not come: what cannot be shown is unreadable, and what has no shown
 * key is hidden. RECORD has its body. */
int item_show(const struct profile_table *table, const struct record *record,
              struct shown_item *item);
/* The stored key of the shown one, as its profile makes it; in ITEM. */
int item_stored_key(const struct profile_table *table, struct key key, struct shown_item *item,
                    struct err *err);
/* The shown item KEY with the text BODY, as it is to be stored under the key that ITEM has. */
int item_store(const struct profile_table *table, struct key key, struct span body, int64_t ttl,
               struct shown_item *item, struct err *err);
/* The text of ITEM, which item_store has made, when it is shown; in SHOWN. */
int item_shown_text(const struct profile_table *table, const struct shown_item *item,
                    struct shown_item *shown, struct err *err);

/* --- Where it is stored (shown_place.c) --- */

/* The item at the stored key of PLACE, shown, in ITEM. -ENOENT: there is none of the shown key KEY;
 * 1: it is hidden. */
int item_read(struct shown *, const struct profile_table *, struct key key,
              const struct shown_item *place, struct shown_item *item, struct err *err);
/* PLACE, which has the stored key that the profile makes of the shown KEY, or none, gets that of a
 * stray: of an item with that shown key, stored elsewhere. 1: there is one; else 0. */
int item_find_stray(struct shown *, const struct profile_table *, struct key key,
                    struct shown_item *place, struct err *err);
/* The stored key of the shown one, there or to be made; in PLACE. */
int item_locate(struct shown *, const struct profile_table *, struct key key,
                struct shown_item *place, struct err *err);

/* --- Operations --- */

int shown_get(struct backend *, const struct table *, struct key, struct item_meta *ret_meta,
              struct buf *body, struct err *);
int shown_walk(struct backend *, const struct table *, const struct walk *, record_fn, void *,
               struct err *);
int shown_query(struct backend *, const struct table *, const struct query *, record_fn, void *,
                struct err *);
int shown_partitions(struct backend *, const struct table *, struct span after, size_t limit,
                     partition_fn, void *, struct err *);
int shown_partition(struct backend *, const struct table *, struct span partition,
                    uint64_t *ret_items, int64_t *ret_changed_ns, struct err *);
int shown_index_values(struct backend *, const struct table *, const struct index *, value_fn,
                       void *, struct err *);
int shown_scan_open(struct backend *, const struct table *, const struct scan_range *,
                    struct scan **ret_scan, struct err *);
int shown_scan_next(struct scan *, size_t limit, record_fn, void *, struct err *);
void shown_scan_close(struct scan *);
int shown_write(struct backend *, struct action *, size_t count, unsigned flags, struct err *);
int shown_body(struct backend *, const struct action *, struct buf *out, struct err *);
int shown_update(struct backend *, const struct table *, struct key, const struct update *,
                 struct item_meta *ret_meta, struct buf *ret_number, struct err *);
int shown_log(struct backend *, uint64_t after, size_t limit, log_fn, void *, struct err *);
int shown_stream_open(struct backend *, const struct table *, const char *position,
                      struct stream **ret_stream, struct err *);
int shown_stream_next(struct stream *, size_t limit, change_fn, void *, struct err *);
int shown_stream_position(struct stream *, struct buf *out);
int shown_stream_behind(struct stream *, uint64_t *ret_records, struct err *);
void shown_stream_close(struct stream *);

/* A read of one partition of the shown table, by the index that lists it. */
struct part_query {
    struct span partition;
    bool has_from, has_to, behind; /* `behind`: FROM itself is left out */
    struct span from, to;
    bool reverse;
    size_t limit; /* 0: all */
};
/* RET_ENDED (may be NULL): there was no more. -EOPNOTSUPP where there is no such index. */
int query_partition(struct shown *, const struct profile_table *, const struct part_query *,
                    record_fn, void *, bool *ret_ended, struct err *);

#endif
