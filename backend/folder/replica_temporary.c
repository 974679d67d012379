/* SPDX-License-Identifier: MIT */
/*
 * Temporaries, and what tries a disk by means of one.
 *
 * A temporary is locked (flock) by its maker until it has been renamed or removed, so that what can
 * be locked is left over of a program that was killed. Between its creation and its lock another
 * program may take it for such a one: then the lock fails, or the file has no name any more, and
 * another is made.
 */
#include "backend/folder/replica_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>

#include "base/clock.h"

#define TRIES 16
#define PROBE_SIZE 512
#define PROBE_TIME_NS INT64_C(1111111111123456789) /* a multiple of nothing */

bool file_is_temporary(const char *name)
{
    return strncmp(name, FILE_TEMPORARY_PREFIX, strlen(FILE_TEMPORARY_PREFIX)) == 0;
}

bool file_is_temporary_of(const char *name, uint32_t tag)
{
    char text[9];

    snprintf(text, sizeof text, "%08x", tag);
    return file_is_temporary(name) &&
           strncmp(name + strlen(FILE_TEMPORARY_PREFIX), text, strlen(text)) == 0;
}

/* --- Making --- */

static mode_t new_mode(const struct disk *disk, const struct folder *folder)
{
    return disk->mode ? disk->mode : folder->stat.st_mode & 0664;
}

/* One try. -EEXIST: the name is taken, or the file was taken for a left one. */
static int make(const struct disk *disk, const struct folder *folder, mode_t mode,
                struct temporary *temporary, struct stat *ret_stat)
{
    uint32_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -EIO;
    snprintf(temporary->name, sizeof temporary->name, FILE_TEMPORARY_PREFIX "%08x%08x", disk->tag,
             random);
    temporary->fd = openat(folder->fd, temporary->name,
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (temporary->fd < 0)
        return -errno;
    if (flock(temporary->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return -EEXIST;
    if (fstat(temporary->fd, ret_stat) < 0)
        return -errno;
    return ret_stat->st_nlink == 0 ? -EEXIST : 0;
}

int temporary_make(const struct disk *disk, const struct folder *folder, const char *name,
                   const struct stat *old, struct temporary *temporary)
{
    mode_t mode = old ? old->st_mode & 0777 : new_mode(disk, folder);
    struct stat made;
    int code = -EEXIST;

    for (int i = 0; i < TRIES && code == -EEXIST; i++) {
        if (i > 0)
            temporary_drop(folder, temporary);
        code = make(disk, folder, mode, temporary, &made);
    }
    if (code < 0)
        return code;
    return attributes_take(folder, name, old, &made, mode, temporary->fd);
}

void temporary_drop(const struct folder *folder, struct temporary *temporary)
{
    if (temporary->fd < 0)
        return;
    if (temporary->name[0])
        unlinkat(folder->fd, temporary->name, 0);
    close(temporary->fd);
    temporary->fd = -1;
}

int write_whole(int fd, struct span data, off_t at)
{
    while (data.len > 0) {
        ssize_t put = pwrite(fd, data.data, data.len, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        data = span_from(data, (size_t)put);
        at += put;
    }
    return 0;
}

int set_time(int fd, int64_t time_ns)
{
    int64_t rest = ((time_ns % NS_PER_S) + NS_PER_S) % NS_PER_S;
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)((time_ns - rest) / NS_PER_S), .tv_nsec = (long)rest},
    };

    return futimens(fd, times) < 0 ? -errno : 0;
}

/* --- Those that are left over --- */

void temporary_tidy(const struct folder *folder, const char *name)
{
    cleanup_close int fd = openat(folder->fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder->fd, name, 0);
}

int disk_tidy(const struct disk *disk, const char *name, struct err *err)
{
    struct folder folder = {.fd = -1};
    struct dirent *entry;
    int code = disk_open_folder(disk, name, &folder, err);

    if (code < 0)
        return code;
    DIR *dir = fdopendir(folder.fd);
    if (!dir) {
        code = disk_error(disk, name, NULL, errno, err);
        close(folder.fd);
        return code;
    }
    while ((errno = 0, entry = readdir(dir)))
        if (file_is_temporary(entry->d_name))
            temporary_tidy(&folder, entry->d_name);
    if (errno)
        code = disk_error(disk, name, NULL, errno, err);
    closedir(dir);
    return code;
}

/* --- Trying a disk --- */

/* The largest power of ten that a time of the file shows to be its unit. */
static int find_grain(int fd, int64_t *ret_grain_ns)
{
    struct stat stat;
    int code = set_time(fd, PROBE_TIME_NS);

    if (code < 0)
        return code;
    if (fstat(fd, &stat) < 0)
        return -errno;
    int64_t told_ns = time_ns_of(stat.st_mtim);
    int64_t grain_ns = 1;
    while (grain_ns < NS_PER_S && told_ns % (grain_ns * 10) == 0)
        grain_ns *= 10;
    if (grain_ns == NS_PER_S && told_ns % (2 * NS_PER_S) == 0) /* as FAT has it */
        grain_ns *= 2;
    *ret_grain_ns = grain_ns;
    return 0;
}

static int write_and_read(int fd)
{
    char bytes[PROBE_SIZE], back[PROBE_SIZE];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return -EIO;
    int code = write_whole(fd, span_of(bytes, sizeof bytes), 0);
    if (code < 0)
        return code;
    ssize_t got = pread(fd, back, sizeof back, 0);
    if (got < 0)
        return -errno;
    return got == sizeof back && memcmp(bytes, back, sizeof back) == 0 ? 0 : -EIO;
}

int disk_probe(struct disk *disk, int64_t *ret_ns, struct err *err)
{
    cleanup_folder struct folder root = {.fd = -1};
    struct temporary probe = {.fd = -1};
    int64_t begin_ns = clock_steady_ns();
    int code = disk_open_folder(disk, "", &root, err);

    if (code < 0)
        return code;
    code = temporary_make(disk, &root, "", NULL, &probe);
    if (code == 0)
        code = write_and_read(probe.fd);
    *ret_ns = clock_steady_ns() - begin_ns;
    if (code == 0 && fsync(probe.fd) < 0)
        code = -errno;
    if (code == 0)
        code = find_grain(probe.fd, &disk->grain_ns);
    temporary_drop(&root, &probe);
    return code < 0 ? disk_error(disk, "", NULL, -code, err) : 0;
}

int disk_try(struct disk *disk, struct err *err)
{
    cleanup_folder struct folder root = {.fd = -1};
    struct temporary probe = {.fd = -1};
    int code = disk_open_folder(disk, "", &root, err);

    if (code < 0)
        return code;
    code = temporary_make(disk, &root, "", NULL, &probe);
    if (code == 0)
        code = find_grain(probe.fd, &disk->grain_ns);
    temporary_drop(&root, &probe);
    if (code == -ENOSPC || code == -EDQUOT)
        return 0;
    return code < 0 ? disk_error(disk, "", NULL, -code, err) : 0;
}
