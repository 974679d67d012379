/* SPDX-License-Identifier: MIT */
/*
 * Times of records may go back a little, since those of different items come in any order. A mark
 * says since when the time has been at least so late: it is the newest one so far, and so marks are
 * in order. There is one for each step of time in which something came, at most.
 */
#include "fs/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define STEP_NS (60 * NS_PER_S) /* at which the next mark is due */
#define BATCH_BYTES (1u << 20)
#define BATCH_KEPT (4u << 20) /* memory of a batch with large records that is kept for the next */

/* Records from AT on are of TIME_NS or later, but for those that came late. */
struct mark {
    int64_t time_ns;
    uint64_t at;
};

struct spool {
    int fd;
    char *directory;
    struct buf batch; /* the writer's: what is not written yet */
    int error;        /* the writer's: negative once something could not be written */

    pthread_mutex_t lock; /* guards all below, which the writer alone changes; taken last */
    uint64_t size, gone;  /* what was written, and given up, from the beginning on */
    int64_t newest_ns;
    struct mark *marks; /* those behind `gone` */
    size_t count, room;
};

static int failed(const struct spool *spool, int error, struct err *err)
{
    return err_set(err, error, "changes cannot be kept in %s (state_dir): %s", spool->directory,
                   strerror(error));
}

/* Where a filesystem makes no nameless file, one whose name goes at once. */
static int open_nameless(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    char *path = NULL;
    if (asprintf(&path, "%s/changes-XXXXXX", directory) < 0)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    free(path);
    return fd;
}

int spool_new(const char *directory, struct spool **ret_spool, struct err *err)
{
    struct spool *spool = calloc(1, sizeof *spool);
    if (!spool)
        return -ENOMEM;
    spool->fd = -1;
    pthread_mutex_init(&spool->lock, NULL);
    buf_init(&spool->batch, SIZE_MAX / 2);
    spool->directory = strdup(directory);
    int code = spool->directory ? 0 : -ENOMEM;
    if (code == 0)
        spool->fd = open_nameless(directory);
    if (code == 0 && spool->fd < 0)
        code = failed(spool, errno, err);
    if (code < 0) {
        spool_free(spool);
        return code;
    }
    *ret_spool = spool;
    return 0;
}

void spool_free(struct spool *spool)
{
    if (!spool)
        return;
    if (spool->fd >= 0)
        close(spool->fd);
    free(spool->directory);
    buf_release(&spool->batch);
    free(spool->marks);
    pthread_mutex_destroy(&spool->lock);
    free(spool);
}

/* --- The writer --- */

static int write_all(const struct spool *spool, struct span bytes)
{
    uint64_t at = spool->size;
    while (bytes.len) {
        ssize_t len = pwrite(spool->fd, bytes.data, bytes.len, (off_t)at);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return len < 0 ? errno : EIO;
        bytes = span_from(bytes, (size_t)len);
        at += (size_t)len;
    }
    return 0;
}

int spool_flush(struct spool *spool, struct err *err)
{
    int error = spool->error ? -spool->error : -buf_error(&spool->batch);
    if (!error)
        error = write_all(spool, buf_span(&spool->batch));
    if (error) {
        spool->error = -error;
        return failed(spool, error, err);
    }
    pthread_mutex_lock(&spool->lock);
    spool->size += spool->batch.len;
    pthread_mutex_unlock(&spool->lock);
    if (spool->batch.capacity > BATCH_KEPT)
        buf_release(&spool->batch);
    buf_clear(&spool->batch);
    return 0;
}

/* What comes next is at the end of what was written. */
static int add_mark(struct spool *spool, int64_t time_ns)
{
    scoped_lock(&spool->lock);
    if (spool->count == spool->room) {
        size_t room = spool->room ? spool->room * 2 : 64;
        struct mark *marks = reallocarray(spool->marks, room, sizeof *marks);
        if (!marks)
            return -ENOMEM;
        spool->marks = marks;
        spool->room = room;
    }
    spool->marks[spool->count++] = (struct mark){time_ns, spool->size};
    return 0;
}

