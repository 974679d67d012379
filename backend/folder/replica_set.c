/* SPDX-License-Identifier: MIT */
#include "backend/folder/replica_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* --- Who is in use --- */

size_t set_in_use_locked(const struct replicas *set)
{
    size_t in_use = 0;

    for (size_t i = 0; i < set->count; i++)
        in_use += set->slots[set->order[i]]->state == REPLICA_IN_USE;
    return in_use;
}

void set_leave_locked(struct replica *replica, const char *reason, int64_t since_ns)
{
    if (replica->state != REPLICA_IN_USE)
        return;
    replica->state = REPLICA_LEFT;
    replica->since_ns = since_ns ? since_ns : clock_now_ns();
    snprintf(replica->reason, sizeof replica->reason, "%s", reason);
}

int set_check_twin(struct replicas *set, size_t number, struct err *err)
{
    scoped_lock(&set->lock);
    struct disk own = replica_disk(set->slots[number]);

    for (size_t i = 0; i < set->count; i++) {
        struct replica *other = set->slots[set->order[i]];
        struct disk disk = replica_disk(other);
        if (other->number != number && other->state == REPLICA_IN_USE && disk_is_same(&disk, &own))
            return err_set(err, EINVAL, "%s and %s are the same folder", disk.path, own.path);
    }
    return 0;
}

static struct replica *find_left_locked(const struct replicas *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->slots[set->order[i]]->state == REPLICA_LEFT)
            return set->slots[set->order[i]];
    return NULL;
}

static int record(struct replicas *set, struct replica *replica, struct err *err)
{
    return set->record
               ? set->record(set->context, replica->path, replica->reason, replica->since_ns, err)
               : 0;
}

/* REASON and SINCE_NS change only while a replica is in use: nobody writes them meanwhile. */
int set_settle(struct replicas *set, struct err *err)
{
    struct replica *replica;
    int code = 0;

    pthread_mutex_lock(&set->lock);
    while (code == 0 && (replica = find_left_locked(set))) {
        if (replica->recording) {
            pthread_cond_wait(&set->recorded, &set->lock);
            continue;
        }
        replica->recording = true;
        replica_get(replica);
        pthread_mutex_unlock(&set->lock);
        code = record(set, replica, err);
        pthread_mutex_lock(&set->lock);
        replica->recording = false;
        if (code == 0)
            replica->state = REPLICA_OUT;
        pthread_cond_broadcast(&set->recorded);
        replica_put(replica);
    }
    pthread_mutex_unlock(&set->lock);
    return code;
}

/* --- Calls --- */

/* Whether the caller's thread does it. */
static bool is_alone_locked(const struct replicas *set)
{
    return set->count == 1 && !set->timed;
}

int names_check(const char *folder, const char *name, struct err *err)
{
    const char *const names[] = {folder, name};

    for (size_t i = 0; i < 2; i++) {
        const char *at = names[i];
        if (!at || (i == 0 && *at == '\0'))
            continue;
        if (*at == '\0' || strchr(at, '/') || strcmp(at, ".") == 0 || strcmp(at, "..") == 0)
            return err_set(err, EINVAL, "\"%s\" is no name of a file", at);
    }
    return 0;
}

static struct call *new_call(const struct replicas *set, task_fn run, const struct file_op *ops,
                             size_t count)
{
    struct call *call = call_new(run, ops, count);

    if (call)
        call->read_only = set->read_only;
    return call;
}

struct call *set_call(struct replicas *set, task_fn run, const struct file_op *ops, size_t count,
                      bool *ret_alone)
{
    struct call *call = new_call(set, run, ops, count);

    if (!call)
        return NULL;
    scoped_lock(&set->lock);
    for (size_t i = 0; i < set->count; i++) {
        struct replica *replica = set->slots[set->order[i]];
        if (replica->state == REPLICA_IN_USE)
            call_add(call, replica_get(replica));
    }
    *ret_alone = is_alone_locked(set);
    return call;
}

struct call *set_call_one(struct replicas *set, size_t number, task_fn run,
                          const struct file_op *ops, size_t count, bool *ret_alone)
{
    struct call *call = new_call(set, run, ops, count);

    if (!call)
        return NULL;
    scoped_lock(&set->lock);
    if (set->slots[number])
        call_add(call, replica_get(set->slots[number]));
    *ret_alone = is_alone_locked(set);
    return call;
}

