/* SPDX-License-Identifier: MIT */
/* Refused saves, kept by the name of their table; and reading bodies that are found by id. */
#include <errno.h>
#include <inttypes.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

enum { COLUMN_ID, COLUMN_TABLE, COLUMN_PATH, COLUMN_CODE, COLUMN_REASON, COLUMN_TIME, COLUMN_SIZE };

static int announce(struct store *store, int64_t now_ns, enum change_type change, struct err *err)
{
    struct log_entry entry = {.kind = LOG_DRAFT, .change = change, .time_ns = now_ns};
    uint64_t sequence;

    return log_append(store, NULL, &entry, &sequence, err);
}

int draft_put(struct store *store, struct action *action, int64_t now_ns, struct err *err)
{
    const struct draft *draft = &action->draft;
    bool made = draft->id == 0;
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, made ? STATEMENT_DRAFT_INSERT : STATEMENT_DRAFT_UPDATE,
                              &statement, err);
    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)draft->id);
    bind_text(statement, 2, draft->table);
    bind_text(statement, 3, draft->path);
    sqlite3_bind_int(statement, 4, draft->code);
    bind_text(statement, 5, draft->reason);
    sqlite3_bind_int64(statement, 6, draft->time_ns ? draft->time_ns : now_ns);
    sqlite3_bind_int64(statement, 7, (int64_t)action->body.len);
    bind_blob(statement, 8, action->body);
    code = conn_step(store->writer, statement, err);
    if (code)
        return code;
    if (!made && sqlite3_changes(store->writer->db) == 0)
        return err_set(err, ENOENT, "draft %" PRIu64 " is gone", draft->id);
    action->made_id = made ? (uint64_t)sqlite3_last_insert_rowid(store->writer->db) : draft->id;
    return announce(store, now_ns, made ? CHANGE_INSERT : CHANGE_MODIFY, err);
}

int draft_delete(struct store *store, struct action *action, int64_t now_ns, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_DRAFT_DELETE, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)action->draft.id);
    code = conn_step(store->writer, statement, err);
    if (code)
        return code;
    if (sqlite3_changes(store->writer->db) == 0)
        return err_set(err, ENOENT, "draft %" PRIu64 " is gone", action->draft.id);
    return announce(store, now_ns, CHANGE_REMOVE, err);
}

static int from_row(sqlite3_stmt *row, struct draft *draft)
{
    *draft = (struct draft){
        .id = (uint64_t)sqlite3_column_int64(row, COLUMN_ID),
        .code = sqlite3_column_int(row, COLUMN_CODE),
        .time_ns = sqlite3_column_int64(row, COLUMN_TIME),
        .size = (uint64_t)sqlite3_column_int64(row, COLUMN_SIZE),
    };
    int code = column_span(row, COLUMN_TABLE, &draft->table);
    if (code == 0)
        code = column_span(row, COLUMN_PATH, &draft->path);
    return code ? code : column_span(row, COLUMN_REASON, &draft->reason);
}

int store_draft_list(struct backend *backend, struct span table, draft_fn each, void *context,
                     struct err *err)
{
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    struct draft draft;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_DRAFT_LIST, &rows, err);
    if (code)
        return code;
    bind_text(rows, 1, table);
    while ((code = conn_step(reader, rows, err)) > 0) {
        code = from_row(rows, &draft);
        if (code)
            return err_set(err, -code, "a draft cannot be read");
        code = each(context, &draft);
        if (code)
            return code;
    }
    return code;
}

/* The body of the row with that id. */
static int read_body(struct store *store, enum statement id, uint64_t row_id, const char *what,
                     struct buf *body, struct err *err)
{
    scoped_reader *reader = NULL;
    scoped_statement *row = NULL;
    struct span bytes;
    int code = reader_take(store, &reader, err);

    if (code == 0)
        code = conn_statement(reader, id, &row, err);
    if (code)
        return code;
    sqlite3_bind_int64(row, 1, (int64_t)row_id);
    code = conn_step(reader, row, err);
    if (code < 0)
        return code;
    if (code == 0)
        return err_set(err, ENOENT, "%s %" PRIu64 " is gone", what, row_id);
    code = column_span(row, 0, &bytes);
    if (code == 0) {
        buf_add_span(body, bytes);
        code = buf_error(body);
    }
    return code ? err_set(err, -code, "%s %" PRIu64 ": no room for it", what, row_id) : 0;
}

int store_draft_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err)
{
    return read_body(store_of(backend), STATEMENT_DRAFT_READ, id, "draft", body, err);
}

int store_scratch_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err)
{
    return read_body(store_of(backend), STATEMENT_SCRATCH_READ, id, "scratch file", body, err);
}
