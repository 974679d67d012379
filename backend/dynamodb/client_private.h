/* SPDX-License-Identifier: MIT */
/* The inside of a client, shared by client.c (opening), client_call.c (retries) and
 * client_attempt.c (one request). Nothing else includes it. */
#ifndef BACKEND_DYNAMODB_CLIENT_PRIVATE_H
#define BACKEND_DYNAMODB_CLIENT_PRIVATE_H

#include <pthread.h>

#include "backend/dynamodb/answer.h"
#include "backend/dynamodb/client.h"
#include "backend/dynamodb/retry.h"

#define CLIENT_SKEW_MIN_S 300 /* the service accepts what is off by less */

#define CLIENT_UNTOLD INT64_MIN

/* Where calls of one kind go. */
struct endpoint {
    char *url;
    char *host;         /* as in the Host header */
    const char *prefix; /* of X-Amz-Target */
};

struct client {
    struct http *http;
    struct credential_source *credentials;
    char *region;
    struct endpoint items, streams;
    int64_t deadline_ms;
    int request_ms;
    atomic_int_fast64_t skew_s; /* what is added to our clock to have the service's */
    atomic_int_fast64_t told_s; /* how much it was ahead of ours in the last answer; or UNTOLD */
    pthread_mutex_t lock;       /* stands alone */
    struct retry_bucket bucket; /* guarded by lock */
    atomic_uint_fast64_t calls, attempts, throttled, failed;
};

/* One request of a call, and what it came to. */
struct attempt {
    struct credentials credentials; /* signed with */
    int64_t signed_s;               /* the time in the signature */
    struct http_response response;
    struct answer_error error;
    int code; /* 0 or a negative errno */
    enum retry_kind kind;
    bool sent;
    bool uncertain; /* it failed, but may have been applied */
    struct err err;
};
void attempt_init(struct attempt *attempt);
void attempt_release(struct attempt *attempt);
/* Signs, sends and judges. TIMEOUT_MS is positive. */
void attempt_run(struct client *client, const struct call *call, int timeout_ms,
                 struct attempt *attempt);

#endif
