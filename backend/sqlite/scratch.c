/* SPDX-License-Identifier: MIT */
/* Files, links and directories that are no items: rows of `scratch`, unique by their place. */
#include <errno.h>
#include <inttypes.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

#define SCRATCH_MAX 1000000000u /* SQLite's limit for a row */

enum {
    COLUMN_ID,
    COLUMN_TABLE,
    COLUMN_PARTITION,
    COLUMN_PARENT,
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_MODE,
    COLUMN_UID,
    COLUMN_GID,
    COLUMN_MTIME,
    COLUMN_CTIME,
    COLUMN_TTL,
    COLUMN_SIZE
};

static int from_row(sqlite3_stmt *row, enum value_type type, struct buf *number,
                    struct scratch *scratch)
{
    *scratch = (struct scratch){
        .id = (uint64_t)sqlite3_column_int64(row, COLUMN_ID),
        .version = (uint64_t)sqlite3_column_int64(row, COLUMN_CTIME), /* set with each change */
        .table_id = (uint64_t)sqlite3_column_int64(row, COLUMN_TABLE),
        .parent = (uint64_t)sqlite3_column_int64(row, COLUMN_PARENT),
        .kind = (enum scratch_kind)sqlite3_column_int(row, COLUMN_KIND),
        .mode = (uint32_t)sqlite3_column_int64(row, COLUMN_MODE),
        .uid = (uint32_t)sqlite3_column_int64(row, COLUMN_UID),
        .gid = (uint32_t)sqlite3_column_int64(row, COLUMN_GID),
        .mtime_ns = sqlite3_column_int64(row, COLUMN_MTIME),
        .ctime_ns = sqlite3_column_int64(row, COLUMN_CTIME),
        .ttl = sqlite3_column_int64(row, COLUMN_TTL),
        .size = (uint64_t)sqlite3_column_int64(row, COLUMN_SIZE),
    };
    int code = column_part(row, COLUMN_PARTITION, type, number, &scratch->partition);
    return code ? code : column_span(row, COLUMN_NAME, &scratch->name);
}

/* When a row changes, by the clock, but after all its versions so far: times order them, and the
 * entries of the log that tell of them, also where the clock was set back. */
static int64_t change_time(const struct scratch *old, int64_t now_ns)
{
    return now_ns > old->ctime_ns ? now_ns : old->ctime_ns + 1;
}

/* The row with that id, as long as STATEMENT is not reset; its table. -ENOENT. */
static int scratch_get(struct store *store, uint64_t id, sqlite3_stmt **ret_statement,
                       const struct known_table **ret_known, struct buf *number,
                       struct scratch *ret_scratch, struct err *err)
{
    sqlite3_stmt *row;
    int code = conn_statement(store->writer, STATEMENT_SCRATCH_GET, &row, err);

    if (code)
        return code;
    *ret_statement = row;
    sqlite3_bind_int64(row, 1, (int64_t)id);
    code = conn_step(store->writer, row, err);
    if (code == 0)
        return err_set(err, ENOENT, "scratch file %" PRIu64 " is gone", id);
    if (code < 0)
        return code;
    struct table table = {.id = (uint64_t)sqlite3_column_int64(row, COLUMN_TABLE)};
    code = schema_table(store, &table, ret_known, err);
    if (code == 0)
        code = from_row(row, (*ret_known)->table->partition.type, number, ret_scratch);
    return code ? err_set(err, -code, "scratch file %" PRIu64 " cannot be read", id) : 0;
}

/* The row that ACTION is about, as its condition wants it. -ESTALE. */
static int scratch_meet(struct store *store, const struct action *action,
                        sqlite3_stmt **ret_statement, const struct known_table **ret_known,
                        struct buf *number, struct scratch *ret_scratch, struct err *err)
{
    bool conditional = action->condition.kind == COND_VERSION;
    int code = scratch_get(store, action->scratch.id, ret_statement, ret_known, number, ret_scratch,
                           conditional ? NULL : err);

