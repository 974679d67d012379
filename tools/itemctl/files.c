/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define STATUS_BROKEN_PIPE 141

char *path_make(const char *format, ...)
{
    va_list values;
    char *path;

    va_start(values, format);
    int len = vasprintf(&path, format, values);
    va_end(values);
    return len < 0 ? NULL : path;
}

int file_failed(const char *name, struct err *err)
{
    int code = errno;

    return err_set(err, code, "%s: %s", name, strerror(code));
}

int file_write(int fd, const char *name, struct span text, struct err *err)
{
    while (text.len) {
        ssize_t put = write(fd, text.data, text.len);

        if (put < 0 && errno == EPIPE)
            _exit(STATUS_BROKEN_PIPE);
        if (put < 0)
            return file_failed(name, err);
        text = span_of(text.data + put, text.len - (size_t)put);
    }
    return 0;
}

int file_make(const char *path, struct span text, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    int r = fd < 0 ? file_failed(path, err) : file_write(fd, path, text, err);

    if (r == 0 && fsync(fd) < 0)
        r = file_failed(path, err);
    if (fd >= 0)
        close(fd);
    return r;
}

int directory_sync(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return 0; /* not readable: what was renamed is as safe as can be */
    int r = fsync(fd) < 0 && errno != EINVAL ? file_failed(path, err) : 0;
    close(fd);
    return r;
}

int directory_sync_of(const char *path, struct err *err)
{
    cleanup_free char *directory = strdup(path);
    char *slash = directory ? strrchr(directory, '/') : NULL;

    if (slash)
        slash[slash == directory] = '\0';
    return directory_sync(slash ? directory : ".", err);
}
