/* SPDX-License-Identifier: MIT */
/*
 * Where a reader is in the streams of a table. Each time a stream is switched on, the table has
 * another one; they are read one after another, in the order of their labels (times as text). Pure.
 *
 * As text, what itemfs keeps as a position:
 *
 *   1,TABLE,LABEL                             the stream LABEL, and all before, is read to its end
 *   1,TABLE,LABEL,ARN,PREFIX,REST=HOW,...     it is being read: of each shard PREFIX REST
 *
 * TABLE is the table's id, 16 hexadecimal digits; LABEL is empty where there was no stream yet. HOW
 * is the sequence number of the last record that was given; @SECONDS: nothing was given, and what
 * was made before that time is not wanted; "end": read to its end; nothing: not begun. Left out is
 * what follows from the rest and the service's list: shards that were read and have children, and
 * those that wait for their parents.
 */
#ifndef BACKEND_DYNAMODB_PLACE_H
#define BACKEND_DYNAMODB_PLACE_H

#include "backend/dynamodb/shard.h"
#include "base/buf.h"

#define PLACE_ARN_MAX 1024
#define PLACE_LABEL_MAX 255

struct place {
    uint64_t table_id;
    char *label;          /* of the stream that is or was read; "": none yet. On the heap */
    char *arn;            /* of the stream being read; NULL: it is read to its end. On the heap */
    struct shards shards; /* of ARN */
};

/* Nothing read. -ENOMEM. */
int place_init(struct place *place, uint64_t table_id);
void place_release(struct place *place); /* accepts a zeroed one */
void place_to_text(const struct place *place, struct buf *out);
/* -EINVAL for what is no place, -ENOMEM; RET_PLACE needs no release then. */
int place_from_text(const char *text, struct place *ret_place);

#endif
