/* SPDX-License-Identifier: MIT */
/*
 * Times of items that their service keeps none of, in a file: what version an item had when it was
 * last seen, and since when. It may be deleted without loss: times begin anew. What it cannot take
 * is not noted, and an item is then seen for the first time again.
 *
 * Rows are found by a hash of the item's name (64 bits): of ten million items two may share a row,
 * and then each seems to be changed when the other was seen. The file is bounded: it has room for
 * TIMES_MOST rows, and those that were seen least lately give way to others.
 *
 * All functions may be called from any thread; several processes may share the file.
 */
#ifndef BACKEND_TIMES_H
#define BACKEND_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/key.h"

#define TIMES_MOST 4000000 /* 268 MB */
#define TIMES_BUCKET 4096  /* bytes of the file; a row has a slot in one of its buckets */
#define TIMES_SLOT 48

struct times;

struct times_row {
    int64_t id; /* times_id */
    uint64_t version;
    int64_t mtime_ns, ctime_ns, change_ns; /* epoch nanoseconds */
    bool modified; /* another version was known before, or is said to have been */
};

/* Opens PATH, made with mode 0600 when it is absent; what is no such file is made anew. -EACCES,
 * -EROFS, -ENOSPC, -EIO. MOST: rows to have room for, 0: TIMES_MOST. */
int times_open(const char *path, uint64_t most, struct times **ret_times, struct err *err);
void times_close(struct times *times); /* accepts NULL */

/* The row of an item; TABLE_ID is the table's number. */
int64_t times_id(uint64_t table_id, struct key key);
/* Gives ROW the times that are known for its id and version; false: none are, and where another
 * version is known, ROW is modified. RET_MEET: the row is one for times_meet, which is best called
 * with many. */
bool times_find(struct times *times, struct times_row *row, bool *ret_meet);
/* Notes that ROWS were seen: those that are known as such, the others with the times they have
 * here. One that another process has noted meanwhile is given the times that it has there. */
void times_meet(struct times *times, struct times_row *rows, size_t count);
/* Notes ROWS as they are, whatever was known. */
void times_set(struct times *times, const struct times_row *rows, size_t count);

#endif
