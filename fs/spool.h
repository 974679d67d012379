/* SPDX-License-Identifier: MIT */
/*
 * Records as a growing file without a name: who reads it may be anywhere in it, and as slow as he
 * likes, and nothing of it is in memory. It shows whole batches only. Its beginning can be given
 * up; what is behind keeps its place.
 *
 * One thread writes: _add, _flush and _trim. All others may be called from any thread.
 */
#ifndef FS_SPOOL_H
#define FS_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

struct spool;

/* In DIRECTORY, which must be there, for this process alone. */
int spool_new(const char *directory, struct spool **ret_spool, struct err *err);
void spool_free(struct spool *spool); /* accepts NULL */

/* Appends RECORD, which was made at TIME_NS, when as much has come that it is worth it, or _flush
 * is called. -ENOSPC, -EDQUOT, -EIO: then the spool shows what it has shown before, and takes no
 * more.
 */
int spool_add(struct spool *spool, struct span record, int64_t time_ns, struct err *err);
int spool_flush(struct spool *spool, struct err *err);
/* Gives up what is from before TIME_NS, as far as spool_since tells it from the rest. An error says
 * that the filesystem does not take the space back. */
int spool_trim(struct spool *spool, int64_t time_ns, struct err *err);

/* Bytes, with those that were given up: where the next record will be. */
uint64_t spool_size(struct spool *spool);
/* Epoch nanoseconds: the newest of the times that it was given; 0: none yet. */
int64_t spool_newest(struct spool *spool);
/* Where a record begins from which on all are from TIME_NS or later, but for those of the minute
 * before and those that came late. */
uint64_t spool_since(struct spool *spool, int64_t time_ns);
/* Whether what stands at AT, a place that spool_since gave, is from before TIME_NS, or is gone. */
bool spool_is_older(struct spool *spool, uint64_t at, int64_t time_ns);
/* Appends SIZE bytes from AT on to OUT, fewer at the end. -EIO where they were given up. */
int spool_read(struct spool *spool, uint64_t at, size_t size, struct buf *out, struct err *err);

#endif
