/* SPDX-License-Identifier: MIT */
/* Calls of one table's function. */
#ifndef DELIVER_CALL_H
#define DELIVER_CALL_H

#include "base/cancel.h"
#include "base/config.h"
#include "deliver/outcome.h"

struct caller;

/* CONFIG has a function, and must outlive the caller. NULL when memory ran out. */
struct caller *caller_new(const struct table_config *config);
void caller_free(struct caller *caller); /* accepts NULL */
/* Whether what a call needs of this machine is there: the program, the secret. */
int caller_check(const struct caller *caller, struct err *err);
/* Gives it BODY, and waits for what becomes of it. CANCELLED is asked at least every 200 ms
 * whether to break off. One at a time; the calling thread blocks SIGPIPE. */
void caller_call(struct caller *caller, struct span body, cancelled_fn cancelled,
                 const void *context, struct outcome *ret_outcome);

#endif
