/* SPDX-License-Identifier: MIT */
/* Folders and disks, in one replica and in all. */
#include "backend/folder/replica.h"

#include <errno.h>
#include <string.h>

#include "backend/folder/replica_set.h"

#define SYNC_TIMES 10 /* the timeout of other calls */

/* --- What tasks do --- */

static int run_make_folder(struct task *task, const struct disk *disk)
{
    return disk_make_folder(disk, task->call->ops->folder, &task->err);
}

/* What is in a folder, or on it, is no failure of the replica, but keeps it in all. */
static int refuse(struct task *task, int code)
{
    if (code != -ENOTEMPTY && code != -EEXIST && code != -EBUSY)
        return code;
    task->refused = code;
    return 0;
}

static int run_check_empty(struct task *task, const struct disk *disk)
{
    return refuse(task, disk_check_empty(disk, task->call->ops->folder, &task->err));
}

static int run_remove_folder(struct task *task, const struct disk *disk)
{
    return refuse(task, disk_remove_folder(disk, task->call->ops->folder, &task->err));
}

static int run_rename_folder(struct task *task, const struct disk *disk)
{
    const struct file_op *op = task->call->ops;

    return disk_rename_folder(disk, op->folder, op->name, &task->err);
}

static int run_tidy(struct task *task, const struct disk *disk)
{
    return disk_tidy(disk, task->call->ops->folder, &task->err);
}

static int run_sync(struct task *task, const struct disk *disk)
{
    return disk_sync(disk, &task->err);
}

static int run_statfs(struct task *task, const struct disk *disk)
{
    return disk_statfs(disk, &task->space, &task->err);
}

static int run_probe(struct task *task, const struct disk *disk)
{
    struct disk tried = *disk;
    int code = disk_probe(&tried, &task->took_ns, &task->err);

    if (code == 0)
        replica_set_disk(task->replica, &tried);
    return code;
}

/* Of one that is out of use: what is there is what is meant from now on. */
static int run_probe_anew(struct task *task, const struct disk *disk)
{
    struct disk met = *disk;
    int code = disk_meet(&met, &task->err);

    return code < 0 ? code : run_probe(task, &met);
}

/* --- Folders --- */

/* Does RUN with FOLDER and TO (or "") in all replicas. */
static int do_all(struct replicas *set, task_fn run, const char *folder, const char *to,
                  int allowed, struct err *err)
{
    struct file_op op = call_name(folder, to);
    bool alone;
    cleanup_call struct call *call = set_call(set, run, &op, 1, &alone);

    if (!call)
        return call_no_memory(err);
    return set_do(set, call, alone, allowed, set->timeout_ns, NULL, err);
}

static int do_one(struct replicas *set, size_t number, task_fn run, const char *folder,
                  struct err *err)
{
    struct file_op op = call_name(folder, "");
    bool alone;
    cleanup_call struct call *call = set_call_one(set, number, run, &op, 1, &alone);

    return call ? set_do_one(set, call, alone, err) : call_no_memory(err);
}

int replicas_make_folder(struct replicas *set, const char *folder, struct err *err)
{
    int code = names_check("", folder, err);

    return code < 0 ? code : do_all(set, run_make_folder, folder, "", -EEXIST, err);
}

int replica_make_folder(struct replicas *set, size_t number, const char *folder, struct err *err)
{
    int code = names_check("", folder, err);

    return code < 0 ? code : do_one(set, number, run_make_folder, folder, err);
}

int replicas_remove_folder(struct replicas *set, const char *folder, struct err *err)
{
    int code = names_check("", folder, err);

    if (code == 0)
        code = do_all(set, run_check_empty, folder, "", -ENOENT, err);
    if (code < 0)
        return code;
    code = do_all(set, run_remove_folder, folder, "", -ENOENT, err);
    if (code == -ENOTEMPTY || code == -EEXIST || code == -EBUSY)
        do_all(set, run_make_folder, folder, "", -EEXIST, NULL); /* where it has gone */
    return code;
}

int replica_remove_folder(struct replicas *set, size_t number, const char *folder, struct err *err)
{
    int code = names_check("", folder, err);

    return code < 0 ? code : do_one(set, number, run_remove_folder, folder, err);
}

int replicas_rename_folder(struct replicas *set, const char *from, const char *to, struct err *err)
{
    int code = names_check("", from, err);

    if (code == 0)
        code = names_check("", to, err);
    return code < 0 ? code : do_all(set, run_rename_folder, from, to, 0, err);
}

int replica_tidy(struct replicas *set, size_t number, const char *folder, struct err *err)
{
    int code = names_check(folder, NULL, err);

    return code < 0 ? code : do_one(set, number, run_tidy, folder, err);
}

/* --- Disks --- */

int replicas_sync(struct replicas *set, struct err *err)
{
    bool alone;
    cleanup_call struct call *call = set_call(set, run_sync, NULL, 0, &alone);

    if (!call)
        return call_no_memory(err);
    return set_do(set, call, alone, 0, set->timeout_ns * SYNC_TIMES, NULL, err);
}

static bool has_less(const struct statvfs *a, const struct statvfs *b)
{
    return (double)a->f_bavail * (double)a->f_frsize < (double)b->f_bavail * (double)b->f_frsize;
}

int replicas_statfs(struct replicas *set, struct statvfs *ret_stat, struct err *err)
{
    const struct statvfs *least = NULL;
    bool alone;
    cleanup_call struct call *call = set_call(set, run_statfs, NULL, 0, &alone);
    if (!call)
        return call_no_memory(err);
    int code = set_do(set, call, alone, 0, set->timeout_ns, NULL, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < call->count; i++) {
        const struct task *task = &call->tasks[i];
        if (!task->late && task->code == 0 && (!least || has_less(&task->space, least)))
            least = &task->space;
    }
    if (!least)
        return err_set(err, EIO, "no replica tells how much room it has");
    *ret_stat = *least;
    return 0;
}

int replica_probe(struct replicas *set, size_t number, int64_t *ret_ns, struct err *err)
{
    struct replica_info info;
    bool alone;
    replica_info(set, number, &info);
    cleanup_call struct call *call =
        set_call_one(set, number, info.in_use ? run_probe : run_probe_anew, NULL, 0, &alone);
    if (!call)
        return call_no_memory(err);
    int code = set_do_one(set, call, alone, err);
    if (code == 0)
        code = set_check_twin(set, number, err);
    if (code == 0)
        *ret_ns = call->tasks[0].took_ns;
    return code;
}
