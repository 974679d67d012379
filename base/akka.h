/* SPDX-License-Identifier: MIT */
/*
 * The keys that akka-persistence-dynamodb gives its rows, made of a persistence id and a sequence
 * number. Pure. Where the plugin's document says something else than the plugin does, this does
 * what the plugin does (tests/vectors/akka.json), since rows are looked for by it.
 *
 *   partition key   <id>-<number mod shards>             AKKA_SEQUENCE_NUMBER_BASED
 *                   [<prefix>-]<40 digits>               AKKA_PERSISTENCE_ID_BASED: a hash of the
 * id, 1 .. shards sort key        <number>                             AKKA_SEQ_NR
 *                   [<body>-]<19 digits>                 AKKA_PERSISTENCE_ID_WITH_SEQ_NR
 *                   <id>                                 AKKA_WHOLE_ID: states
 *
 * An id's prefix and body are its first two parts between separators, as String.split of Java has
 * them: empty parts at the end are none. What is in brackets is absent where the id has no
 * separator. The "-" is one whatever the separator is.
 */
#ifndef BASE_AKKA_H
#define BASE_AKKA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define AKKA_ID_MOST 2048 /* UTF-16 units */
#define AKKA_SEQUENCE_DIGITS 19
#define AKKA_SHARDS_DEFAULT 64
#define AKKA_SHARDS_MOST INT32_MAX
#define AKKA_SEPARATOR "-"
#define AKKA_TAG_SEPARATOR ','

enum akka_partition { AKKA_SEQUENCE_NUMBER_BASED, AKKA_PERSISTENCE_ID_BASED };
enum akka_sort { AKKA_SEQ_NR, AKKA_PERSISTENCE_ID_WITH_SEQ_NR, AKKA_WHOLE_ID };

struct akka_rules {
    enum akka_partition partition;
    enum akka_sort sort;
    bool padded;           /* AKKA_SEQ_NR: with 19 digits, as the plugin's document shows it */
    struct span separator; /* akka_check_separator */
    int32_t shard_count;   /* from 1 */
};

/* What a row's attributes are called. */
struct akka_columns {
    const char *partition_key, *sort_key; /* S */
    const char *persistence_id;           /* S */
    const char *sequence_nr;              /* N */
    const char *deleted;                  /* BOOL: softly, the row is still there */
    const char *tags;                     /* S, with AKKA_TAG_SEPARATOR between them */
};
#define AKKA_COLUMNS                                                                               \
    ((struct akka_columns){"pkey", "skey", "persistence-id", "sequence-nr", "deleted", "tags"})

/* Text of 1 to AKKA_ID_MOST UTF-16 units; -EINVAL. */
int akka_check_id(struct span id, struct err *err);
/* Not empty, and no pattern: the plugin gives it to a function that takes it for a regular
 * expression. -EINVAL. */
int akka_check_separator(struct span separator, struct err *err);
/* TEXT, a JSON number, as a sequence number, 0 to 2^63 - 1; -EINVAL. */
int akka_sequence(struct span text, int64_t *ret_sequence, struct err *err);

/* Append the key to OUT. -EINVAL where the id is none, or the plugin itself fails: for want of a
 * prefix or body. SEQUENCE, from 0, is not looked at where the key has no part of it. */
int akka_partition_key(const struct akka_rules *rules, struct span id, int64_t sequence,
                       struct buf *out, struct err *err);
int akka_sort_key(const struct akka_rules *rules, struct span id, int64_t sequence, struct buf *out,
                  struct err *err);

/* Whether TAG is one of TAGS, as a row has them: with "," between them. */
bool akka_has_tag(struct span tags, struct span tag);

#endif
