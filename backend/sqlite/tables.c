/* SPDX-License-Identifier: MIT */
/*
 * Descriptions of tables: as rows, and as the writer knows them.
 *
 * A table's `changed` moves with every item that comes or goes. Writing it each time would cost a
 * page of the log more on every insert, so it is brought up to date now and then (tables_roll), and
 * whoever reads tables adds what the change log tells since then: rows behind `rolled_seq`.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

enum {
    TABLE_ID,
    TABLE_NAME,
    TABLE_KEY,
    TABLE_SORT = 4,
    TABLE_TTL = 6,
    TABLE_KEYS,
    TABLE_STREAM,
    TABLE_CREATED,
    TABLE_CHANGED
};
enum { INDEX_ID, INDEX_NAME, INDEX_KEY, INDEX_SORT = 4 };

/* 0 and *ret_text NULL where the column is NULL. */
static int column_string(sqlite3_stmt *statement, int at, char **ret_text)
{
    struct span text;
    int code = column_span(statement, at, &text);

    if (code || !text.data)
        return code;
    *ret_text = strndup(text.data, text.len);
    return *ret_text ? 0 : -ENOMEM;
}

/* A name at AT, a type at AT + 1. */
static int column_attribute(sqlite3_stmt *statement, int at, struct key_attribute *attribute)
{
    struct span type;
    int code = column_string(statement, at, &attribute->name);

    if (code || !attribute->name)
        return code;
    code = column_span(statement, at + 1, &type);
    if (code)
        return code;
    return value_type_from_name(type, &attribute->type) ? 0 : -EUCLEAN;
}

static int fill_table(sqlite3_stmt *statement, struct table *table)
{
    struct span keys;

    free(table->ttl_attribute);
    table->ttl_attribute = NULL;
    key_attribute_release(&table->partition);
    key_attribute_release(&table->sort);
    table->partition = table->sort = (struct key_attribute){NULL, VALUE_S};
    table->id = (uint64_t)sqlite3_column_int64(statement, TABLE_ID);
    table->stream = sqlite3_column_int(statement, TABLE_STREAM) != 0;
    table->created_ns = sqlite3_column_int64(statement, TABLE_CREATED);
    table->changed_ns = sqlite3_column_int64(statement, TABLE_CHANGED);
    int code = column_attribute(statement, TABLE_KEY, &table->partition);
    if (code == 0)
        code = column_attribute(statement, TABLE_SORT, &table->sort);
    if (code == 0)
        code = column_string(statement, TABLE_TTL, &table->ttl_attribute);
    if (code == 0)
        code = column_span(statement, TABLE_KEYS, &keys);
    if (code)
        return code;
    table->keys = span_equal(keys, span_text("tags")) ? KEYS_TAGS : KEYS_PLAIN;
    table->show_keys = table->keys == KEYS_PLAIN;
    return table->partition.name ? 0 : -EUCLEAN;
}

static int fill_index(sqlite3_stmt *statement, struct known_table *known)
{
    struct table *table = known->table;

    if (table->index_count == TABLE_INDEXES_MAX)
        return -EUCLEAN;
    struct index *indexes =
        reallocarray(table->indexes, table->index_count + 1, sizeof *table->indexes);
    if (!indexes)
        return -ENOMEM;
    table->indexes = indexes;
    known->index_ids[table->index_count] = sqlite3_column_int64(statement, INDEX_ID);
    struct index *index = &indexes[table->index_count++];
    *index = (struct index){0};
    int code = column_string(statement, INDEX_NAME, &index->name);
    if (code == 0)
        code = column_attribute(statement, INDEX_KEY, &index->partition);
    if (code == 0)
        code = column_attribute(statement, INDEX_SORT, &index->sort);
    return code ? code : index->name && index->partition.name ? 0 : -EUCLEAN;
}

static int load_indexes(struct conn *conn, struct known_table *known, struct err *err)
{
    scoped_statement *statement = NULL;
    int code = conn_statement(conn, STATEMENT_INDEXES, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)known->table->id);
    while ((code = conn_step(conn, statement, err)) > 0) {
        code = fill_index(statement, known);
        if (code)
            return err_set(err, -code, "table %s: its indexes cannot be read", known->table->name);
    }
    return code;
}

static int load_table(struct conn *conn, sqlite3_stmt *statement, struct known_table *known,
                      struct err *err)
{
    struct span name;
    int code = column_span(statement, TABLE_NAME, &name);

    if (code)
        return err_set(err, -code, "a table cannot be read");
    known->table = table_new(name);
    if (!known->table)
        return err_set(err, ENOMEM, "out of memory");
    code = fill_table(statement, known->table);
    if (code)
        return err_set(err, -code, "table %s: its description cannot be read", known->table->name);
    return load_indexes(conn, known, err);
}

