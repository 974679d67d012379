/* SPDX-License-Identifier: MIT */
/* The arithmetic of a budget, to the nanosecond: the time is a number here. */
#include "backend/dynamodb/bucket.h"

#include "tests/check.h"

#define NOW (INT64_C(1000) * NS_PER_S)
#define MS (NS_PER_S / 1000)

static struct bucket bucket_of(double rate)
{
    struct bucket bucket;
    bucket_init(&bucket, rate, NOW);
    return bucket;
}

static void test_no_limit(void)
{
    struct bucket bucket = bucket_of(0);
    bucket_take(&bucket, 1e9, NOW);
    check_int(bucket_debt_ns(&bucket, NOW), 0);
    bucket_correct(&bucket, 1e9);
    check_int(bucket_debt_ns(&bucket, NOW), 0);
}

/* A unit is a quarter of a second. */
static void test_debt(void)
{
    struct bucket bucket = bucket_of(4);
    check_int(bucket_debt_ns(&bucket, NOW), 0);
    bucket_take(&bucket, 1, NOW);
    check_int(bucket_debt_ns(&bucket, NOW), 250 * MS);
    check_int(bucket_debt_ns(&bucket, NOW + 250 * MS - 1), 1);
    check_int(bucket_debt_ns(&bucket, NOW + 250 * MS), 0);
    bucket_take(&bucket, 256, NOW + 250 * MS);
    check_int(bucket_debt_ns(&bucket, NOW + 250 * MS), 64 * NS_PER_S);
    bucket_take(&bucket, 0.5, NOW + 64 * NS_PER_S);
    check_int(bucket_debt_ns(&bucket, NOW + 64 * NS_PER_S), 375 * MS);
}

/* A second of doing nothing counts, a year no more than that. */
static void test_credit(void)
{
    struct bucket bucket = bucket_of(4);
    int64_t later = NOW + 365 * 86400 * NS_PER_S;
    bucket_take(&bucket, 4, NOW + 500 * MS);
    check_int(bucket_debt_ns(&bucket, NOW + 500 * MS), 500 * MS);
    bucket_take(&bucket, 4, later);
    check_int(bucket_debt_ns(&bucket, later), 0);
    bucket_take(&bucket, 1, later);
    check_int(bucket_debt_ns(&bucket, later), 250 * MS);
}

/* Ten requests a time of what each may: never more than the rate allows. */
static void test_rate(void)
{
    struct bucket bucket = bucket_of(2.5);
    int64_t now = NOW;
    double taken = 0;
    for (int i = 0; i < 100; i++) {
        now += bucket_debt_ns(&bucket, now);
        check_int(bucket_debt_ns(&bucket, now), 0);
        bucket_take(&bucket, 3, now);
        taken += 3;
    }
    check_int(now - NOW, 99 * 1200 * MS);
    check(taken == 300);
}

/* A correction is as if the right number had been taken at once. */
static void test_corrections(void)
{
    struct bucket guessed = bucket_of(8), known = bucket_of(8);
    int64_t later = NOW + 90 * NS_PER_S;
    bucket_take(&guessed, 256, later);
    check_int(bucket_debt_ns(&guessed, later), 31 * NS_PER_S);
    bucket_correct(&guessed, 2 - 256);
    bucket_take(&known, 2, later);
    check_int(guessed.clear_ns, known.clear_ns);
    check_int(bucket_debt_ns(&guessed, later), 0);
    bucket_correct(&guessed, 14.5 - 2);
    bucket_correct(&known, 12.5);
    check_int(guessed.clear_ns, known.clear_ns);
    check_int(bucket_debt_ns(&guessed, later), 812500 * (MS / 1000));
    bucket_correct(&guessed, -14.5);
    check_int(guessed.clear_ns, later - BUCKET_CREDIT_NS);
}

/* Numbers that nobody needs end nothing. */
static void test_extremes(void)
{
    struct bucket bucket = bucket_of(1e-9);
    for (int i = 0; i < 100; i++)
        bucket_take(&bucket, 1e9, NOW);
    check(bucket_debt_ns(&bucket, NOW) > INT64_C(1000000000) * NS_PER_S);
    for (int i = 0; i < 200; i++)
        bucket_correct(&bucket, -1e9);
    check_int(bucket_debt_ns(&bucket, NOW), 0);
    bucket = bucket_of(1e9);
    bucket_take(&bucket, 0.5, NOW);
    bucket_take(&bucket, 1e9, NOW);
    check_int(bucket_debt_ns(&bucket, NOW), NS_PER_S + 1);
    bucket_take(&bucket, 0, NOW);
    check_int(bucket_debt_ns(&bucket, NOW), NS_PER_S + 1);
}

CHECK_MAIN(CHECK_TEST(test_no_limit), CHECK_TEST(test_debt), CHECK_TEST(test_credit),
           CHECK_TEST(test_rate), CHECK_TEST(test_corrections), CHECK_TEST(test_extremes))
