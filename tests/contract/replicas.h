/* SPDX-License-Identifier: MIT */
/*
 * Places for tests of replicas: a directory with a folder for each, and what was recorded of them.
 * Disks (small ones, ones that hang) are mounted in a namespace of the test's own, so that nothing
 * is left when it ends; where that is not permitted, a test says so and is left out.
 */
#ifndef TESTS_CONTRACT_REPLICAS_H
#define TESTS_CONTRACT_REPLICAS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/folder/replica.h"
#include "tests/check.h"

#define PLACES_MOST 4
#define FREEZES_MOST 2

struct place {
    char directory[64];
    char paths[PLACES_MOST][96];
    size_t count;
    bool mounted[PLACES_MOST];
    struct replicas *set;
    pthread_mutex_t lock;
    char records[1024]; /* "out 1: REASON\n", "in 1\n" */
    int record_code;    /* what recording answers */
    bool read_only;
    int64_t timeout_ns;
    mode_t mode;
};

__attribute__((format(printf, 1, 2))) static inline void run(const char *format, ...)
{
    char command[1024];
    va_list values;

    va_start(values, format);
    vsnprintf(command, sizeof command, format, values);
    va_end(values);
    check_int(system(command), 0);
}

/* --- Disks --- */

static const char *why_not_mounted; /* NULL: it may be */

__attribute__((constructor)) static void enter_namespace(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        why_not_mounted = strerror(errno);
}

/* Whether the test is to be left out. */
static inline bool cannot_mount(void)
{
    if (why_not_mounted)
        fprintf(stderr, "%s: left out, mounting is not permitted: %s\n", check_running,
                why_not_mounted);
    return why_not_mounted;
}

static inline void mount_small(struct place *place, size_t at, const char *options)
{
    check_int(mount("tmpfs", place->paths[at], "tmpfs", 0, options), 0);
    place->mounted[at] = true;
}

/* A disk of 16 MB with a journal. */
static inline void mount_ext4(struct place *place, size_t at)
{
    run("truncate -s 16M %s/image%zu && mkfs.ext4 -q -F %s/image%zu && mount -o loop %s/image%zu "
        "%s",
        place->directory, at, place->directory, at, place->directory, at, place->paths[at]);
    place->mounted[at] = true;
}

/* A disk that hangs, one at a time. A process is told of the end of this one, to thaw it: a thread
 * that waits for it cannot be killed. */
static int frozen = -1;
static pid_t guard;

static inline void stand_guard(pid_t parent, const sigset_t *end)
{
    int number;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (getppid() == parent)
        sigwait(end, &number);
    ioctl(frozen, FITHAW, 0);
    _exit(0);
}

static inline void freeze(const struct place *place, size_t at)
{
    pid_t parent = getpid();
    sigset_t end, before;

    frozen = open(place->paths[at], O_RDONLY | O_CLOEXEC);
    sigemptyset(&end);
    sigaddset(&end, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &end, &before);
    guard = fork();
    if (guard == 0)
        stand_guard(parent, &end);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    check_int(ioctl(frozen, FIFREEZE, 0), 0);
}

static inline void thaw(void)
{
    check_int(ioctl(frozen, FITHAW, 0), 0);
    close(frozen);
    frozen = -1;
    kill(guard, SIGUSR1);
    check_int(waitpid(guard, NULL, 0), guard);
}

/* --- Places --- */

static inline int note_record(void *context, const char *path, const char *reason, int64_t since_ns,
                              struct err *err)
{
    struct place *place = context;

    pthread_mutex_lock(&place->lock);
    size_t len = strlen(place->records);
    snprintf(place->records + len, sizeof place->records - len, reason ? "out %c: %s\n" : "in %c\n",
             path[strlen(path) - 1], reason);
    int code = place->record_code;
    check((since_ns > 0) == (reason != NULL));
    pthread_mutex_unlock(&place->lock);
    return code < 0 ? err_set(err, -code, "cannot be recorded") : 0;
}

/* A place with COUNT folders, in which nothing is open yet. */
static inline struct place place_make(size_t count)
{
    struct place place = {.directory = "/var/tmp/itemfs-replica-XXXXXX",
                          .count = count,
                          .timeout_ns = 60 * INT64_C(1000000000),
                          .lock = PTHREAD_MUTEX_INITIALIZER};

    check(mkdtemp(place.directory));
    for (size_t i = 0; i < count; i++) {
        snprintf(place.paths[i], sizeof place.paths[i], "%s/%zu", place.directory, i);
        check_int(mkdir(place.paths[i], 0755), 0);
        check_int(chmod(place.paths[i], 0755), 0);
    }
    return place;
}

