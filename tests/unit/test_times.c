/* SPDX-License-Identifier: MIT */
#include "backend/times.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32.h"
#include "base/text.h"
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

/* The slot of ID in a file that has one bucket, as its bytes are. */
struct raw_slot {
    int64_t id;
    char times[32];
    uint16_t seen;
    uint8_t flags[2];
    uint32_t check;
};

static off_t find_slot(int fd, int64_t id, struct raw_slot *ret_slot)
{
    off_t at = TIMES_BUCKET;

    while (pread(fd, ret_slot, sizeof *ret_slot, at) == sizeof *ret_slot && ret_slot->id != id)
        at += TIMES_SLOT;
    check_int(ret_slot->id, id);
    return at;
}

static void seen_days_ago(int64_t id, int days, bool whole)
{
    struct raw_slot slot;
    int fd = open(path, O_RDWR);
    off_t at = find_slot(fd, id, &slot);

    slot.seen = (uint16_t)(slot.seen - days);
    slot.check = crc32_of(span_of((const char *)&slot, sizeof slot - sizeof slot.check));
    slot.check ^= !whole;
    check_int(pwrite(fd, &slot, sizeof slot, at), sizeof slot);
    close(fd);
}

static void test_bounded(void)
{
    enum { SLOTS = TIMES_BUCKET / TIMES_SLOT, MORE = 20 };
    struct times *times = opened(SLOTS);
    struct times_row rows[SLOTS + MORE];
    int known = 0;
    bool meet;

    for (int i = 0; i < SLOTS + MORE; i++)
        rows[i] = row(100 + i, 1, 100 + i);
    times_meet(times, rows, SLOTS);
    for (int i = 0; i < SLOTS; i++)
        known += is_known(times, 100 + i, 1);
    check_int(known, SLOTS);
    /* So many were seen long ago, one more even longer; and that one is met again. */
    for (int i = 0; i < MORE + 1; i++)
        seen_days_ago(100 + 3 * i, i == 5 ? 9 : 2, true);
    check(times_find(times, &rows[15], &meet) && meet);
    times_meet(times, &rows[15], 1);
    check(times_find(times, &rows[15], &meet) && !meet);
    times_meet(times, rows + SLOTS, MORE);
    for (int i = 0; i < SLOTS + MORE; i++) {
        bool left = i <= 3 * MORE && i % 3 == 0 && i != 15;
        check(is_known(times, 100 + i, 1) == !left);
    }
    struct stat file;
    check_int(stat(path, &file), 0);
    check_int(file.st_size, 2 * TIMES_BUCKET);
    end(times);
}

static void test_half_written_is_unknown(void)
{
    struct times *times = opened(0);
    struct times_row noted[] = {row(1, 9, 100), row(2, 9, 200)};

    times_set(times, noted, 2);
    seen_days_ago(1, 0, false);
    check(!is_known(times, 1, 9) && is_known(times, 2, 9));
    times_meet(times, noted, 2);
    check(is_known(times, 1, 9) && is_known(times, 2, 9));
    end(times);
}

#define WRITERS 4
#define ROWS_EACH 5000

static void *meet_many(void *context)
{
    struct times *times = opened(0);
    int64_t first = (int64_t)(intptr_t)context * ROWS_EACH;

    for (int64_t i = first; i < first + ROWS_EACH; i++) {
        struct times_row met =
            row((int64_t)hash64(span_of((const char *)&i, sizeof i), 0), (uint64_t)i, 1000 + i);
        times_meet(times, &met, 1);
        check(is_known(times, met.id, (uint64_t)i));
    }
    times_close(times);
    return NULL;
}

/* Each as a process of its own would be; the table is doubled many times meanwhile. */
static void test_many_writers(void)
{
    pthread_t threads[WRITERS];

    for (intptr_t i = 0; i < WRITERS; i++)
        check_int(pthread_create(&threads[i], NULL, meet_many, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    struct times *times = opened(0);
    for (int64_t i = 0; i < WRITERS * ROWS_EACH; i++) {
        struct times_row found =
            row((int64_t)hash64(span_of((const char *)&i, sizeof i), 0), (uint64_t)i, 7);
        bool meet;
        check(times_find(times, &found, &meet) && found.mtime_ns == 1000 + i);
    }
    struct stat file;
    check_int(stat(path, &file), 0);
    check(file.st_size > WRITERS * ROWS_EACH * TIMES_SLOT &&
          file.st_size < 4 * WRITERS * ROWS_EACH * TIMES_SLOT);
    end(times);
}

static void test_what_is_no_such_file_is_made_anew(void)
{
    static const char *const spoiled[] = {
        "head -c 9000 /dev/urandom >$file",
        "printf 'SQLite format 3' >$file",
        ": >$file",
    };
    for (size_t i = 0; i < 2 * sizeof spoiled / sizeof spoiled[0]; i++) {
        struct times_row noted = row(1, 9, 100);
        struct times *times = i % 2 ? opened(0) : NULL; /* also while it is open */
        run("file=%s; %s", path, spoiled[i / 2]);
        times = times ? times : opened(0);
        check(!is_known(times, 1, 9));
        times_set(times, &noted, 1);
        check(is_known(times, 1, 9));
        end(times);
    }
}

/* Cut off while it is open, at any page and within one: it takes all rows again. */
static void test_cut_off(void)
{
    enum { ROWS = 2000 };
    for (long size = 100; size < 9 * TIMES_BUCKET; size += TIMES_BUCKET) {
        struct times *times = opened(ROWS);
        for (int64_t id = 0; id < ROWS; id++) {
            struct times_row noted = row(id, 9, 100);
            times_set(times, &noted, 1);
        }
        check_int(truncate(path, size), 0);
        for (int64_t id = 0; id < ROWS; id++) {
            struct times_row met = row(id, 9, 100);
            times_meet(times, &met, 1);
            check(is_known(times, id, 9));
        }
        end(times);
    }
}

/* Deleted while it is open: what was known is, as long as it stays open. */
static void test_deleted(void)
{
    struct times *times = opened(0);
    struct times_row noted = row(1, 9, 100);

    times_set(times, &noted, 1);
    check_int(unlink(path), 0);
    check(is_known(times, 1, 9));
    struct times *fresh = opened(0);
    check(!is_known(fresh, 1, 9));
    times_close(fresh);
    end(times);
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
    snprintf(path, sizeof path, "%s/times", directory);
}

CHECK_MAIN(CHECK_TEST(test_begin), CHECK_TEST(test_known_until_the_version_changes),
           CHECK_TEST(test_another_version_is_a_modification),
           CHECK_TEST(test_who_was_first_is_right), CHECK_TEST(test_it_stays),
           CHECK_TEST(test_bounded), CHECK_TEST(test_half_written_is_unknown),
           CHECK_TEST(test_many_writers), CHECK_TEST(test_deleted), CHECK_TEST(test_cut_off),
           CHECK_TEST(test_what_is_no_such_file_is_made_anew),
           CHECK_TEST(test_what_cannot_be_opened), CHECK_TEST(test_ids), CHECK_TEST(test_end))
