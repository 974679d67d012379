/* SPDX-License-Identifier: MIT */
/*
 * The reader is a small state machine over the text: `expect` says what may come next, a bit a
 * level says whether that level is an object. Nothing is allocated for a token; only the names of
 * objects still open are remembered, to find duplicates (json_names.c).
 *
 * An error is kept, and given again on every further call. Its line and column are counted only
 * when the message is made.
 */
#include "base/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_reader.h"

static void reader_init(struct json_reader *reader, struct span text)
{
    const char *begin = text.data ? text.data : "";
    reader->begin = reader->at = begin;
    reader->end = begin + text.len;
    reader->expect = EXPECT_VALUE;
    reader->depth = 0;
    reader->depth_max = JSON_DEPTH_MAX;
    reader->code = 0;
    reader->incomplete = false;
    json_names_init(&reader->names);
}

struct json_reader *json_reader_new(struct span text)
{
    struct json_reader *reader = malloc(sizeof *reader);
    if (reader)
        reader_init(reader, text);
    return reader;
}

void json_reader_free(struct json_reader *reader)
{
    if (!reader)
        return;
    json_names_release(&reader->names);
    free(reader);
}

void json_set_depth_max(struct json_reader *reader, size_t depth)
{
    reader->depth_max = depth < JSON_DEPTH_HARD_MAX ? depth : JSON_DEPTH_HARD_MAX;
}

bool json_incomplete(const struct json_reader *reader)
{
    return reader->incomplete;
}

int json_fail(struct json_reader *reader, const char *at, const char *problem)
{
    reader->code = EINVAL;
    reader->problem = problem;
    reader->problem_at = at;
    return -EINVAL;
}

int json_fail_end(struct json_reader *reader, const char *problem)
{
    reader->incomplete = true;
    return json_fail(reader, reader->end, problem);
}

int json_fail_unexpected(struct json_reader *reader, const char *otherwise)
{
    char c = *reader->at;
    if (c == '/' || c == '#')
        return json_fail(reader, reader->at, "comments are not allowed in JSON");
    if (c == '\'' && reader->expect != EXPECT_NOTHING)
        return json_fail(reader, reader->at, "strings are written in double quotes");
    return json_fail(reader, reader->at, otherwise);
}

static void place_of(const struct json_reader *reader, const char *at, size_t *ret_line,
                     size_t *ret_column)
{
    size_t line = 1;
    const char *start = reader->begin;
    const char *newline;
    while (start < at && (newline = memchr(start, '\n', (size_t)(at - start)))) {
        line++;
        start = newline + 1;
    }
    *ret_line = line;
    *ret_column = (size_t)(at - start) + 1;
}

