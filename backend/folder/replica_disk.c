/* SPDX-License-Identifier: MIT */
#include "backend/folder/replica_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

int disk_error(const struct disk *disk, const char *folder, const char *name, int code,
               struct err *err)
{
    return err_set(err, code, "%s%s%s%s%s: %s", disk->path, *folder ? "/" : "", folder,
                   name ? "/" : "", name ? name : "", strerror(code));
}

/* --- Roots and folders --- */

static int open_root(const struct disk *disk, int *ret_fd, struct stat *ret_stat)
{
    int fd = open(disk->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (fstat(fd, ret_stat) < 0) {
        int code = -errno;
        close(fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

int disk_open_root(const struct disk *disk, int *ret_fd, struct err *err)
{
    struct stat stat;
    int fd = -1;
    int code = disk->known ? open_root(disk, &fd, &stat) : -ENOENT;

    if (code == -ENOENT || code == -ENOTDIR)
        return err_set(err, ENODEV, "%s is not there: is its disk mounted?", disk->path);
    if (code < 0)
        return disk_error(disk, "", NULL, -code, err);
    if (stat.st_dev != disk->device || stat.st_ino != disk->inode) {
        close(fd);
        return err_set(err, ENODEV, "%s is not the folder it was: is its disk mounted?",
                       disk->path);
    }
    *ret_fd = fd;
    return 0;
}

int disk_meet(struct disk *disk, struct err *err)
{
    struct stat stat;
    int fd = -1;
    int code = open_root(disk, &fd, &stat);

    if (code < 0)
        return disk_error(disk, "", NULL, -code, err);
    close(fd);
    disk->device = stat.st_dev;
    disk->inode = stat.st_ino;
    disk->known = true;
    return 0;
}

int disk_open_folder(const struct disk *disk, const char *name, struct folder *ret_folder,
                     struct err *err)
{
    cleanup_close int root = -1;
    int code = disk_open_root(disk, &root, err);

    if (code < 0)
        return code;
    int fd = openat(root, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &ret_folder->stat) < 0) {
        code = disk_error(disk, name, NULL, errno, err);
        if (fd >= 0)
            close(fd);
        return code;
    }
    ret_folder->fd = fd;
    return 0;
}

/* Gives FD, a new folder's, what the root has. What cannot be had of it is no failure: the folder
 * is there. */
static void take_permissions(int fd, const struct stat *root)
{
    struct stat made;

    if (fstat(fd, &made) < 0)
        return;
    if (geteuid() == 0 && (made.st_uid != root->st_uid || made.st_gid != root->st_gid) &&
        fchown(fd, root->st_uid, root->st_gid) < 0)
        return;
    if ((made.st_mode & 07777) != (root->st_mode & 07777) && fchmod(fd, root->st_mode & 07777) < 0)
        return;
}

int disk_make_folder(const struct disk *disk, const char *name, struct err *err)
{
    cleanup_close int root = -1;
    struct stat stat;
    int code = disk_open_root(disk, &root, err);

    if (code < 0)
        return code;
    if (fstat(root, &stat) < 0)
        return disk_error(disk, "", NULL, errno, err);
    code = mkdirat(root, name, 0700) < 0 ? -errno : 0;
    if (code < 0 && code != -EEXIST)
        return disk_error(disk, name, NULL, -code, err);
    cleanup_close int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) /* no folder */
        return disk_error(disk, name, NULL, errno, err);
    if (code == 0)
        take_permissions(fd, &stat);
    return code < 0 ? disk_error(disk, name, NULL, EEXIST, err) : 0;
}

/* What else than temporaries of nobody, which go, is in it. */
static int check_empty(const struct disk *disk, const char *name, const struct folder *folder,
                       struct err *err)
{
    int fd = fcntl(folder->fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int code = 0;

    if (!dir) {
        code = disk_error(disk, name, NULL, errno, err);
        close_descriptor(&fd);
        return code;
    }
    rewinddir(dir); /* the place is shared with the descriptor it was made of */
    while (code == 0 && (errno = 0, entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (file_is_temporary(entry->d_name))
            temporary_tidy(folder, entry->d_name);
        else
            code = err_set(err, ENOTEMPTY, "%s/%s is not empty: there is \"%s\"", disk->path, name,
                           entry->d_name);
    }
    if (code == 0 && errno)
        code = disk_error(disk, name, NULL, errno, err);
    closedir(dir);
    return code;
}

int disk_check_empty(const struct disk *disk, const char *name, struct err *err)
{
    cleanup_folder struct folder folder = {.fd = -1};
    int code = disk_open_folder(disk, name, &folder, err);

    return code < 0 ? code : check_empty(disk, name, &folder, err);
}

int disk_remove_folder(const struct disk *disk, const char *name, struct err *err)
{
    cleanup_close int root = -1;
    int code = disk_check_empty(disk, name, err);

    if (code == 0)
        code = disk_open_root(disk, &root, err);
    if (code < 0)
        return code;
    return unlinkat(root, name, AT_REMOVEDIR) < 0 ? disk_error(disk, name, NULL, errno, err) : 0;
}

/* Where the system cannot refuse to replace what is there, only an empty folder is in danger. */
static int rename_folder(int root, const char *from, const char *to)
{
    struct stat stat;

    if (renameat2(root, from, root, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (fstatat(root, to, &stat, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(root, from, root, to) < 0 ? -errno : 0;
}

int disk_rename_folder(const struct disk *disk, const char *from, const char *to, struct err *err)
{
    cleanup_close int root = -1;
    int code = disk_open_root(disk, &root, err);

    if (code < 0)
        return code;
    code = rename_folder(root, from, to);
    return code < 0 ? disk_error(disk, code == -EEXIST ? to : from, NULL, -code, err) : 0;
}

/* --- The disk --- */

int disk_sync(const struct disk *disk, struct err *err)
{
    cleanup_folder struct folder root = {.fd = -1};
    int code = disk_open_folder(disk, "", &root, err);

    if (code < 0)
        return code;
    return syncfs(root.fd) < 0 ? disk_error(disk, "", NULL, errno, err) : 0;
}

int disk_statfs(const struct disk *disk, struct statvfs *ret_stat, struct err *err)
{
    cleanup_close int root = -1;
    int code = disk_open_root(disk, &root, err);

    if (code < 0)
        return code;
    return fstatvfs(root, ret_stat) < 0 ? disk_error(disk, "", NULL, errno, err) : 0;
}
