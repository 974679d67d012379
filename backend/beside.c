/* SPDX-License-Identifier: MIT */
#include "backend/beside_private.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define TRIM_EVERY_S 3600

/* --- The state database's tables --- */

static bool is_like(const struct table *state, const struct table *table)
{
    return key_attribute_equal(&state->partition, &table->partition) &&
           key_attribute_equal(&state->sort, &table->sort);
}

/* A table for the scratch files of TABLE: same name and keys, nothing else. */
static int make_state(struct beside *beside, const struct table *table, struct err *err)
{
    struct table *state = table_copy(table);

    if (!state)
        return -ENOMEM;
    for (size_t i = 0; i < state->index_count; i++)
        index_release(&state->indexes[i]);
    state->index_count = 0;
    free(state->ttl_attribute);
    state->ttl_attribute = NULL;
    state->keys = KEYS_PLAIN;
    state->stream = false;
    int r = backend_create_table(beside->state, state, err);
    table_free(state);
    if (r != -EEXIST) /* another mount was quicker */
        return r;
    err_clear(err);
    return 0;
}

static int find_state(struct beside *beside, const struct table *table, struct table **ret_state,
                      struct err *err)
{
    struct table *state;
    struct err own = {""};
    int r = backend_describe(beside->state, span_text(table->name), &state, &own);

    if (r == 0 && !is_like(state, table)) { /* of an earlier table of that name */
        r = backend_drop_table(beside->state, state, true, err);
        table_free(state);
        if (r == 0)
            r = -ENOENT;
    }
    if (r == -ENOENT) {
        r = make_state(beside, table, err);
        if (r == 0)
            r = backend_describe(beside->state, span_text(table->name), &state, err);
    }
    if (r < 0)
        return err_set(err, -r, "the state database: %s", err_text(&own, r));
    *ret_state = state;
    return 0;
}

int beside_state(struct beside *beside, const struct table *table, const struct table **ret_state,
                 struct err *err)
{
    scoped_lock(&beside->lock);
    struct pair *pair = beside->pairs;
    while (pair && pair->id != table->id)
        pair = pair->next;
    if (!pair) {
        struct table *state;
        int r = find_state(beside, table, &state, err);
        pair = r < 0 ? NULL : malloc(sizeof *pair);
        if (!pair) {
            if (r == 0)
                table_free(state);
            return r < 0 ? r : -ENOMEM;
        }
        *pair = (struct pair){table->id, state, beside->pairs};
        beside->pairs = pair;
    }
    *ret_state = pair->state;
    return 0;
}

/* --- Handed on --- */

static int beside_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    return backend_tables(beside_of(backend)->items, each, context, err);
}

static int beside_describe(struct backend *backend, struct span name, struct table **ret_table,
                           struct err *err)
{
    return backend_describe(beside_of(backend)->items, name, ret_table, err);
}

static int beside_create_table(struct backend *backend, const struct table *table, struct err *err)
{
    return backend_create_table(beside_of(backend)->items, table, err);
}

static int found_something(void *context, const struct scratch *scratch)
{
    (void)scratch;
    *(bool *)context = true;
    return 1;
}

static int beside_drop_table(struct backend *backend, const struct table *table, bool force,
                             struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *state;
    bool found = false;
    int r = beside_state(beside, table, &state, err);

    if (r == 0 && !force)
        r = backend_scratch_list(beside->state, state, span_of(NULL, 0), 0, found_something, &found,
                                 err);
    if (r < 0)
        return r;
    if (found)
        return err_set(err, ENOTEMPTY, "table %s has files beside its items", table->name);
    r = backend_drop_table(beside->items, table, force, err);
    if (r == 0) /* what remains is of no use; a table of that name begins anew */
        (void)backend_drop_table(beside->state, state, true, NULL);
    return r;
}

static int beside_pack(struct backend *backend, const struct table *table, struct span typed,
                       struct packed *packed, struct err *err)
{
    return backend_pack(beside_of(backend)->items, table, typed, packed, err);
}

static struct backend_bulk beside_bulk(struct backend *backend, const struct table *table)
{
    return backend_bulk(beside_of(backend)->items, table);
}

static int beside_alter_table(struct backend *backend, const struct table *table, struct err *err)
{
    return backend_alter_table(beside_of(backend)->items, table, err);
}

static int beside_partitions(struct backend *backend, const struct table *table, struct span after,
                             size_t limit, partition_fn each, void *context, struct err *err)
{
    return backend_partitions(beside_of(backend)->items, table, after, limit, each, context, err);
}