int spool_add(struct spool *spool, struct span record, int64_t time_ns, struct err *err)
{
    bool step = spool->count == 0 || time_ns >= spool->marks[spool->count - 1].time_ns + STEP_NS;
    int code = 0;
    if (step || spool->batch.len >= BATCH_BYTES)
        code = spool_flush(spool, err);
    if (code == 0 && step)
        code = add_mark(spool, time_ns);
    if (code < 0)
        return code;
    if (time_ns > spool->newest_ns) {
        scoped_lock(&spool->lock);
        spool->newest_ns = time_ns;
    }
    buf_add_span(&spool->batch, record);
    return buf_error(&spool->batch);
}

/* How many marks have only records of before TIME_NS behind them up to the next. */
static size_t marks_before(const struct spool *spool, int64_t time_ns)
{
    size_t low = 0, high = spool->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spool->marks[middle].time_ns + STEP_NS <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t place_of(const struct spool *spool, size_t mark)
{
    return mark < spool->count ? spool->marks[mark].at : spool->size;
}

int spool_trim(struct spool *spool, int64_t time_ns, struct err *err)
{
    size_t first = marks_before(spool, time_ns);
    uint64_t from = spool->gone, to = place_of(spool, first);
    if (first == 0)
        return 0;
    pthread_mutex_lock(&spool->lock);
    spool->gone = to; /* before it is so: spool_read looks at it afterwards */
    spool->count -= first;
    memmove(spool->marks, spool->marks + first, spool->count * sizeof *spool->marks);
    pthread_mutex_unlock(&spool->lock);
    if (fallocate(spool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(to - from)) == 0)
        return 0;
    return err_set(err, errno, "%s (state_dir) keeps the space of changes that nobody needs: %s",
                   spool->directory, strerror(errno));
}

/* --- Everybody --- */

uint64_t spool_size(struct spool *spool)
{
    scoped_lock(&spool->lock);
    return spool->size;
}

int64_t spool_newest(struct spool *spool)
{
    scoped_lock(&spool->lock);
    return spool->newest_ns;
}

uint64_t spool_since(struct spool *spool, int64_t time_ns)
{
    scoped_lock(&spool->lock);
    return place_of(spool, marks_before(spool, time_ns));
}

bool spool_is_older(struct spool *spool, uint64_t at, int64_t time_ns)
{
    scoped_lock(&spool->lock);
    if (at < spool->gone)
        return true;
    for (size_t i = 0; i < spool->count; i++)
        if (spool->marks[i].at >= at)
            return spool->marks[i].time_ns < time_ns;
    return false;
}

/* How much of SIZE bytes from AT on there is; -EIO. */
static ssize_t bytes_at(struct spool *spool, uint64_t at, size_t size, struct err *err)
{
    scoped_lock(&spool->lock);
    if (at < spool->gone)
        return err_set(err, EIO, "the changes that were here are too old to be kept");
    if (at >= spool->size)
        return 0;
    return (ssize_t)(spool->size - at < size ? spool->size - at : size);
}

int spool_read(struct spool *spool, uint64_t at, size_t size, struct buf *out, struct err *err)
{
    ssize_t wanted = bytes_at(spool, at, size, err);
    if (wanted <= 0)
        return (int)wanted;
    size_t begin = out->len, have = 0;
    buf_resize(out, begin + (size_t)wanted);
    if (buf_error(out))
        return buf_error(out);
    while (have < (size_t)wanted) {
        ssize_t len =
            pread(spool->fd, out->data + begin + have, (size_t)wanted - have, (off_t)(at + have));
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return failed(spool, len < 0 ? errno : EIO, err);
        have += (size_t)len;
    }
    wanted = bytes_at(spool, at, size, err); /* it may have been given up meanwhile */
    return wanted < 0 ? (int)wanted : 0;
}
