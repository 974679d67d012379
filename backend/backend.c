/* SPDX-License-Identifier: MIT */
/*
 * The wrappers between callers and a backend's operations: preconditions, counters, and a sentence
 * for every failure. A walk's callback may end it with a value of its own, which passes through.
 */
#include "backend/backend.h"

#include <assert.h>
#include <errno.h>

#include "backend/check.h"
#include "backend/scan.h"
#include "base/clock.h"

struct timer {
    _Atomic uint64_t *calls, *errors, *ns;
    int64_t begin;
};

static struct timer read_begin(struct backend *backend)
{
    struct backend_counters *counters = &backend->counters;
    return (struct timer){&counters->reads, &counters->read_errors, &counters->read_ns,
                          clock_steady_ns()};
}

static struct timer write_begin(struct backend *backend)
{
    struct backend_counters *counters = &backend->counters;
    return (struct timer){&counters->writes, &counters->write_errors, &counters->write_ns,
                          clock_steady_ns()};
}

/* Counts the call; sees to it that a failure has a sentence. "Not there" is an answer, no error. */
static int timer_end(struct timer timer, int code, struct err *err)
{
    *timer.ns += (uint64_t)(clock_steady_ns() - timer.begin);
    ++*timer.calls;
    if (code >= 0)
        return code;
    if (code != -ENOENT)
        ++*timer.errors;
    return err_set(err, -code, "%s", err_text(NULL, code));
}

void backend_close(struct backend *backend)
{
    if (backend)
        backend->ops->close(backend);
}

bool backend_can(const struct backend *backend, enum backend_capability capability)
{
    return (backend->ops->capabilities & (unsigned)capability) != 0;
}

static int need(const struct backend *backend, enum backend_capability capability, const char *what,
                struct err *err)
{
    if (backend_can(backend, capability))
        return 0;
    return err_set(err, EOPNOTSUPP, "the %s backend has no %s", backend->ops->kind, what);
}

int backend_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    struct timer timer = read_begin(backend);
    return timer_end(timer, backend->ops->tables(backend, each, context, err), err);
}

int backend_forbidden(struct backend *backend, forbidden_fn each, void *context)
{
    return backend->ops->forbidden ? backend->ops->forbidden(backend, each, context) : 0;
}

struct wanted_table {
    struct span name;
    struct table *found;
};

static int describe_each(void *context, const struct table *table)
{
    struct wanted_table *wanted = context;

    if (!span_equal(span_text(table->name), wanted->name))
        return 0;
    wanted->found = table_copy(table);
    return wanted->found ? 1 : -ENOMEM;
}

static int find_table(struct backend *backend, struct span name, struct table **ret_table,
                      struct err *err)
{
    struct wanted_table wanted = {name, NULL};
    int code = backend->ops->tables(backend, describe_each, &wanted, err);

    if (code < 0)
        return code;
    *ret_table = wanted.found;
    return wanted.found ? 0 : -ENOENT;
}

int backend_describe(struct backend *backend, struct span name, struct table **ret_table,
                     struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = backend->ops->describe ? backend->ops->describe(backend, name, ret_table, err)
                                      : find_table(backend, name, ret_table, err);

    if (code == -ENOENT)
        err_set(err, ENOENT, "there is no table %.*s", (int)name.len, name.data);
    return timer_end(timer, code, err);
}

int backend_check_table(struct backend *backend, const struct table *table, struct err *err)
{
    int code = table_check(table, err);

    if (code == 0 && table->read_units && !backend->ops->measure)
        code = err_set(err, EOPNOTSUPP, "table %s: the %s backend counts no units", table->name,
                       backend->ops->kind);
    return code == 0 && backend->ops->check_table ? backend->ops->check_table(backend, table, err)
                                                  : code;
}

