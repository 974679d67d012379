/* SPDX-License-Identifier: MIT */
/* The wrappers between callers and a backend's streams and leases, and a record as JSON. */
#include "backend/stream.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"

static int result(int code, struct err *err)
{
    return code < 0 ? err_set(err, -code, "%s", err_text(NULL, code)) : code;
}

static int need_streams(const struct backend *backend, struct err *err)
{
    if (backend->ops->stream_open)
        return 0;
    return err_set(err, EOPNOTSUPP, "the %s backend has no streams", backend->ops->kind);
}

int backend_stream_open(struct backend *backend, const struct table *table, const char *position,
                        struct stream **ret_stream, struct err *err)
{
    int code = need_streams(backend, err);

    if (code == 0)
        code = backend->ops->stream_open(backend, table, position, ret_stream, err);
    if (code == 0)
        (*ret_stream)->backend = backend;
    return result(code, err);
}

int backend_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                        struct err *err)
{
    return result(stream->backend->ops->stream_next(stream, limit, each, context, err), err);
}

int backend_stream_position(struct stream *stream, struct buf *out)
{
    return stream->backend->ops->stream_position(stream, out);
}

int backend_stream_behind(struct stream *stream, uint64_t *ret_records, struct err *err)
{
    const struct backend_ops *ops = stream->backend->ops;
    int code = ops->stream_behind ? ops->stream_behind(stream, ret_records, err) : -EOPNOTSUPP;

    return result(code, err);
}

void backend_stream_close(struct stream *stream)
{
    if (stream)
        stream->backend->ops->stream_close(stream);
}

static int take_time(void *context, const struct change *change)
{
    *(int64_t *)context = change->time_ns;
    return 0;
}

static int stream_lag(struct stream *stream, struct stream_lag *ret_lag, struct err *err)
{
    struct stream_lag lag = {0, 0};
    int code = backend_stream_behind(stream, &lag.records, err);

    if (code == 0)
        code = backend_stream_next(stream, 1, take_time, &lag.first_ns, err);
    if (code < 0)
        return code;
    *ret_lag = lag;
    return 0;
}

int backend_stream_lag(struct backend *backend, const struct table *table, const char *position,
                       struct stream_lag *ret_lag, struct err *err)
{
    struct stream *stream = NULL;
    int code = need_streams(backend, err);

    if (code == 0 && !backend->ops->stream_behind) /* before anything is asked for */
        code = err_set(err, EOPNOTSUPP, "the %s backend counts no records", backend->ops->kind);
    if (code == 0)
        code = backend_stream_open(backend, table, position, &stream, err);
    if (stream)
        code = stream_lag(stream, ret_lag, err);
    backend_stream_close(stream);
    return code;
}

void lease_init(struct lease *lease)
{
    lease->count = 0;
    buf_init(&lease->holder, LEASE_TEXT_MAX);
    buf_init(&lease->position, LEASE_TEXT_MAX);
}

void lease_release(struct lease *lease)
{
    buf_release(&lease->holder);
    buf_release(&lease->position);
}

int backend_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                       struct err *err)
{
    int code = need_streams(backend, err);

    ret_lease->count = 0;
    buf_clear(&ret_lease->holder);
    buf_clear(&ret_lease->position);
    if (code == 0)
        code = backend->ops->lease_read(backend, name, ret_lease, err);
    return result(code, err);
}

int backend_lease_write(struct backend *backend, struct span name, uint64_t count,
                        struct span holder, struct span position, struct err *err)
{
    int code = need_streams(backend, err);

    assert(holder.len <= LEASE_TEXT_MAX && position.len <= LEASE_TEXT_MAX);
    if (code == 0)
        code = backend->ops->lease_write(backend, name, count, holder, position, err);
    return result(code, err);
}

const char *change_type_name(enum change_type type)
{
    switch (type) {
    case CHANGE_INSERT: return "INSERT";
    case CHANGE_MODIFY: return "MODIFY";
    case CHANGE_REMOVE: return "REMOVE";
    case CHANGE_NONE: break;
    }
    return "NONE";
}

/* TYPED with the types called as TABLE says. What a backend gives is such an item: only memory can
 * be missing. */
static void add_typed(const struct table *table, struct span typed, struct buf *out)
{
    int r = value_map_rename(typed, table->types, out, NULL);

    if (r < 0 && !out->error)
        out->error = r;
}

static void add_keys(const struct table *table, struct key key, struct buf *out)
{
    cleanup(buf_release) struct buf keys;

    buf_init(&keys, 16 * KEY_PART_MAX);
    key_to_typed(table, key, &keys);
    if (buf_error(&keys) && !out->error)
        out->error = buf_error(&keys);
    add_typed(table, buf_span(&keys), out);
}

static void add_item(struct buf *out, const struct table *table, const char *name,
                     struct span typed)
{
    if (!typed.data)
        return;
    buf_addf(out, ",\"%s\":", name);
    add_typed(table, typed, out);
}

void change_to_json(const struct table *table, const struct change *change, struct buf *out)
{
    buf_addf(out, "{\"change_type\":\"%s\",\"keys\":", change_type_name(change->type));
    add_keys(table, change->key, out);
    add_item(out, table, "old_item", change->old_item);
    add_item(out, table, "new_item", change->new_item);
    buf_add_text(out, ",\"change_id\":");
    json_add_string(out, span_text(change->id));
    buf_add_text(out, ",\"time\":\"");
    text_time_ns(change->time_ns, out);
    buf_add_text(out, change->expired ? "\",\"expired\":true}" : "\"}");
}
