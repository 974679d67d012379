/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/bucket.h"

#include <math.h>

#define LONGEST_NS 1e18 /* thirty years: sums of moments stay within int64_t */

void bucket_init(struct bucket *bucket, double rate, int64_t now_ns)
{
    *bucket = (struct bucket){.rate = rate, .clear_ns = now_ns};
}

int64_t bucket_debt_ns(const struct bucket *bucket, int64_t now_ns)
{
    return bucket->rate > 0 && bucket->clear_ns > now_ns ? bucket->clear_ns - now_ns : 0;
}

static int64_t time_of(const struct bucket *bucket, double units)
{
    double ns = units / bucket->rate * (double)NS_PER_S;

    return (int64_t)llround(fmax(-LONGEST_NS, fmin(ns, LONGEST_NS)));
}

void bucket_take(struct bucket *bucket, double units, int64_t now_ns)
{
    if (!(bucket->rate > 0))
        return;
    if (bucket->clear_ns < now_ns - BUCKET_CREDIT_NS)
        bucket->clear_ns = now_ns - BUCKET_CREDIT_NS;
    bucket_correct(bucket, units);
}

void bucket_correct(struct bucket *bucket, double units)
{
    int64_t sum;

    if (bucket->rate > 0 && !__builtin_add_overflow(bucket->clear_ns, time_of(bucket, units), &sum))
        bucket->clear_ns = sum;
}
