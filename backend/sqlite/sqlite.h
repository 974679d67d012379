/* SPDX-License-Identifier: MIT */
/* The embedded store: all tables in one SQLite file. Its schema: docs/STORE.md. */
#ifndef BACKEND_SQLITE_SQLITE_H
#define BACKEND_SQLITE_SQLITE_H

#include "backend/backend.h"

struct sqlite_options {
    bool create; /* make the file (mode 0600) when it is absent */
    bool read_only;
    uint64_t max_item_size; /* bytes; 0: ITEM_SIZE_DEFAULT */
    /* Where the store is an index of items that are kept elsewhere. */
    bool leave_expired; /* maintenance does not sweep: what backend_expired lists is deleted there;
                           what expired longer than ITEM_LONG_GONE_S ago never does */
    bool show_expired;  /* reads give items that have expired and are not swept, too */
};

/*
 * Opens PATH. -ENOENT (absent and not to be made), -EINVAL (no itemfs store: foreign SQLite file,
 * other file; or from a newer version), -EUCLEAN (damaged), -EACCES, -EROFS (needs -o ro), -EISDIR.
 * An empty file is taken as a new store. Safe to share between processes on one machine.
 */
int sqlite_open(const char *path, const struct sqlite_options *options,
                struct backend **ret_backend, struct err *err);

#endif
