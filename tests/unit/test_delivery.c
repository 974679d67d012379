/* SPDX-License-Identifier: MIT */
/* The pure parts of delivery: bodies of calls, when they are made again, what replies say, who
 * signed them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "deliver/backoff.h"
#include "deliver/batch.h"
#include "deliver/outcome.h"
#include "deliver/signature.h"
#include "deliver/worker.h"
#include "tests/check.h"

/* ---- batches ---- */

static struct table *make_table(const char *name)
{
    struct table *table = table_new_default(span_text(name));

    if (!table)
        exit(1);
    return table;
}

/* A record of the item KEY, changed at TIME_NS. */
static int add(struct batch *batch, const struct table *table, const char *key, int64_t time_ns,
               struct span item)
{
    char id[40];
    struct change change = {.id = id,
                            .type = CHANGE_INSERT,
                            .key.partition = span_text(key),
                            .new_item = item,
                            .time_ns = time_ns};

    snprintf(id, sizeof id, "id-%s", key);
    return batch_add(batch, table, &change);
}

#define HEAD "{\"trigger_type\":\"change_stream\",\"change_table\":\"a\\\"b\",\"change_records\":["
#define RECORD(key, second)                                                                        \
    "{\"change_type\":\"INSERT\",\"keys\":{\"key\":{\"S\":\"" key "\"}},\"new_item\":{},"          \
    "\"change_id\":\"id-" key "\",\"time\":\"1970-01-0" second "Z\"}"

static void test_batch(void)
{
    cleanup(batch_release) struct batch batch = {.count = 0};
    struct table *table = make_table("a\"b");

    batch_init(&batch);
    for (int round = 0; round < 2; round++) {
        batch_clear(&batch, table);
        check_text(buf_span(&batch.body), HEAD "]}");
        check_int(add(&batch, table, "x", NS_PER_S, span_text("{}")), 0);
        check_text(buf_span(&batch.body), HEAD RECORD("x", "1T00:00:01.000000000") "]}");
        check_int(add(&batch, table, "y", 2 * NS_PER_S, span_text("{}")), 0);
        check_text(buf_span(&batch.body), HEAD RECORD("x", "1T00:00:01.000000000") "," RECORD(
                                              "y", "1T00:00:02.000000000") "]}");
        check_int(batch.count, 2);
        check_text(span_text(batch_id(&batch, 0)), "id-x");
        check_text(span_text(batch_id(&batch, 1)), "id-y");
    }
    table_free(table);
}

static void test_batch_ends(void)
{
    cleanup(batch_release) struct batch batch = {.count = 0};
    cleanup(buf_release) struct buf item;
    struct table *table = make_table("t");

    batch_init(&batch);
    batch_clear(&batch, table);
    for (int i = 0; i < 99; i++)
        check_int(add(&batch, table, "x", 0, span_text("{}")), 0);
    check_int(add(&batch, table, "x", 0, span_text("{}")), 1);
    check_int(batch.count, 100);

    buf_init(&item, 1 << 20);
    buf_add_text(&item, "{\"a\":{\"S\":\"");
    while (item.len < BATCH_BYTES - 1000)
        buf_add_char(&item, 'x');
    buf_add_text(&item, "\"}}");
    batch_clear(&batch, table);
    check_int(add(&batch, table, "x", 0, buf_span(&item)), 0);
    check_int(add(&batch, table, "y", 0, buf_span(&item)), 1);
    check(batch.body.len < 1 << 20);
    check_int(batch.count, 2);
    table_free(table);
}

