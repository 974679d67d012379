/* SPDX-License-Identifier: MIT */
/* An entry of the journal: what it says, its row in the state database, its lock. Used by
 * beside_journal.c and beside_settle.c. */
#ifndef BACKEND_BESIDE_ENTRY_H
#define BACKEND_BESIDE_ENTRY_H

#include <errno.h>

#include "backend/beside_private.h"

#define ENTRY_MAX (256u << 20) /* bytes of its text */

/* Refusals of what somebody else has changed: nothing was applied. */
static inline bool is_conflict(int code)
{
    return code == -ESTALE || code == -EEXIST || code == -ENOENT;
}

/* What an item is, seen from a step. */
enum step_state {
    STEP_BEFORE, /* what it was */
    STEP_AFTER,  /* what it is to be; also where that is the same */
    STEP_OTHER,  /* somebody else has changed it */
};

/* Steps are made in this order, each kind in the batch's own. */
static const enum action_kind step_order[] = {ACTION_PUT, ACTION_DELETE};

/* One item that a batch changes. The spans are the entry's. */
struct step {
    struct span table; /* name */
    uint64_t table_id;
    struct key key;
    struct span before, after; /* typed JSON in canonical form; empty: no item */
    uint64_t version;          /* of `before`; 0: no item */
    struct table *description; /* NULL: not known, or the table is gone */
    enum step_state state;     /* when it was last looked at, */
    uint64_t now;              /* with this version */
    bool lost;                 /* `before` may not be had again: it becomes a draft */
};

struct journal_entry {
    uint64_t id; /* a place in the lock file, too */
    char name[17];
    int lock;           /* -1: none */
    bool beside;        /* what the batch keeps beside the items is not in the entry */
    struct step *steps; /* in the order in which they are made */
    size_t count;
    size_t begun;          /* those that may have been made */
    bool refused;          /* the last of them was not: somebody else has changed its item */
    struct value document; /* what the steps point into */
};

/* A new one, without steps. */
int entry_new(bool beside, struct journal_entry **ret_entry, struct err *err);
/* Adds what STEP says to the document; entry_complete makes the steps of it. */
int entry_add(struct journal_entry *entry, const struct step *step);
int entry_complete(struct journal_entry *entry, struct err *err);
/* The entry whose row is RECORD. */
int entry_read(const struct record *record, struct journal_entry **ret_entry, struct err *err);

/* -EAGAIN: somebody else has it. */
int entry_lock(const struct beside *beside, struct journal_entry *entry, struct err *err);
/* On stable storage. */
int entry_write(struct beside *beside, const struct journal_entry *entry, struct err *err);
/* Whether its row is there still. */
int entry_find(struct beside *beside, const struct journal_entry *entry, bool *ret_there,
               struct err *err);
/* The row goes, and what is lost comes as drafts, in one transaction. */
int entry_close(struct beside *beside, const struct journal_entry *entry, struct err *err);

/* --- items, as an entry has them --- */

/* Appends an item's text, as in a step. */
int step_text(const struct table *table, struct key key, struct span body, int64_t ttl,
              struct buf *out, struct err *err);
/* The same of what the item is now; nothing and version 0 where there is none. */
int step_read(struct beside *beside, const struct table *table, struct key key, struct buf *text,
              uint64_t *ret_version, struct err *err);
/* The body of TEXT, one of the step's, with the time to live that has no place in it. */
int step_body(const struct step *step, struct span text, struct buf *body, int64_t *ret_ttl,
              struct err *err);

#endif
