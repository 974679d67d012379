/* SPDX-License-Identifier: MIT */
/* A batch of actions: examined by its caller's thread, applied by the writer. */
#include <errno.h>
#include <stdlib.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define PREPARED_INLINE 2 /* most batches: one save, or a move */

struct write_job {
    struct job job; /* first */
    struct action *actions;
    size_t count;
    struct prepared *prepared; /* one an action */
    bool told;                 /* its entries in the log are nobody's own */
    bool try;                  /* undone in the end */
    bool tried;                /* nothing was refused */
};

static int apply_action(struct store *store, struct action *action, struct prepared *prepared,
                        int64_t now_ns, struct err *err)
{
    switch (action->kind) {
    case ACTION_PUT: return item_put(store, action, prepared, now_ns, err);
    case ACTION_DELETE: return item_delete(store, action, now_ns, err);
    case ACTION_TOUCH: return item_touch(store, action, now_ns, err);
    case ACTION_SCRATCH_PUT: return scratch_put(store, action, now_ns, err);
    case ACTION_SCRATCH_DELETE: return scratch_delete(store, action, now_ns, err);
    case ACTION_DRAFT_PUT: return draft_put(store, action, now_ns, err);
    case ACTION_DRAFT_DELETE: return draft_delete(store, action, now_ns, err);
    }
    return err_set(err, EINVAL, "no such action: %d", (int)action->kind);
}

static int apply_batch(struct store *store, struct job *job, struct err *err)
{
    struct write_job *work = (struct write_job *)job;
    int64_t now_ns = clock_now_ns();
    int code = 0;

    store->told = work->told;
    for (size_t i = 0; i < work->count && code == 0; i++)
        code = apply_action(store, &work->actions[i], &work->prepared[i], now_ns, err);
    store->told = false;
    work->tried = work->try && code == 0;
    return work->tried ? -ECANCELED : code;
}

static int prepare_all(const struct write_job *work, struct err *err)
{
    int code = 0;

    for (size_t i = 0; i < work->count && code == 0; i++)
        if (work->actions[i].kind == ACTION_PUT)
            code = item_prepare(work->actions[i].table, &work->actions[i], &work->prepared[i], err);
    return code;
}

static int write_prepared(struct store *store, struct write_job *work, unsigned flags,
                          struct err *err)
{
    for (size_t i = 0; i < work->count; i++)
        buf_init(&work->prepared[i].fitted, SIZE_MAX);
    int code = prepare_all(work, err);
    if (code == 0)
        code = store_commit(store, &work->job, err);
    if (code == -ECANCELED && work->tried) {
        err_clear(err);
        code = 0;
    }
    if (code == 0 && (flags & WRITE_DURABLE))
        code = store_sync(&store->backend, err);
    for (size_t i = 0; i < work->count; i++)
        buf_release(&work->prepared[i].fitted);
    return code;
}

int store_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                struct err *err)
{
    struct prepared inlined[PREPARED_INLINE];
    struct write_job work = {.job.apply = apply_batch,
                             .actions = actions,
                             .count = count,
                             .told = flags & WRITE_TOLD,
                             .try = flags & WRITE_TRY};
    struct store *store = store_of(backend);

    if (store->read_only)
        return err_set(err, EROFS, "%s is open for reading only", store->path);
    if (count == 0)
        return flags & WRITE_DURABLE ? store_sync(backend, err) : 0;
    work.prepared = count <= PREPARED_INLINE ? inlined : calloc(count, sizeof *work.prepared);
    if (!work.prepared)
        return err_set(err, ENOMEM, "out of memory");
    int code = write_prepared(store, &work, flags, err);
    if (work.prepared != inlined)
        free(work.prepared);
    return code;
}

struct update_job {
    struct job job; /* first */
    struct action action;
    const struct update *update;
    struct prepared prepared;
    struct buf body;
    struct buf *number;
};

static int apply_update(struct store *store, struct job *job, struct err *err)
{
    struct update_job *work = (struct update_job *)job;

    return item_change(store, &work->action, work->update, &work->prepared, &work->body,
                       work->number, clock_now_ns(), err);
}

int store_update(struct backend *backend, const struct table *table, struct key key,
                 const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                 struct err *err)
{
    struct update_job work = {
        .job.apply = apply_update,
        .action = {.kind = ACTION_PUT, .table = table, .key = key},
        .update = update,
        .number = ret_number,
    };

    buf_init(&work.body, SIZE_MAX / 8);
    buf_init(&work.prepared.fitted, SIZE_MAX / 8);
    int code = store_commit(store_of(backend), &work.job, err);
    if (code == 0)
        *ret_meta = work.action.meta;
    buf_release(&work.prepared.fitted);
    buf_release(&work.body);
    return code;
}
