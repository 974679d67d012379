/* SPDX-License-Identifier: MIT */
/* Tables and their two descriptions, and everything that a profile does not change. */
#include "backend/profile/shown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/profile/shown_private.h"
#include "backend/replicas.h"
#include "backend/stream.h"
#include "base/log.h"

/* --- Tables --- */

static void shown_table_free(struct shown_table *known)
{
    if (!known)
        return;
    parts_forget(known);
    table_free(known->described);
    table_free(known->stored);
    table_free(known->shown);
    free(known);
}

/* The description that SHOWN, a copy of the stored one, becomes. */
static int describe_shown(const struct profile_choice *choice, const struct table *stored,
                          struct table *shown, struct err *err)
{
    for (size_t i = 0; i < shown->index_count; i++)
        index_release(&shown->indexes[i]);
    shown->index_count = 0;
    shown->show_keys = false;
    shown->ttl_beside = true;
    shown->untold = choice->profile->store_key != NULL;
    return choice->profile->show_table
               ? choice->profile->show_table(choice->options, stored, shown, err)
               : 0;
}

static int shown_table_new(const struct shown *owner, const struct profile_choice *choice,
                           const struct table *described, struct shown_table **ret_known,
                           struct err *err)
{
    struct shown_table *known = calloc(1, sizeof *known);
    struct table *stored, *shown;

    if (!known)
        return -ENOMEM;
    known->described = table_copy(described);
    known->stored = stored = table_copy(described);
    known->shown = shown = table_copy(described);
    int r = known->described && stored && shown ? 0 : -ENOMEM;

    if (r == 0 && !backend_can(owner->stored, BACKEND_SETTINGS)) {
        free(stored->ttl_attribute);
        stored->ttl_attribute = NULL;
    }
    if (r == 0)
        r = describe_shown(choice, stored, shown, err);
    if (r == 0)
        r = table_check(shown, err);
    if (r < 0) {
        shown_table_free(known);
        return r;
    }
    known->choice = choice;
    known->table = (struct profile_table){
        .profile = choice->profile, .options = choice->options, .stored = stored, .shown = shown};
    if (choice->profile->listing)
        known->table.listing = choice->profile->listing(choice->options, stored, shown);
    known->table.other_keys = choice->profile->store_key &&
                              !(key_attribute_equal(&stored->partition, &shown->partition) &&
                                key_attribute_equal(&stored->sort, &shown->sort));
    known->table.strays = &known->strays;
    known->table.left_out = &known->left_out;
    shown->profile = &known->table;
    *ret_known = known;
    return 0;
}

static struct shown_table *find_locked(struct shown *shown, uint64_t table_id)
{
    struct shown_table *known = shown->tables;

    while (known && (known->plain || known->table.stored->id != table_id))
        known = known->next;
    return known;
}

void shown_plain(struct backend *backend, uint64_t table_id)
{
    struct shown *shown = shown_of(backend);

    scoped_lock(&shown->lock);
    for (struct shown_table *known; (known = find_locked(shown, table_id));)
        known->plain = true;
}

const struct profile_table *shown_find(struct shown *shown, uint64_t table_id)
{
    scoped_lock(&shown->lock);
    const struct shown_table *known = find_locked(shown, table_id);
    return known ? &known->table : NULL;
}

/* The description that is known of STORED, which is made where there is none like it. */
static int know(struct shown *shown, const struct profile_choice *choice,
                const struct table *stored, const struct profile_table **ret_table, bool *ret_new,
                struct err *err)
{
    scoped_lock(&shown->lock);
    struct shown_table *known = find_locked(shown, stored->id);
    *ret_new = !known || known->choice != choice || !table_equal(known->described, stored);
    if (*ret_new) {
        int r = shown_table_new(shown, choice, stored, &known, err);
        if (r < 0)
            return r;
        known->next = shown->tables;
        shown->tables = known;
    }
    *ret_table = &known->table;
    return 0;
}

static void tell_missing_index(const struct profile_table *table)
{
    if (table->other_keys && table->profile->listing && !table->listing)
        log_warning("profile",
                    "table %s has no index on \"%s\" and \"%s\" with whole items: each listing "
                    "reads all of it",
                    table->shown->name, table->shown->partition.name, table->shown->sort.name);
}

int shown_table(struct backend *backend, const struct profile_choice *choice,
                const struct table *stored, struct table **ret_table, struct err *err)
{
    const struct profile_table *known;
    bool new = false;
    int r = know(shown_of(backend), choice, stored, &known, &new, err);

    if (r < 0)
        return r;
    if (new)
        tell_missing_index(known);
    struct table *table = table_copy(known->shown);
    if (!table)
        return -ENOMEM;
    table->created_ns = stored->created_ns;
    table->changed_ns = stored->changed_ns;
    *ret_table = table;
    return 0;
}

