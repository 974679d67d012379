/* SPDX-License-Identifier: MIT */
/*
 * How long to wait before a call that failed is made again: a first time, doubled with each further
 * failure up to BACKOFF_MOST times as long, up to a quarter of it left off by chance, so that what
 * failed together does not come back together. It never shrinks while the same call fails. What the
 * function asks for (Retry-After) is waited for as well, up to BACKOFF_TOLD_NS. Pure.
 */
#ifndef DELIVER_BACKOFF_H
#define DELIVER_BACKOFF_H

#include "base/clock.h"

#define BACKOFF_MOST 60
#define BACKOFF_TOLD_NS (300 * NS_PER_S)

struct backoff {
    int64_t first_ns;
    int64_t delay_ns; /* the next one, before chance; 0: none yet */
    int64_t last_ns;  /* what was given last */
};

/* TOLD_NS: what the function asked for, 0: nothing. CHANCE: from 0 to 1. */
int64_t backoff_next(struct backoff *backoff, int64_t told_ns, double chance);

#endif
