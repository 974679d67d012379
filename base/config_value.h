/* SPDX-License-Identifier: MIT */
/* Values of configuration keys and mount options, from text. All return -EINVAL with a reason that
 * does not name the key; the caller does. */
#ifndef BASE_CONFIG_VALUE_H
#define BASE_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Bytes: digits and perhaps K, M or G (powers of 1024), from LEAST to MOST. */
int config_value_size(const char *text, uint64_t least, uint64_t most, uint64_t *ret_bytes,
                      struct err *err);
/* Digits alone. -EINVAL also where it is not from LEAST to MOST. */
int config_value_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret_count,
                       struct err *err);
/* Seconds, "2" or "0.5", up to a year. */
int config_value_seconds(const char *text, double *ret_seconds, struct err *err);
/* The same, from LEAST to MOST. */
int config_value_seconds_between(const char *text, double least, double most, double *ret_seconds,
                                 struct err *err);
/* Capacity units a second, "25" or "0.5": above 0. */
int config_value_units(const char *text, double *ret_units, struct err *err);
/* A user's or group's number. */
int config_value_id(const char *text, uint32_t *ret_id, struct err *err);
/* Permission bits in octal, up to 0777. */
int config_value_mode(const char *text, unsigned *ret_mode, struct err *err);
/* yes, true, on, 1; no, false, off, 0. */
int config_value_bool(const char *text, bool *ret_value, struct err *err);
/* The place of TEXT in WORDS (ended by NULL). */
int config_value_word(const char *text, const char *const *words, unsigned *ret_place,
                      struct err *err);

#endif
