/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/retry.h"

#include "tests/check.h"

static void test_names(void)
{
    static const struct {
        const char *type;
        enum retry_kind kind;
    } cases[] = {
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
        {"TransactionConflictException", RETRY_NOT},
        {"TransactionCanceledException", RETRY_NOT},
        {"ConditionalCheckFailedException", RETRY_NOT},
        {"ItemCollectionSizeLimitExceededException", RETRY_NOT},
        {"ValidationException", RETRY_NOT},
        {"AccessDeniedException", RETRY_NOT},
        {"UnrecognizedClientException", RETRY_NOT},
        {"throttling", RETRY_NOT},
        {"ThrottlingExceptions", RETRY_NOT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (retry_kind_of(400, cases[i].type) != cases[i].kind)
            check_fail("%s is taken for %d", cases[i].type, retry_kind_of(400, cases[i].type));
}

static void test_status(void)
{
    static const struct {
        long status;
        enum retry_kind bare, named;
    } cases[] = {
        {500, RETRY_TRANSIENT, RETRY_TRANSIENT},
        {502, RETRY_TRANSIENT, RETRY_TRANSIENT},
        {503, RETRY_TRANSIENT, RETRY_TRANSIENT},
        {504, RETRY_TRANSIENT, RETRY_TRANSIENT},
        {501, RETRY_NOT, RETRY_NOT},
        {505, RETRY_NOT, RETRY_NOT},
        {400, RETRY_NOT, RETRY_NOT},
        {401, RETRY_SKEWED, RETRY_NOT},
        {403, RETRY_SKEWED, RETRY_NOT},
        {404, RETRY_NOT, RETRY_NOT},
        {408, RETRY_TRANSIENT, RETRY_NOT},
        {413, RETRY_NOT, RETRY_NOT},
        {429, RETRY_THROTTLED, RETRY_NOT},
        {301, RETRY_NOT, RETRY_NOT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (retry_kind_of(cases[i].status, "") != cases[i].bare ||
            retry_kind_of(cases[i].status, "Unheard") != cases[i].named)
            check_fail("status %ld", cases[i].status);
    check_int(retry_kind_of(503, "ThrottlingException"), RETRY_THROTTLED);
    check_int(retry_kind_of(500, "ExpiredTokenException"), RETRY_CREDENTIALS);
}

static void test_delays(void)
{
    static const int64_t transient[] = {25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 20000};
    static const int64_t throttled[] = {1000, 2000, 4000, 8000, 16000, 20000, 20000};
    for (unsigned i = 0; i < sizeof transient / sizeof transient[0]; i++) {
        check_int(retry_delay_ms(RETRY_TRANSIENT, i + 1, 1.0, -1), transient[i]);
        check_int(retry_delay_ms(RETRY_TRANSIENT, i + 1, 0.5, -1), transient[i] / 2);
        check_int(retry_delay_ms(RETRY_TRANSIENT, i + 1, 0.0, -1), 0);
    }
    for (unsigned i = 0; i < sizeof throttled / sizeof throttled[0]; i++) {
        check_int(retry_delay_ms(RETRY_THROTTLED, i + 1, 1.0, -1), throttled[i]);
        check_int(retry_delay_ms(RETRY_THROTTLED, i + 1, 0.25, -1), throttled[i] / 4);
    }
    check_int(retry_delay_ms(RETRY_TRANSIENT, 4000000000U, 0.999, -1), 19980);
}

/* Between what would be waited anyway and 5 s more. */
static void test_asked(void)
{
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 0), 500);
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 499), 500);
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 500), 500);
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 501), 501);
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 5499), 5499);
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 5500), 5500);
    check_int(retry_delay_ms(RETRY_THROTTLED, 1, 0.5, 5501), 5500);
    check_int(retry_delay_ms(RETRY_TRANSIENT, 1, 0.0, INT64_MAX), 5000);
    check_int(retry_delay_ms(RETRY_TRANSIENT, 3, 0.5, 70), 70);
}

static void test_bucket(void)
{
    struct retry_bucket bucket;
    retry_bucket_init(&bucket);
    check_int(bucket.tokens, 500);
    retry_bucket_give(&bucket, 0);
    retry_bucket_give(&bucket, 14);
    check_int(bucket.tokens, 500);
    check_int(retry_bucket_take(&bucket, RETRY_TRANSIENT), 14);
    check_int(retry_bucket_take(&bucket, RETRY_THROTTLED), 5);
    check_int(bucket.tokens, 481);
    retry_bucket_give(&bucket, 5);
    check_int(bucket.tokens, 486);
    retry_bucket_give(&bucket, 0);
    check_int(bucket.tokens, 487);
    retry_bucket_give(&bucket, 14);
    check_int(bucket.tokens, 500);
}

static void test_bucket_empties(void)
{
    struct retry_bucket bucket;
    int taken = 0;
    retry_bucket_init(&bucket);
    while (retry_bucket_take(&bucket, RETRY_TRANSIENT))
        taken++;
    check_int(taken, 35);
    check_int(bucket.tokens, 10);
    check_int(retry_bucket_take(&bucket, RETRY_THROTTLED), 5);
    check_int(retry_bucket_take(&bucket, RETRY_THROTTLED), 5);
    check_int(retry_bucket_take(&bucket, RETRY_THROTTLED), 0);
    check_int(bucket.tokens, 0);
    for (int i = 0; i < 14; i++) {
        check_int(retry_bucket_take(&bucket, RETRY_TRANSIENT), 0);
        retry_bucket_give(&bucket, 0);
    }
    check_int(retry_bucket_take(&bucket, RETRY_TRANSIENT), 14);
    check_int(bucket.tokens, 0);
}

CHECK_MAIN(CHECK_TEST(test_names), CHECK_TEST(test_status), CHECK_TEST(test_delays),
           CHECK_TEST(test_asked), CHECK_TEST(test_bucket), CHECK_TEST(test_bucket_empties))
