/* SPDX-License-Identifier: MIT */
/*
 * The "$" forms of plain JSON (value.h) at the level of text. An object is a form when it has one
 * member and that member has one of five names; which it is, is known only at the object's end, so
 * checks and readers decide there. What {"$M": ..} holds is an object taken literally: its own
 * single member of such a name is a name, not a form.
 */
#ifndef BASE_FORM_H
#define BASE_FORM_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/span.h"

enum form {
    FORM_NONE,
    FORM_B,  /* {"$B": "base64"}, binary */
    FORM_SS, /* {"$SS": ["a"]}, a set of strings */
    FORM_NS, /* {"$NS": [1]}, a set of numbers */
    FORM_BS, /* {"$BS": ["base64"]}, a set of binaries */
    FORM_M,  /* {"$M": {..}}, an object as it stands */
};

/* The form that an object with the single member NAME is. */
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
