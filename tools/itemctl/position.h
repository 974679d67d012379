/* SPDX-License-Identifier: MIT */
/*
 * How far an export or import came, in a small file of its own: so that it can go on after
 * whatever ended it. The file is locked while it is open, so only one process at a time works on
 * the same thing. It is written over in place, with a checksum: a record that was cut short counts
 * as none.
 */
#ifndef ITEMCTL_POSITION_H
#define ITEMCTL_POSITION_H

#include "base/buf.h"
#include "base/err.h"
#include "base/key.h"

struct position {
    int fd;
    char *path;
    char identity[65];          /* what it is the position of; another identity counts as none */
    uint64_t offset;            /* bytes of the file done */
    uint64_t line;              /* lines done */
    uint64_t items;             /* items done */
    struct buf partition, sort; /* of the last item done */
};

/* Opens and locks PATH, and makes it where it is absent. -EBUSY where another process has it. */
int position_open(const char *path, struct position *ret_position, struct err *err);
/* Reads it; true when it is of IDENTITY (hexadecimal of SHA-256), which it has from now on. */
bool position_load(struct position *position, const char *identity);
int position_save(struct position *position, struct err *err);
/* Removes the file: all is done. */
void position_remove(struct position *position);
void position_close(struct position *position);

#endif
