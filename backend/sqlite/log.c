/* SPDX-License-Identifier: MIT */
/*
 * The change log: a row for everything that happens to items, scratch, drafts and tables. A row's
 * number is the version of the item it made. The row with the highest number is never removed, so
 * no number is given twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

enum {
    INSERT_TABLE = 1,
    INSERT_KIND,
    INSERT_PK,
    INSERT_SK,
    INSERT_CHANGE,
    INSERT_TIME,
    INSERT_ORIGIN,
    INSERT_STREAMED,
    INSERT_EXPIRED,
    INSERT_OLD,
    INSERT_NEW,
    INSERT_OLD_TTL,
    INSERT_NEW_TTL,
    INSERT_PARENT,
    INSERT_NAME
};

enum {
    LOG_SEQ,
    LOG_TABLE,
    LOG_KIND,
    LOG_PK,
    LOG_SK,
    LOG_CHANGE,
    LOG_TIME,
    LOG_ORIGIN,
    LOG_STREAMED,
    LOG_EXPIRED,
    LOG_OLD,
    LOG_NEW,
    LOG_OLD_TTL,
    LOG_NEW_TTL,
    LOG_PARENT,
    LOG_NAME,
    LOG_KEY_TYPE,
    LOG_SORT_TYPE
};

#define ORIGIN_NOBODY (-1) /* no object has it */

static void bind_body(sqlite3_stmt *statement, int at, struct span body)
{
    if (body.data)
        bind_text(statement, at, body);
    else
        sqlite3_bind_null(statement, at);
}

static int bind_place(sqlite3_stmt *statement, const struct table *table,
                      const struct log_entry *entry)
{
    if (table)
        return bind_key(statement, INSERT_PK, table, entry->key);
    sqlite3_bind_null(statement, INSERT_PK);
    sqlite3_bind_null(statement, INSERT_SK);
    return 0;
}

int log_append(struct store *store, const struct table *table, const struct log_entry *entry,
               uint64_t *ret_sequence, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_CHANGE_INSERT, &statement, err);

    if (code)
        return code;
    if (bind_place(statement, table, entry) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(statement, INSERT_TABLE, (int64_t)entry->table_id);
    sqlite3_bind_int(statement, INSERT_KIND, (int)entry->kind);
    sqlite3_bind_int(statement, INSERT_CHANGE, (int)entry->change);
    sqlite3_bind_int64(statement, INSERT_TIME, entry->time_ns);
    sqlite3_bind_int64(statement, INSERT_ORIGIN, store->told ? ORIGIN_NOBODY : store->origin);
    sqlite3_bind_int(statement, INSERT_STREAMED, entry->streamed);
    sqlite3_bind_int(statement, INSERT_EXPIRED, entry->expired);
    bind_body(statement, INSERT_OLD, entry->streamed ? entry->old_body : span_of(NULL, 0));
    bind_body(statement, INSERT_NEW, entry->streamed ? entry->new_body : span_of(NULL, 0));
    bind_time(statement, INSERT_OLD_TTL, entry->old_ttl);
    bind_time(statement, INSERT_NEW_TTL, entry->new_ttl);
    bind_time(statement, INSERT_PARENT, (int64_t)entry->scratch_parent);
    bind_body(statement, INSERT_NAME, entry->scratch_name);
    code = conn_step(store->writer, statement, err);
    if (code)
        return code;
    store->unrolled++;
    *ret_sequence = (uint64_t)sqlite3_last_insert_rowid(store->writer->db);
    return 0;
}

int store_poll(struct backend *backend, bool *ret_changed, struct err *err)
{
    struct store *store = store_of(backend);
    int64_t now;

    if (store->uri) { /* nobody can write there */
        *ret_changed = false;
        return 0;
    }
    scoped_lock(&store->poll_lock);
    int code = store_check_file(store, err);
    if (code == 0)
        code = conn_number(store->poller, STATEMENT_DATA_VERSION, &now, err);
    if (code)
        return code;
    *ret_changed = now != store->polled;
    store->polled = now;
    return 0;
}

