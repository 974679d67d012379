/* SPDX-License-Identifier: MIT */
/* The inside of a JSON reader, shared by json.c (structure) and json_scan.c (strings, numbers,
 * words). Nothing else includes it. */
#ifndef BASE_JSON_READER_H
#define BASE_JSON_READER_H

#include <stdint.h>

#include "base/json.h"
#include "base/json_names.h"

enum expect {
    EXPECT_VALUE,        /* at the beginning, after "name": and after a comma in an array */
    EXPECT_VALUE_OR_END, /* after [ */
    EXPECT_NAME_OR_END,  /* after { */
    EXPECT_NAME,         /* after a comma in an object */
    EXPECT_COMMA_OR_END, /* after a value in a container */
    EXPECT_NOTHING,      /* after the document */
};

#define LEVEL_WORDS (JSON_DEPTH_HARD_MAX / 64 + 1)

struct json_reader {
    const char *begin, *at, *end;
    enum expect expect;
    size_t depth, depth_max;
    uint64_t objects[LEVEL_WORDS]; /* bit N: level N + 1 is an object */
    struct json_names names;
    int code; /* of the error found: 0, EINVAL or ENOMEM */
    const char *problem;
    const char *problem_at;
    bool incomplete;
};

/* Notes the error at AT; PROBLEM is a literal. -EINVAL. */
int json_fail(struct json_reader *reader, const char *at, const char *problem);
/* Notes that the text ended too early. */
int json_fail_end(struct json_reader *reader, const char *problem);
/* Notes an unexpected byte at the reader's place, or what it may have been meant as. */
int json_fail_unexpected(struct json_reader *reader, const char *otherwise);

/* Reads a string from its quote; the token's raw text is what stands between the quotes. */
int json_scan_string(struct json_reader *reader, struct json_token *token);
/* Reads a string, number or word where a value is expected. */
int json_scan_scalar(struct json_reader *reader, struct json_token *token);

static inline size_t json_left(const struct json_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

#endif
