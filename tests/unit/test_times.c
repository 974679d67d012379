/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/times.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

static char directory[] = "/tmp/itemfs-times-XXXXXX";
static char path[64];

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char command[512];
    va_list values;

    va_start(values, format);
    vsnprintf(command, sizeof command, format, values);
    va_end(values);
    check_int(system(command), 0);
}

static struct times *opened(uint64_t most)
{
    struct times *times = NULL;
    struct err err = {""};

    check_int(times_open(path, most, &times, &err), 0);
    check_text(span_text(err.text), "");
    return times;
}

static void end(struct times *times)
{
    times_close(times);
    run("rm -f %s/*", directory);
}

static struct times_row row(int64_t id, uint64_t version, int64_t mtime_ns)
{
    return (struct times_row){id, version, mtime_ns, mtime_ns + 1, mtime_ns + 2, false};
}

static bool is_known(struct times *times, int64_t id, uint64_t version)
{
    struct times_row found = row(id, version, 0);
    bool meet;

    return times_find(times, &found, &meet);
}

static void test_known_until_the_version_changes(void)
{
    struct times *times = opened(0);
    struct times_row rows[] = {row(-5, UINT64_MAX, 100), row(6, 1, 200)};
    struct times_row found = row(-5, UINT64_MAX, 7);
    bool meet = false;

    check(!times_find(times, &found, &meet) && meet);
    check_int(found.mtime_ns, 7);
    times_meet(times, rows, 2);
    check(times_find(times, &found, &meet) && !meet);
    check_int(found.mtime_ns, 100);
    check_int(found.ctime_ns, 101);
    check(found.change_ns == 102 && !found.modified);
    check(!is_known(times, -5, 1));
    rows[0] = row(-5, 2, 300);
    times_meet(times, rows, 1);
    check(is_known(times, -5, 2) && !is_known(times, -5, UINT64_MAX) && is_known(times, 6, 1));
    end(times);
}

static void test_another_version_is_a_modification(void)
{
    struct times *times = opened(0);
    struct times_row first = row(1, 7, 100), second = row(1, 8, 200), unknown = row(2, 7, 100);
    bool meet;

    times_meet(times, &first, 1);
    check(!first.modified);
    check(!times_find(times, &second, &meet) && second.modified && second.mtime_ns == 200);
    check(!times_find(times, &unknown, &meet) && !unknown.modified);
    times_meet(times, &second, 1);
    second = row(1, 8, 300);
    check(times_find(times, &second, &meet) && second.modified && second.change_ns == 202);
    end(times);
}

static void test_who_was_first_is_right(void)
{
    struct times *a = opened(0), *b = opened(0);
    struct times_row of_a = row(1, 9, 100), of_b = row(1, 9, 200);

    times_meet(a, &of_a, 1);
    times_meet(b, &of_b, 1);
    check_int(of_b.mtime_ns, 100);
    of_b = row(1, 9, 300);
    times_set(b, &of_b, 1);
    of_a = row(1, 9, 0);
    times_meet(a, &of_a, 1);
    check_int(of_a.mtime_ns, 300);
    times_close(b);
    end(a);
}

static void test_it_stays(void)
{
    struct times *times = opened(0);
    struct times_row noted = row(1, 9, 100);
    struct stat file;

    times_set(times, &noted, 1);
    times_close(times);
    check_int(stat(path, &file), 0);
    check_int(file.st_mode & 0777, 0600);
    times = opened(0);
    check(is_known(times, 1, 9));
    end(times);
}

static void test_bounded(void)
{
    struct times *times = opened(16);
    struct times_row rows[20];
    int known = 0;
    bool meet;

    for (int i = 0; i < 20; i++)
        rows[i] = row(i, 1, 100 + i);
    times_meet(times, rows, 16);
    times_trim(times);
    for (int i = 0; i < 16; i++)
        known += is_known(times, i, 1);
    check_int(known, 16);
    times_meet(times, rows + 16, 4);
    /* All but three were seen long ago; one of these is met again. */
    run("sqlite3 %s 'UPDATE times SET seen = seen - 2 WHERE id NOT IN (3, 7, 19)'", path);
    check(times_find(times, &rows[5], &meet) && meet);
    times_meet(times, &rows[5], 1);
    check(times_find(times, &rows[5], &meet) && !meet);
    times_trim(times);
    known = 0;
    for (int i = 0; i < 20; i++)
        known += is_known(times, i, 1);
    check_int(known, 14); /* an eighth below the bound */
    check(is_known(times, 3, 1) && is_known(times, 5, 1) && is_known(times, 7, 1) &&
          is_known(times, 19, 1));
    end(times);
}

static void test_what_is_no_such_file_is_made_anew(void)
{
    static const char *const spoiled[] = {
        "head -c 9000 /dev/urandom >$db",
        "sqlite3 $db 'CREATE TABLE times(id INTEGER PRIMARY KEY, other)'",
        ": >$db",
    };
    for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
        struct times_row noted = row(1, 9, 100);
        run("db=%s; %s", path, spoiled[i]);
        struct times *times = opened(0);
        times_set(times, &noted, 1);
        check(is_known(times, 1, 9));
        end(times);
    }
}

static void test_what_cannot_be_opened(void)
{
    struct times *times = NULL;
    struct err err = {""};

    check_int(symlink("/dev/null", path), 0);
    check_int(times_open(path, 0, &times, &err), -ELOOP);
    check(strstr(err.text, path) != NULL && !times);
    run("rm -f %s", path);
}

static void test_ids(void)
{
    struct key key = {span_text("a"), span_text("b")}, whole = {span_text("ab"), span_text("")};

    check_int(times_id(7, key), times_id(7, key));
    check(times_id(7, key) != times_id(8, key));
    check(times_id(7, key) != times_id(7, whole));
}

static void test_end(void)
{
    check_int(rmdir(directory), 0);
}

static void test_begin(void)
{
    check(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/times.db", directory);
}

CHECK_MAIN(CHECK_TEST(test_begin), CHECK_TEST(test_known_until_the_version_changes),
           CHECK_TEST(test_another_version_is_a_modification),
           CHECK_TEST(test_who_was_first_is_right), CHECK_TEST(test_it_stays),
           CHECK_TEST(test_bounded), CHECK_TEST(test_what_is_no_such_file_is_made_anew),
           CHECK_TEST(test_what_cannot_be_opened), CHECK_TEST(test_ids), CHECK_TEST(test_end))
