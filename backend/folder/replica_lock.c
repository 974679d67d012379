/* SPDX-License-Identifier: MIT */
/* Locks that other programs know. */
#include "backend/folder/replica_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/clock.h"

/* For reading, so that it does not look as if somebody wrote it; but some network disks lock only
 * what is open for writing. */
static int open_to_lock(const struct folder *folder, const char *name, int access)
{
    int fd = openat(folder->fd, name, access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

static int try_lock(const struct folder *folder, const char *name, int *fd)
{
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EBADF) {
        close(*fd);
        *fd = open_to_lock(folder, name, O_RDWR);
        if (*fd < 0)
            return *fd;
        if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
    }
    return -errno;
}

/* -EAGAIN also where another file has the name meanwhile. */
static int lock_regular(const struct folder *folder, const char *name, int *fd)
{
    struct stat locked, named;

    if (fstat(*fd, &locked) < 0)
        return -errno;
    if (!S_ISREG(locked.st_mode))
        return -EINVAL;
    int code = try_lock(folder, name, fd);
    if (code < 0)
        return code;
    if (fstat(*fd, &locked) < 0)
        return -errno;
    if (fstatat(folder->fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? -EAGAIN : -errno;
    return locked.st_dev == named.st_dev && locked.st_ino == named.st_ino ? 0 : -EAGAIN;
}

int disk_lock(const struct disk *disk, const char *folder, const char *name, bool writing,
              bool sole, int *ret_fd, struct err *err)
{
    cleanup_folder struct folder opened = {.fd = -1};
    struct err why = {""};
    int code = disk_open_folder(disk, folder, &opened, &why);

    *ret_fd = -1;
    if (code == -ENOENT && !writing)
        return 0;
    if (code < 0)
        return err_set(err, -code, "%s", why.text);
    cleanup_close int fd = open_to_lock(&opened, name, O_RDONLY);
    code = fd < 0 ? fd : lock_regular(&opened, name, &fd);
    if (code == 0 && sole && file_writers(fd) == WRITERS_SOME)
        code = -EAGAIN;
    if (code == 0 && writing && faccessat(opened.fd, name, W_OK, AT_EACCESS) < 0)
        code = -errno;
    if (code == 0) {
        *ret_fd = fd;
        fd = -1;
        return 0;
    }
    if (code == -ENOENT)
        return 0;
    if (code == -EAGAIN) /* the caller says more, when it has waited */
        return code;
    bool cannot = code == -EINVAL || code == -ELOOP || code == -ENXIO || code == -EBADF ||
                  code == -EACCES || code == -ENOLCK || code == -EOPNOTSUPP;
    return cannot && !writing ? 0 : disk_error(disk, folder, name, -code, err);
}
