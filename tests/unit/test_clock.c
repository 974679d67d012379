/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <math.h>

#include "base/text.h"
#include "tests/check.h"

static void check_ns(int64_t seconds, long ns, int64_t want, bool cut)
{
    int64_t found = time_ns_of((struct timespec){.tv_sec = seconds, .tv_nsec = ns});

    check_int(found, want);
    check_int(time_is_cut(found), cut);
}

static void test_times_within(void)
{
    check_ns(0, 0, 0, false);
    check_ns(1, 5, 1000000005, false);
    check_ns(-1, 999999999, -1, false);
    check_ns(9223372035, 999999999, INT64_C(9223372035999999999), false);
    check_ns(-9223372036, 1, INT64_C(-9223372035999999999), false);
}

static void test_times_beyond(void)
{
    check_ns(9223372036, 0, INT64_C(9223372036000000000), true);
    check_ns(9223372036, 854775807, INT64_C(9223372036000000000), true);
    check_ns(10413792000, 1, INT64_C(9223372036000000000), true);
    check_ns(INT64_MAX, 999999999, INT64_C(9223372036000000000), true);
    check_ns(-9223372036, 0, INT64_C(-9223372036000000000), true);
    check_ns(-9223372037, 999999999, INT64_C(-9223372036000000000), true);
    check_ns(INT64_MIN, 0, INT64_C(-9223372036000000000), true);
}

static void test_numbers_of_seconds(void)
{
    check_int(time_ns_of_s(0), 0);
    check_int(time_ns_of_s(1.7044488001236e9), INT64_C(1704448800124000000));
    check_int(time_ns_of_s(-0.5), -500000000);
    check_int(time_ns_of_s(9223372036.0), TIME_NS_MOST);
    check_int(time_ns_of_s(1e300), TIME_NS_MOST);
    check_int(time_ns_of_s(-1e300), -TIME_NS_MOST);
    check_int(time_ns_of_s(NAN), -TIME_NS_MOST);
}

static void check_told(int64_t seconds, const char *want)
{
    struct buf out;

    buf_init(&out, 64);
    text_time_ns(time_ns_of((struct timespec){.tv_sec = seconds}), &out);
    check_span(buf_span(&out), span_text(want));
    buf_release(&out);
}

static void test_the_ends_are_told(void)
{
    check_told(INT64_MAX, "2262-04-11T23:47:16.000000000Z");
    check_told(INT64_MIN, "1677-09-21T00:12:44.000000000Z");
}

CHECK_MAIN(CHECK_TEST(test_times_within), CHECK_TEST(test_times_beyond),
           CHECK_TEST(test_numbers_of_seconds), CHECK_TEST(test_the_ends_are_told))
