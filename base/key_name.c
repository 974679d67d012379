/* SPDX-License-Identifier: MIT */
/*
 * Key parts as file names and back. A name is read strictly: each byte must be what the writer
 * would have written there, so that the same key never has two names. Where a spelling is refused,
 * the lenient reading behind it is written anew, and the message tells that name.
 */
#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/key.h"
#include "base/number.h"
#include "base/text.h"

#define MARK_LEN 33 /* "~" and 32 hex digits: the end of a hashed name */

bool name_is_item(struct span name)
{
    size_t suffix = strlen(KEY_ITEM_SUFFIX);
    return name.len >= suffix && name.data[0] != '.' &&
           memcmp(name.data + name.len - suffix, KEY_ITEM_SUFFIX, suffix) == 0;
}

static bool must_escape(unsigned char c, bool first)
{
    return c < 0x20 || c == 0x7F || c == '/' || c == '%' || (first && c == '.');
}

static bool is_hex(char c, bool upper)
{
    return (c >= '0' && c <= '9') || (upper ? c >= 'A' && c <= 'F' : c >= 'a' && c <= 'f');
}

/* True when TEXT ends as a hashed name does. */
static bool ends_in_mark(struct span text)
{
    if (text.len < MARK_LEN || text.data[text.len - MARK_LEN] != '~')
        return false;
    for (size_t i = text.len - MARK_LEN + 1; i < text.len; i++) {
        if (!is_hex(text.data[i], false))
            return false;
    }
    return true;
}

/* A part's encoding as far as a name can hold it. */
struct encoded {
    char text[KEY_NAME_MAX + 8];
    size_t len;  /* above the name's room when the encoding is longer than that */
    size_t kept; /* the longest beginning that leaves room for a mark */
};

/* Adds one character or escape; false when no more is needed. */
static bool encoded_add(struct encoded *encoded, const char *unit, size_t len, size_t room)
{
    memcpy(encoded->text + encoded->len, unit, len);
    encoded->len += len;
    if (encoded->len + MARK_LEN <= room)
        encoded->kept = encoded->len;
    return encoded->len <= room;
}

static void encode_text(struct span part, size_t room, struct encoded *encoded)
{
    static const char digits[] = "0123456789ABCDEF";
    bool more = true;
    for (size_t at = 0; at < part.len && more;) {
        unsigned char c = (unsigned char)part.data[at];
        size_t step = 1;
        if (must_escape(c, at == 0)) {
            char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
            more = encoded_add(encoded, escape, sizeof escape, room);
        } else {
            step = text_utf8_step(span_of(part.data + at, part.len - at), true);
            step = step ? step : 1;
            more = encoded_add(encoded, part.data + at, step, room);
        }
        at += step;
    }
}

/* The encoding passes through OUT, which afterwards is as it was, or in error. */
static void encode_binary(struct span part, size_t room, struct encoded *encoded, struct buf *out)
{
    const size_t enough = (KEY_NAME_MAX / 4 + 1) * 3; /* bytes that fill more than a name */
    size_t before = out->len;
    base64_encode(span_of(part.data, part.len < enough ? part.len : enough), true, out);
    bool more = true;
    for (size_t at = before; at < out->len && more; at++)
        more = encoded_add(encoded, out->data + at, 1, room);
    if (out->len > before)
        buf_resize(out, before);
}

static void add_hashed(struct span part, const struct encoded *encoded, struct buf *out)
{
    char hex[65];
    sha256_hex(part, hex);
    buf_add(out, encoded->text, encoded->kept);
    buf_add_char(out, '~');
    buf_add(out, hex, MARK_LEN - 1);
}

void name_from_part(enum value_type type, struct span part, const char *suffix, struct buf *out)
{
    size_t room = KEY_NAME_MAX - strlen(suffix);
    struct encoded encoded = {.len = 0};
    if (type == VALUE_B)
        encode_binary(part, room, &encoded, out);
    else
        encode_text(part, room, &encoded);
    struct span name = span_of(encoded.text, encoded.len);
    bool marked = ends_in_mark(name);
    if (encoded.len + (marked ? 2 : 0) > room) {
        add_hashed(part, &encoded, out);
    } else if (marked) {
        size_t head = encoded.len - MARK_LEN;
        buf_add(out, encoded.text, head);
        buf_add_text(out, "%7E");
        buf_add(out, encoded.text + head + 1, MARK_LEN - 1);
    } else {
        buf_add_span(out, name);
    }
    buf_add_text(out, suffix);
}

/* Drops what was appended behind BEFORE. */
static void cut_back(struct buf *out, size_t before)
{
    if (!buf_error(out) && out->len > before)
        buf_resize(out, before);
}

static int hex_value(char c)
{
    return is_hex(c, true) ? (c <= '9' ? c - '0' : c - 'A' + 10) : -1;
}

