/* SPDX-License-Identifier: MIT */
/*
 * A table's stream out of the change log, and leases. A position is the store's id, the number in
 * the log of the last change that was given or passed over, and the table's number: one that was
 * made anew under the same name has a stream of its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define PAUSE_NS (40 * (NS_PER_S / 1000))
#define POSITION_LEN 48

struct store_stream {
    struct stream stream; /* first */
    struct store *store;
    struct table *table;
    uint64_t after;
    struct buf old_item, new_item;
};

static struct store_stream *stream_of(struct stream *stream)
{
    return (struct store_stream *)stream;
}

/* --- Positions --- */

struct position {
    char store[17]; /* 16 hexadecimal digits, as its numbers */
    uint64_t sequence, table_id;
};

static bool parse_position(const char *text, struct position *ret_position)
{
    size_t digits = strspn(text, "0123456789abcdef");

    if (digits != POSITION_LEN || text[digits])
        return false;
    return sscanf(text, "%16c%16" SCNx64 "%16" SCNx64, ret_position->store, &ret_position->sequence,
                  &ret_position->table_id) == 3;
}

/* The end of the log, and up to where records were dropped. */
static int ends_of_log(struct store *store, uint64_t *ret_newest, uint64_t *ret_dropped,
                       struct err *err)
{
    scoped_reader *reader = NULL;
    int64_t newest, dropped;
    int code = reader_take(store, &reader, err);

    if (code == 0)
        code = conn_number(reader, STATEMENT_LOG_POSITION, &newest, err);
    if (code == 0)
        code = conn_number(reader, STATEMENT_DROPPED, &dropped, err);
    if (code)
        return code;
    *ret_newest = (uint64_t)newest;
    *ret_dropped = (uint64_t)dropped;
    return 0;
}

/* A store that was restored from a copy may not know a position yet. */
static int begin_at(struct store_stream *stream, const char *position, struct err *err)
{
    uint64_t newest, dropped;
    struct position place = {.store = ""};
    int code = ends_of_log(stream->store, &newest, &dropped, err);

    if (code)
        return code;
    if (strcmp(position, STREAM_OLDEST) == 0) {
        stream->after = dropped;
    } else if (strcmp(position, STREAM_NOW) == 0) {
        stream->after = newest;
    } else if (!parse_position(position, &place)) {
        return err_set(err, EINVAL, "table %s: \"%.80s\" is no position of its stream",
                       stream->table->name, position);
    } else {
        stream->stream.lost = strcmp(place.store, stream->store->id) != 0 ||
                              place.sequence > newest || place.table_id != stream->table->id;
        stream->after = stream->stream.lost ? dropped : place.sequence;
    }
    return 0;
}

/* --- Reading --- */

int store_stream_open(struct backend *backend, const struct table *table, const char *position,
                      struct stream **ret_stream, struct err *err)
{
    struct store_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return -ENOMEM;
    stream->store = store_of(backend);
    stream->stream.pause_ns = PAUSE_NS;
    buf_init(&stream->old_item, SIZE_MAX / 2);
    buf_init(&stream->new_item, SIZE_MAX / 2);
    stream->table = table_copy(table);
    int code = stream->table ? begin_at(stream, position, err) : -ENOMEM;
    if (code) {
        store_stream_close(&stream->stream);
        return code;
    }
    *ret_stream = &stream->stream;
    return 0;
}

void store_stream_close(struct stream *stream)
{
    struct store_stream *own = stream_of(stream);

    table_free(own->table);
    buf_release(&own->old_item);
    buf_release(&own->new_item);
    free(own);
}

static int typed_item(const struct store_stream *stream, struct key key, struct span body,
                      int64_t ttl, struct buf *out, struct span *ret_item, struct err *err)
{
    *ret_item = span_of(NULL, 0);
    if (!body.data)
        return 0;
    buf_clear(out);
    int code = item_to_typed(stream->table, key, body, item_ttl_beside(body, ttl), out, err);
    if (code == 0)
        code = buf_error(out);
    *ret_item = buf_span(out);
    return code;
}

static int give(struct store_stream *stream, const struct log_entry *entry, change_fn each,
                void *context, struct err *err)
{
    char id[33];
    struct change change = {.id = id,
                            .type = entry->change,
                            .key = entry->key,
                            .time_ns = entry->time_ns,
                            .expired = entry->expired,
                            .version = entry->new_body.data ? entry->sequence : 0};
    int code = typed_item(stream, entry->key, entry->old_body, entry->old_ttl, &stream->old_item,
                          &change.old_item, err);

    if (code == 0)
        code = typed_item(stream, entry->key, entry->new_body, entry->new_ttl, &stream->new_item,
                          &change.new_item, err);
    if (code)
        return code;
    store_change_id(&stream->store->backend, entry->sequence, entry->time_ns, id);
    stream->after = entry->sequence;
    return each(context, &change);
}

