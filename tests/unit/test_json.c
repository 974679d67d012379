/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/check.h"

/* Writes the tokens of TEXT as letters: {} [] n(ame) s(tring) 0 t f z(null) and . at the end. */
static void tokens(const char *text, char *ret_letters)
{
    static const char letters[] = "{}[]ns0tfz.";
    struct json_reader *reader = json_reader_new(span_text(text));
    struct json_token token = {.kind = JSON_NULL};
    while (token.kind != JSON_END && json_next(reader, &token, NULL) == 0)
        *ret_letters++ = letters[token.kind];
    *ret_letters = '\0';
    json_reader_free(reader);
}

static void check_tokens(const char *text, const char *want)
{
    char letters[200];
    tokens(text, letters);
    if (strcmp(letters, want) != 0)
        check_fail("%s gives %s, not %s", text, letters, want);
}

static void test_tokens(void)
{
    check_tokens("{}", "{}.");
    check_tokens("[]", "[].");
    check_tokens(" 5 ", "0.");
    check_tokens("{\"a\": [1, \"b\", true, false, null], \"c\": {\"d\": {}}}", "{n[0stfz]n{n{}}}.");
    check_tokens("[[], {}, [[]]]", "[[]{}[[]]].");
    check_tokens("[1,]", "[0");
}

static void test_token_text(void)
{
    struct json_reader *reader =
        json_reader_new(span_text("{ \"na\\u006de\" : -1.50e+3, \"b\":[\"x\\n\" ] }"));
    static const struct {
        enum json_kind kind;
        const char *raw;
        bool escaped;
        size_t depth;
    } want[] = {
        {JSON_OBJECT, "{", false, 0},
        {JSON_NAME, "na\\u006de", true, 1},
        {JSON_NUMBER, "-1.50e+3", false, 1},
        {JSON_NAME, "b", false, 1},
        {JSON_ARRAY, "[", false, 1},
        {JSON_STRING, "x\\n", true, 2},
        {JSON_ARRAY_END, "]", false, 1},
        {JSON_OBJECT_END, "}", false, 0},
        {JSON_END, "", false, 0},
        {JSON_END, "", false, 0},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct json_token token;
        check_int(json_next(reader, &token, NULL), 0);
        check_int(token.kind, want[i].kind);
        check_text(token.raw, want[i].raw);
        check_int(token.escaped, want[i].escaped);
        check_int(token.depth, want[i].depth);
    }
    json_reader_free(reader);
    json_reader_free(NULL);
}

static void check_message(const char *text, const char *want, bool want_incomplete)
{
    struct err err = {""};
    bool incomplete = !want_incomplete;
    check_int(json_check(span_text(text), &incomplete, &err), -EINVAL);
    if (strcmp(err.text, want) != 0 || incomplete != want_incomplete)
        check_fail("%s: \"%s\" (%d), not \"%s\"", text, err.text, incomplete, want);
}

static void test_messages(void)
{
    check_message("", "line 1, column 1: the text is empty", true);
    check_message(" \n", "line 2, column 1: the text ends before a value", true);
    check_message("{\n  \"a\": 1,\n}",
                  "line 3, column 1: expected a name (is there a trailing comma?)", false);
    check_message("[1,\r\n]", "line 2, column 1: expected a value (is there a trailing comma?)",
                  false);
    check_message("{\"a\":1, \"a\":2}", "line 1, column 9: this name is there twice in one object",
                  false);
    check_message("{\"\xc3\xa9\": x}",
                  "line 1, column 8: the only words in JSON are true, false and null", false);
    check_message("{\"a\": 1", "line 1, column 8: the text ends inside an object", true);
    check_message("[", "line 1, column 2: the text ends inside an array", true);
    check_message("\"ab", "line 1, column 4: the text ends inside a string", true);
    check_message("tru", "line 1, column 4: the text ends inside a word", true);
    check_message("trux", "line 1, column 1: the only words in JSON are true, false and null",
                  false);
    check_message("-", "line 1, column 2: \"-\" needs a digit behind it", true);
    check_message("1.x", "line 1, column 3: a number needs a digit behind its \".\"", false);
    check_message("{} {}",
                  "line 1, column 4: the document ended before this: one file is one value", false);
    check_message("\xef\xbb\xbf{}", "line 1, column 1: the text begins with a byte order mark",
                  false);
    check_message("[1 // x\n]", "line 1, column 4: comments are not allowed in JSON", false);
    check_message("\"\xe2\x82", "line 1, column 2: the text is not UTF-8", true);
    check_message("\"\xe2\x82\"", "line 1, column 2: the text is not UTF-8", false);
    check_message("\"\t\"", "line 1, column 2: control characters in strings must be escaped",
                  false);
    check_message("{\"a\":}", "line 1, column 6: expected a value", false);
}

