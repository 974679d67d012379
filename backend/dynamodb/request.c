/* SPDX-License-Identifier: MIT */
/* The pieces that requests are made of. */
#include "backend/dynamodb/service.h"

#include <errno.h>

#include "base/json.h"

static void add_name(struct buf *out, const char *name)
{
    if (out->len && out->data[out->len - 1] != '{')
        buf_add_char(out, ',');
    json_add_string(out, span_text(name));
    buf_add_char(out, ':');
}

void request_text(struct buf *out, const char *name, struct span text)
{
    add_name(out, name);
    json_add_string(out, text);
}

void request_raw(struct buf *out, const char *name, struct span json)
{
    add_name(out, name);
    buf_add_span(out, json);
}

void request_begin(struct buf *out, const struct table *table)
{
    buf_add_char(out, '{');
    request_text(out, "TableName", span_text(table->name));
}

void request_key(struct buf *out, const char *name, const struct table *table, struct key key)
{
    add_name(out, name);
    key_to_typed(table, key, out);
}

void add_part(struct buf *out, enum value_type type, struct span part)
{
    struct value value;

    if (key_part_to_value(type, part, &value) < 0) {
        out->error = out->error ? out->error : -ENOMEM;
        return;
    }
    value_to_typed(&value, out);
    value_release(&value);
}
