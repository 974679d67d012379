/* SPDX-License-Identifier: MIT */
#include "deliver/deliver.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "deliver/worker.h"

#define STOP_S 5 /* that calls under way have at the end */

struct deliver {
    struct worker **workers;
    size_t count;
    char *holder; /* what this daemon is called in leases */
};

/* ---- starting and stopping ---- */

/* For people to find it, and unlike all others. A text that every backend gives back as it is,
 * which a path need not be. */
static char *make_holder(const char *place)
{
    cleanup(buf_release) struct buf holder;
    char host[256] = "";
    uint64_t number = 0;

    buf_init(&holder, LEASE_TEXT_MAX);
    gethostname(host, sizeof host - 1);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return NULL;
    text_visible(span_text(host), &holder);
    buf_addf(&holder, ", pid %d on ", (int)getpid());
    text_visible(span_text(place), &holder);
    buf_addf(&holder, " (%016" PRIx64 ")", number);
    return buf_take(&holder, NULL);
}

/* A process that ignores its children's ends never learns how they ended. */
static void prepare_for_programs(void)
{
    struct sigaction now;

    if (sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        signal(SIGCHLD, SIG_DFL);
    umask(S_IRWXG | S_IRWXO);
}

static int add_worker(struct deliver *deliver, const struct table_config *table,
                      struct source *source, struct err *err)
{
    struct worker **workers =
        reallocarray(deliver->workers, deliver->count + 1, sizeof(struct worker *));

    if (!workers)
        return err_set(err, ENOMEM, "out of memory");
    deliver->workers = workers;
    int code = worker_new(table, source, deliver->holder, &workers[deliver->count], err);
    if (code == 0)
        deliver->count++;
    return code;
}

static int start_all(struct deliver *deliver, const struct config *config, struct err *err)
{
    int code = 0;

    if (config->read_only && deliver->count)
        log_info("deliver", "the mount is read-only: it delivers no changes");
    for (size_t i = 0; i < deliver->count && code == 0; i++) {
        struct worker *worker = deliver->workers[i];
        if (config->read_only)
            worker_set_state(worker, DELIVERY_OFF, "the mount is read-only");
        else
            code = worker_start(worker, err);
    }
    return code;
}

static int add_workers(struct deliver *deliver, const struct config *config, struct source *source,
                       struct err *err)
{
    int code = 0;

    for (size_t i = 0; i < config->table_count && code == 0; i++) {
        enum function_kind kind = config->tables[i].function.kind;
        if (kind == FUNCTION_PROGRAM)
            prepare_for_programs();
        if (kind != FUNCTION_NONE)
            code = add_worker(deliver, &config->tables[i], source, err);
    }
    return code;
}

int deliver_start(const struct config *config, struct source *source, const char *place,
                  struct deliver **ret_deliver, struct err *err)
{
    struct deliver *deliver = calloc(1, sizeof *deliver);

    if (!deliver)
        return err_set(err, ENOMEM, "out of memory");
    deliver->holder = make_holder(place);
    int code = deliver->holder ? add_workers(deliver, config, source, err)
                               : err_set(err, ENOMEM, "out of memory");
    if (code == 0)
        code = start_all(deliver, config, err);
    if (code < 0) {
        deliver_stop(deliver);
        return code;
    }
    *ret_deliver = deliver;
    return 0;
}

void deliver_leave(struct deliver *deliver)
{
    for (size_t i = 0; deliver && i < deliver->count; i++)
        tenure_leave(&deliver->workers[i]->tenure);
}

void deliver_stop(struct deliver *deliver)
{
    if (!deliver)
        return;
    int64_t until_ns = clock_steady_ns() + STOP_S * NS_PER_S;
    deliver_leave(deliver);
    for (size_t i = 0; i < deliver->count; i++)
        if (!worker_await(deliver->workers[i], until_ns))
            tenure_call_off(&deliver->workers[i]->tenure);
    for (size_t i = 0; i < deliver->count; i++) {
        if (deliver->workers[i]->started)
            pthread_join(deliver->workers[i]->thread, NULL);
        worker_free(deliver->workers[i]);
    }
    free(deliver->workers);
    free(deliver->holder);
    free(deliver);
}

/* ---- how it stands ---- */

const char *delivery_state_name(enum delivery_state state)
{
    switch (state) {
    case DELIVERY_OFF: return "off";
    case DELIVERY_STANDBY: return "standby";
    case DELIVERY_IDLE: return "idle";
    case DELIVERY_CALLING: return "delivering";
    case DELIVERY_WAITING: break;
    }
    return "waiting";
}

static int64_t age(int64_t time_ns)
{
    int64_t age_ns = clock_now_ns() - time_ns;
    return age_ns > 0 ? age_ns : 0;
}

/* What the worker knows; gives the backend that its table is in. */
static struct backend *add_now(struct worker *worker, struct delivery *delivery)
{
    scoped_lock(&worker->lock);
    struct buf position = delivery->position;
    *delivery = worker->now;
    delivery->position = position;
    delivery->has_lag = delivery->state == DELIVERY_IDLE || worker->oldest_ns;
    delivery->lag_ns = worker->oldest_ns ? age(worker->oldest_ns) : 0;
    return worker->backend;
}

/* What the lease says, as far as it is at hand. */
static void add_tenure(struct worker *worker, struct delivery *delivery)
{
    struct tenure *tenure = &worker->tenure;
    scoped_lock(&tenure->lock);
    if (tenure->held) {
        buf_add_span(&delivery->position, buf_span(&tenure->position));
        delivery->has_position = delivery->position.len > 0;
    }
    struct err reason = {""};
    if (tenure->trouble.text[0] && delivery->state != DELIVERY_OFF)
        err_set(&reason, 0, "the lease cannot be used: %s", tenure->trouble.text);
    else if (delivery->state == DELIVERY_STANDBY && tenure->other.len)
        err_set(&reason, 0, "delivered by %.*s", (int)tenure->other.len, tenure->other.data);
    if (!reason.text[0])
        return;
    snprintf(delivery->reason, sizeof delivery->reason, "%s", reason.text);
    if (delivery->state != DELIVERY_STANDBY)
        delivery->state = DELIVERY_WAITING;
}

/* Counted where it is at hand: in a store. */
static void add_behind(struct backend *backend, struct delivery *delivery)
{
    struct table *table = NULL;
    struct stream_lag lag;
    struct err err = {""};

    if (!delivery->has_position || !backend || !backend_can(backend, BACKEND_LOG))
        return;
    if (backend_describe(backend, span_text(delivery->table), &table, &err) == 0 &&
        backend_stream_lag(backend, table, delivery->position.data, &lag, &err) == 0) {
        delivery->has_behind = true;
        delivery->behind = lag.records;
        delivery->has_lag = true;
        delivery->lag_ns = lag.first_ns ? age(lag.first_ns) : 0;
    }
    table_free(table);
}

int deliver_each(struct deliver *deliver, delivery_fn each, void *context)
{
    int code = 0;

    for (size_t i = 0; deliver && i < deliver->count && code == 0; i++) {
        struct delivery delivery = {.table = NULL};
        buf_init(&delivery.position, LEASE_TEXT_MAX);
        struct backend *backend = add_now(deliver->workers[i], &delivery);
        add_tenure(deliver->workers[i], &delivery);
        add_behind(backend, &delivery);
        code = each(context, &delivery);
        buf_release(&delivery.position);
    }
    return code;
}