int json_refuse(const struct json_reader *reader, const char *at, struct err *err,
                const char *format, ...)
{
    if (!err)
        return -EINVAL;
    char reason[ERR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    size_t line, column;
    place_of(reader, at, &line, &column);
    return err_set(err, EINVAL, "line %zu, column %zu: %s", line, column, reason);
}

static int report(const struct json_reader *reader, struct err *err)
{
    if (reader->code == ENOMEM)
        return err_set(err, ENOMEM, "out of memory for JSON");
    return json_refuse(reader, reader->problem_at, err, "%s", reader->problem);
}

/* Checks the first bytes for encodings that are not UTF-8 as JSON wants it. */
static int check_start(struct json_reader *reader)
{
    const unsigned char *at = (const unsigned char *)reader->begin;
    size_t len = json_left(reader);
    if (len >= 3 && at[0] == 0xEF && at[1] == 0xBB && at[2] == 0xBF)
        return json_fail(reader, reader->at, "the text begins with a byte order mark");
    if (len >= 2 && ((at[0] == 0xFE && at[1] == 0xFF) || (at[0] == 0xFF && at[1] == 0xFE) ||
                     at[0] == 0 || at[1] == 0))
        return json_fail(reader, reader->at, "the text is UTF-16 or UTF-32, not UTF-8");
    return 0;
}

static void skip_space(struct json_reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                        *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

static bool in_object(const struct json_reader *reader)
{
    size_t level = reader->depth - 1;
    return reader->objects[level / 64] >> (level % 64) & 1;
}

/* What follows after a whole value. */
static void after_value(struct json_reader *reader)
{
    reader->expect = reader->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static int open_container(struct json_reader *reader, bool object, struct json_token *token)
{
    if (reader->depth >= reader->depth_max)
        return json_fail(reader, reader->at, "nested too deeply");
    size_t level = reader->depth;
    uint64_t bit = UINT64_C(1) << (level % 64);
    if (object && json_names_open(&reader->names) != 0) {
        reader->code = ENOMEM;
        return -ENOMEM;
    }
    if (object)
        reader->objects[level / 64] |= bit;
    else
        reader->objects[level / 64] &= ~bit;
    reader->depth++;
    reader->expect = object ? EXPECT_NAME_OR_END : EXPECT_VALUE_OR_END;
    token->kind = object ? JSON_OBJECT : JSON_ARRAY;
    token->raw = span_of(reader->at++, 1);
    return 0;
}

static int close_container(struct json_reader *reader, struct json_token *token)
{
    bool object = in_object(reader);
    if (object)
        json_names_close(&reader->names);
    reader->depth--;
    token->kind = object ? JSON_OBJECT_END : JSON_ARRAY_END;
    token->depth = reader->depth;
    token->raw = span_of(reader->at++, 1);
    after_value(reader);
    return 0;
}

static int read_value(struct json_reader *reader, struct json_token *token)
{
    if (*reader->at == '{' || *reader->at == '[')
        return open_container(reader, *reader->at == '{', token);
    int error = json_scan_scalar(reader, token);
    if (!error)
        after_value(reader);
    return error;
}

static int read_name(struct json_reader *reader, struct json_token *token)
{
    const char *start = reader->at;
    if (*start == '}')
        return json_fail(reader, start, "expected a name (is there a trailing comma?)");
    if (*start != '"')
        return json_fail_unexpected(reader, "expected a name in double quotes");
    int error = json_scan_string(reader, token);
    if (error)
        return error;
    skip_space(reader);
    if (reader->at == reader->end)
        return json_fail_end(reader, "the text ends inside an object");
    if (*reader->at != ':')
        return json_fail_unexpected(reader, "expected \":\" behind a name");
    error = json_names_add(&reader->names, token->raw, token->escaped);
    if (error == -EEXIST)
        return json_fail(reader, start, "this name is there twice in one object");
    if (error) {
        reader->code = ENOMEM;
        return -ENOMEM;
    }
    reader->at++;
    reader->expect = EXPECT_VALUE;
    token->kind = JSON_NAME;
    return 0;
}

/* Steps over a comma; what follows is then a name or a value for certain. */
static int read_comma(struct json_reader *reader)
{
    bool object = in_object(reader);
    if (*reader->at != ',')
        return json_fail_unexpected(reader,
                                    object ? "expected \",\" or \"}\"" : "expected \",\" or \"]\"");
    reader->at++;
    skip_space(reader);
    reader->expect = object ? EXPECT_NAME : EXPECT_VALUE;
    return 0;
}

static int read_end(struct json_reader *reader, struct json_token *token)
{
    if (reader->expect == EXPECT_NOTHING) {
        token->kind = JSON_END;
        token->raw = span_of(reader->end, 0);
        return 0;
    }
    if (reader->depth == 0)
        return json_fail_end(reader, reader->begin == reader->end ? "the text is empty"
                                                                  : "the text ends before a value");
    return json_fail_end(reader, in_object(reader) ? "the text ends inside an object"
                                                   : "the text ends inside an array");
}

static int read_token(struct json_reader *reader, struct json_token *token)
{
    skip_space(reader);
    token->depth = reader->depth;
    if (reader->expect == EXPECT_COMMA_OR_END && reader->at < reader->end) {
        if (*reader->at == (in_object(reader) ? '}' : ']'))
            return close_container(reader, token);
        int error = read_comma(reader);
        if (error)
            return error;
    }
    if (reader->at == reader->end)
        return read_end(reader, token);
    switch (reader->expect) {
    case EXPECT_NOTHING:
        return json_fail_unexpected(reader,
                                    "the document ended before this: one file is one value");
    case EXPECT_NAME_OR_END:
    case EXPECT_NAME:
        if (*reader->at == '}' && reader->expect == EXPECT_NAME_OR_END)
            return close_container(reader, token);
        return read_name(reader, token);
    default:
        if (*reader->at == ']' && reader->expect == EXPECT_VALUE_OR_END)
            return close_container(reader, token);
        return read_value(reader, token);
    }
}

int json_next(struct json_reader *reader, struct json_token *ret_token, struct err *err)
{
    struct json_token token = {.escaped = false};
    if (!reader->code && reader->at == reader->begin)
        check_start(reader);
    if (reader->code || read_token(reader, &token) != 0)
        return report(reader, err);
    *ret_token = token;
    return 0;
}

int json_skip(struct json_reader *reader, struct span *ret_raw, struct err *err)
{
    struct json_token token;
    int error = json_next(reader, &token, err);
    if (error)
        return error;
    const char *start = token.raw.data - (token.kind == JSON_STRING);
    size_t depth = token.depth;
    while (reader->depth > depth) {
        error = json_next(reader, &token, err);
        if (error)
            return error;
    }
    *ret_raw = span_of(start, (size_t)(reader->at - start));
    return 0;
}

int json_check(struct span text, bool *ret_incomplete, struct err *err)
{
    struct json_reader reader;
    struct json_token token = {.kind = JSON_NULL};
    reader_init(&reader, text);
    int error = 0;
    while (!error && token.kind != JSON_END)
        error = json_next(&reader, &token, err);
    json_names_release(&reader.names);
    if (ret_incomplete)
        *ret_incomplete = reader.incomplete;
    return error;
}
