/* SPDX-License-Identifier: MIT */
/* What the files of akka's profiles share. */
#ifndef BACKEND_PROFILE_AKKA_PRIVATE_H
#define BACKEND_PROFILE_AKKA_PRIVATE_H

#include "backend/profile/akka.h"

/* The options, in the order in which the profiles declare them: states have the first ones only,
 * snapshots all but the last. */
enum {
    SHARD_COUNT,
    SEPARATOR,
    PARTITION_KEY_RESOLVER,
    PARTITION_KEY_COLUMN,
    SORT_KEY_COLUMN,
    PERSISTENCE_ID_COLUMN,
    DELETED_COLUMN,
    TAGS_COLUMN,
    SHOW_DELETED,
    SORT_KEY_RESOLVER,
    PADDED,
    SEQUENCE_NR_COLUMN,
    ROWS_INDEX,
    TAGS_INDEX,
};

/* The functions of struct profile, of all three. A state is told by its shown table, which has no
 * sort key. */
int akka_store_key(const struct profile_table *table, struct key shown, struct buf *partition,
                   struct buf *sort, struct err *err);
int akka_show_key(const struct profile_table *table, const struct value *item,
                  struct buf *partition, struct buf *sort, struct err *err);
int akka_guess_key(const struct profile_table *table, struct key stored, struct buf *partition,
                   struct buf *sort);

#endif
