/* SPDX-License-Identifier: MIT */
/*
 * The file is a hash table on disk: a page that says how many buckets there are (a power of two),
 * then the buckets, a page of slots each. A row is in the bucket that the low bits of its id name.
 *
 * Readers take no lock: a slot has a checksum, and one that is just being written is looked at
 * again. Writers hold a lock on the file, which ends with their process.
 *
 * When a bucket is full, their number is doubled: first what belongs into the upper half is copied
 * there, then the number is changed. So whoever is killed in between leaves the table as it was,
 * and rows that have moved away need not be removed: nobody looks for them where they were, and
 * their slots count as free. At the largest size the row of a full bucket that was seen least
 * lately gives way.
 *
 * Nothing is synced but the copies before the number is changed: a power failure costs the times
 * that were noted in the last moments.
 */
#include "backend/times.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/text.h"

#define DAY_S 86400
#define LOOKS 3 /* at a slot that may be half written */
#define MAGIC "itemfs times 1\n"
#define BYTE_ORDER_MARK 0x01020304u

struct head {
    char magic[sizeof MAGIC];
    uint32_t byte_order;
    uint64_t buckets;
};

/* All zero: never used. */
struct slot {
    int64_t id;
    uint64_t version;
    int64_t mtime_ns, ctime_ns, change_ns;
    uint16_t seen; /* day since the epoch: enough to know what was seen lately, and written once */
    uint8_t used, modified;
    uint32_t check; /* of all before */
};
_Static_assert(sizeof(struct slot) == TIMES_SLOT && sizeof(struct head) <= TIMES_BUCKET,
               "the file's form");

#define SLOTS (TIMES_BUCKET / TIMES_SLOT)
struct bucket {
    struct slot slots[SLOTS];
};

struct times {
    int fd;
    uint64_t most;        /* buckets */
    pthread_mutex_t lock; /* of writers, around the file's lock, which is the process's */
};

int64_t times_id(uint64_t table_id, struct key key)
{
    uint64_t hash = hash64(key.sort, hash64(key.partition, table_id));

    return (int64_t)hash;
}

static uint16_t today(void)
{
    return (uint16_t)(clock_now_s() / DAY_S);
}

/* --- Pieces of the file --- */

static bool read_at(const struct times *times, void *data, size_t size, uint64_t offset)
{
    return pread(times->fd, data, size, (off_t)offset) == (ssize_t)size;
}

static bool write_at(const struct times *times, const void *data, size_t size, uint64_t offset)
{
    return pwrite(times->fd, data, size, (off_t)offset) == (ssize_t)size;
}

/* 0: the file is none of ours, or spoiled. */
static uint64_t count_buckets(const struct times *times)
{
    struct head head;

    if (!read_at(times, &head, sizeof head, 0) || memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 ||
        head.byte_order != BYTE_ORDER_MARK || (head.buckets & (head.buckets - 1)))
        return 0;
    return head.buckets;
}

static bool write_head(const struct times *times, uint64_t buckets)
{
    struct head head = {.magic = MAGIC, .byte_order = BYTE_ORDER_MARK, .buckets = buckets};

    return write_at(times, &head, sizeof head, 0);
}

static uint64_t bucket_of(int64_t id, uint64_t buckets)
{
    return (uint64_t)id & (buckets - 1);
}

static uint64_t bucket_offset(uint64_t bucket)
{
    return (bucket + 1) * TIMES_BUCKET;
}

static uint32_t checksum(const struct slot *slot)
{
    return crc32_of(span_of((const char *)slot, offsetof(struct slot, check)));
}

/* --- Slots --- */

enum found { FOUND_NONE, FOUND_SPOILED, FOUND_WHOLE };

static enum found search(const struct bucket *bucket, int64_t id, size_t *ret_at)
{
    for (size_t i = 0; i < SLOTS; i++) {
        const struct slot *slot = &bucket->slots[i];
        if (slot->id != id || !slot->used)
            continue;
        *ret_at = i;
        return slot->check == checksum(slot) ? FOUND_WHOLE : FOUND_SPOILED;
    }
    return FOUND_NONE;
}

