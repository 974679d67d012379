/* SPDX-License-Identifier: MIT */
/* The arithmetic of the SDKs' standard retries: facts, section 1. Pure: chance is handed in. */
#ifndef BACKEND_DYNAMODB_RETRY_H
#define BACKEND_DYNAMODB_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define RETRY_ATTEMPTS 4 /* of a call in all, the first one included */
#define RETRY_TOKENS 500 /* a full bucket */

/* What an answer means for the call. */
enum retry_kind {
    RETRY_NOT,         /* it stands */
    RETRY_TRANSIENT,   /* the service or the way to it failed */
    RETRY_THROTTLED,   /* too much at once */
    RETRY_SKEWED,      /* perhaps our clock is wrong: the answer's Date tells */
    RETRY_CREDENTIALS, /* they have expired */
};

/* The kind of an answer that is an error: its HTTP status, and its name without namespace, "" where
 * it has none. The name decides where it is one of those known; else the status does. */
enum retry_kind retry_kind_of(long status, const char *type);

/*
 * How long to wait before retry number RETRY (from 1) of a kind that waits: CHANCE, in [0, 1), of
 * 25 ms (throttled: 1 s) doubled with each retry, at most 20 s. What the service asks for
 * (x-amz-retry-after, -1: nothing) is kept to between that and 5 s more.
 */
int64_t retry_delay_ms(enum retry_kind kind, unsigned retry, double chance, int64_t asked_ms);

/* A client's patience, which all its calls share: without it, a service in trouble would get four
 * times the load. Not locked. */
struct retry_bucket {
    int tokens;
};
void retry_bucket_init(struct retry_bucket *bucket);
/* Pays for a retry. The cost, or 0 where too little is left: the call fails now. */
int retry_bucket_take(struct retry_bucket *bucket, enum retry_kind kind);
/* A call has succeeded. PAID is what its last retry cost, 0 where there was none. */
void retry_bucket_give(struct retry_bucket *bucket, int paid);

#endif
