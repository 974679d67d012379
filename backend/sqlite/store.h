/* SPDX-License-Identifier: MIT */
/*
 * The embedded store from the inside.
 *
 * Connections. One writes; it belongs to whoever leads the current group (commit.c). A pool of
 * others reads, each call in one short transaction of its own. One is kept for polling and one for
 * maintenance, each under its lock.
 *
 * Lock order: keeper_lock, checkpoint_lock, queue_lock; the others stand alone. queue_lock,
 * readers_lock and sync_lock are never held across I/O.
 */
#ifndef BACKEND_SQLITE_STORE_H
#define BACKEND_SQLITE_STORE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "backend/sqlite/sqlite.h"
#include "backend/sqlite/statements.h"
#include "backend/stream.h"

#define STORE_APPLICATION_ID 0x6974656d /* "item" */
#define STORE_VERSION 2
#define STORE_PAGE 4096
#define STORE_READERS_MAX 16
#define STORE_WAL_MAX_PAGES (64 * 1024 * 1024 / STORE_PAGE)

struct store;

struct conn {
    struct store *store;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    int busy_tries; /* for how long a busy lock is waited for; 0: as long as it takes */
    struct conn *next;
};

/* A table as the writer knows it. */
struct known_table {
    struct table *table;
    int64_t index_ids[TABLE_INDEXES_MAX];
};

struct schema {
    struct known_table *tables; /* by id */
    size_t count;
    int64_t version;      /* meta "schema" */
    int64_t data_version; /* of the writer when it was last compared */
    bool stale;           /* to be loaded before use */
    bool changed;         /* by the transaction that is going on */
};

/* Work for the writer; see commit.c. */
struct job {
    int (*apply)(struct store *store, struct job *job, struct err *err);
    struct err *err;
    int result;
    bool done, lead;
    pthread_cond_t wake;
    struct job *next;
};

struct store {
    struct backend backend; /* first: a struct backend * is a struct store * */
    char *path;             /* as SQLite resolved it */
    dev_t device;           /* of the file, for the list of open stores */
    ino_t inode;
    bool read_only, leave_expired, show_expired;
    char *uri; /* on a read-only filesystem, where nobody can write; else NULL */
    char id[17];
    int64_t origin; /* marks this object's own entries in the change log */
    struct store *next_open;

    pthread_mutex_t readers_lock; /* guards idle and reader_count */
    pthread_cond_t readers_free;
    struct conn *idle;
    unsigned reader_count;

    pthread_mutex_t queue_lock; /* guards queue, queue_end, writing */
    struct job *queue, **queue_end;
    bool writing; /* a leader is at work; it alone uses the four below */
    struct conn *writer;
    struct schema schema;
    bool told;                  /* the batch that is being applied is WRITE_TOLD */
    unsigned unrolled;          /* change log entries since tables.changed was brought up to date */
    unsigned wal_tried;         /* WAL pages when bounding it was last tried in vain */
    _Atomic unsigned wal_pages; /* in the WAL at the last own commit */
    _Atomic unsigned wal_kept;  /* of these, seen by the last checkpoint of maintenance */

    pthread_mutex_t sync_lock; /* guards syncing, synced, sync_failure */
    pthread_cond_t sync_done;
    bool syncing;
    uint64_t synced;
    int sync_failure;         /* stays */
    _Atomic uint64_t written; /* commits made */
    int wal_fd;

    pthread_mutex_t poll_lock; /* guards poller, polled */
    struct conn *poller;
    int64_t polled;

    pthread_mutex_t checkpoint_lock; /* one checkpoint at a time within the process */
    pthread_mutex_t keeper_lock;     /* guards the rest */
    struct conn *keeper;
    uint64_t kept_written; /* `written` at the last call */
};

static inline struct store *store_of(struct backend *backend)
{
    return (struct store *)backend;
}

/* conn.c: connections and statements. */
/* -EIO where the path leads to another file than the one that is open: nothing that would be
 * written now could be found again. (open.c) */
int store_check_file(const struct store *store, struct err *err);

int conn_open(struct store *store, int flags, struct conn **ret_conn, struct err *err);
void conn_close(struct conn *conn);
/* The same, of a file that is refused: nothing is written to it. */
void conn_abandon(struct conn *conn);
/* The errno for a SQLite result, with a sentence: "WHAT: reason". The one place that maps them. */
int conn_fail(struct conn *conn, int rc, struct err *err, const char *what);
int conn_exec(struct conn *conn, const char *sql, struct err *err);
int conn_statement(struct conn *conn, enum statement id, sqlite3_stmt **ret_statement,
                   struct err *err);
