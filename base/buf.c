/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_CAPACITY 128

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_release(struct buf *buf)
{
    free(buf->data);
    buf_init(buf, buf->max);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->error = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

/* Makes room for LEN bytes in all and a NUL; false with the error set when that cannot be. */
static bool buf_reserve(struct buf *buf, size_t len)
{
    if (buf->error)
        return false;
    if (len > buf->max || len > SIZE_MAX / 4) {
        buf->error = -EFBIG;
        return false;
    }
    if (len < buf->capacity)
        return true;
    size_t capacity = buf->capacity ? buf->capacity : BUF_FIRST_CAPACITY;
    while (capacity <= len)
        capacity *= 2;
    if (capacity > buf->max)
        capacity = buf->max + 1;
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->error = -ENOMEM;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

static void buf_set_len(struct buf *buf, size_t len)
{
    buf->len = len;
    buf->data[len] = '\0';
}

void buf_add(struct buf *buf, const void *data, size_t len)
{
    if (len == 0)
        return;
    if (len > SIZE_MAX - buf->len) {
        buf->error = buf->error ? buf->error : -EFBIG;
        return;
    }
    if (!buf_reserve(buf, buf->len + len))
        return;
    memcpy(buf->data + buf->len, data, len);
    buf_set_len(buf, buf->len + len);
}

void buf_add_span(struct buf *buf, struct span span)
{
    buf_add(buf, span.data, span.len);
}

void buf_add_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
    if (!buf_reserve(buf, buf->len + 1))
        return;
    buf->data[buf->len] = c;
    buf_set_len(buf, buf->len + 1);
}

void buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len >= 0 && buf_reserve(buf, buf->len + (size_t)len)) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void buf_splice(struct buf *buf, size_t at, size_t old_len, struct span span)
{
    if (span.len > SIZE_MAX - buf->len) {
        buf->error = buf->error ? buf->error : -EFBIG;
        return;
    }
    size_t tail = buf->len - at - old_len;
    size_t len = buf->len - old_len + span.len;
    if (!buf_reserve(buf, len))
        return;
    memmove(buf->data + at + span.len, buf->data + at + old_len, tail);
    if (span.len > 0)
        memcpy(buf->data + at, span.data, span.len);
    buf_set_len(buf, len);
}

void buf_resize(struct buf *buf, size_t len)
{
    if (!buf_reserve(buf, len))
        return;
    if (len > buf->len)
        memset(buf->data + buf->len, 0, len - buf->len);
    buf_set_len(buf, len);
}

char *buf_take(struct buf *buf, size_t *ret_len)
{
    if (!buf_reserve(buf, buf->len))
        return NULL;
    buf_set_len(buf, buf->len);
    char *data = buf->data;
    if (ret_len)
        *ret_len = buf->len;
    buf_init(buf, buf->max);
    return data;
}
