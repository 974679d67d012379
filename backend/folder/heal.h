/* SPDX-License-Identifier: MIT */
/* What the files of healing share. */
#ifndef BACKEND_FOLDER_HEAL_H
#define BACKEND_FOLDER_HEAL_H

#include "backend/folder/private.h"

struct healing {
    struct folder *folder;
    size_t number;
    int64_t keep_ns;    /* files that were written then or later are kept; -TIME_NS_MOST: all */
    bool moved;         /* the table's folder was put there since: all that is in it is kept */
    uint64_t position;  /* of the log, up to which all is done */
    struct buf changes; /* since: of each the table's number, the length of the key's part, it */
    size_t change_count;
    bool schema;        /* tables have changed since */
    struct buf written; /* a hash of each file that was written here, and its time */
    /* Called when all is done, under all stripes; what it returns is the result. */
    int (*finish)(struct healing *, struct err *err);
    void (*progress)(struct healing *); /* of each file that was looked at, or NULL */
    void *context;                      /* theirs */
};

/* Fills replica NUMBER, which is out of use, and finishes. FOLDER, NUMBER, KEEP_NS, FINISH are
 * given, and what FINISH and PROGRESS want; no stripe is held. */
int heal_fill(struct healing *, struct err *err);

bool heal_is_stopped(const struct folder *);

/* --- heal_files.c --- */

/* The file NAME is as the row of PART says, which may be: there is none. The stripe is held. */
int heal_locked(struct healing *, const struct known *, const char *name, struct span part,
                struct err *err);
/* The same with the lock; what cannot be an item's is left alone. -ECANCELED: it is to stop. */
int heal_file(struct healing *, const struct known *, const char *name, struct err *err);
/* All files of all tables, and folders that are no table's any more. */
int heal_tables(struct healing *, struct err *err);

#endif
