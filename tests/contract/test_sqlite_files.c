/* SPDX-License-Identifier: MIT */
/* The embedded store as a file: what is refused and left alone, modes, other clients, space. */

#include "backend/stream.h"
#include "tests/contract/store_files.h"

/* Refused with CODE and WORDS, and not a byte is touched. */
static void check_refused(int code, const char *words)
{
    struct backend *backend = NULL;
    struct err err = {""};

    run("cd %s && sha256sum * >/tmp/itemfs-sums.%d", directory, getpid());
    check_int(try_open(path, false, &backend, &err), code);
    check(strstr(err.text, words) != NULL && strstr(err.text, path) != NULL);
    err_clear(&err);
    check_int(try_open(path, true, &backend, &err), code);
    check(!backend);
    run("cd %s && sha256sum --quiet -c /tmp/itemfs-sums.%d", directory, getpid());
    if (code != -EUCLEAN) /* of a damaged store, reading leaves an empty log */
        run("test $(ls %s | wc -l) = $(wc -l </tmp/itemfs-sums.%d)", directory, getpid());
    run("rm /tmp/itemfs-sums.%d", getpid());
    wipe();
}

static void foreign_files_are_refused(void)
{
    run("echo 'some text that is no database, long enough for a header of one hundred bytes or"
        " a few more than that' >%s",
        path);
    check_refused(-EINVAL, "not an itemfs store");
    run("echo short >%s", path);
    check_refused(-EINVAL, "not an itemfs store");
    shell("CREATE TABLE t(x)");
    check_refused(-EINVAL, "another program");
    shell("PRAGMA application_id = 77");
    check_refused(-EINVAL, "another program");
    /* One that was not closed: its log must not be replayed. */
    run("cd %s && sqlite3 a.db \"PRAGMA journal_mode = WAL; CREATE TABLE t(x);"
        " INSERT INTO t VALUES(1);\" \".shell cp a.db items.db; cp a.db-wal items.db-wal\""
        " >/dev/null && rm -f a.db*",
        directory);
    run("test -s %s-wal", path);
    check_refused(-EINVAL, "another program");
    check_int(mkdir(path, 0700), 0);
    struct backend *backend;
    struct err err = {""};
    check_int(try_open(path, false, &backend, &err), -EISDIR);
    wipe();
}

static void newer_and_damaged_files_are_refused(void)
{
    backend_close(open_store());
    shell("PRAGMA user_version = 3");
    check_refused(-EINVAL, "newer");
    backend_close(open_store());
    check_int(truncate(path, 8192), 0);
    check_refused(-EUCLEAN, "damaged");
    backend_close(open_store());
    shell("PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = 'meta'");
    check_refused(-EUCLEAN, "damaged");
}

/* A store of the first format is brought to this one, unless it can only be read. */
static void older_files_are_taken_over(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct sqlite_options only_read = {.read_only = true};
    struct stream *stream = NULL;
    struct err err = {""};

    check_int(put_number(b, t, 5, &err), 0);
    backend_close(b);
    shell("PRAGMA user_version = 1; DROP TABLE lease; DELETE FROM meta WHERE name = 'dropped_seq'");
    check_int(sqlite_open(path, &only_read, &b, &err), 0);
    check_int(backend_stream_open(b, t, STREAM_OLDEST, &stream, &err), 0);
    backend_stream_close(stream);
    check_int(backend_lease_write(b, span_text("users"), 0, span_text("me"), NOTHING, &err),
              -EROFS);
    backend_close(b);
    check_shell("PRAGMA user_version", "1\n");
    b = open_store();
    err_clear(&err);
    check_int(backend_lease_write(b, span_text("users"), 0, span_text("me"), NOTHING, &err), 0);
    close_whole(b);
    check_shell("PRAGMA user_version", "2\n");
    check_shell("SELECT name, value FROM meta WHERE name = 'dropped_seq'", "dropped_seq|0\n");
    check_shell("SELECT count(*) FROM items", "1\n");
    table_free(t);
    wipe();
}

static int count_change(void *context, const struct change *change)
{
    (void)change;
    ++*(int *)context;
    return 0;
}

static int note_key(void *context, const struct change *change)
{
    *(bool *)context = span_equal(change->key.partition, span_text("12"));
    return 0;
}

