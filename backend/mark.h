/* SPDX-License-Identifier: MIT */
/*
 * What the lease of a table whose changes are delivered carries as its position: behind what the
 * delivery has come, and what came of it since ever, whoever delivered:
 *   POSITION delivered=120 retried=3 dropped=0 skipped=0 lost=0
 * Pure.
 */
#ifndef BACKEND_MARK_H
#define BACKEND_MARK_H

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

enum tally_kind {
    TALLY_DELIVERED, /* records */
    TALLY_RETRIED,   /* calls made again */
    TALLY_DROPPED,   /* records that the function refused */
    TALLY_SKIPPED,   /* records that became too old */
    TALLY_LOST,      /* times that records, nobody knows how many, were gone before */
    TALLIES
};
struct tally {
    uint64_t of[TALLIES];
};

void mark_add(struct span position, const struct tally *tally, struct buf *out);
/* RET_POSITION is within MARK. What MARK does not tell is 0. */
void mark_read(struct span mark, struct span *ret_position, struct tally *ret_tally);

#endif
