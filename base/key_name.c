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
    char text[KEY_TAGS_NAME_MAX + 8];
    size_t room; /* for the encoding of a whole part */
    size_t head; /* for what stands before a mark */
    size_t len;  /* above the room when the encoding is longer than that */
    size_t kept; /* the longest beginning that has room before a mark */
};

/* Bytes before the mark of a hashed name, at most. */
static size_t head_room(const char *suffix)
{
    return KEY_NAME_MAX - strlen(suffix) - MARK_LEN;
}

/* Adds one character or escape; false when no more is needed. */
static bool encoded_add(struct encoded *encoded, const char *unit, size_t len)
{
    memcpy(encoded->text + encoded->len, unit, len);
    encoded->len += len;
    if (encoded->len <= encoded->head)
        encoded->kept = encoded->len;
    return encoded->len <= encoded->room;
}

static void encode_text(struct span part, struct encoded *encoded)
{
    static const char digits[] = "0123456789ABCDEF";
    bool more = true;
    for (size_t at = 0; at < part.len && more;) {
        unsigned char c = (unsigned char)part.data[at];
        size_t step = 1;
        if (must_escape(c, at == 0)) {
            char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
            more = encoded_add(encoded, escape, sizeof escape);
        } else {
            step = text_utf8_step(span_of(part.data + at, part.len - at), true);
            step = step ? step : 1;
            more = encoded_add(encoded, part.data + at, step);
        }
        at += step;
    }
}

/* The encoding passes through OUT, which afterwards is as it was, or in error. */
static void encode_binary(struct span part, struct encoded *encoded, struct buf *out)
{
    const size_t enough = (KEY_NAME_MAX / 4 + 1) * 3; /* bytes that fill more than a name */
    size_t before = out->len;
    base64_encode(span_of(part.data, part.len < enough ? part.len : enough), true, out);
    bool more = true;
    for (size_t at = before; at < out->len && more; at++)
        more = encoded_add(encoded, out->data + at, 1);
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

/* The name, hashed where it would be longer than MAX. */
static void add_name(enum value_type type, size_t max, struct span part, const char *suffix,
                     struct buf *out)
{
    struct encoded encoded = {.room = max - strlen(suffix), .head = head_room(suffix)};
    if (type == VALUE_B)
        encode_binary(part, &encoded, out);
    else
        encode_text(part, &encoded);
    struct span name = span_of(encoded.text, encoded.len);
    bool marked = ends_in_mark(name);
    if (encoded.len + (marked ? 2 : 0) > encoded.room) {
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

/* How parts of TABLE's keys are named. */
static enum value_type part_type(const struct table *table, bool sort_part)
{
    return sort_part ? table->sort.type : table->partition.type;
}

static size_t part_name_max(const struct table *table, bool sort_part)
{
    return table->keys == KEYS_TAGS && !sort_part ? KEY_TAGS_NAME_MAX : KEY_NAME_MAX;
}

static unsigned part_digits(const struct table *table, bool sort_part)
{
    return sort_part && table->sort.type == VALUE_N ? table->sort_digits : 0;
}

/* Appends the zeros that a name of NUMBER begins with, so that it has DIGITS digits. */
static void add_zeros(struct span number, unsigned digits, struct buf *out)
{
    for (size_t i = 0; i < number.len; i++)
        if (number.data[i] < '0' || number.data[i] > '9')
            return;
    for (size_t len = number.len; len < digits; len++)
        buf_add_char(out, '0');
}

void name_from_part(enum value_type type, struct span part, const char *suffix, struct buf *out)
{
    add_name(type, KEY_NAME_MAX, part, suffix, out);
}

void key_part_to_name(const struct table *table, bool sort_part, struct span part,
                      const char *suffix, struct buf *out)
{
    add_zeros(part, part_digits(table, sort_part), out);
    add_name(part_type(table, sort_part), part_name_max(table, sort_part), part, suffix, out);
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
static int refuse_text(struct span text, size_t max, const char *suffix, struct err *err)
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
    add_name(VALUE_S, max, buf_span(&part), suffix, &name);
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
    size_t most = head_room(suffix);
    return head.len <= most && head.len + unit_max > most;
}

static int text_from_name(struct span core, size_t max, const char *suffix, struct buf *out,
                          struct err *err)
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
        return refuse_text(core, max, suffix, err);
    }
    return hashed ? 1 : 0;
}

static int number_from_name(struct span core, unsigned digits, const char *suffix, struct buf *out,
                            struct err *err)
{
    cleanup(buf_release) struct buf name;
    size_t before = out->len;
    buf_init(&name, KEY_NAME_MAX);
    if (number_canonical(core, out, err) != 0)
        return -EINVAL;
    if (buf_error(out))
        return 0;
    struct span number = buf_from(out, before);
    add_zeros(number, digits, &name);
    buf_add_span(&name, number);
    if (buf_error(&name))
        return buf_error(&name);
    if (span_equal(buf_span(&name), core))
        return 0;
    err_set(err, EINVAL, "\"%.*s%s\" is not how this key is spelled: use \"%s%s\"", (int)core.len,
            core.data, suffix, name.data, suffix);
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

static int read_name(enum value_type type, size_t max, unsigned digits, struct span name,
                     const char *suffix, struct buf *out, struct err *err)
{
    size_t suffix_len = strlen(suffix);
    if (name.len < suffix_len || memcmp(name.data + name.len - suffix_len, suffix, suffix_len) != 0)
        return err_set(err, EINVAL, "a name here ends in \"%s\"", suffix);
    struct span core = span_of(name.data, name.len - suffix_len);
    if (core.len == 0)
        return err_set(err, EINVAL, "a name cannot be empty");
    if (name.len > max && type == VALUE_S)
        return refuse_text(core, max, suffix, err);
    if (name.len > max)
        return err_set(err, EINVAL, "a name has at most %zu bytes", max);
    switch (type) {
    case VALUE_N: return number_from_name(core, digits, suffix, out, err);
    case VALUE_B: return binary_from_name(core, suffix, out, err);
    default: return text_from_name(core, max, suffix, out, err);
    }
}

int name_to_part(enum value_type type, struct span name, const char *suffix, struct buf *out,
                 struct err *err)
{
    return read_name(type, KEY_NAME_MAX, 0, name, suffix, out, err);
}

int key_part_from_name(const struct table *table, bool sort_part, struct span name,
                       const char *suffix, struct buf *out, struct err *err)
{
    return read_name(part_type(table, sort_part), part_name_max(table, sort_part),
                     part_digits(table, sort_part), name, suffix, out, err);
}
