/* SPDX-License-Identifier: MIT */
/* Files, in one replica and in all. */
#include "backend/folder/replica.h"

#include <errno.h>
#include <string.h>

#include "backend/folder/replica_set.h"

/* --- What tasks do --- */

static int run_apply(struct task *task, const struct disk *disk)
{
    const struct call *call = task->call;
    int code = disk_apply(disk, call->ops, call->op_count, call->durable, &call->stop,
                          &task->changed, &task->err);

    if (code != -EBUSY || call->ops[0].kind != FILE_UPDATE)
        return code;
    task->refused = code; /* it is no fault of the replica that somebody else has written there */
    return 0;
}

static int run_stat(struct task *task, const struct disk *disk)
{
    const struct file_op *op = task->call->ops;

    return disk_stat(disk, op->folder, op->name, &task->stat, &task->err);
}

static int run_read(struct task *task, const struct disk *disk)
{
    const struct file_op *op = task->call->ops;

    return disk_read(disk, op->folder, op->name, &task->stat, &task->body, &task->err);
}

static int run_list(struct task *task, const struct disk *disk)
{
    return file_list_read(task->call->listing, disk, &task->err);
}

/* --- Changes --- */

static int ops_check(const struct file_op *ops, size_t count, struct err *err)
{
    if (count > FILE_OPS_MOST)
        return err_set(err, EINVAL, "more than %d files at once", FILE_OPS_MOST);
    for (size_t i = 0; i < count; i++) {
        int code = names_check(ops[i].folder, ops[i].name, err);
        if (code < 0)
            return code;
    }
    return 0;
}

int replicas_apply(struct replicas *set, const struct file_op *ops, size_t count, bool durable,
                   bool *ret_changed, struct err *err)
{
    bool alone;
    int code = ops_check(ops, count, err);

    *ret_changed = false;
    if (code < 0 || count == 0)
        return code;
    cleanup_call struct call *call = set_call(set, run_apply, ops, count, &alone);
    if (!call)
        return call_no_memory(err);
    call->durable = durable;
    return set_do(set, call, alone, 0, set->timeout_ns, ret_changed, err);
}

int replica_apply(struct replicas *set, size_t number, const struct file_op *ops, size_t count,
                  bool durable, struct err *err)
{
    bool alone;
    int code = ops_check(ops, count, err);

    if (code < 0 || count == 0)
        return code;
    cleanup_call struct call *call = set_call_one(set, number, run_apply, ops, count, &alone);
    if (!call)
        return call_no_memory(err);
    call->durable = durable;
    return set_do_one(set, call, alone, err);
}

/* --- Looking --- */

int replicas_stat(struct replicas *set, const char *folder, const char *name,
                  struct file_stats *ret_stats, struct err *err)
{
    struct file_op op = call_name(folder, name);
    bool alone;
    int code = names_check(folder, name, err);

    if (code < 0)
        return code;
    cleanup_call struct call *call = set_call(set, run_stat, &op, 1, &alone);
    if (!call)
        return call_no_memory(err);
    code = set_do(set, call, alone, 0, set->timeout_ns, NULL, err);
    if (code < 0)
        return code;
    memset(ret_stats, 0, sizeof *ret_stats);
    for (size_t i = 0; i < call->count; i++) {
        const struct task *task = &call->tasks[i];
        if (task->late || task->code < 0)
            continue;
        ret_stats->in_use[task->replica->number] = true;
        ret_stats->stats[task->replica->number] = task->stat;
    }
    return 0;
}

int replica_stat(struct replicas *set, size_t number, const char *folder, const char *name,
                 struct file_stat *ret_stat, struct err *err)
{
    struct file_op op = call_name(folder, name);
    bool alone;
    int code = names_check(folder, name, err);

    if (code < 0)
        return code;
    cleanup_call struct call *call = set_call_one(set, number, run_stat, &op, 1, &alone);
    if (!call)
        return call_no_memory(err);
    code = set_do_one(set, call, alone, err);
    if (code == 0)
        *ret_stat = call->tasks[0].stat;
    return code;
}

/* One of those in use, another each time. */
static size_t choose(struct replicas *set)
{
    unsigned turn = atomic_fetch_add(&set->turn, 1);

    scoped_lock(&set->lock);
    for (size_t i = 0; i < set->count; i++) {
        size_t number = set->order[(turn + i) % set->count];
        if (set->slots[number]->state == REPLICA_IN_USE)
            return number;
    }
    return set->order[0];
}

int replicas_look(struct replicas *set, const char *folder, const char *name,
                  struct file_stat *ret_stat, struct err *err)
{
    struct file_stats all;

    if (replica_stat(set, choose(set), folder, name, ret_stat, NULL) == 0)
        return 0;
    int code = replicas_stat(set, folder, name, &all, err);
    for (size_t i = 0; code == 0 && i < REPLICAS_MOST; i++) {
        if (!all.in_use[i])
            continue;
        *ret_stat = all.stats[i];
        break;
    }
    return code;
}

int replica_read(struct replicas *set, size_t number, const char *folder, const char *name,
                 struct file_stat *ret_stat, struct buf *body, struct err *err)
{
    struct file_op op = call_name(folder, name);
    bool alone;
    int code = names_check(folder, name, err);

    if (code < 0)
        return code;
    cleanup_call struct call *call = set_call_one(set, number, run_read, &op, 1, &alone);
    if (!call)
        return call_no_memory(err);
    return set_read(set, call, alone, ret_stat, body, err);
}

/* --- Listings --- */

/* EACH of all entries, of which there are many: a portion is a call. */
static int list(struct replicas *set, size_t number, struct listing *listing, file_entry_fn each,
                void *context, struct err *err)
{
    const struct file_entry *entry;
    bool alone;
    cleanup_call struct call *call = set_call_one(set, number, run_list, NULL, 0, &alone);
    if (!call)
        file_list_free(listing);
    if (!call || !listing)
        return call_no_memory(err);
    call->listing = listing;
    while (!file_list_ended(listing)) {
        int code = set_do_one(set, call, alone, err);
        while (code == 0 && (entry = file_list_next(listing)))
            code = each(context, entry);
        if (code != 0)
            return code;
    }
    return 0;
}

int replica_list(struct replicas *set, size_t number, const char *folder, file_entry_fn each,
                 void *context, struct err *err)
{
    int code = names_check(folder, NULL, err);

    return code < 0 ? code : list(set, number, file_list_new(folder, false), each, context, err);
}

struct folders {
    folder_fn each;
    void *context;
};

static int give_folder(void *context, const struct file_entry *entry)
{
    const struct folders *folders = context;

    return folders->each(folders->context, entry->name);
}

int replica_folders(struct replicas *set, size_t number, folder_fn each, void *context,
                    struct err *err)
{
    struct folders folders = {each, context};

    return list(set, number, file_list_new("", true), give_folder, &folders, err);
}