int backend_create_table(struct backend *backend, const struct table *table, struct err *err)
{
    struct timer timer = write_begin(backend);
    int code = backend_check_table(backend, table, err);

    if (code == 0)
        code = backend->ops->create_table(backend, table, err);
    return timer_end(timer, code, err);
}

int backend_drop_table(struct backend *backend, const struct table *table, bool force,
                       struct err *err)
{
    struct timer timer = write_begin(backend);
    return timer_end(timer, backend->ops->drop_table(backend, table, force, err), err);
}

int backend_alter_table(struct backend *backend, const struct table *table, struct err *err)
{
    struct timer timer = write_begin(backend);
    int code = table_check(table, err);

    if (code == 0)
        code = backend->ops->alter_table(backend, table, err);
    return timer_end(timer, code, err);
}

int backend_alter_indexes(struct backend *backend, const struct table *table, struct err *err)
{
    struct timer timer = write_begin(backend);
    int code = table_check(table, err);

    if (code == 0)
        code = backend->ops->alter_indexes(backend, table, err);
    return timer_end(timer, code, err);
}

int backend_get(struct backend *backend, const struct table *table, struct key key,
                struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = check_key(table, key, err);

    if (code == 0)
        code = backend->ops->get(backend, table, key, ret_meta, body, err);
    return timer_end(timer, code, err);
}

int backend_walk(struct backend *backend, const struct table *table, const struct walk *walk,
                 record_fn each, void *context, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = 0;

    if (walk->in_partition && !table_sorted(table))
        code = err_set(err, EINVAL, "table %s has no partitions", table->name);
    if (code == 0)
        code = backend->ops->walk(backend, table, walk, each, context, err);
    return timer_end(timer, code, err);
}

static int check_query(const struct table *table, const struct query *query, struct err *err)
{
    const struct key_attribute *partition =
        query->index ? &query->index->partition : &table->partition;
    const struct key_attribute *sort = query->index ? &query->index->sort : &table->sort;
    int code = check_part(partition->type, query->partition, "partition key", err);

    if (code == 0 && !sort->name && (query->has_from || query->has_to))
        code = err_set(err, EINVAL, "%s has no sort key to bound",
                       query->index ? query->index->name : table->name);
    if (code == 0 && query->has_from)
        code = check_part(sort->type, query->from, "lower bound", err);
    if (code == 0 && query->has_to)
        code = check_part(sort->type, query->to, "upper bound", err);
    return code;
}

int backend_scan_open(struct backend *backend, const struct table *table,
                      const struct scan_range *range, struct scan **ret_scan, struct err *err)
{
    int r = 0;

    if (!backend->ops->scan_open && range->segments > 1)
        r = err_set(err, EOPNOTSUPP,
                    "the %s backend reads a table in one piece, not in %u segments",
                    backend->ops->kind, range->segments);
    else
        r = backend->ops->scan_open ? backend->ops->scan_open(backend, table, range, ret_scan, err)
                                    : walk_scan_open(table, range, ret_scan);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(NULL, r));
    (*ret_scan)->backend = backend;
    return 0;
}

/* What has failed stays so: a listing cannot go on behind a gap. */
static int scan_result(struct scan *scan, int code, const struct err *own, struct err *err)
{
    if (code >= 0)
        return code;
    if (code == -EINTR) /* whoever was interrupted may come again */
        return err_set(err, EINTR, "interrupted");
    scan->code = code;
    scan->err = *own;
    return err_set(err, -code, "%s", err_text(own, code));
}

int backend_scan_next(struct scan *scan, size_t limit, record_fn each, void *context,
                      struct err *err)
{
    const struct backend_ops *ops = scan->backend->ops;
    struct err own = {""};

    if (scan->code)
        return err_set(err, -scan->code, "%s", err_text(&scan->err, scan->code));
    if (scan->ended)
        return 0;
    if (!ops->scan_next) /* walks are counted by themselves */
        return scan_result(scan, walk_scan_next(scan, limit, each, context, &own), &own, err);
    struct timer timer = read_begin(scan->backend);
    int r = ops->scan_next(scan, limit, each, context, &own);
    return scan_result(scan, timer_end(timer, r, &own), &own, err);
}

