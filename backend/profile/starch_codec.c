/* SPDX-License-Identifier: MIT */
#include "backend/profile/starch_codec.h"

#include <errno.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"

#define UNDEFINED "__UNDEF__"
#define EMPTY "__EMPTY__"
#define SERIALIZED "__SERIALIZED__:"

/* VALUE becomes the string of BYTES. */
static int become_text(struct value *value, struct span bytes)
{
    struct value text;
    int r = value_new_text(VALUE_S, bytes, &text);

    if (r < 0)
        return r;
    value_release(value);
    *value = text;
    return 0;
}

/* --- JSON, encoded twice --- */

/* Bytes as UTF-8 of the characters with their numbers. */
static void add_twice_encoded(struct span bytes, struct buf *out)
{
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        if (c < 0x80) {
            buf_add_char(out, (char)c);
        } else {
            buf_add_char(out, (char)(0xC0 | c >> 6));
            buf_add_char(out, (char)(0x80 | (c & 0x3F)));
        }
    }
}

/* The inverse; false where a character has no such byte. TEXT is UTF-8. */
static bool add_once_encoded(struct span text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x80) {
            buf_add_char(out, (char)c);
        } else if ((c == 0xC2 || c == 0xC3) && i + 1 < text.len) {
            unsigned char low = (unsigned char)text.data[++i];
            buf_add_char(out, (char)(c << 6 | (low & 0x3F)));
        } else {
            return false;
        }
    }
    return true;
}

static bool is_serialized(struct span text)
{
    size_t prefix = strlen(SERIALIZED);

    return text.len >= prefix && memcmp(text.data, SERIALIZED, prefix) == 0;
}

/* What Perl's /^__SERIALIZED__:(.*)$/ finds in TEXT: one line, whose end may stand there. */
static bool match_serialized(struct span text, struct span *ret_json)
{
    if (!is_serialized(text))
        return false;
    struct span rest = span_from(text, strlen(SERIALIZED));
    if (rest.len && rest.data[rest.len - 1] == '\n')
        rest.len--;
    if (rest.len && memchr(rest.data, '\n', rest.len))
        return false;
    *ret_json = rest;
    return true;
}

static int serialize(struct value *value, struct err *err)
{
    const struct value_style style = {.sort = true, .json = true};
    cleanup(buf_release) struct buf json, text;

    buf_init(&json, SIZE_MAX / 8);
    buf_init(&text, SIZE_MAX / 8);
    if (!value_is_json(value))
        return err_set(err, EINVAL, "binary and sets cannot stand in a map or a list");
    value_to_plain(value, style, &json);
    buf_add_text(&text, SERIALIZED);
    add_twice_encoded(buf_span(&json), &text);
    if (buf_error(&json) || buf_error(&text))
        return buf_error(&json) ? buf_error(&json) : buf_error(&text);
    return become_text(value, buf_span(&text));
}

static int deserialize(struct value *value, struct span text, struct err *err)
{
    cleanup(buf_release) struct buf json;
    struct err why = {""};
    struct value read;

    buf_init(&json, SIZE_MAX / 8);
    if (!text.len)
        return become_text(value, text);
    if (!add_once_encoded(text, &json))
        return err_set(err, EINVAL,
                       "behind \"" SERIALIZED "\" stands a character that the store does not write "
                       "there: it encodes UTF-8 twice");
    if (buf_error(&json))
        return buf_error(&json);
    int r = value_from_json(buf_span(&json), &read, &why);
    if (r == -EINVAL)
        return err_set(err, EINVAL, "behind \"" SERIALIZED "\" stands no JSON: %s", why.text);
    if (r < 0)
        return r;
    value_release(value);
    *value = read;
    return 0;
}

/* --- Values --- */

static int show_text(struct value *value, struct err *err)
{
    struct span text = value_text(value), json;

    if (span_equal(text, span_text(UNDEFINED))) {
        value_release(value);
        *value = (struct value){.type = VALUE_NULL};
        return 0;
    }
    if (span_equal(text, span_text(EMPTY)))
        return become_text(value, span_of("", 0));
    return match_serialized(text, &json) ? deserialize(value, json, err) : 0;
}

int starch_show(struct value *value, struct err *err)
{
    return value->type == VALUE_S ? show_text(value, err) : 0;
}

static int store_text(struct value *value, struct err *err)
{
    struct span text = value_text(value), json;

    if (!text.len)
        return become_text(value, span_text(EMPTY));
    if (span_equal(text, span_text(UNDEFINED)))
        return err_set(err, EINVAL,
                       "the text \"" UNDEFINED "\" stands for null in this store, and would come "
                       "back as that: write null");
    if (span_equal(text, span_text(EMPTY)))
        return err_set(err, EINVAL,
                       "the text \"" EMPTY "\" stands for an empty text in this store, and would "
                       "come back as that: write \"\"");
    if (match_serialized(text, &json))
        return err_set(err, EINVAL,
                       "a text that begins with \"" SERIALIZED "\" stands for what follows it in "
                       "this store, and would not come back as it is");
    return 0;
}

static bool is_whole(struct span number)
{
    for (size_t i = 0; i < number.len; i++)
        if ((number.data[i] < '0' || number.data[i] > '9') && !(i == 0 && number.data[i] == '-'))
            return false;
    return true;
}

/* 10.0 and 1e1 are shown as 10, and what is saved as it is shown stays as it is. */
static int store_number(struct value *value, struct err *err)
{
    int r = is_whole(value_text(value)) ? 0 : value_canonical(value, err);

    if (r == 0 && is_whole(value_text(value)))
        value->type = VALUE_S; /* both are texts */
    return r;
}

static bool is_unicode(const struct value *value)
{
    bool whole = value->type != VALUE_S || text_is_utf8(value_text(value), false);

    if (value->type == VALUE_M)
        for (size_t i = 0; whole && i < value->map.count; i++)
            whole =
                starch_can_name(&value->map.members[i]) && is_unicode(&value->map.members[i].value);
    else if (value->type == VALUE_L || value->type == VALUE_SS)
        for (size_t i = 0; whole && i < value->list.count; i++)
            whole = is_unicode(&value->list.items[i]);
    return whole;
}

bool starch_can_name(const struct member *member)
{
    return text_is_utf8(span_of(member->name, member->name_len), false);
}

int starch_store(struct value *value, struct err *err)
{
    if (!is_unicode(value))
        return err_set(err, EINVAL,
                       "half of a surrogate pair (\\ud800 to \\udfff) is no character");
    switch (value->type) {
    case VALUE_S: return store_text(value, err);
    case VALUE_N: return store_number(value, err);
    case VALUE_NULL: return become_text(value, span_text(UNDEFINED));
    case VALUE_BOOL:
    case VALUE_L:
    case VALUE_M: return serialize(value, err);
    default: return 0;
    }
}
