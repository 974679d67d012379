/* SPDX-License-Identifier: MIT */
/*
 * Plain JSON into attribute values. Whether an object is a form is known at its end, and what "$M"
 * holds is not to be taken as one. So `build` makes an object a map as it stands, with everything
 * inside of it finished, and `finish` turns that one map into the form that it may be.
 */
#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/form.h"
#include "base/text.h"
#include "base/value_tree.h"

struct builder {
    struct json_reader *reader;
    bool json; /* there are no forms */
    struct buf scratch;
    struct err *err;
};

static int build(struct builder *builder, const struct json_token *first, struct value *ret_value);

static void builder_release(struct builder *builder)
{
    json_reader_free(builder->reader);
    buf_release(&builder->scratch);
}

/* The bytes of a string or name token, until the next call. -ENOMEM. */
static int token_bytes(struct builder *builder, const struct json_token *token,
                       struct span *ret_bytes)
{
    *ret_bytes = token->raw;
    if (!token->escaped)
        return 0;
    buf_clear(&builder->scratch);
    json_unescape(token->raw, &builder->scratch);
    *ret_bytes = buf_span(&builder->scratch);
    return buf_error(&builder->scratch);
}

/* Turns the text element VALUE into the bytes that it is base64 of. 1: it is not. */
static int decode_element(struct value *value)
{
    cleanup(buf_release) struct buf bytes;
    buf_init(&bytes, SIZE_MAX / 8);
    if (base64_decode(value_text(value), false, &bytes) != 0)
        return 1;
    size_t len;
    char *data = buf_take(&bytes, &len);
    if (!data)
        return -ENOMEM;
    value_release(value);
    *value = (struct value){.type = VALUE_B, .text = {.data = data, .len = len}};
    return 0;
}

static int make_set(struct value *list, enum value_type type)
{
    enum value_type element = type == VALUE_NS ? VALUE_N : VALUE_S;
    if (list->type != VALUE_L || list->list.count == 0)
        return 1;
    for (size_t i = 0; i < list->list.count; i++) {
        struct value *item = &list->list.items[i];
        int wrong = item->type != element;
        if (!wrong && type == VALUE_BS)
            wrong = decode_element(item);
        if (wrong)
            return wrong;
    }
    list->type = type;
    cleanup_free struct span *sorted = NULL;
    return value_set_sorted(list, &sorted);
}

/* Turns the content of the form FORM into what it stands for. 1: it cannot be that. */
static int make_form(enum form form, struct value *content)
{
    switch (form) {
    case FORM_B: return content->type == VALUE_S ? decode_element(content) : 1;
    case FORM_SS: return make_set(content, VALUE_SS);
    case FORM_NS: return make_set(content, VALUE_NS);
    case FORM_BS: return make_set(content, VALUE_BS);
    case FORM_M: return content->type == VALUE_M ? 0 : 1;
    default: return 1;
    }
}

static int finish(struct value *value);

static int finish_held(struct value *map)
{
    if (!value_needs_wrap(map))
        return 0;
    const struct member *member = &map->map.members[0];
    bool left = form_of_name(span_of(member->name, member->name_len)) == FORM_M;
    return left ? finish(&map->map.members[0].value) : 0;
}

/* What "$M" holds is taken as it stands, but what that holds in turn is not: where its one member
 * is named "$M" too, `build` left that one's value as it was. -EINVAL comes without a message. */
static int finish(struct value *value)
{
    if (value->type != VALUE_M || !value_needs_wrap(value))
        return 0;
    struct member *member = &value->map.members[0];
    struct span name = span_of(member->name, member->name_len);
    enum form form = form_of_name(name);
    int wrong = make_form(form, &member->value);
    if (!wrong && form == FORM_M)
        wrong = finish_held(&member->value);
    if (wrong)
        return wrong < 0 ? wrong : -EINVAL;
    struct value content = member->value;
    member->value = (struct value){0};
    value_release(value);
    *value = content;
    return 0;
}

/* Builds one value and finishes it, unless it is an object and LITERAL. */
static int build_next(struct builder *builder, const struct json_token *first, bool literal,
                      struct value *ret_value)
{
    struct value value = {0};
    int error = build(builder, first, &value);
    if (!error && !literal && !builder->json)
        error = finish(&value);
    if (error)
        value_release(&value);
    else
        *ret_value = value;
    return error;
}

