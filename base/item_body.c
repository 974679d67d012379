/* SPDX-License-Identifier: MIT */
#include "base/item_body.h"

#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/form.h"
#include "base/number.h"
#include "base/text.h"

static int next(struct body_reader *reader, struct json_token *token)
{
    int error = json_next(reader->json, token, reader->err);
    reader->incomplete = error && json_incomplete(reader->json);
    return error;
}

static int restart(struct body_reader *reader)
{
    json_reader_free(reader->json);
    reader->json = json_reader_new(reader->body);
    return reader->json ? 0 : err_set(reader->err, ENOMEM, "out of memory for JSON");
}

static void put_back(struct body_reader *reader, const struct json_token *token)
{
    reader->pending = *token;
    reader->has_pending = true;
}

/* Reads over the first member's value, to see whether it is the only one. */
static int look_ahead(struct body_reader *reader, bool *ret_single, bool *ret_object)
{
    struct span raw;
    struct json_token token;
    int error = json_skip(reader->json, &raw, reader->err);
    reader->incomplete = error && json_incomplete(reader->json);
    error = error ? error : next(reader, &token);
    if (error)
        return error;
    *ret_single = token.kind == JSON_OBJECT_END;
    *ret_object = raw.data[0] == '{';
    return 0;
}

/* The body is an object whose first name is that of FORM: what it is depends on what follows. */
static int open_form(struct body_reader *reader, enum form form)
{
    bool single, object;
    struct json_token outer, name;
    int error = look_ahead(reader, &single, &object);
    error = error ? error : restart(reader);
    error = error ? error : next(reader, &outer);
    if (error)
        return error;
    if (single && (form != FORM_M || !object)) {
        reader->kind = BODY_BARE;
        put_back(reader, &outer);
        return 0;
    }
    error = next(reader, &name);
    if (error)
        return error;
    reader->wrapped = single;
    reader->open = outer.raw.data;
    if (!single) {
        put_back(reader, &name);
        return 0;
    }
    error = next(reader, &outer);
    reader->open = error ? NULL : outer.raw.data;
    return error;
}

int body_open(struct body_reader *reader, struct span body, struct err *err)
{
    *reader = (struct body_reader){.kind = BODY_EMPTY, .body = body, .err = err};
    buf_init(&reader->name, SIZE_MAX / 8);
    if (body.len == 0)
        return 0;
    struct json_token token;
    int error = restart(reader);
    error = error ? error : next(reader, &token);
    if (error)
        return error;
    if (token.kind != JSON_OBJECT) {
        reader->kind = BODY_BARE;
        put_back(reader, &token);
        return 0;
    }
    reader->kind = BODY_OBJECT;
    reader->open = token.raw.data;
    error = next(reader, &token);
    enum form form = FORM_NONE;
    if (!error && token.kind == JSON_NAME)
        error = form_of_token(&token, &form);
    if (error)
        return err_set(err, -error, "out of memory for JSON");
    if (form != FORM_NONE)
        return open_form(reader, form);
    put_back(reader, &token);
    return 0;
}

void body_close(struct body_reader *reader)
{
    json_reader_free(reader->json);
    buf_release(&reader->name);
}

/* The value whose first token stands in MEMBER. */
static int read_value(struct body_reader *reader, struct body_member *member)
{
    int error = form_skip(reader->json, &member->first, &member->raw, reader->err);
    reader->incomplete = error && json_incomplete(reader->json);
    return error;
}

/* The end of the document, from the "}" of the attributes on. */
static int read_end(struct body_reader *reader, const struct json_token *close)
{
    struct json_token token;
    reader->close = close->raw.data;
    reader->done = true;
    int error = reader->wrapped ? next(reader, &token) : 0;
    return error ? error : next(reader, &token);
}

static int next_bare(struct body_reader *reader, struct body_member *ret_member)
{
    struct json_token token;
    *ret_member = (struct body_member){.name = span_text(ITEM_VALUE), .first = reader->pending};
    reader->done = true;
    int error = read_value(reader, ret_member);
    error = error ? error : next(reader, &token);
    return error ? error : 1;
}

