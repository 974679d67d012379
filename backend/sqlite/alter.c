/* SPDX-License-Identifier: MIT */
/* Making, dropping and changing tables. */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

struct table_job {
    struct job job; /* first */
    const struct table *table;
    bool force;
};

static void bind_string(sqlite3_stmt *statement, int at, const char *text)
{
    if (text)
        bind_text(statement, at, span_text(text));
    else
        sqlite3_bind_null(statement, at);
}

static void bind_attribute(sqlite3_stmt *statement, int at, const struct key_attribute *attribute)
{
    bind_string(statement, at, attribute->name);
    bind_string(statement, at + 1, attribute->name ? value_type_name(attribute->type) : NULL);
}

static const char *keys_text(const struct table *table)
{
    return table->keys == KEYS_TAGS ? "tags" : "plain";
}

/* Every writer and reader is to look at the tables again. */
static int schema_moved(struct store *store, uint64_t table_id, int64_t now_ns, struct err *err)
{
    struct log_entry entry = {.kind = LOG_SCHEMA, .table_id = table_id, .time_ns = now_ns};
    uint64_t sequence;
    int code = conn_run(store->writer, STATEMENT_SCHEMA_MOVED, err);

    store->schema.stale = store->schema.changed = true;
    return code ? code : log_append(store, NULL, &entry, &sequence, err);
}

/* Runs a statement whose one argument is the table's id. */
static int run_on(struct store *store, enum statement id, uint64_t table_id, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, id, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)table_id);
    return conn_step(store->writer, statement, err);
}

static int insert_indexes(struct store *store, const struct table *table, uint64_t id,
                          struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_INDEX_INSERT, &statement, err);

    for (size_t i = 0; i < table->index_count && code == 0; i++) {
        const struct index *index = &table->indexes[i];
        sqlite3_bind_int64(statement, 1, (int64_t)id);
        bind_string(statement, 2, index->name);
        bind_attribute(statement, 3, &index->partition);
        bind_attribute(statement, 5, &index->sort);
        code = conn_step(store->writer, statement, err);
    }
    return code;
}

static int check_free_name(struct store *store, const struct table *table, uint64_t own_id,
                           struct err *err)
{
    const struct known_table *known;

    int code = schema_table(store, &(struct table){.id = own_id}, &known, NULL);
    if (code && code != -ENOENT)
        return err_set(err, -code, "the tables cannot be read");
    for (size_t i = 0; i < store->schema.count; i++) {
        const struct table *other = store->schema.tables[i].table;
        if (other->id != own_id && strcmp(other->name, table->name) == 0)
            return err_set(err, EEXIST, "table %s already exists", table->name);
    }
    return 0;
}

static int apply_create(struct store *store, struct job *job, struct err *err)
{
    const struct table *table = ((struct table_job *)job)->table;
    int64_t now_ns = clock_now_ns();
    sqlite3_stmt *statement;
    int code = check_free_name(store, table, 0, err);

    if (code == 0)
        code = conn_statement(store->writer, STATEMENT_TABLE_INSERT, &statement, err);
    if (code)
        return code;
    bind_string(statement, 1, table->name);
    bind_attribute(statement, 2, &table->partition);
    bind_attribute(statement, 4, &table->sort);
    bind_string(statement, 6, table->ttl_attribute);
    bind_string(statement, 7, keys_text(table));
    sqlite3_bind_int(statement, 8, table->stream);
    sqlite3_bind_int64(statement, 9, now_ns);
    code = conn_step(store->writer, statement, err);
    uint64_t id = (uint64_t)sqlite3_last_insert_rowid(store->writer->db);
    if (code == 0)
        code = insert_indexes(store, table, id, err);
    return code ? code : schema_moved(store, id, now_ns, err);
}

static int check_empty(struct store *store, const struct table *table, struct err *err)
{
    scoped_statement *items = NULL;
    int code = conn_statement(store->writer, STATEMENT_TABLE_HAS_ITEM, &items, err);

    if (code)
        return code;
    sqlite3_bind_int64(items, 1, (int64_t)table->id);
    sqlite3_bind_int64(items, 2, table_passed_s(table, clock_now_s()));
    code = conn_step(store->writer, items, err);
    if (code > 0)
        return err_set(err, ENOTEMPTY, "table %s has items", table->name);
    if (code == 0)
        code = run_on(store, STATEMENT_TABLE_HAS_SCRATCH, table->id, err);
    if (code > 0) {
        sqlite3_reset(store->writer->statements[STATEMENT_TABLE_HAS_SCRATCH]);
        return err_set(err, ENOTEMPTY, "table %s has files that are no items", table->name);
    }
    return code;
}

