/* SPDX-License-Identifier: MIT */
#include "fs/spool.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/check.h"

#define MINUTE (60 * NS_PER_S)
#define DAY (24 * 60 * MINUTE)

static char directory[] = "/var/tmp/itemfs-spool-XXXXXX";

static void setup(void)
{
    check(mkdtemp(directory) != NULL);
}

static void teardown(void)
{
    check_int(rmdir(directory), 0); /* nothing was ever left in it */
}

static struct spool *opened(void)
{
    struct spool *spool = NULL;
    struct err err = {""};

    check_int(spool_new(directory, &spool, &err), 0);
    check_text(span_text(err.text), "");
    if (!spool)
        exit(1);
    return spool;
}

static void add(struct spool *spool, const char *text, int64_t time_ns)
{
    struct err err = {""};

    check_int(spool_add(spool, span_text(text), time_ns, &err), 0);
    check_text(span_text(err.text), "");
}

static void flush(struct spool *spool)
{
    struct err err = {""};

    check_int(spool_flush(spool, &err), 0);
}

/* What is at AT, SIZE bytes at most, is WANT. */
static void check_read(struct spool *spool, uint64_t at, size_t size, const char *want)
{
    cleanup(buf_release) struct buf out;
    struct err err = {""};

    buf_init(&out, 1 << 20);
    buf_add_text(&out, "<");
    check_int(spool_read(spool, at, size, &out, &err), 0);
    check_text(buf_from(&out, 1), want);
}

static void test_reads_anywhere(void)
{
    struct spool *spool = opened();

    check_read(spool, 0, 100, "");
    add(spool, "one\n", 1);
    add(spool, "two\n", 2);
    check_int(spool_newest(spool), 2);
    flush(spool);
    add(spool, "three\n", 3);
    check_int(spool_size(spool), 8); /* whole batches only */
    check_read(spool, 0, 100, "one\ntwo\n");
    flush(spool);
    check_int(spool_size(spool), 14);
    check_read(spool, 4, 100, "two\nthree\n");
    check_read(spool, 4, 3, "two");
    check_read(spool, 13, 100, "\n");
    check_read(spool, 14, 100, "");
    check_read(spool, 1000, 100, "");
    spool_free(spool);
}

static void test_has_no_name(void)
{
    struct spool *spool = opened();
    DIR *entries = opendir(directory);
    const struct dirent *entry;

    add(spool, "one\n", 1);
    flush(spool);
    while ((entry = readdir(entries)))
        check(entry->d_name[0] == '.');
    closedir(entries);
    spool_free(spool);
}

static void test_says_where_it_cannot_be(void)
{
    struct spool *spool = NULL;
    struct err err = {""};

    check_int(spool_new("/nowhere/at/all", &spool, &err), -ENOENT);
    check(strstr(err.text, "/nowhere/at/all (state_dir)") != NULL);
    check(!spool);
}

/* A record each half minute: ten bytes, "0000000NN\n". */
static struct spool *of_records(int count)
{
    struct spool *spool = opened();
    char text[16];

    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%09d\n", i);
        add(spool, text, i * MINUTE / 2);
    }
    flush(spool);
    return spool;
}

static void test_since(void)
{
    struct spool *spool = of_records(100);

    check_int(spool_since(spool, -1), 0);
    check_int(spool_since(spool, 0), 0);
    check_int(spool_since(spool, 10 * MINUTE), 200);
    check_int(spool_since(spool, 10 * MINUTE + MINUTE / 2), 200); /* a mark each minute */
    check_int(spool_since(spool, 11 * MINUTE - 1), 200);
    check_int(spool_since(spool, 11 * MINUTE), 220);
    check_int(spool_since(spool, 50 * MINUTE - 1), 980);
    check_int(spool_since(spool, 50 * MINUTE), 1000);
    check_int(spool_since(spool, DAY), 1000);
    check(!spool_is_older(spool, 200, 10 * MINUTE));
    check(spool_is_older(spool, 200, 10 * MINUTE + 1));
    check(!spool_is_older(spool, 0, 0));
    spool_free(spool);
    spool = opened();
    check_int(spool_since(spool, DAY), 0);
    check(!spool_is_older(spool, 0, DAY)); /* nothing is there that could be */
    spool_free(spool);
}

/* Records of different items come in any order: what is late stands where it came. */
static void test_times_that_go_back(void)
{
    struct spool *spool = opened();

    add(spool, "a\n", 10 * MINUTE);
    add(spool, "b\n", 2 * MINUTE);
    add(spool, "c\n", 10 * MINUTE + 1);
    add(spool, "d\n", 11 * MINUTE);
    flush(spool);
    check_int(spool_newest(spool), 11 * MINUTE);
    check_int(spool_since(spool, 3 * MINUTE), 0);
    check_int(spool_since(spool, 11 * MINUTE), 6);
    check_int(spool_since(spool, 12 * MINUTE), 8);
    spool_free(spool);
}

