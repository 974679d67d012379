/* SPDX-License-Identifier: MIT */
/*
 * Profiles: tables in which an application stores its items in a form of its own, shown by a mount
 * as people think of them. `[table NAME] profile = NAME` in mount.conf.
 *
 * A table with a profile has two descriptions. The *stored* one is the backend's: what the
 * application, itemctl, change streams and functions see. The *shown* one is the mount's: its keys
 * make the paths, its items the text of the files. Both may have other keys and other attributes.
 * A backend over the backend (shown.h) turns the one into the other; all that it has to know of a
 * profile are the functions below, which are pure: no I/O, any thread.
 *
 *      path            shown key         stored key                stored item
 *      Journal/a-1/0000000000000000007.json
 *                  ->  ("a-1", 7)    ->  (pkey, skey)          <->  shown item, text of the file
 *                      name <-> part     store_key, show_key        store, show
 *
 * To write another profile: a file NAME_profile.c in this directory that defines
 * `const struct profile *const profiles_of_NAME[]`, ended by NULL. cmake finds it; there is nothing
 * else to change. Further files of a profile have any other name.
 */
#ifndef BACKEND_PROFILE_PROFILE_H
#define BACKEND_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/key.h"
#include "base/table.h"
#include "base/value.h"

/* A key of [table NAME] that belongs to a profile. */
enum profile_option_kind {
    OPTION_TEXT,   /* `text`, not empty */
    OPTION_SWITCH, /* `on` */
    OPTION_COUNT,  /* `count`, LEAST to MOST */
    OPTION_WORD,   /* `count`: the place in WORDS */
};
struct profile_option {
    const char *name;
    enum profile_option_kind kind;
    const char *normal; /* as it would be written; NULL (of OPTION_TEXT): `text` is NULL */
    const char *const *words;
    uint64_t least, most;
};
struct profile_value {
    char *text;
    bool on;
    uint64_t count;
};

/* One table with a profile. The strings and descriptions live as long as it does. */
struct profile;
struct profile_table {
    const struct profile *profile;
    const struct profile_value *options; /* in the order of profile->options */
    const struct table *stored, *shown;
    const struct index *listing; /* of `stored`; NULL: there is none */
    bool other_keys;             /* of `stored`, than those of `shown` */
    _Atomic bool *strays;        /* items were seen that store_key would have stored elsewhere; of
                                    the backend over the backend */
    _Atomic bool *left_out;      /* likewise: items were seen that no shown key leads to */
};

/* What an item's attributes tell besides its text. */
struct profile_facts {
    int64_t ttl; /* epoch seconds, the last of its life; 0: never expires */
    bool hidden; /* it is there, and the mount does not show it */
};

struct profile {
    const char *name;
    const struct profile_option *options; /* ended by a name that is NULL */
    bool keeps_key; /* shown items have the attributes of the stored key, too */

    /* Whether the options go together; NULL: they do. -EINVAL with a reason. */
    int (*check)(const struct profile_value *options, struct err *err);

    /* The table as the application makes it (`itemctl create --profile`, mkdir): TABLE has a name
     * and nothing else yet. Keys, indexes, units, its stream; what `fit` sets follows. -ENOMEM. */
    int (*make)(const struct profile_value *options, struct table *table, struct err *err);

    /* Whether STORED, as a backend has described it, is a table of the profile: -EINVAL with the
     * reason. Sets what a backend must know of it: keys (KEYS_PLAIN), ttl_attribute, ttl_whole,
     * eventual. */
    int (*fit)(const struct profile_value *options, struct table *stored, struct err *err);

    /* SHOWN is a copy of STORED, which fits, with no indexes, keys not shown in texts, TTL beside
     * the text: makes of it what the mount shows. May set the keys, sort_digits (names of numbers
     * are that long), show_keys, unordered (the stored order is another one), and add indexes whose
     * attributes have the same values in shown items as in stored ones. NULL: nothing. -ENOMEM. */
    int (*show_table)(const struct profile_value *options, const struct table *stored,
                      struct table *shown, struct err *err);

    /* The index of STORED whose partition and sort keys are those of SHOWN, by which a partition is
     * listed and partitions are found; NULL, or no such function: by reading the whole table. */
    const struct index *(*listing)(const struct profile_value *options, const struct table *stored,
                                   const struct table *shown);

    /* --- Keys; all NULL where the stored key is always the shown one --- */

    /* The stored key of the item SHOWN: appends its canonical parts. -EINVAL with the reason where
     * there can be no such item. An item that the application has stored elsewhere is found by
     * `listing`, and not shown without it. */
    int (*store_key)(const struct profile_table *table, struct key shown, struct buf *partition,
                     struct buf *sort, struct err *err);
    /* The shown key of the stored ITEM. -EINVAL with the reason: it is none of the profile's, and
     * is not shown. */
    int (*show_key)(const struct profile_table *table, const struct value *item,
                    struct buf *partition, struct buf *sort, struct err *err);
    /* The shown key by the stored one alone: 1 where that does not tell, and then the caches of the
     * whole table are told instead. NULL: it never tells. */
    int (*guess_key)(const struct profile_table *table, struct key stored, struct buf *partition,
                     struct buf *sort);

    /* --- Items --- */

    /* Turns the stored ITEM, an M, into the shown one. Key attributes of `shown` are set, and those
     * of `stored` that are not shown removed, by the caller. -EINVAL with the reason: it cannot be
     * shown, which readers of the file are told. Facts are told also then. */
    int (*show)(const struct profile_table *table, struct value *item,
                struct profile_facts *ret_facts, struct err *err);
    /* Turns the shown ITEM, which has SHOWN's key attributes, into the stored one that expires at
     * TTL (0: never). Those of the stored key are set by the caller. -EINVAL with the reason: it
     * cannot be stored so that it would come back as it is. */
    int (*store)(const struct profile_table *table, struct key shown, struct value *item,
                 int64_t ttl, struct err *err);

    /* Whoever reads an item that has expired removes it, as the application does. */
    bool removes_expired;

    /* The partition key, as text, of a read that is made when a mount begins, so that there is a
     * connection; NULL, or no such function: none. */
    const char *(*first_read)(const struct profile_value *options);
};

/* The profile of that name, or NULL. The names of all, in order, by number from 0; NULL behind the
 * last. */
const struct profile *profile_find(const char *name);
const struct profile *profile_number(size_t number);

#endif
