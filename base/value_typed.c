/* SPDX-License-Identifier: MIT */
/* DynamoDB's typed JSON into attribute values. */
#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "base/value_tree.h"

struct typed {
    struct json_reader *reader;
    struct buf scratch, number;
    struct err *err;
};

static int read_value(struct typed *typed, struct value *ret_value);

static void typed_release(struct typed *typed)
{
    json_reader_free(typed->reader);
    buf_release(&typed->scratch);
    buf_release(&typed->number);
}

static int typed_init(struct typed *typed, struct span text, struct err *err)
{
    *typed = (struct typed){.reader = json_reader_new(text), .err = err};
    buf_init(&typed->scratch, SIZE_MAX / 8);
    buf_init(&typed->number, SIZE_MAX / 8);
    if (!typed->reader)
        return err_set(err, ENOMEM, "out of memory for a value");
    json_set_depth_max(typed->reader, JSON_DEPTH_HARD_MAX);
    return 0;
}

static int next(struct typed *typed, struct json_token *token)
{
    return json_next(typed->reader, token, typed->err);
}

static int refuse(struct typed *typed, const struct json_token *at, const char *reason)
{
    return json_refuse(typed->reader, at->raw.data, typed->err, "%s", reason);
}

/* The bytes of a string or name token, until the next call. -ENOMEM. */
static int token_bytes(struct typed *typed, const struct json_token *token, struct span *ret_bytes)
{
    *ret_bytes = token->raw;
    if (!token->escaped)
        return 0;
    buf_clear(&typed->scratch);
    json_unescape(token->raw, &typed->scratch);
    *ret_bytes = buf_span(&typed->scratch);
    return buf_error(&typed->scratch);
}

/* DynamoDB's looser number forms in JSON's grammar: no "+", no leading zeros, digits on both sides
 * of the point. What is JSON already stays as it is. False when TEXT is no number. */
static bool number_to_json(struct span text, struct buf *out)
{
    if (number_is_json(text)) {
        buf_add_span(out, text);
        return true;
    }
    size_t at = 0;
    if (at < text.len && (text.data[at] == '-' || text.data[at] == '+')) {
        if (text.data[at++] == '-')
            buf_add_char(out, '-');
    }
    while (at + 1 < text.len && text.data[at] == '0' && text.data[at + 1] >= '0' &&
           text.data[at + 1] <= '9')
        at++;
    bool whole = at < text.len && text.data[at] >= '0' && text.data[at] <= '9';
    if (!whole)
        buf_add_char(out, '0');
    while (at < text.len && text.data[at] >= '0' && text.data[at] <= '9')
        buf_add_char(out, text.data[at++]);
    bool fraction = at + 1 < text.len && text.data[at] == '.' && text.data[at + 1] >= '0' &&
                    text.data[at + 1] <= '9';
    if (whole && !fraction && at < text.len && text.data[at] == '.')
        at++;
    else if (!whole && !fraction)
        return false;
    buf_add(out, text.data + at, text.len - at);
    return buf_error(out) || number_is_json(buf_span(out));
}

/* Makes a text value of the string token; the type says what it may hold. */
static int make_text(struct typed *typed, const struct json_token *token, enum value_type type,
                     struct value *ret_value)
{
    static const char *const strings[] = {[VALUE_S] = "a value of type S is a string",
                                          [VALUE_N] = "a value of type N is a number as a string",
                                          [VALUE_B] = "a value of type B is a string of base64"};
    struct span bytes;
    if (token->kind != JSON_STRING)
        return refuse(typed, token, strings[type]);
    int error = token_bytes(typed, token, &bytes);
    if (error || type == VALUE_S)
        return error ? error : value_new_text(type, bytes, ret_value);
    buf_clear(&typed->number);
    bool good = type == VALUE_N ? number_to_json(bytes, &typed->number)
                                : base64_decode(bytes, false, &typed->number) == 0;
    if (!good)
        return refuse(typed, token, strings[type]);
    error = buf_error(&typed->number);
    return error ? error : value_new_text(type, buf_span(&typed->number), ret_value);
}

static int read_text(struct typed *typed, enum value_type type, struct value *ret_value)
{
    struct json_token token;
    int error = next(typed, &token);
    return error ? error : make_text(typed, &token, type, ret_value);
}

/* B is binary, as DynamoDB has it; but Kernstack's B, beside BIN, holds a boolean. */
static int read_binary(struct typed *typed, bool certain, struct value *ret_value)
{
    struct json_token token;
    int error = next(typed, &token);
    if (error || certain || (token.kind != JSON_TRUE && token.kind != JSON_FALSE))
        return error ? error : make_text(typed, &token, VALUE_B, ret_value);
    *ret_value = (struct value){.type = VALUE_BOOL, .boolean = token.kind == JSON_TRUE};
    return 0;
}

static int read_constant(struct typed *typed, enum value_type type, struct value *ret_value)
{
    struct json_token token;
    int error = next(typed, &token);
    if (error)
        return error;
    if (type == VALUE_NULL && token.kind != JSON_TRUE)
        return refuse(typed, &token, "a value of type NULL is true");
    if (token.kind != JSON_TRUE && token.kind != JSON_FALSE)
        return refuse(typed, &token, "a value of type BOOL is true or false");
    *ret_value = (struct value){.type = type};
    if (type == VALUE_BOOL)
        ret_value->boolean = token.kind == JSON_TRUE;
    return 0;
}