static int open_rows(const struct store_stream *stream, struct conn *reader, size_t limit,
                     uint64_t end, sqlite3_stmt **ret_rows, struct err *err)
{
    int code = conn_statement(reader, STATEMENT_STREAM, ret_rows, err);

    if (code)
        return code;
    sqlite3_bind_int64(*ret_rows, 1, (int64_t)stream->after);
    sqlite3_bind_int64(*ret_rows, 2, limit ? (int64_t)limit : -1);
    sqlite3_bind_int64(*ret_rows, 3, (int64_t)end);
    sqlite3_bind_int64(*ret_rows, 4, (int64_t)stream->table->id);
    return 0;
}

/* Up to END of the log. What is there of other tables is passed over. */
static int read_to(struct store_stream *stream, size_t limit, uint64_t end, change_fn each,
                   void *context, struct err *err)
{
    cleanup(log_parts_release) struct log_parts parts;
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    struct log_entry entry;
    size_t given = 0;

    log_parts_init(&parts);
    int code = reader_take(stream->store, &reader, err);
    if (code == 0)
        code = open_rows(stream, reader, limit, end, &rows, err);
    if (code)
        return code;
    for (; (code = conn_step(reader, rows, err)) > 0; given++) {
        code = log_entry_of_row(stream->store, rows, stream->table, &parts, &entry, err);
        if (code == 0)
            code = give(stream, &entry, each, context, err);
        if (code)
            return code;
    }
    if (code == 0 && limit && given == limit)
        return 1;
    if (code == 0)
        stream->after = end;
    return code;
}

int store_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                      struct err *err)
{
    struct store_stream *own = stream_of(stream);
    uint64_t newest, dropped;
    int code = ends_of_log(own->store, &newest, &dropped, err);

    if (code)
        return code;
    if (own->after < dropped) {
        stream->lost = true;
        own->after = dropped;
    }
    return newest > own->after ? read_to(own, limit, newest, each, context, err) : 0;
}

int store_stream_position(struct stream *stream, struct buf *out)
{
    const struct store_stream *own = stream_of(stream);

    buf_addf(out, "%s%016" PRIx64 "%016" PRIx64, own->store->id, own->after, own->table->id);
    return buf_error(out);
}

int store_stream_behind(struct stream *stream, uint64_t *ret_records, struct err *err)
{
    const struct store_stream *own = stream_of(stream);
    scoped_reader *reader = NULL;
    scoped_statement *row = NULL;
    int code = reader_take(own->store, &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_STREAM_BEHIND, &row, err);
    if (code)
        return code;
    sqlite3_bind_int64(row, 1, (int64_t)own->after);
    sqlite3_bind_int64(row, 2, (int64_t)own->table->id);
    code = conn_step(reader, row, err);
    if (code > 0)
        *ret_records = (uint64_t)sqlite3_column_int64(row, 0);
    return code > 0 ? 0 : code;
}

/* --- Leases --- */

int store_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                     struct err *err)
{
    struct store *store = store_of(backend);
    scoped_reader *reader = NULL;
    scoped_statement *row = NULL;
    struct span holder, position;
    int code = reader_take(store, &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_LEASE_READ, &row, err);
    if (code)
        return code;
    bind_text(row, 1, name);
    code = conn_step(reader, row, err);
    if (code <= 0)
        return code;
    ret_lease->count = (uint64_t)sqlite3_column_int64(row, 0);
    code = column_span(row, 1, &holder);
    if (code == 0)
        code = column_span(row, 2, &position);
    if (code)
        return code;
    buf_add_span(&ret_lease->holder, holder);
    buf_add_span(&ret_lease->position, position);
    return buf_error(&ret_lease->holder) ? buf_error(&ret_lease->holder)
                                         : buf_error(&ret_lease->position);
}

struct lease_job {
    struct job job; /* first */
    struct span name, holder, position;
    uint64_t count;
};

static int apply_lease(struct store *store, struct job *job, struct err *err)
{
    const struct lease_job *lease = (const struct lease_job *)job;
    sqlite3_stmt *statement;
    int code = conn_statement(
        store->writer, lease->count ? STATEMENT_LEASE_KEEP : STATEMENT_LEASE_TAKE, &statement, err);

    if (code)
        return code;
    bind_text(statement, 1, lease->name);
    sqlite3_bind_int64(statement, 2, (int64_t)lease->count);
    bind_text(statement, 3, lease->holder);
    bind_text(statement, 4, lease->position);
    code = conn_step(store->writer, statement, err);
    if (code == 0 && sqlite3_changes(store->writer->db) == 0)
        code = err_set(err, ESTALE, "the lease of %.*s has moved on", (int)lease->name.len,
                       lease->name.data);
    return code;
}

int store_lease_write(struct backend *backend, struct span name, uint64_t count, struct span holder,
                      struct span position, struct err *err)
{
    struct store *store = store_of(backend);
    struct lease_job lease = {.job.apply = apply_lease,
                              .name = name,
                              .holder = holder,
                              .position = position,
                              .count = count};

    if (store->read_only)
        return err_set(err, EROFS, "%s is open for reading", store->path);
    return store_commit(store, &lease.job, err);
}
