/* SPDX-License-Identifier: MIT */
/* Programs that are given a text. */
#include "deliver/program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/check.h"

static void take_line(void *context, const char *line)
{
    struct buf *lines = context;

    buf_addf(lines, "%s|", line);
}

struct outcome {
    int code;
    struct err err;
    struct buf lines;
};

static void outcome_release(struct outcome *outcome)
{
    buf_release(&outcome->lines);
}

/* Runs SCRIPT by a shell. */
static void run_input(const char *script, struct span input, double seconds,
                      const atomic_bool *called_off, struct outcome *outcome)
{
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
    char *const environment[] = {(char *)"PATH=/usr/bin:/bin", (char *)"A=b", NULL};
    struct program program = {.arguments = arguments,
                              .environment = environment,
                              .input = input,
                              .timeout_ns = (int64_t)(seconds * (double)NS_PER_S),
                              .cancelled = cancelled_by_flag,
                              .cancelled_context = called_off,
                              .line = take_line,
                              .context = &outcome->lines};

    outcome->err = (struct err){""};
    buf_init(&outcome->lines, 1 << 20);
    outcome->code = program_run(&program, &outcome->err);
}

static void check_program(const char *script, const char *input, int want, const char *why,
                          const char *lines)
{
    cleanup(outcome_release) struct outcome outcome = {.code = 0};

    run_input(script, span_text(input), 20, NULL, &outcome);
    check_int(outcome.code, want);
    check_text(span_text(outcome.err.text), why);
    check_text(buf_span(&outcome.lines), lines);
}

static void test_ends(void)
{
    check_program("exit 0", "text", 0, "", "");
    check_program("exit 3", "text", -ECHILD, "the program ended with status 3", "");
    check_program("kill -9 $$", "text", -ECHILD, "the program was ended by signal 9", "");
    check_program("cat >&2", "one\ntwo", 0, "", "one|two|");
    check_program("echo seen; echo a >&2; echo >&2; printf b >&2; exit 1", "", -ECHILD,
                  "the program ended with status 1", "a|b|");
}

static void test_cannot_be_started(void)
{
    char *const arguments[] = {(char *)"/no/such/program", NULL};
    char *const environment[] = {NULL};
    struct program program = {.arguments = arguments,
                              .environment = environment,
                              .input = span_text("x"),
                              .timeout_ns = NS_PER_S};
    struct err err = {""};

    check_int(program_run(&program, &err), -ENOENT);
    check_text(span_text(err.text),
               "/no/such/program cannot be started: No such file or directory");
}

/* More than a pipe holds: read by all, by a part, by none. */
static void test_large_input(void)
{
    static char large[3 << 20];
    static const struct {
        const char *script, *lines;
        int code;
    } cases[] = {
        {"wc -c >&2", "3145728|", 0},
        {"head -c 10 >&2", "xxxxxxxxxx|", 0},
        {"exit 0", "", 0},
        {"exec <&-; exit 7", "", -ECHILD},
    };

    memset(large, 'x', sizeof large);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup(outcome_release) struct outcome outcome = {.code = 0};

        run_input(cases[i].script, span_of(large, sizeof large), 20, NULL, &outcome);
        check_int(outcome.code, cases[i].code);
        check_text(buf_span(&outcome.lines), cases[i].lines);
    }
}

/* A line is cut, and after many of them the rest is left out; but all is read. */
static void test_many_complaints(void)
{
    cleanup(outcome_release) struct outcome outcome = {.code = 0};

    run_input("printf '%03000d\\n' 5 >&2; yes | head -c 1000000 >&2", span_text(""), 20, NULL,
              &outcome);
    check_int(outcome.code, 0);
    check_int(outcome.lines.len, PROGRAM_LINE_MAX + 1 + (PROGRAM_LINES_MAX - 1) * 2);
}