static int build_array(struct builder *builder, struct value *list)
{
    for (;;) {
        struct json_token token;
        struct value item;
        int error = json_next(builder->reader, &token, builder->err);
        if (error || token.kind == JSON_ARRAY_END)
            return error;
        error = build_next(builder, &token, false, &item);
        error = error ? error : value_list_add(list, item);
        if (error)
            return error;
    }
}

/* Adds the member NAME of MAP; its value follows in the text. */
static int build_member(struct builder *builder, const struct json_token *name, bool literal,
                        struct value *map)
{
    struct json_token token;
    struct value value;
    int error = json_next(builder->reader, &token, builder->err);
    error = error ? error : build_next(builder, &token, literal, &value);
    if (error)
        return error;
    struct span bytes;
    error = token_bytes(builder, name, &bytes);
    if (error)
        value_release(&value);
    return error ? error : value_member_add(map, bytes, value);
}

static int build_object(struct builder *builder, struct value *map)
{
    bool pending = false; /* the first member's value is not finished: it may be what "$M" holds */
    for (;;) {
        struct json_token token;
        int error = json_next(builder->reader, &token, builder->err);
        if (error || token.kind == JSON_OBJECT_END)
            return error;
        enum form form = FORM_NONE;
        if (map->map.count == 0 && !builder->json)
            error = form_of_token(&token, &form);
        else if (pending)
            error = finish(&map->map.members[0].value);
        pending = form == FORM_M;
        error = error ? error : build_member(builder, &token, pending, map);
        if (error)
            return error;
    }
}

static int build_text(struct builder *builder, const struct json_token *token,
                      struct value *ret_value)
{
    struct span bytes = token->raw;
    int error = token->kind == JSON_STRING ? token_bytes(builder, token, &bytes) : 0;
    enum value_type type = token->kind == JSON_STRING ? VALUE_S : VALUE_N;
    return error ? error : value_new_text(type, bytes, ret_value);
}

/* What is half built stays in ret_value on failure, for the caller to release. */
static int build(struct builder *builder, const struct json_token *first, struct value *ret_value)
{
    switch (first->kind) {
    case JSON_OBJECT: *ret_value = value_new_map(); return build_object(builder, ret_value);
    case JSON_ARRAY:
        *ret_value = (struct value){.type = VALUE_L};
        return build_array(builder, ret_value);
    case JSON_STRING:
    case JSON_NUMBER: return build_text(builder, first, ret_value);
    case JSON_TRUE:
    case JSON_FALSE:
        *ret_value = (struct value){.type = VALUE_BOOL, .boolean = first->kind == JSON_TRUE};
        return 0;
    default: *ret_value = (struct value){.type = VALUE_NULL}; return 0;
    }
}

/* Says what is wrong with the forms of TEXT: the check knows the place, the tree does not. */
static int explain(struct span text, int error, struct err *err)
{
    struct json_reader *reader = err && error == -EINVAL ? json_reader_new(text) : NULL;
    struct json_token token;
    struct span raw;
    if (reader && json_next(reader, &token, err) == 0)
        form_skip(reader, &token, &raw, err);
    json_reader_free(reader);
    return err_set(err, -error, "%s",
                   error == -ENOMEM ? "out of memory for a value" : "no value in plain form");
}

static int read_document(struct span text, bool json, struct value *ret_value, struct err *err)
{
    cleanup(builder_release) struct builder builder = {.json = json, .err = err};
    buf_init(&builder.scratch, SIZE_MAX / 8);
    builder.reader = json_reader_new(text);
    struct json_token token;
    struct value value = {0};
    int error = builder.reader ? json_next(builder.reader, &token, err) : -ENOMEM;
    error = error ? error : build_next(&builder, &token, false, &value);
    error = error ? error : json_next(builder.reader, &token, err);
    if (error)
        value_release(&value);
    else
        *ret_value = value;
    return error;
}

int value_from_plain(struct span text, struct value *ret_value, struct err *err)
{
    int error = read_document(text, false, ret_value, err);
    return error ? explain(text, error, err) : 0;
}

int value_from_json(struct span text, struct value *ret_value, struct err *err)
{
    int error = read_document(text, true, ret_value, err);
    return error ? err_set(err, -error, "%s", error == -ENOMEM ? "out of memory" : "no JSON") : 0;
}
