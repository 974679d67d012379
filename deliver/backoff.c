/* SPDX-License-Identifier: MIT */
#include "deliver/backoff.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t backoff_next(struct backoff *backoff, int64_t told_ns, double chance)
{
    int64_t limit = backoff->first_ns * BACKOFF_MOST;

    backoff->delay_ns = backoff->delay_ns ? least(2 * backoff->delay_ns, limit) : backoff->first_ns;
    int64_t left_off = (int64_t)((double)backoff->delay_ns / 4 * chance);
    int64_t wait_ns = most(backoff->delay_ns - left_off, backoff->last_ns);
    wait_ns = most(wait_ns, least(told_ns, BACKOFF_TOLD_NS));
    backoff->last_ns = least(wait_ns, limit);
    return wait_ns;
}
