/* SPDX-License-Identifier: MIT */
#include "backend/folder/replica_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define GRACE_PART 10 /* of the timeout, waited for apart: see wait_all */

/* --- Copies --- */

static size_t copy_size(const struct file_op *ops, size_t count)
{
    size_t size = count * sizeof *ops;

    for (size_t i = 0; i < count; i++)
        size += strlen(ops[i].folder) + strlen(ops[i].name) + 2 + ops[i].body.len;
    return size;
}

static const char *copy(char **to, const char *data, size_t len)
{
    char *at = *to;

    if (len > 0)
        memcpy(at, data, len);
    *to += len;
    return at;
}

static struct file_op *copy_ops(const struct file_op *ops, size_t count)
{
    struct file_op *copies = malloc(copy_size(ops, count) + 1);

    if (!copies)
        return NULL;
    char *to = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        copies[i] = ops[i];
        copies[i].folder = copy(&to, ops[i].folder, strlen(ops[i].folder) + 1);
        copies[i].name = copy(&to, ops[i].name, strlen(ops[i].name) + 1);
        copies[i].body.data = copy(&to, ops[i].body.data, ops[i].body.len);
        if (ops[i].lock)
            atomic_fetch_add(&ops[i].lock->references, 1);
    }
    return copies;
}

/* --- A call --- */

struct call *call_new(task_fn run, const struct file_op *ops, size_t count)
{
    struct call *call = calloc(1, sizeof *call);
    pthread_condattr_t steady;

    if (!call)
        return NULL;
    call->ops = copy_ops(ops, count);
    if (!call->ops) {
        free(call);
        return NULL;
    }
    call->op_count = count;
    call->run = run;
    call->references = 1;
    pthread_mutex_init(&call->lock_of_state, NULL);
    /* not the clock that goes on while the machine sleeps: nobody has answered then */
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&call->done, &steady);
    pthread_condattr_destroy(&steady);
    return call;
}

static void call_free(struct call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        buf_release(&call->tasks[i].body);
        close_descriptor(&call->tasks[i].fd);
        replica_put(call->tasks[i].replica);
    }
    for (size_t i = 0; i < call->op_count; i++)
        file_lock_release(call->ops[i].lock);
    file_list_free(call->listing);
    file_lock_release(call->lock);
    pthread_cond_destroy(&call->done);
    pthread_mutex_destroy(&call->lock_of_state);
    free(call->ops);
    free(call);
}

void call_put(struct call *call)
{
    if (!call)
        return;
    pthread_mutex_lock(&call->lock_of_state);
    bool last = --call->references == 0;
    pthread_mutex_unlock(&call->lock_of_state);
    if (last)
        call_free(call);
}

void call_add(struct call *call, struct replica *replica)
{
    struct task *task = &call->tasks[call->count++];

    task->call = call;
    task->replica = replica;
    task->fd = -1;
    buf_init(&task->body, SIZE_MAX / 8);
}

void call_ended(struct call *call)
{
    pthread_mutex_lock(&call->lock_of_state);
    if (--call->pending == 0)
        pthread_cond_signal(&call->done);
    pthread_mutex_unlock(&call->lock_of_state);
    call_put(call);
}

/* Waits TIME_NS for all tasks; whether they have ended. */
static bool wait_for(struct call *call, int64_t time_ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    time_ns += until.tv_nsec;
    until.tv_sec += (time_t)(time_ns / NS_PER_S);
    until.tv_nsec = (long)(time_ns % NS_PER_S);
    scoped_lock(&call->lock_of_state);
    while (call->pending > 0)
        if (pthread_cond_timedwait(&call->done, &call->lock_of_state, &until) == ETIMEDOUT)
            break;
    return call->pending == 0;
}

/* The last part of the time is waited for apart: where all of the process was stopped for longer
 * than the first, the tasks have been, too, and are not to blame. */
static void wait_all(struct call *call, int64_t timeout_ns)
{
    int64_t grace_ns = timeout_ns / GRACE_PART;

    if (wait_for(call, timeout_ns - grace_ns) || wait_for(call, grace_ns))
        return;
    for (size_t i = 0; i < call->count; i++) {
        call->tasks[i].late = !replica_has_ended(&call->tasks[i]);
        if (call->tasks[i].late)
            atomic_store(&call->stop, true);
    }
}

void call_do(struct call *call, int64_t timeout_ns, bool alone)
{
    if (alone && call->count == 1 && !replica_is_busy(call->tasks[0].replica)) {
        replica_run(&call->tasks[0]);
        return;
    }
    pthread_mutex_lock(&call->lock_of_state);
    call->pending += call->count; /* one that has ended may not have said so yet */
    call->references += call->count;
    pthread_mutex_unlock(&call->lock_of_state);
    for (size_t i = 0; i < call->count; i++)
        replica_queue(&call->tasks[i]);
    wait_all(call, timeout_ns);
}

int task_result(const struct task *task, int64_t timeout_ns, struct err *err)
{
    if (task->late)
        return err_set(err, ETIMEDOUT, "%s did not answer within %.1f seconds", task->replica->path,
                       (double)timeout_ns / (double)NS_PER_S);
    return task->code < 0 ? err_set(err, -task->code, "%s", err_text(&task->err, task->code)) : 0;
}
