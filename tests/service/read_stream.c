/* SPDX-License-Identifier: MIT */
/*
 * Reads streams and writes leases as it is told, for tests/service/stream_reader.py.
 *
 * usage: read_stream SOURCE TABLE [OPTION...]      mount options
 *
 * One command a line, one line of JSON in answer, with "code" (0, or an errno's name and then
 * "message") and what is said here:
 *
 *   open POSITION            "pause" in ns; the stream before is closed
 *   next [LIMIT [STOP]]      "records" as change_to_json has them, each with "version"; "more";
 *                            STOP: the callback ends the reading with that record
 *   position                 "position"
 *   storm THREADS            each opens a stream of its own and reads what there is; "counts"
 *   get KEY                  "version" of the item
 *   lease NAME               "count", "holder", "position"
 *   hold NAME COUNT HOLDER POSITION       "-": an empty text
 *
 * All but close say "lost", which is cleared then. SIGUSR1 calls off the command under way.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/source.h"
#include "backend/stream.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/json.h"

#define THREADS_MAX 16

static atomic_bool called_off;

struct driver {
    struct config *config;
    struct source *source;
    const char *name; /* of the table */
    struct backend *backend;
    struct table *table;
    struct stream *stream;
    struct buf out;
};

static void call_off(int number)
{
    (void)number;
    atomic_store(&called_off, true);
}

static void add_text(struct buf *out, const char *name, struct span text)
{
    buf_addf(out, ",\"%s\":", name);
    json_add_string(out, text);
}

/* --- Commands --- */

static int open_stream(struct driver *driver, const char *position, struct err *err)
{
    backend_stream_close(driver->stream);
    driver->stream = NULL;
    table_free(driver->table);
    driver->table = NULL;
    int code = source_table(driver->source, span_text(driver->name), &driver->backend,
                            &driver->table, err);
    if (code == 0)
        code = backend_stream_open(driver->backend, driver->table, position, &driver->stream, err);
    if (code == 0)
        buf_addf(&driver->out, ",\"pause\":%" PRId64, driver->stream->pause_ns);
    return code;
}

struct reading {
    struct driver *driver;
    unsigned long stop, count;
};

static int take(void *context, const struct change *change)
{
    struct reading *reading = context;
    struct buf *out = &reading->driver->out;

    buf_add_text(out, reading->count++ ? "," : "");
    change_to_json(reading->driver->table, change, out);
    out->len--;
    buf_addf(out, ",\"version\":%" PRIu64 "}", change->version);
    return reading->count == reading->stop;
}

static int next(struct driver *driver, const char *limit, const char *stop, struct err *err)
{
    struct reading reading = {.driver = driver, .stop = stop ? strtoul(stop, NULL, 10) : 0};

    buf_add_text(&driver->out, ",\"records\":[");
    int code = backend_stream_next(driver->stream, limit ? strtoul(limit, NULL, 10) : 0, take,
                                   &reading, err);
    buf_addf(&driver->out, "],\"more\":%s", code > 0 ? "true" : "false");
    return code < 0 ? code : 0;
}

static int count(void *context, const struct change *change)
{
    (void)change;
    ++*(unsigned long *)context;
    return 0;
}

struct thread {
    pthread_t id;
    struct driver *driver;
    unsigned long count;
    int code;
};

static void *read_all(void *context)
{
    struct thread *thread = context;
    struct stream *stream = NULL;
    int code = backend_stream_open(thread->driver->backend, thread->driver->table, STREAM_OLDEST,
                                   &stream, NULL);

    for (int more = 1; code == 0 && more;) {
        more = backend_stream_next(stream, 0, count, &thread->count, NULL);
        code = more < 0 ? more : 0;
    }
    backend_stream_close(stream);
    thread->code = code;
    return NULL;
}

static int storm(struct driver *driver, const char *number)
{
    struct thread threads[THREADS_MAX] = {{.driver = NULL}};
    unsigned long wanted = strtoul(number, NULL, 10);
    int code = 0;

    for (unsigned long i = 0; i < wanted && i < THREADS_MAX; i++) {
        threads[i].driver = driver;
        if (pthread_create(&threads[i].id, NULL, read_all, &threads[i]))
            abort();
    }
    buf_add_text(&driver->out, ",\"counts\":[");
    for (unsigned long i = 0; i < wanted && i < THREADS_MAX; i++) {
        pthread_join(threads[i].id, NULL);
        buf_addf(&driver->out, "%s%lu", i ? "," : "", threads[i].count);
        code = code ? code : threads[i].code;
    }
    buf_add_char(&driver->out, ']');
    return code;
}

