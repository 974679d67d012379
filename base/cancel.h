/* SPDX-License-Identifier: MIT */
/*
 * Whether somebody still waits for what the calling thread does. Long waits that change nothing
 * look at it and give up with -EINTR. What writes does so until its first request is sent, and
 * then sets no flag for the rest, since what was perhaps applied must be seen to its end.
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The flag that says so, of the calling thread; NULL: nobody can call it off. Valid until the next
 * call of cancel_set in the same thread. */
const atomic_bool *cancel_flag(void);
void cancel_set(const atomic_bool *flag);

/* The same for one thing that takes long; CONTEXT is its own. */
typedef bool (*cancelled_fn)(const void *context);
/* CONTEXT is such a flag, or NULL. */
bool cancelled_by_flag(const void *context);

static inline bool is_cancelled(void)
{
    const atomic_bool *flag = cancel_flag();
    return flag && atomic_load(flag);
}

#endif