/* The log does not say any more what keys the table had: whoever reads its stream still knows. */
static void records_outlive_their_table(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "numbers", "id:N", NULL, NULL);
    struct stream *stream = NULL;
    struct err err = {""};
    bool right = false;
    struct action action = put_action(t, key_of("12", NULL), "{}");

    check_int(backend_write(b, &action, 1, 0, &err), 0);
    check_int(backend_stream_open(b, t, STREAM_OLDEST, &stream, &err), 0);
    check_int(backend_drop_table(b, t, true, &err), 0);
    check_int(backend_stream_next(stream, 0, note_key, &right, &err), 0);
    check(right);
    backend_stream_close(stream);
    table_free(t);
    close_whole(b);
    wipe();
}

/* A place in the stream of a table is none in that of another of its name. */
static void places_name_their_table(void)
{
    struct backend *b = open_store();
    struct table *old = make_table(b, "users", "id", NULL, NULL);
    struct stream *stream = NULL;
    struct err err = {""};
    struct buf place;
    int count = 0;

    check_int(backend_drop_table(b, old, false, &err), 0);
    struct table *new = make_table(b, "users", "id", NULL, NULL);
    check_int(put_number(b, new, 1, &err), 0);
    buf_init(&place, LEASE_TEXT_MAX);
    check_int(backend_stream_open(b, old, STREAM_NOW, &stream, &err), 0);
    check_int(backend_stream_position(stream, &place), 0);
    backend_stream_close(stream);
    check_int(backend_stream_open(b, new, place.data, &stream, &err), 0);
    check(stream->lost);
    check_int(backend_stream_next(stream, 0, count_change, &count, &err), 0);
    check_int(count, 1);
    backend_stream_close(stream);
    buf_release(&place);
    table_free(old);
    table_free(new);
    close_whole(b);
    wipe();
}

/* A reader that comes too late is told so, and gets what is still there. */
static void dropped_records_are_missed(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct stream *stream = NULL;
    struct err err = {""};
    int64_t next_ns;
    int count = 0;

    for (unsigned i = 0; i < 10; i++)
        check_int(put_number(b, t, i, &err), 0);
    backend_close(b);
    shell("UPDATE change SET time = time - 86400000000000 WHERE seq <= 5");
    b = open_store();
    check_int(backend_stream_open(b, t, STREAM_OLDEST, &stream, &err), 0);
    check_int(backend_maintain(b, &next_ns, &err), 0);
    check_int(backend_stream_next(stream, 0, count_change, &count, &err), 0);
    check(stream->lost);
    stream->lost = false;
    check_int(count, atoi(shell("SELECT count(*) FROM change WHERE kind = 0")));
    check(count >= 5 && count < 10);
    check_int(backend_stream_next(stream, 0, count_change, &count, &err), 0);
    check(!stream->lost);
    backend_stream_close(stream);
    /* A place that this store has never had, and one of another store. */
    for (int i = 0; i < 2; i++) {
        char place[49];
        snprintf(place, sizeof place, "%.16s%016x%016llx",
                 shell("SELECT value FROM meta WHERE name = 'store'"), 1000000,
                 (unsigned long long)t->id);
        memset(place, 'a', i ? 16 : 0);
        count = 0;
        check_int(backend_stream_open(b, t, place, &stream, &err), 0);
        check_int(backend_stream_next(stream, 0, count_change, &count, &err), 0);
        check(stream->lost && count >= 5);
        backend_stream_close(stream);
    }
    table_free(t);
    close_whole(b);
    wipe();
}

static void damage_is_told_when_met(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct walk walk = {.bodies = true};
    struct line line = {.bodies = true};

    for (unsigned i = 0; i < 1000; i++)
        check_int(put_number(b, t, i, &err), 0);
    close_whole(b);
    char *page = shell("SELECT pageno FROM dbstat WHERE name = 'item' AND pagetype = 'leaf'"
                       " ORDER BY path LIMIT 1 OFFSET 3")
                     ? strdup(shell("SELECT rootpage FROM sqlite_master WHERE name = 'item'"))
                     : NULL;
    run("dd if=/dev/urandom of=%s bs=4096 seek=%d count=1 conv=notrunc 2>/dev/null", path,
        atoi(page) - 1);
    free(page);
    b = open_store();
    check_int(backend_walk(b, t, &walk, line_record, &line, &err), -EUCLEAN);
    check(strstr(err.text, "damaged") != NULL);
    err_clear(&err);
    check_int(put_number(b, t, 5, &err), -EUCLEAN);
    table_free(t);
    backend_close(b);
    wipe();
}

