/* SPDX-License-Identifier: MIT */
/*
 * Names of several parts. A name is read by taking it apart leniently and making it anew: what
 * comes out otherwise is no name.
 */
#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/key.h"
#include "base/number.h"
#include "base/text.h"

#define MARK_LEN 33                                   /* "~" and 32 hex digits */
#define WHOLE_MAX (NAME_PARTS_MAX * 4 * KEY_PART_MAX) /* bytes of a name before it is cut */

static bool must_escape(unsigned char c, bool first)
{
    return c < 0x20 || c == 0x7F || c == '/' || c == '%' || c == ',' || (first && c == '.');
}

static void add_part(const struct name_part *part, struct buf *out)
{
    if (part->type == VALUE_B) {
        base64_encode(part->bytes, true, out);
        return;
    }
    for (size_t i = 0; i < part->bytes.len; i++) {
        unsigned char c = (unsigned char)part->bytes.data[i];
        if (must_escape(c, i == 0))
            buf_addf(out, "%%%02X", c);
        else
            buf_add_char(out, (char)c);
    }
}

static bool ends_in_mark(struct span text)
{
    if (text.len < MARK_LEN || text.data[text.len - MARK_LEN] != '~')
        return false;
    for (size_t i = text.len - MARK_LEN + 1; i < text.len; i++)
        if (!memchr("0123456789abcdef", text.data[i], 16))
            return false;
    return true;
}

/* The longest beginning of TEXT of at most MOST bytes that cuts no character and no escape. */
static size_t cut_at(struct span text, size_t most)
{
    size_t cut = most;
    while (cut > 0 && ((unsigned char)text.data[cut] & 0xC0) == 0x80)
        cut--;
    for (size_t back = 1; back <= 2 && back <= cut; back++)
        if (text.data[cut - back] == '%')
            return cut - back;
    return cut;
}

void name_from_parts(const struct name_part *parts, size_t count, const char *suffix,
                     struct buf *out)
{
    if (count == 1) {
        name_from_part(parts[0].type, parts[0].bytes, suffix, out);
        return;
    }
    cleanup(buf_release) struct buf whole;
    buf_init(&whole, WHOLE_MAX);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add_char(&whole, ',');
        add_part(&parts[i], &whole);
    }
    if (buf_error(&whole)) {
        out->error = out->error ? out->error : buf_error(&whole);
        return;
    }
    size_t room = KEY_NAME_MAX - strlen(suffix);
    if (whole.len > room || ends_in_mark(buf_span(&whole))) {
        char hex[65];
        size_t most = room - MARK_LEN;
        sha256_hex(buf_span(&whole), hex);
        buf_add(out, whole.data, whole.len > most ? cut_at(buf_span(&whole), most) : whole.len);
        buf_add_char(out, '~');
        buf_add(out, hex, MARK_LEN - 1);
    } else {
        buf_add_span(out, buf_span(&whole));
    }
    buf_add_text(out, suffix);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int read_part(enum value_type type, struct span text, struct buf *out)
{
    if (type == VALUE_N)
        return number_canonical(text, out, NULL) == 0 ? 0 : -EINVAL;
    if (type == VALUE_B)
        return base64_decode(text, true, out);
    for (size_t i = 0; i < text.len; i++) {
        bool escape = text.data[i] == '%' && text.len - i > 2;
        int high = escape ? hex_digit(text.data[i + 1]) : -1;
        int low = escape ? hex_digit(text.data[i + 2]) : -1;
        if (text.data[i] == '%' && (high < 0 || low < 0))
            return -EINVAL;
        char byte = (char)((unsigned)high << 4 | (unsigned)low);
        buf_add_char(out, high < 0 ? text.data[i] : byte);
        i += high < 0 ? 0 : 2;
    }
    return buf_error(out) || !text_is_utf8(buf_span(out), true) ? -EINVAL : 0;
}

static int read_parts(const enum value_type *types, size_t count, struct span core,
                      struct buf *ret_parts)
{
    for (size_t i = 0; i < count; i++) {
        const char *comma = core.len ? memchr(core.data, ',', core.len) : NULL;
        size_t len = comma ? (size_t)(comma - core.data) : core.len;
        if (len == 0 || (comma != NULL) != (i + 1 < count) ||
            read_part(types[i], span_of(core.data, len), &ret_parts[i]) < 0)
            return -EINVAL;
        if (comma)
            core = span_from(core, len + 1);
    }
    return 0;
}

int name_to_parts(const enum value_type *types, size_t count, struct span name, const char *suffix,
                  struct buf *ret_parts)
{
    size_t suffix_len = strlen(suffix);
    if (count == 1)
        return name_to_part(types[0], name, suffix, &ret_parts[0], NULL);
    if (name.len <= suffix_len || name.len > KEY_NAME_MAX ||
        memcmp(name.data + name.len - suffix_len, suffix, suffix_len) != 0)
        return -EINVAL;
    struct span core = span_of(name.data, name.len - suffix_len);
    if (ends_in_mark(core))
        return 1;
    struct name_part parts[NAME_PARTS_MAX];
    cleanup(buf_release) struct buf again;
    buf_init(&again, WHOLE_MAX);
    if (read_parts(types, count, core, ret_parts) < 0)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct name_part){types[i], buf_span(&ret_parts[i])};
    name_from_parts(parts, count, suffix, &again);
    return buf_error(&again) || !span_equal(buf_span(&again), name) ? -EINVAL : 0;
}
