/* SPDX-License-Identifier: MIT */
/* Locks that are shared with other programs, and files that are changed in place under them. */
#include "tests/contract/replicas.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/cleanup.h"

#define TIME_NS INT64_C(1234567890123456789)

static int lock_path(const struct place *place, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", place->paths[0], name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    check(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    return fd;
}

static void test_lock(void)
{
    struct place place = place_make(2);
    struct file_lock *lock = NULL;
    struct err err = {""};
    char path[512];
    place_start_with_table(&place);

    check_int(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_REPLACE, &lock, NULL), 0);
    check(!lock);
    put(&place, "a.json", "1", TIME_NS);
    expect_code(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_REPLACE, &lock, &err), &err);
    check(lock && file_lock_replica(lock) == 0);
    snprintf(path, sizeof path, "%s/t/a.json", place.paths[0]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
    file_lock_release(lock);
    check_int(flock(fd, LOCK_EX | LOCK_NB), 0);
    check_int(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_REPLACE, &lock, &err), -EAGAIN);
    check_text(span_text(err.text), "t/a.json is locked by another program");
    close(fd);
    run("ln -s a.json %s/t/link", place.paths[0]);
    check_int(replicas_lock_file(place.set, "t", "link", LOCK_TO_REPLACE, &lock, NULL), 0);
    check(!lock);
    check_int(replicas_lock_file(place.set, "t", "link", LOCK_TO_UPDATE, &lock, NULL), -ELOOP);
    place_end(&place);
}

/* The lock is in the first one that can be locked; one that cannot, where others can, goes out. */
static void test_lock_in_the_next(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(3);
    struct file_lock *lock = NULL;
    struct err err = {""};
    mount_small(&place, 0, "size=64k");
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    check_int(mount("none", place.paths[0], NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    expect_code(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_UPDATE, &lock, &err), &err);
    check(lock && file_lock_replica(lock) == 1 && !is_in_use(&place, 0));
    file_lock_release(lock);
    run("rm -r %s/t %s/t", place.paths[1], place.paths[2]);
    check_int(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_UPDATE, &lock, NULL), -ENOENT);
    check(is_in_use(&place, 1) && is_in_use(&place, 2));
    place_end(&place);
}

struct holder {
    struct place *place;
    int fd;
};

/* Gives NAME to another file, and the lock of the one before back. */
static void *replace_and_unlock(void *context)
{
    const struct holder *holder = context;

    put(holder->place, "a.json", "22", TIME_NS);
    close(holder->fd);
    return NULL;
}

/* The lock that is had is the one of the file that has the name then. */
static void test_locked_file_is_the_one_of_that_name(void)
{
    struct place place = place_make(1);
    struct file_lock *lock = NULL;
    struct err err = {""};
    struct file_stat stat;
    pthread_t thread;
    cleanup(buf_release) struct buf body = {0};
    buf_init(&body, 100);
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    struct holder holder = {&place, lock_path(&place, "t/a.json")};
    check_int(pthread_create(&thread, NULL, replace_and_unlock, &holder), 0);
    expect_code(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_UPDATE, &lock, &err), &err);
    pthread_join(thread, NULL);
    if (lock) {
        check_int(file_lock_read(lock, &stat, &body, NULL), 0);
        check_span(buf_span(&body), span_text("22"));
        check(stat.inode == stat_of(&place, 0, "t/a.json").st_ino);
    }
    file_lock_release(lock);
    place_end(&place);
}

static struct file_op update_of(struct file_lock *lock, const char *text)
{
    struct file_op op = put_of("a.json", text, TIME_NS);

    op.kind = FILE_UPDATE;
    op.lock = lock;
    return op;
}

/* What the file shows just before it is cut off: the linker sends that call here (--wrap). */
static char before_cut[100];
int __real_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len)
{
    ssize_t got = pread(fd, before_cut, sizeof before_cut - 1, 0);

    before_cut[got > 0 ? got : 0] = '\0';
    return __real_ftruncate(fd, len);
}

