/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/batch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item.h"

void batch_init(struct batch *batch, const struct subject *subject)
{
    *batch = (struct batch){.subject = subject};
    packed_init(&batch->packed);
    buf_init(&batch->bytes, SIZE_MAX / 8);
}

void batch_release(struct batch *batch)
{
    packed_release(&batch->packed);
    buf_release(&batch->bytes);
}

bool batch_full(const struct batch *batch)
{
    return batch->count == BATCH_ITEMS || batch->bytes.len >= BATCH_BYTES;
}

void batch_clear(struct batch *batch)
{
    batch->count = 0;
    buf_clear(&batch->bytes);
}

int batch_add(struct batch *batch, struct span typed, struct err *err)
{
    const struct subject *subject = batch->subject;
    struct buf *bytes = &batch->bytes;
    size_t before = bytes->len;
    int r = backend_pack(subject->backend, subject->table, typed, &batch->packed, err);

    if (r < 0)
        return r;
    buf_add_span(bytes, buf_span(&batch->packed.partition));
    size_t sort = bytes->len;
    buf_add_span(bytes, buf_span(&batch->packed.sort));
    size_t body = bytes->len;
    buf_add_span(bytes, buf_span(&batch->packed.body));
    if (buf_error(bytes)) {
        bytes->error = 0;
        buf_resize(bytes, before);
        return err_set(err, ENOMEM, "no memory");
    }
    batch->items[batch->count].partition = before;
    batch->items[batch->count].sort = sort;
    batch->items[batch->count].body = body;
    batch->items[batch->count].end = bytes->len;
    batch->items[batch->count].units = batch->packed.units;
    batch->items[batch->count++].ttl = batch->packed.ttl;
    return 0;
}

int batch_last(const struct batch *batch, struct buf *out, struct err *err)
{
    const struct packed *packed = &batch->packed;
    const struct table *table = batch->subject->table;
    struct key key = {buf_span(&packed->partition), buf_span(&packed->sort)};
    cleanup(buf_release) struct buf typed;
    int r = 0;

    buf_init(&typed, SIZE_MAX / 8);
    if (packed->typed)
        buf_add_span(&typed, buf_span(&packed->body));
    else
        r = item_to_typed(table, key, buf_span(&packed->body), packed->ttl, &typed, err);
    if (r == 0)
        r = buf_error(&typed);
    if (r == 0)
        r = value_map_rename(buf_span(&typed), table->types, out, err);
    return r ? r : buf_error(out);
}

int batch_write(struct batch *batch, struct err *err)
{
    cleanup_free struct action *actions = calloc(batch->count + 1, sizeof *actions);
    const char *bytes = batch->bytes.data;
    int r = 0;

    if (!actions)
        return err_set(err, ENOMEM, "no memory");
    for (size_t i = 0; i < batch->count; i++)
        actions[i] = (struct action){
            .kind = ACTION_PUT,
            .table = batch->subject->table,
            .key.partition = span_of(bytes + batch->items[i].partition,
                                     batch->items[i].sort - batch->items[i].partition),
            .key.sort =
                span_of(bytes + batch->items[i].sort, batch->items[i].body - batch->items[i].sort),
            .body =
                span_of(bytes + batch->items[i].body, batch->items[i].end - batch->items[i].body),
            .ttl = batch->items[i].ttl,
            .units = batch->items[i].units,
        };
    if (batch->count)
        r = backend_write(batch->subject->backend, actions, batch->count, WRITE_LOOSE, err);
    batch_clear(batch);
    return r;
}