static void test_surroundings(void)
{
    /* This process has what must not be inherited. */
    int leak = open("/dev/null", O_RDONLY);
    cleanup(outcome_release) struct outcome outcome = {.code = 0};

    umask(077);
    setenv("AWS_SECRET_ACCESS_KEY", "leaked", 1);
    run_input(
        "{ ls /proc/self/fd | tr '\\n' ' '; echo; pwd; umask; env | sort | tr '\\n' ' '; echo;"
        " sed -nE 's/^(Sig(Blk|Ign)).*(.{7})$/\\1 \\3/p' /proc/self/status | tr '\\n' ' ';"
        " echo;"
        " ps -o pid= -o pgid= -o sid= -p $$ | awk '{print ($1 == $2) ($2 == $3)}'; } >&2",
        span_text(""), 20, NULL, &outcome);
    close(leak);
    check_int(outcome.code, 0);
    /* 3 is the directory that ls reads. Signals above 28 are left out: the C library has some for
     * itself. */
    check_text(buf_span(&outcome.lines), "0 1 2 3 |/|0077|A=b PATH=/usr/bin:/bin PWD=/ |"
                                         "SigBlk 0000000 SigIgn 0000000 |11|");
}

static bool is_there(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool found = fgets(text, sizeof text, file) && !strstr(text, ") Z ");
    fclose(file);
    return found;
}

static void check_gone(pid_t pid)
{
    check(pid > 1);
    for (int i = 0; pid > 1 && is_there(pid) && i < 1000; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    check(pid > 1 && !is_there(pid));
}

/* Grandchildren too, those that do not heed SIGTERM, and those whose parent has ended well. */
static void test_nothing_is_left(void)
{
    static const struct {
        const char *script;
        double seconds;
        int code;
    } cases[] = {
        {"sleep 1000 & echo $! >&2; wait", 0.3, -ETIMEDOUT},
        {"(trap '' TERM; sleep 1000) & echo $! >&2; wait", 0.3, -ETIMEDOUT},
        {"trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ >&2; sleep 1000; sleep 1000\"", 0.3,
         -ETIMEDOUT},
        {"sleep 1000 & echo $! >&2; exit 0", 20, 0},
        {"sleep 1000 & echo $! >&2; exit 5", 20, -ECHILD},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup(outcome_release) struct outcome outcome = {.code = 0};

        run_input(cases[i].script, span_text("x"), cases[i].seconds, NULL, &outcome);
        check_int(outcome.code, cases[i].code);
        check_gone(outcome.lines.len ? atoi(outcome.lines.data) : 0);
        if (cases[i].code == -ETIMEDOUT)
            check_text(span_text(outcome.err.text), "the program did not end within 0.3 s");
    }
}

static atomic_bool called_off;

static void *call_off(void *context)
{
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    atomic_store(&called_off, true);
    return NULL;
}

static void test_called_off(void)
{
    cleanup(outcome_release) struct outcome outcome = {.code = 0};
    pthread_t thread;

    check(pthread_create(&thread, NULL, call_off, NULL) == 0);
    run_input("echo $$ >&2; exec sleep 1000", span_text("x"), 1000, &called_off, &outcome);
    pthread_join(thread, NULL);
    check_int(outcome.code, -EINTR);
    check_gone(outcome.lines.len ? atoi(outcome.lines.data) : 0);
}

static int run_tests(int argc, char **argv)
{
    static const struct check_test tests[] = {
        CHECK_TEST(test_ends),         CHECK_TEST(test_cannot_be_started),
        CHECK_TEST(test_large_input),  CHECK_TEST(test_many_complaints),
        CHECK_TEST(test_surroundings), CHECK_TEST(test_nothing_is_left),
        CHECK_TEST(test_called_off),
    };

    return check_run(tests, sizeof tests / sizeof tests[0], argc, argv);
}

int main(int argc, char **argv)
{
    sigset_t all;

    /* As a worker has it: what must not be inherited. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    signal(SIGHUP, SIG_IGN);
    return run_tests(argc, argv);
}
