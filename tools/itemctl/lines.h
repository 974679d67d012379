/* SPDX-License-Identifier: MIT */
/* The lines of a text that is read as it goes. */
#ifndef ITEMCTL_LINES_H
#define ITEMCTL_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Up to ROOM bytes of the text; 0 at its end. */
typedef int (*lines_fn)(void *context, char *out, size_t room, size_t *ret_len, struct err *err);

struct lines {
    lines_fn read;
    void *context;
    struct buf text;
    size_t at;       /* where the next line begins in TEXT */
    bool end;        /* of the text */
    uint64_t begin;  /* offset where the last line given begins */
    uint64_t offset; /* behind it */
    uint64_t line;   /* number of the last line given */
};

void lines_init(struct lines *lines, size_t longest);
void lines_release(struct lines *lines);
/* What READ gives next stands at OFFSET, behind LINE lines. */
void lines_begin(struct lines *lines, lines_fn read, void *context, uint64_t offset, uint64_t line);
/* The next line without its end, valid until the next call. 1, 0 at the end, or a negative errno:
 * -EFBIG for a line that is too long. */
int lines_next(struct lines *lines, struct span *ret_line, struct err *err);

#endif