struct call *set_call_first(struct replicas *set, task_fn run, const struct file_op *ops,
                            size_t count, bool *ret_alone)
{
    struct call *call = new_call(set, run, ops, count);

    if (!call)
        return NULL;
    scoped_lock(&set->lock);
    size_t first = 0; /* one is always in use */
    while (set->slots[set->order[first]]->state != REPLICA_IN_USE)
        first++;
    call_add(call, replica_get(set->slots[set->order[first]]));
    *ret_alone = is_alone_locked(set);
    return call;
}

static bool is_done(const struct task *task, int allowed)
{
    return !task->late && (task->code >= 0 || task->code == allowed);
}

/* How many have done it and are still in use: while we waited, others have judged, too. */
static size_t count_survivors_locked(const struct call *call, int allowed)
{
    size_t survivors = 0;

    for (size_t i = 0; i < call->count; i++)
        survivors +=
            is_done(&call->tasks[i], allowed) && call->tasks[i].replica->state == REPLICA_IN_USE;
    return survivors;
}

/* Why nobody who is in use has done it. */
static int find_failure_locked(const struct call *call, int allowed, int64_t timeout_ns,
                               struct err *err)
{
    for (size_t i = 0; i < call->count; i++)
        if (!is_done(&call->tasks[i], allowed))
            return task_result(&call->tasks[i], timeout_ns, err);
    return err_set(err, EIO, "%s has gone out of use meanwhile", call->tasks[0].replica->path);
}

/* Those who have not done what others have leave; who would be the last stays. */
static int judge(struct replicas *set, const struct call *call, int allowed, int64_t timeout_ns,
                 struct err *err)
{
    scoped_lock(&set->lock);
    if (count_survivors_locked(call, allowed) == 0)
        return find_failure_locked(call, allowed, timeout_ns, err);
    for (size_t i = 0; i < call->count; i++) {
        const struct task *task = &call->tasks[i];
        struct err why = {""};
        if (is_done(task, allowed))
            continue;
        task_result(task, timeout_ns, &why);
        set_leave_locked(task->replica, why.text, 0);
    }
    return 0;
}

/* What those who have done it say: why it is not to be done at all, or ALLOWED, unless one of them
 * says something else. */
static int find_answer(const struct call *call, int allowed, struct err *err)
{
    const struct task *other = NULL, *same = NULL;

    for (size_t i = 0; i < call->count; i++) {
        const struct task *task = &call->tasks[i];
        if (!is_done(task, allowed))
            continue;
        if (task->refused < 0)
            return err_set(err, -task->refused, "%s", err_text(&task->err, task->refused));
        if (task->code == allowed && allowed < 0)
            same = task;
        else
            other = task;
    }
    return same && !other ? err_set(err, -allowed, "%s", err_text(&same->err, allowed)) : 0;
}

int set_do(struct replicas *set, struct call *call, bool alone, int allowed, int64_t timeout_ns,
           bool *ret_changed, struct err *err)
{
    bool changed = false;

    if (call->count == 0)
        return err_set(err, EIO, "no replica is in use");
    call_do(call, timeout_ns, alone);
    for (size_t i = 0; i < call->count; i++)
        changed |= call->tasks[i].late || call->tasks[i].changed;
    if (ret_changed)
        *ret_changed = changed;
    int code = judge(set, call, allowed, timeout_ns, err);
    if (code == 0)
        code = set_settle(set, err);
    return code < 0 ? code : find_answer(call, allowed, err);
}

int set_do_one(struct replicas *set, struct call *call, bool alone, struct err *err)
{
    struct replica *replica = call->count ? call->tasks[0].replica : NULL;

    if (!replica)
        return err_set(err, ENODEV, "the replica was plugged out");

    if (replica_is_busy(replica)) {
        scoped_lock(&set->lock);
        if (replica->state != REPLICA_IN_USE)
            return err_set(err, EBUSY, "%s has not ended yet what it was given before",
                           replica->path);
    }
    call_do(call, set->timeout_ns, alone);
    return task_result(&call->tasks[0], set->timeout_ns, err);
}

int set_read(struct replicas *set, struct call *call, bool alone, struct file_stat *ret_stat,
             struct buf *body, struct err *err)
{
    struct task *task = &call->tasks[0];

    if (call->count)
        task->body.max = body->max - body->len;
    int code = set_do_one(set, call, alone, err);
    if (task->late || call->count == 0)
        return code;
    *ret_stat = task->stat;
    if (code == 0)
        buf_add_span(body, buf_span(&task->body));
    return code == 0 && buf_error(body) ? call_no_memory(err) : code;
}