void tables_free(struct known_table *tables, size_t count)
{
    for (size_t i = 0; i < count; i++)
        table_free(tables[i].table);
    free(tables);
}

int tables_load(struct conn *conn, struct span name, struct known_table **ret_tables,
                size_t *ret_count, struct err *err)
{
    struct known_table *tables = NULL;
    size_t count = 0;
    scoped_statement *statement = NULL;
    enum statement which = name.data ? STATEMENT_TABLE_NAMED : STATEMENT_TABLES;
    int code = conn_statement(conn, which, &statement, err);

    if (code == 0 && name.data)
        bind_text(statement, 1, name);

    while (code == 0 && (code = conn_step(conn, statement, err)) > 0) {
        struct known_table *more = reallocarray(tables, count + 1, sizeof *tables);
        if (!more) {
            code = err_set(err, ENOMEM, "out of memory");
            break;
        }
        tables = more;
        tables[count].table = NULL;
        code = load_table(conn, statement, &tables[count++], err);
    }
    if (code) {
        tables_free(tables, count);
        return code;
    }
    *ret_tables = tables;
    *ret_count = count;
    return 0;
}

/* Tables and their indexes of one moment: the one that is called NAME, or all. */
static int load_at_once(struct store *store, struct span name, struct known_table **ret_tables,
                        size_t *ret_count, struct err *err)
{
    scoped_reader *reader = NULL;
    int code = reader_take(store, &reader, err);

    if (code == 0)
        code = conn_run(reader, STATEMENT_BEGIN_READ, err);
    if (code)
        return code;
    code = tables_load(reader, name, ret_tables, ret_count, err);
    int ended = conn_run(reader, STATEMENT_COMMIT, code ? NULL : err);
    if (code == 0 && ended)
        tables_free(*ret_tables, *ret_count);
    return code ? code : ended;
}

int store_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    struct known_table *tables;
    size_t count;
    int code = load_at_once(store_of(backend), span_of(NULL, 0), &tables, &count, err);

    if (code)
        return code;
    for (size_t i = 0; i < count && code == 0; i++)
        code = each(context, tables[i].table);
    tables_free(tables, count);
    return code;
}

int store_describe(struct backend *backend, struct span name, struct table **ret_table,
                   struct err *err)
{
    struct known_table *tables;
    size_t count;
    int code = load_at_once(store_of(backend), name, &tables, &count, err);

    if (code)
        return code;
    if (count) {
        *ret_table = tables[0].table;
        tables[0].table = NULL;
    }
    tables_free(tables, count);
    return count ? 0 : -ENOENT;
}

static int compare_ids(const void *a, const void *b)
{
    const struct known_table *left = a, *right = b;
    return (left->table->id > right->table->id) - (left->table->id < right->table->id);
}

static int schema_load(struct store *store, struct err *err)
{
    struct schema *schema = &store->schema;
    struct known_table *tables;
    size_t count;
    int code = tables_load(store->writer, span_of(NULL, 0), &tables, &count, err);

    if (code)
        return code;
    if (count)
        qsort(tables, count, sizeof *tables, compare_ids);
    tables_free(schema->tables, schema->count);
    schema->tables = tables;
    schema->count = count;
    schema->stale = false;
    return conn_meta_get(store->writer, "schema", &schema->version, err);
}

int schema_refresh(struct store *store, struct err *err)
{
    struct schema *schema = &store->schema;
    int64_t data_version, version;
    int code = conn_number(store->writer, STATEMENT_DATA_VERSION, &data_version, err);

    if (code || (!schema->stale && data_version == schema->data_version))
        return code;
    code = conn_meta_get(store->writer, "schema", &version, err);
    if (code)
        return code;
    if (version != schema->version)
        schema->stale = true;
    schema->data_version = data_version;
    return 0;
}

void schema_undo(struct store *store)
{
    if (store->schema.changed)
        store->schema.stale = true;
}

int schema_table(struct store *store, const struct table *table, const struct known_table **ret,
                 struct err *err)
{
    struct schema *schema = &store->schema;
    struct table wanted = {.id = table->id};
    int code = schema->stale ? schema_load(store, err) : 0;

    if (code)
        return code;
    *ret = NULL;
    if (schema->count)
        *ret = bsearch(&(struct known_table){.table = &wanted}, schema->tables, schema->count,
                       sizeof *schema->tables, compare_ids);
    if (!*ret)
        return err_set(err, ENOENT, "table %s is gone", table->name ? table->name : "");
    return 0;
}

int tables_roll(struct store *store, struct err *err)
{
    int code = conn_run(store->writer, STATEMENT_ROLL_TABLES, err);

    if (code == 0)
        code = conn_run(store->writer, STATEMENT_ROLL_META, err);
    if (code == 0)
        store->unrolled = 0;
    return code;
}
