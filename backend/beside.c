/* SPDX-License-Identifier: MIT */
#include "backend/beside_private.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/stream.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define DIRECTORIES_TABLE "itemfs directories"
#define SETTLE_PAUSE_NS NS_PER_S
#define SETTLE_PAUSE_MAX_NS (60 * NS_PER_S)

/* --- The state database's tables --- */

static bool is_like(const struct table *state, const struct table *table)
{
    return key_attribute_equal(&state->partition, &table->partition) &&
           key_attribute_equal(&state->sort, &table->sort);
}

/* The table of the state database that has WANTED's name and keys, as a copy to free; made where
 * there is none, or that of an earlier table of that name. */
static int find_or_make(struct beside *beside, const struct table *wanted, struct table **ret_table,
                        struct err *err)
{
    struct table *found;
    struct err own = {""};
    int r = backend_describe(beside->state, span_text(wanted->name), &found, &own);

    if (r == 0 && !is_like(found, wanted)) {
        r = backend_drop_table(beside->state, found, true, &own);
        table_free(found);
        if (r == 0)
            r = -ENOENT;
    }
    if (r == -ENOENT) {
        err_clear(&own);
        r = backend_create_table(beside->state, wanted, &own);
        if (r == -EEXIST) { /* another process was quicker */
            err_clear(&own);
            r = 0;
        }
        if (r == 0)
            r = backend_describe(beside->state, span_text(wanted->name), &found, &own);
    }
    if (r < 0)
        return err_set(err, -r, "the state database: %s", err_text(&own, r));
    *ret_table = found;
    return 0;
}

int state_table(struct beside *beside, const char *name, const char *partition, const char *sort,
                struct table **ret_table, struct err *err)
{
    struct table *wanted = table_new(span_text(name));
    int r = wanted ? key_attribute_parse(span_text(partition), &wanted->partition, err) : -ENOMEM;

    if (r == 0 && sort)
        r = key_attribute_parse(span_text(sort), &wanted->sort, err);
    if (r == 0)
        r = find_or_make(beside, wanted, ret_table, err);
    table_free(wanted);
    return r;
}

/* A table with TABLE's keys and nothing else. */
static struct table *plain_copy(const struct table *table)
{
    struct table *copy = table_new(span_text(table->name));
    struct table *whole = copy ? table_copy(table) : NULL;

    if (!whole) {
        table_free(copy);
        return NULL;
    }
    copy->partition = whole->partition;
    copy->sort = whole->sort;
    whole->partition = whole->sort = (struct key_attribute){NULL, VALUE_S};
    table_free(whole);
    return copy;
}

static int make_files(struct beside *beside, const struct table *table, struct table **ret_files,
                      struct err *err)
{
    struct table *wanted = plain_copy(table);
    int r = wanted ? find_or_make(beside, wanted, ret_files, err) : -ENOMEM;

    table_free(wanted);
    return r;
}

int beside_files(struct beside *beside, const struct table *table, const struct table **ret_files,
                 struct err *err)
{
    scoped_lock(&beside->lock);
    struct pair *pair = beside->pairs;
    while (pair && pair->id != table->id)
        pair = pair->next;
    if (!pair) {
        struct table *files;
        int r = make_files(beside, table, &files, err);
        pair = r < 0 ? NULL : malloc(sizeof *pair);
        if (!pair) {
            if (r == 0)
                table_free(files);
            return r < 0 ? r : -ENOMEM;
        }
        *pair = (struct pair){table->id, files, beside->pairs};
        beside->pairs = pair;
    }
    *ret_files = pair->files;
    return 0;
}

/* --- Handed on --- */

static int beside_describe(struct backend *backend, struct span name, struct table **ret_table,
                           struct err *err)
{
    struct beside *beside = beside_of(backend);
    int r = backend_describe(beside->items, name, ret_table, err);

    if (r == 0)
        directory_see(beside, *ret_table);
    return r;
}

static int beside_forbidden(struct backend *backend, forbidden_fn each, void *context)
{
    return backend_forbidden(beside_of(backend)->items, each, context);
}

