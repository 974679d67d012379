/* SPDX-License-Identifier: MIT */
/* What became of a call of a function. */
#ifndef DELIVER_OUTCOME_H
#define DELIVER_OUTCOME_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum verdict {
    VERDICT_TAKEN,
    VERDICT_FAILED,  /* the same batch again, later */
    VERDICT_REFUSED, /* never again */
    VERDICT_BROKEN_OFF,
};

struct outcome {
    enum verdict verdict;
    int64_t wait_ns; /* that the function asks for before the next call; 0: it does not say */
    struct err why;  /* where it was not taken */
};

#define REPLY_BYTES_MAX (1u << 20) /* of a reply's body that are looked at */

/*
 * What a reply says, by its HTTP status and body. 2xx: taken, unless the body is a JSON object with
 * a member "error" that is neither null nor false; of a body of REPLY_BYTES_MAX, which was cut off,
 * one that begins in it. Such an error, 429, 5xx and what is no final
 * status: failed. Else, redirects too: refused. RETRY_AFTER_S is the header's, 0: absent. Pure.
 */
void reply_judge(long status, int64_t retry_after_s, struct span body, struct outcome *ret_outcome);

#endif
