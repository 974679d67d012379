/* SPDX-License-Identifier: MIT */
/* Strings, numbers and words of JSON. */
#include <errno.h>

#include "base/json_reader.h"
#include "base/text.h"

/* A bit in each byte of WORD that a string cannot hold as it is: '"', '\\', control, not ASCII. */
static uint64_t special_bytes(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
    return ((quote - ones) | (slash - ones) | (word - ones * 0x20) | word) & highs;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static int read_escape(struct json_reader *reader)
{
    const char *start = reader->at;
    if (json_left(reader) < 2)
        return json_fail_end(reader, "the text ends inside a string");
    if (start[1] != 'u') {
        if (start[1] == '\0' || !strchr("\"\\/bfnrt", start[1]))
            return json_fail(reader, start, "no such escape in a string");
        reader->at += 2;
        return 0;
    }
    for (size_t i = 2; i < 6; i++) {
        if (json_left(reader) <= i)
            return json_fail_end(reader, "the text ends inside a string");
        if (!is_hex(start[i]))
            return json_fail(reader, start, "\\u needs four hexadecimal digits");
    }
    reader->at += 6;
    return 0;
}

/* One character of a string that is more than a plain ASCII byte. */
static int read_special(struct json_reader *reader)
{
    unsigned char c = (unsigned char)*reader->at;
    if (c == '\\')
        return read_escape(reader);
    if (c < 0x20)
        return json_fail(reader, reader->at, "control characters in strings must be escaped");
    size_t step = text_utf8_step(span_of(reader->at, json_left(reader)), false);
    if (step == 0) {
        size_t wanted = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        json_fail(reader, reader->at, "the text is not UTF-8");
        reader->incomplete = c >= 0xC2 && c <= 0xF4 && json_left(reader) < wanted;
        return -EINVAL;
    }
    reader->at += step;
    return 0;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Steps over bytes that need no look, eight at a time while they last. */
static void skip_plain(struct json_reader *reader)
{
    uint64_t word;
    while (json_left(reader) >= sizeof word) {
        memcpy(&word, reader->at, sizeof word);
        if (special_bytes(word))
            break;
        reader->at += sizeof word;
    }
    while (reader->at < reader->end && is_plain((unsigned char)*reader->at))
        reader->at++;
}

int json_scan_string(struct json_reader *reader, struct json_token *token)
{
    const char *start = ++reader->at;
    for (;;) {
        skip_plain(reader);
        if (reader->at == reader->end)
            return json_fail_end(reader, "the text ends inside a string");
        if (*reader->at == '"')
            break;
        token->escaped |= *reader->at == '\\';
        int error = read_special(reader);
        if (error)
            return error;
    }
    token->raw = span_of(start, (size_t)(reader->at - start));
    reader->at++;
    return 0;
}

static size_t read_digits(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - start);
}

static int read_digits_or_fail(struct json_reader *reader, const char *problem)
{
    if (read_digits(reader) > 0)
        return 0;
    return reader->at == reader->end ? json_fail_end(reader, problem)
                                     : json_fail(reader, reader->at, problem);
}

static bool next_is(const struct json_reader *reader, char a, char b)
{
    return reader->at < reader->end && (*reader->at == a || *reader->at == b);
}

static int read_number(struct json_reader *reader, struct json_token *token)
{
    const char *start = reader->at;
    reader->at += *start == '-';
    if (json_left(reader) >= 8 && memcmp(reader->at, "Infinity", 8) == 0)
        return json_fail(reader, start, "Infinity is not JSON");
    const char *whole = reader->at;
    int error = read_digits_or_fail(reader, "\"-\" needs a digit behind it");
    if (!error && *whole == '0' && reader->at - whole > 1)
        error = json_fail(reader, whole, "a number may not have leading zeros");
    if (!error && next_is(reader, '.', '.')) {
        reader->at++;
        error = read_digits_or_fail(reader, "a number needs a digit behind its \".\"");
    }
    if (!error && next_is(reader, 'e', 'E')) {
        reader->at++;
        reader->at += next_is(reader, '+', '-');
        error = read_digits_or_fail(reader, "a number needs a digit in its exponent");
    }
    if (!error && next_is(reader, 'x', 'X'))
        error = json_fail(reader, start, "hexadecimal numbers are not JSON");
    token->kind = JSON_NUMBER;
    token->raw = span_of(start, (size_t)(reader->at - start));
    return error;
}

/* Where a value should be and something else is. */
static int fail_no_value(struct json_reader *reader)
{
    char c = *reader->at;
    const char *problem = "expected a value";
    if (c == '+')
        problem = "a number may not begin with \"+\"";
    else if (c == '.')
        problem = "a number needs a digit before its \".\"";
    else if (c == ']' && reader->expect == EXPECT_VALUE)
        problem = "expected a value (is there a trailing comma?)";
    else if (json_left(reader) >= 3 && memcmp(reader->at, "NaN", 3) == 0)
        problem = "NaN is not JSON";
    else if (json_left(reader) >= 8 && memcmp(reader->at, "Infinity", 8) == 0)
        problem = "Infinity is not JSON";
    else if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
        problem = "the only words in JSON are true, false and null";
    return json_fail_unexpected(reader, problem);
}

static int read_word(struct json_reader *reader, const char *word, enum json_kind kind,
                     struct json_token *token)
{
    size_t len = strlen(word);
    size_t common = 0;
    while (common < len && common < json_left(reader) && reader->at[common] == word[common])
        common++;
    if (common < len && common == json_left(reader))
        return json_fail_end(reader, "the text ends inside a word");
    if (common < len)
        return fail_no_value(reader);
    token->kind = kind;
    token->raw = span_of(reader->at, len);
    reader->at += len;
    return 0;
}

int json_scan_scalar(struct json_reader *reader, struct json_token *token)
{
    switch (*reader->at) {
    case '"': token->kind = JSON_STRING; return json_scan_string(reader, token);
    case 't': return read_word(reader, "true", JSON_TRUE, token);
    case 'f': return read_word(reader, "false", JSON_FALSE, token);
    case 'n': return read_word(reader, "null", JSON_NULL, token);
    case '-':
    case '0' ... '9': return read_number(reader, token);
    case ',': return json_fail(reader, reader->at, "expected a value before \",\"");
    default: return fail_no_value(reader);
    }
}
