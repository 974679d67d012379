/* SPDX-License-Identifier: MIT */
/* Batches of changes in one root. */
#include "backend/folder/replica_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define ASIDE_MOST 1000

/* An operation that is under way. */
struct step {
    const struct file_op *op;
    size_t folder; /* which of the batch's */
    int fd;        /* of the file that is written in place; -1: none is */
    int lock;      /* while the file is replaced; -1: none */
    bool odd;      /* what has the name is no regular file */
    struct temporary temporary;
};

struct batch {
    const struct disk *disk;
    const atomic_bool *stop;
    bool durable;
    bool changed;
    struct step *steps;
    size_t count;
    const char **names; /* of the folders */
    struct folder *folders;
    size_t folder_count;
};

static struct folder *folder_of(const struct batch *batch, const struct step *step)
{
    return &batch->folders[step->folder];
}

static int step_error(const struct batch *batch, const struct step *step, int code, struct err *err)
{
    return disk_error(batch->disk, step->op->folder, step->op->name, code, err);
}

static bool is_stopped(const struct batch *batch)
{
    return batch->stop && atomic_load(batch->stop);
}

/* --- Beginning and end --- */

static int find_folder(struct batch *batch, const char *name, size_t *ret_at, struct err *err)
{
    for (size_t i = batch->folder_count; i-- > 0;) {
        if (strcmp(batch->names[i], name) != 0)
            continue;
        *ret_at = i;
        return 0;
    }
    size_t at = batch->folder_count;
    int code = disk_open_folder(batch->disk, name, &batch->folders[at], err);
    if (code < 0)
        return code;
    batch->names[at] = name;
    batch->folder_count++;
    *ret_at = at;
    return 0;
}

static int begin(struct batch *batch, const struct file_op *ops, size_t count, struct err *err)
{
    batch->steps = calloc(count, sizeof *batch->steps);
    batch->names = calloc(count, sizeof *batch->names);
    batch->folders = calloc(count, sizeof *batch->folders);
    if (!batch->steps || !batch->names || !batch->folders)
        return err_set(err, ENOMEM, "no memory");
    for (size_t i = 0; i < count; i++) {
        struct step *step = &batch->steps[i];
        int code = find_folder(batch, ops[i].folder, &step->folder, err);
        if (code < 0)
            return code;
        step->op = &ops[i];
        step->fd = step->lock = -1;
        step->temporary.fd = -1;
        batch->count++;
    }
    return 0;
}

static void end(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        temporary_drop(folder_of(batch, &batch->steps[i]), &batch->steps[i].temporary);
        close_descriptor(&batch->steps[i].fd);
        close_descriptor(&batch->steps[i].lock);
    }
    for (size_t i = 0; i < batch->folder_count; i++)
        close_folder(&batch->folders[i]);
    free(batch->steps);
    free(batch->names);
    free(batch->folders);
}

/* --- Temporaries --- */

/* The step's file is to be written in place where its lock is here, and is on the file that has the
 * name now: then it is open. */
