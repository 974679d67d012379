/* SPDX-License-Identifier: MIT */
/* Reading items: each call is one statement, and so sees one moment. */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* pk, sk, META_COLUMNS, and the body where there is one. */
enum { ROW_PK, ROW_SK, ROW_META, ROW_BODY = ROW_META + META_END };

static int each_row(struct conn *reader, sqlite3_stmt *rows, const struct table *table,
                    record_fn each, void *context, struct err *err)
{
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    bool bodies = sqlite3_column_count(rows) > ROW_BODY;
    int code;

    buf_init(&partition, 1024);
    buf_init(&sort, 1024);
    while ((code = conn_step(reader, rows, err)) > 0) {
        struct record record = {.body = {NULL, 0}};
        column_meta(rows, ROW_META, &record.meta);
        code = column_part(rows, ROW_PK, table->partition.type, &partition, &record.key.partition);
        if (code == 0)
            code = column_part(rows, ROW_SK, table->sort.type, &sort, &record.key.sort);
        if (code == 0 && bodies)
            code = column_span(rows, ROW_BODY, &record.body);
        if (code)
            return err_set(err, -code, "table %s: an item cannot be read", table->name);
        code = each(context, &record);
        if (code)
            return code;
    }
    return code;
}

int store_get(struct backend *backend, const struct table *table, struct key key,
              struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    scoped_reader *reader = NULL;
    scoped_statement *row = NULL;
    struct span bytes = {NULL, 0};
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, body ? STATEMENT_GET : STATEMENT_GET_META, &row, err);
    if (code)
        return code;
    if (bind_key(row, 2, table, key) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(row, 1, (int64_t)table->id);
    sqlite3_bind_int64(row, 4, clock_now_s());
    code = conn_step(reader, row, err);
    if (code == 0) { /* the usual answer to a lookup: its sentence is cheap */
        return err_set(err, ENOENT, "table %s has no such item", table->name);
    }
    if (code < 0)
        return code;
    if (body) {
        code = column_span(row, META_END, &bytes);
        if (code)
            return err_set(err, -code, "out of memory");
        buf_add_span(body, bytes);
        if (buf_error(body))
            return err_set(err, -buf_error(body), "table %s: no room for an item", table->name);
    }
    column_meta(row, 0, ret_meta);
    return 0;
}

int store_walk(struct backend *backend, const struct table *table, const struct walk *walk,
               record_fn each, void *context, struct err *err)
{
    static const enum statement statements[2][2] = {
        {STATEMENT_WALK, STATEMENT_WALK_BODIES},
        {STATEMENT_WALK_PARTITION, STATEMENT_WALK_PARTITION_BODIES},
    };
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, statements[walk->in_partition][walk->bodies], &rows, err);
    if (code)
        return code;
    if (bind_key(rows, 2, table, walk->after) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(rows, 1, (int64_t)table->id);
    sqlite3_bind_int64(rows, 4, clock_now_s());
    sqlite3_bind_int64(rows, 5, walk->limit ? (int64_t)walk->limit : -1);
    return each_row(reader, rows, table, each, context, err);
}

static enum statement query_statement(const struct query *query)
{
    static const enum statement statements[2][2][2] = {
        {{STATEMENT_QUERY, STATEMENT_QUERY_REVERSE},
         {STATEMENT_QUERY_TO, STATEMENT_QUERY_TO_REVERSE}},
        {{STATEMENT_INDEX_QUERY, STATEMENT_INDEX_QUERY_REVERSE},
         {STATEMENT_INDEX_QUERY_TO, STATEMENT_INDEX_QUERY_TO_REVERSE}},
    };
    return statements[query->index != NULL][query->has_to][query->reverse];
}

int store_query(struct backend *backend, const struct table *table, const struct query *query,
                record_fn each, void *context, struct err *err)
{
    const struct index *index = query->index;
    const struct key_attribute *partition = index ? &index->partition : &table->partition;
    const struct key_attribute *sort = index ? &index->sort : &table->sort;
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, query_statement(query), &rows, err);
    if (code)
        return code;
    code = bind_part(rows, 2, partition->type, query->partition);
    if (code == 0)
        code = bind_part(rows, 3, sort->type, query->has_from ? query->from : span_of(NULL, 0));
    if (code == 0 && query->has_to)
        code = bind_part(rows, 4, sort->type, query->to);
    if (code)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(rows, 1, (int64_t)table->id);
    sqlite3_bind_int64(rows, 5, clock_now_s());
    sqlite3_bind_int64(rows, 6, query->limit ? (int64_t)query->limit : -1);
    if (index)
        bind_text(rows, 7, span_text(index->name));
    return each_row(reader, rows, table, each, context, err);
}