static void test_update(void)
{
    struct place place = place_make(2);
    struct file_lock *lock = NULL;
    struct err err = {""};
    place_start_with_table(&place);

    put(&place, "a.json", "9", 1);
    uint64_t first = stat_of(&place, 0, "t/a.json").st_ino;
    uint64_t second = stat_of(&place, 1, "t/a.json").st_ino;
    expect_code(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_UPDATE, &lock, &err), &err);
    static const char *const texts[] = {"10", "-123456", "7", ""};
    for (size_t i = 0; i < 4; i++) {
        struct file_op op = update_of(lock, texts[i]);
        expect_code(apply(&place, &op, 1, &err), &err);
        for (size_t at = 0; at < 2; at++) {
            check_file(&place, at, "t/a.json", texts[i]);
            check_int(stat_of(&place, at, "t/a.json").st_mtim.tv_nsec, 123456789);
        }
        check(i > 0 || stat_of(&place, 1, "t/a.json").st_ino != second);
        if (i == 2) /* no digit of the old text behind the new one */
            check_text(span_text(before_cut), "7      ");
    }
    check(stat_of(&place, 0, "t/a.json").st_ino == first);
    /* another file has the name: that one is replaced, not the one that is locked */
    put(&place, "a.json", "other", 1);
    struct file_op op = update_of(lock, "11");
    expect_code(apply(&place, &op, 1, &err), &err);
    check_file(&place, 0, "t/a.json", "11");
    file_lock_release(lock);
    place_end(&place);
}

/* On a disk that is full the old text is there again. */
static void test_update_without_space(void)
{
    static char large[200001];
    if (cannot_mount())
        return;
    struct place place = place_make(1);
    struct file_lock *lock = NULL;
    mount_small(&place, 0, "size=64k");
    place_start_with_table(&place);
    memset(large, ' ', sizeof large - 1);

    put(&place, "a.json", "12", 5);
    check_int(replicas_lock_file(place.set, "t", "a.json", LOCK_TO_UPDATE, &lock, NULL), 0);
    struct file_op op = update_of(lock, large);
    check_int(apply(&place, &op, 1, NULL), -ENOSPC);
    check_file(&place, 0, "t/a.json", "12");
    check_int(stat_of(&place, 0, "t/a.json").st_mtim.tv_nsec, 5);
    file_lock_release(lock);
    place_end(&place);
}

/* --- Counting, beside others --- */

#define PROCESSES 4
#define COUNTS 200

/* As the tag store's client does it. */
static void count_as_others(const char *path)
{
    for (int i = 0; i < COUNTS; i++) {
        char text[32] = "";
        int fd = open(path, O_RDWR | O_APPEND);
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || read(fd, text, sizeof text - 1) <= 0)
            _exit(1);
        int len = snprintf(text, sizeof text, "%ld", strtol(text, NULL, 10) + 1);
        if (ftruncate(fd, 0) < 0 || write(fd, text, (size_t)len) != len)
            _exit(1);
        close(fd);
    }
    _exit(0);
}

static void count_as_we_do(struct place *place)
{
    struct buf body;

    buf_init(&body, 100);
    place_start(place);
    for (int i = 0; i < COUNTS; i++) {
        struct file_lock *lock = NULL;
        struct file_stat stat;
        char text[32];
        int code;
        do
            code = replicas_lock_file(place->set, "t", "a.json", LOCK_TO_UPDATE, &lock, NULL);
        while (code == -EAGAIN);
        buf_clear(&body);
        if (code < 0 || !lock || file_lock_read(lock, &stat, &body, NULL) < 0 || body.len == 0)
            _exit(1);
        snprintf(text, sizeof text, "%ld", strtol(body.data, NULL, 10) + 1);
        struct file_op op = update_of(lock, text);
        if (apply(place, &op, 1, NULL) < 0)
            _exit(1);
        file_lock_release(lock);
    }
    replicas_close(place->set);
    buf_release(&body);
    _exit(check_failures > 0);
}

static void test_exact_beside_others(void)
{
    struct place place = place_make(2);
    char path[512];
    place_start_with_table(&place);
    snprintf(path, sizeof path, "%s/t/a.json", place.paths[0]);

    put(&place, "a.json", "0", TIME_NS);
    replicas_close(place.set);
    place.set = NULL;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        if (child == 0 && i % 2 == 0)
            count_as_others(path);
        if (child == 0)
            count_as_we_do(&place);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        check(wait(&status) > 0);
        check_int(status, 0);
    }
    char want[32];
    snprintf(want, sizeof want, "%d", PROCESSES * COUNTS);
    check_file(&place, 0, "t/a.json", want);
    place_end(&place);
}

CHECK_MAIN(CHECK_TEST(test_lock), CHECK_TEST(test_lock_in_the_next),
           CHECK_TEST(test_locked_file_is_the_one_of_that_name), CHECK_TEST(test_update),
           CHECK_TEST(test_update_without_space), CHECK_TEST(test_exact_beside_others))
