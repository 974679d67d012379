/* SPDX-License-Identifier: MIT */
/* A walk over a whole table in pages, so that neither memory nor a transaction grows with it. */
#ifndef ITEMCTL_PAGES_H
#define ITEMCTL_PAGES_H

#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/keys.h"

struct pages {
    const struct subject *subject;
    struct key_bytes last; /* of the records so far: where the walk goes on; may be set before */
    size_t limit;          /* records at most; 0: all */
    uint64_t count;        /* records so far */
    /* A record: 0, a negative errno, or 1 when the page is to end behind it. */
    int (*each)(void *context, const struct record *record);
    /* After each page, outside any transaction: 0 or a negative errno. */
    int (*page)(void *context, const struct pages *pages);
    void *context;
};

void pages_init(struct pages *pages, const struct subject *subject);
void pages_release(struct pages *pages);
int pages_walk(struct pages *pages, struct err *err);

#endif