/* The description by which the backend below is spoken to of TABLE. */
static const struct table *stored_table(const struct table *table)
{
    return table->profile ? table->profile->stored : table;
}

/* What a mount may change of a table: name and stream. */
static int shown_alter_table(struct backend *backend, const struct table *table, struct err *err)
{
    struct shown *shown = shown_of(backend);

    if (!table->profile)
        return backend_alter_table(shown->stored, table, err);
    struct table *stored; /* as it is: what its profile says of it is no setting of the backend */
    int r = backend_describe(shown->stored, span_text(table->profile->stored->name), &stored, err);
    if (r < 0)
        return r;
    char *name = strdup(table->name);
    if (name) {
        free(stored->name);
        stored->name = name;
        stored->stream = table->stream;
    }
    r = name ? backend_alter_table(shown->stored, stored, err) : -ENOMEM;
    table_free(stored);
    return r;
}

static int shown_drop_table(struct backend *backend, const struct table *table, bool force,
                            struct err *err)
{
    return backend_drop_table(shown_of(backend)->stored, stored_table(table), force, err);
}

/* As the backend below describes them: which profile a table has is the source's matter. */
static int shown_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    return backend_tables(shown_of(backend)->stored, each, context, err);
}

static int shown_describe(struct backend *backend, struct span name, struct table **ret_table,
                          struct err *err)
{
    return backend_describe(shown_of(backend)->stored, name, ret_table, err);
}

static int shown_forbidden(struct backend *backend, forbidden_fn each, void *context)
{
    return backend_forbidden(shown_of(backend)->stored, each, context);
}

static int shown_check_table(struct backend *backend, const struct table *table, struct err *err)
{
    return backend_check_table(shown_of(backend)->stored, table, err);
}

static int shown_create_table(struct backend *backend, const struct table *table, struct err *err)
{
    return backend_create_table(shown_of(backend)->stored, table, err);
}

/* --- Beside items --- */

static int shown_pack(struct backend *backend, const struct table *table, struct span typed,
                      struct packed *packed, struct err *err)
{
    if (table->profile)
        return err_set(err, EOPNOTSUPP, "table %s has a profile: typed items are the stored ones",
                       table->name);
    return backend_pack(shown_of(backend)->stored, table, typed, packed, err);
}

static struct backend_bulk shown_bulk(struct backend *backend, const struct table *table)
{
    return backend_bulk(shown_of(backend)->stored, stored_table(table));
}

static int shown_sync(struct backend *backend, struct err *err)
{
    return backend_sync(shown_of(backend)->stored, err);
}

static int shown_scratch_list(struct backend *backend, const struct table *table,
                              struct span partition, uint64_t parent, scratch_fn each,
                              void *context, struct err *err)
{
    return backend_scratch_list(shown_of(backend)->stored, stored_table(table), partition, parent,
                                each, context, err);
}

static int shown_scratch_find(struct backend *backend, const struct table *table,
                              struct span partition, uint64_t parent, struct span name,
                              scratch_fn each, void *context, struct err *err)
{
    return backend_scratch_find(shown_of(backend)->stored, stored_table(table), partition, parent,
                                name, each, context, err);
}

static int shown_scratch_read(struct backend *backend, uint64_t id, struct buf *body,
                              struct err *err)
{
    return backend_scratch_read(shown_of(backend)->stored, id, body, err);
}

static int shown_draft_list(struct backend *backend, struct span table, draft_fn each,
                            void *context, struct err *err)
{
    return backend_draft_list(shown_of(backend)->stored, table, each, context, err);
}

static int shown_draft_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err)
{
    return backend_draft_read(shown_of(backend)->stored, id, body, err);
}

/* --- What others tell --- */

static int shown_poll(struct backend *backend, bool *ret_changed, struct err *err)
{
    return backend_poll(shown_of(backend)->stored, ret_changed, err);
}

static int shown_log_position(struct backend *backend, uint64_t *ret_sequence, struct err *err)
{
    return backend_log_position(shown_of(backend)->stored, ret_sequence, err);
}

static int shown_change_id(struct backend *backend, uint64_t sequence, int64_t time_ns,
                           char ret_id[33])
{
    return backend_change_id(shown_of(backend)->stored, sequence, time_ns, ret_id);
}

static int shown_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                            struct err *err)
{
    return backend_lease_read(shown_of(backend)->stored, name, ret_lease, err);
}

static int shown_lease_write(struct backend *backend, struct span name, uint64_t count,
                             struct span holder, struct span position, struct err *err)
{
    return backend_lease_write(shown_of(backend)->stored, name, count, holder, position, err);
}

static int shown_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err)
{
    return backend_maintain(shown_of(backend)->stored, ret_next_ns, err);
}

