/* SPDX-License-Identifier: MIT */
/*
 * Seed files: items that a table begins with, in Kernstack's typed form. FILE.json is an array of
 * items, FILE.jsonl has one a line, any other name either. They are read whole, and checked whole
 * before the first item is put.
 */
#ifndef ITEMCTL_SEEDS_H
#define ITEMCTL_SEEDS_H

#include "base/buf.h"
#include "tools/itemctl/itemctl.h"

struct seeds {
    char *file;      /* NULL: there are none */
    struct buf text; /* as it was when it was checked */
    uint64_t items;
    uint64_t put; /* of them; the others were there already, the same */
};

void seeds_init(struct seeds *seeds);
void seeds_release(struct seeds *seeds);
/* Which file has the seeds of the table NAME: NAMED, where it is not NULL, else
 * seed/tables/NAME.json or .jsonl, else none; all below PREFIX, "" or what ends in a slash. -EEXIST
 * where both are there. */
int seeds_find(const char *prefix, const char *name, const char *named, char **ret_file,
               struct err *err);
/* Reads FILE, a path or "-", and checks all of it for TABLE, which need not be there yet. */
int seeds_read(struct seeds *seeds, const struct subject *subject, const char *file,
               struct err *err);
/* Puts those of the items that are not in the table as they stand in the file; they are on stable
 * storage when it returns. */
int seeds_put(struct seeds *seeds, const struct subject *subject, struct err *err);

#endif
