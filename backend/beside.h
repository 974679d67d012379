/* SPDX-License-Identifier: MIT */
/*
 * A backend whose items live in one place and everything else in another. A service such as
 * DynamoDB keeps items and nothing beside them: no scratch files, no drafts, no times. These are
 * kept in an embedded store on this machine, the state database. It may be deleted without loss of
 * items.
 *
 * Times. For each item that was seen there is a row that holds the item's version (times.h).
 * As long as an item has that version its times are the row's; another version is a change made
 * elsewhere, and its time is when it was first seen. When items came and went in a directory is
 * noted with each write made here (beside_directory.c).
 *
 * Batches. The items' backend may have no transactions, and never one that takes in what is kept
 * beside. Then a batch is applied step by step, and the state database keeps a journal, out of
 * which it is ended or undone when it is cut short: beside_journal.c says how. Without the database
 * a batch that was cut short stays as it is.
 */
#ifndef BACKEND_BESIDE_H
#define BACKEND_BESIDE_H

#include "backend/backend.h"

struct times;

/* Takes all three, also on failure. STATE keeps bytes and scratch. LOCK_PATH is a file next to the
 * state database, made when it is first needed, shared by all who have that open; NULL: no items
 * will be written. */
int beside_new(struct backend *items, struct backend *state, struct times *times,
               const char *lock_path, struct backend **ret_backend, struct err *err);

#endif
