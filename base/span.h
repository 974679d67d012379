/* SPDX-License-Identifier: MIT */
/* A view of bytes that somebody else owns. Not terminated; may hold NUL. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *data; /* NULL only when len is 0 */
    size_t len;
};

static inline struct span span_of(const char *data, size_t len)
{
    return (struct span){data, len};
}

static inline struct span span_text(const char *text)
{
    return (struct span){text, text ? strlen(text) : 0};
}

/* The bytes from AT (at most the length) on. */
static inline struct span span_from(struct span span, size_t at)
{
    return at ? span_of(span.data + at, span.len - at) : span;
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Order of bytes, shorter first where one begins the other: <0, 0, >0. */
static inline int span_compare(struct span a, struct span b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

#endif
