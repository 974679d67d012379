/* SPDX-License-Identifier: MIT */
/* The bytes of one version of one item: immutable, shared by counting references. */
#ifndef CACHE_BODY_H
#define CACHE_BODY_H

#include <stdatomic.h>

#include "base/span.h"

struct body {
    atomic_uint refs;
    size_t len;
    char data[];
};

/* A copy of BYTES with one reference; NULL when memory ran out. */
struct body *body_new(struct span bytes);
struct body *body_ref(struct body *body);
void body_unref(struct body *body); /* accepts NULL */

static inline struct span body_span(const struct body *body)
{
    return span_of(body->data, body->len);
}

#endif
