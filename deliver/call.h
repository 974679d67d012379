/* SPDX-License-Identifier: MIT */
/* Calls of one table's function. */
#ifndef DELIVER_CALL_H
#define DELIVER_CALL_H

#include <stdatomic.h>

#include "base/config.h"
#include "deliver/outcome.h"

struct caller;

/* CONFIG has a function, and must outlive the caller. NULL when memory ran out. */
struct caller *caller_new(const struct table_config *config);
void caller_free(struct caller *caller); /* accepts NULL */
/* Whether what a call needs of this machine is there: the program, the secret. */
int caller_check(const struct caller *caller, struct err *err);
/* Gives it BODY, and waits for what becomes of it. CALLED_OFF is looked at at least every 200 ms:
 * then the call ends as failed. One at a time; the calling thread blocks SIGPIPE. */
void caller_call(struct caller *caller, struct span body, const atomic_bool *called_off,
                 struct outcome *ret_outcome);

#endif
