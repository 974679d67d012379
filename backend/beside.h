/* SPDX-License-Identifier: MIT */
/*
 * A backend whose items live in one place and everything else in another. A service such as
 * DynamoDB keeps items and nothing beside them: no scratch files, no drafts, no times. These are
 * kept in an embedded store on this machine, the state database. It may be deleted without loss of
 * items: then times begin anew.
 *
 * Times. For each item that was seen there is a row that holds the item's version (sqlite/times.h).
 * As long as an item has that version its times are the row's; another version is a change made
 * elsewhere, and its time is when it was first seen.
 *
 * A batch that touches both places is applied in an order in which a crash between loses nothing:
 * first what is kept (scratch files and drafts that are put), then the items, then what goes.
 */
#ifndef BACKEND_BESIDE_H
#define BACKEND_BESIDE_H

#include "backend/backend.h"

struct times;

/* Takes all three, also on failure. STATE keeps bytes and scratch. */
int beside_new(struct backend *items, struct backend *state, struct times *times,
               struct backend **ret_backend, struct err *err);

#endif