int body_next(struct body_reader *reader, struct body_member *ret_member)
{
    if (reader->kind == BODY_EMPTY || reader->done)
        return 0;
    if (reader->kind == BODY_BARE)
        return next_bare(reader, ret_member);
    struct json_token token = reader->pending;
    int error = reader->has_pending ? 0 : next(reader, &token);
    reader->has_pending = false;
    if (error || token.kind == JSON_OBJECT_END)
        return error ? error : read_end(reader, &token);
    struct body_member member = {.name = token.raw, .raw_name = token.raw};
    if (token.escaped) {
        buf_clear(&reader->name);
        json_unescape(token.raw, &reader->name);
        member.name = buf_span(&reader->name);
        error = buf_error(&reader->name);
    }
    error = error ? err_set(reader->err, -error, "out of memory for JSON")
                  : next(reader, &member.first);
    error = error ? error : read_value(reader, &member);
    if (error)
        return error;
    *ret_member = member;
    return 1;
}

const struct key_attribute *item_key_attribute(const struct table *table, struct span name)
{
    if (span_equal(name, span_text(table->partition.name)))
        return &table->partition;
    if (table->sort.name && span_equal(name, span_text(table->sort.name)))
        return &table->sort;
    return NULL;
}

struct span item_key_part(const struct table *table, struct key key,
                          const struct key_attribute *attribute)
{
    return attribute == &table->sort ? key.sort : key.partition;
}

/* Whether the string token names the tags of PART in another order: the same key then. */
static int string_differs(const struct table *table, const struct key_attribute *attribute,
                          struct span part, const struct json_token *token)
{
    if (!token->escaped && span_equal(token->raw, part))
        return 0;
    cleanup(buf_release) struct buf text;
    cleanup(buf_release) struct buf sorted;
    buf_init(&text, SIZE_MAX / 8);
    buf_init(&sorted, SIZE_MAX / 8);
    json_unescape(token->raw, &text);
    if (buf_error(&text) || span_equal(buf_span(&text), part))
        return buf_error(&text);
    bool tags = table->keys == KEYS_TAGS && attribute == &table->partition;
    if (!tags || text.len != part.len)
        return 1;
    int error = key_sort_tags(buf_span(&text), false, &sorted, NULL);
    return error ? error : !span_equal(buf_span(&sorted), part);
}

static int number_differs(struct span part, const struct json_token *token)
{
    cleanup(buf_release) struct buf number;
    buf_init(&number, SIZE_MAX / 8);
    if (number_canonical(token->raw, &number, NULL) != 0)
        return 1;
    return buf_error(&number) ? buf_error(&number) : !span_equal(buf_span(&number), part);
}

static int binary_differs(struct span part, struct span raw, bool *ret_binary)
{
    struct value value;
    int error = value_from_plain(raw, &value, NULL);
    *ret_binary = !error && value.type == VALUE_B;
    if (error)
        return error;
    bool differs = !*ret_binary || !span_equal(value_text(&value), part);
    value_release(&value);
    return differs;
}

int item_member_differs(const struct table *table, const struct key_attribute *attribute,
                        struct span part, const struct body_reader *reader,
                        const struct body_member *member)
{
    enum json_kind kind = member->first.kind;
    int differs = 1;
    bool good = kind == JSON_STRING || kind == JSON_NUMBER;
    if (attribute->type == VALUE_B)
        differs = kind == JSON_OBJECT ? binary_differs(part, member->raw, &good) : (good = false);
    else if (attribute->type == VALUE_S && kind == JSON_STRING)
        differs = string_differs(table, attribute, part, &member->first);
    else if (attribute->type == VALUE_N && kind == JSON_NUMBER)
        differs = number_differs(part, &member->first);
    if (differs < 0)
        return err_set(reader->err, -differs, "out of memory for a key");
    if (!good)
        return json_refuse(reader->json, member->first.raw.data, reader->err,
                           "\"%s\" is the key: it must be %s", attribute->name,
                           attribute->type == VALUE_B ? "{\"$B\": ..}" : "a string or a number");
    return differs;
}

int item_index_part(enum value_type type, struct span raw, struct buf *out)
{
    struct value value;
    int error = value_from_plain(raw, &value, NULL);
    if (error)
        return error == -ENOMEM ? error : 1;
    bool good = value.type == type;
    if (good && type == VALUE_N) {
        good = number_canonical(value_text(&value), out, NULL) == 0;
    } else if (good) {
        good = value.text.len > 0 && value.text.len <= KEY_PART_MAX;
        buf_add_span(out, good ? value_text(&value) : span_of(NULL, 0));
    }
    value_release(&value);
    return buf_error(out) ? buf_error(out) : !good;
}
