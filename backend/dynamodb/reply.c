/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/reply.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"

static void reader_release(struct json_reader **reader)
{
    json_reader_free(*reader);
}

/* A reader of TEXT behind its first token, where that is of KIND; else NULL. */
static struct json_reader *reader_into(struct span text, enum json_kind kind)
{
    struct json_reader *reader = json_reader_new(text);
    struct json_token token;

    if (!reader)
        return NULL;
    json_set_depth_max(reader, JSON_DEPTH_HARD_MAX);
    if (json_next(reader, &token, NULL) == 0 && token.kind == kind)
        return reader;
    json_reader_free(reader);
    return NULL;
}

int reply_each_member(struct span object, reply_member_fn each, void *context)
{
    cleanup(reader_release) struct json_reader *reader = reader_into(object, JSON_OBJECT);
    cleanup(buf_release) struct buf name;
    struct json_token token;
    struct span raw;
    int r = 0;

    buf_init(&name, SIZE_MAX / 8);
    while (r == 0 && reader && json_next(reader, &token, NULL) == 0 && token.kind == JSON_NAME) {
        buf_clear(&name);
        if (token.escaped)
            json_unescape(token.raw, &name);
        if (json_skip(reader, &raw, NULL) < 0)
            return -EIO;
        r = buf_error(&name) ? buf_error(&name)
                             : each(context, token.escaped ? buf_span(&name) : token.raw, raw);
    }
    return r;
}

int reply_each(struct span array, reply_fn each, void *context)
{
    cleanup(reader_release) struct json_reader *reader = reader_into(array, JSON_ARRAY);
    struct span raw;
    int r = 0;

    while (r == 0 && reader && json_skip(reader, &raw, NULL) == 0 && raw.len && raw.data[0] != ']')
        r = each(context, raw);
    return r;
}

struct wanted_member {
    struct span name, raw;
    bool found;
};

static int find_member(void *context, struct span name, struct span raw)
{
    struct wanted_member *wanted = context;

    if (!span_equal(name, wanted->name))
        return 0;
    wanted->raw = raw;
    wanted->found = !span_equal(raw, span_text("null"));
    return 1;
}

bool reply_member(struct span object, const char *name, struct span *ret_raw)
{
    struct wanted_member wanted = {.name = span_text(name)};

    reply_each_member(object, find_member, &wanted);
    if (wanted.found)
        *ret_raw = wanted.raw;
    return wanted.found;
}

bool reply_path(struct span object, const char *path, struct span *ret_raw)
{
    char name[64];

    for (;;) {
        size_t len = strcspn(path, ".");

        if (len >= sizeof name)
            return false;
        memcpy(name, path, len);
        name[len] = '\0';
        if (!reply_member(object, name, &object))
            return false;
        if (!path[len])
            break;
        path += len + 1;
    }
    *ret_raw = object;
    return true;
}

bool reply_text(struct span object, const char *name, struct buf *out)
{
    struct span raw;

    if (!reply_member(object, name, &raw) || raw.len < 2 || raw.data[0] != '"')
        return false;
    json_unescape(span_of(raw.data + 1, raw.len - 2), out);
    return true;
}

bool reply_text_is(struct span object, const char *name, const char *wanted)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 1024);
    return reply_text(object, name, &text) && span_equal(buf_span(&text), span_text(wanted));
}

double reply_number(struct span object, const char *name)
{
    struct span raw;
    char text[64];

    if (!reply_member(object, name, &raw) || raw.len >= sizeof text)
        return 0;
    memcpy(text, raw.data, raw.len);
    text[raw.len] = '\0';
    return strtod(text, NULL);
}
