/* SPDX-License-Identifier: MIT */
/* Items page by page: what read.c and scan.c share. */
#ifndef BACKEND_DYNAMODB_READ_H
#define BACKEND_DYNAMODB_READ_H

#include <stdatomic.h>

#include "backend/dynamodb/service.h"

/* A walk, query or segment under way, of one thread. */
struct reading {
    struct service *service;
    const struct table *table;
    const char *operation; /* "Scan" or "Query" */
    struct buf fixed;      /* the request's unchanging part, an open object */
    struct buf after;      /* ExclusiveStartKey, typed; len 0: the beginning */
    size_t limit, given;   /* limit 0: all */
    double units;          /* that the last page consumed; 0: there was none */
    double item_units;     /* that an item is believed to cost, where pages are to be small; 0: that
                              is not known */
    bool indexed;          /* what is read is an index, whose items are not the table's */
    bool bodies, typed;    /* as in scan_range */
    const atomic_bool *cancelled; /* the calling thread's (base/cancel.h), unless set otherwise */
    record_fn each;
    void *context;
    struct buf partition, sort, body;
    struct err *err;
};

void reading_init(struct reading *, struct service *, const struct table *, struct err *);
void reading_release(struct reading *);
/* One page, each item to EACH, expired ones left out. What EACH returns other than 0 is returned, 1
 * when LIMIT is reached. */
int reading_page(struct reading *, bool *ret_last);

/* The request for all items of TABLE, or of a partition where that has data: an open object.
 * Returns the operation. */
const char *request_items(struct buf *out, const struct table *table, struct span partition);

#endif