static void empty_files_become_stores(void)
{
    struct stat file;
    struct err err = {""};
    struct backend *b = NULL;
    struct sqlite_options absent = {.create = false};

    check_int(sqlite_open(path, &absent, &b, &err), -ENOENT);
    check_int(access(path, F_OK), -1);
    umask(0);
    run("touch %s && chmod 644 %s", path, path);
    backend_close(open_store());
    wipe();

    b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    for (const char *const *suffix = (const char *const[]){"", "-wal", "-shm", NULL}; *suffix;
         suffix++) {
        char name[300];
        snprintf(name, sizeof name, "%s%s", path, *suffix);
        check_int(stat(name, &file), 0);
        check_int(file.st_mode & 07777, 0600);
    }
    umask(022);
    table_free(t);
    close_whole(b);
    check_shell("PRAGMA application_id", "1769235821\n");
    check_shell("PRAGMA user_version", "2\n");
    check_shell("PRAGMA journal_mode", "wal\n");
    check_shell("PRAGMA page_size", "4096\n");
    wipe();
}

static void another_client_reads_rows(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct table *orders = make_table(b, "orders", "cust:N", "day", "by-x:x");

    check_int(put(b, t, "ada", NULL, "{\"n\": 1}"), 0);
    check_int(put(b, orders, "-5", "mon", "{\"x\": \"y\"}"), 0);
    check_shell("SELECT \\\"table\\\", pk, sk, body FROM items WHERE \\\"table\\\" = 'users'",
                "users|ada||{\"n\": 1}\n");
    check_shell("SELECT name, key_name, key_type, sort_name, keys, stream FROM tables ORDER BY id",
                "users|id|S||tags|1\norders|cust|N|day|plain|1\n");
    check_shell("SELECT ipk, typeof(pk), sk, name FROM entry JOIN indexes ON id = index_id",
                "y|blob|mon|by-x\n");
    check_shell("SELECT sk, items FROM partition JOIN item USING(table_id, pk)", "mon|1\n");
    check_shell("SELECT count(*) FROM change WHERE kind = 0 AND change = 1 AND streamed = 1",
                "2\n");
    /* It may write to the body, too; and hold its lock for a while: a save waits. */
    run("(sqlite3 %s \"BEGIN IMMEDIATE\" \".shell touch %s/locked; sleep 0.5\" COMMIT &)", path,
        directory);
    run("while ! test -e %s/locked; do sleep 0.02; done", directory);
    int64_t begin = clock_steady_ns();
    check_int(put(b, t, "bob", NULL, "1"), 0);
    check(clock_steady_ns() - begin > NS_PER_S / 10);
    table_free(t);
    table_free(orders);
    close_whole(b);
    wipe();
}

static void read_only_stores_are_read(void)
{
    struct backend *b = NULL, *writer;
    struct err err = {""};
    int64_t next_ns;

    check_int(try_open(path, true, &b, &err), -ENOENT);
    check_int(access(path, F_OK), -1);
    run("touch %s", path);
    check_int(try_open(path, true, &b, &err), -EINVAL);
    writer = open_store();
    struct table *t = make_table(writer, "users", "id", NULL, NULL);
    check_int(put(writer, t, "ada", NULL, "1"), 0);
    err_clear(&err);
    check_int(try_open(path, true, &b, &err), 0);
    check_get(b, t, "ada", NULL, "1");
    check_int(put(writer, t, "bob", NULL, "2"), 0);
    bool changed;
    check_int(backend_poll(b, &changed, &err), 0);
    check(changed);
    check_walk(b, t, "ada bob");
    check_int(put(b, t, "eve", NULL, "3"), -EROFS);
    check_int(backend_write(b, NULL, 0, 0, &err), -EROFS);
    err_clear(&err);
    check_int(backend_drop_table(b, t, true, &err), -EROFS);
    check_int(backend_sync(b, &err), 0);
    check_int(backend_maintain(b, &next_ns, &err), 0);
    backend_close(b);
    check_walk(writer, t, "ada bob");
    close_whole(writer);
    err_clear(&err);
    check_int(try_open(path, true, &b, &err), 0);
    check_walk(b, t, "ada bob");
    backend_close(b);
    table_free(t);
    wipe();
}

