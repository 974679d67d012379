/* SPDX-License-Identifier: MIT */
/* Files that are locked, in the first replica in use. */
#include "backend/folder/replica.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "backend/folder/replica_set.h"
#include "base/clock.h"

#define POLL_FIRST_NS 100000
#define POLL_MOST_NS 500000

static bool is_no_file(int code)
{
    return code == -ELOOP || code == -EINVAL || code == -ENXIO;
}

/* What is no regular file is no failure of its replica. */
static int run_lock(struct task *task, const struct disk *disk)
{
    const struct file_op *op = task->call->ops;
    int code = disk_lock(disk, op->folder, op->name, task->call->writing, task->call->sole,
                         &task->fd, &task->err);

    if (!is_no_file(code))
        return code;
    task->refused = code;
    return 0;
}

static int run_read(struct task *task, const struct disk *disk)
{
    int fd = task->call->lock->fd;
    int code = disk_read_fd(disk, fd, &task->stat, &task->body);

    task->stat.written = file_writers(fd) == WRITERS_SOME;
    return code;
}

static struct file_lock *lock_new(struct replicas *set, struct task *task)
{
    struct file_lock *lock = calloc(1, sizeof *lock);

    if (!lock)
        return NULL;
    atomic_init(&lock->references, 1);
    lock->replicas = set;
    lock->replica = replica_get(task->replica);
    lock->disk_path = task->replica->path;
    lock->fd = task->fd;
    task->fd = -1;
    return lock;
}

static int try_first(struct replicas *set, const struct file_op *op, bool writing, bool sole,
                     struct file_lock **ret_lock, struct err *err)
{
    bool alone;
    cleanup_call struct call *call = set_call_first(set, run_lock, op, 1, &alone);
    if (!call)
        return call_no_memory(err);
    call->writing = writing;
    call->sole = sole;
    int code = set_do_one(set, call, alone, err);
    if (code < 0)
        return code;
    struct task *task = &call->tasks[0];
    if (task->refused < 0)
        return err_set(err, -task->refused, "%s", task->err.text);
    *ret_lock = NULL;
    if (task->fd < 0)
        return 0;
    *ret_lock = lock_new(set, task);
    return *ret_lock ? 0 : call_no_memory(err);
}

/* The same in all: who cannot, where others can, leaves, and another one is the first. -EAGAIN is
 * an answer. */
static int try_all(struct replicas *set, const struct file_op *op, bool writing, struct err *err)
{
    bool alone;
    cleanup_call struct call *call = set_call(set, run_lock, op, 1, &alone);
    if (!call)
        return call_no_memory(err);
    call->writing = writing;
    int code = set_do(set, call, alone, -EAGAIN, set->timeout_ns, NULL, err);
    return code == -EAGAIN ? 0 : code;
}

static int try_lock(struct replicas *set, const struct file_op *op, bool writing, bool sole,
                    struct file_lock **ret_lock, struct err *err)
{
    struct err why = {""};
    int code = try_first(set, op, writing, sole, ret_lock, &why);

    if (is_no_file(code))
        return err_set(err, -code, "%s", why.text);
    if (code == 0 || code == -EAGAIN)
        return code;
    code = try_all(set, op, writing, err);
    return code < 0 ? code : -EAGAIN;
}

/*
 * There is no wait for such a lock that ends in time, so we ask again and again. Those who wait for
 * it in the system come first when it is free, but need a moment to wake up: we get it. Who has the
 * file open for writing may be one of them, or write without a lock: the lock is let go for him.
 */
int replicas_lock_file(struct replicas *set, const char *folder, const char *name,
                       enum file_lock_for purpose, struct file_lock **ret_lock, struct err *err)
{
    static const int64_t waits_ns[] = {[LOCK_TO_REPLACE] = FILE_LOCK_WAIT_NS,
                                       [LOCK_TO_MEND] = 0,
                                       [LOCK_TO_UPDATE] = UPDATE_LOCK_WAIT_NS};
    struct file_op op = call_name(folder, name);
    int64_t until_ns = clock_steady_ns() + waits_ns[purpose];
    long pause_ns = POLL_FIRST_NS;
    bool writing = purpose == LOCK_TO_UPDATE, sole = !writing;
    int code = names_check(folder, name, err);

    if (code < 0)
        return code;
    while ((code = try_lock(set, &op, writing, sole, ret_lock, err)) == -EAGAIN) {
        err_clear(err);
        bool late = clock_steady_ns() >= until_ns;
        if (late && (!sole || purpose == LOCK_TO_MEND))
            return err_set(err, EAGAIN, "%s%s%s is locked by another program", folder,
                           *folder ? "/" : "", name);
        sole = sole && !late;
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = pause_ns * 2 < POLL_MOST_NS ? pause_ns * 2 : POLL_MOST_NS;
    }
    return code;
}

int file_lock_read(struct file_lock *lock, struct file_stat *ret_stat, struct buf *body,
                   struct err *err)
{
    struct replicas *set = lock->replicas;
    bool alone;
    cleanup_call struct call *call =
        set_call_one(set, lock->replica->number, run_read, NULL, 0, &alone);
    if (!call)
        return call_no_memory(err);
    atomic_fetch_add(&lock->references, 1);
    call->lock = lock;
    return set_read(set, call, alone, ret_stat, body, err);
}

size_t file_lock_replica(const struct file_lock *lock)
{
    return lock->replica->number;
}

void file_lock_release(struct file_lock *lock)
{
    if (!lock || atomic_fetch_sub(&lock->references, 1) != 1)
        return;
    close(lock->fd);
    replica_put(lock->replica);
    free(lock);
}
