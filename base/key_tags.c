/* SPDX-License-Identifier: MIT */
/*
 * The canonical order of tags. The tag store's own order (two numeric strings as numbers, all else
 * by bytes) is not total: "2", "10", "1a" form a cycle, and "10" and "1e1" tie, so there its result
 * depends on the order it was given. Ours must not: sorting by bytes first gives the second sort,
 * which is stable, one and the same input for every order of the same tags.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/key.h"

enum tag_kind { TAG_TEXT, TAG_INTEGER, TAG_REAL };

struct tag {
    struct span text;
    enum tag_kind kind;
    int64_t integer;
    double real;
    int overflow; /* -1, 1: an integer below, above 64 bits (kept as real) */
};

static size_t skip(struct span text, size_t at, const char *any)
{
    while (at < text.len && text.data[at] != '\0' && strchr(any, text.data[at]))
        at++;
    return at;
}

/* Where the numeric form in TEXT ends that begins at AT; 0 where there is none. Sets INTEGER when
 * it has neither fraction nor exponent. */
static size_t numeric_end(struct span text, size_t at, bool *ret_integer)
{
    static const char digits[] = "0123456789";
    if (at < text.len && (text.data[at] == '+' || text.data[at] == '-'))
        at++;
    size_t whole = skip(text, at, digits);
    size_t end = whole;
    *ret_integer = true;
    if (end < text.len && text.data[end] == '.') {
        end = skip(text, end + 1, digits);
        *ret_integer = false;
    }
    if (end - at - (*ret_integer ? 0 : 1) == 0)
        return 0;
    if (end < text.len && (text.data[end] | 0x20) == 'e') {
        size_t exponent = end + 1;
        if (exponent < text.len && (text.data[exponent] == '+' || text.data[exponent] == '-'))
            exponent++;
        size_t stop = skip(text, exponent, digits);
        *ret_integer = *ret_integer && stop == exponent;
        end = stop > exponent ? stop : end;
    }
    return end;
}

