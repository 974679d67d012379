/* SPDX-License-Identifier: MIT */
/*
 * A replica's threads. They are started when they are needed, and take tasks in their order.
 * Locks: a replica's and a call's are never held together.
 */
#include "backend/folder/replica_call.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* --- The replica --- */

struct replica *replica_new(const char *path, size_t number, mode_t mode, uint32_t tag)
{
    struct replica *replica = calloc(1, sizeof *replica);

    if (!replica)
        return NULL;
    replica->path = strdup(path);
    if (!replica->path) {
        free(replica);
        return NULL;
    }
    replica->number = number;
    atomic_init(&replica->references, 1);
    pthread_mutex_init(&replica->lock, NULL);
    pthread_cond_init(&replica->work, NULL);
    pthread_cond_init(&replica->ended, NULL);
    replica->disk = (struct disk){.path = replica->path, .mode = mode, .tag = tag, .grain_ns = 1};
    replica->last = &replica->first;
    return replica;
}

struct replica *replica_get(struct replica *replica)
{
    atomic_fetch_add(&replica->references, 1);
    return replica;
}

void replica_put(struct replica *replica)
{
    if (atomic_fetch_sub(&replica->references, 1) != 1)
        return;
    pthread_cond_destroy(&replica->ended);
    pthread_cond_destroy(&replica->work);
    pthread_mutex_destroy(&replica->lock);
    free(replica->path);
    free(replica);
}

void replica_close(struct replica *replica)
{
    pthread_mutex_lock(&replica->lock);
    replica->closing = true;
    pthread_cond_broadcast(&replica->work);
    while (replica->threads > replica->given_up)
        pthread_cond_wait(&replica->ended, &replica->lock);
    pthread_mutex_unlock(&replica->lock);
    replica_put(replica);
}

bool replica_is_busy(struct replica *replica)
{
    scoped_lock(&replica->lock);
    return replica->given_up > 0;
}

struct disk replica_disk(struct replica *replica)
{
    scoped_lock(&replica->lock);
    return replica->disk;
}

void replica_set_disk(struct replica *replica, const struct disk *disk)
{
    scoped_lock(&replica->lock);
    replica->disk = *disk;
}

/* --- Tasks --- */

void replica_run(struct task *task)
{
    struct disk disk = replica_disk(task->replica);

    err_clear(&task->err);
    task->refused = 0;
    task->code = task->call->run(task, &disk);
}

/* The next task that may begin, or NULL; the thread is to end then. */
static struct task *take_locked(struct replica *replica)
{
    while (!replica->closing && (!replica->first || replica->given_up > 0)) {
        replica->idle++;
        pthread_cond_wait(&replica->work, &replica->lock);
        replica->idle--;
    }
    struct task *task = replica->given_up > 0 ? NULL : replica->first;
    if (!task)
        return NULL;
    replica->first = task->next;
    if (!replica->first)
        replica->last = &replica->first;
    replica->queued--;
    task->state = TASK_RUNNING;
    return task;
}

static void end_locked(struct replica *replica, struct task *task)
{
    task->state = TASK_DONE;
    if (!task->given_up)
        return;
    replica->given_up--;
    pthread_cond_broadcast(&replica->work); /* what has waited for its end */
}

static void *work(void *context)
{
    struct replica *replica = context;
    struct task *task;

    pthread_mutex_lock(&replica->lock);
    while ((task = take_locked(replica))) {
        pthread_mutex_unlock(&replica->lock);
        replica_run(task);
        pthread_mutex_lock(&replica->lock);
        end_locked(replica, task);
        pthread_mutex_unlock(&replica->lock);
        call_ended(task->call);
        pthread_mutex_lock(&replica->lock);
    }
    replica->threads--;
    pthread_cond_signal(&replica->ended);
    pthread_mutex_unlock(&replica->lock);
    replica_put(replica);
    return NULL;
}

/* Signals are for the threads of the program. */
static int start_thread(struct replica *replica)
{
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int code = pthread_create(&thread, &detached, work, replica_get(replica));
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0)
        replica_put(replica);
    return -code;
}

void replica_queue(struct task *task)
{
    struct replica *replica = task->replica;
    int code = 0;

    pthread_mutex_lock(&replica->lock);
    task->state = TASK_QUEUED;
    task->given_up = false;
    task->next = NULL;
    *replica->last = task;
    replica->last = &task->next;
    replica->queued++;
    if (replica->queued > replica->idle && replica->threads < REPLICA_THREADS_MOST &&
        replica->given_up == 0) {
        code = start_thread(replica);
        replica->threads += code == 0;
    }
    pthread_cond_signal(&replica->work);
    bool none = replica->threads == 0;
    pthread_mutex_unlock(&replica->lock);
    if (none && !replica_has_ended(task))
        task->code = code;
}

static void remove_locked(struct replica *replica, struct task *task)
{
    struct task **at = &replica->first;

    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    if (!*at)
        replica->last = at;
    replica->queued--;
    task->state = TASK_DROPPED;
}

bool replica_has_ended(struct task *task)
{
    struct replica *replica = task->replica;

    pthread_mutex_lock(&replica->lock);
    bool queued = task->state == TASK_QUEUED;
    bool ended = task->state == TASK_DONE;
    if (queued) {
        remove_locked(replica, task);
    } else if (task->state == TASK_RUNNING) {
        task->given_up = true;
        replica->given_up++;
    }
    pthread_mutex_unlock(&replica->lock);
    if (queued)
        call_ended(task->call);
    return ended;
}
