/* SPDX-License-Identifier: MIT */
#include "upkeep/upkeep.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "upkeep/purge.h"

#define TURN_NS NS_PER_S         /* between two thoughts of whether to look */
#define STORE_NS (60 * NS_PER_S) /* a look, where anything was changed since the last one */
#define SERVICE_NS (3600 * NS_PER_S)
#define AGAIN_NS (60 * NS_PER_S) /* a service, after a look that failed */
#define SHARE 20                 /* looks take a twentieth of the time at most */

/* The thread's own, but for `state`. */
struct kept {
    const struct table_config *rule;
    struct backend *backend; /* where the table was found last; NULL: it was not yet */
    int64_t not_before_ns;   /* steady clock */
    int64_t looked_ns; /* when the last look began, steady clock; 0: there was none, or it failed */
    int64_t oldest_ns; /* as in purge_count */
    uint64_t position; /* of a store's log, before the last look */
    struct upkeep_state state; /* upkeep->lock */
};

struct upkeep {
    struct source *source;
    struct kept *tables;
    size_t count;
    pthread_t thread;
    bool started;
    atomic_bool ends; /* what is going on is called off */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* steady clock; under the lock */
};

/* --- One look --- */

static void note_failure(struct upkeep *upkeep, struct kept *kept, const struct err *err, int code)
{
    const char *text = err_text(err, code);
    bool again;

    pthread_mutex_lock(&upkeep->lock);
    again = strcmp(kept->state.error, text) == 0;
    snprintf(kept->state.error, sizeof kept->state.error, "%s", text);
    pthread_mutex_unlock(&upkeep->lock);
    if (!again)
        log_warning("upkeep", "table %s: %s", kept->rule->name, text);
}

static void note_success(struct upkeep *upkeep, struct kept *kept, uint64_t left)
{
    scoped_lock(&upkeep->lock);
    kept->state.looks++;
    kept->state.items = left;
    kept->state.look_ns = clock_now_ns();
    kept->state.error[0] = '\0';
}

static int purge_by(struct upkeep *upkeep, struct kept *kept, struct backend *backend,
                    const struct table *table, const struct purge_rule *rule, uint64_t *ret_left,
                    struct err *err)
{
    struct purge_count count = {0};
    int code = purge(backend, table, rule, false, WRITE_TOLD, NULL, NULL, &count, err);

    if (count.deleted)
        log_info("upkeep", "table %s: %" PRIu64 " items deleted that are %s", table->name,
                 count.deleted, rule->kind == PURGE_UNTIL ? "too old" : "too many");
    scoped_lock(&upkeep->lock);
    kept->state.deleted += count.deleted;
    kept->state.changed += count.changed;
    kept->oldest_ns = rule->kind == PURGE_UNTIL ? count.oldest_ns : kept->oldest_ns;
    *ret_left = count.items - count.deleted;
    return code;
}

static int look_at(struct upkeep *upkeep, struct kept *kept, struct backend *backend,
                   const struct table *table, struct err *err)
{
    const struct table_config *rule = kept->rule;
    struct purge_rule until = {.kind = PURGE_UNTIL};
    struct purge_rule capacity = {
        .kind = PURGE_CAPACITY, .min = rule->keep_min, .max = rule->keep_max};
    uint64_t left = 0;
    int code = 0;

    until.before_ns = (clock_now_s() - (int64_t)rule->keep_seconds) * NS_PER_S;
    if (rule->keep_seconds)
        code = purge_by(upkeep, kept, backend, table, &until, &left, err);
    if (code == 0 && rule->keep_max)
        code = purge_by(upkeep, kept, backend, table, &capacity, &left, err);
    if (code == 0)
        note_success(upkeep, kept, left);
    return code;
}

/* A table that is not there is nothing to keep. */
static int find_and_look(struct upkeep *upkeep, struct kept *kept, struct err *err)
{
    struct backend *backend = NULL;
    struct table *table = NULL;
    int code = source_table(upkeep->source, span_text(kept->rule->name), &backend, &table, err);

    if (code == 0)
        kept->backend = backend;
    if (code == 0 && backend_can(backend, BACKEND_LOG))
        code = backend_log_position(backend, &kept->position, err);
    if (code == 0)
        code = look_at(upkeep, kept, backend, table, err);
    table_free(table);
    return code;
}

static void look(struct upkeep *upkeep, struct kept *kept, bool store)
{
    struct err err = {""};
    int64_t begin_ns = clock_steady_ns();
    int code = find_and_look(upkeep, kept, &err);
    int64_t end_ns = clock_steady_ns();

    kept->looked_ns = code == 0 ? begin_ns : 0;
    if (code < 0 && code != -ENOENT && code != -EINTR)
        note_failure(upkeep, kept, &err, code);
    if (code < 0 && !store)
        kept->not_before_ns = end_ns + AGAIN_NS;
    else
        kept->not_before_ns = end_ns + SHARE * (end_ns - begin_ns);
}

/* --- When --- */