    if (conditional && code == -ENOENT)
        return err_set(err, ESTALE, "the file was removed meanwhile");
    if (conditional && code == 0 && ret_scratch->version != action->condition.version)
        return err_set(err, ESTALE, "%s/%.*s: was changed meanwhile", (*ret_known)->table->name,
                       (int)ret_scratch->name.len, ret_scratch->name.data);
    return code;
}

/* The directory that a scratch file goes into, where that is a scratch directory. */
static int check_parent(struct store *store, const struct table *table,
                        const struct scratch *scratch, struct err *err)
{
    cleanup(buf_release) struct buf number = {0};
    scoped_statement *row = NULL;
    const struct known_table *known;
    struct scratch parent;

    if (scratch->parent == 0)
        return 0;
    buf_init(&number, 1024);
    int code = scratch_get(store, scratch->parent, &row, &known, &number, &parent, err);
    if (code)
        return code;
    if (parent.kind != SCRATCH_DIRECTORY)
        return err_set(err, ENOTDIR, "%.*s is no directory", (int)parent.name.len,
                       parent.name.data);
    if (parent.table_id != table->id || !span_equal(parent.partition, scratch->partition))
        return err_set(err, EINVAL, "%.*s is in another directory", (int)parent.name.len,
                       parent.name.data);
    return 0;
}

static int bind_place(sqlite3_stmt *statement, const struct table *table, struct span partition,
                      uint64_t parent, struct span name)
{
    sqlite3_bind_int64(statement, 1, (int64_t)table->id);
    sqlite3_bind_int64(statement, 3, (int64_t)parent);
    if (name.data)
        bind_text(statement, 4, name);
    return bind_part(statement, 2, table->partition.type, partition);
}

/* The place must be free, or SCRATCH's own. */
static int check_place(struct store *store, const struct table *table,
                       const struct scratch *scratch, struct err *err)
{
    scoped_statement *row = NULL;
    int code = conn_statement(store->writer, STATEMENT_SCRATCH_FIND, &row, err);

    if (code)
        return code;
    if (bind_place(row, table, scratch->partition, scratch->parent, scratch->name) < 0)
        return err_set(err, ENOMEM, "out of memory");
    code = conn_step(store->writer, row, err);
    if (code <= 0 || (uint64_t)sqlite3_column_int64(row, COLUMN_ID) == scratch->id)
        return code < 0 ? code : 0;
    return err_set(err, EEXIST, "%s: %.*s already exists", table->name, (int)scratch->name.len,
                   scratch->name.data);
}

/* A directory has changed: a scratch file came (INSERT), went, or was written there. */
static int announce(struct store *store, const struct table *table, const struct scratch *scratch,
                    enum change_type change, int64_t now_ns, struct err *err)
{
    struct log_entry entry = {.kind = LOG_SCRATCH,
                              .table_id = table->id,
                              .key.partition = scratch->partition,
                              .change = change,
                              .time_ns = now_ns,
                              .scratch_parent = scratch->parent,
                              .scratch_name = scratch->name};
    uint64_t sequence;
    sqlite3_stmt *statement;
    int code = log_append(store, table, &entry, &sequence, err);

    if (code || change == CHANGE_MODIFY)
        return code;
    if (scratch->parent == 0)
        return partition_count_scratch(store, table, scratch->partition,
                                       change == CHANGE_INSERT ? 1 : -1, now_ns, err);
    code = conn_statement(store->writer, STATEMENT_SCRATCH_MOVED, &statement, err);
    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)scratch->parent);
    sqlite3_bind_int64(statement, 2, now_ns);
    return conn_step(store->writer, statement, err);
}

static int bind_scratch(sqlite3_stmt *statement, const struct table *table,
                        const struct scratch *scratch, struct err *err)
{
    sqlite3_bind_int64(statement, 1, (int64_t)scratch->id);
    sqlite3_bind_int64(statement, 2, (int64_t)table->id);
    sqlite3_bind_int64(statement, 4, (int64_t)scratch->parent);
    bind_text(statement, 5, scratch->name);
    sqlite3_bind_int(statement, 6, (int)scratch->kind);
    sqlite3_bind_int64(statement, 7, scratch->mode);
    sqlite3_bind_int64(statement, 8, scratch->uid);
    sqlite3_bind_int64(statement, 9, scratch->gid);
    sqlite3_bind_int64(statement, 10, scratch->mtime_ns);
    sqlite3_bind_int64(statement, 11, scratch->ctime_ns);
    bind_time(statement, 12, scratch->ttl);
    if (bind_part(statement, 3, table->partition.type, scratch->partition) < 0)
        return err_set(err, ENOMEM, "out of memory");
    return 0;
}

