/* SPDX-License-Identifier: MIT */
/* Standard output, tables for people, and items in both forms. */
#ifndef ITEMCTL_OUTPUT_H
#define ITEMCTL_OUTPUT_H

#include <stdbool.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "base/err.h"

/*
 * Everything goes through these. A reader that went away ends the program quietly with status 141,
 * as a shell shows the signal; other failures are errnos with a sentence.
 */
int output_write(struct span text, struct err *err);
int output_text(const char *text, struct err *err);
/* What is written reaches the reader, or it is an error. */
int output_finish(struct err *err);
/* The reader went away: see above. */
_Noreturn void output_broken(void);
/* Behind a failure: what was written still goes out, and nothing more is said about it. */
void output_discard(void);

/*
 * Rows of cells with aligned columns, shown as they are on a safe terminal (text_visible); the last
 * column is cut at the terminal's edge where there are heads. Rows are kept until grid_print, which
 * writes and empties.
 */
#define GRID_COLUMNS 8
struct grid {
    const char *const *heads; /* COLUMNS of them; NULL: no line of heads */
    size_t columns;
    bool whole; /* the last column is not cut to the terminal */
    size_t width[GRID_COLUMNS];
    bool headed;
    struct buf text;
    size_t *ends; /* of cells, in TEXT */
    size_t cells, room;
};
void grid_init(struct grid *grid, const char *const *heads, size_t columns);
void grid_release(struct grid *grid);
/* Appends the next cell; rows end by themselves. */
void grid_add(struct grid *grid, struct span cell);
void grid_addf(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));
int grid_print(struct grid *grid, struct err *err);

/* Items: typed lines, or rows of key and body for people. */
struct item_output {
    const struct table *table;
    bool json;
    const char *heads[3];
    struct buf lines;
    struct grid grid;
    struct err *err;
};
void item_output_init(struct item_output *output, const struct table *table, bool json,
                      struct err *err);
void item_output_release(struct item_output *output);
int item_output_add(struct item_output *output, const struct record *record);
/* True when there is enough to be written. */
bool item_output_full(const struct item_output *output);
int item_output_flush(struct item_output *output);
/* The bytes of one attribute, a B or an S, and nothing else. -ENOENT: there is none of that name;
 * -EINVAL: it is of another type. */
int item_output_raw(const struct table *table, const struct record *record, const char *column,
                    struct err *err);

#endif
