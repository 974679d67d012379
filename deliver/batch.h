/* SPDX-License-Identifier: MIT */
/*
 * The body of one call:
 *   {"trigger_type":"change_stream","change_table":"users","change_records":[...]}
 * with records as change_to_json makes them. It takes 100 records at most, and no further one once
 * it has BATCH_BYTES: so it is smaller than 1 MiB unless its last record has more than half of
 * that. Records that are too old to be delivered are taken out again. Pure.
 */
#ifndef DELIVER_BATCH_H
#define DELIVER_BATCH_H

#include "backend/stream.h"
#include "base/clock.h"
#include "base/config.h"

#define BATCH_BYTES (512u << 10)
#define BATCH_AGE_NS (86400 * NS_PER_S) /* what was changed before is not delivered any more */

struct batch_record {
    size_t begin, end; /* in `body` */
    size_t id;         /* in `ids` */
    int64_t time_ns;
};

struct batch {
    struct buf body; /* complete at any time */
    struct buf ids;  /* each with its NUL */
    struct batch_record records[CONFIG_BATCH_MOST];
    size_t count;
};

void batch_init(struct batch *batch);
void batch_release(struct batch *batch);
/* Empty, for TABLE. What an unusually large one has used is given back. */
void batch_clear(struct batch *batch, const struct table *table);
/* TABLE as for batch_clear; fewer than CONFIG_BATCH_MOST records are in it. 1: no further one
 * should be added; -ENOMEM, -EFBIG: the batch is of no use any more. */
int batch_add(struct batch *batch, const struct table *table, const struct change *change);
const char *batch_id(const struct batch *batch, size_t number);
/* Takes out what is too old at NOW_NS; the rest stays as it is. How many records that is. */
size_t batch_drop_old(struct batch *batch, int64_t now_ns);

#endif