/* Expects the opening token KIND. */
static int read_open(struct typed *typed, enum json_kind kind, const char *reason)
{
    struct json_token token;
    int error = next(typed, &token);
    if (!error && token.kind != kind)
        error = refuse(typed, &token, reason);
    return error;
}

/* What is half built stays in LIST on failure, for the caller to release; so in all below. */
static int read_set(struct typed *typed, enum value_type type, struct value *set)
{
    enum value_type element = type == VALUE_SS ? VALUE_S : type == VALUE_NS ? VALUE_N : VALUE_B;
    struct json_token token;
    *set = (struct value){.type = type};
    int error = read_open(typed, JSON_ARRAY, "a set is an array");
    while (!error) {
        struct value item;
        error = next(typed, &token);
        if (error || token.kind == JSON_ARRAY_END)
            break;
        error = make_text(typed, &token, element, &item);
        error = error ? error : value_list_add(set, item);
    }
    if (error)
        return error;
    if (set->list.count == 0)
        return refuse(typed, &token, "a set may not be empty");
    cleanup_free struct span *sorted = NULL;
    error = value_set_sorted(set, &sorted);
    return error > 0 ? refuse(typed, &token, "two elements of a set are equal") : error;
}

static int read_list(struct typed *typed, struct value *list)
{
    *list = (struct value){.type = VALUE_L};
    int error = read_open(typed, JSON_ARRAY, "a value of type L is an array");
    while (!error) {
        struct json_token token;
        struct value item = {0};
        error = next(typed, &token);
        if (error || token.kind == JSON_ARRAY_END)
            break;
        error = token.kind == JSON_OBJECT
                    ? read_value(typed, &item)
                    : refuse(typed, &token, "expected a typed value such as {\"S\": \"text\"}");
        if (error)
            value_release(&item);
        error = error ? error : value_list_add(list, item);
    }
    return error;
}

static int read_member(struct typed *typed, const struct json_token *name, struct value *map)
{
    struct value value = {0};
    int error = read_open(typed, JSON_OBJECT, "expected a typed value such as {\"S\": \"text\"}");
    error = error ? error : read_value(typed, &value);
    struct span bytes;
    error = error ? error : token_bytes(typed, name, &bytes);
    if (error)
        value_release(&value);
    return error ? error : value_member_add(map, bytes, value);
}

/* The members of a map whose "{" was read. */
static int read_members(struct typed *typed, struct value *map)
{
    *map = value_new_map();
    for (;;) {
        struct json_token token;
        int error = next(typed, &token);
        if (error || token.kind == JSON_OBJECT_END)
            return error;
        error = read_member(typed, &token, map);
        if (error)
            return error;
    }
}

static int read_map(struct typed *typed, struct value *map)
{
    int error = read_open(typed, JSON_OBJECT, "a value of type M is an object");
    return error ? error : read_members(typed, map);
}

static int read_content(struct typed *typed, enum value_type type, struct value *ret_value)
{
    switch (type) {
    case VALUE_S:
    case VALUE_N: return read_text(typed, type, ret_value);
    case VALUE_BOOL:
    case VALUE_NULL: return read_constant(typed, type, ret_value);
    case VALUE_L: return read_list(typed, ret_value);
    case VALUE_M: return read_map(typed, ret_value);
    default: return read_set(typed, type, ret_value);
    }
}

/* One typed value whose "{" was read. */
static int read_value(struct typed *typed, struct value *ret_value)
{
    struct json_token token;
    enum value_type type;
    int error = next(typed, &token);
    if (error)
        return error;
    if (token.kind == JSON_OBJECT_END)
        return refuse(typed, &token, "a typed value names its type, as in {\"S\": \"text\"}");
    bool binary = span_equal(token.raw, span_text("BIN"));
    if (binary)
        type = VALUE_B;
    else if (!value_type_from_name(token.raw, &type))
        return refuse(typed, &token, "a type is one of S, N, B, BOOL, NULL, L, M, SS, NS, BS");
    error = type == VALUE_B ? read_binary(typed, binary, ret_value)
                            : read_content(typed, type, ret_value);
    error = error ? error : next(typed, &token);
    if (!error && token.kind != JSON_OBJECT_END)
        error = refuse(typed, &token, "a typed value has one type");
    return error;
}

static int read_document(struct span text, bool map, struct value *ret_value, struct err *err)
{
    cleanup(typed_release) struct typed typed;
    struct json_token token;
    struct value value = {0};
    int error = typed_init(&typed, text, err);
    if (!error)
        error = read_open(&typed, JSON_OBJECT,
                          map ? "an item is an object" : "a typed value is an object");
    if (!error)
        error = map ? read_members(&typed, &value) : read_value(&typed, &value);
    error = error ? error : next(&typed, &token);
    if (!error && value_plain_depth(&value) > JSON_DEPTH_MAX)
        error = err_set(err, EINVAL, "line 1, column 1: nested too deeply");
    if (error) {
        value_release(&value);
        return err_set(err, -error, "out of memory for a value");
    }
    *ret_value = value;
    return 0;
}

int value_from_typed(struct span text, struct value *ret_value, struct err *err)
{
    return read_document(text, false, ret_value, err);
}

int value_map_from_typed(struct span text, struct value *ret_map, struct err *err)
{
    return read_document(text, true, ret_map, err);
}
