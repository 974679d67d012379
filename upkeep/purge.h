/* SPDX-License-Identifier: MIT */
/*
 * Deleting many items by a rule: all, those with a tag, those that are too old, the oldest of too
 * many. What counts as an item's age is its mtime. Each is deleted under the condition that it has
 * the version and the mtime that it was judged by, so that what was saved meanwhile stays.
 *
 * These are the rules of the tag store (tests/vectors/lucinda.json), without what there depends on
 * the order in which a directory happens to be read.
 */
#ifndef UPKEEP_PURGE_H
#define UPKEEP_PURGE_H

#include "backend/backend.h"

enum purge_kind {
    PURGE_ALL,
    PURGE_TAG,      /* those that carry `tag` */
    PURGE_UNTIL,    /* those modified before `before_ns`, strictly */
    PURGE_CAPACITY, /* the oldest, purge_excess(.., min, max) of them */
};

struct purge_rule {
    enum purge_kind kind;
    struct span tag;
    int64_t before_ns;
    uint64_t min, max;
};

/* What a purge has come to. */
struct purge_count {
    uint64_t items;    /* that were looked at; of PURGE_CAPACITY: that there were at first */
    uint64_t deleted;  /* of a dry run: that would be */
    uint64_t wanted;   /* of PURGE_CAPACITY: that are to be deleted, once that is known */
    uint64_t changed;  /* that were saved, touched or deleted by somebody else meanwhile */
    int64_t oldest_ns; /* of PURGE_UNTIL: mtime of the oldest that is to stay; 0: none is */
};
typedef void (*purge_fn)(void *context, const struct purge_count *count);

/*
 * How many of ITEMS are too many. An item more at a time, whenever there are MAX the oldest go
 * until MIN are left; so from MIN to MAX - 1 stay, and at MAX it is MIN. 0 where MIN is not below
 * MAX.
 */
uint64_t purge_excess(uint64_t items, uint64_t min, uint64_t max);

/* Whether what RULE (not PURGE_CAPACITY) says holds of an item. */
bool purge_meets(const struct purge_rule *rule, struct key key, const struct item_meta *meta);

/*
 * Deletes what RULE says of TABLE's items, and counts. EACH (may be NULL) is told how far it is,
 * now and then. DRY: nothing is deleted. FLAGS are those of backend_write. Of items with the same
 * mtime, those that come first by the bytes of their keys are older. Where it fails or is called
 * off (base/cancel.h, -EINTR), RET_COUNT tells what was done.
 */
int purge(struct backend *backend, const struct table *table, const struct purge_rule *rule,
          bool dry, unsigned flags, purge_fn each, void *context, struct purge_count *ret_count,
          struct err *err);

#endif