/* The value of the digits as an integer; false when it does not fit. */
static bool read_integer(struct span number, int64_t *ret_value)
{
    bool negative = number.data[0] == '-';
    int64_t value = 0;
    for (size_t i = number.data[0] == '+' || negative; i < number.len; i++) {
        int digit = number.data[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *ret_value = value;
    return true;
}

/* Reads TAG's text as a number where it is one. -ENOMEM. No program of ours sets LC_NUMERIC, so
 * strtod reads a point; it needs a terminated copy. */
static int tag_classify(struct tag *tag)
{
    static const char space[] = " \t\n\r\v\f";
    bool integer;
    size_t start = skip(tag->text, 0, space);
    size_t end = numeric_end(tag->text, start, &integer);
    if (end == 0 || skip(tag->text, end, space) != tag->text.len)
        return 0;
    struct span number = span_of(tag->text.data + start, end - start);
    if (integer && read_integer(number, &tag->integer)) {
        tag->kind = TAG_INTEGER;
        return 0;
    }
    cleanup_free char *copy = strndup(number.data, number.len);
    if (!copy)
        return -ENOMEM;
    tag->kind = TAG_REAL;
    tag->real = strtod(copy, NULL);
    tag->overflow = !integer ? 0 : copy[0] == '-' ? -1 : 1;
    return 0;
}

static int order_real(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_by_store(const struct tag *a, const struct tag *b)
{
    if (a->kind == TAG_TEXT || b->kind == TAG_TEXT)
        return span_compare(a->text, b->text);
    if (a->kind == TAG_INTEGER && b->kind == TAG_INTEGER)
        return (a->integer > b->integer) - (a->integer < b->integer);
    if (a->kind == TAG_INTEGER)
        return b->overflow ? -b->overflow : order_real((double)a->integer, b->real);
    if (b->kind == TAG_INTEGER)
        return a->overflow ? a->overflow : order_real(a->real, (double)b->integer);
    /* What floating point cannot tell apart, because it is too long or infinite, goes by bytes. */
    bool beyond = (a->overflow && a->overflow == b->overflow) || isinf(a->real);
    if (beyond && order_real(a->real, b->real) == 0)
        return span_compare(a->text, b->text);
    return order_real(a->real, b->real);
}

static int compare_by_bytes(const struct tag *a, const struct tag *b)
{
    return span_compare(a->text, b->text);
}

typedef int (*tag_compare_fn)(const struct tag *a, const struct tag *b);

/* Stable merge sort: its result is defined also for an order with cycles, which qsort's is not.
 * SPARE has room for COUNT tags. */
static void sort_tags(struct tag *tags, size_t count, tag_compare_fn compare, struct tag *spare)
{
    if (count < 2)
        return;
    size_t half = count / 2;
    sort_tags(tags, half, compare, spare);
    sort_tags(tags + half, count - half, compare, spare);
    memcpy(spare, tags, half * sizeof *tags);
    size_t left = 0, right = half, at = 0;
    while (left < half) {
        bool take_right = right < count && compare(&spare[left], &tags[right]) > 0;
        tags[at++] = take_right ? tags[right++] : spare[left++];
    }
}

static int check_strict(struct span text, struct err *err)
{
    bool good = text.len > 0;
    for (size_t i = 0; i < text.len && good; i++) {
        char c = text.data[i];
        good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    }
    if (good)
        return 0;
    return err_set(err, EINVAL, "\"%.*s\" is no tag: tags are one or more of a-z, 0-9 and \"-\"",
                   (int)(text.len < 256 ? text.len : 256), text.len ? text.data : "");
}

int key_check_tag(struct span tag, bool strict, struct err *err)
{
    if (tag.len && memchr(tag.data, '_', tag.len))
        return err_set(err, EINVAL, "\"%.*s\" is no tag: \"_\" joins tags",
                       (int)(tag.len < 256 ? tag.len : 256), tag.data);
    return strict ? check_strict(tag, err) : 0;
}

struct span key_next_tag(struct span *rest)
{
    struct span text = *rest;
    const char *stop = text.len ? memchr(text.data, '_', text.len) : NULL;
    size_t len = stop ? (size_t)(stop - text.data) : text.len;
    *rest = stop ? span_of(stop + 1, text.len - len - 1) : span_of(NULL, 0);
    return span_of(text.data, len);
}

bool key_has_tag(struct span text, struct span tag)
{
    struct span rest = text;
    do {
        if (span_equal(key_next_tag(&rest), tag))
            return true;
    } while (rest.data);
    return false;
}

/* Fills TAGS with the pieces of TEXT between "_". */
static int split_tags(struct span text, bool strict, struct tag *tags, size_t count,
                      struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        tags[i] = (struct tag){.text = key_next_tag(&text)};
        if (strict && check_strict(tags[i].text, err) != 0)
            return -EINVAL;
        if (tag_classify(&tags[i]) != 0)
            return err_set(err, ENOMEM, "out of memory for tags");
    }
    return 0;
}

static size_t count_tags(struct span text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '_';
    return count;
}

int key_sort_tags(struct span text, bool strict, struct buf *out, struct err *err)
{
    enum { FEW = 8 };
    struct tag few[2 * FEW];
    size_t count = count_tags(text);
    cleanup_free struct tag *many = count > FEW ? malloc(2 * count * sizeof *many) : NULL;
    if (count > FEW && !many)
        return err_set(err, ENOMEM, "out of memory for tags");
    struct tag *tags = many ? many : few;
    int error = split_tags(text, strict, tags, count, err);
    if (error)
        return error;
    sort_tags(tags, count, compare_by_bytes, tags + count);
    sort_tags(tags, count, compare_by_store, tags + count);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add_char(out, '_');
        buf_add_span(out, tags[i].text);
    }
    return buf_error(out) ? err_set(err, -buf_error(out), "out of memory for tags") : 0;
}
