/* SPDX-License-Identifier: MIT */
/*
 * How far an export or import came, in a small file of its own: so that it can go on after
 * whatever ended it. The file is locked while it is open, so only one process at a time works on
 * the same thing. It holds two records with checksums, and the older one is written over: what was
 * cut short counts as none, and then the other one holds.
 */
#ifndef ITEMCTL_POSITION_H
#define ITEMCTL_POSITION_H

#include "base/err.h"
#include "tools/itemctl/keys.h"

struct position {
    int fd;
    char *path;             /* NULL: none is kept */
    char identity[65];      /* what it is the position of; another identity counts as none */
    uint64_t offset;        /* bytes of the file done */
    uint64_t line;          /* lines done */
    uint64_t items;         /* items done, of all files */
    uint64_t file;          /* which of several files it is, from 0 */
    struct key_bytes *keys; /* of each segment the last item done; empty: none yet */
    unsigned segments;
    uint64_t turn; /* counts the records */
};

/* Opens and locks PATH, and makes it where it is absent. -EBUSY where another process has it. */
int position_open(const char *path, struct position *ret_position, struct err *err);
/* Reads it; true when it is of IDENTITY (hexadecimal of SHA-256), which it has from now on. */
bool position_load(struct position *position, const char *identity);
/* All begins anew, in so many segments. -ENOMEM. */
int position_begin(struct position *position, unsigned segments);
int position_save(struct position *position, struct err *err);
/* Removes the file: all is done. */
void position_remove(struct position *position);
void position_close(struct position *position);

#endif
