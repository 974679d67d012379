/* SPDX-License-Identifier: MIT */
/*
 * Calls of a DynamoDB-compatible service: signed, retried, checked, deadlines kept.
 *
 * Retries follow the SDKs' standard mode: 4 attempts; delay = random(0..1) x min(base x 2^(n-1),
 * 20 s), base 25 ms, for throttling 1 s; the header x-amz-retry-after (ms) clamped into [t, t + 5
 * s]; a bucket of 500 tokens: a retry costs 14, for throttling 5; success after a retry gives its
 * last cost back, success without one gives 1; an empty bucket fails at once. Where a wait would
 * pass the deadline, the call ends with what it has.
 */
#ifndef BACKEND_DYNAMODB_CLIENT_H
#define BACKEND_DYNAMODB_CLIENT_H

#include "backend/dynamodb/credentials.h"

#define CLIENT_DEADLINE_MS 60000

struct client;

struct client_options {
    struct credential_options credentials;
    const char *ca_file; /* the only certificates to trust; NULL: the system's */
    int64_t deadline_ms; /* of a call with all its retries; 0: CLIENT_DEADLINE_MS */
    int request_ms;      /* of one attempt; 0: HTTP_REQUEST_MS */
};
/* Errors of credential_source_open and endpoint_resolve; -EINVAL for an endpoint that is more than
 * http[s]://HOST[:PORT]. */
int client_open(const struct client_options *options, struct client **ret_client, struct err *err);
void client_close(struct client *client); /* accepts NULL; no call may be under way */
const char *client_region(const struct client *client);
const char *client_endpoint(const struct client *client);
/* How many seconds the service's clock was ahead of ours in its last answer, to the second. False:
 * no answer has told. */
bool client_skew(const struct client *client, int64_t *ret_seconds);
/* How long a call may take with all its retries. */
int64_t client_deadline_ns(const struct client *client);

struct call {
    const char *operation; /* "GetItem" */
    bool streams;          /* of DynamoDB Streams, which is a service with an address of its own */
    struct span body;      /* JSON */
    bool once; /* not idempotent: sent over a fresh connection, and not again where it may have
                  been applied (-EIO then says so) */
    const atomic_bool *cancelled; /* may be NULL; also ends the waits between attempts */
    int64_t begun_ns;             /* steady clock: from when its deadline counts; 0: from now */
};

/* What a call came to beside its errno. */
struct outcome {
    struct buf body; /* of the answer, also of an error; release */
    char type[64];   /* an error's name without namespace, e.g. "ConditionalCheckFailedException" */
    char request_id[80];
    int64_t date_s; /* the service's clock, epoch seconds; 0: it does not tell */
    bool repeated;  /* an earlier attempt may have been applied: a failed condition may be ours */
    bool uncertain; /* the last attempt has failed, but may have been applied */
    unsigned attempts;
};
void outcome_init(struct outcome *outcome);
void outcome_release(struct outcome *outcome);

/*
 * 0 with the answer's JSON, checked to be one object, in ret_outcome->body. Errors as facts say:
 * ENOENT (ResourceNotFound), EEXIST (ConditionalCheckFailed: the caller knows which condition;
 * CreateTable of what is there), EFBIG, ENAMETOOLONG, ERANGE, EINVAL, ENOSPC
 * (ItemCollectionSizeLimitExceeded), EDQUOT (LimitExceeded), EBUSY (throttled to the end,
 * TransactionConflict, ResourceInUse), ECANCELED (TransactionCanceled: the reasons are in the
 * body), EACCES, EPERM (deletion protection), EOPNOTSUPP (UnknownOperation), ESTALE (records or
 * iterators of a stream that are gone), EIO (5xx, checksum, no JSON), EHOSTUNREACH, ETIMEDOUT,
 * EINTR, ENOMEM. The message names operation, what the service said (made safe to show) and the
 * request id; never a secret, also where the service quotes one.
 *
 * An answer's x-amz-crc32 is verified where there is one. Clock skew of 300 s and more is corrected
 * from the answer's Date, and the call signed again; expired credentials are refreshed once.
 * RET_OUTCOME must have been initialised; what it held is replaced.
 */
int client_call(struct client *client, const struct call *call, struct outcome *ret_outcome,
                struct err *err);

/* Counts, for metrics. `failed` are calls, of whatever error; `throttled` are answers. */
struct client_counts {
    uint64_t calls, attempts, throttled, failed, connections;
};
void client_counts(const struct client *client, struct client_counts *ret_counts);

#endif
