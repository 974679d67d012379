/* SPDX-License-Identifier: MIT */
/* Memory that held a secret is wiped before it is given back. */
#ifndef BACKEND_DYNAMODB_SECRET_H
#define BACKEND_DYNAMODB_SECRET_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

static inline void secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}
static inline void secret_free_pointer(char **text)
{
    secret_free(*text);
}
#define cleanup_secret cleanup(secret_free_pointer)

/* As buf_init, but takes all the memory at once, since a growing buffer leaves copies of its bytes
 * behind. -ENOMEM. */
static inline int secret_buf_init(struct buf *buf, size_t max)
{
    buf_init(buf, max);
    buf_resize(buf, max);
    if (!buf_error(buf))
        buf_resize(buf, 0);
    return buf_error(buf);
}
static inline void secret_buf_release(struct buf *buf)
{
    if (buf->data)
        explicit_bzero(buf->data, buf->capacity);
    buf_release(buf);
}

#endif
