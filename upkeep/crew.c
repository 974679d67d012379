/* SPDX-License-Identifier: MIT */
#include "upkeep/crew.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/cancel.h"
#include "base/cleanup.h"

#define HANDS_MOST 16

struct crew {
    struct backend *backend;
    const struct table *table;
    const struct doomed *doomed;
    size_t count;
    unsigned flags;
    const atomic_bool *cancelled;
    _Atomic size_t next;
    _Atomic uint64_t deleted, changed;
    _Atomic int code; /* of the first failure */
    pthread_mutex_t lock;
    struct err *err; /* under the lock */
};

static struct action action_of(const struct crew *crew, const struct doomed *doomed)
{
    return (struct action){.kind = ACTION_DELETE,
                           .table = crew->table,
                           .key = doomed_key(doomed),
                           .condition = {COND_VERSION, doomed->version},
                           .mtime_ns = doomed->mtime_ns};
}

static bool is_stale(int code)
{
    return code == -ESTALE || code == -ENOENT;
}

static int delete_one(struct crew *crew, const struct doomed *doomed)
{
    struct action action = action_of(crew, doomed);
    struct err own = {""};
    int code = backend_write(crew->backend, &action, 1, crew->flags, &own);

    if (code == 0)
        crew->deleted++;
    else if (is_stale(code))
        crew->changed++;
    if (code == 0 || is_stale(code))
        return 0;
    scoped_lock(&crew->lock);
    if (crew->code == 0) {
        crew->code = code;
        err_set(crew->err, -code, "%s", err_text(&own, code));
    }
    return code;
}

/* A hand, or the caller itself: items one by one. */
static void *work(void *context)
{
    struct crew *crew = context;
    size_t at;

    cancel_set(crew->cancelled);
    while (crew->code == 0 && !is_cancelled() && (at = crew->next++) < crew->count)
        if (delete_one(crew, &crew->doomed[at]) < 0)
            break;
    return NULL;
}

/* Signals are for the threads that wait for them. */
static bool start_quietly(pthread_t *thread, struct crew *crew)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(thread, NULL, work, crew);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0;
}

static void work_off(struct crew *crew)
{
    pthread_t hands[HANDS_MOST];
    struct backend_bulk bulk = backend_bulk(crew->backend, crew->table);
    size_t wanted = bulk.calls < HANDS_MOST ? bulk.calls : HANDS_MOST, started = 0;

    while (started + 1 < wanted && started + 1 < crew->count &&
           start_quietly(&hands[started], crew))
        started++;
    work(crew);
    while (started > 0)
        pthread_join(hands[--started], NULL);
}

/* One batch; false: something has changed, so each has to be looked at by itself. */
static bool delete_together(struct crew *crew)
{
    cleanup_free struct action *actions = calloc(crew->count, sizeof *actions);
    struct err own = {""};

    if (!actions)
        return false;
    for (size_t i = 0; i < crew->count; i++)
        actions[i] = action_of(crew, &crew->doomed[i]);
    int code = backend_write(crew->backend, actions, crew->count, crew->flags, &own);
    if (is_stale(code))
        return false;
    if (code == 0)
        crew->deleted = crew->count;
    else
        crew->code = err_set(crew->err, -code, "%s", err_text(&own, code));
    return true;
}

int crew_delete(struct backend *backend, const struct table *table, const struct doomed_list *list,
                size_t from, size_t count, unsigned flags, struct purge_count *total,
                struct err *err)
{
    struct crew crew = {.backend = backend,
                        .table = table,
                        .doomed = list->items + from,
                        .count = count,
                        .flags = flags,
                        .cancelled = cancel_flag(),
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .err = err};

    if (count == 0)
        return 0;
    if (!backend_can(backend, BACKEND_ORDERED) || !delete_together(&crew))
        work_off(&crew);
    total->deleted += crew.deleted;
    total->changed += crew.changed;
    if (crew.code == 0 && is_cancelled())
        return err_set(err, EINTR, "interrupted");
    return crew.code;
}