void backend_scan_close(struct scan *scan)
{
    if (!scan)
        return;
    const struct backend_ops *ops = scan->backend->ops;
    (ops->scan_close ? ops->scan_close : walk_scan_close)(scan);
}

int backend_query(struct backend *backend, const struct table *table, const struct query *query,
                  record_fn each, void *context, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = check_query(table, query, err);

    if (code == 0)
        code = backend->ops->query(backend, table, query, each, context, err);
    return timer_end(timer, code, err);
}

int backend_index_values(struct backend *backend, const struct table *table,
                         const struct index *index, value_fn each, void *context, struct err *err)
{
    if (!backend->ops->index_values) /* scans are counted by themselves */
        return scan_index_values(backend, table, index, each, context, err);
    struct timer timer = read_begin(backend);
    return timer_end(timer, backend->ops->index_values(backend, table, index, each, context, err),
                     err);
}

int backend_partitions(struct backend *backend, const struct table *table, struct span after,
                       size_t limit, partition_fn each, void *context, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = 0;

    if (!table_sorted(table))
        code = err_set(err, EINVAL, "table %s has no partitions", table->name);
    if (code == 0)
        code = backend->ops->partitions(backend, table, after, limit, each, context, err);
    return timer_end(timer, code, err);
}

int backend_partition(struct backend *backend, const struct table *table, struct span partition,
                      uint64_t *ret_items, int64_t *ret_changed_ns, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = check_part(table->partition.type, partition, "partition key", err);

    if (code == 0)
        code = backend->ops->partition(backend, table, partition, ret_items, ret_changed_ns, err);
    return timer_end(timer, code, err);
}

int backend_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                  struct err *err)
{
    struct timer timer = write_begin(backend);
    int code = 0;

    for (size_t i = 0; i < count && code == 0; i++)
        code = check_action(backend, &actions[i], flags, err);
    if (code == 0)
        code = backend->ops->write(backend, actions, count, flags, err);
    assert(code <= 0);
    return timer_end(timer, code, err);
}

int backend_body(struct backend *backend, const struct action *action, struct buf *out,
                 struct err *err)
{
    if (backend->ops->body)
        return backend->ops->body(backend, action, out, err);
    if (!backend_can(backend, BACKEND_KEEPS_BYTES))
        return item_render(action->table, action->key, action->body, action->ttl, out, err);
    buf_add_span(out, action->body);
    return buf_error(out);
}

int backend_update(struct backend *backend, const struct table *table, struct key key,
                   const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                   struct err *err)
{
    struct timer timer = write_begin(backend);
    size_t before = ret_number ? ret_number->len : 0;
    int code = check_key(table, key, err);

    if (code == 0)
        code = update_check(table, update, err);
    if (code == 0)
        code = backend->ops->update(backend, table, key, update, ret_meta, ret_number, err);
    assert(code <= 0);
    if (code && ret_number)
        buf_resize(ret_number, before);
    return timer_end(timer, code, err);
}

int backend_sync(struct backend *backend, struct err *err)
{
    struct timer timer = write_begin(backend);
    return timer_end(timer, backend->ops->sync(backend, err), err);
}

int backend_scratch_list(struct backend *backend, const struct table *table, struct span partition,
                         uint64_t parent, scratch_fn each, void *context, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = need(backend, BACKEND_SCRATCH, "scratch files", err);

    if (code == 0)
        code = backend->ops->scratch_list(backend, table, partition, parent, each, context, err);
    return timer_end(timer, code, err);
}

int backend_scratch_find(struct backend *backend, const struct table *table, struct span partition,
                         uint64_t parent, struct span name, scratch_fn each, void *context,
                         struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = need(backend, BACKEND_SCRATCH, "scratch files", err);

    if (code == 0)
        code =
            backend->ops->scratch_find(backend, table, partition, parent, name, each, context, err);
    return timer_end(timer, code, err);
}

