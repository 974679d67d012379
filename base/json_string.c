/* SPDX-License-Identifier: MIT */
/* JSON strings between their escaped form and bytes. */
#include "base/json.h"
#include "base/text.h"

static bool is_surrogate(unsigned code, unsigned first)
{
    return code >= first && code < first + 0x400;
}

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* The four digits behind "\u". */
static unsigned hex_code(const char *at)
{
    return hex_digit(at[0]) << 12 | hex_digit(at[1]) << 8 | hex_digit(at[2]) << 4 |
           hex_digit(at[3]);
}

static void add_code_point(struct buf *out, unsigned code)
{
    char bytes[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = len - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    bytes[0] = (char)(leads[len] | code);
    buf_add(out, bytes, len);
}

/* Appends what the "\u" escape at AT stands for; returns the bytes read, 6 or 12 for a pair. */
static size_t unescape_code(const char *at, size_t left, struct buf *out)
{
    unsigned code = hex_code(at + 2);
    if (is_surrogate(code, 0xD800) && left >= 12 && at[6] == '\\' && at[7] == 'u') {
        unsigned low = hex_code(at + 8);
        if (is_surrogate(low, 0xDC00)) {
            add_code_point(out, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
            return 12;
        }
    }
    add_code_point(out, code);
    return 6;
}

static char unescape_char(char c)
{
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c;
    }
}

void json_unescape(struct span raw, struct buf *out)
{
    const char *at = raw.data, *end = raw.data + raw.len;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        const char *stop = slash ? slash : end;
        buf_add(out, at, (size_t)(stop - at));
        at = stop;
        if (!slash)
            return;
        if (at[1] == 'u') {
            at += unescape_code(at, (size_t)(end - at), out);
        } else {
            buf_add_char(out, unescape_char(at[1]));
            at += 2;
        }
    }
}

/* Appends the escape of the character of STEP bytes at AT (STEP 0: a byte that is no UTF-8, shown
 * as the replacement character, so that the output is always a valid text). */
static void add_escape(struct buf *out, const char *at, size_t step)
{
    unsigned char c = (unsigned char)at[0];
    static const char shorts[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *found = c ? strchr(shorts, c) : NULL;
    if (step == 0) {
        buf_add_text(out, "\xEF\xBF\xBD");
    } else if (step == 3) {
        unsigned code = 0xD000 | ((unsigned)at[1] & 0x3F) << 6 | ((unsigned)at[2] & 0x3F);
        buf_addf(out, "\\u%04x", code);
    } else if (found) {
        buf_add_char(out, '\\');
        buf_add_char(out, letters[found - shorts]);
    } else {
        buf_addf(out, "\\u%04x", c);
    }
}

void json_add_string(struct buf *out, struct span text)
{
    buf_add_char(out, '"');
    size_t plain = 0, at = 0;
    while (at < text.len) {
        unsigned char c = (unsigned char)text.data[at];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            at++;
            continue;
        }
        size_t step = text_utf8_step(span_of(text.data + at, text.len - at), true);
        bool surrogate = step == 3 && c == 0xED && (unsigned char)text.data[at + 1] >= 0xA0;
        if (step > 1 && !surrogate) {
            at += step;
            continue;
        }
        if (at > plain)
            buf_add(out, text.data + plain, at - plain);
        add_escape(out, text.data + at, step);
        at += step ? step : 1;
        plain = at;
    }
    if (at > plain)
        buf_add(out, text.data + plain, at - plain);
    buf_add_char(out, '"');
}
