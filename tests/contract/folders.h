/* SPDX-License-Identifier: MIT */
/* The contract over folders of files: a program says how many REPLICAS there are, and includes
 * this. Each test has folders of its own. Beside the object that watches, others look by
 * themselves. After each test every file is what the state database has, in every replica, which
 * another object over it, made anew, finds out. */
#ifndef TESTS_CONTRACT_FOLDERS_H
#define TESTS_CONTRACT_FOLDERS_H

#include <ftw.h>
#include <sys/stat.h>

#include "backend/folder/folder.h"
#include "backend/sqlite/sqlite.h"
#include "tests/contract/fixture.h"

static char directory[] = "/tmp/itemfs-folders-XXXXXX";
static char place[64];

/* As in `[table] tag_rule = any`: the contract is about any keys. */
static void configure(const void *context, struct table *table)
{
    (void)context;
    table->strict_tags = false;
}

static struct backend *open_handle(const char *database, bool imports)
{
    const struct sqlite_options options = {
        .create = true, .max_item_size = 100000, .leave_expired = true, .show_expired = imports};
    struct backend *backend = NULL;
    struct err err = {""};

    check_int(sqlite_open(database, &options, &backend, &err), 0);
    check_text(span_text(err.text), "");
    if (!backend)
        exit(1);
    return backend;
}

static struct backend *open_place(bool watch)
{
    char roots[REPLICAS][80], lock[80], database[80];
    const char *paths[REPLICAS];
    struct folder_options options = {.paths = paths,
                                     .count = REPLICAS,
                                     .timeout_ns = 60 * NS_PER_S,
                                     .lock_path = lock,
                                     .watch = watch,
                                     .scan_ns = NS_PER_S,
                                     .configure = configure};
    struct backend *backend = NULL;
    struct err err = {""};

    for (int i = 0; i < REPLICAS; i++) {
        snprintf(roots[i], sizeof roots[i], "%s/root%d", place, i);
        paths[i] = roots[i];
    }
    snprintf(lock, sizeof lock, "%s/lock", place);
    snprintf(database, sizeof database, "%s/state.db", place);
    check_int(folder_open(open_handle(database, false), open_handle(database, true), &options,
                          &backend, &err),
              0);
    check_text(span_text(err.text), "");
    if (!backend)
        exit(1);
    return backend;
}

static struct backend *open_new(void)
{
    static int count;
    char root[80];

    snprintf(place, sizeof place, "%s/%d", directory, count++);
    check_int(mkdir(place, 0755), 0);
    for (int i = 0; i < REPLICAS; i++) {
        snprintf(root, sizeof root, "%s/root%d", place, i);
        check_int(mkdir(root, 0755), 0);
    }
    return open_place(true);
}

static struct backend *open_again(struct backend *backend)
{
    (void)backend;
    return open_place(false);
}

static int count_files, count_copies, count_temporaries;

static void read_file(const char *path, struct buf *body)
{
    char bytes[4096];
    FILE *file = fopen(path, "re");

    check(file);
    for (size_t got; file && (got = fread(bytes, 1, sizeof bytes, file)) > 0;)
        buf_add(body, bytes, got);
    if (file)
        fclose(file);
}

/* The file of the other replicas has the same bytes and the same time. */
static void check_copies(const char *path, const struct stat *stat)
{
    struct buf body, other;
    char copy[512];

    buf_init(&body, 1 << 20);
    buf_init(&other, 1 << 20);
    read_file(path, &body);
    for (int i = 1; i < REPLICAS; i++) {
        struct stat copied = {0};
        snprintf(copy, sizeof copy, "%s", path);
        strstr(copy, "/root0/")[5] = (char)('0' + i);
        buf_clear(&other);
        read_file(copy, &other);
        check_span(buf_span(&other), buf_span(&body));
        check_int(lstat(copy, &copied), 0);
        check_int(copied.st_mtim.tv_sec, stat->st_mtim.tv_sec);
        check_int(copied.st_mtim.tv_nsec, stat->st_mtim.tv_nsec);
    }
    buf_release(&body);
    buf_release(&other);
}

