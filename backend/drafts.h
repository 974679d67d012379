/* SPDX-License-Identifier: MIT */
/* What drafts are called, whoever keeps them. */
#ifndef BACKEND_DRAFTS_H
#define BACKEND_DRAFTS_H

#include "backend/backend.h"

/* The drafts that are not in the backend (yet): told to NOTE. */
struct draft_naming;
typedef void (*draft_more_fn)(void *context, struct draft_naming *naming);
void draft_naming_note(struct draft_naming *naming, const struct draft *draft);

/*
 * DRAFT's path, which is in PATH, becomes one that no draft of its table has: PATH.2, PATH.3 ..
 * behind the last one that is there. 1: one of them has the same BYTES, refused for the same
 * reason, so that a backup that is tried every night keeps one. MORE may be NULL.
 */
int draft_name(struct backend *backend, struct draft *draft, struct buf *path, struct span bytes,
               draft_more_fn more, void *context, struct err *err);

#endif
