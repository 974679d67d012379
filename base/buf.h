/* SPDX-License-Identifier: MIT */
/*
 * A growable byte buffer with a stated maximum. A failed addition (no memory, over the maximum)
 * leaves the bytes as they were and is remembered: later additions do nothing, and the writer
 * checks `buf_error` once at its end. `data` is always NUL-terminated behind `len` once something
 * was added (the NUL is not counted).
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>

#include "base/span.h"

struct buf {
    char *data;
    size_t len;
    size_t capacity;
    size_t max;
    int error; /* 0, -ENOMEM or -EFBIG */
};

/* An empty buffer that may grow to MAX bytes; nothing is allocated yet. */
void buf_init(struct buf *buf, size_t max);
void buf_release(struct buf *buf);
/* Empties it and forgets the error; keeps the allocation for reuse. */
void buf_clear(struct buf *buf);

void buf_add(struct buf *buf, const void *data, size_t len);
void buf_add_span(struct buf *buf, struct span span);
void buf_add_text(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Replaces OLD_LEN bytes at AT by SPAN (insertion when OLD_LEN is 0). */
void buf_splice(struct buf *buf, size_t at, size_t old_len, struct span span);
/* Makes it LEN long: cuts, or extends with NUL bytes. */
void buf_resize(struct buf *buf, size_t len);

static inline int buf_error(const struct buf *buf)
{
    return buf->error;
}
static inline struct span buf_span(const struct buf *buf)
{
    return span_of(buf->data, buf->len);
}
/* The bytes from AT on: what was added since the length was AT. */
static inline struct span buf_from(const struct buf *buf, size_t at)
{
    return span_from(buf_span(buf), at);
}
/* The bytes as a heap block of its own, NUL-terminated; the buffer is empty afterwards.
 * NULL when the buffer is in error or memory ran out. */
char *buf_take(struct buf *buf, size_t *ret_len);

#endif