static int tell_position(struct driver *driver)
{
    cleanup(buf_release) struct buf position;

    buf_init(&position, LEASE_TEXT_MAX);
    int code = backend_stream_position(driver->stream, &position);
    add_text(&driver->out, "position", buf_span(&position));
    return code;
}

static int get(struct driver *driver, const char *key, struct err *err)
{
    struct item_meta meta = {0};
    const struct key wanted = {.partition = span_text(key)};
    int code = backend_get(driver->backend, driver->table, wanted, &meta, NULL, err);

    buf_addf(&driver->out, ",\"version\":%" PRIu64, meta.version);
    return code;
}

static int tell_lease(struct driver *driver, const char *name, struct err *err)
{
    struct lease lease;

    lease_init(&lease);
    int code = backend_lease_read(driver->backend, span_text(name), &lease, err);
    buf_addf(&driver->out, ",\"count\":%" PRIu64, lease.count);
    add_text(&driver->out, "holder", buf_span(&lease.holder));
    add_text(&driver->out, "position", buf_span(&lease.position));
    lease_release(&lease);
    return code;
}

static struct span text_of(const char *word)
{
    return strcmp(word, "-") ? span_text(word) : span_of("", 0);
}

static int hold(struct driver *driver, char *const *words, struct err *err)
{
    return backend_lease_write(driver->backend, span_text(words[1]), strtoull(words[2], NULL, 10),
                               text_of(words[3]), text_of(words[4]), err);
}

/* --- */

static int run(struct driver *driver, char **words, struct err *err)
{
    const char *command = words[0] ? words[0] : "";

    if (strcmp(command, "open") == 0 && words[1])
        return open_stream(driver, words[1], err);
    if (strcmp(command, "next") == 0 && driver->stream)
        return next(driver, words[1], words[1] ? words[2] : NULL, err);
    if (strcmp(command, "position") == 0 && driver->stream)
        return tell_position(driver);
    if (strcmp(command, "storm") == 0 && words[1])
        return storm(driver, words[1]);
    if (strcmp(command, "get") == 0 && words[1])
        return get(driver, words[1], err);
    if (strcmp(command, "lease") == 0 && words[1])
        return tell_lease(driver, words[1], err);
    if (strcmp(command, "hold") == 0 && words[1] && words[2] && words[3] && words[4])
        return hold(driver, words, err);
    return err_set(err, EINVAL, "no such command");
}

static void answer(struct driver *driver, char *line)
{
    char *words[6] = {NULL};
    struct err err = {""};

    for (size_t i = 0; i < 5 && (words[i] = strtok(i ? NULL : line, " \n")); i++)
        continue;
    buf_clear(&driver->out);
    atomic_store(&called_off, false);
    cancel_set(&called_off);
    int code = run(driver, words, &err);
    buf_addf(&driver->out, ",\"code\":");
    json_add_string(&driver->out, span_text(code ? strerrorname_np(-code) : "0"));
    add_text(&driver->out, "message", span_text(err.text));
    buf_addf(&driver->out, ",\"lost\":%s",
             driver->stream && driver->stream->lost ? "true" : "false");
    if (driver->stream)
        driver->stream->lost = false;
    printf("{%.*s}\n", (int)driver->out.len - 1, driver->out.data + 1);
    fflush(stdout);
}

static int open_source(struct driver *driver, int count, char **options, struct err *err)
{
    int code = config_from_source(driver->name, &driver->config, err);

    for (int i = 0; code == 0 && i < count; i++)
        code = config_option(driver->config, options[i], err);
    if (code == 0)
        code = source_open(driver->config, true, &driver->source, err);
    if (code == 0)
        driver->backend = driver->source->backends[0];
    return code;
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = call_off, .sa_flags = SA_RESTART};
    struct driver driver = {.name = argc > 2 ? argv[1] : ""};
    struct err err = {""};
    char *line = NULL;
    size_t room = 0;

    log_open("read_stream", stderr, LOG_LEVEL_WARNING);
    sigaction(SIGUSR1, &action, NULL);
    buf_init(&driver.out, 1u << 30);
    int code = open_source(&driver, argc - 3, argv + 3, &err);
    printf("{\"code\":\"%s\"}\n", code ? strerrorname_np(-code) : "0");
    fflush(stdout);
    if (code)
        fprintf(stderr, "%s\n", err.text);
    driver.name = argv[2];
    while (code == 0 && getline(&line, &room, stdin) > 0)
        answer(&driver, line);
    free(line);
    backend_stream_close(driver.stream);
    table_free(driver.table);
    source_close(driver.source);
    config_free(driver.config);
    buf_release(&driver.out);
    return code != 0;
}