/* Where a new row goes: a slot that is free, or the one of all that was seen least lately. */
static size_t choose(const struct bucket *bucket, uint64_t number, uint64_t buckets, bool *ret_free)
{
    size_t least = 0;

    *ret_free = true;
    for (size_t i = 0; i < SLOTS; i++) {
        const struct slot *slot = &bucket->slots[i];
        if (!slot->used || bucket_of(slot->id, buckets) != number)
            return i;
        if (slot->seen < bucket->slots[least].seen)
            least = i;
    }
    *ret_free = false;
    return least;
}

/* Whether the row's times are known; else, whether another version is, RET_OTHER. */
static bool take_times(const struct slot *slot, struct times_row *row, bool *ret_seen_today)
{
    if (slot->version != row->version) {
        row->modified = true;
        return false;
    }
    row->mtime_ns = slot->mtime_ns;
    row->ctime_ns = slot->ctime_ns;
    row->change_ns = slot->change_ns;
    row->modified = slot->modified;
    *ret_seen_today = slot->seen == today();
    return true;
}

bool times_find(struct times *times, struct times_row *row, bool *ret_meet)
{
    struct bucket bucket;
    enum found found = FOUND_NONE;
    bool seen_today = false, known = false;
    size_t at = 0;

    for (int look = 0; look < LOOKS; look++) {
        uint64_t buckets = count_buckets(times);
        uint64_t number = bucket_of(row->id, buckets);
        if (buckets == 0 || !read_at(times, &bucket, sizeof bucket, bucket_offset(number)))
            break;
        found = search(&bucket, row->id, &at);
        if (found !=
            FOUND_SPOILED) /* one that is moving may seem to be unknown: times_meet looks */
            break;
    }
    if (found == FOUND_WHOLE)
        known = take_times(&bucket.slots[at], row, &seen_today);
    *ret_meet = !seen_today;
    return known;
}

/* --- Writing --- */

static bool lock_file(const struct times *times, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int r;

    do
        r = fcntl(times->fd, F_OFD_SETLKW, &lock);
    while (r < 0 && errno == EINTR);
    return r == 0;
}

static bool make_anew(const struct times *times)
{
    return ftruncate(times->fd, 0) == 0 && ftruncate(times->fd, (off_t)bucket_offset(1)) == 0 &&
           write_head(times, 1);
}

/* Whether the file has all its buckets: somebody may have cut it off. */
static bool is_whole(const struct times *times, uint64_t buckets)
{
    struct stat file;

    return fstat(times->fd, &file) == 0 && (uint64_t)file.st_size >= bucket_offset(buckets);
}

/* The number of buckets, or 0: nothing can be noted now, and nothing is held. */
static uint64_t writing_begin(struct times *times)
{
    pthread_mutex_lock(&times->lock);
    uint64_t buckets = 0;
    if (lock_file(times, F_WRLCK)) {
        buckets = count_buckets(times);
        if (buckets && !is_whole(times, buckets))
            buckets = 0;
        if (buckets == 0 && make_anew(times))
            buckets = 1;
        if (buckets == 0)
            lock_file(times, F_UNLCK);
    }
    if (buckets == 0)
        pthread_mutex_unlock(&times->lock);
    return buckets;
}

static void writing_end(struct times *times)
{
    lock_file(times, F_UNLCK);
    pthread_mutex_unlock(&times->lock);
}

/* What of bucket NUMBER belongs BUCKETS higher when there are twice as many goes there. */
static bool split(const struct times *times, uint64_t number, uint64_t buckets)
{
    struct bucket lower, upper = {0};
    size_t count = 0;

    if (!read_at(times, &lower, sizeof lower, bucket_offset(number)))
        return false;
    for (size_t i = 0; i < SLOTS; i++)
        if (lower.slots[i].used && bucket_of(lower.slots[i].id, 2 * buckets) == number + buckets)
            upper.slots[count++] = lower.slots[i];
    return write_at(times, &upper, sizeof upper, bucket_offset(number + buckets));
}