/* The moment at which a record is too old is not one earlier. */
static void test_batch_drops_what_is_old(void)
{
    static const struct {
        int64_t now_ns;
        size_t left;
        const char *body;
    } cases[] = {
        {BATCH_AGE_NS + NS_PER_S, 3,
         HEAD RECORD("x", "1T00:00:01.000000000") "," RECORD(
             "y", "1T00:00:03.000000000") "," RECORD("z", "1T00:00:02.000000000") "]}"},
        {BATCH_AGE_NS + NS_PER_S + 1, 2,
         HEAD RECORD("y", "1T00:00:03.000000000") "," RECORD("z", "1T00:00:02.000000000") "]}"},
        {BATCH_AGE_NS + 2 * NS_PER_S + 1, 1, HEAD RECORD("y", "1T00:00:03.000000000") "]}"},
        {BATCH_AGE_NS + 3 * NS_PER_S + 1, 0, HEAD "]}"},
    };
    struct table *table = make_table("a\"b");

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup(batch_release) struct batch batch = {.count = 0};

        batch_init(&batch);
        batch_clear(&batch, table);
        add(&batch, table, "x", NS_PER_S, span_text("{}"));
        add(&batch, table, "y", 3 * NS_PER_S, span_text("{}"));
        add(&batch, table, "z", 2 * NS_PER_S, span_text("{}"));
        for (int again = 0; again < 2; again++)
            check_int(batch_drop_old(&batch, cases[i].now_ns), again ? 0 : 3 - cases[i].left);
        check_int(batch.count, cases[i].left);
        check_text(buf_span(&batch.body), cases[i].body);
        if (cases[i].left == 1)
            check_text(span_text(batch_id(&batch, 0)), "id-y");
    }
    table_free(table);
}

/* ---- waiting ---- */

static void test_backoff(void)
{
    struct backoff backoff = {.first_ns = NS_PER_S};
    static const int want[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};

    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        check_int(backoff_next(&backoff, 0, 0), want[i] * NS_PER_S);
    backoff = (struct backoff){.first_ns = NS_PER_S};
    check_int(backoff_next(&backoff, 0, 1), NS_PER_S / 4 * 3);
    check_int(backoff_next(&backoff, 0, 0.5), NS_PER_S / 4 * 7);
}

static void test_backoff_never_shrinks(void)
{
    static const double chances[] = {0, 1, 0.3, 1, 0, 1, 0, 1, 0.9, 0.1, 1};

    for (int64_t first_ns = 1; first_ns <= 100 * NS_PER_S; first_ns *= 7) {
        struct backoff backoff = {.first_ns = first_ns};
        int64_t before_ns = 0;
        for (size_t i = 0; i < sizeof chances / sizeof chances[0]; i++) {
            int64_t wait_ns = backoff_next(&backoff, 0, chances[i]);
            check(wait_ns >= before_ns && wait_ns <= BACKOFF_MOST * first_ns);
            before_ns = wait_ns;
        }
    }
}

static void test_backoff_waits_as_told(void)
{
    struct backoff backoff = {.first_ns = NS_PER_S};

    check_int(backoff_next(&backoff, 5 * NS_PER_S, 0), 5 * NS_PER_S);
    check_int(backoff_next(&backoff, 0, 0), 5 * NS_PER_S); /* never less than before */
    check_int(backoff_next(&backoff, 1, 0), 5 * NS_PER_S);
    check_int(backoff_next(&backoff, 0, 0), 8 * NS_PER_S);
    check_int(backoff_next(&backoff, 86400 * NS_PER_S, 0), BACKOFF_TOLD_NS);
    check_int(backoff_next(&backoff, 0, 0), 60 * NS_PER_S);
}

/* ---- replies ---- */

static void check_reply(long status, const char *body, enum verdict want, const char *why)
{
    struct outcome outcome;

    reply_judge(status, 0, span_text(body), &outcome);
    if (outcome.verdict != want)
        check_fail("%ld %s gives %d, not %d", status, body, outcome.verdict, want);
    check_text(span_text(outcome.why.text), why);
}

