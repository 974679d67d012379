/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/retry.h"

#include <stddef.h>
#include <string.h>

#define BASE_TRANSIENT_MS 25
#define BASE_THROTTLED_MS 1000
#define DELAY_MAX_MS 20000
#define ASKED_OVER_MS 5000

#define COST_TRANSIENT 14
#define COST_THROTTLED 5

static const struct {
    const char *type;
    enum retry_kind kind;
} kinds[] = {
    {"RequestTimeout", RETRY_TRANSIENT},
    {"RequestTimeoutException", RETRY_TRANSIENT},
    {"ReplicatedWriteConflictException", RETRY_TRANSIENT},
    {"Throttling", RETRY_THROTTLED},
    {"ThrottlingException", RETRY_THROTTLED},
    {"ThrottledException", RETRY_THROTTLED},
    {"RequestThrottled", RETRY_THROTTLED},
    {"RequestThrottledException", RETRY_THROTTLED},
    {"TooManyRequestsException", RETRY_THROTTLED},
    {"ProvisionedThroughputExceededException", RETRY_THROTTLED},
    {"RequestLimitExceeded", RETRY_THROTTLED},
    {"LimitExceededException", RETRY_THROTTLED},
    {"SlowDown", RETRY_THROTTLED},
    {"TransactionInProgressException", RETRY_THROTTLED},
    {"PriorRequestNotComplete", RETRY_THROTTLED},
    {"InvalidSignature", RETRY_SKEWED},
    {"InvalidSignatureException", RETRY_SKEWED},
    {"SignatureDoesNotMatch", RETRY_SKEWED},
    {"RequestExpired", RETRY_SKEWED},
    {"RequestInTheFuture", RETRY_SKEWED},
    {"RequestTimeTooSkewed", RETRY_SKEWED},
    {"AuthFailure", RETRY_SKEWED},
    {"ExpiredToken", RETRY_CREDENTIALS},
    {"ExpiredTokenException", RETRY_CREDENTIALS},
};

enum retry_kind retry_kind_of(long status, const char *type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].kind;
    if (status == 500 || status == 502 || status == 503 || status == 504)
        return RETRY_TRANSIENT;
    if (type[0] != '\0')
        return RETRY_NOT;
    if (status == 429)
        return RETRY_THROTTLED;
    if (status == 408)
        return RETRY_TRANSIENT;
    return status == 401 || status == 403 ? RETRY_SKEWED : RETRY_NOT;
}

int64_t retry_delay_ms(enum retry_kind kind, unsigned retry, double chance, int64_t asked_ms)
{
    int64_t most = kind == RETRY_THROTTLED ? BASE_THROTTLED_MS : BASE_TRANSIENT_MS;
    for (unsigned i = 1; i < retry && most < DELAY_MAX_MS; i++)
        most *= 2;
    if (most > DELAY_MAX_MS)
        most = DELAY_MAX_MS;
    int64_t delay = (int64_t)(chance * (double)most);
    if (asked_ms <= delay)
        return delay;
    return asked_ms < delay + ASKED_OVER_MS ? asked_ms : delay + ASKED_OVER_MS;
}

void retry_bucket_init(struct retry_bucket *bucket)
{
    bucket->tokens = RETRY_TOKENS;
}

int retry_bucket_take(struct retry_bucket *bucket, enum retry_kind kind)
{
    int cost = kind == RETRY_THROTTLED ? COST_THROTTLED : COST_TRANSIENT;
    if (bucket->tokens < cost)
        return 0;
    bucket->tokens -= cost;
    return cost;
}

void retry_bucket_give(struct retry_bucket *bucket, int paid)
{
    bucket->tokens += paid > 0 ? paid : 1;
    if (bucket->tokens > RETRY_TOKENS)
        bucket->tokens = RETRY_TOKENS;
}