static bool grow(const struct times *times, uint64_t *buckets)
{
    uint64_t end = bucket_offset(2 * *buckets);

    for (uint64_t number = 0; number < *buckets; number++)
        if (!split(times, number, *buckets))
            return false;
    /* the last page whole, for who reads it */
    if (ftruncate(times->fd, (off_t)end) < 0 || fdatasync(times->fd) < 0 ||
        !write_head(times, 2 * *buckets))
        return false;
    *buckets *= 2;
    return true;
}

/* Where ROW is, or is to go; false: it cannot be read. The table grows as long as it may. */
static bool find_place(const struct times *times, int64_t id, uint64_t *buckets,
                       struct bucket *bucket, size_t *ret_at, enum found *ret_found)
{
    for (;;) {
        uint64_t number = bucket_of(id, *buckets);
        bool is_free;
        if (!read_at(times, bucket, sizeof *bucket, bucket_offset(number)))
            return false;
        *ret_found = search(bucket, id, ret_at);
        if (*ret_found != FOUND_NONE)
            return true;
        *ret_at = choose(bucket, number, *buckets, &is_free);
        if (is_free || *buckets >= times->most || !grow(times, buckets))
            return true;
    }
}

static void write_slot(const struct times *times, uint64_t buckets, size_t at, struct slot slot)
{
    slot.seen = today();
    slot.used = 1;
    slot.check = checksum(&slot);
    write_at(times, &slot, sizeof slot,
             bucket_offset(bucket_of(slot.id, buckets)) + at * sizeof slot);
}

static struct slot slot_of(const struct times_row *row)
{
    struct slot slot;

    memset(&slot, 0, sizeof slot); /* also what is between members */
    slot.id = row->id;
    slot.version = row->version;
    slot.mtime_ns = row->mtime_ns;
    slot.ctime_ns = row->ctime_ns;
    slot.change_ns = row->change_ns;
    slot.modified = row->modified;
    return slot;
}

void times_meet(struct times *times, struct times_row *rows, size_t count)
{
    struct bucket bucket;
    enum found found;
    size_t at;
    uint64_t buckets = count ? writing_begin(times) : 0;

    if (buckets == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        bool seen_today = false;
        if (!find_place(times, rows[i].id, &buckets, &bucket, &at, &found))
            continue;
        if (found != FOUND_WHOLE || !take_times(&bucket.slots[at], &rows[i], &seen_today))
            write_slot(times, buckets, at, slot_of(&rows[i]));
        else if (!seen_today)
            write_slot(times, buckets, at, bucket.slots[at]);
    }
    writing_end(times);
}

void times_set(struct times *times, const struct times_row *rows, size_t count)
{
    struct bucket bucket;
    enum found found;
    size_t at;
    uint64_t buckets = count ? writing_begin(times) : 0;

    if (buckets == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (find_place(times, rows[i].id, &buckets, &bucket, &at, &found))
            write_slot(times, buckets, at, slot_of(&rows[i]));
    writing_end(times);
}

/* --- Opening --- */

static uint64_t buckets_for(uint64_t rows)
{
    uint64_t buckets = 1;

    while (buckets * SLOTS < rows)
        buckets *= 2;
    return buckets;
}

/* Keys are not told by it, but when they changed is: nobody else's business. */
static int open_file(struct times *times, const char *path, struct err *err)
{
    struct stat file;

    times->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (times->fd < 0 || fstat(times->fd, &file) < 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return err_set(err, EINVAL, "%s is not a regular file", path);
    errno = EIO;
    if (writing_begin(times) == 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    writing_end(times);
    return 0;
}

int times_open(const char *path, uint64_t most, struct times **ret_times, struct err *err)
{
    struct times *times = calloc(1, sizeof *times);

    if (!times)
        return err_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&times->lock, NULL);
    times->most = buckets_for(most ? most : TIMES_MOST);
    int r = open_file(times, path, err);
    if (r < 0) {
        times_close(times);
        return r;
    }
    *ret_times = times;
    return 0;
}

void times_close(struct times *times)
{
    if (!times)
        return;
    if (times->fd >= 0)
        close(times->fd);
    pthread_mutex_destroy(&times->lock);
    free(times);
}
