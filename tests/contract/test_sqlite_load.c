/* SPDX-License-Identifier: MIT */
/* The embedded store under load: processes at the same time, kill -9, trimming, a bounded log. */
#include <pthread.h>

#include "tests/contract/store_files.h"

#define PROCESSES 2
#define PROCESS_WRITES 400

static void new_users(void)
{
    struct backend *b = open_store();
    table_free(make_table(b, "users", "id", NULL, NULL));
    backend_close(b);
}

static struct table *describe_users(struct backend *backend)
{
    struct table *table = NULL;
    struct err err = {""};

    if (backend_describe(backend, span_text("users"), &table, &err) != 0)
        exit(1);
    return table;
}

/* Its exit status is the number of failures. */
static pid_t start_writer(unsigned first, unsigned count)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    struct backend *b = open_store();
    struct table *t = describe_users(b);
    int failures = 0;
    for (unsigned i = 0; i < count; i++) {
        struct err err = {""};
        int code = put_number(b, t, first + i, &err);
        if (code != 0)
            fprintf(stderr, "write: %d %s\n", code, err.text);
        failures += code != 0;
        if (i % 100 == 99)
            maintain(b);
    }
    table_free(t);
    backend_close(b);
    _exit(failures > 100 ? 100 : failures);
}

static void processes_wait_for_each_other(void)
{
    pid_t pids[PROCESSES];
    char want[20];

    new_users();
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = start_writer(i * 100000, PROCESS_WRITES);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = -1;
        check_int(waitpid(pids[i], &status, 0), pids[i]);
        check(WIFEXITED(status));
        check_int(WEXITSTATUS(status), 0);
    }
    snprintf(want, sizeof want, "%d\n", PROCESSES * PROCESS_WRITES);
    check_shell("SELECT count(*) FROM item", want);
    check_shell("SELECT count(DISTINCT version) FROM item", want);
    check_shell("SELECT count(*) FROM change WHERE kind = 0", want);
    check_shell("PRAGMA integrity_check", "ok\n");
    wipe();
}

/* Two at once make the store. */
static void processes_may_create_together(void)
{
    for (int round = 0; round < 10; round++) {
        pid_t pids[PROCESSES];
        for (int i = 0; i < PROCESSES; i++) {
            int before = check_failures;
            pids[i] = fork();
            if (pids[i] == 0) {
                backend_close(open_store());
                _exit(check_failures != before);
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status = -1;
            check_int(waitpid(pids[i], &status, 0), pids[i]);
            check_int(status, 0);
        }
        check_shell("SELECT count(*) FROM meta WHERE name = 'store'", "1\n");
        wipe();
    }
}

/* Writes numbers until it is killed, and tells each one that was acknowledged. */
static pid_t start_endless(int fd, unsigned first)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    struct backend *b = open_store();
    struct table *t = describe_users(b);
    for (unsigned i = first;; i++) {
        struct err err = {""};
        if (put_number(b, t, i, &err) != 0 || write(fd, &i, sizeof i) != sizeof i)
            _exit(1);
        if (i % 64 == 0)
            maintain(b);
    }
}

static unsigned last_told(int fd, unsigned before)
{
    unsigned number, last = before;

    while (read(fd, &number, sizeof number) == sizeof number)
        last = number + 1;
    return last;
}

static void killed_writers_lose_nothing(void)
{
    unsigned acknowledged = 0;

    new_users();
    srand(5);
    for (int round = 0; round < 15; round++) {
        int ends[2], status;
        char sql[100], want[20];
        check_int(pipe(ends), 0);
        pid_t pid = start_endless(ends[1], acknowledged);
        close(ends[1]);
        usleep((useconds_t)(20000 + rand() % 150000));
        kill(pid, SIGKILL);
        check_int(waitpid(pid, &status, 0), pid);
        check(WIFSIGNALED(status));
        acknowledged = last_told(ends[0], acknowledged);
        close(ends[0]);
        close_whole(open_store());
        snprintf(sql, sizeof sql, "SELECT count(*) FROM item WHERE pk < '%08u'", acknowledged);
        snprintf(want, sizeof want, "%u\n", acknowledged);
        check_shell(sql, want);
    }
    check(acknowledged > 100);
    wipe();
}

