/* SPDX-License-Identifier: MIT */
/* A set of byte strings, to tell which have not been seen before. */
#ifndef BASE_SET_H
#define BASE_SET_H

#include "base/buf.h"

struct set {
    struct buf bytes; /* of each: its length, a size_t, and its bytes */
    size_t *slots;    /* 1 + where it begins; 0: free */
    size_t room;      /* of slots: a power of two, or 0 */
    size_t count;
};

/* An empty one, of MAX bytes at most. */
void set_init(struct set *set, size_t max);
void set_release(struct set *set);
/* 1: VALUE is new, and is one of them now; 0: it was there. -ENOMEM, -EFBIG. */
int set_add(struct set *set, struct span value);

#endif
