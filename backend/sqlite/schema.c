/* SPDX-License-Identifier: MIT */
/*
 * The file's schema: made in one transaction while the file is still in rollback mode, so that a
 * reader of its first page (probe.c) always finds the whole header there. docs/STORE.md explains
 * every column; a change here is a new STORE_VERSION.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

/* What format 2 has beside format 1. */
#define FORMAT_2                                                                                   \
    "CREATE TABLE lease("                                                                          \
    " name TEXT PRIMARY KEY, count INTEGER NOT NULL,"                                              \
    " holder TEXT NOT NULL, position TEXT NOT NULL) WITHOUT ROWID;"                                \
    "INSERT INTO meta VALUES('dropped_seq', 0);"                                                   \
    "PRAGMA user_version = 2;"

static const char schema_sql[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"

    "CREATE TABLE tables("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL UNIQUE,"
    " key_name TEXT NOT NULL, key_type TEXT NOT NULL,"
    " sort_name TEXT, sort_type TEXT,"
    " ttl TEXT,"
    " keys TEXT NOT NULL,"
    " stream INTEGER NOT NULL,"
    " created INTEGER NOT NULL, changed INTEGER NOT NULL);"

    "CREATE TABLE indexes("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " table_id INTEGER NOT NULL, name TEXT NOT NULL,"
    " key_name TEXT NOT NULL, key_type TEXT NOT NULL,"
    " sort_name TEXT, sort_type TEXT,"
    " UNIQUE(table_id, name));"

    "CREATE TABLE item("
    " table_id INTEGER NOT NULL, pk NOT NULL, sk NOT NULL,"
    " version INTEGER NOT NULL,"
    " size INTEGER NOT NULL,"
    " mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,"
    " expires INTEGER,"
    " changed INTEGER NOT NULL, change INTEGER NOT NULL,"
    " hidden_ttl INTEGER,"
    " body TEXT NOT NULL,"
    " PRIMARY KEY(table_id, pk, sk)) WITHOUT ROWID;"
    "CREATE INDEX item_expires ON item(expires) WHERE expires IS NOT NULL;"

    "CREATE TABLE partition("
    " table_id INTEGER NOT NULL, pk NOT NULL,"
    " items INTEGER NOT NULL, scratch INTEGER NOT NULL, changed INTEGER NOT NULL,"
    " PRIMARY KEY(table_id, pk)) WITHOUT ROWID;"

    "CREATE TABLE entry("
    " index_id INTEGER NOT NULL, ipk NOT NULL, isk NOT NULL, pk NOT NULL, sk NOT NULL,"
    " PRIMARY KEY(index_id, ipk, isk, pk, sk)) WITHOUT ROWID;"

    "CREATE TABLE change("
    " seq INTEGER PRIMARY KEY,"
    " table_id INTEGER NOT NULL,"
    " kind INTEGER NOT NULL,"
    " pk, sk,"
    " change INTEGER NOT NULL,"
    " time INTEGER NOT NULL,"
    " origin INTEGER NOT NULL,"
    " streamed INTEGER NOT NULL, expired INTEGER NOT NULL,"
    " old TEXT, new TEXT, old_ttl INTEGER, new_ttl INTEGER,"
    " scratch_parent INTEGER, scratch_name TEXT);"

    "CREATE TABLE scratch("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " table_id INTEGER NOT NULL, partition NOT NULL,"
    " parent INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " kind INTEGER NOT NULL, mode INTEGER NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL,"
    " mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,"
    " ttl INTEGER,"
    " size INTEGER NOT NULL, body BLOB NOT NULL,"
    " UNIQUE(parent, table_id, partition, name));"

    "CREATE TABLE draft("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " table_name TEXT NOT NULL, path TEXT NOT NULL,"
    " code INTEGER NOT NULL, reason TEXT NOT NULL,"
    " time INTEGER NOT NULL,"
    " size INTEGER NOT NULL, body BLOB NOT NULL);"

    "CREATE VIEW items AS SELECT tables.name AS \"table\", pk, sk, version, size,"
    " datetime(mtime / 1000000000, 'unixepoch') AS modified,"
    " datetime(expires, 'unixepoch') AS expires, body"
    " FROM item JOIN tables ON tables.id = item.table_id;"

    "INSERT INTO meta VALUES('schema', 1), ('rolled_seq', 0), ('trimmed_seq', 0);"
    "PRAGMA application_id = 0x6974656d;" FORMAT_2;

_Static_assert(STORE_APPLICATION_ID == 0x6974656d && STORE_VERSION == 2, "as in schema_sql");
_Static_assert(LOG_ITEM == 0 && LOG_TOUCH == 1 && LOG_SCRATCH == 2 && LOG_SCHEMA == 3 &&
                   LOG_DRAFT == 4,
               "kept in files: change.kind");
_Static_assert(CHANGE_NONE == 0 && CHANGE_INSERT == 1 && CHANGE_MODIFY == 2 && CHANGE_REMOVE == 3,
               "kept in files: change.change, item.change");
_Static_assert(SCRATCH_FILE == 0 && SCRATCH_LINK == 1 && SCRATCH_DIRECTORY == 2,
               "kept in files: scratch.kind");

/* The one number that SQL gives. */
static int one_number(struct conn *conn, const char *sql, int64_t *ret_value, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &statement, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *ret_value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW ? 0 : conn_fail(conn, rc, err, "reading the store");
}

enum judgement { JUDGED_OURS, JUDGED_EMPTY, JUDGED_FORMAT_1 };

/* An enum judgement; -EINVAL: not ours, or newer than this program. In a transaction, for somebody
 * may be making the schema just now. */
static int schema_judge(struct conn *conn, const char *path, struct err *err)
{
    int64_t application = 0, version = 0, objects = 0;
    int code = one_number(conn, "PRAGMA application_id", &application, err);

    if (code == 0)
        code = one_number(conn, "PRAGMA user_version", &version, err);
    if (code == 0)
        code = one_number(conn, "SELECT count(*) FROM sqlite_master", &objects, err);
    if (code)
        return code;
    if (application == 0 && objects == 0)
        return JUDGED_EMPTY;
    if (application != STORE_APPLICATION_ID)
        return err_set(err, EINVAL, "%s is a SQLite database of another program", path);
    if (version == 1)
        return JUDGED_FORMAT_1;
    if (version != STORE_VERSION)
        return err_set(err, EINVAL, "%s has format %lld, and this program knows %d", path,
                       (long long)version, STORE_VERSION);
    return JUDGED_OURS;
}

static int name_store(struct conn *conn, struct err *err)
{
    unsigned long long id;
    char sql[100];

    if (getrandom(&id, sizeof id, 0) != sizeof id)
        return err_set(err, EIO, "no random numbers from the system");
    snprintf(sql, sizeof sql, "INSERT INTO meta VALUES('store', '%016llx')", id);
    return conn_exec(conn, sql, err);
}

/* Makes the schema, or brings an older one to this format. */
static int schema_make(struct conn *conn, const char *path, struct err *err)
{
    int code = conn_exec(conn, "BEGIN EXCLUSIVE", err);

    if (code)
        return code;
    code = schema_judge(conn, path, err); /* somebody may have been faster */
    if (code == JUDGED_EMPTY) {
        code = conn_exec(conn, schema_sql, err);
        if (code == 0)
            code = name_store(conn, err);
    } else if (code == JUDGED_FORMAT_1) {
        code = conn_exec(conn, FORMAT_2, err);
    }
    if (code == 0)
        code = conn_exec(conn, "COMMIT", err);
    if (code && !sqlite3_get_autocommit(conn->db))
        conn_exec(conn, "ROLLBACK", NULL);
    return code;
}

/* A store that can only be read is read in the format that it has. */
int schema_prepare(struct conn *conn, bool read_only, const char *path, struct err *err)
{
    int code = conn_exec(conn, "BEGIN", err);

    if (code)
        return code;
    int judged = schema_judge(conn, path, err);
    conn_exec(conn, "ROLLBACK", NULL);
    if (judged < 0)
        return judged;
    if (read_only)
        return judged == JUDGED_EMPTY ? err_set(err, EINVAL, "%s is empty", path) : 0;
    if (judged == JUDGED_EMPTY)
        code = conn_exec(conn, "PRAGMA page_size = 4096; PRAGMA encoding = 'UTF-8'", err);
    if (code == 0 && judged != JUDGED_OURS)
        code = schema_make(conn, path, err);
    return code ? code : conn_exec(conn, "PRAGMA journal_mode = WAL", err);
}