static int scratch_insert(struct store *store, const struct table *table,
                          const struct scratch *scratch, struct span body, uint64_t *ret_id,
                          struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_SCRATCH_INSERT, &statement, err);

    if (code == 0)
        code = bind_scratch(statement, table, scratch, err);
    if (code)
        return code;
    sqlite3_bind_int64(statement, 13, (int64_t)body.len);
    bind_blob(statement, 14, body);
    code = conn_step(store->writer, statement, err);
    if (code)
        return code;
    *ret_id = (uint64_t)sqlite3_last_insert_rowid(store->writer->db);
    return announce(store, table, scratch, CHANGE_INSERT, scratch->ctime_ns, err);
}

/* What is in a directory moves with it. */
static int follow(struct store *store, const struct table *table, const struct scratch *scratch,
                  struct err *err)
{
    scoped_statement *within = NULL;
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_SCRATCH_WITHIN, &within, err);

    if (code)
        return code;
    sqlite3_bind_int64(within, 1, (int64_t)scratch->id);
    sqlite3_bind_int64(within, 2, (int64_t)scratch->parent);
    code = conn_step(store->writer, within, err);
    if (code > 0 || scratch->parent == scratch->id)
        return err_set(err, EINVAL, "a directory cannot move into itself");
    if (code == 0)
        code = conn_statement(store->writer, STATEMENT_SCRATCH_FOLLOW, &statement, err);
    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)scratch->id);
    sqlite3_bind_int64(statement, 2, (int64_t)table->id);
    if (bind_part(statement, 3, table->partition.type, scratch->partition) < 0)
        return err_set(err, ENOMEM, "out of memory");
    return conn_step(store->writer, statement, err);
}

static int update_body(struct store *store, uint64_t id, struct span body, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_SCRATCH_BODY, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)id);
    sqlite3_bind_int64(statement, 2, (int64_t)body.len);
    bind_blob(statement, 3, body);
    return conn_step(store->writer, statement, err);
}

/* Also the time of the change, in SCRATCH. */
static int scratch_update(struct store *store, const struct table *table,
                          const struct action *action, struct scratch *scratch, struct err *err)
{
    cleanup(buf_release) struct buf number = {0};
    scoped_statement *row = NULL;
    const struct known_table *known;
    struct scratch old;
    sqlite3_stmt *statement;

    buf_init(&number, 1024);
    int code = scratch_meet(store, action, &row, &known, &number, &old, err);
    if (code)
        return code;
    scratch->ctime_ns = change_time(&old, scratch->ctime_ns);
    bool moves = old.table_id != table->id || old.parent != scratch->parent ||
                 !span_equal(old.partition, scratch->partition) ||
                 !span_equal(old.name, scratch->name);
    if (moves && scratch->kind == SCRATCH_DIRECTORY)
        code = follow(store, table, scratch, err);
    if (code == 0)
        code = conn_statement(store->writer, STATEMENT_SCRATCH_UPDATE, &statement, err);
    if (code == 0)
        code = bind_scratch(statement, table, scratch, err);
    if (code == 0)
        code = conn_step(store->writer, statement, err);
    if (code == 0 && action->body.data)
        code = update_body(store, scratch->id, action->body, err);
    if (code == 0 && moves)
        code = announce(store, known->table, &old, CHANGE_REMOVE, scratch->ctime_ns, err);
    return code ? code
                : announce(store, table, scratch, moves ? CHANGE_INSERT : CHANGE_MODIFY,
                           scratch->ctime_ns, err);
}

