/* SPDX-License-Identifier: MIT */
/* What the files of beside.h share. */
#ifndef BACKEND_BESIDE_PRIVATE_H
#define BACKEND_BESIDE_PRIVATE_H

#include <pthread.h>

#include "backend/beside.h"
#include "backend/times.h"

/* A table of the items' backend, and its like in the state database: same name and keys. That holds
 * scratch files, and nothing else: its times tell when one came or went. */
struct pair {
    uint64_t id;
    struct table *files;
    struct pair *next;
};

struct beside {
    struct backend backend; /* first */
    struct backend *items, *state;
    struct times *times;
    struct table *directories; /* of the state database: when items came and went */
    struct table *journal;     /* of the state database; NULL: nothing is ever written */
    char *lock_path;           /* its file's bytes are the locks of the journal's entries */
    int64_t settle_ns;         /* the keeper's: when it next looks at the journal, steady clock */
    int64_t settle_pause_ns;   /* the keeper's: doubled while that fails */
    pthread_mutex_t lock;      /* guards all below; held while a pair is made */
    struct pair *pairs;        /* never taken away before the end */
};

static inline struct beside *beside_of(struct backend *backend)
{
    return (struct beside *)backend;
}

/* The state database's table for the scratch files of TABLE; made where there is none. */
int beside_files(struct beside *, const struct table *table, const struct table **ret_files,
                 struct err *);
/* A table of the state database without stream or time to live, made where there is none, as a copy
 * to free. SORT NULL: no sort key; else both are texts. */
int state_table(struct beside *, const char *name, const char *partition, const char *sort,
                struct table **ret_table, struct err *);

/* --- times (beside_times.c) --- */

/* The row of an item. */
struct times_row times_row_of(const struct table *table, struct key key,
                              const struct item_meta *meta);
/* Gives META the times that ROW has. */
void times_to_meta(const struct times_row *row, struct item_meta *meta);
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

/* --- directories (beside_directory.c) --- */

#define DIRECTORY_ACTIONS 2 /* a directory, and the table's that it is in */
struct directory_note {
    char table[17], body[24];
    struct buf name;
};
/* The actions that note, at NOW_NS, that an item or file of PARTITION came or went; into ACTIONS,
 * which has room for DIRECTORY_ACTIONS. NOTE is to be released after they have been applied. */
int directory_actions(struct beside *, const struct table *table, struct span partition,
                      int64_t now_ns, struct directory_note *note, struct action *actions,
                      size_t *ret_count);
/* Moves TABLE's changed_ns to what is noted of it, where that is later. */
void directory_see(struct beside *, struct table *table);
/* What was noted of a table goes. */
int directory_forget(struct beside *, const struct table *table, struct err *);
int beside_tables(struct backend *, table_fn each, void *context, struct err *);
int beside_partitions(struct backend *, const struct table *, struct span after, size_t limit,
                      partition_fn, void *, struct err *);
int beside_partition(struct backend *, const struct table *, struct span partition,
                     uint64_t *ret_items, int64_t *ret_changed_ns, struct err *);

/* --- writing (beside_write.c) --- */

int beside_write(struct backend *, struct action *, size_t count, unsigned flags, struct err *);
int beside_update(struct backend *, const struct table *, struct key, const struct update *,
                  struct item_meta *ret_meta, struct buf *ret_number, struct err *);

/* --- the journal (beside_journal.c) --- */

/* Whether ACTION is one of the items' backend that changes an item. */
static inline bool changes_item(const struct action *action)
{
    return action->kind == ACTION_PUT || action->kind == ACTION_DELETE;
}

/* A batch under way. */
struct journal_entry;

/* Opens the journal, and settles it as far as that can be done now. */
int journal_open(struct beside *, const char *lock_path, struct err *);
/* Ends every batch that was cut short and is about one of the items that ACTIONS are about; COUNT
 * 0: every one. */
int journal_settle(struct beside *, const struct action *actions, size_t count, struct err *);

/* Reads what ACTIONS are about to change, checks their conditions and writes it all down. BESIDE:
 * the batch puts something beside the items. To be ended (journal_end). */
int journal_begin(struct beside *, const struct action *actions, size_t count, bool beside,
                  struct journal_entry **ret_entry, struct err *);
/* Applies the actions that change items, with their results. */
int journal_apply(struct beside *, struct journal_entry *, struct action *actions, size_t count,
                  struct err *);
/* The action that takes the entry out. The batch is done when it has been applied. */
struct action journal_done(const struct beside *, const struct journal_entry *);
/*
 * After a failure with CODE and the message OWN: the items are brought to what they were, and ERR
 * gets the message. Or, where FORWARD says so and the failure leaves open what was applied, to what
 * they were to be: 0, with results. Where neither can be had now, the entry stays.
 */
int journal_rescue(struct beside *, struct journal_entry *, struct action *actions, size_t count,
                   bool forward, int code, const struct err *own, struct err *err);
void journal_end(struct journal_entry *); /* accepts NULL */

#endif
