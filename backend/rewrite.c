/* SPDX-License-Identifier: MIT */
#include "backend/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static void close_descriptor(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

bool rewrite_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int rewrite_read(const char *path, struct buf *text, struct stat *ret_stat, struct err *err)
{
    cleanup(close_descriptor) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char chunk[8192];
    ssize_t got = -1;

    if (fd >= 0 && fstat(fd, ret_stat) == 0)
        while ((got = read(fd, chunk, sizeof chunk)) > 0)
            buf_add(text, chunk, (size_t)got);
    if (got < 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    return buf_error(text) ? err_set(err, -buf_error(text), "%s: too large", path) : 0;
}

static int write_text(int fd, struct span text)
{
    while (text.len) {
        ssize_t wrote = write(fd, text.data, text.len);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        text = span_from(text, wrote > 0 ? (size_t)wrote : 0);
    }
    return 0;
}

/* TEXT in a file beside PATH, with what OLD has besides bytes; on the disk. */
static int write_beside(const char *path, const struct stat *old, struct span text)
{
    cleanup(close_descriptor) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : 0;

    if (r == 0 && (old->st_uid != geteuid() || old->st_gid != getegid()) &&
        fchown(fd, old->st_uid, old->st_gid) < 0)
        r = -errno;
    if (r == 0 && fchmod(fd, old->st_mode & 07777) < 0)
        r = -errno;
    if (r == 0)
        r = write_text(fd, text);
    return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int sync_directory(const char *path)
{
    cleanup_free char *directory = strdup(path);
    char *slash = directory ? strrchr(directory, '/') : NULL;

    if (!slash)
        return -ENOMEM;
    slash[slash == directory] = '\0';
    cleanup(close_descriptor) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* What is left over of one that was killed is in nobody's way: names differ. */
int rewrite_replace(const char *path, const struct stat *old, struct span text, struct err *err)
{
    cleanup_free char *beside = NULL;
    struct stat now;

    if (asprintf(&beside, "%s.itemfs-%d", path, (int)getpid()) < 0)
        return err_set(err, ENOMEM, "no memory");
    (void)unlink(beside);
    int r = write_beside(beside, old, text);
    if (r == 0 && stat(path, &now) < 0)
        r = -errno;
    if (r == 0 && !rewrite_is_same(&now, old))
        r = err_set(err, EAGAIN, "%s was changed by somebody else meanwhile: try again", path);
    if (r == 0 && rename(beside, path) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlink(beside);
        return err_set(err, -r, "%s: %s", path, strerror(-r));
    }
    r = sync_directory(path);
    return r ? err_set(err, -r, "%s: %s", path, strerror(-r)) : 0;
}
