/* SPDX-License-Identifier: MIT */
#include "deliver/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/log.h"

/* How often a table is looked at: cheap in a store, a request elsewhere. */
#define LOOK_STORE_NS (2 * NS_PER_S)
#define LOOK_SERVICE_NS (30 * NS_PER_S)

/* ---- how it stands ---- */

static const char *table_name(const struct worker *worker)
{
    return worker->config->name;
}

static const char *function_name(const struct worker *worker)
{
    return worker->config->function.shown;
}

bool worker_set_state(struct worker *worker, enum delivery_state state, const char *reason)
{
    scoped_lock(&worker->lock);
    bool news = worker->now.state != state || strcmp(worker->now.reason, reason) != 0;

    worker->now.state = state;
    snprintf(worker->now.reason, sizeof worker->now.reason, "%s", reason);
    return news;
}

/* There is nothing to deliver. */
static void set_off(struct worker *worker, const char *reason)
{
    if (worker_set_state(worker, DELIVERY_OFF, reason))
        log_info("deliver", "table %s: no changes for %s: %s", table_name(worker),
                 function_name(worker), reason);
}

void worker_note_error(struct worker *worker, const char *text)
{
    scoped_lock(&worker->lock);
    snprintf(worker->now.error, sizeof worker->now.error, "%s", text);
    worker->now.error_ns = clock_now_ns();
}

void worker_note_oldest(struct worker *worker, int64_t oldest_ns)
{
    scoped_lock(&worker->lock);
    worker->oldest_ns = oldest_ns;
}

void worker_count(struct worker *worker, enum tally_kind kind, uint64_t more)
{
    tenure_count(&worker->tenure, kind, more);
    scoped_lock(&worker->lock);
    worker->now.tally.of[kind] += more;
}

static void note_done(struct worker *worker, int64_t last_ns)
{
    scoped_lock(&worker->lock);
    worker->now.has_done = true;
    worker->now.done_ns = last_ns;
}

double worker_chance(void)
{
    uint32_t number = 0;

    return getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number
               ? (double)number / UINT32_MAX
               : 0;
}

static void say_lost(struct worker *worker, const char *why)
{
    log_error("deliver", "table %s, %s: %s: changes may have been missed, nobody knows how many",
              table_name(worker), function_name(worker), why);
    worker_note_error(worker, why);
    worker_count(worker, TALLY_LOST, 1);
}

/* ---- the stream ---- */

struct reading {
    struct worker *worker;
    bool full;
    int code;
};

#define READING_ENDS 2 /* what a callback returns that wants no more */

static int take_change(void *context, const struct change *change)
{
    struct reading *reading = context;
    struct worker *worker = reading->worker;
    int code = batch_add(&worker->batch, worker->table, change);

    reading->full = code > 0 || worker->batch.count >= worker->config->function_batch;
    reading->code = code < 0 ? code : 0;
    return reading->full || code < 0 ? READING_ENDS : 0;
}

static void heed_lost(struct worker *worker)
{
    if (!worker->stream->lost)
        return;
    worker->stream->lost = false;
    say_lost(worker, "the stream no longer has what comes next");
}

/* Fills the batch with what there is. An error counts once what came before it is delivered. */
static int read_batch(struct worker *worker, struct err *err)
{
    struct reading reading = {.worker = worker};
    int code = 1;

    batch_clear(&worker->batch, worker->table);
    while (code == 1 && !atomic_load(&worker->tenure.over)) {
        size_t room = worker->config->function_batch - worker->batch.count;
        code = backend_stream_next(worker->stream, room, take_change, &reading, err);
        heed_lost(worker);
        if (reading.code)
            return err_set(err, -reading.code, "table %s: a batch of changes is too large",
                           table_name(worker));
        if (reading.full)
            break;
    }
    if (worker->batch.count)
        err_clear(err);
    return worker->batch.count || code > 0 ? 0 : code;
}

static int place_behind(struct worker *worker, struct err *err)
{
    buf_clear(&worker->behind);
    int code = backend_stream_position(worker->stream, &worker->behind);
    return code ? err_set(err, -code, "table %s: the position in its stream cannot be kept",
                          table_name(worker))
                : 0;
}

/* What comes next is behind `behind`. */
static int move_on(struct worker *worker)
{
    buf_clear(&worker->position);
    buf_add_span(&worker->position, buf_span(&worker->behind));
    return buf_error(&worker->position);
}

/* The next batch, delivered; or a pause where there is none. */
static int step(struct worker *worker, uint64_t number, struct err *err)
{
    int code = read_batch(worker, err);

    if (code == 0)
        code = place_behind(worker, err);
    if (code)
        return code;
    if (worker->batch.count == 0)
        return 1;
    int64_t last_ns = worker->batch.records[worker->batch.count - 1].time_ns;
    code = worker_deliver(worker, number);
    if (code == 0)
        code = tenure_keep(&worker->tenure, number, buf_span(&worker->behind));
    if (code)
        return code;
    note_done(worker, last_ns);
    return move_on(worker);
}

