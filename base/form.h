/* SPDX-License-Identifier: MIT */
/*
 * The "$" forms of plain JSON (value.h) at the level of text. An object is a form when it has one
 * member and that member's name begins with "$"; which one is known only at the object's end, so
 * checks and readers decide there. What {"$M": ..} holds is an object taken literally: its own
 * single "$" member is a name, not a form.
 */
#ifndef BASE_FORM_H
#define BASE_FORM_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/span.h"

enum form {
    FORM_NONE,    /* the name does not begin with "$" */
    FORM_UNKNOWN, /* it does, but is none of these */
    FORM_B,
    FORM_SS,
    FORM_NS,
    FORM_BS,
    FORM_M,
};

enum form form_of_name(struct span name);
/* The same for a JSON_NAME token. -ENOMEM. */
int form_of_token(const struct json_token *name, enum form *ret_form);

/*
 * Reads over the value whose first token is FIRST, checking that everything in it that should be a
 * form is one. ret_raw is the value's text. No tree is built.
 */
int form_skip(struct json_reader *reader, const struct json_token *first, struct span *ret_raw,
              struct err *err);

#endif
