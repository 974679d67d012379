/* SPDX-License-Identifier: MIT */
/* The names of items, as files have them below their table, printed as they come. */
#ifndef ITEMCTL_NAMES_H
#define ITEMCTL_NAMES_H

#include "backend/backend.h"
#include "tools/itemctl/itemctl.h"

/*
 * For people a name a line; as JSON {"TableName": .., "Names": [..], "Count": N}. Where records
 * come in the order of keys, names of a table without sort key come in the order of their bytes:
 * "a-b.json" before "a.json", although the key "a" is before "a-b". So a name is held back while
 * keys come that go on from its own; those that wait are each the beginning of the next one's key.
 */
struct names {
    const struct table *table;
    bool json, ordered;
    struct buf waiting; /* names, each with its NUL; the last one is the first to be printed */
    struct buf name, line;
    uint64_t count;
    struct err *err;
};

int names_begin(struct names *names, const struct ctl *ctl, const struct table *table, bool ordered,
                struct err *err);
int names_add(struct names *names, struct key key);
int names_end(struct names *names);
void names_release(struct names *names);

#endif