static void test_gives_up_its_beginning(void)
{
    struct spool *spool = opened();
    struct err err = {""};
    cleanup(buf_release) struct buf large, out;
    struct stat before, after;
    char path[64];

    buf_init(&out, 1 << 20);
    buf_init(&large, 1 << 20);
    for (int i = 0; i < 100000; i++)
        buf_add_text(&large, "12345678\n");
    check_int(spool_trim(spool, DAY, &err), 0); /* of nothing */
    for (int i = 0; i < 4; i++)
        check_int(spool_add(spool, buf_span(&large), i * MINUTE, &err), 0);
    flush(spool);
    /* The one open descriptor of a file without links. */
    for (int fd = 0; fd < 1000; fd++)
        if (fstat(fd, &before) == 0 && S_ISREG(before.st_mode) && before.st_nlink == 0) {
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            break;
        }
    check_int(before.st_size, 3600000);
    check_int(before.st_mode & 0777, 0600);
    check_int(spool_trim(spool, MINUTE - 1, &err), 0);
    check_read(spool, 0, 9, "12345678\n");
    check_int(spool_trim(spool, 2 * MINUTE + 1, &err), 0);
    check_text(span_text(err.text), "");
    check_int(stat(path, &after), 0);
    check_int(after.st_size, 3600000);
    check(after.st_blocks * 512 < before.st_blocks * 512 - 1700000);
    check_int(spool_read(spool, 0, 9, &out, &err), -EIO);
    check(strstr(err.text, "too old") != NULL);
    check_int(spool_read(spool, 1799999, 9, &out, &err), -EIO);
    check_read(spool, 1800000, 9, "12345678\n");
    check_int(spool_size(spool), 3600000);
    check_int(spool_since(spool, 0), 1800000);
    check(spool_is_older(spool, 0, 0));
    check(spool_is_older(spool, 900000, 0));
    check(!spool_is_older(spool, 1800000, 2 * MINUTE));
    check_int(spool_trim(spool, DAY, &err), 0);
    check_int(spool_since(spool, 0), 3600000);
    add(spool, "after\n", DAY);
    flush(spool);
    check_read(spool, 3600000, 9, "after\n");
    check_int(spool_since(spool, DAY), 3600000);
    check(!spool_is_older(spool, 3600000, DAY));
    spool_free(spool);
}

/* A filesystem that takes no more: what was there stays, and nothing follows. */
static void test_full(void)
{
    struct rlimit whole, limit;
    struct err err = {""};
    struct spool *spool = opened();

    getrlimit(RLIMIT_FSIZE, &whole);
    limit = (struct rlimit){10, whole.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    check_int(setrlimit(RLIMIT_FSIZE, &limit), 0);
    add(spool, "one\n", 1);
    flush(spool);
    add(spool, "two two two\n", 2);
    check_int(spool_flush(spool, &err), -EFBIG);
    check(strstr(err.text, directory) != NULL && strstr(err.text, "(state_dir)") != NULL);
    check_int(setrlimit(RLIMIT_FSIZE, &whole), 0);
    check_int(spool_flush(spool, &err), -EFBIG);
    check_int(spool_add(spool, span_text("three\n"), DAY, &err), -EFBIG);
    check_int(spool_size(spool), 4);
    check_read(spool, 0, 100, "one\n");
    spool_free(spool);
}

/* --- One writes, others read --- */

#define LINES 200000

static void *read_along(void *context)
{
    struct spool *spool = context;
    struct err err = {""};
    cleanup(buf_release) struct buf out;
    char want[16];
    uint64_t at = 0;

    buf_init(&out, 1 << 20);
    while (at < LINES * 10) {
        buf_clear(&out);
        int code = spool_read(spool, at, 4000, &out, &err);
        if (code == -EIO) { /* it was slower than the trimming */
            at = spool_since(spool, 0);
            err_clear(&err);
            continue;
        }
        check_int(code, 0);
        check_int(out.len % 10, 0);
        for (size_t i = 0; i < out.len; i += 10, at += 10) {
            snprintf(want, sizeof want, "%09u\n", (unsigned)(at / 10));
            if (memcmp(out.data + i, want, 10) != 0)
                check_fail("%.10s is not %s", out.data + i, want);
        }
    }
    return NULL;
}

static void test_readers_see_what_was_written(void)
{
    struct spool *spool = opened();
    pthread_t readers[3];
    struct err err = {""};
    char text[16];

    for (int i = 0; i < 3; i++)
        pthread_create(&readers[i], NULL, read_along, spool);
    for (unsigned i = 0; i < LINES; i++) {
        snprintf(text, sizeof text, "%09u\n", i);
        add(spool, text, i * NS_PER_S);
        if (i % 100 == 99)
            flush(spool);
        if (i % 5000 == 4999)
            check_int(spool_trim(spool, (i - 2000) * NS_PER_S, &err), 0);
    }
    flush(spool);
    for (int i = 0; i < 3; i++)
        pthread_join(readers[i], NULL);
    spool_free(spool);
}

CHECK_MAIN(CHECK_TEST(setup), CHECK_TEST(test_reads_anywhere), CHECK_TEST(test_has_no_name),
           CHECK_TEST(test_says_where_it_cannot_be), CHECK_TEST(test_since),
           CHECK_TEST(test_times_that_go_back), CHECK_TEST(test_gives_up_its_beginning),
           CHECK_TEST(test_full), CHECK_TEST(test_readers_see_what_was_written),
           CHECK_TEST(teardown))
