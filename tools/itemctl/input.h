/* SPDX-License-Identifier: MIT */
/* What is imported: the lines of a file or of standard input, or of the data files of an export as
 * DynamoDB makes them (layout.h), one after the other. */
#ifndef ITEMCTL_INPUT_H
#define ITEMCTL_INPUT_H

#include <sys/stat.h>

#include "tools/itemctl/gzip.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/layout.h"
#include "tools/itemctl/lines.h"

/* Where in it an item begins, or all ends. */
struct place {
    uint64_t file;         /* of a layout, from 0 */
    uint64_t offset, line; /* in the file's text: bytes and lines before it */
    uint64_t items;        /* of all files, before it */
};

struct input {
    char *path;           /* real one, for the position; NULL: it cannot be gone on with */
    const char *name;     /* as it was given */
    bool layered;         /* it is a layout */
    struct layout layout; /* its files */
    int fd;
    struct gzip_reader *gzip;
    struct lines lines;
    struct place place; /* of the item that was given last; at the end, of what is behind */
    uint64_t given;     /* items of all files */
    bool broken;        /* the failure is the file's, not a line's: its sentence names it */
    uint64_t bytes;     /* of all files */
    uint64_t before;    /* bytes of the files that are done */
    int64_t file_items; /* given of the file; -1: not known */
};

/* Opens FILE ("-": standard input), or the layout in a directory. A line may have LONGEST bytes.
 * Close it, also on failure. */
int input_open(struct input *input, const char *file, size_t longest, struct err *err);
void input_close(struct input *input);
/* Appends what tells it from any other, and from itself when it was changed. */
int input_identify(const struct input *input, struct buf *identity, struct err *err);
/* Goes on at PLACE, which an earlier input of the same identity gave; before the first item. */
int input_seek(struct input *input, const struct place *place, struct err *err);
/* Whether the files from here on are what the layout says. */
int input_verify(const struct input *input, struct err *err);
/* The next typed item, valid until the next call; blank lines are passed over. 1, 0 at the end, or
 * a negative errno: then PLACE is that of the line. */
int input_next(struct input *input, struct span *ret_item, struct err *err);
/* The file of a place, for messages. */
const char *input_name(const struct input *input, const struct place *place);
/* Bytes read of `bytes`. */
uint64_t input_done(const struct input *input);

#endif