static int shown_expired(struct backend *backend, size_t limit, expired_fn each, void *context,
                         struct err *err)
{
    return backend_expired(shown_of(backend)->stored, limit, each, context, err);
}

static int shown_settle(struct backend *backend, uint64_t *ret_count, struct err *err)
{
    return backend_settle(shown_of(backend)->stored, ret_count, err);
}

static void shown_listen(struct backend *backend, told_fn told, void *context)
{
    backend_listen(shown_of(backend)->stored, told, context);
}

static int shown_replicas(struct backend *backend, replica_state_fn each, void *context,
                          uint64_t *ret_foreign)
{
    return backend_replicas(shown_of(backend)->stored, each, context, ret_foreign);
}

static int shown_statfs(struct backend *backend, struct statvfs *ret_stat, struct err *err)
{
    return backend_statfs(shown_of(backend)->stored, ret_stat, err);
}

static int shown_usage(struct backend *backend, usage_fn each, void *context)
{
    return backend_usage(shown_of(backend)->stored, each, context);
}

static int shown_alter_indexes(struct backend *backend, const struct table *table, struct err *err)
{
    if (table->profile)
        return err_set(err, EOPNOTSUPP, "table %s: its profile says what indexes it has",
                       table->name);
    return backend_alter_indexes(shown_of(backend)->stored, table, err);
}

static int shown_measure(struct backend *backend, const struct table *table,
                         struct measure **ret_measure, struct err *err)
{
    return backend_measure(shown_of(backend)->stored, stored_table(table), ret_measure, err);
}

static void shown_close(struct backend *backend)
{
    struct shown *shown = shown_of(backend);

    while (shown->tables) {
        struct shown_table *known = shown->tables;
        shown->tables = known->next;
        shown_table_free(known);
    }
    pthread_mutex_destroy(&shown->lock);
    free(shown);
}

/* --- Opening --- */

static const struct backend_ops shown_ops = {
    .close = shown_close,
    .tables = shown_tables,
    .describe = shown_describe,
    .forbidden = shown_forbidden,
    .create_table = shown_create_table,
    .check_table = shown_check_table,
    .drop_table = shown_drop_table,
    .alter_table = shown_alter_table,
    .alter_indexes = shown_alter_indexes,
    .get = shown_get,
    .walk = shown_walk,
    .scan_open = shown_scan_open,
    .scan_next = shown_scan_next,
    .scan_close = shown_scan_close,
    .query = shown_query,
    .partitions = shown_partitions,
    .partition = shown_partition,
    .pack = shown_pack,
    .bulk = shown_bulk,
    .index_values = shown_index_values,
    .write = shown_write,
    .body = shown_body,
    .update = shown_update,
    .sync = shown_sync,
    .scratch_list = shown_scratch_list,
    .scratch_find = shown_scratch_find,
    .scratch_read = shown_scratch_read,
    .draft_list = shown_draft_list,
    .draft_read = shown_draft_read,
    .poll = shown_poll,
    .log_position = shown_log_position,
    .log = shown_log,
    .change_id = shown_change_id,
    .stream_open = shown_stream_open,
    .stream_next = shown_stream_next,
    .stream_position = shown_stream_position,
    .stream_behind = shown_stream_behind,
    .stream_close = shown_stream_close,
    .lease_read = shown_lease_read,
    .lease_write = shown_lease_write,
    .maintain = shown_maintain,
    .expired = shown_expired,
    .settle = shown_settle,
    .listen = shown_listen,
    .replicas = shown_replicas,
    .statfs = shown_statfs,
    .usage = shown_usage,
    .measure = shown_measure,
};

/* Callers see by what is missing what there is. Replicas are plugged and verified by itemctl, which
 * has the backend below. */
static void leave_out(struct backend_ops *ops, const struct backend_ops *stored)
{
    ops->kind = stored->kind;
    ops->capabilities = stored->capabilities;
    if (!stored->expired)
        ops->expired = NULL;
    if (!stored->measure) {
        ops->usage = NULL;
        ops->measure = NULL;
    }
    if (!stored->stream_behind)
        ops->stream_behind = NULL;
    if (!stored->stream_open)
        ops->stream_open = NULL;
}

int shown_new(struct backend *stored, bool read_only, struct backend **ret_backend)
{
    struct shown *shown = calloc(1, sizeof *shown);

    if (!shown)
        return -ENOMEM;
    shown->ops = shown_ops;
    leave_out(&shown->ops, stored->ops);
    shown->backend.ops = &shown->ops;
    shown->backend.max_item_size = stored->max_item_size;
    shown->stored = stored;
    shown->read_only = read_only;
    pthread_mutex_init(&shown->lock, NULL);
    *ret_backend = &shown->backend;
    return 0;
}
