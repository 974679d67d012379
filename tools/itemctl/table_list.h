/* SPDX-License-Identifier: MIT */
/* Tables taken out of a walk, whose callback may not ask the backend for anything. */
#ifndef ITEMCTL_TABLE_LIST_H
#define ITEMCTL_TABLE_LIST_H

#include <errno.h>
#include <stdlib.h>

#include "base/table.h"

struct table_list {
    struct table **tables; /* copies */
    size_t count;
};

/* A table_fn; CONTEXT is the list. */
static inline int table_list_add(void *context, const struct table *table)
{
    struct table_list *list = context;
    struct table **more = reallocarray(list->tables, list->count + 1, sizeof(struct table *));

    if (!more)
        return -ENOMEM;
    list->tables = more;
    more[list->count] = table_copy(table);
    return more[list->count] ? (list->count++, 0) : -ENOMEM;
}

static inline void table_list_release(struct table_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        table_free(list->tables[i]);
    free(list->tables);
}

#endif
