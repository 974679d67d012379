/* SPDX-License-Identifier: MIT */
/*
 * Who may touch an item's files and row. A stripe is a mutex within this object, and a byte of the
 * lock file between objects and processes; the kernel lets go of the latter when a process ends.
 * Behind the stripes the file has three numbers. One tells that tables have changed; one, random,
 * that replicas have gone out of use or come back: whoever has taken a stripe knows that as all
 * others do (outs.c); and one which list of replicas they have agreed upon (list.c). Then follows,
 * as long as a replica is being filled, what was written there, so that whoever goes on after a
 * crash knows it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/folder/private.h"
#include "base/text.h"

#define GENERATION_AT 64
#define STAMP_AT 72
#define HEAL_AT 80 /* bytes that are locked */
#define OUTS_AT 81
#define LIST_AT 88
#define FILLED_AT 96 /* the replica; behind it the list */
#define FILLED_MOST (UINT64_C(1) << 27)

int locks_open(struct folder *folder, const char *path, struct err *err)
{
    folder->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock_fd < 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    return 0;
}

void locks_close(struct folder *folder)
{
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
}

uint64_t lock_bit(uint64_t table_id, struct span partition)
{
    return UINT64_C(1) << (hash64(partition, table_id) % STRIPES);
}

static int range_lock(const struct folder *folder, short kind, off_t at, off_t len)
{
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = at, .l_len = len};

    while (fcntl(folder->lock_fd, F_OFD_SETLKW, &range) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

void locks_give(struct folder *folder, uint64_t stripes)
{
    if (stripes == ALL_STRIPES)
        (void)range_lock(folder, F_UNLCK, 0, STRIPES);
    for (int i = STRIPES - 1; i >= 0; i--) {
        if (!(stripes >> i & 1))
            continue;
        if (stripes != ALL_STRIPES)
            (void)range_lock(folder, F_UNLCK, i, 1);
        pthread_mutex_unlock(&folder->stripes[i]);
    }
}

static int take(struct folder *folder, uint64_t stripes, struct err *err)
{
    uint64_t taken = 0;
    int r = 0;

    for (int i = 0; r == 0 && i < STRIPES; i++) {
        if (!(stripes >> i & 1))
            continue;
        pthread_mutex_lock(&folder->stripes[i]);
        taken |= UINT64_C(1) << i;
        r = range_lock(folder, F_WRLCK, i, 1);
    }
    if (r < 0)
        r = err_set(err, -r, "the lock beside the state database cannot be had: %s", strerror(-r));
    else
        r = outs_follow(folder, err);
    if (r < 0)
        locks_give(folder, taken);
    return r;
}

int locks_take_healing(struct folder *folder, struct err *err)
{
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = HEAL_AT, .l_len = 1};

    if (fcntl(folder->lock_fd, F_OFD_SETLK, &byte) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES
               ? -EBUSY
               : err_set(err, errno, "the lock beside the state database: %s", strerror(errno));
}

void locks_give_healing(struct folder *folder)
{
    (void)range_lock(folder, F_UNLCK, HEAL_AT, 1);
}

/* Threads of this object wait for each other by a mutex. */
int locks_take_outs(struct folder *folder, struct err *err)
{
    pthread_mutex_lock(&folder->record_lock);
    int r = range_lock(folder, F_WRLCK, OUTS_AT, 1);
    if (r == 0)
        return 0;
    pthread_mutex_unlock(&folder->record_lock);
    return err_set(err, -r, "the lock beside the state database cannot be had: %s", strerror(-r));
}

/* A list that has changed counts for whoever has a stripe: nobody changes it who has not all. */
int locks_take(struct folder *folder, uint64_t stripes, struct err *err)
{
    int r = take(folder, stripes, err);

    while (r == 0 && list_changed(folder)) {
        if (stripes != ALL_STRIPES) {
            locks_give(folder, stripes);
            r = take(folder, ALL_STRIPES, err);
        }
        if (r == 0 && list_changed(folder))
            list_reload(folder);
        if (r == 0 && stripes != ALL_STRIPES) {
            locks_give(folder, ALL_STRIPES);
            r = take(folder, stripes, err);
        }
    }
    return r;
}

/* Of a number that stands in the lock file; 0 where none does. */
static int read_number(const struct folder *folder, off_t at, uint64_t *ret_number, struct err *err)
{
    *ret_number = 0;
    if (pread(folder->lock_fd, ret_number, sizeof *ret_number, at) < 0)
        return err_set(err, errno, "the lock beside the state database: %s", strerror(errno));
    return 0;
}

static int write_number(const struct folder *folder, off_t at, uint64_t number, struct err *err)
{
    if (pwrite(folder->lock_fd, &number, sizeof number, at) == sizeof number)
        return 0;
    return err_set(err, errno ? errno : EIO, "the lock beside the state database: %s",
                   strerror(errno));
}

int locks_list(struct folder *folder, uint64_t *ret_number, struct err *err)
{
    return read_number(folder, LIST_AT, ret_number, err);
}

int locks_set_list(struct folder *folder, uint64_t number, struct err *err)
{
    return write_number(folder, LIST_AT, number, err);
}

void locks_give_outs(struct folder *folder)
{
    (void)range_lock(folder, F_UNLCK, OUTS_AT, 1);
    pthread_mutex_unlock(&folder->record_lock);
}

int locks_stamp(struct folder *folder, uint64_t *ret_stamp, struct err *err)
{
    return read_number(folder, STAMP_AT, ret_stamp, err);
}

int locks_next_stamp(struct folder *folder, struct err *err)
{
    uint64_t stamp;

    if (getrandom(&stamp, sizeof stamp, 0) != sizeof stamp)
        return err_set(err, EIO, "no random numbers from the system");
    return write_number(folder, STAMP_AT, stamp, err);
}

int locks_generation(struct folder *folder, uint64_t *ret_generation, struct err *err)
{
    int r = read_number(folder, GENERATION_AT, ret_generation, err);

    ++*ret_generation; /* 0: never looked */
    return r;
}

int locks_next_generation(struct folder *folder, struct err *err)
{
    uint64_t generation;
    int r = locks_generation(folder, &generation, err);

    return r ? r : write_number(folder, GENERATION_AT, generation, err);
}

/* --- What was written to the replica that is being filled --- */

static int failed(struct err *err)
{
    return err_set(err, errno, "the lock file: %s", strerror(errno));
}

int locks_filled_begin(struct folder *folder, uint64_t replica, struct buf *written,
                       struct err *err)
{
    const off_t at = FILLED_AT + (off_t)sizeof replica;
    uint64_t found = 0;
    struct stat stat;

    if (fstat(folder->lock_fd, &stat) < 0)
        return failed(err);
    if (pread(folder->lock_fd, &found, sizeof found, FILLED_AT) != sizeof found ||
        found != replica || stat.st_size > (off_t)FILLED_MOST) {
        if (ftruncate(folder->lock_fd, FILLED_AT) < 0 ||
            pwrite(folder->lock_fd, &replica, sizeof replica, FILLED_AT) != sizeof replica)
            return failed(err);
        return 0;
    }
    size_t size = (size_t)(stat.st_size - at) / sizeof(uint64_t) * sizeof(uint64_t);
    buf_resize(written, size);
    if (buf_error(written))
        return err_set(err, ENOMEM, "no memory");
    return pread(folder->lock_fd, written->data, size, at) == (ssize_t)size ? 0 : failed(err);
}

int locks_filled_add(struct folder *folder, uint64_t hash, struct buf *written, struct err *err)
{
    const off_t at = FILLED_AT + (off_t)(sizeof hash + written->len);

    buf_add(written, &hash, sizeof hash);
    if (buf_error(written))
        return err_set(err, ENOMEM, "no memory");
    return pwrite(folder->lock_fd, &hash, sizeof hash, at) == sizeof hash ? 0 : failed(err);
}

void locks_filled_end(struct folder *folder)
{
    (void)!ftruncate(folder->lock_fd, FILLED_AT);
}