static void test_error_is_sticky(void)
{
    struct json_reader *reader = json_reader_new(span_text("[1, x, 2]"));
    struct json_token token;
    check_int(json_next(reader, &token, NULL), 0);
    check_int(json_next(reader, &token, NULL), 0);
    for (int i = 0; i < 3; i++) {
        struct err err = {""};
        check_int(json_next(reader, &token, &err), -EINVAL);
        check(strncmp(err.text, "line 1, column 5: ", 18) == 0);
    }
    check_text(token.raw, "1");
    check(!json_incomplete(reader));
    json_reader_free(reader);
}

static void check_depth(size_t depth, size_t most, const char *open, const char *close, int want)
{
    cleanup(buf_release) struct buf text;
    struct err err = {""};
    buf_init(&text, 1 << 24);
    for (size_t i = 0; i < depth; i++)
        buf_add_text(&text, open);
    buf_add_text(&text, "1");
    for (size_t i = 0; i < depth; i++)
        buf_add_text(&text, close);
    struct json_reader *reader = json_reader_new(buf_span(&text));
    struct span raw;
    json_set_depth_max(reader, most);
    check_int(json_skip(reader, &raw, &err), want);
    if (want)
        check(strstr(err.text, "nested too deeply") != NULL);
    else
        check_span(raw, buf_span(&text));
    json_reader_free(reader);
}

static void test_depth(void)
{
    check_depth(JSON_DEPTH_MAX, JSON_DEPTH_MAX, "[", "]", 0);
    check_depth(JSON_DEPTH_MAX + 1, JSON_DEPTH_MAX, "[", "]", -EINVAL);
    check_depth(JSON_DEPTH_MAX, JSON_DEPTH_MAX, "{\"a\":", "}", 0);
    check_depth(JSON_DEPTH_MAX + 1, JSON_DEPTH_MAX, "{\"a\":", "}", -EINVAL);
    check_depth(10000, JSON_DEPTH_MAX, "[", "]", -EINVAL);
    check_depth(JSON_DEPTH_HARD_MAX, SIZE_MAX, "[", "]", 0);
    check_depth(JSON_DEPTH_HARD_MAX + 1, SIZE_MAX, "{\"a\":", "}", -EINVAL);
}

static void test_skip(void)
{
    struct json_reader *reader =
        json_reader_new(span_text("{\"a\": [1, {\"x\": []}] , \"b\":\"s\"}"));
    struct json_token token;
    struct span raw;
    check_int(json_next(reader, &token, NULL), 0);
    check_int(json_next(reader, &token, NULL), 0);
    check_int(json_skip(reader, &raw, NULL), 0);
    check_text(raw, "[1, {\"x\": []}]");
    check_int(json_next(reader, &token, NULL), 0);
    check_int(json_skip(reader, &raw, NULL), 0);
    check_text(raw, "\"s\"");
    check_int(json_next(reader, &token, NULL), 0);
    check_int(token.kind, JSON_OBJECT_END);
    json_reader_free(reader);
}

static void check_string(const char *raw, struct span plain, const char *written)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    json_unescape(span_text(raw), &out);
    check_span(buf_span(&out), plain);
    buf_clear(&out);
    json_add_string(&out, plain);
    check_text(buf_span(&out), written);
    check_int(json_check(buf_span(&out), NULL, NULL), 0);
}

