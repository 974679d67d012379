/* SPDX-License-Identifier: MIT */
#include "cache/body.h"

#include <stdlib.h>

struct body *body_new(struct span bytes)
{
    struct body *body = malloc(sizeof *body + bytes.len);
    if (!body)
        return NULL;
    atomic_init(&body->refs, 1);
    body->len = bytes.len;
    if (bytes.len)
        memcpy(body->data, bytes.data, bytes.len);
    return body;
}

struct body *body_ref(struct body *body)
{
    atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
    return body;
}

void body_unref(struct body *body)
{
    if (body && atomic_fetch_sub_explicit(&body->refs, 1, memory_order_acq_rel) == 1)
        free(body);
}