/* One row: 1; the end: 0. The statement is reset at the end and on failure. */
int conn_step(struct conn *conn, sqlite3_stmt *statement, struct err *err);
/* Runs a statement that gives no row. */
int conn_run(struct conn *conn, enum statement id, struct err *err);
int conn_number(struct conn *conn, enum statement id, int64_t *ret_value, struct err *err);
int conn_meta_get(struct conn *conn, const char *name, int64_t *ret_value, struct err *err);
int conn_meta_set(struct conn *conn, const char *name, int64_t value, struct err *err);

static inline void statement_reset(sqlite3_stmt **statement)
{
    sqlite3_reset(*statement);
}
/* Resets the statement at the end of the block. */
#define scoped_statement cleanup(statement_reset) sqlite3_stmt

int reader_take(struct store *store, struct conn **ret_conn, struct err *err);
void reader_give(struct conn *conn);
static inline void reader_release(struct conn **conn)
{
    if (*conn)
        reader_give(*conn);
}
#define scoped_reader cleanup(reader_release) struct conn

/* column.c: keys and bytes in statements. What is bound must live until the reset. */
int bind_part(sqlite3_stmt *statement, int at, enum value_type type, struct span part);
/* pk and sk at AT and AT + 1. Both -ENOMEM. */
int bind_key(sqlite3_stmt *statement, int at, const struct table *table, struct key key);
void bind_text(sqlite3_stmt *statement, int at, struct span text);
void bind_blob(sqlite3_stmt *statement, int at, struct span data);
/* NULL for 0. */
void bind_time(sqlite3_stmt *statement, int at, int64_t value);
/* Bytes valid until the next step; of a number, in BUF. -ENOMEM, -EUCLEAN. */
int column_part(sqlite3_stmt *statement, int at, enum value_type type, struct buf *buf,
                struct span *ret_part);
int column_span(sqlite3_stmt *statement, int at, struct span *ret_span);
void column_meta(sqlite3_stmt *statement, int at, struct item_meta *ret_meta);

/* schema.c: the file's schema. */
int schema_prepare(struct conn *conn, bool read_only, const char *path, struct err *err);

/* probe.c: -EINVAL where the file is neither a store nor empty; reads only. */
int probe_file(const char *path, struct err *err);

/* tables.c */
/* The table called NAME, or all where that has no data. */
int tables_load(struct conn *conn, struct span name, struct known_table **ret_tables,
                size_t *ret_count, struct err *err);
void tables_free(struct known_table *tables, size_t count);
int store_tables(struct backend *backend, table_fn each, void *context, struct err *err);
int store_describe(struct backend *backend, struct span name, struct table **ret_table,
                   struct err *err);
/* For the writer: looks whether somebody else has changed the schema; at a transaction's start. */
int schema_refresh(struct store *store, struct err *err);
/* A transaction or a part of it is undone. */
void schema_undo(struct store *store);
/* The table with TABLE's id as it is now; valid until the schema changes. -ENOENT. */
int schema_table(struct store *store, const struct table *table, const struct known_table **ret,
                 struct err *err);
int tables_roll(struct store *store, struct err *err);

/* alter.c */
int store_create_table(struct backend *backend, const struct table *table, struct err *err);
int store_drop_table(struct backend *backend, const struct table *table, bool force,
                     struct err *err);
int store_alter_table(struct backend *backend, const struct table *table, struct err *err);
int store_alter_indexes(struct backend *backend, const struct table *table, struct err *err);

/* commit.c */
int store_commit(struct store *store, struct job *job, struct err *err);
int store_sync(struct backend *backend, struct err *err);

/* write.c: the actions of a batch. */
int store_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                struct err *err);

int store_update(struct backend *backend, const struct table *table, struct key key,
                 const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                 struct err *err);

/* item.c: an action on an item within the writer's transaction. */
struct prepared {
    struct item_facts facts;
    struct span body; /* fitted to the key */
    struct buf fitted;
};
int item_prepare(const struct table *table, const struct action *action, struct prepared *prepared,
                 struct err *err);
/* When an item expires that says so of itself. */
int64_t store_ttl(const struct store *store, int64_t ttl, int64_t now_s);
int item_put(struct store *store, struct action *action, struct prepared *prepared, int64_t now_ns,
             struct err *err);
int item_delete(struct store *store, struct action *action, int64_t now_ns, struct err *err);
int item_touch(struct store *store, struct action *action, int64_t now_ns, struct err *err);
/* A put of what the item becomes by UPDATE. ACTION has table and key, and gets the rest; BODY and
 * PREPARED must live as long. */
int item_change(struct store *store, struct action *action, const struct update *update,
                struct prepared *prepared, struct buf *body, struct buf *ret_number, int64_t now_ns,
                struct err *err);