static int apply_drop(struct store *store, struct job *job, struct err *err)
{
    static const enum statement steps[] = {
        STATEMENT_TABLE_DROP_ITEMS,      STATEMENT_TABLE_DROP_ENTRIES, STATEMENT_TABLE_DROP_INDEXES,
        STATEMENT_TABLE_DROP_PARTITIONS, STATEMENT_TABLE_DROP_SCRATCH, STATEMENT_TABLE_DELETE,
    };
    const struct table_job *drop = (const struct table_job *)job;
    const struct known_table *known;
    int code = schema_table(store, drop->table, &known, err);

    if (code == 0 && !drop->force)
        code = check_empty(store, drop->table, err);
    if (code == 0)
        code = tables_roll(store, err);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && code == 0; i++)
        code = run_on(store, steps[i], drop->table->id, err);
    return code ? code : schema_moved(store, drop->table->id, clock_now_ns(), err);
}

struct expiries {
    const struct store *store;
    const struct table *table;
    int64_t now_s;
};

/* SQL function itemfs_expires(pk, sk, hidden_ttl, body): when an item of the table expires. */
static void sql_expires(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct expiries *expiries = sqlite3_user_data(context);
    const struct table *table = expiries->table;
    int64_t hidden = sqlite3_value_int64(values[2]);
    const char *data = sqlite3_value_blob(values[3]);
    struct span body = span_of(data ? data : "", (size_t)sqlite3_value_bytes(values[3]));
    struct item_facts facts;
    struct err err = {""};

    (void)count;
    /* The key matters only for what this does not ask: whether the body names it. */
    struct key key = {span_text("0"), table_sorted(table) ? span_text("0") : span_of(NULL, 0)};
    int64_t expires = 0;
    if (table->ttl_attribute) {
        int code = item_examine(table, key, body, &facts, NULL, &err);
        if (code == -ENOMEM) {
            sqlite3_result_error_nomem(context);
            return;
        }
        if (code == 0)
            expires = facts.is_object ? facts.ttl : hidden;
    }
    expires = store_ttl(expiries->store, expires, expiries->now_s);
    if (expires > 0)
        sqlite3_result_int64(context, expires);
    else
        sqlite3_result_null(context);
}

static int update_expiries(struct store *store, const struct table *table, struct err *err)
{
    sqlite3 *db = store->writer->db;
    struct expiries expiries = {store, table, clock_now_s()};
    int rc = sqlite3_create_function_v2(db, "itemfs_expires", 4, SQLITE_UTF8, &expiries,
                                        sql_expires, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return conn_fail(store->writer, rc, err, "preparing");
    int code = run_on(store, STATEMENT_TABLE_EXPIRES, table->id, err);
    /* The function's table goes away; the statement that uses it must not be found prepared. */
    sqlite3_finalize(store->writer->statements[STATEMENT_TABLE_EXPIRES]);
    store->writer->statements[STATEMENT_TABLE_EXPIRES] = NULL;
    return code;
}

/* Indexes may be over the TTL attribute, which bodies that are no objects carry beside them. */
static int rebuild_indexes(struct store *store, const struct known_table *known, struct err *err)
{
    const struct table *table = known->table;
    cleanup(buf_release) struct buf partition, sort;
    scoped_statement *items = NULL;

    buf_init(&partition, 1024);
    buf_init(&sort, 1024);
    int code = run_on(store, STATEMENT_TABLE_DROP_ENTRIES, table->id, err);
    if (code == 0)
        code = conn_statement(store->writer, STATEMENT_TABLE_ITEMS, &items, err);
    if (code)
        return code;
    sqlite3_bind_int64(items, 1, (int64_t)table->id);
    while ((code = conn_step(store->writer, items, err)) > 0) {
        struct key key;
        struct item_state item = {.ttl = sqlite3_column_int64(items, 2)};
        code = column_part(items, 0, table->partition.type, &partition, &key.partition);
        if (code == 0)
            code = column_part(items, 1, table->sort.type, &sort, &key.sort);
        if (code == 0)
            code = column_span(items, 3, &item.body);
        if (code)
            return err_set(err, -code, "table %s: an item cannot be read", table->name);
        code = entries_move(store, known, key, &(struct item_state){{NULL, 0}, 0}, &item, err);
        if (code)
            return code;
    }
    return code;
}

/* With tag keys an item is found under its tags sorted: each must have such a key already. */
static int check_tags(struct store *store, const struct table *table, struct err *err)
{
    cleanup(buf_release) struct buf sorted;
    scoped_statement *items = NULL;
    int code = conn_statement(store->writer, STATEMENT_TABLE_ITEMS, &items, err);

    buf_init(&sorted, KEY_PART_MAX);
    if (code)
        return code;
    sqlite3_bind_int64(items, 1, (int64_t)table->id);
    while ((code = conn_step(store->writer, items, err)) > 0) {
        struct span part;
        buf_clear(&sorted);
        code = column_part(items, 0, VALUE_S, &sorted, &part);
        if (code == 0)
            code = key_sort_tags(part, false, &sorted, err);
        if (code)
            return err_set(err, -code, "table %s: an item cannot be read", table->name);
        if (!span_equal(part, buf_span(&sorted)))
            return err_set(
                err, EINVAL,
                "table %s cannot have tag keys: the tags of \"%.*s\" are not sorted, and "
                "it could not be found any more; rename it to \"%.*s\" first",
                table->name, (int)part.len, part.data, (int)sorted.len, sorted.data);
    }
    return code;
}

static int update_table(struct store *store, const struct table *table, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_TABLE_UPDATE, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)table->id);
    bind_string(statement, 2, table->name);
    bind_string(statement, 3, table->ttl_attribute);
    bind_string(statement, 4, keys_text(table));
    sqlite3_bind_int(statement, 5, table->stream);
    return conn_step(store->writer, statement, err);
}