static void test_replies(void)
{
    static const char *const taken[] = {"",
                                        "ok",
                                        "5",
                                        "null",
                                        "\"error\"",
                                        "[{\"error\": 1}]",
                                        "{}",
                                        "{\"error\": null}",
                                        " {\"errors\": 1, \"error\" : false } ",
                                        "{\"a\": {\"error\": 1}}",
                                        "{\"error\": \"cut",
                                        "{\"error\": 1} {"};

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        check_reply(200, taken[i], VERDICT_TAKEN, "");
    check_reply(299, "", VERDICT_TAKEN, "");
    check_reply(200, "{\"error\": \"no room\"}", VERDICT_FAILED,
                "the handler's error: \"no room\"");
    check_reply(204, "{\"x\": [1, {}], \"err\\u006fr\": {\"code\": 5}, \"y\": 0}", VERDICT_FAILED,
                "the handler's error: {\"code\": 5}");
    check_reply(200, "{\"error\": true}", VERDICT_FAILED, "the handler's error: true");
    check_reply(200, "{\"error\": \"\"}", VERDICT_FAILED, "the handler's error: \"\"");
    check_reply(200, "{\"error\": 0}", VERDICT_FAILED, "the handler's error: 0");
}

/* A body of REPLY_BYTES_MAX bytes that begins with BEGIN. */
static void check_cut_reply(const char *begin, enum verdict want, const char *why)
{
    struct outcome outcome;
    char *body = malloc(REPLY_BYTES_MAX);

    if (!body)
        exit(1);
    memset(body, 'x', REPLY_BYTES_MAX);
    memcpy(body, begin, strlen(begin));
    reply_judge(200, 0, span_of(body, REPLY_BYTES_MAX), &outcome);
    check_int(outcome.verdict, want);
    check_text(span_text(outcome.why.text), why);
    free(body);
}

static void test_replies_that_are_cut(void)
{
    check_cut_reply("{\"error\": 5, \"trace\": \"", VERDICT_FAILED, "the handler's error: 5");
    check_cut_reply("{\"a\": 1, \"error\": \"", VERDICT_FAILED, "the handler's error: ...");
    check_cut_reply("{\"error\": null, \"a\": \"", VERDICT_TAKEN, "");
    check_cut_reply("{\"a\": {\"error\": \"", VERDICT_TAKEN, "");
    check_cut_reply("[{\"error\": \"", VERDICT_TAKEN, "");
    check_cut_reply("", VERDICT_TAKEN, "");
}

/* ---- waiting for the end ---- */

static void *end_soon(void *context)
{
    struct worker *worker = context;
    struct timespec soon = {.tv_nsec = 50 * 1000 * 1000};

    nanosleep(&soon, NULL);
    scoped_lock(&worker->lock);
    worker->ended = true;
    pthread_cond_broadcast(&worker->end);
    return NULL;
}

/* By the clock that nobody sets. */
static void test_end_is_awaited(void)
{
    char name[] = "users";
    struct table_config config = {.name = name, .function.kind = FUNCTION_PROGRAM};
    struct worker *worker = NULL;
    struct err err = {""};

    check_int(worker_new(&config, NULL, "me", &worker, &err), 0);
    check(worker_await(worker, 0));
    worker->started = true;
    check(!worker_await(worker, clock_steady_ns() + NS_PER_S / 100));
    check(pthread_create(&worker->thread, NULL, end_soon, worker) == 0);
    check(worker_await(worker, clock_steady_ns() + 600 * NS_PER_S));
    pthread_join(worker->thread, NULL);
    worker_free(worker);
}

static void test_statuses(void)
{
    static const long failed[] = {0, 100, 199, 429, 500, 502, 503, 599, 600, 999};
    static const long refused[] = {300, 301, 302, 307, 308, 400, 401, 403, 404, 408, 413, 422, 499};

    for (size_t i = 0; i < sizeof failed / sizeof failed[0]; i++) {
        char why[32];
        snprintf(why, sizeof why, "HTTP status %ld", failed[i]);
        check_reply(failed[i], "{\"error\": \"secret\"}", VERDICT_FAILED, why);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char why[32];
        snprintf(why, sizeof why, "HTTP status %ld", refused[i]);
        check_reply(refused[i], "", VERDICT_REFUSED, why);
    }
}

static void test_replies_that_ask_to_wait(void)
{
    struct outcome outcome;

    reply_judge(429, 7, span_text(""), &outcome);
    check_int(outcome.wait_ns, 7 * NS_PER_S);
    reply_judge(503, INT64_MAX, span_text(""), &outcome);
    check_int(outcome.wait_ns, 86400 * NS_PER_S);
    reply_judge(500, 0, span_text(""), &outcome);
    check_int(outcome.wait_ns, 0);
}

