/* SPDX-License-Identifier: MIT */
#include "deliver/batch.h"

#include "base/json.h"

#define BODY_BYTES_MAX UINT32_MAX
#define IDS_BYTES_MAX (1u << 20)
#define KEPT_BYTES (2u << 20) /* of a buffer that is used again */
#define ENDING "]}"

void batch_init(struct batch *batch)
{
    buf_init(&batch->body, BODY_BYTES_MAX);
    buf_init(&batch->ids, IDS_BYTES_MAX);
    batch->count = 0;
}

void batch_release(struct batch *batch)
{
    buf_release(&batch->body);
    buf_release(&batch->ids);
}

static void begin_body(struct buf *body, const struct table *table)
{
    buf_add_text(body, "{\"trigger_type\":\"change_stream\",\"change_table\":");
    json_add_string(body, span_text(table->name));
    buf_add_text(body, ",\"change_records\":[" ENDING);
}

void batch_clear(struct batch *batch, const struct table *table)
{
    if (batch->body.capacity > KEPT_BYTES) {
        batch_release(batch);
        batch_init(batch);
    }
    buf_clear(&batch->body);
    buf_clear(&batch->ids);
    batch->count = 0;
    begin_body(&batch->body, table);
}

/* Takes the ending away, and puts a comma where a record stands before. */
static void open_body(struct buf *body, size_t count)
{
    if (buf_error(body) == 0)
        buf_resize(body, body->len - strlen(ENDING));
    buf_add_text(body, count ? "," : "");
}

int batch_add(struct batch *batch, const struct table *table, const struct change *change)
{
    struct batch_record *record = &batch->records[batch->count];

    open_body(&batch->body, batch->count);
    record->begin = batch->body.len;
    change_to_json(table, change, &batch->body);
    record->end = batch->body.len;
    buf_add_text(&batch->body, ENDING);
    record->id = batch->ids.len;
    record->time_ns = change->time_ns;
    buf_add(&batch->ids, change->id, strlen(change->id) + 1);
    int code = buf_error(&batch->body) ? buf_error(&batch->body) : buf_error(&batch->ids);
    if (code)
        return code;
    batch->count++;
    return batch->count == CONFIG_BATCH_MOST || batch->body.len >= BATCH_BYTES;
}

const char *batch_id(const struct batch *batch, size_t number)
{
    return batch->ids.data + batch->records[number].id;
}

static bool is_old(const struct batch_record *record, int64_t now_ns)
{
    return now_ns - record->time_ns > BATCH_AGE_NS;
}

size_t batch_drop_old(struct batch *batch, int64_t now_ns)
{
    size_t count = batch->count, at = count ? batch->records[0].begin : 0;
    char *text = batch->body.data;

    batch->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct batch_record record = batch->records[i];
        size_t len = record.end - record.begin;
        if (is_old(&record, now_ns))
            continue;
        if (batch->count)
            text[at++] = ',';
        memmove(text + at, text + record.begin, len);
        record.begin = at;
        record.end = at += len;
        batch->records[batch->count++] = record;
    }
    if (batch->count < count) {
        memcpy(text + at, ENDING, strlen(ENDING));
        buf_resize(&batch->body, at + strlen(ENDING));
    }
    return count - batch->count;
}
