/* SPDX-License-Identifier: MIT */
/* Picking answers of the service apart, without a tree. Pure. Spans point into the document. */
#ifndef BACKEND_DYNAMODB_REPLY_H
#define BACKEND_DYNAMODB_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

/* The text of member NAME of the object OBJECT; false where it is absent or null. An object that is
 * none counts as empty: the client has checked the whole answer's grammar. */
bool reply_member(struct span object, const char *name, struct span *ret_raw);
/* The same along a path, "Table.KeySchema". */
bool reply_path(struct span object, const char *path, struct span *ret_raw);
/* A string member, unescaped and appended; false where it is absent or no string. */
bool reply_text(struct span object, const char *name, struct buf *out);
bool reply_text_is(struct span object, const char *name, const char *wanted);
/* A number member's value; 0 where it is absent. */
double reply_number(struct span object, const char *name);

/* Calls EACH with the text of every element of ARRAY, in order. What EACH returns other than 0 ends
 * the walk and is returned. */
typedef int (*reply_fn)(void *context, struct span raw);
int reply_each(struct span array, reply_fn each, void *context);
/* The same for the members of an object; NAME is unescaped. */
typedef int (*reply_member_fn)(void *context, struct span name, struct span raw);
int reply_each_member(struct span object, reply_member_fn each, void *context);

#endif
