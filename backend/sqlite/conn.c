/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

#define BUSY_FIRST_NS 50000
#define BUSY_LONGEST_NS 2000000

static int errno_of_system(sqlite3 *db, int otherwise)
{
    switch (sqlite3_system_errno(db)) {
    case ENOSPC:
    case EDQUOT: return ENOSPC;
    case EROFS: return EROFS;
    case EACCES:
    case EPERM: return EACCES;
    case EISDIR: return EISDIR;
    case ENOENT: return ENOENT;
    case EMFILE:
    case ENFILE: return EMFILE;
    case ENOMEM: return ENOMEM;
    default: return otherwise;
    }
}

static int errno_of(const struct conn *conn, int rc)
{
    sqlite3 *db = conn->db;

    switch (rc & 0xff) {
    case SQLITE_FULL: return ENOSPC;
    case SQLITE_READONLY: return conn->store->read_only ? EACCES : EROFS;
    case SQLITE_PERM:
    case SQLITE_AUTH: return EACCES;
    case SQLITE_CANTOPEN: return errno_of_system(db, EACCES);
    case SQLITE_IOERR: return (rc == SQLITE_IOERR_NOMEM) ? ENOMEM : errno_of_system(db, EIO);
    case SQLITE_NOMEM: return ENOMEM;
    case SQLITE_TOOBIG: return EFBIG;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* every statement is known to fit the schema: the schema does not */
    case SQLITE_SCHEMA: return EUCLEAN;
    default: return EIO;
    }
}

static const char *reason_of(const struct conn *conn, int code)
{
    if (code == EUCLEAN)
        return "the file is damaged";
    if (code == EACCES && conn->store->read_only)
        return "no rights, also to make -wal and -shm beside it, which readers need";
    return sqlite3_errmsg(conn->db);
}

int conn_fail(struct conn *conn, int rc, struct err *err, const char *what)
{
    int code = errno_of(conn, rc);
    return err_set(err, code, "%s: %s: %s", conn->store->path, what, reason_of(conn, code));
}

/* Waits longer from try to try, 50 us to 2 ms. */
static int busy(void *context, int tries)
{
    const struct conn *conn = context;
    long wait = tries < 6 ? BUSY_FIRST_NS << tries : BUSY_LONGEST_NS;

    if (conn->busy_tries && tries >= conn->busy_tries)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = wait < BUSY_LONGEST_NS ? wait : BUSY_LONGEST_NS}, NULL);
    return 1;
}

/* Some ways to be busy never reach the handler: a first opener setting the mode, a last closer. */
static bool is_busy(int rc)
{
    return (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_PROTOCOL;
}

int conn_exec(struct conn *conn, const char *sql, struct err *err)
{
    int rc;

    for (int tries = 0; is_busy(rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL)); tries++)
        busy(conn, tries);
    return rc == SQLITE_OK ? 0 : conn_fail(conn, rc, err, "preparing the store");
}

static int conn_configure(struct conn *conn, int flags, struct err *err)
{
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_extended_result_codes(conn->db, 1);
    sqlite3_busy_handler(conn->db, busy, conn);
    sqlite3_wal_autocheckpoint(conn->db, 0);
    if (flags & SQLITE_OPEN_READONLY)
        return conn_exec(conn, "PRAGMA cache_size = -1024; PRAGMA mmap_size = 0", err);
    return conn_exec(conn,
                     "PRAGMA cache_size = -4096; PRAGMA mmap_size = 0; PRAGMA synchronous = NORMAL;"
                     "PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY",
                     err);
}

int conn_open(struct store *store, int flags, struct conn **ret_conn, struct err *err)
{
    struct conn *conn = calloc(1, sizeof *conn);

    if (!conn)
        return err_set(err, ENOMEM, "%s: out of memory", store->path);
    conn->store = store;
    flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (store->uri ? SQLITE_OPEN_URI : 0);
    int rc = sqlite3_open_v2(store->uri ? store->uri : store->path, &conn->db, flags, NULL);
    int code =
        rc == SQLITE_OK ? conn_configure(conn, flags, err) : conn_fail(conn, rc, err, "opening");
    if (code) {
        conn_abandon(conn);
        return code;
    }
    *ret_conn = conn;
    return 0;
}

