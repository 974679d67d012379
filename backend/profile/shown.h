/* SPDX-License-Identifier: MIT */
/*
 * A backend over a backend: tables with a profile (profile.h) as a mount shows them, all others as
 * they are. It keeps nothing of its own; what it writes and reads are items of the backend below.
 *
 *   shown.c        tables and their two descriptions; what is handed on as it is
 *   shown_item.c   one item, from the one form to the other
 *   shown_read.c   get, walks, queries, partitions        shown_scan.c  scans
 *   shown_write.c  batches, updates                       shown_log.c   change log, streams
 *
 * What it promises beyond backend.h: an item that cannot be shown is there, with item_meta's
 * `unreadable` set, and why stands where its body would. A record of the log or of a stream of
 * which nobody can tell the shown key has a key of no bytes: any item of the table may have
 * changed. Where rows can be hidden, a change by which one comes to be shown is told as an INSERT,
 * and one by which it is hidden as a REMOVE. Streams tell items as they are stored.
 * Of what is touched or deleted no size is told.
 *
 * What has expired is judged here. A service is not told that the table has a time to live, since
 * it has another rule of its own; a store is, which sweeps.
 */
#ifndef BACKEND_PROFILE_SHOWN_H
#define BACKEND_PROFILE_SHOWN_H

#include "backend/backend.h"
#include "backend/profile/choice.h"

/* STORED must outlive it and is not closed with it. READ_ONLY: nothing is removed by reading. */
int shown_new(struct backend *stored, bool read_only, struct backend **ret_backend);
/* The description to show of STORED, which BACKEND's own backend has described and which fits
 * CHOICE; on the heap, good as long as BACKEND is. CHOICE must outlive BACKEND. */
int shown_table(struct backend *backend, const struct profile_choice *choice,
                const struct table *stored, struct table **ret_table, struct err *err);
/* Appends the stored key of what has KEY in TABLE, which is shown: where it is, whatever the
 * application was set up for then, or else where a new one would be. -EINVAL. */
int shown_locate(struct backend *backend, const struct table *table, struct key key,
                 struct buf *partition, struct buf *sort, struct err *err);
/* The table with that id has no profile, or none any more: it was renamed. */
void shown_plain(struct backend *backend, uint64_t table_id);

#endif
