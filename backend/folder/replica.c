/* SPDX-License-Identifier: MIT */
/* The list of replicas, and how they come in and out of use. */
#include "backend/folder/replica.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backend/folder/replica_set.h"

/* --- Lists --- */

static bool is_listed(const char *const *paths, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(paths[i], path) == 0)
            return true;
    return false;
}

static int paths_check(const char *const *paths, size_t count, struct err *err)
{
    if (count == 0 || count > REPLICAS_MOST)
        return err_set(err, EINVAL, "there must be 1 to %d replicas", REPLICAS_MOST);
    for (size_t i = 1; i < count; i++)
        if (is_listed(paths, i, paths[i]))
            return err_set(err, EINVAL, "%s is named twice", paths[i]);
    return 0;
}

/* --- Opening and closing --- */

static int add_locked(struct replicas *set, const char *path, size_t number)
{
    struct replica *replica = replica_new(path, number, set->mode, set->tag);

    if (!replica)
        return -ENOMEM;
    set->slots[number] = replica;
    set->order[set->count++] = number;
    return 0;
}

static struct replicas *set_new(const struct replica_options *options)
{
    struct replicas *set = calloc(1, sizeof *set);

    if (!set)
        return NULL;
    set->timeout_ns = options->timeout_ns ? options->timeout_ns : REPLICA_TIMEOUT_NS;
    set->read_only = options->read_only;
    set->timed = options->timed;
    set->next = options->count;
    set->mode = options->mode;
    set->record = options->record;
    set->context = options->context;
    if (getrandom(&set->tag, sizeof set->tag, 0) != sizeof set->tag) {
        free(set);
        return NULL;
    }
    pthread_mutex_init(&set->lock, NULL);
    pthread_cond_init(&set->recorded, NULL);
    for (size_t i = 0; i < options->count; i++) {
        if (add_locked(set, options->paths[i], i) < 0) {
            replicas_close(set);
            return NULL;
        }
        if (options->outs && options->outs[i].reason) {
            set_leave_locked(set->slots[i], options->outs[i].reason, options->outs[i].since_ns);
            set->slots[i]->state = REPLICA_OUT;
        }
    }
    return set;
}

/* Looks at what is there; unless nothing is to be written, whether it can be. */
static int run_open(struct task *task, const struct disk *disk)
{
    struct disk met = *disk;
    int code = disk_meet(&met, &task->err);

    if (code == 0 && !task->call->read_only)
        code = disk_try(&met, &task->err);
    if (code == 0)
        replica_set_disk(task->replica, &met);
    return code;
}

bool replicas_own(const struct replicas *set, const char *name)
{
    return file_is_temporary_of(name, set->tag);
}

int replicas_open(const struct replica_options *options, struct replicas **ret_replicas,
                  struct err *err)
{
    bool alone;
    int code = paths_check(options->paths, options->count, err);

    if (code < 0)
        return code;
    struct replicas *set = set_new(options);
    if (!set)
        return err_set(err, ENOMEM, "no memory");
    struct call *call = set_call(set, run_open, NULL, 0, &alone);
    code = call ? set_do(set, call, alone, 0, set->timeout_ns, NULL, err)
                : err_set(err, ENOMEM, "no memory");
    call_put(call);
    for (size_t i = 0; code == 0 && i < options->count; i++)
        if (set->slots[i]->state == REPLICA_IN_USE)
            code = set_check_twin(set, i, err);
    if (code < 0) {
        replicas_close(set);
        return code;
    }
    *ret_replicas = set;
    return 0;
}

void replicas_close(struct replicas *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->count; i++)
        replica_close(set->slots[set->order[i]]);
    pthread_cond_destroy(&set->recorded);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

/* --- What there is --- */

size_t replicas_numbers(struct replicas *set, size_t ret_numbers[REPLICAS_MOST])
{
    scoped_lock(&set->lock);
    memcpy(ret_numbers, set->order, set->count * sizeof *ret_numbers);
    return set->count;
}

void replica_info(struct replicas *set, size_t number, struct replica_info *ret_info)
{
    scoped_lock(&set->lock);
    const struct replica *replica = set->slots[number];
    bool in_use = replica && replica->state == REPLICA_IN_USE;

    if (!replica) {
        *ret_info = (struct replica_info){.reason = "plugged out"};
        return;
    }
    *ret_info = (struct replica_info){
        .in_use = in_use,
        .busy = replica_is_busy(set->slots[number]),
        .since_ns = in_use ? 0 : replica->since_ns,
    };
    snprintf(ret_info->path, sizeof ret_info->path, "%s", replica->path);
    if (!in_use)
        memcpy(ret_info->reason, replica->reason, sizeof ret_info->reason);
}

int replicas_each(struct replicas *set, replica_fn each, void *context)
{
    size_t numbers[REPLICAS_MOST];
    size_t count = replicas_numbers(set, numbers);
    int code = 0;

    for (size_t i = 0; i < count && code == 0; i++) {
        struct replica_info info;
        replica_info(set, numbers[i], &info);
        if (info.path[0]) /* else it has gone meanwhile */
            code = each(context, numbers[i], &info);
    }
    return code;
}

