/* SPDX-License-Identifier: MIT */
/* Typed items on their way into a table: checked one by one, written up to BATCH_ITEMS at once. */
#ifndef ITEMCTL_BATCH_H
#define ITEMCTL_BATCH_H

#include "base/buf.h"
#include "tools/itemctl/itemctl.h"

#define BATCH_ITEMS 200
#define BATCH_BYTES (8u << 20) /* of bodies: larger batches end earlier */

struct batch {
    const struct subject *subject;
    struct packed packed; /* the last one that was added */
    struct buf bytes;     /* keys and bodies */
    struct {
        size_t partition, sort, body, end; /* where they begin in BYTES */
        int64_t ttl;
        double units;
    } items[BATCH_ITEMS];
    size_t count;
};

void batch_init(struct batch *batch, const struct subject *subject);
void batch_release(struct batch *batch);
/* Checks a typed item as far as can be without asking the backend, and adds it. -EINVAL, -EFBIG or
 * -ERANGE with a reason, and then the batch is as before. There must be room. */
int batch_add(struct batch *batch, struct span typed, struct err *err);
bool batch_full(const struct batch *batch);
/* Appends the item that was added last, typed, as it is going to be stored. */
int batch_last(const struct batch *batch, struct buf *out, struct err *err);
/* Puts all items, in their order, and empties the batch. */
int batch_write(struct batch *batch, struct err *err);
void batch_clear(struct batch *batch);

#endif
