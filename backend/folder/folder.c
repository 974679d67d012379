/* SPDX-License-Identifier: MIT */
/* The operations: reads are those of the state database, once what others have written is in it. */
#include "backend/folder/folder.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/folder/private.h"
#include "backend/stream.h"

#define SCAN_PAUSE_NS NS_PER_S /* of a program that does not watch */

/* --- Reading --- */

/* What is known of a table is not told as long as its folder is missing. */
static int drain(struct folder *folder, const struct table *table, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    int r = watch_settle(folder, err);

    return r == 0 && folder->missing ? known_by_id(folder, table->id, &known, err) : r;
}

/* Before something is read that may be in many files. */
static int current_all(struct folder *folder, const struct table *table, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;

    if (folder->watch)
        return drain(folder, table, err);
    int r = known_by_id(folder, table->id, &known, NULL);
    if (r == -ENOENT)
        return folder->missing ? -ENOENT : 0; /* the state database says so */
    if (r == 0 && !known_is_due(known) && clock_steady_ns() - known->scanned_ns < SCAN_PAUSE_NS)
        return 0;
    return r ? r : scan_table(folder, known, false, err);
}

/* The same of one item. */
static int current_item(struct folder *folder, const struct table *table, struct key key,
                        struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    char name[NAME_MAX + 1];

    if (folder->watch)
        return drain(folder, table, err);
    int r = known_by_id(folder, table->id, &known, NULL);
    if (r == -ENOENT)
        return folder->missing ? -ENOENT : 0;
    if (r < 0)
        return r;
    if (file_name_of_key(known->table, key, name, NULL) < 0)
        return 0; /* nobody can have written it */
    return reconcile(folder, known, name, 0, err);
}

static int folder_get(struct backend *backend, const struct table *table, struct key key,
                      struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = current_item(folder, table, key, err);

    return r ? r : backend_get(folder->store, table, key, ret_meta, body, err);
}

static int folder_walk(struct backend *backend, const struct table *table, const struct walk *walk,
                       record_fn each, void *context, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = current_all(folder, table, err);

    return r ? r : backend_walk(folder->store, table, walk, each, context, err);
}

static int folder_index_values(struct backend *backend, const struct table *table,
                               const struct index *index, value_fn each, void *context,
                               struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = current_all(folder, table, err);

    return r ? r : backend_index_values(folder->store, table, index, each, context, err);
}

static int folder_query(struct backend *backend, const struct table *table,
                        const struct query *query, record_fn each, void *context, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = current_all(folder, table, err);

    return r ? r : backend_query(folder->store, table, query, each, context, err);
}

/* There are no sort keys, so there are no partitions: the wrappers refuse them. */
static int folder_partitions(struct backend *backend, const struct table *table, struct span after,
                             size_t limit, partition_fn each, void *context, struct err *err)
{
    return backend_partitions(folder_of(backend)->store, table, after, limit, each, context, err);
}

static int folder_partition(struct backend *backend, const struct table *table,
                            struct span partition, uint64_t *ret_items, int64_t *ret_changed_ns,
                            struct err *err)
{
    return backend_partition(folder_of(backend)->store, table, partition, ret_items, ret_changed_ns,
                             err);
}

static int folder_sync(struct backend *backend, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = folder->read_only ? 0 : replicas_sync(folder->replicas, err);

    return r ? r : backend_sync(folder->store, err);
}

static int folder_statfs(struct backend *backend, struct statvfs *ret_stat, struct err *err)
{
    return replicas_statfs(folder_of(backend)->replicas, ret_stat, err);
}

/* --- What is in the state database alone --- */

static int folder_scratch_list(struct backend *backend, const struct table *table,
                               struct span partition, uint64_t parent, scratch_fn each,
                               void *context, struct err *err)
{
    return backend_scratch_list(folder_of(backend)->store, table, partition, parent, each, context,
                                err);
}

static int folder_scratch_find(struct backend *backend, const struct table *table,
                               struct span partition, uint64_t parent, struct span name,
                               scratch_fn each, void *context, struct err *err)
{
    return backend_scratch_find(folder_of(backend)->store, table, partition, parent, name, each,
                                context, err);
}

static int folder_scratch_read(struct backend *backend, uint64_t id, struct buf *body,
                               struct err *err)
{
    return backend_scratch_read(folder_of(backend)->store, id, body, err);
}

static int folder_draft_list(struct backend *backend, struct span table, draft_fn each,
                             void *context, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = folder->watch ? watch_settle(folder, err) : 0; /* what is no JSON becomes one */

    return r ? r : backend_draft_list(folder->store, table, each, context, err);
}

static int folder_draft_read(struct backend *backend, uint64_t id, struct buf *body,
                             struct err *err)
{
    return backend_draft_read(folder_of(backend)->store, id, body, err);
}

static int folder_poll(struct backend *backend, bool *ret_changed, struct err *err)
{
    return backend_poll(folder_of(backend)->store, ret_changed, err);
}

static int folder_log_position(struct backend *backend, uint64_t *ret_sequence, struct err *err)
{
    return backend_log_position(folder_of(backend)->store, ret_sequence, err);
}

/* The log without what is done in tables of our own. */
struct log_telling {
    const struct folder *folder;
    log_fn each;
    void *context;
};

static int tell_entry(void *context, const struct log_entry *entry)
{
    const struct log_telling *telling = context;
    const struct folder *folder = telling->folder;
    uint64_t id = entry->table_id;

    if (id == folder->journal->id || id == folder->foreign->id || id == folder->outs->id)
        return 0;
    return telling->each(telling->context, entry);
}

