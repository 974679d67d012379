/* SPDX-License-Identifier: MIT */
/*
 * Calls: one thing done in some replicas, a task in each, by their threads or by the caller's.
 *
 * A call owns what its tasks need, and lives until the last of them has ended: a caller that has
 * waited long enough gives it up and goes. A task that has not begun by then never does; one that
 * has is told to stop (call->stop), and its replica begins no other until it has ended.
 */
#ifndef BACKEND_FOLDER_REPLICA_CALL_H
#define BACKEND_FOLDER_REPLICA_CALL_H

#include <errno.h>
#include <pthread.h>

#include "backend/folder/replica_disk.h"

#define REPLICA_THREADS_MOST 8 /* of a replica: what waits for its disk waits side by side */

enum task_state { TASK_QUEUED, TASK_RUNNING, TASK_DONE, TASK_DROPPED };

struct task {
    struct call *call;
    struct replica *replica; /* a reference */
    struct task *next;       /* guarded by replica->lock, as are: */
    enum task_state state;
    bool given_up; /* while it ran */

    bool late; /* the caller's: it was not done in time, and nothing below is to be read */

    /* What came of it: written by who runs it, read by the caller once it is done. */
    int code;
    int refused; /* negative errno, with code 0: nobody is to do it, for no fault of the replica */
    struct err err; /* of either */
    bool changed;
    struct file_stat stat;
    struct buf body;
    struct statvfs space;
    int64_t took_ns;
    int fd; /* -1: none */
};

typedef int (*task_fn)(struct task *task, const struct disk *disk);

struct call {
    task_fn run;
    struct file_op *ops; /* copies, in one block with what they point to */
    size_t op_count;
    bool durable, writing, sole, read_only;
    struct listing *listing;
    struct file_lock *lock; /* a reference */
    atomic_bool stop;

    pthread_mutex_t lock_of_state;
    pthread_cond_t done;
    size_t references, pending; /* guarded by lock_of_state */
    size_t count;
    struct task tasks[REPLICAS_MOST];
};

/* A call that is to do RUN with copies of OPS; NULL: no memory. */
struct call *call_new(task_fn run, const struct file_op *ops, size_t count);
void call_put(struct call *call); /* accepts NULL */
static inline void cleanup_call_put(struct call **call)
{
    call_put(*call);
}
#define cleanup_call cleanup(cleanup_call_put)

/* What a file or folder is called, for tasks that need no more. */
static inline struct file_op call_name(const char *folder, const char *name)
{
    return (struct file_op){.folder = folder, .name = name};
}
static inline int call_no_memory(struct err *err)
{
    return err_set(err, ENOMEM, "no memory");
}

/* Takes over the reference to REPLICA. */
void call_add(struct call *call, struct replica *replica);
/* Does it: ALONE, in this thread, if nothing was given up there. Once done, it may be done again.
 */
void call_do(struct call *call, int64_t timeout_ns, bool alone);
/* What came of a task, or -ETIMEDOUT. */
int task_result(const struct task *task, int64_t timeout_ns, struct err *err);

/* --- A replica and its threads --- */

enum replica_use {
    REPLICA_IN_USE,
    REPLICA_LEFT, /* out of use, which is not recorded yet: nothing may be answered meanwhile */
    REPLICA_OUT,
};

struct replica {
    atomic_uint references;
    char *path;
    size_t number;

    /* guarded by the set's lock */
    enum replica_use state;
    bool recording;
    char reason[ERR_TEXT_MAX];
    int64_t since_ns;

    pthread_mutex_t lock;
    pthread_cond_t work, ended;
    /* guarded by lock */
    struct disk disk;
    struct task *first, **last;
    unsigned queued, threads, idle;
    unsigned given_up; /* tasks that run and that nobody waits for */
    bool closing;
};

/* NULL: no memory. */
struct replica *replica_new(const char *path, size_t number, mode_t mode, uint32_t tag);
struct replica *replica_get(struct replica *replica);
void replica_put(struct replica *replica);
/* Ends its threads, but for what was given up, and puts it. */
void replica_close(struct replica *replica);
bool replica_is_busy(struct replica *replica);
struct disk replica_disk(struct replica *replica);
void replica_set_disk(struct replica *replica, const struct disk *disk);
void replica_queue(struct task *task);
/* Whether TASK has ended; else it is dropped, or given up. */
bool replica_has_ended(struct task *task);
/* Runs TASK in this thread. */
void replica_run(struct task *task);

/* Called by threads: TASK is done, and its call need not wait for it. */
void call_ended(struct call *call);

#endif
