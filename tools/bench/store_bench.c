/* SPDX-License-Identifier: MIT */
/*
 * What the embedded store takes for single operations: store_bench [FILE [ITEMS]]. FILE must not
 * exist and is removed afterwards. Prints "name: value unit" lines. Items have about 300 bytes,
 * each write is a commit of its own, and maintenance runs beside, as in a mount.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backend/sqlite/sqlite.h"
#include "base/clock.h"

#define THREADS 8
#define DURABLE_WRITES 2000

struct bench {
    struct backend *backend;
    struct table *streamed, *quiet;
    unsigned items;
    _Atomic bool stop;
};

static void fail(const struct err *err)
{
    fprintf(stderr, "store_bench: %s\n", err->text);
    exit(1);
}

static void *maintain(void *context)
{
    struct bench *bench = context;
    struct err err = {""};
    int64_t next_ns;

    while (!bench->stop) {
        if (backend_maintain(bench->backend, &next_ns, &err) < 0)
            fail(&err);
        for (int i = 0; i < 10 && !bench->stop; i++)
            nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    }
    return NULL;
}

static void write_one(struct bench *bench, const struct table *table, unsigned i, unsigned round,
                      unsigned flags)
{
    char key[32], body[400];
    struct err err = {""};

    snprintf(key, sizeof key, "item-%07u", i);
    snprintf(body, sizeof body,
             "{\n  \"name\": \"%s\",\n  \"count\": %u,\n  \"text\": \"%0200d\",\n"
             "  \"list\": [1, 2, 3],\n  \"map\": {\"a\": true, \"b\": null}\n}\n",
             key, i + round, 7);
    struct action action = {.kind = ACTION_PUT,
                            .table = table,
                            .key.partition = span_text(key),
                            .body = span_text(body)};
    if (backend_write(bench->backend, &action, 1, flags, &err) < 0)
        fail(&err);
}

static void report(const char *name, int64_t begin_ns, double count)
{
    printf("%s: %.2f us\n", name, (double)(clock_steady_ns() - begin_ns) / 1e3 / count);
    fflush(stdout);
}

static void bench_writes(struct bench *bench, const char *name, const struct table *table,
                         unsigned round)
{
    int64_t begin_ns = clock_steady_ns();

    for (unsigned i = 0; i < bench->items; i++)
        write_one(bench, table, i, round, 0);
    report(name, begin_ns, bench->items);
}

static void bench_durable(struct bench *bench)
{
    int64_t begin_ns = clock_steady_ns();

    for (unsigned i = 0; i < DURABLE_WRITES; i++)
        write_one(bench, bench->streamed, i, 2, WRITE_DURABLE);
    report("durable_write", begin_ns, DURABLE_WRITES);
}

struct worker {
    struct bench *bench;
    unsigned number, count, flags;
};

static void *work(void *context)
{
    const struct worker *worker = context;

    for (unsigned i = worker->number; i < worker->count; i += THREADS)
        write_one(worker->bench, worker->bench->streamed, i, 3 + worker->flags, worker->flags);
    return NULL;
}

static void bench_threads(struct bench *bench, const char *name, unsigned count, unsigned flags)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    int64_t begin_ns = clock_steady_ns();

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){bench, i, count, flags};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    report(name, begin_ns, count);
}

static void bench_reads(struct bench *bench)
{
    struct err err = {""};
    struct item_meta meta;
    struct buf body;
    int64_t begin_ns = clock_steady_ns();

    buf_init(&body, 1 << 20);
    for (unsigned i = 0; i < bench->items; i++) {
        char key[32];
        snprintf(key, sizeof key, "item-%07" PRIu64, (uint64_t)i * UINT64_C(7919) % bench->items);
        buf_clear(&body);
        if (backend_get(bench->backend, bench->streamed, (struct key){.partition = span_text(key)},
                        &meta, &body, &err) < 0)
            fail(&err);
    }
    report("point_read", begin_ns, bench->items);
    buf_release(&body);
}

static int count_record(void *context, const struct record *record)
{
    (void)record;
    ++*(uint64_t *)context;
    return 0;
}

static void bench_walk(struct bench *bench, const char *name, bool bodies)
{
    struct walk walk = {.bodies = bodies};
    struct err err = {""};
    uint64_t count = 0;
    int64_t begin_ns = clock_steady_ns();

    if (backend_walk(bench->backend, bench->streamed, &walk, count_record, &count, &err) < 0)
        fail(&err);
    report(name, begin_ns, (double)count);
}

static void bench_deletes(struct bench *bench)
{
    int64_t begin_ns = clock_steady_ns();

    for (unsigned i = 0; i < bench->items; i++) {
        char key[32];
        struct err err = {""};
        snprintf(key, sizeof key, "item-%07u", i);
        struct action action = {.kind = ACTION_DELETE,
                                .table = bench->streamed,
                                .key.partition = span_text(key),
                                .condition.kind = COND_EXISTS};
        if (backend_write(bench->backend, &action, 1, 0, &err) < 0)
            fail(&err);
    }
    report("delete", begin_ns, bench->items);
}

static struct table *make_table(struct bench *bench, const char *name, bool stream)
{
    struct err err = {""};
    struct table *table = table_new_default(span_text(name)), *made = NULL;

    if (!table)
        exit(1);
    table->stream = stream;
    if (backend_create_table(bench->backend, table, &err) < 0 ||
        backend_describe(bench->backend, span_text(name), &made, &err) < 0)
        fail(&err);
    table_free(table);
    return made;
}

static void run_all(struct bench *bench)
{
    bench_writes(bench, "insert", bench->streamed, 0);
    bench_writes(bench, "overwrite", bench->streamed, 1);
    bench_writes(bench, "insert_without_stream", bench->quiet, 0);
    bench_durable(bench);
    bench_threads(bench, "write_8_threads", bench->items, 0);
    bench_threads(bench, "durable_write_8_threads", DURABLE_WRITES, WRITE_DURABLE);
    bench_reads(bench);
    bench_walk(bench, "walk", false);
    bench_walk(bench, "walk_bodies", true);
    bench_deletes(bench);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "store_bench.db";
    struct bench bench = {.items = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100000};
    struct sqlite_options options = {.create = true};
    struct err err = {""};
    pthread_t keeper;

    if (access(path, F_OK) == 0 || bench.items == 0) {
        fprintf(stderr, "store_bench: %s exists, or bad number of items\n", path);
        return 2;
    }
    if (sqlite_open(path, &options, &bench.backend, &err) < 0)
        fail(&err);
    bench.streamed = make_table(&bench, "streamed", true);
    bench.quiet = make_table(&bench, "quiet", false);
    if (pthread_create(&keeper, NULL, maintain, &bench) != 0)
        return 1;
    run_all(&bench);
    bench.stop = true;
    pthread_join(keeper, NULL);
    table_free(bench.streamed);
    table_free(bench.quiet);
    backend_close(bench.backend);
    unlink(path);
    return 0;
}
