/* SPDX-License-Identifier: MIT */
/*
 * The shards of one stream, and how far each of them was read. A shard holds the records of some of
 * the items for some hours; then it is closed, and one child or two go on in its place. So a child
 * is read when its parent has been read to its end: that keeps the order of each item's changes.
 * Pure.
 */
#ifndef BACKEND_DYNAMODB_SHARD_H
#define BACKEND_DYNAMODB_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define SHARDS_MAX 20000
#define SHARD_TEXT_MAX                                                                             \
    255 /* bytes of an id or a sequence number; the service's have 65 at most                      \
         */

struct shard {
    char *id;
    char *parent; /* NULL: it has none */
    char *after;  /* sequence number of the last record given or passed over; NULL: none yet */
    int64_t
        since_s;  /* without AFTER: what was made before is not wanted; epoch seconds, 0: all is */
    bool done;    /* read to its end */
    bool divided; /* has a child among the shards */

    /* Of who reads it (stream_read.c); all zero: nothing was asked yet. */
    char *iterator;   /* of the next page; NULL: to be asked for */
    bool sifted;      /* what ITERATOR brings may have been made before SINCE_S */
    bool missing;     /* the service says that it is not there: the list has to be asked */
    bool doubted;     /* it was, and stands in the list all the same */
    unsigned empty;   /* pages without a record since the last one; or as if there had been some */
    int64_t asked_ns; /* steady clock: when it was asked last; 0: never */
    int64_t due_ns;   /* it is not asked before */
};

/* By id, unless said otherwise; no id twice. */
struct shards {
    struct shard *list;
    size_t count, room;
};

/* Whether WORD can stand in a position: 1 to MOST bytes of ASCII, none of them a space, a control
 * byte, "," or "=". */
bool word_is_fit(struct span word, size_t most);

void shards_release(struct shards *shards);
/* At the end, out of order; both texts are copied, PARENT with data NULL: none. -ENOMEM, -EFBIG
 * over SHARDS_MAX, -EINVAL for texts that cannot stand in a position (word_is_fit). Valid until the
 * next addition. */
int shards_add(struct shards *shards, struct span id, struct span parent, struct shard **ret_shard);
/* Puts them in order; of those with one id one stands. */
void shards_sort(struct shards *shards);
struct shard *shards_find(const struct shards *shards, const char *id); /* NULL */

/*
 * Brings SHARDS up to what the service lists now: LISTED, in any order, is taken. What is known of
 * a shard stays; one that is new is to be read from its beginning. FIRST: SHARDS are those of a
 * position, where what was read long ago is left out, so one from which a shard of theirs descends
 * has been read.
 *
 * A shard that is not listed any more stays as long as it may have records (the list may be behind
 * the times), until it is missing. RET_LOST is set where that was not read to its end, or, FIRST,
 * where the children of one that was are gone, too. -ENOMEM: nothing has happened.
 */
int shards_update(struct shards *shards, struct shards *listed, bool first, bool *ret_lost);

/* Whether it can be read now: it is not done, and its parent is, or is not there any more. */
bool shard_is_ready(const struct shards *shards, const struct shard *shard);
/* A copy of TEXT in the place of *FIELD; -ENOMEM leaves it. */
int shard_set(char **field, struct span text);
/* <0, 0, >0, as numbers of any length. */
int sequence_compare(const char *a, const char *b);

#endif