static int apply_alter(struct store *store, struct job *job, struct err *err)
{
    const struct table *table = ((struct table_job *)job)->table;
    const struct known_table *known;
    int code = schema_table(store, table, &known, err);

    if (code)
        return code;
    bool ttl_moves = !text_equal(known->table->ttl_attribute, table->ttl_attribute);
    code = check_free_name(store, table, table->id, err);
    if (code == 0 && table->keys == KEYS_TAGS && known->table->keys != KEYS_TAGS)
        code = check_tags(store, known->table, err);
    if (code == 0)
        code = update_table(store, table, err);
    if (code == 0)
        code = schema_moved(store, table->id, clock_now_ns(), err);
    if (code || !ttl_moves)
        return code;
    code = schema_table(store, table, &known, err); /* as it is now */
    if (code == 0)
        code = update_expiries(store, known->table, err);
    if (code == 0 && known->table->index_count)
        code = rebuild_indexes(store, known, err);
    return code;
}

static int apply_alter_indexes(struct store *store, struct job *job, struct err *err)
{
    const struct table *table = ((struct table_job *)job)->table;
    const struct known_table *known;
    int code = schema_table(store, table, &known, err);

    if (code == 0)
        code = run_on(store, STATEMENT_TABLE_DROP_ENTRIES, table->id, err);
    if (code == 0)
        code = run_on(store, STATEMENT_TABLE_DROP_INDEXES, table->id, err);
    if (code == 0)
        code = insert_indexes(store, table, table->id, err);
    if (code == 0)
        code = schema_moved(store, table->id, clock_now_ns(), err);
    if (code == 0)
        code = schema_table(store, table, &known, err); /* as it is now */
    return code ? code : rebuild_indexes(store, known, err);
}

static int commit_table(struct backend *backend, const struct table *table, bool force,
                        int (*apply)(struct store *, struct job *, struct err *), struct err *err)
{
    struct table_job work = {.job.apply = apply, .table = table, .force = force};
    return store_commit(store_of(backend), &work.job, err);
}

int store_create_table(struct backend *backend, const struct table *table, struct err *err)
{
    return commit_table(backend, table, false, apply_create, err);
}

int store_drop_table(struct backend *backend, const struct table *table, bool force,
                     struct err *err)
{
    return commit_table(backend, table, force, apply_drop, err);
}

int store_alter_table(struct backend *backend, const struct table *table, struct err *err)
{
    return commit_table(backend, table, false, apply_alter, err);
}

int store_alter_indexes(struct backend *backend, const struct table *table, struct err *err)
{
    return commit_table(backend, table, false, apply_alter_indexes, err);
}
