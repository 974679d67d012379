/* SPDX-License-Identifier: MIT */
/* The values of an index, of a backend that has no list of them: all items are read. */
#include <errno.h>

#include "backend/scan.h"
#include "base/set.h"

#define PAGE_ITEMS 256
#define VALUES_BYTES_MAX (256u << 20)

struct values {
    const struct table *table;
    size_t index; /* its place in the table */
    value_fn each;
    void *context;
    struct set given;
    struct err *err;
};

static int give_value(void *context, size_t index, struct span partition, struct span sort)
{
    struct values *values = context;

    (void)sort;
    if (index != values->index)
        return 0;
    int code = set_add(&values->given, partition);
    if (code == -EFBIG)
        return err_set(values->err, EFBIG, "table %s: index %s has too many values to list them",
                       values->table->name, values->table->indexes[index].name);
    return code == 1 ? values->each(values->context, partition) : code;
}

static int look_at(void *context, const struct record *record)
{
    struct values *values = context;

    return item_index_keys(values->table, record->key, record->body,
                           item_ttl_beside(record->body, record->meta.ttl), give_value, values,
                           values->err);
}

int scan_index_values(struct backend *backend, const struct table *table, const struct index *index,
                      value_fn each, void *context, struct err *err)
{
    const struct scan_range range = {.bodies = true};
    struct values values = {.table = table,
                            .index = (size_t)(index - table->indexes),
                            .each = each,
                            .context = context,
                            .err = err};
    struct scan *scan = NULL;
    int code = backend_scan_open(backend, table, &range, &scan, err);

    set_init(&values.given, VALUES_BYTES_MAX);
    while (code == 0 && !scan->ended)
        code = backend_scan_next(scan, PAGE_ITEMS, look_at, &values, err);
    backend_scan_close(scan);
    set_release(&values.given);
    return code;
}