static int open_in_place(const struct batch *batch, struct step *step)
{
    const struct file_op *op = step->op;
    struct stat locked, named;

    if (op->kind != FILE_UPDATE || !op->lock || op->lock->disk_path != batch->disk->path)
        return 0;
    step->fd =
        openat(folder_of(batch, step)->fd, op->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (step->fd < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
    if (fstat(op->lock->fd, &locked) < 0 || fstat(step->fd, &named) < 0)
        return -errno;
    if (locked.st_dev == named.st_dev && locked.st_ino == named.st_ino)
        return 0;
    close(step->fd);
    step->fd = -1;
    return 0;
}

static bool is_put(const struct step *step)
{
    return step->op->kind == FILE_PUT || step->op->kind == FILE_UPDATE;
}

static int prepare(const struct batch *batch, struct step *step)
{
    const struct folder *folder = folder_of(batch, step);
    struct stat old;
    bool there = fstatat(folder->fd, step->op->name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    bool has_old = there && S_ISREG(old.st_mode);
    step->odd = there && !has_old;
    int code = temporary_make(batch->disk, folder, step->op->name, has_old ? &old : NULL,
                              &step->temporary);

    if (code == 0)
        code = write_whole(step->temporary.fd, step->op->body, 0);
    if (code == 0)
        code = set_time(step->temporary.fd, step->op->mtime_ns);
    return code;
}

static int prepare_all(struct batch *batch, struct err *err)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct step *step = &batch->steps[i];
        if (is_stopped(batch))
            return -ECANCELED;
        int code = open_in_place(batch, step);
        if (code == 0 && is_put(step) && step->fd < 0)
            code = prepare(batch, step);
        if (code < 0)
            return step_error(batch, step, -code, err);
    }
    for (size_t i = 0; batch->durable && i < batch->count; i++) {
        struct step *step = &batch->steps[i];
        /* not fdatasync: the time must be there, too */
        if (step->temporary.fd >= 0 && fsync(step->temporary.fd) < 0)
            return step_error(batch, step, errno, err);
    }
    return 0;
}

/* --- Changes --- */

/* Nobody else has the lock of what is to be replaced, nor is writing it, and it is what the caller
 * has looked at. */
static int claim(const struct batch *batch, struct step *step)
{
    const struct file_op *op = step->op;
    struct file_stat now;
    struct err own = {""};

    if (!op->conditional)
        return 0;
    int code = op->expected.present && op->expected.regular
                   ? disk_lock(batch->disk, op->folder, op->name, false, true, &step->lock, &own)
                   : 0;
    if (code == 0)
        code = disk_stat(batch->disk, op->folder, op->name, &now, &own);
    if (code == 0 && !file_stat_equal(&now, &op->expected))
        code = -EBUSY;
    return code == -EAGAIN ? -EBUSY : code;
}

/* What is no regular file is not replaced: it gets another name. */
static int put_aside(const struct batch *batch, const struct step *step)
{
    const struct file_op *op = step->op;
    int fd = folder_of(batch, step)->fd;
    struct stat found;
    char aside[NAME_MAX + 1];

    if (fstatat(fd, op->name, &found, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISREG(found.st_mode))
        return 0;
    for (unsigned i = 1; i < ASIDE_MOST; i++) {
        snprintf(aside, sizeof aside, "%.*s.aside-%u", NAME_MAX - 16, op->name, i);
        if (renameat2(fd, op->name, fd, aside, RENAME_NOREPLACE) == 0) {
            log_warning("folder", "%s/%s/%s is no regular file: it is %s now", batch->disk->path,
                        op->folder, op->name, aside);
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

static int rename_over(const struct batch *batch, struct step *step)
{
    int fd = folder_of(batch, step)->fd;
    int code = step->odd ? put_aside(batch, step) : 0;

    if (code < 0)
        return code;
    if (renameat(fd, step->temporary.name, fd, step->op->name) < 0)
        return -errno;
    step->temporary.name[0] = '\0';
    return 0;
}

/* Writes TEXT over what the file has, OLD bytes. Who reads beside us without a lock must not take
 * the end of the old text for that of the new one: blanks take its place before it is cut off. */
static int overwrite(int fd, struct span text, size_t old)
{
    cleanup(buf_release) struct buf padded = {0};

    buf_init(&padded, text.len > old ? text.len : old);
    buf_add_span(&padded, text);
    while (padded.len < old && !buf_error(&padded))
        buf_add_char(&padded, ' ');
    int code = buf_error(&padded);
    if (code == 0)
        code = write_whole(fd, buf_span(&padded), 0);
    if (code == 0 && text.len < old)
        code = ftruncate(fd, (off_t)text.len) < 0 ? -errno : 0;
    return code;
}

/* A file that could not be written to its end has its old text again. */
static int update(struct batch *batch, const struct step *step)
{
    int fd = step->fd;
    cleanup(buf_release) struct buf old = {0};
    struct file_stat stat;

    buf_init(&old, SIZE_MAX / 8);
    int code = disk_read_fd(batch->disk, fd, &stat, &old);
    if (code < 0)
        return code;
    if (step->op->expected.present && !file_stat_equal(&stat, &step->op->expected))
        return -EBUSY;
    batch->changed = true;
    code = overwrite(fd, step->op->body, old.len);
    if (code == 0)
        code = set_time(fd, step->op->mtime_ns);
    if (code == 0 && batch->durable && fsync(fd) < 0)
        code = -errno;
    if (code < 0 && write_whole(fd, buf_span(&old), 0) == 0 && ftruncate(fd, (off_t)old.len) == 0)
        set_time(fd, stat.mtime_ns);
    return code;
}

static int touch(const struct batch *batch, const struct step *step)
{
    cleanup_close int fd = openat(folder_of(batch, step)->fd, step->op->name,
                                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) /* what is no regular file is found, and put aside, by who compares */
        return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
    int code = set_time(fd, step->op->mtime_ns);
    if (code == 0 && batch->durable && fsync(fd) < 0)
        code = -errno;
    return code;
}

static int delete (const struct batch *batch, const struct step *step)
{
    int code = put_aside(batch, step);

    if (code == 0 && unlinkat(folder_of(batch, step)->fd, step->op->name, 0) < 0 && errno != ENOENT)
        code = -errno;
    return code;
}

static int carry_out(struct batch *batch, struct step *step)
{
    int code = claim(batch, step);

    if (code < 0)
        return code;
    if (step->fd >= 0)
        return update(batch, step);
    if (is_put(step))
        code = rename_over(batch, step);
    else if (step->op->kind == FILE_TOUCH)
        code = touch(batch, step);
    else
        code = delete (batch, step);
    if (code == 0 || code == -EIO) /* then nobody knows */
        batch->changed = true;
    return code;
}

static int carry_out_all(struct batch *batch, struct err *err)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct step *step = &batch->steps[i];
        if (is_stopped(batch))
            return -ECANCELED;
        int code = carry_out(batch, step);
        if (code < 0)
            return step_error(batch, step, -code, err);
    }
    for (size_t i = 0; batch->durable && i < batch->folder_count; i++)
        if (fsync(batch->folders[i].fd) < 0)
            return disk_error(batch->disk, batch->names[i], NULL, errno, err);
    return 0;
}

int disk_apply(const struct disk *disk, const struct file_op *ops, size_t count, bool durable,
               const atomic_bool *stop, bool *ret_changed, struct err *err)
{
    struct batch batch = {.disk = disk, .stop = stop, .durable = durable};
    int code = begin(&batch, ops, count, err);

    if (code == 0)
        code = prepare_all(&batch, err);
    if (code == 0)
        code = carry_out_all(&batch, err);
    end(&batch);
    *ret_changed = batch.changed;
    return code;
}
