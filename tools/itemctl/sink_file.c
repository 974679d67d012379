/* SPDX-License-Identifier: MIT */
/*
 * An export into one file. Lines go to FILE.partial, which takes FILE's place when all is there.
 * The position (FILE.partial-position) tells from time to time how many of its bytes are on the
 * disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/itemctl/files.h"
#include "tools/itemctl/sink.h"
#include "tools/itemctl/transfer.h"

struct file_sink {
    struct sink sink; /* first */
    char *name;       /* as it was given; for messages */
    char *path;       /* the file to be; NULL: direct */
    char *partial;
    int fd;
    uint64_t offset;
    int64_t settle_ns; /* when to settle next */
};

static struct file_sink *file_of(struct sink *sink)
{
    return (struct file_sink *)sink;
}

static void add_line(struct buf *lines, struct span typed)
{
    buf_add_span(lines, typed);
    buf_add_char(lines, '\n');
}

static int file_take_up(struct sink *sink, const struct position *position, bool known,
                        struct err *err)
{
    struct file_sink *file = file_of(sink);
    struct stat partial;

    file->fd = open(file->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file->fd < 0 || fstat(file->fd, &partial) < 0)
        return file_failed(file->partial, err);
    if (known && (uint64_t)partial.st_size >= position->offset)
        file->offset = position->offset;
    if (ftruncate(file->fd, (off_t)file->offset) < 0 ||
        lseek(file->fd, (off_t)file->offset, SEEK_SET) < 0)
        return file_failed(file->partial, err);
    return file->offset ? SINK_GOES_ON : partial.st_size ? SINK_OF_NO_USE : SINK_NEW;
}

static int file_put(struct sink *sink, struct span lines, uint64_t items, struct err *err)
{
    struct file_sink *file = file_of(sink);

    (void)items;
    file->offset += lines.len;
    return file_write(file->fd, file->name, lines, err);
}

static int file_settle(struct sink *sink, struct position *position, bool now, struct err *err)
{
    struct file_sink *file = file_of(sink);

    if (!file->path || (!now && clock_steady_ns() < file->settle_ns))
        return 0;
    if (fdatasync(file->fd) < 0)
        return file_failed(file->partial, err);
    position->offset = file->offset;
    file->settle_ns = clock_steady_ns() + TRANSFER_SAVE_NS;
    return 1;
}

static int file_finish(struct sink *sink, uint64_t items, struct err *err)
{
    struct file_sink *file = file_of(sink);

    (void)items;
    if (!file->path)
        return 0;
    if (fsync(file->fd) < 0)
        return file_failed(file->partial, err);
    if (rename(file->partial, file->path) < 0)
        return file_failed(file->name, err);
    return directory_sync_of(file->path, err);
}

static void file_close(struct sink *sink)
{
    struct file_sink *file = file_of(sink);

    if (file->fd > STDERR_FILENO)
        close(file->fd);
    free(file->sink.position);
    free(file->name);
    free(file->path);
    free(file->partial);
    free(file);
}

static const struct sink_ops file_ops = {
    .add = add_line,
    .take_up = file_take_up,
    .write = file_put,
    .settle = file_settle,
    .finish = file_finish,
    .close = file_close,
};

static int name_files(struct file_sink *file)
{
    file->path = realpath(file->name, NULL);
    if (!file->path)
        file->path = strdup(file->name);
    if (!file->path)
        return -ENOMEM;
    file->partial = path_make("%s.partial", file->path);
    file->sink.position = path_make("%s.partial-position", file->path);
    return file->partial && file->sink.position ? 0 : -ENOMEM;
}

int sink_file_open(const char *name, struct sink **ret_sink, struct err *err)
{
    struct file_sink *file = calloc(1, sizeof *file);
    bool standard = strcmp(name, "-") == 0;
    struct stat found;
    int r = 0;

    if (!file)
        return -ENOMEM;
    file->sink.ops = &file_ops;
    file->fd = -1;
    file->name = strdup(standard ? "standard output" : name);
    if (!file->name) {
        r = -ENOMEM;
    } else if (standard) {
        file->fd = STDOUT_FILENO;
    } else if (stat(name, &found) == 0 && !S_ISREG(found.st_mode)) {
        file->fd = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        r = file->fd < 0 ? file_failed(name, err) : 0;
    } else {
        r = name_files(file);
    }
    if (r < 0)
        file_close(&file->sink);
    else
        *ret_sink = &file->sink;
    return r;
}