/* Whether the oldest item that the last look has left is too old by now. */
static bool has_aged(const struct kept *kept)
{
    int64_t seconds = (int64_t)kept->rule->keep_seconds;
    return seconds && kept->oldest_ns && clock_now_s() - seconds > kept->oldest_ns / NS_PER_S;
}

/* Whether there is reason to look at a table of a store again. */
static bool is_due(const struct kept *kept, int64_t now_ns)
{
    uint64_t position;

    if (has_aged(kept) || backend_log_position(kept->backend, &position, NULL) < 0)
        return true;
    uint64_t changes = position - kept->position;
    uint64_t most = kept->rule->keep_max;
    return (most && kept->state.items + changes >= most && changes > 0) ||
           (changes > 0 && now_ns - kept->looked_ns >= STORE_NS);
}

/* Whether the table is, or may be, where looks cost nothing. */
static bool is_in_store(const struct upkeep *upkeep, const struct kept *kept)
{
    const struct source *source = upkeep->source;
    bool store = true;

    if (kept->backend)
        return backend_can(kept->backend, BACKEND_LOG);
    for (size_t i = 0; i < source->count; i++)
        store &= backend_can(source->backends[i], BACKEND_LOG);
    return store;
}

static void turn(struct upkeep *upkeep, struct kept *kept)
{
    int64_t now_ns = clock_steady_ns();
    bool store = is_in_store(upkeep, kept);

    if (now_ns < kept->not_before_ns)
        return;
    if (!kept->looked_ns || (store ? is_due(kept, now_ns) : now_ns - kept->looked_ns >= SERVICE_NS))
        look(upkeep, kept, store);
}

static bool wait_for_turn(struct upkeep *upkeep)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t at_ns = (int64_t)until.tv_sec * NS_PER_S + until.tv_nsec + TURN_NS;
    until = (struct timespec){at_ns / NS_PER_S, at_ns % NS_PER_S};
    scoped_lock(&upkeep->lock);
    while (!atomic_load(&upkeep->ends) &&
           pthread_cond_timedwait(&upkeep->wake, &upkeep->lock, &until) != ETIMEDOUT)
        ;
    return !atomic_load(&upkeep->ends);
}

static void *upkeep_main(void *context)
{
    struct upkeep *upkeep = context;

    cancel_set(&upkeep->ends);
    do {
        for (size_t i = 0; i < upkeep->count && !is_cancelled(); i++)
            turn(upkeep, &upkeep->tables[i]);
    } while (wait_for_turn(upkeep));
    return NULL;
}

/* --- Beginning and end --- */

static bool has_rule(const struct table_config *table)
{
    return table->keep_seconds || table->keep_max;
}

static struct upkeep *upkeep_new(const struct config *config, struct source *source)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);

    if (!upkeep)
        return NULL;
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&upkeep->wake, &steady);
    pthread_condattr_destroy(&steady);
    pthread_mutex_init(&upkeep->lock, NULL);
    upkeep->source = source;
    upkeep->tables = calloc(config->table_count + 1, sizeof *upkeep->tables);
    for (size_t i = 0; upkeep->tables && i < config->table_count; i++) {
        if (!has_rule(&config->tables[i]))
            continue;
        struct kept *kept = &upkeep->tables[upkeep->count++];
        kept->rule = kept->state.rule = &config->tables[i];
    }
    return upkeep;
}

/* Signals are for the threads that wait for them. */
static int start_quietly(struct upkeep *upkeep)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&upkeep->thread, NULL, upkeep_main, upkeep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -code;
}

int upkeep_start(const struct config *config, struct source *source, struct upkeep **ret_upkeep,
                 struct err *err)
{
    struct upkeep *upkeep = upkeep_new(config, source);

    if (!upkeep || !upkeep->tables) {
        upkeep_stop(upkeep);
        return err_set(err, ENOMEM, "out of memory");
    }
    if (upkeep->count && config->read_only)
        log_info("upkeep",
                 "the mount is read-only: it deletes nothing that is too old or too many");
    if (upkeep->count && !config->read_only) {
        int code = start_quietly(upkeep);
        upkeep->started = code == 0;
        if (code < 0) {
            upkeep_stop(upkeep);
            return err_set(err, -code, "cannot start a thread: %s", strerror(-code));
        }
    }
    *ret_upkeep = upkeep;
    return 0;
}

void upkeep_stop(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    pthread_mutex_lock(&upkeep->lock);
    atomic_store(&upkeep->ends, true);
    pthread_cond_broadcast(&upkeep->wake);
    pthread_mutex_unlock(&upkeep->lock);
    if (upkeep->started)
        pthread_join(upkeep->thread, NULL);
    pthread_cond_destroy(&upkeep->wake);
    pthread_mutex_destroy(&upkeep->lock);
    free(upkeep->tables);
    free(upkeep);
}

int upkeep_each(struct upkeep *upkeep, upkeep_fn each, void *context)
{
    int code = 0;

    for (size_t i = 0; upkeep && i < upkeep->count && code == 0; i++) {
        pthread_mutex_lock(&upkeep->lock);
        struct upkeep_state state = upkeep->tables[i].state;
        pthread_mutex_unlock(&upkeep->lock);
        code = each(context, &state);
    }
    return code;
}
