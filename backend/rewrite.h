/* SPDX-License-Identifier: MIT */
/* Configuration files that a program changes: read whole, and replaced at once. */
#ifndef BACKEND_REWRITE_H
#define BACKEND_REWRITE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the text of PATH, and tells what it was read from. */
int rewrite_read(const char *path, struct buf *text, struct stat *ret_stat, struct err *err);
/* Whether both are the same file, not changed between. */
bool rewrite_is_same(const struct stat *a, const struct stat *b);
/* PATH, which no link is in, becomes TEXT: whoever reads it sees all of the old one or all of this.
 * On the disk, with the mode and owner of OLD, what it was read from; -EAGAIN: it is not that any
 * more. */
int rewrite_replace(const char *path, const struct stat *old, struct span text, struct err *err);

#endif
