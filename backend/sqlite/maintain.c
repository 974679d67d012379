/* SPDX-License-Identifier: MIT */
/*
 * Work in the background, in small transactions so that saves hardly wait: expired items are
 * deleted, old entries of the change log removed, the log of SQLite checkpointed.
 *
 * The change log is trimmed at two places. Entries without bodies go after SHORT_NS: `trimmed_seq`
 * says up to where that was done. Those of a stream go after LONG_NS, from the beginning.
 */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define SWEEP_BATCH 500
#define TRIM_BATCH 1000
#define BATCHES_MAX 20 /* in one call */
#define SHORT_NS (600 * NS_PER_S)
#define LONG_NS (86400 * NS_PER_S)
#define SLEEP_ACTIVE_NS NS_PER_S
#define SLEEP_IDLE_NS (60 * NS_PER_S)

struct sweep_job {
    struct job job; /* first */
    unsigned swept;
};

/* What expired up to this second is swept: of tables whose items are there to the end of their last
 * second (table->ttl_whole), which nobody tells the store, nothing goes too early. */
static int64_t swept_s(int64_t now_ns)
{
    return now_ns / NS_PER_S - 1;
}

/* Deletes the item that expired first: 1; 0 when there is none. */
static int sweep_one(struct store *store, int64_t now_ns, struct err *err)
{
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    scoped_statement *row = NULL;
    const struct known_table *known;
    struct key key;

    buf_init(&partition, 1024);
    buf_init(&sort, 1024);
    int code = conn_statement(store->writer, STATEMENT_EXPIRED_NEXT, &row, err);
    if (code)
        return code;
    sqlite3_bind_int64(row, 1, swept_s(now_ns));
    code = conn_step(store->writer, row, err);
    if (code <= 0)
        return code;
    struct table table = {.id = (uint64_t)sqlite3_column_int64(row, 0)};
    code = schema_table(store, &table, &known, err);
    if (code)
        return code;
    code = column_part(row, 1, known->table->partition.type, &partition, &key.partition);
    if (code == 0)
        code = column_part(row, 2, known->table->sort.type, &sort, &key.sort);
    if (code)
        return err_set(err, -code, "table %s: an item cannot be read", known->table->name);
    code = item_expire(store, known, key, now_ns, err);
    return code ? code : 1;
}

static int apply_sweep(struct store *store, struct job *job, struct err *err)
{
    struct sweep_job *sweep = (struct sweep_job *)job;
    int64_t now_ns = clock_now_ns();
    int code = 1;

    for (sweep->swept = 0; code > 0 && sweep->swept<SWEEP_BATCH; sweep->swept += code> 0)
        code = sweep_one(store, now_ns, err);
    return code < 0 ? code : 0;
}

/* *ret_first: when the next item expires, epoch seconds, 0 where none does. */
static int sweep(struct store *store, int64_t *ret_first, struct err *err)
{
    int code = conn_number(store->keeper, STATEMENT_EXPIRY_FIRST, ret_first, err);

    for (int i = 0; i < BATCHES_MAX; i++) {
        struct sweep_job work = {.job.apply = apply_sweep};
        if (code || !item_expired(*ret_first, swept_s(clock_now_ns())))
            break;
        code = store_commit(store, &work.job, err);
        if (code == 0)
            code = conn_number(store->keeper, STATEMENT_EXPIRY_FIRST, ret_first, err);
    }
    return code;
}

struct trim_job {
    struct job job; /* first */
    int64_t short_ns, long_ns;
};

/* The last entry of the next TRIM_BATCH that is older than TIME; 0: none is. ID: which are next. */
static int trim_end(struct conn *conn, enum statement id, int64_t time_ns, int64_t *ret_end,
                    struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(conn, id, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, time_ns);
    sqlite3_bind_int64(statement, 2, TRIM_BATCH);
    return conn_number(conn, id, ret_end, err);
}

static int run_trim(struct store *store, enum statement id, int64_t time_ns, int64_t number,
                    struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, id, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, time_ns);
    sqlite3_bind_int64(statement, 2, number);
    return conn_step(store->writer, statement, err);
}

/* Whoever reads a stream from a place before `dropped_seq` is told that he has missed something. */
static int trim_long(struct store *store, int64_t time_ns, struct err *err)
{
    int64_t end;
    int code = trim_end(store->writer, STATEMENT_TRIM_LONG_END, time_ns, &end, err);

    if (code || end == 0)
        return code;
    code = run_trim(store, STATEMENT_TRIM_LONG, time_ns, end, err);
    return code ? code : conn_meta_set(store->writer, "dropped_seq", end, err);
}