/* What opening gives to a user without rights. */
static int open_as_nobody(bool read_only)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        struct backend *b;
        struct err err = {""};
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(200);
        _exit(-try_open(path, read_only, &b, &err));
    }
    check_int(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void missing_rights_are_told(void)
{
    if (geteuid() != 0) {
        printf("skipped, for it needs root: %s\n", check_running);
        return;
    }
    backend_close(open_store());
    check_int(open_as_nobody(false), EACCES);
    run("chmod 755 %s && chmod 600 %s", directory, path);
    check_int(open_as_nobody(true), EACCES);
    run("chmod 644 %s", path);
    check_int(open_as_nobody(false), EACCES);
    /* Reading needs the files beside it, which only somebody with rights can make. */
    check_int(open_as_nobody(true), EACCES);
    struct backend *b = open_store();
    check_int(open_as_nobody(true), 0);
    backend_close(b);
    wipe();
    check_int(open_as_nobody(false), EACCES);
    wipe();
}

/* A filesystem of its own: SIZE as for mount -o size=; false where that is not allowed. */
static bool mount_small(const char *options)
{
    if (mount("tmpfs", directory, "tmpfs", 0, options) == 0)
        return true;
    printf("skipped, for it needs a mount: %s: %s\n", check_running, strerror(errno));
    return false;
}

static void read_only_filesystems_are_read(void)
{
    struct backend *b;
    struct err err = {""};

    if (!mount_small("size=4m"))
        return;
    b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    check_int(put(b, t, "ada", NULL, "1"), 0);
    backend_close(b);
    check_int(mount(NULL, directory, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    check_int(try_open(path, false, &b, &err), -EROFS);
    check(strstr(err.text, "-o ro") != NULL);
    err_clear(&err);
    check_int(try_open(path, true, &b, &err), 0);
    check_walk(b, t, "ada");
    bool changed = true;
    check_int(backend_poll(b, &changed, &err), 0);
    check(!changed);
    backend_close(b);
    table_free(t);
    check_int(umount(directory), 0);
}

static void full_disks_are_told(void)
{
    struct err err = {""};
    unsigned count = 0;
    int code = 0;

    if (!mount_small("size=1m"))
        return;
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    run("head -c 300000 /dev/zero >%s/filler", directory);
    while (count < 100000 && (code = put_number(b, t, count, &err)) == 0)
        count++;
    check_int(code, -ENOSPC);
    check(err.text[0] != 0);
    err_clear(&err);
    check_int(put_number(b, t, count, &err), -ENOSPC);
    run("rm %s/filler", directory);
    err_clear(&err);
    check_int(put_number(b, t, count, &err), 0);
    check_int(backend_sync(b, &err), 0);
    char want[20];
    snprintf(want, sizeof want, "%u\n", count + 1);
    check_shell("SELECT count(*) FROM item", want);
    table_free(t);
    close_whole(b);
    check_shell("SELECT count(*) FROM item", want);
    check_int(umount(directory), 0);
}

CHECK_MAIN(CHECK_TEST(setup), CHECK_TEST(foreign_files_are_refused),
           CHECK_TEST(newer_and_damaged_files_are_refused), CHECK_TEST(older_files_are_taken_over),
           CHECK_TEST(dropped_records_are_missed), CHECK_TEST(records_outlive_their_table),
           CHECK_TEST(places_name_their_table), CHECK_TEST(damage_is_told_when_met),
           CHECK_TEST(empty_files_become_stores), CHECK_TEST(another_client_reads_rows),
           CHECK_TEST(read_only_stores_are_read), CHECK_TEST(missing_rights_are_told),
           CHECK_TEST(read_only_filesystems_are_read), CHECK_TEST(full_disks_are_told),
           CHECK_TEST(teardown))
