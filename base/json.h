/* SPDX-License-Identifier: MIT */
/*
 * A strict JSON reader (RFC 8259) over a text in memory, one token at a time, and a writer for
 * strings. Our own because items must come out exactly as they went in: numbers of any length,
 * NUL and lone surrogates in strings and names. Jansson keeps none of these.
 *
 * Refused with a reason that names line and column (from 1; columns count bytes): a byte order
 * mark, UTF-16, invalid UTF-8, NaN, comments, trailing commas, duplicate member names (compared
 * unescaped), control bytes in strings, a second document, nesting over JSON_DEPTH_MAX.
 * White space may surround the document.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define JSON_DEPTH_MAX 512

enum json_kind {
    JSON_OBJECT,     /* { */
    JSON_OBJECT_END, /* } */
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_NAME, /* a member's name; its value follows */
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_END, /* of the document; nothing but white space followed */
};

struct json_token {
    enum json_kind kind;
    struct span raw; /* as it stands in the text; strings and names without their quotes */
    bool escaped;    /* raw holds a backslash: json_unescape it to compare or use */
    size_t depth;    /* containers open around it: 0 for the outermost value */
};

struct json_reader; /* opaque: position, stack, names seen */

/* TEXT must outlive the reader. NULL when memory ran out. */
struct json_reader *json_reader_new(struct span text);
void json_reader_free(struct json_reader *reader);

/* Another limit of nesting, up to JSON_DEPTH_HARD_MAX; before the first token. Typed form needs two
 * levels where plain form needs one. */
#define JSON_DEPTH_HARD_MAX (2 * JSON_DEPTH_MAX + 4)
void json_set_depth_max(struct json_reader *reader, size_t depth);

/* The next token. -EINVAL with the reason for bad JSON (again on each further call), -ENOMEM. */
int json_next(struct json_reader *reader, struct json_token *ret_token, struct err *err);

/* After a *_NAME or at the beginning: reads over one whole value; ret_raw is its text. */
int json_skip(struct json_reader *reader, struct span *ret_raw, struct err *err);

/* True when the last error was the text's early end: more bytes could make it valid. */
bool json_incomplete(const struct json_reader *reader);

/* For rules beyond JSON: sets the message "line L, column C: REASON" for the place AT of the
 * reader's text, and returns -EINVAL. */
int json_refuse(const struct json_reader *reader, const char *at, struct err *err,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Checks a whole document; `incomplete` (may be NULL) as above. An empty text is incomplete. */
int json_check(struct span text, bool *ret_incomplete, struct err *err);

/* Appends RAW with its escapes resolved. Lone surrogates become their 3-byte form (WTF-8); a pair
 * of escapes becomes one code point. RAW must come from a token. */
void json_unescape(struct span raw, struct buf *out);

/* Appends TEXT (WTF-8) as a JSON string with quotes: escapes only what must be (", \, control
 * bytes; encoded lone surrogates as \uXXXX); the rest byte for byte. Pure UTF-8 out. */
void json_add_string(struct buf *out, struct span text);

#endif
