/* SPDX-License-Identifier: MIT */
/* How far the delivery of a table's changes has come, as its lease and its stream tell: whatever
 * daemon delivers them, and where none does. */
#ifndef ITEMCTL_DELIVERY_H
#define ITEMCTL_DELIVERY_H

#include "backend/mark.h"
#include "backend/stream.h"
#include "base/config.h"
#include "tools/itemctl/output.h"

struct delivery {
    const char *function; /* safe to show */
    struct lease lease;
    struct span position; /* of the lease, without the tally */
    struct tally tally;
    bool counted; /* the backend can tell how many there are to come: */
    struct stream_lag lag;
};
/* Of a table with a function. */
int delivery_look(struct backend *backend, const struct table *table,
                  const struct table_config *settings, struct delivery *ret_delivery,
                  struct err *err);
void delivery_release(struct delivery *delivery);
/* {"Function", "Holder", "Position", "RecordsBehind", "SecondsBehind", "Delivered", "Retried",
 * "Dropped", "Skipped", "Lost"}: what is known of it. */
void delivery_to_json(const struct delivery *delivery, struct buf *out);
/* Rows of two columns. */
void delivery_add_rows(const struct delivery *delivery, struct grid *grid);
/* How far it has come, in numbers: a row of a grid with these heads, for the table TABLE. */
#define DELIVERY_COLUMNS 8
extern const char *const delivery_heads[DELIVERY_COLUMNS];
void delivery_add_numbers(const struct delivery *delivery, const char *table, struct grid *grid);

#endif
