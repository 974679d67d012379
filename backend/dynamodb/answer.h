/* SPDX-License-Identifier: MIT */
/* What an answer of the service says of itself: error, checksum, time. Pure. */
#ifndef BACKEND_DYNAMODB_ANSWER_H
#define BACKEND_DYNAMODB_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define ANSWER_TYPE_MAX 64             /* bytes of an error's name, the NUL included */
#define ANSWER_MESSAGE_MAX (16u << 10) /* a longer message is left out */

struct answer_error {
    char type[ANSWER_TYPE_MAX]; /* the name without namespace; "" where there is none */
    struct buf message;         /* as the service wrote it: it may quote what was sent */
};
void answer_error_init(struct answer_error *error);
void answer_error_release(struct answer_error *error);

/*
 * Reads {"__type": "NAMESPACE#NAME:MORE", "message" or "Message": TEXT}. A body that is something
 * else (a page of HTML, cut JSON, nothing) gives what could be read up to there. -ENOMEM.
 */
int answer_error_read(struct span body, struct answer_error *ret_error);

/*
 * The negative errno of an error of OPERATION ("CreateTable"): facts, section 8, and -ECANCELED for
 * TransactionCanceledException (its reasons are in the body), -ESTALE for stream records and
 * iterators that are gone. TYPE decides; where it is "", STATUS does.
 *
 * The service has one name, ValidationException, for faults that people must tell apart (a number
 * out of range, a key too long), so there MESSAGE is looked at. It only chooses among errnos: where
 * a service words it otherwise, the result is -EINVAL.
 */
int answer_errno(const char *operation, long status, const char *type, struct span message);

/* Whether an error of this TYPE says that the caller, who is known, may not do what it asked for;
 * errors of credentials are -EACCES too. */
bool answer_denies(const char *type);

/* Whether BODY has the checksum HEADER (x-amz-crc32, decimal; "": there was none, true). */
bool answer_intact(const char *header, struct span body);
/* Whether BODY is one JSON object and nothing else. -EINVAL, -ENOMEM. */
int answer_check_object(struct span body);

/* The time of a Date header in its one current form, "Sun, 06 Nov 1994 08:49:37 GMT", as epoch
 * seconds. -EINVAL. */
int answer_date(const char *header, int64_t *ret_s);

#endif