static int beside_check_table(struct backend *backend, const struct table *table, struct err *err)
{
    return backend_check_table(beside_of(backend)->items, table, err);
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

/* What remains of a table that is gone is of no use; a table of that name begins anew. */
static void forget_table(struct beside *beside, const struct table *table,
                         const struct table *files)
{
    (void)backend_drop_table(beside->state, files, true, NULL); /* else it is in nobody's way */
    (void)directory_forget(beside, table, NULL);
}

static int beside_drop_table(struct backend *backend, const struct table *table, bool force,
                             struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *files;
    bool found = false;
    int r = beside_files(beside, table, &files, err);

    if (r == 0 && !force)
        r = backend_scratch_list(beside->state, files, span_of(NULL, 0), 0, found_something, &found,
                                 err);
    if (r < 0)
        return r;
    if (found)
        return err_set(err, ENOTEMPTY, "table %s has files beside its items", table->name);
    r = backend_drop_table(beside->items, table, force, err);
    if (r == 0)
        forget_table(beside, table, files);
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

static int beside_alter_indexes(struct backend *backend, const struct table *table, struct err *err)
{
    return backend_alter_indexes(beside_of(backend)->items, table, err);
}

static int beside_sync(struct backend *backend, struct err *err)
{
    int r = backend_sync(beside_of(backend)->items, err);

    return r ? r : backend_sync(beside_of(backend)->state, err);
}

/* A walk of scratch files: they are the state database's, and told as the table's own. */
struct files_walk {
    const struct table *table;
    scratch_fn each;
    void *context;
};

static int tell_file(void *context, const struct scratch *scratch)
{
    const struct files_walk *walk = context;
    struct scratch told = *scratch;

    told.table_id = walk->table->id;
    return walk->each(walk->context, &told);
}

static int beside_scratch_list(struct backend *backend, const struct table *table,
                               struct span partition, uint64_t parent, scratch_fn each,
                               void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct files_walk walk = {table, each, context};
    const struct table *files;
    int r = beside_files(beside, table, &files, err);

    return r ? r
             : backend_scratch_list(beside->state, files, partition, parent, tell_file, &walk, err);
}

static int beside_scratch_find(struct backend *backend, const struct table *table,
                               struct span partition, uint64_t parent, struct span name,
                               scratch_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct files_walk walk = {table, each, context};
    const struct table *files;
    int r = beside_files(beside, table, &files, err);

    return r ? r
             : backend_scratch_find(beside->state, files, partition, parent, name, tell_file, &walk,
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

/* What was cut short is tried again, less and less often while that fails. */
static int settle_later(struct beside *beside, struct err *err)
{
    int64_t now_ns = clock_steady_ns();

    if (now_ns < beside->settle_ns)
        return 0;
    int r = journal_settle(beside, NULL, 0, err);
    int64_t pause_ns = r < 0 ? 2 * beside->settle_pause_ns : 0;
    if (pause_ns < SETTLE_PAUSE_NS)
        pause_ns = SETTLE_PAUSE_NS;
    beside->settle_pause_ns = pause_ns < SETTLE_PAUSE_MAX_NS ? pause_ns : SETTLE_PAUSE_MAX_NS;
    beside->settle_ns = now_ns + beside->settle_pause_ns;
    return r;
}

static int beside_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err)
{
    struct beside *beside = beside_of(backend);
    int r = settle_later(beside, err);
    int kept = backend_maintain(beside->state, ret_next_ns, err);

    if (*ret_next_ns > beside->settle_pause_ns)
        *ret_next_ns = beside->settle_pause_ns;
    return r < 0 ? r : kept;
}

/* A stream is the items' own; it is told of this backend as its own (backend_stream_open). */
static int beside_stream_open(struct backend *backend, const struct table *table,
                              const char *position, struct stream **ret_stream, struct err *err)
{
    return backend_stream_open(beside_of(backend)->items, table, position, ret_stream, err);
}

static const struct backend_ops *stream_ops(const struct stream *stream)
{
    return beside_of(stream->backend)->items->ops;
}

static int beside_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                              struct err *err)
{
    return stream_ops(stream)->stream_next(stream, limit, each, context, err);
}

static int beside_stream_position(struct stream *stream, struct buf *out)
{
    return stream_ops(stream)->stream_position(stream, out);
}

static void beside_stream_close(struct stream *stream)
{
    stream_ops(stream)->stream_close(stream);
}

static int beside_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                             struct err *err)
{
    return backend_lease_read(beside_of(backend)->items, name, ret_lease, err);
}

static int beside_lease_write(struct backend *backend, struct span name, uint64_t count,
                              struct span holder, struct span position, struct err *err)
{
    return backend_lease_write(beside_of(backend)->items, name, count, holder, position, err);
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

static bool beside_skew(struct backend *backend, int64_t *ret_seconds)
{
    return backend_skew(beside_of(backend)->items, ret_seconds);
}

static void beside_close(struct backend *backend)
{
    struct beside *beside = beside_of(backend);

    while (beside->pairs) {
        struct pair *pair = beside->pairs;
        beside->pairs = pair->next;
        table_free(pair->files);
        free(pair);
    }
    backend_close(beside->items);
    backend_close(beside->state);
    table_free(beside->directories);
    table_free(beside->journal);
    free(beside->lock_path);
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
    .forbidden = beside_forbidden,
    .create_table = beside_create_table,
    .check_table = beside_check_table,
    .drop_table = beside_drop_table,
    .alter_table = beside_alter_table,
    .alter_indexes = beside_alter_indexes,
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
    .update = beside_update,
    .sync = beside_sync,
    .scratch_list = beside_scratch_list,
    .scratch_find = beside_scratch_find,
    .scratch_read = beside_scratch_read,
    .draft_list = beside_draft_list,
    .draft_read = beside_draft_read,
    .stream_open = beside_stream_open,
    .stream_next = beside_stream_next,
    .stream_position = beside_stream_position,
    .stream_close = beside_stream_close,
    .lease_read = beside_lease_read,
    .lease_write = beside_lease_write,
    .maintain = beside_maintain,
    .statfs = beside_statfs,
    .usage = beside_usage,
    .measure = beside_measure,
    .skew = beside_skew,
};

int beside_new(struct backend *items, struct backend *state, struct times *times,
               const char *lock_path, struct backend **ret_backend, struct err *err)
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
    int r = state_table(beside, DIRECTORIES_TABLE, "table", "directory", &beside->directories, err);
    if (r == 0 && lock_path)
        r = journal_open(beside, lock_path, err);
    if (r < 0) {
        beside_close(&beside->backend);
        return r;
    }
    *ret_backend = &beside->backend;
    return 0;
}
