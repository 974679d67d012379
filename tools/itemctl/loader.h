/* SPDX-License-Identifier: MIT */
/*
 * Items on their way into a table, many at once. They wait in a queue, out of which writers take
 * batches; each writer is a thread. How many there are, and how large a batch is, the backend says.
 * An item whose key is being written right now holds up those behind it until that is done: so of
 * several with one key the last stands.
 *
 * Items are numbered as they come, and taken in that order. What is in the table without a gap is
 * all that lies before the lowest number that is not done yet (loader_done): no more than that may
 * be taken for done.
 *
 * One thread uses a loader.
 */
#ifndef ITEMCTL_LOADER_H
#define ITEMCTL_LOADER_H

#include "tools/itemctl/input.h"

struct loader;
int loader_new(const struct subject *subject, struct loader **ret_loader, struct err *err);
/* What has not been written yet is given up. */
void loader_free(struct loader *loader); /* accepts NULL */

/* Takes a copy of the item that begins at PLACE. Waits for room, but not beyond UNTIL_NS (steady
 * clock): then 1, and it was not taken. A negative errno where the load has failed. */
int loader_add(struct loader *loader, const struct packed *item, const struct place *place,
               int64_t until_ns, struct err *err);
/* Waits until all that came before a failure, if there was one, is written: 0 or the failure. */
int loader_drain(struct loader *loader, struct err *err);
/* The place before which all items are in the table; HERE is behind the last one added. */
struct place loader_done(struct loader *loader, const struct place *here);
/* After a failure: where the item is that the backend refused; false: it was no item's fault. Items
 * behind it may have been written where RET_MORE. */
bool loader_refused(struct loader *loader, struct place *ret_place, bool *ret_more);

#endif