int scratch_put(struct store *store, struct action *action, int64_t now_ns, struct err *err)
{
    struct scratch scratch = action->scratch;
    const struct known_table *known;
    int code = schema_table(store, action->table, &known, err);

    if (code)
        return code;
    if (action->body.len > SCRATCH_MAX)
        return err_set(err, EFBIG, "%s: %.*s: over %u bytes", known->table->name,
                       (int)scratch.name.len, scratch.name.data, SCRATCH_MAX);
    scratch.ctime_ns = now_ns;
    if (scratch.mtime_ns == 0)
        scratch.mtime_ns = now_ns;
    code = check_parent(store, known->table, &scratch, err);
    if (code == 0)
        code = check_place(store, known->table, &scratch, err);
    if (code)
        return code;
    action->made_id = scratch.id;
    if (scratch.id)
        code = scratch_update(store, known->table, action, &scratch, err);
    else
        code = scratch_insert(store, known->table, &scratch, action->body, &action->made_id, err);
    action->meta.version = (uint64_t)scratch.ctime_ns;
    action->meta.mtime_ns = scratch.mtime_ns;
    action->meta.ctime_ns = scratch.ctime_ns;
    return code;
}

static int check_childless(struct store *store, uint64_t id, struct span name, struct err *err)
{
    scoped_statement *row = NULL;
    int code = conn_statement(store->writer, STATEMENT_SCRATCH_CHILD, &row, err);

    if (code)
        return code;
    sqlite3_bind_int64(row, 1, (int64_t)id);
    code = conn_step(store->writer, row, err);
    if (code > 0)
        return err_set(err, ENOTEMPTY, "%.*s is not empty", (int)name.len, name.data);
    return code;
}

int scratch_delete(struct store *store, struct action *action, int64_t now_ns, struct err *err)
{
    cleanup(buf_release) struct buf number = {0};
    scoped_statement *row = NULL;
    const struct known_table *known;
    struct scratch old;
    sqlite3_stmt *statement;

    buf_init(&number, 1024);
    int code = scratch_meet(store, action, &row, &known, &number, &old, err);
    if (code == 0)
        code = check_childless(store, old.id, old.name, err);
    if (code == 0)
        code = conn_statement(store->writer, STATEMENT_SCRATCH_DELETE, &statement, err);
    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)old.id);
    code = conn_step(store->writer, statement, err);
    return code
               ? code
               : announce(store, known->table, &old, CHANGE_REMOVE, change_time(&old, now_ns), err);
}

/* The rows of a prepared listing; 1 when there was none. */
static int each_scratch(struct conn *reader, sqlite3_stmt *rows, const struct table *table,
                        scratch_fn each, void *context, struct err *err)
{
    cleanup(buf_release) struct buf number = {0};
    struct scratch scratch;
    int code;

    buf_init(&number, 1024);
    while ((code = conn_step(reader, rows, err)) > 0) {
        code = from_row(rows, table->partition.type, &number, &scratch);
        if (code)
            return err_set(err, -code, "table %s: a scratch file cannot be read", table->name);
        code = each(context, &scratch);
        if (code)
            return code;
    }
    return code;
}

int store_scratch_list(struct backend *backend, const struct table *table, struct span partition,
                       uint64_t parent, scratch_fn each, void *context, struct err *err)
{
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_SCRATCH_LIST, &rows, err);
    if (code)
        return code;
    if (bind_place(rows, table, partition, parent, span_of(NULL, 0)) < 0)
        return err_set(err, ENOMEM, "out of memory");
    return each_scratch(reader, rows, table, each, context, err);
}

struct once {
    scratch_fn each;
    void *context;
    bool found;
};

static int each_once(void *context, const struct scratch *scratch)
{
    struct once *once = context;

    once->found = true;
    return once->each(once->context, scratch);
}

int store_scratch_find(struct backend *backend, const struct table *table, struct span partition,
                       uint64_t parent, struct span name, scratch_fn each, void *context,
                       struct err *err)
{
    struct once once = {each, context, false};
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_SCRATCH_FIND, &rows, err);
    if (code)
        return code;
    if (bind_place(rows, table, partition, parent, name) < 0)
        return err_set(err, ENOMEM, "out of memory");
    code = each_scratch(reader, rows, table, each_once, &once, err);
    if (code == 0 && !once.found)
        return err_set(err, ENOENT, "table %s has no such file", table->name);
    return code;
}
