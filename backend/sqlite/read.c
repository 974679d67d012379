/* SPDX-License-Identifier: MIT */
/* Reading items: each call is one statement, and so sees one moment. */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"

int64_t store_passed_s(const struct store *store, const struct table *table)
{
    return store->show_expired ? 0 : table_passed_s(table, clock_now_s());
}

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
    sqlite3_bind_int64(row, 4, store_passed_s(store_of(backend), table));
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
    sqlite3_bind_int64(rows, 4, store_passed_s(store_of(backend), table));
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
    sqlite3_bind_int64(rows, 5, store_passed_s(store_of(backend), table));
    sqlite3_bind_int64(rows, 6, query->limit ? (int64_t)query->limit : -1);
    if (index)
        bind_text(rows, 7, span_text(index->name));
    return each_row(reader, rows, table, each, context, err);
}

/* One statement a value: the next one is found without a look at all that have the last. */
int store_index_values(struct backend *backend, const struct table *table,
                       const struct index *index, value_fn each, void *context, struct err *err)
{
    cleanup(buf_release) struct buf last;
    cleanup(buf_release) struct buf number;
    scoped_reader *reader = NULL;
    scoped_statement *row = NULL;
    int code = reader_take(store_of(backend), &reader, err);

    buf_init(&last, KEY_PART_MAX);
    buf_init(&number, KEY_PART_MAX);
    if (code == 0)
        code = conn_statement(reader, STATEMENT_INDEX_VALUE, &row, err);
    while (code == 0) {
        struct span value;
        sqlite3_reset(row);
        if (bind_part(row, 2, index->partition.type, buf_span(&last)) < 0)
            return err_set(err, ENOMEM, "out of memory");
        sqlite3_bind_int64(row, 1, (int64_t)table->id);
        bind_text(row, 3, span_text(index->name));
        sqlite3_bind_int64(row, 4, table_passed_s(table, clock_now_s()));
        code = conn_step(reader, row, err);
        if (code <= 0)
            return code;
        if (column_part(row, 0, index->partition.type, &number, &value) < 0)
            return err_set(err, EUCLEAN, "table %s: index %s cannot be read", table->name,
                           index->name);
        buf_clear(&last);
        buf_add_span(&last, value);
        code = buf_error(&last) ? buf_error(&last) : each(context, value);
    }
    return code;
}