static int apply_trim(struct store *store, struct job *job, struct err *err)
{
    const struct trim_job *trim = (const struct trim_job *)job;
    int64_t end = 0;
    int code = tables_roll(store, err); /* it reads what goes away here */

    if (code == 0)
        code = trim_long(store, trim->long_ns, err);
    if (code == 0)
        code = trim_end(store->writer, STATEMENT_TRIM_END, trim->short_ns, &end, err);
    if (code || end == 0)
        return code;
    code = run_trim(store, STATEMENT_TRIM_SHORT, trim->short_ns, end, err);
    return code ? code : conn_meta_set(store->writer, "trimmed_seq", end, err);
}

static int is_trim_due(struct store *store, const struct trim_job *work, bool *ret_due,
                       struct err *err)
{
    int64_t end, first;
    int code = trim_end(store->keeper, STATEMENT_TRIM_END, work->short_ns, &end, err);

    if (code == 0)
        code = conn_number(store->keeper, STATEMENT_LOG_FIRST, &first, err);
    if (code == 0)
        *ret_due = end > 0 || (first > 0 && first < work->long_ns);
    return code;
}

/* *ret_more: there is more to do at once. */
static int trim(struct store *store, bool *ret_more, struct err *err)
{
    int64_t now_ns = clock_now_ns();
    int code = 0;

    *ret_more = true;
    for (int i = 0; i < BATCHES_MAX && code == 0 && *ret_more; i++) {
        struct trim_job work = {
            .job.apply = apply_trim, .short_ns = now_ns - SHORT_NS, .long_ns = now_ns - LONG_NS};
        code = is_trim_due(store, &work, ret_more, err);
        if (code == 0 && *ret_more)
            code = store_commit(store, &work.job, err);
    }
    return code;
}

static int64_t sleep_time(struct store *store, int64_t first_expiry, bool more)
{
    uint64_t written = store->written;
    int64_t sleep = written == store->kept_written ? SLEEP_IDLE_NS : SLEEP_ACTIVE_NS;
    int64_t now_ns = clock_now_ns();

    store->kept_written = written;
    if (more)
        return 0;
    if (first_expiry > 0 && first_expiry < now_ns / NS_PER_S + 3600) {
        int64_t until = (first_expiry - swept_s(0)) * NS_PER_S - now_ns;
        sleep = until < sleep ? until : sleep;
    }
    return sleep > 0 ? sleep : 0;
}

/* The type that the row's table has for its keys is not in the row: ALL says it. */
static const struct table *table_with(const struct known_table *all, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].table->id == id)
            return all[i].table;
    return NULL;
}

static int give_expired(struct conn *reader, sqlite3_stmt *rows, const struct known_table *all,
                        size_t count, expired_fn each, void *context, struct err *err)
{
    cleanup(log_parts_release) struct log_parts parts;
    int code;

    log_parts_init(&parts);
    while ((code = conn_step(reader, rows, err)) > 0) {
        const struct table *table = table_with(all, count, (uint64_t)sqlite3_column_int64(rows, 0));
        struct key key;
        if (!table) /* dropped this moment */
            continue;
        code = column_part(rows, 1, table->partition.type, &parts.partition, &key.partition);
        if (code == 0)
            code = column_part(rows, 2, table->sort.type, &parts.sort, &key.sort);
        if (code)
            return err_set(err, -code, "table %s: an item cannot be read", table->name);
        code = each(context, table, key);
        if (code)
            return code;
    }
    return code;
}

int store_expired(struct backend *backend, size_t limit, expired_fn each, void *context,
                  struct err *err)
{
    scoped_reader *reader = NULL;
    scoped_statement *rows = NULL;
    struct known_table *all = NULL;
    size_t count = 0;
    int code = reader_take(store_of(backend), &reader, err);

    if (code == 0)
        code = conn_statement(reader, STATEMENT_EXPIRED, &rows, err);
    if (code == 0)
        code = tables_load(reader, span_of(NULL, 0), &all, &count, err);
    if (code)
        return code;
    sqlite3_bind_int64(rows, 1, clock_now_s());
    sqlite3_bind_int64(rows, 2, limit ? (int64_t)limit : -1);
    code = give_expired(reader, rows, all, count, each, context, err);
    tables_free(all, count);
    return code;
}

int store_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err)
{
    struct store *store = store_of(backend);
    int64_t first = 0;
    bool more = false;

    if (store->read_only) {
        *ret_next_ns = SLEEP_IDLE_NS;
        return 0;
    }
    scoped_lock(&store->keeper_lock);
    int code = store->leave_expired ? 0 : sweep(store, &first, err);
    if (code == 0)
        code = trim(store, &more, err);
    if (code == 0)
        code = checkpoint_keep(store, err);
    if (code == 0)
        *ret_next_ns = sleep_time(store, first, more);
    return code;
}

int store_statfs(struct backend *backend, struct statvfs *ret_stat, struct err *err)
{
    const struct store *store = store_of(backend);

    if (statvfs(store->path, ret_stat) < 0)
        return err_set(err, errno, "%s: %s", store->path, strerror(errno));
    return 0;
}
