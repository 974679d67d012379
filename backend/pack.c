/* SPDX-License-Identifier: MIT */
/* Typed items made ready for bulk loads. */
#include <errno.h>
#include <inttypes.h>

#include "backend/check.h"
#include "base/cleanup.h"

#define BULK_ITEMS 200 /* in a batch, which stores commit as one */

void packed_init(struct packed *packed)
{
    *packed = (struct packed){0};
    buf_init(&packed->partition, KEY_PART_MAX);
    buf_init(&packed->sort, KEY_PART_MAX);
    buf_init(&packed->body, SIZE_MAX / 8);
}

void packed_release(struct packed *packed)
{
    buf_release(&packed->partition);
    buf_release(&packed->sort);
    buf_release(&packed->body);
}

/* As files show it: what backends that keep bytes want. */
static int pack_body(struct backend *backend, const struct table *table, struct span typed,
                     struct packed *packed, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    struct item_facts facts;
    int r = item_from_typed(table, typed, &item, &packed->partition, &packed->sort, err);

    if (r == 0)
        r = item_to_body(table, &item, &packed->body, &packed->ttl, err);
    if (r < 0)
        return r;
    struct key key = {buf_span(&packed->partition), buf_span(&packed->sort)};
    if (packed->body.len > backend->max_item_size)
        return err_set(err, EFBIG, "%s: %zu bytes, more than the %" PRIu64 " that an item may have",
                       item_label(table, key).text, packed->body.len, backend->max_item_size);
    return item_examine(table, key, buf_span(&packed->body), &facts, NULL, err);
}

struct backend_bulk backend_bulk(struct backend *backend, const struct table *table)
{
    if (backend->ops->bulk)
        return backend->ops->bulk(backend, table);
    return (struct backend_bulk){.calls = 1, .items = BULK_ITEMS};
}

int backend_pack(struct backend *backend, const struct table *table, struct span typed,
                 struct packed *ret_packed, struct err *err)
{
    buf_clear(&ret_packed->partition);
    buf_clear(&ret_packed->sort);
    buf_clear(&ret_packed->body);
    ret_packed->ttl = 0;
    ret_packed->units = 0;
    ret_packed->typed = backend->ops->pack != NULL;
    int r = (ret_packed->typed ? backend->ops->pack : pack_body)(backend, table, typed, ret_packed,
                                                                 err);

    if (r == 0 && (buf_error(&ret_packed->partition) || buf_error(&ret_packed->sort) ||
                   buf_error(&ret_packed->body)))
        r = err_set(err, EFBIG, "the item is too large");
    return r < 0 ? err_set(err, -r, "%s", err_text(NULL, r)) : 0;
}