/* An empty log may go with the closing; one with something in it stays as it is. */
void conn_abandon(struct conn *conn)
{
    const char *name = conn->db ? sqlite3_db_filename(conn->db, "main") : NULL;
    struct stat log;

    if (name && *name && stat(sqlite3_filename_wal(name), &log) == 0 && log.st_size == 0)
        sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    conn_close(conn);
}

void conn_close(struct conn *conn)
{
    if (!conn)
        return;
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(conn->statements[i]);
    sqlite3_close(conn->db);
    free(conn);
}

int conn_statement(struct conn *conn, enum statement id, sqlite3_stmt **ret_statement,
                   struct err *err)
{
    if (!conn->statements[id]) {
        int rc;
        for (int tries = 0; is_busy(rc = sqlite3_prepare_v3(conn->db, statement_sql[id], -1,
                                                            SQLITE_PREPARE_PERSISTENT,
                                                            &conn->statements[id], NULL));
             tries++)
            busy(conn, tries);
        if (rc != SQLITE_OK)
            return conn_fail(conn, rc, err, "preparing a statement");
    }
    *ret_statement = conn->statements[id];
    return 0;
}

int conn_step(struct conn *conn, sqlite3_stmt *statement, struct err *err)
{
    int rc;

    for (int tries = 0; is_busy(rc = sqlite3_step(statement)); tries++) {
        sqlite3_reset(statement);
        busy(conn, tries);
    }
    if (rc == SQLITE_ROW)
        return 1;
    bool reads =
        sqlite3_stmt_readonly(statement) && rc != SQLITE_FULL; /* COMMIT counts as reading */
    int code = rc == SQLITE_DONE ? 0 : conn_fail(conn, rc, err, reads ? "reading" : "writing");
    sqlite3_reset(statement);
    return code;
}

int conn_run(struct conn *conn, enum statement id, struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(conn, id, &statement, err);

    return code ? code : conn_step(conn, statement, err);
}

int conn_number(struct conn *conn, enum statement id, int64_t *ret_value, struct err *err)
{
    scoped_statement *statement = NULL;
    int code = conn_statement(conn, id, &statement, err);

    if (code == 0)
        code = conn_step(conn, statement, err);
    if (code == 0)
        return err_set(err, EUCLEAN, "%s: a row of the store is missing", conn->store->path);
    if (code < 0)
        return code;
    *ret_value = sqlite3_column_int64(statement, 0);
    return 0;
}

int conn_meta_get(struct conn *conn, const char *name, int64_t *ret_value, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int code = conn_statement(conn, STATEMENT_META_GET, &statement, err);

    if (code)
        return code;
    bind_text(statement, 1, span_text(name));
    return conn_number(conn, STATEMENT_META_GET, ret_value, err);
}

int conn_meta_set(struct conn *conn, const char *name, int64_t value, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int code = conn_statement(conn, STATEMENT_META_SET, &statement, err);

    if (code)
        return code;
    bind_text(statement, 1, span_text(name));
    sqlite3_bind_int64(statement, 2, value);
    return conn_step(conn, statement, err);
}

int reader_take(struct store *store, struct conn **ret_conn, struct err *err)
{
    pthread_mutex_lock(&store->readers_lock);
    while (!store->idle && store->reader_count == STORE_READERS_MAX)
        pthread_cond_wait(&store->readers_free, &store->readers_lock);
    struct conn *conn = store->idle;
    if (conn)
        store->idle = conn->next;
    else
        store->reader_count++;
    pthread_mutex_unlock(&store->readers_lock);
    if (conn) {
        *ret_conn = conn;
        return 0;
    }
    int code = store_check_file(store, err);
    if (code == 0)
        code = conn_open(store, SQLITE_OPEN_READONLY, ret_conn, err);
    if (code) {
        scoped_lock(&store->readers_lock);
        store->reader_count--;
        pthread_cond_signal(&store->readers_free);
    }
    return code;
}

void reader_give(struct conn *conn)
{
    struct store *store = conn->store;

    scoped_lock(&store->readers_lock);
    conn->next = store->idle;
    store->idle = conn;
    pthread_cond_signal(&store->readers_free);
}