static void test_long_errors_are_cut(void)
{
    char body[1024];
    struct outcome outcome;

    snprintf(body, sizeof body, "{\"error\": \"%0500d\"}", 7);
    reply_judge(200, 0, span_text(body), &outcome);
    check_int(strlen(outcome.why.text), strlen("the handler's error: ") + 200 + 3);
}

/* ---- signatures ---- */

static char secret_path[64];

static void write_secret(const char *text, size_t len, mode_t mode)
{
    snprintf(secret_path, sizeof secret_path, "/tmp/test_delivery.%d", (int)getpid());
    FILE *file = fopen(secret_path, "w");

    if (!file || fwrite(text, 1, len, file) != len || fclose(file) != 0 ||
        chmod(secret_path, mode) != 0)
        exit(1);
}

static void check_signature(const char *secret, size_t len, const char *want)
{
    cleanup(buf_release) struct buf header;
    struct err err = {""};

    buf_init(&header, 256);
    write_secret(secret, len, 0600);
    check_int(signature_header(secret_path, 1704448800, span_text("{\"a\":1}"), &header, &err), 0);
    check_text(span_text(err.text), "");
    check_text(buf_span(&header), want);
}

/* Made by: python3 -c "import hmac; print(hmac.new(SECRET, b'1704448800.{\"a\":1}',
 * 'sha256').hexdigest())" */
static void test_signatures(void)
{
    static const char plain[] = "Itemfs-Signature: t=1704448800,v1="
                                "2c35701b9c98e84d5ca03a074add4d878a5223ee41c048eb5a5f4e264cd66f16";

    check_signature("secret", 6, plain);
    check_signature("secret\n", 7, plain);
    check_signature("secret\r\n\n", 9, plain);
    check_signature("\0\xff \n", 4,
                    "Itemfs-Signature: t=1704448800,v1="
                    "6bec53fa7c2dc5b8226fffed9606f79232a6e0cbf6d51538ff5f1da81e857e43");
}

static void check_bad_secret(int want, const char *why)
{
    cleanup(buf_release) struct buf header;
    struct err err = {""};
    char message[256];

    buf_init(&header, 256);
    snprintf(message, sizeof message, "secret %s: %s", secret_path, why);
    check_int(signature_header(secret_path, 0, span_text(""), &header, &err), want);
    check_text(span_text(err.text), message);
    check_int(header.len, 0);
}

static void test_bad_secrets(void)
{
    static const mode_t modes[] = {0644, 0640, 0604, 0620, 0601};
    static char large[SECRET_BYTES_MAX + 1];

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char why[128];
        snprintf(why, sizeof why,
                 "mode %04o lets others in; only its owner may read it (chmod 600)", modes[i]);
        write_secret("secret", 6, modes[i]);
        check_bad_secret(-EACCES, why);
    }
    write_secret("\r\n", 2, 0400);
    check_bad_secret(-EINVAL, "empty");
    chmod(secret_path, 0600);
    write_secret(large, sizeof large, 0600);
    check_bad_secret(-EINVAL, "larger than 4096 bytes");
    unlink(secret_path);
    check_bad_secret(-ENOENT, "No such file or directory");
    check(mkfifo(secret_path, 0600) == 0);
    check_bad_secret(-EINVAL, "no regular file");
    unlink(secret_path);
}

CHECK_MAIN(CHECK_TEST(test_batch), CHECK_TEST(test_batch_ends),
           CHECK_TEST(test_batch_drops_what_is_old), CHECK_TEST(test_backoff),
           CHECK_TEST(test_backoff_never_shrinks), CHECK_TEST(test_backoff_waits_as_told),
           CHECK_TEST(test_replies), CHECK_TEST(test_replies_that_are_cut),
           CHECK_TEST(test_end_is_awaited), CHECK_TEST(test_statuses),
           CHECK_TEST(test_replies_that_ask_to_wait), CHECK_TEST(test_long_errors_are_cut),
           CHECK_TEST(test_signatures), CHECK_TEST(test_bad_secrets))
