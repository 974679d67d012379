/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/batch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item.h"

void batch_init(struct batch *batch, const struct subject *subject)
{
    *batch = (struct batch){.subject = subject};
    buf_init(&batch->bytes,
             BATCH_BYTES + 4 * subject->backend->max_item_size + 4 * (size_t)KEY_PART_MAX);
}

void batch_release(struct batch *batch)
{
    buf_release(&batch->bytes);
}

bool batch_full(const struct batch *batch)
{
    return batch->count == BATCH_ITEMS || batch->bytes.len >= BATCH_BYTES;
}

static int check_body(const struct batch *batch, struct key key, struct span body, struct err *err)
{
    struct item_facts facts;
    uint64_t most = batch->subject->backend->max_item_size;

    if (body.len > most)
        return err_set(err, EFBIG, "the item has %zu bytes, more than the %llu allowed", body.len,
                       (unsigned long long)most);
    return item_examine(batch->subject->table, key, body, &facts, NULL, err);
}

int batch_add(struct batch *batch, struct span typed, struct err *err)
{
    const struct table *table = batch->subject->table;
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf sort;
    struct buf *bytes = &batch->bytes;
    size_t before = bytes->len, sort_at, body_at;
    int64_t ttl = 0;
    int r;

    buf_init(&sort, KEY_PART_MAX + 1);
    r = item_from_typed(table, typed, &item, bytes, &sort, err);
    sort_at = bytes->len;
    buf_add_span(bytes, buf_span(&sort));
    body_at = bytes->len;
    if (r == 0)
        r = item_to_body(table, &item, bytes, &ttl, err);
    if (r == 0 && (buf_error(bytes) || buf_error(&sort)))
        r = err_set(err, EFBIG, "the item is too large");
    if (r == 0)
        r = check_body(batch,
                       (struct key){span_of(bytes->data + before, sort_at - before),
                                    span_of(bytes->data + sort_at, body_at - sort_at)},
                       span_of(bytes->data + body_at, bytes->len - body_at), err);
    if (r < 0) {
        bytes->error = 0;
        buf_resize(bytes, before);
        return r;
    }
    batch->items[batch->count].partition = before;
    batch->items[batch->count].sort = sort_at;
    batch->items[batch->count].body = body_at;
    batch->items[batch->count].end = bytes->len;
    batch->items[batch->count++].ttl = ttl;
    return 0;
}

int batch_write(struct batch *batch, unsigned flags, struct err *err)
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
        };
    if (batch->count)
        r = backend_write(batch->subject->backend, actions, batch->count, flags | WRITE_LOOSE, err);
    batch->count = 0;
    buf_clear(&batch->bytes);
    return r;
}
