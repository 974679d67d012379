/* SPDX-License-Identifier: MIT */
/* Rows of akka-persistence-dynamodb's tables, found as the plugin finds them: those of a
 * persistence id through the index that has ids and sequence numbers as its key, in numeric order.
 */
#ifndef ITEMCTL_AKKA_ROWS_H
#define ITEMCTL_AKKA_ROWS_H

#include "base/akka.h"
#include "tools/itemctl/itemctl.h"

enum akka_deleted { AKKA_DELETED_NOT, AKKA_DELETED_ONLY, AKKA_DELETED_TOO };

struct akka_question {
    struct span id;   /* len 0: of any */
    struct span tag;  /* that they carry; len 0: any or none */
    int64_t from, to; /* sequence numbers, both included */
    bool reverse;     /* the highest sequence number first */
    enum akka_deleted deleted;
    int64_t most; /* rows, of those that are asked for; negative: all */
};

/* A row: its record, and its item as attributes, which may be changed. 0 or a negative errno. */
typedef int (*akka_row_fn)(void *context, const struct record *record, struct value *item);

/*
 * Gives EACH the rows of the subject's table that are asked for, by persistence id (the order of
 * its bytes) and sequence number. Without an index for that the whole table is read, which is told
 * on standard error; then, and where rows of several ids are asked for, what was found is kept in
 * memory until all is read: -EFBIG where that would be too much.
 */
int akka_rows(struct ctl *ctl, const struct subject *subject, const struct akka_columns *columns,
              const struct akka_question *question, akka_row_fn each, void *context);

#endif