static int look_at(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    const char *name = path + ftw->base;

    if (type == FTW_F && strstr(path, "/root0/")) {
        count_files++;
        count_temporaries += name[0] == '.';
        check_copies(path, stat);
    } else if (type == FTW_F && strstr(path, "/root")) {
        count_copies++;
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int count_entry(void *context, const struct record *record)
{
    (void)record;
    ++*(int *)context;
    return 0;
}

struct counting {
    struct table *tables[16];
    int count;
};

static int copy_table(void *context, const struct table *table)
{
    struct counting *counting = context;

    if (counting->count < 16)
        counting->tables[counting->count++] = table_copy(table);
    return 0;
}

/* As many files as items that are told (or have expired), and nothing else. */
static void check_files(struct backend *backend)
{
    struct counting counting = {.count = 0};
    const struct walk walk = {.limit = 0};
    struct err err = {""};
    int items = 0;

    maintain(backend);
    check_int(backend_tables(backend, copy_table, &counting, &err), 0);
    for (int i = 0; i < counting.count; i++) {
        check_int(backend_walk(backend, counting.tables[i], &walk, count_entry, &items, &err), 0);
        table_free(counting.tables[i]);
    }
    count_files = count_copies = count_temporaries = 0;
    check_int(nftw(place, look_at, 8, FTW_PHYS), 0);
    check_int(count_temporaries, 0);
    check_int(count_files, items);
    check_int(count_copies, items * (REPLICAS - 1));
}

static void close_and_check(struct backend *backend, bool remove)
{
    uint64_t before = 0, after = 0;
    struct err err = {""};

    if (remove) {
        check_files(backend);
        check_int(backend_log_position(backend, &before, &err), 0);
    }
    backend_close(backend);
    if (!remove)
        return;
    /* Another start finds nothing that is to be done. */
    backend = open_place(true);
    check_int(backend_log_position(backend, &after, &err), 0);
    check_int(after, before);
    backend_close(backend);
    check_int(nftw(place, remove_one, 8, FTW_PHYS | FTW_DEPTH), 0);
}

static const struct factory factory = {open_new, open_again, close_and_check, 300};
#define FACTORY factory

#include "tests/contract/changes.h"
#include "tests/contract/expiry.h"
#include "tests/contract/items.h"
#include "tests/contract/scratch.h"
#include "tests/contract/streams.h"
#include "tests/contract/tables.h"
#include "tests/contract/updates.h"
#include "tests/contract/walks.h"

static ino_t inode_of(int replica, const char *name)
{
    char path[128];
    struct stat stat = {0};

    snprintf(path, sizeof path, "%s/root%d/%s", place, replica, name);
    check_int(lstat(path, &stat), 0);
    return stat.st_ino;
}

/* What is refused is refused before any file goes: none has to be made again. */
static void stale_deletions_leave_the_file(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action put = put_action(t, key_of("ada", NULL), "{\"n\": 1}");
    struct action other = put_action(t, key_of("bob", NULL), "2");
    struct err err = {""};
    ino_t before[REPLICAS];

    put.mtime_ns = 1000 * NS_PER_S;
    check_int(apply(b, &put), 0);
    check_int(apply(b, &other), 0);
    struct action gone = delete_action(t, put.key);
    gone.condition = (struct condition){COND_VERSION, put.meta.version};
    gone.mtime_ns = put.meta.mtime_ns;
    put.mtime_ns = 2000 * NS_PER_S;
    check_int(apply(b, &put), 0); /* the same bytes: the version stays, the mtime has moved */
    for (int i = 0; i < REPLICAS; i++)
        before[i] = inode_of(i, "users/ada.json");
    check_int(apply(b, &gone), -ESTALE);
    struct action both[2] = {delete_action(t, other.key), gone};
    check_int(backend_write(b, both, 2, 0, &err), -ESTALE);
    gone.condition.version++;
    gone.mtime_ns = put.meta.mtime_ns;
    check_int(apply(b, &gone), -ESTALE);
    for (int i = 0; i < REPLICAS; i++)
        check(inode_of(i, "users/ada.json") == before[i]);
    check_get(b, t, "ada", NULL, "{\"n\": 1}");
    check_get(b, t, "bob", NULL, "2");
    gone.condition.version--;
    check_int(apply(b, &gone), 0);
    check_absent(b, t, "ada");
    table_free(t);
    FACTORY.close(b, true);
}

static void setup(void)
{
    fixture_lacks = 1u << LACK_SORTED;
    if (!mkdtemp(directory))
        exit(1);
}

static void teardown(void)
{
    check_int(rmdir(directory), 0);
}

CHECK_MAIN(CHECK_TEST(setup), CONTRACT_ITEMS, CONTRACT_WALKS, CONTRACT_TABLES, CONTRACT_EXPIRY,
           CONTRACT_SCRATCH, CONTRACT_CHANGES, CONTRACT_STREAMS, CONTRACT_UPDATES,
           CHECK_TEST(stale_deletions_leave_the_file), CHECK_TEST(teardown))

#endif
