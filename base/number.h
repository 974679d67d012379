/* SPDX-License-Identifier: MIT */
/*
 * Decimal numbers as text: exact, without floating point. A number is JSON's grammar
 * (-?int frac? exp?); input in DynamoDB's looser forms ("+5", "007", ".5", "5.") is accepted by
 * `number_canonical` only.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

/* True when TEXT is exactly one JSON number. */
bool number_is_json(struct span text);

/*
 * Appends the canonical plain decimal of TEXT: no exponent, no leading or trailing zeros, "-0" as
 * "0". -EINVAL when it is no number, -ERANGE beyond 38 significant digits or
 * outside +-1e-130 .. 9.99e125 (zero is fine).
 */
int number_canonical(struct span text, struct buf *out, struct err *err);

/*
 * Appends bytes whose memcmp order is the numeric order. TEXT must be canonical.
 * number_from_order is its inverse and appends the canonical decimal.
 */
void number_to_order(struct span text, struct buf *out);
int number_from_order(struct span order, struct buf *out);

/* The value as an integer where TEXT (JSON grammar) is one that fits, also "5.0" and "1e3". */
bool number_to_int64(struct span text, int64_t *ret_value);

/*
 * Appends the exact sum of two numbers, which number_canonical must accept, as canonical plain
 * decimal. Errors as there; -ERANGE also where the sum has more than 38 significant digits or is
 * out of range: it is never rounded.
 */
int number_add(struct span a, struct span b, struct buf *out, struct err *err);

/* Order of two JSON numbers of any length, by value: <0, 0, >0. */
int number_compare(struct span a, struct span b);

#endif