static void old_log_entries_go(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct table *quiet = make_table(b, "quiet", "id", NULL, NULL);
    struct table *altered = table_copy(quiet);
    struct err err = {""};

    altered->stream = false;
    check_int(backend_alter_table(b, altered, &err), 0);
    for (unsigned i = 0; i < 1500; i++) {
        check_int(put_number(b, t, i, &err), 0);
        check_int(put_number(b, quiet, i, &err), 0);
    }
    uint64_t end = log_end(b);
    maintain(b);
    check_shell("SELECT count(*) FROM change", "3003\n");
    shell("UPDATE change SET time = time - 3600000000000"); /* an hour ago */
    maintain(b);
    check_shell("SELECT count(*), count(*) FILTER (WHERE streamed = 0) FROM change", "1501|1\n");
    check_int(log_end(b), end);
    check_int(put_number(b, t, 1, &err), 0); /* equal: a touch */
    shell("UPDATE change SET time = time - 86400000000000");
    maintain(b);
    check_shell("SELECT count(*), max(seq) - (SELECT max(version) FROM item) FROM change", "1|1\n");
    maintain(b);
    check_int(log_end(b), end + 1);
    check_int(put(b, t, "x", NULL, "1"), 0);
    check_int(get_meta(b, t, key_of("x", NULL)).version, end + 2);
    table_free(t);
    table_free(quiet);
    table_free(altered);
    close_whole(b);
    wipe();
}

static void maintenance_checkpoints(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct stat log;
    char name[300];

    snprintf(name, sizeof name, "%s-wal", path);
    for (unsigned i = 0; i < 3000; i++) {
        check_int(put_number(b, t, i, &err), 0);
        if (i % 300 == 0)
            maintain(b);
    }
    check_int(stat(name, &log), 0);
    check_int(log.st_size < 3000 * 4120 ? 0 : log.st_size, 0);
    table_free(t);
    close_whole(b);
    wipe();
}

#define BOUND_WRITES 200000
#define BOUND_BYTES                                                                                \
    (128 << 20) /* 64 MiB, and some growth while a reader is caught by a slow disk */

struct readers {
    struct backend *backend;
    const struct table *table;
    _Atomic bool stop;
    _Atomic unsigned rounds;
};

static int no_record(void *context, const struct record *record)
{
    (void)context;
    (void)record;
    return 0;
}

static void *read_always(void *context)
{
    struct readers *readers = context;
    struct walk walk = {.limit = 500, .bodies = true};

    for (; !readers->stop; readers->rounds++) {
        struct err err = {""};
        check_int(backend_walk(readers->backend, readers->table, &walk, no_record, NULL, &err), 0);
    }
    return NULL;
}

#define MANY_READERS 40 /* more than the store has connections */

static void many_readers_share_connections(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct readers readers = {.backend = b, .table = t};
    pthread_t threads[MANY_READERS];
    struct err err = {""};

    for (int i = 0; i < MANY_READERS; i++)
        check_int(pthread_create(&threads[i], NULL, read_always, &readers), 0);
    for (unsigned i = 0; i < 500; i++)
        check_int(put_number(b, t, i, &err), 0);
    readers.stop = true;
    for (int i = 0; i < MANY_READERS; i++)
        pthread_join(threads[i], NULL);
    check(readers.rounds >= MANY_READERS);
    table_free(t);
    close_whole(b);
    wipe();
}

static void the_log_stays_bounded(void)
{
    struct backend *b = open_store();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct readers readers = {.backend = b, .table = t};
    struct err err = {""};
    struct stat log;
    char name[300];
    pthread_t thread;
    off_t longest = 0;

    snprintf(name, sizeof name, "%s-wal", path);
    check_int(pthread_create(&thread, NULL, read_always, &readers), 0);
    for (unsigned i = 0; i < BOUND_WRITES; i++) {
        check_int(put_number(b, t, i % 5000, &err), 0);
        char key[16], body[24];
        snprintf(key, sizeof key, "%u", i % 5000);
        snprintf(body, sizeof body, "{\"n\": %u}", i);
        check_int(put(b, t, key, NULL, body), 0);
        i++; /* that were two */
        if (i % 100 == 1 && stat(name, &log) == 0 && log.st_size > longest)
            longest = log.st_size;
    }
    readers.stop = true;
    pthread_join(thread, NULL);
    check(readers.rounds > 10);
    printf("the log grew to %.1f MiB at most\n", (double)longest / (1 << 20));
    check(longest < BOUND_BYTES);
    table_free(t);
    close_whole(b);
    wipe();
}

CHECK_MAIN(CHECK_TEST(setup), CHECK_TEST(processes_wait_for_each_other),
           CHECK_TEST(processes_may_create_together), CHECK_TEST(killed_writers_lose_nothing),
           CHECK_TEST(old_log_entries_go), CHECK_TEST(maintenance_checkpoints),
           CHECK_TEST(many_readers_share_connections), CHECK_TEST(the_log_stays_bounded),
           CHECK_TEST(teardown))