static int folder_log(struct backend *backend, uint64_t after, size_t limit, log_fn each,
                      void *context, struct err *err)
{
    struct log_telling telling = {folder_of(backend), each, context};

    return backend_log(telling.folder->store, after, limit, tell_entry, &telling, err);
}

static int folder_change_id(struct backend *backend, uint64_t sequence, int64_t time_ns,
                            char ret_id[33])
{
    return backend_change_id(folder_of(backend)->store, sequence, time_ns, ret_id);
}

/* A stream is the state database's; it is told of this backend as its own (backend_stream_open). */
static int folder_stream_open(struct backend *backend, const struct table *table,
                              const char *position, struct stream **ret_stream, struct err *err)
{
    return backend_stream_open(folder_of(backend)->store, table, position, ret_stream, err);
}

static const struct backend_ops *stream_ops(const struct stream *stream)
{
    return folder_of(stream->backend)->store->ops;
}

static int folder_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                              struct err *err)
{
    struct folder *folder = folder_of(stream->backend);
    int r = folder->watch ? watch_settle(folder, err) : 0;

    return r ? r : stream_ops(stream)->stream_next(stream, limit, each, context, err);
}

static int folder_stream_position(struct stream *stream, struct buf *out)
{
    return stream_ops(stream)->stream_position(stream, out);
}

static int folder_stream_behind(struct stream *stream, uint64_t *ret_records, struct err *err)
{
    return stream_ops(stream)->stream_behind(stream, ret_records, err);
}

static void folder_stream_close(struct stream *stream)
{
    stream_ops(stream)->stream_close(stream);
}

static int folder_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                             struct err *err)
{
    return backend_lease_read(folder_of(backend)->store, name, ret_lease, err);
}

static int folder_lease_write(struct backend *backend, struct span name, uint64_t count,
                              struct span holder, struct span position, struct err *err)
{
    return backend_lease_write(folder_of(backend)->store, name, count, holder, position, err);
}

static int folder_settle(struct backend *backend, uint64_t *ret_count, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = folder->watch ? watch_settle(folder, err) : 0;

    *ret_count = folder->imported;
    return r;
}

struct telling_replicas {
    replica_state_fn each;
    void *context;
};

static int tell_replica(void *context, size_t number, const struct replica_info *info)
{
    const struct telling_replicas *telling = context;
    const struct replica_state state = {info->path, info->in_use, info->reason, info->since_ns};

    (void)number;
    return telling->each(telling->context, &state);
}

static int folder_replicas(struct backend *backend, replica_state_fn each, void *context,
                           uint64_t *ret_foreign)
{
    struct folder *folder = folder_of(backend);
    struct telling_replicas telling = {each, context};

    *ret_foreign = folder->foreign_count;
    return replicas_each(folder->replicas, tell_replica, &telling);
}

/* --- The end --- */

void folder_close(struct backend *backend)
{
    struct folder *folder = folder_of(backend);

    heal_close(folder);
    watch_close(folder);
    replicas_close(folder->replicas);
    repairs_close(folder);
    known_close(folder);
    backend_close(folder->store);
    backend_close(folder->imports);
    table_free(folder->journal);
    table_free(folder->foreign);
    table_free(folder->outs);
    locks_close(folder);
    if (folder->list.free)
        folder->list.free(folder->list.context);
    free(folder->one_name);
    free(folder->place);
    for (int i = 0; i < STRIPES; i++)
        pthread_mutex_destroy(&folder->stripes[i]);
    pthread_mutex_destroy(&folder->tables_lock);
    pthread_mutex_destroy(&folder->own_lock);
    pthread_mutex_destroy(&folder->outs_lock);
    pthread_mutex_destroy(&folder->record_lock);
    pthread_mutex_destroy(&folder->repairs_lock);
    free(folder);
}

const struct backend_ops folder_ops = {
    .kind = "folder",
    .capabilities = BACKEND_KEEPS_BYTES | BACKEND_SCRATCH | BACKEND_ORDERED | BACKEND_LOG |
                    BACKEND_SETTINGS | BACKEND_FILES,
    .close = folder_close,
    .tables = folder_tables,
    .describe = folder_describe,
    .create_table = folder_create_table,
    .check_table = folder_check_table,
    .drop_table = folder_drop_table,
    .alter_table = folder_alter_table,
    .alter_indexes = folder_alter_indexes,
    .get = folder_get,
    .walk = folder_walk,
    .query = folder_query,
    .index_values = folder_index_values,
    .partitions = folder_partitions,
    .partition = folder_partition,
    .write = folder_write,
    .update = folder_update,
    .sync = folder_sync,
    .scratch_list = folder_scratch_list,
    .scratch_find = folder_scratch_find,
    .scratch_read = folder_scratch_read,
    .draft_list = folder_draft_list,
    .draft_read = folder_draft_read,
    .poll = folder_poll,
    .log_position = folder_log_position,
    .log = folder_log,
    .change_id = folder_change_id,
    .stream_open = folder_stream_open,
    .stream_next = folder_stream_next,
    .stream_position = folder_stream_position,
    .stream_behind = folder_stream_behind,
    .stream_close = folder_stream_close,
    .lease_read = folder_lease_read,
    .lease_write = folder_lease_write,
    .maintain = folder_maintain,
    .statfs = folder_statfs,
    .settle = folder_settle,
    .listen = folder_listen,
    .replicas = folder_replicas,
    .verify = folder_verify,
    .plug_in = folder_plug_in,
    .plug_out = folder_plug_out,
};
