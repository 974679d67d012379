/* SPDX-License-Identifier: MIT */
/* The lines of a file that is read as it goes. */
#ifndef ITEMCTL_LINES_H
#define ITEMCTL_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct lines {
    int fd;
    struct buf text;
    size_t at;       /* where the next line begins in TEXT */
    bool end;        /* of the file */
    uint64_t offset; /* in the file, behind the last line given */
    uint64_t line;   /* number of the last line given */
};

void lines_init(struct lines *lines, int fd, size_t longest);
void lines_release(struct lines *lines);
/* The next line without its end, valid until the next call. 1, 0 at the end, or a negative errno:
 * -EFBIG for a line that is too long. */
int lines_next(struct lines *lines, struct span *ret_line);

#endif
