/* SPDX-License-Identifier: MIT */
#include "backend/mark.h"

#include "base/cleanup.h"
#include "tests/check.h"

static void check_read(const char *mark, const char *position, struct tally want)
{
    struct span got;
    struct tally tally;

    mark_read(span_text(mark), &got, &tally);
    check_text(got, position);
    for (size_t i = 0; i < TALLIES; i++)
        check_int((int64_t)tally.of[i], (int64_t)want.of[i]);
}

static void test_written_and_read(void)
{
    static const struct tally tally = {{1, 20, 300, 4000, INT64_MAX}};
    cleanup(buf_release) struct buf mark;

    buf_init(&mark, 1000);
    mark_add(span_text("a b=1,c"), &tally, &mark);
    check_text(buf_span(&mark), "a b=1,c delivered=1 retried=20 dropped=300 skipped=4000"
                                " lost=9223372036854775807");
    check_read(mark.data, "a b=1,c", tally);
}

static void test_others(void)
{
    static const struct tally none = {{0}};
    struct tally tally;
    struct span position;

    check_read("", "", none);
    check_read("oldest", "oldest", none);
    check_read("place delivered=", "place", none);
    check_read("place delivered=x lost=", "place", none);
    check_read("place dropped=7", "place", (struct tally){{0, 0, 7, 0, 0}});
    mark_read(span_of(NULL, 0), &position, &tally);
    check_int((int64_t)position.len, 0);
}

CHECK_MAIN(CHECK_TEST(test_written_and_read), CHECK_TEST(test_others))
