/* SPDX-License-Identifier: MIT */
/* How many items and scratch files each partition of a sorted table holds, expired items included
 * until swept. A partition exists as long as it holds anything. */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"

static int run(struct store *store, enum statement id, const struct table *table,
               struct span partition, int64_t now_ns, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, id, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)table->id);
    if (bind_part(statement, 2, table->partition.type, partition) < 0)
        return err_set(err, ENOMEM, "out of memory");
    if (id != STATEMENT_PARTITION_PRUNE)
        sqlite3_bind_int64(statement, 3, now_ns);
    return conn_step(store->writer, statement, err);
}

int partition_count(struct store *store, const struct table *table, struct span partition,
                    int change, int64_t now_ns, struct err *err)
{
    if (!table_sorted(table))
        return 0;
    if (change > 0)
        return run(store, STATEMENT_PARTITION_ADD, table, partition, now_ns, err);
    int code = run(store, STATEMENT_PARTITION_REMOVE, table, partition, now_ns, err);
    return code ? code : run(store, STATEMENT_PARTITION_PRUNE, table, partition, 0, err);
}

int partition_count_scratch(struct store *store, const struct table *table, struct span partition,
                            int change, int64_t now_ns, struct err *err)
{
    sqlite3_stmt *statement;
    if (partition.len == 0)
        return 0;
    int code = conn_statement(store->writer, STATEMENT_PARTITION_SCRATCH, &statement, err);
    if (code)
        return code;
    sqlite3_bind_int64(statement, 4, change);
    code = run(store, STATEMENT_PARTITION_SCRATCH, table, partition, now_ns, err);
    if (code == 0 && change < 0)
        code = run(store, STATEMENT_PARTITION_PRUNE, table, partition, 0, err);
    return code;
}

int store_partitions(struct backend *backend, const struct table *table, struct span after,
                     size_t limit, partition_fn each, void *context, struct err *err)
{
    cleanup(buf_release) struct buf number;
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;

    buf_init(&number, 1024);
    int code = reader_take(store_of(backend), &reader, err);
    if (code == 0)
        code = conn_statement(reader, STATEMENT_PARTITIONS, &rows, err);
    if (code)
        return code;
    if (bind_part(rows, 2, table->partition.type, after) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(rows, 1, (int64_t)table->id);
    sqlite3_bind_int64(rows, 3, table_passed_s(table, clock_now_s()));
    sqlite3_bind_int64(rows, 4, limit ? (int64_t)limit : -1);
    while ((code = conn_step(reader, rows, err)) > 0) {
        int64_t items = sqlite3_column_int64(rows, 1);
        struct partition_info info = {.items = items > 0 ? (uint64_t)items : 0,
                                      .changed_ns = sqlite3_column_int64(rows, 2)};
        code = column_part(rows, 0, table->partition.type, &number, &info.partition);
        if (code)
            return err_set(err, -code, "table %s: a partition cannot be read", table->name);
        code = each(context, &info);
        if (code)
            return code;
    }
    return code;
}

int store_partition(struct backend *backend, const struct table *table, struct span partition,
                    uint64_t *ret_items, int64_t *ret_changed_ns, struct err *err)
{
    scoped_reader *reader = NULL;
    scoped_statement *row = NULL;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_PARTITION_GET, &row, err);
    if (code)
        return code;
    if (bind_part(row, 2, table->partition.type, partition) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(row, 1, (int64_t)table->id);
    sqlite3_bind_int64(row, 3, table_passed_s(table, clock_now_s()));
    code = conn_step(reader, row, err);
    if (code < 0)
        return code;
    int64_t items = code ? sqlite3_column_int64(row, 0) : 0;
    int64_t scratch = code ? sqlite3_column_int64(row, 2) : 0;
    if (items <= 0 && scratch <= 0)
        return err_set(err, ENOENT, "table %s has no such partition", table->name);
    if (ret_items)
        *ret_items = items > 0 ? (uint64_t)items : 0;
    *ret_changed_ns = sqlite3_column_int64(row, 1);
    return 0;
}
