/* SPDX-License-Identifier: MIT */
/*
 * A budget of units a second. What something costs is often known only behind it, so taking is
 * always possible and may lead into debt; what keeps to the budget waits while there is one.
 *
 * There is no level that would have to be filled up as time passes. What is kept is the moment from
 * which on nothing is owed: taking N units moves it by N/rate seconds. A moment that has passed is
 * credit, of BUCKET_CREDIT_NS at most. So within any time T, what waits takes no more than
 * rate x (T + BUCKET_CREDIT_NS) and one request. Pure: the time is handed in, nanoseconds of a
 * steady clock. Not locked.
 */
#ifndef BACKEND_DYNAMODB_BUCKET_H
#define BACKEND_DYNAMODB_BUCKET_H

#include <stdint.h>

#include "base/clock.h"

#define BUCKET_CREDIT_NS NS_PER_S

struct bucket {
    double rate; /* units a second; 0: there is no limit, and nothing else happens here */
    int64_t clear_ns;
};

/* Without debt and without credit. */
void bucket_init(struct bucket *bucket, double rate, int64_t now_ns);
/* How long there will be a debt; 0: there is none. */
int64_t bucket_debt_ns(const struct bucket *bucket, int64_t now_ns);
void bucket_take(struct bucket *bucket, double units, int64_t now_ns);
/* It was so much more (less, where negative): as if that had been taken in the first place. */
void bucket_correct(struct bucket *bucket, double units);

#endif