static int idle(struct worker *worker, uint64_t number)
{
    int code = tenure_note(&worker->tenure, number, buf_span(&worker->behind));

    worker_note_oldest(worker, 0);
    if (worker->table->stream)
        worker_set_state(worker, DELIVERY_IDLE, "");
    else
        set_off(worker, "the table's stream is off");
    if (code == 0)
        code = move_on(worker);
    return code ? code : tenure_pause(&worker->tenure, number, worker->stream->pause_ns);
}

/* ---- the table ---- */

static bool is_store(const struct backend *backend)
{
    return backend_can(backend, BACKEND_LOG);
}

/* Gives a copy of the table as it is now; -ENOENT. */
static int find_table(struct worker *worker, struct backend **ret_backend, struct table **ret_table,
                      struct err *err)
{
    worker->checked_ns = clock_steady_ns();
    return source_table(worker->source, span_text(table_name(worker)), ret_backend, ret_table, err);
}

static void set_table(struct worker *worker, struct backend *backend, struct table *table)
{
    backend_stream_close(worker->stream);
    worker->stream = NULL;
    table_free(worker->table);
    worker->table = table;
    scoped_lock(&worker->lock);
    worker->backend = backend;
}

static int begin_anew(struct worker *worker)
{
    buf_clear(&worker->position);
    buf_add_text(&worker->position, STREAM_OLDEST);
    return buf_error(&worker->position) ? buf_error(&worker->position) : 1;
}

/* Looks at the table: 1 when it has changed, and the stream is to be opened anew. -ENOENT: it is
 * gone from its backend. */
static int check_table(struct worker *worker, uint64_t number, struct err *err)
{
    struct backend *backend = worker->backend, *found = NULL;
    struct table *table = NULL;
    int code = find_table(worker, &found, &table, err);
    if (code == -ENOENT) /* one that comes later is another */
        (void)tenure_note(&worker->tenure, number, span_text(STREAM_OLDEST));
    if (code == 0 && found != backend)
        code = -ENOENT;
    if (code == 0) /* an open stream follows it by itself */
        worker->table->stream = table->stream;
    if (code == 0 && !table_equal(table, worker->table)) {
        bool anew = table->id != worker->table->id; /* then none of its changes was delivered */
        set_table(worker, backend, table);
        return anew ? begin_anew(worker) : 1;
    }
    table_free(table);
    return code;
}

/* The same from time to time, when everything there was has been delivered. */
static int check_now_and_then(struct worker *worker, uint64_t number, struct err *err)
{
    int64_t pause_ns = is_store(worker->backend) ? LOOK_STORE_NS : LOOK_SERVICE_NS;

    return clock_steady_ns() - worker->checked_ns < pause_ns ? 0 : check_table(worker, number, err);
}

/* The stream says that the table is gone. One that is there all the same is asked again later. */
static int check_gone(struct worker *worker, uint64_t number, const struct err *said,
                      struct err *err)
{
    int code = check_table(worker, number, err);

    return code == 0 ? err_set(err, EAGAIN, "%s", err_text(said, -ENOENT)) : code < 0 ? code : 0;
}

static int open_stream(struct worker *worker, struct err *err)
{
    struct backend *backend = worker->backend;
    int code =
        backend_stream_open(backend, worker->table, worker->position.data, &worker->stream, err);

    if (code == -EINVAL) { /* not what a stream of this table has given */
        say_lost(worker, err->text);
        err_clear(err);
        code = backend_stream_open(backend, worker->table, STREAM_OLDEST, &worker->stream, err);
    }
    if (code == 0)
        heed_lost(worker);
    return code;
}

/* ---- a tenure ---- */

static const struct backoff no_trouble = {.first_ns = NS_PER_S};

/* The backend fails: waits. */
static int endure(struct worker *worker, uint64_t number, const struct err *err, int code)
{
    char why[ERR_TEXT_MAX];

    int64_t wait_ns = backoff_next(&worker->trouble, 0, worker_chance());
    snprintf(why, sizeof why, "%s", err_text(err, code));
    backend_stream_close(worker->stream);
    worker->stream = NULL;
    log_warning("deliver", "table %s: changes cannot be read: %s: tried again in %.1f s",
                table_name(worker), why, (double)wait_ns / (double)NS_PER_S);
    worker_note_error(worker, why);
    worker_set_state(worker, DELIVERY_WAITING, why);
    return tenure_pause(&worker->tenure, number, wait_ns);
}

