/* SPDX-License-Identifier: MIT */
/* For tests of the embedded store: files in a directory of their own, and the sqlite3 shell as an
 * independent second client. */
#ifndef TESTS_CONTRACT_STORE_FILES_H
#define TESTS_CONTRACT_STORE_FILES_H

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "backend/sqlite/sqlite.h"
#include "tests/contract/fixture.h"

static char directory[] = "/tmp/itemfs-store-XXXXXX";
static char path[200];

static void setup(void)
{
    if (!mkdtemp(directory))
        exit(1);
    snprintf(path, sizeof path, "%s/items.db", directory);
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
    char command[1000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0)
        check_fail("failed: %s", command);
}

static void wipe(void)
{
    run("rm -rf %s/*", directory);
}

static void teardown(void)
{
    wipe();
    check_int(rmdir(directory), 0);
}

/* What the sqlite3 shell answers. */
static const char *shell(const char *sql)
{
    static char answer[4000];
    char command[1200];

    snprintf(command, sizeof command, "sqlite3 -cmd '.timeout 20000' %s \"%s\"", path, sql);
    FILE *pipe = popen(command, "r");
    size_t len = pipe ? fread(answer, 1, sizeof answer - 1, pipe) : 0;
    answer[len] = 0;
    check(pipe && pclose(pipe) == 0);
    return answer;
}
#define check_shell(sql, want) check_text(span_text(shell(sql)), (want))

static int try_open(const char *file, bool read_only, struct backend **ret_backend, struct err *err)
{
    struct sqlite_options options = {.create = true, .read_only = read_only};
    return sqlite_open(file, &options, ret_backend, err);
}

static struct backend *open_store(void)
{
    struct backend *backend = NULL;
    struct err err = {""};

    check_int(try_open(path, false, &backend, &err), 0);
    if (!backend) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return backend;
}

/* An item by its number. */
static int put_number(struct backend *backend, const struct table *table, unsigned number,
                      struct err *err)
{
    char key[16];

    snprintf(key, sizeof key, "%08u", number);
    struct action action = put_action(
        table, key_of(key, NULL),
        "{\"text\": \"a body of some length, so that pages of the file fill up, one by one\"}");
    return backend_write(backend, &action, 1, 0, err);
}

static void close_whole(struct backend *backend)
{
    backend_close(backend);
    check_shell("PRAGMA integrity_check", "ok\n");
}

#endif