/* Removes KEY if its time has come. */
int item_expire(struct store *store, const struct known_table *known, struct key key,
                int64_t now_ns, struct err *err);

/* entry.c: secondary indexes. Data NULL: no item. */
struct item_state {
    struct span body;
    int64_t ttl; /* beside the body */
};
int entries_move(struct store *store, const struct known_table *known, struct key key,
                 const struct item_state *old, const struct item_state *new, struct err *err);

/* partition.c */
int partition_count(struct store *store, const struct table *table, struct span partition,
                    int change, int64_t now_ns, struct err *err);
int partition_count_scratch(struct store *store, const struct table *table, struct span partition,
                            int change, int64_t now_ns, struct err *err);

/* log.c. own, sequence of ENTRY are ignored; TABLE may be NULL. */
int log_append(struct store *store, const struct table *table, const struct log_entry *entry,
               uint64_t *ret_sequence, struct err *err);
int store_poll(struct backend *backend, bool *ret_changed, struct err *err);
int store_log_position(struct backend *backend, uint64_t *ret_sequence, struct err *err);
int store_log(struct backend *backend, uint64_t after, size_t limit, log_fn each, void *context,
              struct err *err);
int store_change_id(struct backend *backend, uint64_t sequence, int64_t time_ns, char ret_id[33]);
/* Buffers for parts that are numbers. */
struct log_parts {
    struct buf partition, sort;
};
void log_parts_init(struct log_parts *parts);
void log_parts_release(struct log_parts *parts);
/* A row of STATEMENT_LOG or STATEMENT_STREAM; spans live until the next step. TABLE (may be NULL)
 * tells what its keys are where it was dropped. */
int log_entry_of_row(const struct store *store, sqlite3_stmt *row, const struct table *table,
                     struct log_parts *parts, struct log_entry *entry, struct err *err);

/* stream.c */
int store_stream_open(struct backend *backend, const struct table *table, const char *position,
                      struct stream **ret_stream, struct err *err);
int store_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                      struct err *err);
int store_stream_position(struct stream *stream, struct buf *out);
int store_stream_behind(struct stream *stream, uint64_t *ret_records, struct err *err);
void store_stream_close(struct stream *stream);
int store_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                     struct err *err);
int store_lease_write(struct backend *backend, struct span name, uint64_t count, struct span holder,
                      struct span position, struct err *err);

/* The second up to which a time to live of TABLE has passed for a read. */
int64_t store_passed_s(const struct store *store, const struct table *table);

/* read.c, query.c */
int store_get(struct backend *backend, const struct table *table, struct key key,
              struct item_meta *ret_meta, struct buf *body, struct err *err);
int store_walk(struct backend *backend, const struct table *table, const struct walk *walk,
               record_fn each, void *context, struct err *err);
int store_query(struct backend *backend, const struct table *table, const struct query *query,
                record_fn each, void *context, struct err *err);
int store_index_values(struct backend *backend, const struct table *table,
                       const struct index *index, value_fn each, void *context, struct err *err);
int store_partitions(struct backend *backend, const struct table *table, struct span after,
                     size_t limit, partition_fn each, void *context, struct err *err);
int store_partition(struct backend *backend, const struct table *table, struct span partition,
                    uint64_t *ret_items, int64_t *ret_changed_ns, struct err *err);

/* scratch.c, draft.c */
int scratch_put(struct store *store, struct action *action, int64_t now_ns, struct err *err);
int scratch_delete(struct store *store, struct action *action, int64_t now_ns, struct err *err);
int store_scratch_list(struct backend *backend, const struct table *table, struct span partition,
                       uint64_t parent, scratch_fn each, void *context, struct err *err);
int store_scratch_find(struct backend *backend, const struct table *table, struct span partition,
                       uint64_t parent, struct span name, scratch_fn each, void *context,
                       struct err *err);
int store_scratch_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err);
int draft_put(struct store *store, struct action *action, int64_t now_ns, struct err *err);
int draft_delete(struct store *store, struct action *action, int64_t now_ns, struct err *err);
int store_draft_list(struct backend *backend, struct span table, draft_fn each, void *context,
                     struct err *err);
int store_draft_read(struct backend *backend, uint64_t id, struct buf *body, struct err *err);

/* maintain.c, checkpoint.c */
int store_expired(struct backend *backend, size_t limit, expired_fn each, void *context,
                  struct err *err);
int store_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err);
int store_statfs(struct backend *backend, struct statvfs *ret_stat, struct err *err);
/* In the background, beside the writer. */
int checkpoint_keep(struct store *store, struct err *err);
/* By the writer between two transactions, when the WAL has grown too long. */
void checkpoint_bound(struct store *store);

#endif