/* One turn: a batch, or an idle moment. */
static int turn(struct worker *worker, uint64_t number, struct err *err)
{
    int code = worker->stream ? 0 : open_stream(worker, err);

    if (code == 0)
        code = step(worker, number, err);
    if (code >= 0)
        worker->trouble = no_trouble;
    if (code == -ENOENT) {
        struct err said = *err;
        err_clear(err);
        return check_gone(worker, number, &said, err);
    }
    if (code <= 0)
        return code;
    code = check_now_and_then(worker, number, err);
    return code == 0 ? idle(worker, number) : code < 0 ? code : 0;
}

/* -EINTR, -ESTALE: the tenure is over; -ENOENT: the table is gone. */
static int run_tenure(struct worker *worker, uint64_t number)
{
    int code = 0;

    cancel_set(&worker->tenure.over);
    log_info("deliver", "table %s: changes go from here to %s", table_name(worker),
             function_name(worker));
    while (code == 0) {
        struct err err = {""};
        code = turn(worker, number, &err);
        if (code < 0 && code != -EINTR && code != -ESTALE && code != -ENOENT)
            code = endure(worker, number, &err, code);
    }
    backend_stream_close(worker->stream);
    worker->stream = NULL;
    worker_note_oldest(worker, 0);
    cancel_set(NULL);
    return code;
}

/* Until the table is gone, or the worker is to end. */
static void serve(struct worker *worker)
{
    struct tenure *tenure = &worker->tenure;
    struct err err = {""};
    uint64_t number;
    int code = tenure_start(tenure, worker->backend, table_name(worker), &err);

    if (code < 0) {
        log_error("deliver", "table %s: %s", table_name(worker), err.text);
        (void)tenure_pause(tenure, 0, LOOK_SERVICE_NS);
    }
    while (code == 0) {
        worker_set_state(worker, DELIVERY_STANDBY, "");
        code = tenure_begin(tenure, &number, &worker->position);
        if (code == 0 && run_tenure(worker, number) == -ENOENT)
            code = -ENOENT;
    }
    tenure_stop(tenure);
}

/* ---- the thread ---- */

static void await_table(struct worker *worker)
{
    struct backend *backend;
    struct table *table;
    struct err err = {""};

    cancel_set(&worker->tenure.called_off);
    int code = find_table(worker, &backend, &table, &err);
    cancel_set(NULL);
    if (code == 0) {
        set_table(worker, backend, table);
        serve(worker);
        set_table(worker, NULL, NULL);
        return;
    }
    set_off(worker, err_text(&err, code));
    (void)tenure_pause(&worker->tenure, 0, LOOK_STORE_NS);
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    struct err err = {""};

    if (caller_check(worker->caller, &err) < 0) {
        log_warning("deliver", "table %s: %s", table_name(worker), err.text);
        worker_note_error(worker, err.text);
    }
    while (tenure_pause(&worker->tenure, 0, 0) == 0)
        await_table(worker);
    scoped_lock(&worker->lock);
    worker->ended = true;
    pthread_cond_broadcast(&worker->end);
    return NULL;
}

static void wait_locked(struct worker *worker, int64_t time_ns)
{
    struct timespec when;

    clock_gettime(CLOCK_MONOTONIC, &when);
    int64_t at = (int64_t)when.tv_sec * NS_PER_S + when.tv_nsec + time_ns;
    when = (struct timespec){.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
    pthread_cond_clockwait(&worker->end, &worker->lock, CLOCK_MONOTONIC, &when);
}

bool worker_await(struct worker *worker, int64_t until_ns)
{
    scoped_lock(&worker->lock);
    while (worker->started && !worker->ended && clock_steady_ns() < until_ns)
        wait_locked(worker, until_ns - clock_steady_ns());
    return worker->ended || !worker->started;
}

/* Signals are for the others: a pipe that nobody reads is an error of a write here. */
int worker_start(struct worker *worker, struct err *err)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    worker->started = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return worker->started ? 0 : err_set(err, EAGAIN, "cannot start a thread");
}

int worker_new(const struct table_config *config, struct source *source, const char *holder,
               struct worker **ret_worker, struct err *err)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        return err_set(err, ENOMEM, "out of memory");
    worker->config = config;
    worker->source = source;
    worker->trouble = no_trouble;
    worker->now.table = config->name;
    worker->now.function = config->function.shown;
    tenure_init(&worker->tenure, holder);
    batch_init(&worker->batch);
    buf_init(&worker->position, LEASE_TEXT_MAX);
    buf_init(&worker->behind, LEASE_TEXT_MAX);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->end, NULL);
    worker->caller = caller_new(config);
    if (!worker->caller) {
        worker_free(worker);
        return err_set(err, ENOMEM, "out of memory");
    }
    *ret_worker = worker;
    return 0;
}

void worker_free(struct worker *worker)
{
    caller_free(worker->caller);
    tenure_release(&worker->tenure);
    batch_release(&worker->batch);
    buf_release(&worker->position);
    buf_release(&worker->behind);
    pthread_cond_destroy(&worker->end);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
