/* SPDX-License-Identifier: MIT */
/* Many files read in all replicas side by side, each replica's by its own thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/folder/replica_set.h"

#define PATIENCE 12 /* times the timeout of other calls: it is much that is read at once */

/* What a task has of one file, in front of its bytes in the task's buffer. */
struct piece {
    int code; /* of reading it; what there is of bytes is no use then */
    struct file_stat stat;
    size_t len;
};

static int read_piece(const struct disk *disk, const struct folder *folder, const char *name,
                      struct piece *piece, struct buf *body)
{
    cleanup_close int fd =
        openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat stat;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &stat) < 0)
        return -errno;
    piece->stat = disk_file_stat(disk, &stat);
    return piece->stat.regular ? disk_read_fd(disk, fd, &piece->stat, body) : -EINVAL;
}

static int run_read_many(struct task *task, const struct disk *disk)
{
    const struct call *call = task->call;
    cleanup_folder struct folder folder = {.fd = -1};
    int missing = disk_open_folder(disk, call->ops[0].folder, &folder, &task->err);

    if (missing < 0 && missing != -ENOENT)
        return missing;
    for (size_t i = 0; i < call->op_count && !atomic_load(&call->stop); i++) {
        struct piece piece = {.code = missing};
        size_t at = task->body.len;
        buf_add(&task->body, &piece, sizeof piece);
        if (missing == 0)
            piece.code = read_piece(disk, &folder, call->ops[i].name, &piece, &task->body);
        if (buf_error(&task->body))
            return call_no_memory(&task->err);
        piece.len = task->body.len - at - sizeof piece;
        memcpy(task->body.data + at, &piece, sizeof piece);
    }
    return 0;
}

/* The next file of a task's buffer. */
static struct file_copy next_copy(struct task *task, size_t *at)
{
    struct piece piece;

    memcpy(&piece, task->body.data + *at, sizeof piece);
    const char *bytes = task->body.data + *at + sizeof piece;
    *at += sizeof piece + piece.len;
    return (struct file_copy){.number = task->replica->number,
                              .code = piece.code,
                              .stat = piece.stat,
                              .body = span_of(bytes, piece.len)};
}

static int tell_all(struct call *call, file_copies_fn each, void *context)
{
    size_t at[REPLICAS_MOST] = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < call->op_count; i++) {
        struct file_copy copies[REPLICAS_MOST];
        for (size_t j = 0; j < call->count; j++)
            copies[j] = next_copy(&call->tasks[j], &at[j]);
        r = each(context, call->ops[i].name, copies, call->count);
    }
    return r;
}

int replicas_read_many(struct replicas *set, const char *folder, const char *const *names,
                       size_t count, file_copies_fn each, void *context, struct err *err)
{
    cleanup_free struct file_op *ops = calloc(count + 1, sizeof *ops);
    bool alone;
    int code = 0;

    if (!ops)
        return call_no_memory(err);
    for (size_t i = 0; code == 0 && i < count; i++) {
        ops[i] = call_name(folder, names[i]);
        code = names_check(folder, names[i], err);
    }
    if (code < 0 || count == 0)
        return code;
    cleanup_call struct call *call = set_call(set, run_read_many, ops, count, &alone);
    if (!call)
        return call_no_memory(err);
    call_do(call, set->timeout_ns * PATIENCE, alone);
    for (size_t i = 0; code == 0 && i < call->count; i++)
        code = task_result(&call->tasks[i], set->timeout_ns * PATIENCE, err);
    return code ? code : tell_all(call, each, context);
}
