/* SPDX-License-Identifier: MIT */
/*
 * A test program is a list of functions run by CHECK_MAIN; a failed check says where and what, and
 * makes the program exit 1 after the remaining tests.
 *
 * usage: PROGRAM [--list | TEST...]
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"

static int check_failures;
static const char *check_running;

#define check_fail(...)                                                                            \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, check_running);                         \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        check_failures++;                                                                          \
    } while (0)

#define check(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_fail("not true: %s", #condition);                                                \
    } while (0)

#define check_int(got, want)                                                                       \
    do {                                                                                           \
        long long got_value = (long long)(got), want_value = (long long)(want);                    \
        if (got_value != want_value)                                                               \
            check_fail("%s is %lld, not %lld", #got, got_value, want_value);                       \
    } while (0)

static inline void check_span_at(const char *file, int line, const char *what, struct span got,
                                 struct span want)
{
    bool both = got.data && want.data; /* else one has no bytes */
    if (both ? span_equal(got, want) : got.len == want.len)
        return;
    fprintf(stderr, "%s:%d: %s: %s is\n  \"%.*s\" (%zu bytes), not\n  \"%.*s\" (%zu bytes)\n", file,
            line, check_running, what, (int)got.len, got.data ? got.data : "", got.len,
            (int)want.len, want.data ? want.data : "", want.len);
    check_failures++;
}
#define check_span(got, want) check_span_at(__FILE__, __LINE__, #got, (got), (want))
#define check_text(got, want) check_span_at(__FILE__, __LINE__, #got, (got), span_text(want))

struct check_test {
    const char *name;
    void (*run)(void);
};
#define CHECK_TEST(function)                                                                       \
    {                                                                                              \
#function, function                                                                        \
    }
static inline bool check_wanted(const char *name, int count, char *const *names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

static inline int check_run(const struct check_test *tests, size_t count, int argc, char **argv)
{
    size_t run = 0;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++)
            puts(tests[i].name);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!check_wanted(tests[i].name, argc - 1, argv + 1))
            continue;
        check_running = tests[i].name;
        tests[i].run();
        run++;
    }
    printf("%zu tests, %d failures\n", run, check_failures);
    return check_failures || run == 0 ? 1 : 0;
}

#define CHECK_MAIN(...)                                                                            \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct check_test tests[] = {__VA_ARGS__};                                           \
        return check_run(tests, sizeof tests / sizeof tests[0], argc, argv);                       \
    }

#endif