/* A partition is there also when only scratch files are. */
static int beside_partition(struct backend *backend, const struct table *table,
                            struct span partition, uint64_t *ret_items, int64_t *ret_changed_ns,
                            struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *state;
    bool found = false;
    struct err own = {""};
    int r = backend_partition(beside->items, table, partition, ret_items, ret_changed_ns, &own);

    if (r == -ENOENT) {
        int listed = beside_state(beside, table, &state, err);
        if (listed == 0)
            listed = backend_scratch_list(beside->state, state, partition, 0, found_something,
                                          &found, err);
        if (listed < 0)
            return listed;
        *ret_items = 0;
        *ret_changed_ns = table->changed_ns;
    }
    return found ? 0 : r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

static int beside_sync(struct backend *backend, struct err *err)
{
    int r = backend_sync(beside_of(backend)->items, err);

    return r ? r : backend_sync(beside_of(backend)->state, err);
}

static int beside_scratch_list(struct backend *backend, const struct table *table,
                               struct span partition, uint64_t parent, scratch_fn each,
                               void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *state;
    int r = beside_state(beside, table, &state, err);

    return r ? r
             : backend_scratch_list(beside->state, state, partition, parent, each, context, err);
}

static int beside_scratch_find(struct backend *backend, const struct table *table,
                               struct span partition, uint64_t parent, struct span name,
                               scratch_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *state;
    int r = beside_state(beside, table, &state, err);

    return r ? r
             : backend_scratch_find(beside->state, state, partition, parent, name, each, context,
                                    err);
}

static int beside_scratch_read(struct backend *backend, uint64_t id, struct buf *body,
                               struct err *err)
{
    return backend_scratch_read(beside_of(backend)->state, id, body, err);
}

static int beside_draft_list(struct backend *backend, struct span table, draft_fn each,
                             void *context, struct err *err)
{
    return backend_draft_list(beside_of(backend)->state, table, each, context, err);
}

static int beside_draft_read(struct backend *backend, uint64_t id, struct buf *body,
                             struct err *err)
{
    return backend_draft_read(beside_of(backend)->state, id, body, err);
}

static int beside_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err)
{
    struct beside *beside = beside_of(backend);
    int64_t now_ns = clock_steady_ns();

    if (now_ns - beside->trimmed_ns > TRIM_EVERY_S * NS_PER_S) {
        times_trim(beside->times);
        beside->trimmed_ns = now_ns;
    }
    return backend_maintain(beside->state, ret_next_ns, err);
}

/* The service tells nothing of its room: that of the state database's disk. */
static int beside_statfs(struct backend *backend, struct statvfs *ret_stat, struct err *err)
{
    return backend_statfs(beside_of(backend)->state, ret_stat, err);
}

static int beside_usage(struct backend *backend, usage_fn each, void *context)
{
    return backend_usage(beside_of(backend)->items, each, context);
}

static int beside_measure(struct backend *backend, const struct table *table,
                          struct measure **ret_measure, struct err *err)
{
    return backend_measure(beside_of(backend)->items, table, ret_measure, err);
}

static void beside_close(struct backend *backend)
{
    struct beside *beside = beside_of(backend);

    while (beside->pairs) {
        struct pair *pair = beside->pairs;
        beside->pairs = pair->next;
        table_free(pair->state);
        free(pair);
    }
    backend_close(beside->items);
    backend_close(beside->state);
    times_close(beside->times);
    pthread_mutex_destroy(&beside->lock);
    free(beside);
}

static const struct backend_ops beside_ops = {
    .kind = "dynamodb",
    .capabilities = BACKEND_SCRATCH,
    .close = beside_close,
    .tables = beside_tables,
    .describe = beside_describe,
    .create_table = beside_create_table,
    .drop_table = beside_drop_table,
    .alter_table = beside_alter_table,
    .get = beside_get,
    .walk = beside_walk,
    .scan_open = beside_scan_open,
    .scan_next = beside_scan_next,
    .scan_close = beside_scan_close,
    .query = beside_query,
    .partitions = beside_partitions,
    .partition = beside_partition,
    .pack = beside_pack,
    .bulk = beside_bulk,
    .write = beside_write,
    .sync = beside_sync,
    .scratch_list = beside_scratch_list,
    .scratch_find = beside_scratch_find,
    .scratch_read = beside_scratch_read,
    .draft_list = beside_draft_list,
    .draft_read = beside_draft_read,
    .maintain = beside_maintain,
    .statfs = beside_statfs,
    .usage = beside_usage,
    .measure = beside_measure,
};

int beside_new(struct backend *items, struct backend *state, struct times *times,
               struct backend **ret_backend, struct err *err)
{
    struct beside *beside = calloc(1, sizeof *beside);

    if (!beside) {
        backend_close(items);
        backend_close(state);
        times_close(times);
        return err_set(err, ENOMEM, "no memory");
    }
    beside->backend.ops = &beside_ops;
    beside->backend.max_item_size = items->max_item_size;
    beside->items = items;
    beside->state = state;
    beside->times = times;
    pthread_mutex_init(&beside->lock, NULL);
    *ret_backend = &beside->backend;
    return 0;
}