/* The byte of the escape at AT of TEXT, or -1 where there is none. */
static int escaped_byte(struct span text, size_t at)
{
    if (text.len - at < 3)
        return -1;
    int high = hex_value(text.data[at + 1]), low = hex_value(text.data[at + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Decodes what encode_text wrote; false where it would have written something else. TILDE is where
 * an escaped "~" is right, SIZE_MAX for nowhere. */
static bool decode_text(struct span text, size_t tilde, struct buf *out)
{
    for (size_t at = 0; at < text.len; at++) {
        unsigned char c = (unsigned char)text.data[at];
        if (c != '%') {
            if (must_escape(c, at == 0))
                return false;
            buf_add_char(out, (char)c);
            continue;
        }
        int byte = escaped_byte(text, at);
        bool right =
            byte >= 0 && (at == tilde ? byte == '~' : must_escape((unsigned char)byte, at == 0));
        if (!right)
            return false;
        buf_add_char(out, (char)byte);
        at += 2;
    }
    return true;
}

/* Reads any escapes, and refuses with the name that the key behind TEXT has. */
static int refuse_text(struct span text, const char *suffix, struct err *err)
{
    cleanup(buf_release) struct buf part;
    cleanup(buf_release) struct buf name;
    buf_init(&part, KEY_PART_MAX);
    buf_init(&name, KEY_PART_MAX);
    for (size_t at = 0; at < text.len; at++) {
        char upper[3] = {'%', 0, 0};
        for (size_t i = 1; i < 3 && at + i < text.len; i++)
            upper[i] = (char)(is_hex(text.data[at + i], false) && text.data[at + i] >= 'a'
                                  ? text.data[at + i] - 'a' + 'A'
                                  : text.data[at + i]);
        int byte = text.data[at] == '%' ? escaped_byte(span_of(upper, 3), 0) : -1;
        buf_add_char(&part, byte < 0 ? text.data[at] : (char)byte);
        at += byte < 0 ? 0 : 2;
    }
    name_from_part(VALUE_S, buf_span(&part), suffix, &name);
    if (buf_error(&part) || buf_error(&name) || !text_is_utf8(buf_span(&part), true))
        return err_set(err, EINVAL, "\"%.*s%s\" is not UTF-8", (int)text.len, text.data, suffix);
    if (text.len + name.len > 400) /* both would not fit a message */
        return err_set(err, EINVAL, "this key's name is \"%s\"", name.data);
    return err_set(err, EINVAL, "\"%.*s%s\" is not how this key is spelled: use \"%s\"",
                   (int)text.len, text.data, suffix, name.data);
}

/* HEAD stands before the mark of a hashed name: it must be as long as the writer makes it, up to
 * one character of at most UNIT_MAX bytes that had no room. */
static bool head_fits(struct span head, size_t unit_max, const char *suffix)
{
    size_t most = KEY_NAME_MAX - strlen(suffix) - MARK_LEN;
    return head.len <= most && head.len + unit_max > most;
}

static int text_from_name(struct span core, const char *suffix, struct buf *out, struct err *err)
{
    bool hashed = ends_in_mark(core);
    struct span head = span_of(core.data, core.len - (hashed ? MARK_LEN : 0));
    /* A part that looks like a hashed name has its "~" escaped: put it back to see. */
    size_t tilde = SIZE_MAX;
    if (core.len >= MARK_LEN + 2 && memcmp(core.data + core.len - MARK_LEN - 2, "%7E", 3) == 0) {
        char mark[MARK_LEN] = "~";
        memcpy(mark + 1, core.data + core.len - MARK_LEN + 1, MARK_LEN - 1);
        tilde = ends_in_mark(span_of(mark, MARK_LEN)) ? core.len - MARK_LEN - 2 : SIZE_MAX;
    }
    size_t before = out->len;
    if ((hashed && !head_fits(head, 4, suffix)) || !decode_text(head, tilde, out) ||
        (!buf_error(out) && !text_is_utf8(buf_from(out, before), true))) {
        cut_back(out, before);
        return refuse_text(core, suffix, err);
    }
    return hashed ? 1 : 0;
}

static int number_from_name(struct span core, const char *suffix, struct buf *out, struct err *err)
{
    size_t before = out->len;
    if (number_canonical(core, out, err) != 0)
        return -EINVAL;
    if (buf_error(out))
        return 0;
    struct span number = buf_from(out, before);
    if (span_equal(number, core))
        return 0;
    err_set(err, EINVAL, "\"%.*s%s\" is not how this key is spelled: use \"%s%s\"", (int)core.len,
            core.data, suffix, number.data, suffix);
    cut_back(out, before);
    return -EINVAL;
}

/* The whole bytes behind the first digits of a base64url text; filled up to a whole group with
 * digits of value 0, whose bytes are dropped again. */
static int binary_head(struct span head, struct buf *out)
{
    char digits[KEY_NAME_MAX + 4];
    memcpy(digits, head.data, head.len);
    memset(digits + head.len, 'A', 3);
    size_t before = out->len;
    int error = base64_decode(span_of(digits, (head.len + 3) / 4 * 4), true, out);
    if (!error && !buf_error(out))
        buf_resize(out, before + head.len * 6 / 8);
    return error;
}

static int binary_from_name(struct span core, const char *suffix, struct buf *out, struct err *err)
{
    if (ends_in_mark(core)) {
        struct span head = span_of(core.data, core.len - MARK_LEN);
        if (head_fits(head, 1, suffix) && binary_head(head, out) == 0)
            return 1;
    } else if (base64_decode(core, true, out) == 0) {
        return 0;
    }
    return err_set(err, EINVAL, "\"%.*s\" is not base64url without padding", (int)core.len,
                   core.data);
}

int name_to_part(enum value_type type, struct span name, const char *suffix, struct buf *out,
                 struct err *err)
{
    size_t suffix_len = strlen(suffix);
    if (name.len < suffix_len || memcmp(name.data + name.len - suffix_len, suffix, suffix_len) != 0)
        return err_set(err, EINVAL, "a name here ends in \"%s\"", suffix);
    struct span core = span_of(name.data, name.len - suffix_len);
    if (core.len == 0)
        return err_set(err, EINVAL, "a name cannot be empty");
    if (name.len > KEY_NAME_MAX && type == VALUE_S)
        return refuse_text(core, suffix, err);
    if (name.len > KEY_NAME_MAX)
        return err_set(err, EINVAL, "a name has at most %d bytes", KEY_NAME_MAX);
    switch (type) {
    case VALUE_N: return number_from_name(core, suffix, out, err);
    case VALUE_B: return binary_from_name(core, suffix, out, err);
    default: return text_from_name(core, suffix, out, err);
    }
}