int store_log_position(struct backend *backend, uint64_t *ret_sequence, struct err *err)
{
    scoped_reader *reader = NULL;
    int64_t sequence;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_number(reader, STATEMENT_LOG_POSITION, &sequence, err);
    if (code == 0)
        *ret_sequence = (uint64_t)sequence;
    return code;
}

void log_parts_init(struct log_parts *parts)
{
    buf_init(&parts->partition, 1024);
    buf_init(&parts->sort, 1024);
}

void log_parts_release(struct log_parts *parts)
{
    buf_release(&parts->partition);
    buf_release(&parts->sort);
}

/* The row says what a key part is as long as its table is there. */
static int column_typed_part(sqlite3_stmt *row, int at, int type_at, enum value_type type,
                             struct buf *buf, struct span *ret_part)
{
    struct span name;
    int code = column_span(row, type_at, &name);

    if (code == 0 && name.data && !value_type_from_name(name, &type))
        code = -EUCLEAN;
    return code ? code : column_part(row, at, type, buf, ret_part);
}

int log_entry_of_row(const struct store *store, sqlite3_stmt *row, const struct table *table,
                     struct log_parts *parts, struct log_entry *entry, struct err *err)
{
    *entry = (struct log_entry){
        .sequence = (uint64_t)sqlite3_column_int64(row, LOG_SEQ),
        .kind = (enum log_kind)sqlite3_column_int(row, LOG_KIND),
        .table_id = (uint64_t)sqlite3_column_int64(row, LOG_TABLE),
        .change = (enum change_type)sqlite3_column_int(row, LOG_CHANGE),
        .streamed = sqlite3_column_int(row, LOG_STREAMED) != 0,
        .expired = sqlite3_column_int(row, LOG_EXPIRED) != 0,
        .own = sqlite3_column_int64(row, LOG_ORIGIN) == store->origin,
        .time_ns = sqlite3_column_int64(row, LOG_TIME),
        .old_ttl = sqlite3_column_int64(row, LOG_OLD_TTL),
        .new_ttl = sqlite3_column_int64(row, LOG_NEW_TTL),
        .scratch_parent = (uint64_t)sqlite3_column_int64(row, LOG_PARENT),
    };
    int code = column_typed_part(row, LOG_PK, LOG_KEY_TYPE, table ? table->partition.type : VALUE_S,
                                 &parts->partition, &entry->key.partition);
    if (code == 0)
        code = column_typed_part(row, LOG_SK, LOG_SORT_TYPE, table ? table->sort.type : VALUE_S,
                                 &parts->sort, &entry->key.sort);
    if (code == 0)
        code = column_span(row, LOG_OLD, &entry->old_body);
    if (code == 0)
        code = column_span(row, LOG_NEW, &entry->new_body);
    if (code == 0)
        code = column_span(row, LOG_NAME, &entry->scratch_name);
    if (code)
        return err_set(err, -code, "entry %" PRIu64 " of the change log cannot be read",
                       entry->sequence);
    return 0;
}

int store_log(struct backend *backend, uint64_t after, size_t limit, log_fn each, void *context,
              struct err *err)
{
    struct store *store = store_of(backend);
    cleanup(log_parts_release) struct log_parts parts;
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    struct log_entry entry;

    log_parts_init(&parts);
    int code = reader_take(store, &reader, err);
    if (code == 0)
        code = conn_statement(reader, STATEMENT_LOG, &rows, err);
    if (code)
        return code;
    sqlite3_bind_int64(rows, 1, (int64_t)after);
    sqlite3_bind_int64(rows, 2, limit ? (int64_t)limit : -1);
    while ((code = conn_step(reader, rows, err)) > 0) {
        code = log_entry_of_row(store, rows, NULL, &parts, &entry, err);
        if (code == 0)
            code = each(context, &entry);
        if (code)
            return code;
    }
    return code;
}

int store_change_id(struct backend *backend, uint64_t sequence, int64_t time_ns, char ret_id[33])
{
    uint64_t store = strtoull(store_of(backend)->id, NULL, 16);

    snprintf(ret_id, 33, "%016" PRIx64 "%016" PRIx64, sequence, store ^ (uint64_t)time_ns);
    return 0;
}