int backend_scratch_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = need(backend, BACKEND_SCRATCH, "scratch files", err);

    if (code == 0)
        code = backend->ops->scratch_read(backend, id, body, err);
    return timer_end(timer, code, err);
}

int backend_draft_list(struct backend *backend, struct span table, draft_fn each, void *context,
                       struct err *err)
{
    struct timer timer = read_begin(backend);
    return timer_end(timer, backend->ops->draft_list(backend, table, each, context, err), err);
}

int backend_draft_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err)
{
    struct timer timer = read_begin(backend);
    return timer_end(timer, backend->ops->draft_read(backend, id, body, err), err);
}

int backend_poll(struct backend *backend, bool *ret_changed, struct err *err)
{
    int code = need(backend, BACKEND_LOG, "change log", err);
    return code ? code : backend->ops->poll(backend, ret_changed, err);
}

int backend_log_position(struct backend *backend, uint64_t *ret_sequence, struct err *err)
{
    int code = need(backend, BACKEND_LOG, "change log", err);
    return code ? code : backend->ops->log_position(backend, ret_sequence, err);
}

int backend_log(struct backend *backend, uint64_t after, size_t limit, log_fn each, void *context,
                struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = need(backend, BACKEND_LOG, "change log", err);

    if (code == 0)
        code = backend->ops->log(backend, after, limit, each, context, err);
    return timer_end(timer, code, err);
}

int backend_change_id(struct backend *backend, uint64_t sequence, int64_t time_ns, char ret_id[33])
{
    struct err ignored = {""};
    int code = need(backend, BACKEND_LOG, "change log", &ignored);

    return code ? code : backend->ops->change_id(backend, sequence, time_ns, ret_id);
}

int backend_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err)
{
    return backend->ops->maintain(backend, ret_next_ns, err);
}

int backend_expired(struct backend *backend, size_t limit, expired_fn each, void *context,
                    struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = backend->ops->expired
                   ? backend->ops->expired(backend, limit, each, context, err)
                   : err_set(err, EOPNOTSUPP, "the %s backend does not tell what has expired",
                             backend->ops->kind);

    return timer_end(timer, code, err);
}

int backend_settle(struct backend *backend, uint64_t *ret_count, struct err *err)
{
    int code = need(backend, BACKEND_FILES, "files that others write", err);

    return code ? code : backend->ops->settle(backend, ret_count, err);
}

void backend_listen(struct backend *backend, told_fn told, void *context)
{
    if (backend->ops->listen)
        backend->ops->listen(backend, told, context);
}

int backend_replicas(struct backend *backend, replica_state_fn each, void *context,
                     uint64_t *ret_foreign)
{
    *ret_foreign = 0;
    return backend->ops->replicas ? backend->ops->replicas(backend, each, context, ret_foreign) : 0;
}

int backend_statfs(struct backend *backend, struct statvfs *ret_stat, struct err *err)
{
    return backend->ops->statfs(backend, ret_stat, err);
}

int backend_usage(struct backend *backend, usage_fn each, void *context)
{
    return backend->ops->usage ? backend->ops->usage(backend, each, context) : 0;
}

int backend_measure(struct backend *backend, const struct table *table,
                    struct measure **ret_measure, struct err *err)
{
    struct timer timer = read_begin(backend);
    int code = 0;

    *ret_measure = NULL;
    if (backend->ops->measure)
        code = backend->ops->measure(backend, table, ret_measure, err);
    return timer_end(timer, code, err);
}

bool backend_skew(struct backend *backend, int64_t *ret_seconds)
{
    return backend->ops->skew && backend->ops->skew(backend, ret_seconds);
}

void measure_free(struct measure *measure)
{
    if (measure)
        measure->free(measure);
}
