/* SPDX-License-Identifier: MIT */
/* How replicas are, whether they can be opened as a backend or not: each is tried by a thread of
 * its own, all at once. */
#include <errno.h>

#include "backend/folder/folder.h"
#include "backend/folder/replica_call.h"

static int run_health(struct task *task, const struct disk *disk)
{
    struct disk met = *disk;
    int code = disk_meet(&met, &task->err);

    task->refused = code == -ENOENT || code == -ENOTDIR ? code : 0;
    return code < 0 ? code : disk_probe(&met, &task->took_ns, &task->err);
}

static struct replica_health judge(const struct task *task, int64_t timeout_ns, int64_t most_ns,
                                   struct err *why)
{
    struct replica_health health = {.path = task->replica->path, .reason = why->text};

    if (task_result(task, timeout_ns, why) < 0) {
        health.health = !task->late && task->refused < 0 ? HEALTH_OFFLINE : HEALTH_UNRESPONSIVE;
        return health;
    }
    health.took_ns = task->took_ns;
    if (most_ns && task->took_ns > most_ns) {
        health.health = HEALTH_OVERLOADED;
        err_set(why, ETIMEDOUT, "%s took %.3f ms to write a file and read it back", health.path,
                (double)task->took_ns / 1e6);
    }
    return health;
}

/* What cannot be closed in time is left to its thread. */
static void close_all(struct replica *const *replicas, size_t count)
{
    for (size_t i = 0; i < count; i++)
        replica_close(replicas[i]);
}

int folder_health(const char *const *paths, size_t count, int64_t timeout_ns, int64_t most_ns,
                  health_fn each, void *context, struct err *err)
{
    struct replica *replicas[REPLICAS_MOST];
    cleanup_call struct call *call = call_new(run_health, NULL, 0);
    size_t made = 0;
    int r = 0;

    while (call && made < count && (replicas[made] = replica_new(paths[made], made, 0, 0)))
        call_add(call, replica_get(replicas[made++]));
    if (!call || made < count) {
        close_all(replicas, made);
        return call_no_memory(err);
    }
    call_do(call, timeout_ns, false);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct err why = {""};
        const struct replica_health health = judge(&call->tasks[i], timeout_ns, most_ns, &why);
        r = each(context, &health);
    }
    close_all(replicas, made);
    return r;
}
