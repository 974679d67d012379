/* SPDX-License-Identifier: MIT */
/*
 * How the session store Starch::Store::Amazon::DynamoDB stores a value, and what it makes of it
 * when it reads (tests/vectors/starch.json is what it did):
 *
 *   null                    S "__UNDEF__"
 *   ""                      S "__EMPTY__"
 *   map, list, true, false  S "__SERIALIZED__:" and JSON, whose bytes are taken as Latin-1 and so
 *                           are UTF-8 encoded twice
 *   a whole number          S, its digits (10.0 is 10); so it comes back as a text
 *   any other number        N
 *   a text                  S, as it is; nothing is escaped: a text that looks like one of the
 *                           forms above would come back as something else, and is refused
 */
#ifndef BACKEND_PROFILE_STARCH_CODEC_H
#define BACKEND_PROFILE_STARCH_CODEC_H

#include "base/err.h"
#include "base/value.h"

/* Replaces VALUE, as people see it, by the stored attribute. -EINVAL with a reason: it would not
 * come back as it is, or Starch could not read it; -ERANGE. Binary and sets, which Starch never
 * writes, stay. */
int starch_store(struct value *value, struct err *err);
/* Whether Starch can read a field of that name. */
bool starch_can_name(const struct member *member);
/* The inverse. -EINVAL with the reason: Starch cannot read it. What Starch never writes (typed
 * maps, booleans, binary) stays as it is. */
int starch_show(struct value *value, struct err *err);

#endif
