/* SPDX-License-Identifier: MIT */
/* The contract over the embedded store; a file of its own for each test. After each, the sqlite3
 * shell, an independent reader, finds the file whole. */
#include "backend/sqlite/sqlite.h"
#include "tests/contract/fixture.h"

static char directory[] = "/tmp/itemfs-contract-XXXXXX";
static char path[64];

static struct backend *open_path(void)
{
    struct sqlite_options options = {.create = true, .max_item_size = 100000};
    struct backend *backend = NULL;
    struct err err = {""};

    check_int(sqlite_open(path, &options, &backend, &err), 0);
    if (!backend) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return backend;
}

static struct backend *open_new(void)
{
    static int count;

    snprintf(path, sizeof path, "%s/%d.db", directory, count++);
    return open_path();
}

static struct backend *open_again(struct backend *backend)
{
    (void)backend;
    return open_path();
}

static void close_and_check(struct backend *backend, bool remove)
{
    char command[200], answer[100] = "";

    backend_close(backend);
    if (!remove)
        return;
    snprintf(command, sizeof command, "sqlite3 %s 'PRAGMA integrity_check'", path);
    FILE *shell = popen(command, "r");
    check(shell && fgets(answer, sizeof answer, shell));
    check_text(span_text(answer), "ok\n");
    check_int(pclose(shell), 0);
    check_int(unlink(path), 0);
    snprintf(command, sizeof command, "%s-wal", path);
    check_int(access(command, F_OK), -1);
}

static const struct factory factory = {open_new, open_again, close_and_check, 1500};
#define FACTORY factory

#include "tests/contract/changes.h"
#include "tests/contract/expiry.h"
#include "tests/contract/items.h"
#include "tests/contract/scratch.h"
#include "tests/contract/streams.h"
#include "tests/contract/tables.h"
#include "tests/contract/updates.h"
#include "tests/contract/walks.h"

static void setup(void)
{
    if (!mkdtemp(directory))
        exit(1);
}

static void teardown(void)
{
    check_int(rmdir(directory), 0);
}

CHECK_MAIN(CHECK_TEST(setup), CONTRACT_ITEMS, CONTRACT_WALKS, CONTRACT_TABLES, CONTRACT_EXPIRY,
           CONTRACT_SCRATCH, CONTRACT_CHANGES, CONTRACT_STREAMS, CONTRACT_UPDATES,
           CHECK_TEST(teardown))