static void test_strings(void)
{
    check_string("", span_text(""), "\"\"");
    check_string("a\\u0000b", span_of("a\0b", 3), "\"a\\u0000b\"");
    check_string("\\\"\\\\\\/\\b\\f\\n\\r\\t", span_text("\"\\/\b\f\n\r\t"),
                 "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    check_string("\\u0041\\u00e9\\u20AC", span_text("A\xc3\xa9\xe2\x82\xac"),
                 "\"A\xc3\xa9\xe2\x82\xac\"");
    check_string("\\ud83d\\ude00", span_text("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"");
    check_string("\\uDBFF\\uDFFF", span_text("\xf4\x8f\xbf\xbf"), "\"\xf4\x8f\xbf\xbf\"");
    check_string("\\ud800", span_text("\xed\xa0\x80"), "\"\\ud800\"");
    check_string("\\udfff\\ud800", span_text("\xed\xbf\xbf\xed\xa0\x80"), "\"\\udfff\\ud800\"");
    check_string("\\ud800x", span_text("\xed\xa0\x80x"), "\"\\ud800x\"");
    check_string("\\ud800\\ud800\\udc00", span_text("\xed\xa0\x80\xf0\x90\x80\x80"),
                 "\"\\ud800\xf0\x90\x80\x80\"");
    check_string("\\u001f\\u007f\x7f", span_text("\x1f\x7f\x7f"), "\"\\u001f\x7f\x7f\"");
    check_string("\xed\x9f\xbf\xee\x80\x80", span_text("\xed\x9f\xbf\xee\x80\x80"),
                 "\"\xed\x9f\xbf\xee\x80\x80\"");
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    json_add_string(&out, span_text("a\xff\xc3"));
    check_text(buf_span(&out), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}

/* Objects of every size around the change from search to hash table, with and without the last name
 * twice, in escapes or not, inside of others that are still open. */
static void test_duplicates(void)
{
    cleanup(buf_release) struct buf text;
    buf_init(&text, 1 << 20);
    for (int count = 1; count < 80; count++) {
        for (int kind = 0; kind < 6; kind++) {
            buf_clear(&text);
            for (int i = 0; i < count; i++)
                buf_addf(&text, "%s\"%s%d\": {\"n%d\": [{", i ? "," : "{",
                         kind & 1 ? "\\u006e" : "n", i, i),
                    buf_addf(&text, "\"n%d\": 1}]}", i);
            if (kind >= 2)
                buf_addf(&text, ",\"%s%d\": 2", kind & 1 ? "n" : "\\u006e",
                         kind >= 4 ? count : count / 2);
            buf_add_text(&text, "}");
            int want = kind == 2 || kind == 3 ? -EINVAL : 0;
            if (json_check(buf_span(&text), NULL, NULL) != want)
                check_fail("%d names, kind %d", count, kind);
        }
    }
}

/* Each level has more names than are searched one by one, so all share the hash table. */
static void test_duplicates_nested(void)
{
    cleanup(buf_release) struct buf text;
    buf_init(&text, 1 << 22);
    for (int twice = 0; twice < 2; twice++) {
        buf_clear(&text);
        for (int level = 0; level < 100; level++) {
            for (int i = 0; i < 40; i++)
                buf_addf(&text, "%s\"n%d\":1", i ? "," : "{", i);
            buf_add_text(&text, ",\"in\":");
        }
        buf_add_text(&text, "0");
        for (int level = 99; level >= 0; level--) {
            for (int i = 40; i < 60; i++)
                buf_addf(&text, ",\"n%d\":1", i);
            buf_add_text(&text, twice && level == 50 ? ",\"n7\":1}" : "}");
        }
        check_int(json_check(buf_span(&text), NULL, NULL), twice ? -EINVAL : 0);
    }
}

/* A body of the largest size is read in about linear time. */
static void test_million_names(void)
{
    cleanup(buf_release) struct buf text;
    buf_init(&text, 64 << 20);
    buf_add_char(&text, '{');
    for (int i = 0; i < 1000000; i++)
        buf_addf(&text, "\"m%d\":%d,", i, i);
    buf_add_text(&text, "\"z\":1}");
    int64_t start = clock_steady_ns();
    check_int(json_check(buf_span(&text), NULL, NULL), 0);
    check((clock_steady_ns() - start) / NS_PER_S < 20);
    buf_splice(&text, text.len - 5, 3, span_text("\"m77\""));
    check_int(json_check(buf_span(&text), NULL, NULL), -EINVAL);
}

CHECK_MAIN(CHECK_TEST(test_tokens), CHECK_TEST(test_token_text), CHECK_TEST(test_messages),
           CHECK_TEST(test_error_is_sticky), CHECK_TEST(test_depth), CHECK_TEST(test_skip),
           CHECK_TEST(test_strings), CHECK_TEST(test_duplicates),
           CHECK_TEST(test_duplicates_nested), CHECK_TEST(test_million_names))
