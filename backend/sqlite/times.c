/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/times.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#define BUSY_MS 2000
#define DAY_S 86400
#define TRIMMED_PART 8 /* that part of the rows goes at once */

enum { FIND, SEEN, SET, BEGIN, COMMIT, ROLLBACK, COUNT, TRIM, STATEMENT_COUNT };

/* A day is enough to know what was seen lately, and is written once. */
static const char *const sql[STATEMENT_COUNT] = {
    [FIND] = "SELECT version, mtime, ctime, change, modified, seen FROM times WHERE id = ?1",
    [SEEN] = "UPDATE times SET seen = ?2 WHERE id = ?1",
    [SET] = "INSERT OR REPLACE INTO times VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [COUNT] = "SELECT count(*) FROM times",
    [TRIM] = "DELETE FROM times WHERE id IN (SELECT id FROM times ORDER BY seen LIMIT ?1)",
};

struct times {
    pthread_mutex_t lock; /* guards all below */
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    int64_t most;
};

static int errno_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL: return ENOSPC;
    case SQLITE_READONLY: return EROFS;
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return EACCES;
    case SQLITE_NOMEM: return ENOMEM;
    default: return EIO;
    }
}

static int run(struct times *times, int number)
{
    sqlite3_stmt *statement = times->statements[number];
    int rc = sqlite3_step(statement);

    sqlite3_reset(statement);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* --- Rows --- */

int64_t times_id(uint64_t table_id, struct key key)
{
    uint64_t hash = hash64(key.sort, hash64(key.partition, table_id));

    return (int64_t)hash;
}

static int64_t today(void)
{
    return clock_now_s() / DAY_S;
}

static bool find_locked(struct times *times, struct times_row *row, bool *ret_seen_today)
{
    sqlite3_stmt *find = times->statements[FIND];

    sqlite3_bind_int64(find, 1, row->id);
    bool known = sqlite3_step(find) == SQLITE_ROW;
    bool found = known && (uint64_t)sqlite3_column_int64(find, 0) == row->version;
    if (found) {
        row->mtime_ns = sqlite3_column_int64(find, 1);
        row->ctime_ns = sqlite3_column_int64(find, 2);
        row->change_ns = sqlite3_column_int64(find, 3);
        row->modified = sqlite3_column_int(find, 4);
        *ret_seen_today = sqlite3_column_int64(find, 5) == today();
    } else if (known) {
        row->modified = true;
    }
    sqlite3_reset(find);
    return found;
}

bool times_find(struct times *times, struct times_row *row, bool *ret_meet)
{
    bool seen_today = false;
    scoped_lock(&times->lock);
    bool found = find_locked(times, row, &seen_today);

    *ret_meet = !seen_today;
    return found;
}

static void see_locked(struct times *times, int64_t id)
{
    sqlite3_stmt *seen = times->statements[SEEN];

    sqlite3_bind_int64(seen, 1, id);
    sqlite3_bind_int64(seen, 2, today());
    run(times, SEEN);
}

static void set_locked(struct times *times, const struct times_row *row)
{
    sqlite3_stmt *set = times->statements[SET];

    sqlite3_bind_int64(set, 1, row->id);
    sqlite3_bind_int64(set, 2, (int64_t)row->version);
    sqlite3_bind_int64(set, 3, row->mtime_ns);
    sqlite3_bind_int64(set, 4, row->ctime_ns);
    sqlite3_bind_int64(set, 5, row->change_ns);
    sqlite3_bind_int(set, 6, row->modified);
    sqlite3_bind_int64(set, 7, today());
    run(times, SET);
}

/* What cannot be committed was not noted, and nothing waits for it. */
static void end_locked(struct times *times)
{
    if (run(times, COMMIT) != SQLITE_DONE)
        run(times, ROLLBACK);
}

void times_meet(struct times *times, struct times_row *rows, size_t count)
{
    scoped_lock(&times->lock);

    if (count == 0 || run(times, BEGIN) != SQLITE_DONE)
        return;
    for (size_t i = 0; i < count; i++) {
        bool seen_today = true;
        if (!find_locked(times, &rows[i], &seen_today))
            set_locked(times, &rows[i]);
        else if (!seen_today)
            see_locked(times, rows[i].id);
    }
    end_locked(times);
}

void times_set(struct times *times, const struct times_row *rows, size_t count)
{
    scoped_lock(&times->lock);

    if (count == 0 || run(times, BEGIN) != SQLITE_DONE)
        return;
    for (size_t i = 0; i < count; i++)
        set_locked(times, &rows[i]);
    end_locked(times);
}

void times_trim(struct times *times)
{
    scoped_lock(&times->lock);
    sqlite3_stmt *count = times->statements[COUNT], *trim = times->statements[TRIM];
    int64_t rows = sqlite3_step(count) == SQLITE_ROW ? sqlite3_column_int64(count, 0) : 0;

    sqlite3_reset(count);
    if (rows <= times->most)
        return;
    sqlite3_bind_int64(trim, 1, rows - times->most + times->most / TRIMMED_PART);
    run(times, TRIM);
}

/* --- Opening --- */

static const char schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -2048;"
    "CREATE TABLE IF NOT EXISTS times(id INTEGER PRIMARY KEY, version INTEGER NOT NULL,"
    " mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, change INTEGER NOT NULL,"
    " modified INTEGER NOT NULL, seen INTEGER NOT NULL)";

static int prepare(struct times *times)
{
    int rc = sqlite3_exec(times->db, schema, NULL, NULL, NULL);

    for (int i = 0; rc == SQLITE_OK && i < STATEMENT_COUNT; i++)
        rc = sqlite3_prepare_v3(times->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                &times->statements[i], NULL);
    return rc;
}

static void close_database(struct times *times)
{
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(times->statements[i]);
    sqlite3_close(times->db);
    times->db = NULL;
    memset(times->statements, 0, sizeof times->statements);
}

/* Keys are not told by it, but when they changed is: nobody else's business. */
static int make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

static int open_database(struct times *times, const char *path)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(path, &times->db, flags, NULL);

    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(times->db, BUSY_MS);
        rc = prepare(times);
    }
    return rc;
}

static bool is_damage(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB ||
           (rc & 0xff) == SQLITE_ERROR; /* another schema */
}

static void remove_file(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        cleanup_free char *name = NULL;
        if (asprintf(&name, "%s%s", path, suffixes[i]) >= 0)
            unlink(name);
    }
}

static int open_or_renew(struct times *times, const char *path, struct err *err)
{
    int r = make_file(path);
    int rc = r < 0 ? SQLITE_OK : open_database(times, path);

    if (r == 0 && is_damage(rc)) {
        close_database(times);
        remove_file(path);
        r = make_file(path);
        rc = r < 0 ? SQLITE_OK : open_database(times, path);
    }
    if (r < 0)
        return err_set(err, -r, "%s: %s", path, strerror(-r));
    if (rc != SQLITE_OK)
        return err_set(err, errno_of(rc), "%s: %s", path, sqlite3_errmsg(times->db));
    return 0;
}

int times_open(const char *path, uint64_t most, struct times **ret_times, struct err *err)
{
    struct times *times = calloc(1, sizeof *times);

    if (!times)
        return err_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&times->lock, NULL);
    times->most = most ? (int64_t)most : TIMES_MOST;
    int r = open_or_renew(times, path, err);
    if (r < 0) {
        times_close(times);
        return r;
    }
    *ret_times = times;
    return 0;
}

void times_close(struct times *times)
{
    if (!times)
        return;
    close_database(times);
    pthread_mutex_destroy(&times->lock);
    free(times);
}
