/* SPDX-License-Identifier: MIT */
/*
 * Items as they were last read, by version, so that a save need not read again what its condition
 * is made of. Small ones, a few; what is not here is read. Nothing is believed of it: who takes an
 * item computes its version anew, and the service compares.
 */
#ifndef BACKEND_DYNAMODB_RECENT_H
#define BACKEND_DYNAMODB_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/key.h"

struct recent;

struct recent *recent_new(void); /* NULL: no memory */
void recent_free(struct recent *recent);
/* TYPED: the item's typed JSON, as the service gave it. */
void recent_put(struct recent *recent, uint64_t table_id, struct key key, uint64_t version,
                struct span typed);
/* Appends it to TYPED; false: not known. */
bool recent_find(struct recent *recent, uint64_t table_id, struct key key, uint64_t version,
                 struct buf *typed);

#endif