static inline int place_try_start(struct place *place, struct err *err)
{
    const char *paths[PLACES_MOST];

    for (size_t i = 0; i < place->count; i++)
        paths[i] = place->paths[i];
    struct replica_options options = {.paths = paths,
                                      .count = place->count,
                                      .timeout_ns = place->timeout_ns,
                                      .read_only = place->read_only,
                                      .mode = place->mode,
                                      .record = note_record,
                                      .context = place};
    return replicas_open(&options, &place->set, err);
}

static inline void expect_code(int code, const struct err *err)
{
    check_int(code, 0);
    check_text(span_text(err->text), "");
}

static inline void place_start(struct place *place)
{
    struct err err = {""};

    expect_code(place_try_start(place, &err), &err);
}

/* With a folder "t" in each. */
static inline void place_start_with_table(struct place *place)
{
    struct err err = {""};

    place_start(place);
    expect_code(replicas_make_folder(place->set, "t", &err), &err);
}

static inline void place_end(struct place *place)
{
    replicas_close(place->set);
    for (size_t i = 0; i < place->count; i++)
        if (place->mounted[i])
            check_int(umount2(place->paths[i], MNT_DETACH), 0);
    run("rm -rf %s", place->directory);
}

static inline void check_records(struct place *place, const char *want)
{
    pthread_mutex_lock(&place->lock);
    check_text(span_text(place->records), want);
    place->records[0] = '\0';
    pthread_mutex_unlock(&place->lock);
}

static inline bool is_in_use(struct place *place, size_t number)
{
    static struct replica_info info;

    replica_info(place->set, number, &info);
    return info.in_use;
}

/* --- Files, seen by the system --- */

static inline struct stat stat_of(const struct place *place, size_t at, const char *name)
{
    struct stat stat = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/%s", place->paths[at], name);
    if (lstat(path, &stat) < 0)
        check_fail("%s: %s", path, strerror(errno));
    return stat;
}

static inline bool is_there(const struct place *place, size_t at, const char *name)
{
    struct stat stat;
    char path[512];

    snprintf(path, sizeof path, "%s/%s", place->paths[at], name);
    return lstat(path, &stat) == 0;
}

static inline void write_file(const struct place *place, size_t at, const char *name,
                              const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", place->paths[at], name);
    FILE *file = fopen(path, "we");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static inline void check_file(const struct place *place, size_t at, const char *name,
                              const char *want)
{
    char path[512], text[4096] = "";

    snprintf(path, sizeof path, "%s/%s", place->paths[at], name);
    FILE *file = fopen(path, "re");
    if (!file) {
        check_fail("%s: %s", path, strerror(errno));
        return;
    }
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    check_span(span_of(text, len), span_text(want));
}

/* Of all names, hidden ones too. */
static inline int count_files(const struct place *place, size_t at, const char *folder)
{
    char path[512];
    int count = 0;

    snprintf(path, sizeof path, "%s/%s", place->paths[at], folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return dir ? count : -1;
}

/* --- Operations --- */

static inline struct file_op put_of(const char *name, const char *text, int64_t mtime_ns)
{
    return (struct file_op){.kind = FILE_PUT,
                            .folder = "t",
                            .name = name,
                            .body = span_text(text),
                            .mtime_ns = mtime_ns};
}

static inline int apply(struct place *place, const struct file_op *ops, size_t count,
                        struct err *err)
{
    bool changed;

    return replicas_apply(place->set, ops, count, false, &changed, err);
}

static inline void put(struct place *place, const char *name, const char *text, int64_t mtime_ns)
{
    struct file_op op = put_of(name, text, mtime_ns);
    struct err err = {""};

    expect_code(apply(place, &op, 1, &err), &err);
}

static inline void delete (struct place *place, const char *name)
{
    struct file_op op = {.kind = FILE_DELETE, .folder = "t", .name = name};
    struct err err = {""};

    expect_code(apply(place, &op, 1, &err), &err);
}

/* What replica_read says of t/NAME, and the text in BODY. */
static inline int read_back(struct place *place, size_t number, const char *name, struct buf *body,
                            struct file_stat *stat)
{
    buf_clear(body);
    return replica_read(place->set, number, "t", name, stat, body, NULL);
}

#endif