/* --- In and out of use --- */

int replica_take_out(struct replicas *set, size_t number, const char *reason, int64_t since_ns,
                     struct err *err)
{
    pthread_mutex_lock(&set->lock);
    struct replica *replica = set->slots[number];
    if (!replica) {
        pthread_mutex_unlock(&set->lock);
        return 0;
    }
    bool last = replica->state == REPLICA_IN_USE && set_in_use_locked(set) == 1;
    if (!last)
        set_leave_locked(replica, reason, since_ns);
    else
        err_set(err, EINVAL, "%s is the last replica in use", replica->path);
    pthread_mutex_unlock(&set->lock);
    if (last)
        return -EINVAL;
    return set_settle(set, err);
}

static int run_check_root(struct task *task, const struct disk *disk)
{
    cleanup_close int root = -1;

    return disk_open_root(disk, &root, &task->err);
}

int replica_put_back(struct replicas *set, size_t number, struct err *err)
{
    bool alone;
    cleanup_call struct call *call = set_call_one(set, number, run_check_root, NULL, 0, &alone);
    if (!call)
        return err_set(err, ENOMEM, "no memory");
    struct replica *replica = call->tasks[0].replica; /* NULL: it is gone */
    int code = set_settle(set, err);
    if (code == 0)
        code = set_do_one(set, call, alone, err);
    if (code == 0 && set->record)
        code = set->record(set->context, replica->path, NULL, 0, err);
    if (code < 0)
        return code;
    scoped_lock(&set->lock);
    replica->state = REPLICA_IN_USE;
    memset(replica->reason, 0, sizeof replica->reason);
    return 0;
}

/* --- Another list --- */

static struct replica *find_path_locked(const struct replicas *set, const char *path)
{
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (set->slots[i] && strcmp(set->slots[i]->path, path) == 0)
            return set->slots[i];
    return NULL;
}

static bool would_be_in_use_locked(const struct replicas *set, const char *const *paths,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct replica *replica = find_path_locked(set, paths[i]);
        if (replica && replica->state == REPLICA_IN_USE)
            return true;
    }
    return false;
}

/* Not one that was given up just now: who still has that must not meet another replica. */
static size_t free_slot_locked(struct replicas *set)
{
    size_t number = set->next % REPLICAS_MOST;

    while (set->slots[number])
        number = (number + 1) % REPLICAS_MOST;
    set->next = number + 1;
    return number;
}

/* The new ones, made before anything is changed. */
static int make_new_locked(struct replicas *set, const char *const *paths, size_t count,
                           struct replica *ret_made[REPLICAS_MOST])
{
    for (size_t i = 0; i < count; i++) {
        if (find_path_locked(set, paths[i]))
            continue;
        ret_made[i] = replica_new(paths[i], 0, set->mode, set->tag);
        if (!ret_made[i])
            return -ENOMEM;
        set_leave_locked(ret_made[i], REPLICA_NOT_FILLED, 0);
    }
    return 0;
}

static void change_locked(struct replicas *set, const char *const *paths, size_t count,
                          struct replica *made[REPLICAS_MOST], struct replica *gone[REPLICAS_MOST])
{
    for (size_t i = 0; i < REPLICAS_MOST; i++) {
        if (!set->slots[i] || is_listed(paths, count, set->slots[i]->path))
            continue;
        gone[i] = set->slots[i];
        set->slots[i] = NULL;
    }
    for (size_t i = 0; i < count; i++) {
        struct replica *replica = find_path_locked(set, paths[i]);
        if (!replica) {
            replica = made[i];
            made[i] = NULL;
            replica->number = free_slot_locked(set);
            set->slots[replica->number] = replica;
        }
        set->order[i] = replica->number;
    }
    set->count = count;
}

static void close_all(struct replica *replicas[REPLICAS_MOST])
{
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (replicas[i])
            replica_close(replicas[i]);
}

int replicas_change(struct replicas *set, const char *const *paths, size_t count, struct err *err)
{
    struct replica *made[REPLICAS_MOST] = {NULL}, *gone[REPLICAS_MOST] = {NULL};

    int code = paths_check(paths, count, err);

    if (code == 0)
        code = set_settle(set, err);
    if (code < 0)
        return code;
    pthread_mutex_lock(&set->lock);
    if (!would_be_in_use_locked(set, paths, count))
        code = err_set(err, EINVAL, "no replica that is in use would be left");
    else if (make_new_locked(set, paths, count, made) < 0)
        code = err_set(err, ENOMEM, "no memory");
    else
        change_locked(set, paths, count, made, gone);
    pthread_mutex_unlock(&set->lock);
    close_all(made);
    close_all(gone);
    return code < 0 ? code : set_settle(set, err);
}
