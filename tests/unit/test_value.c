/* SPDX-License-Identifier: MIT */
#include "base/value.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "tests/check.h"

/* PLAIN reads as the value whose typed form is TYPED, and both come back. */
static void check_forms(const char *plain, const char *typed)
{
    cleanup(value_release) struct value value = {0};
    cleanup(value_release) struct value other = {0};
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    buf_init(&out, 100000);
    if (value_from_plain(span_text(plain), &value, &err) != 0 ||
        value_from_typed(span_text(typed), &other, &err) != 0) {
        check_fail("%s: %s", plain, err.text);
        return;
    }
    check(value_equal(&value, &other));
    value_to_plain(&other, (struct value_style){0}, &out);
    check_text(buf_span(&out), plain);
    buf_clear(&out);
    value_to_typed(&value, &out);
    check_text(buf_span(&out), typed);
}

static void test_forms(void)
{
    check_forms("\"a\"", "{\"S\":\"a\"}");
    check_forms("\"\"", "{\"S\":\"\"}");
    check_forms("\"a\\u0000\\ud800\xc3\xa9\"", "{\"S\":\"a\\u0000\\ud800\xc3\xa9\"}");
    check_forms("5", "{\"N\":\"5\"}");
    check_forms("1.50e+400", "{\"N\":\"1.50e+400\"}");
    check_forms("-0", "{\"N\":\"-0\"}");
    check_forms("12345678901234567890123456789012345678",
                "{\"N\":\"12345678901234567890123456789012345678\"}");
    check_forms("true", "{\"BOOL\":true}");
    check_forms("false", "{\"BOOL\":false}");
    check_forms("null", "{\"NULL\":true}");
    check_forms("[]", "{\"L\":[]}");
    check_forms("[1,[\"a\"],{}]", "{\"L\":[{\"N\":\"1\"},{\"L\":[{\"S\":\"a\"}]},{\"M\":{}}]}");
    check_forms("{}", "{\"M\":{}}");
    check_forms("{\"a\":{\"b\":null}}", "{\"M\":{\"a\":{\"M\":{\"b\":{\"NULL\":true}}}}}");
    check_forms("{\"$B\":\"aGk=\"}", "{\"B\":\"aGk=\"}");
    check_forms("{\"$B\":\"\"}", "{\"B\":\"\"}");
    check_forms("{\"$SS\":[\"b\",\"a\"]}", "{\"SS\":[\"b\",\"a\"]}");
    check_forms("{\"$NS\":[2,1.0]}", "{\"NS\":[\"2\",\"1.0\"]}");
    check_forms("{\"$BS\":[\"aGk=\",\"\"]}", "{\"BS\":[\"aGk=\",\"\"]}");
    check_forms("{\"$x\":1}", "{\"M\":{\"$x\":{\"N\":\"1\"}}}");
    check_forms("{\"$M\":{\"$B\":\"aGk=\"}}", "{\"M\":{\"$B\":{\"S\":\"aGk=\"}}}");
    check_forms("{\"$M\":{\"$M\":{\"a\":1}}}", "{\"M\":{\"$M\":{\"M\":{\"a\":{\"N\":\"1\"}}}}}");
    check_forms("{\"$M\":{\"$M\":{\"$M\":{\"$M\":{\"$B\":\"\"}}}}}",
                "{\"M\":{\"$M\":{\"M\":{\"$M\":{\"B\":\"\"}}}}}");
    check_forms("{\"$M\":{\"$M\":{\"$M\":{\"$M\":{\"$M\":{\"$B\":\"\"}}}}}}",
                "{\"M\":{\"$M\":{\"M\":{\"$M\":{\"M\":{\"$B\":{\"S\":\"\"}}}}}}}");
    check_forms("{\"$a\":{\"$B\":\"aGk=\"}}", "{\"M\":{\"$a\":{\"B\":\"aGk=\"}}}");
    check_forms("{\"$a\":{\"$SS\":[\"x\"]},\"b\":1}",
                "{\"M\":{\"$a\":{\"SS\":[\"x\"]},\"b\":{\"N\":\"1\"}}}");
}

/* What is read, but written in another way. */
static void check_becomes(const char *plain, const char *want)
{
    cleanup(value_release) struct value value = {0};
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    buf_init(&out, 1000);
    if (value_from_plain(span_text(plain), &value, &err) != 0)
        check_fail("%s: %s", plain, err.text);
    value_to_plain(&value, (struct value_style){0}, &out);
    check_text(buf_span(&out), want);
}

static void test_forms_not_needed(void)
{
    check_becomes("{\"$M\":{\"a\":1}}", "{\"a\":1}");
    check_becomes("{\"$M\":{\"$a\":1,\"b\":2}}", "{\"$a\":1,\"b\":2}");
    check_becomes("{\"$M\":{}}", "{}");
    check_becomes("{\"$M\":{\"$ref\":1}}", "{\"$ref\":1}");
    check_becomes("{\"$M\":{\"$M\":{\"$M\":{\"x\":1}}}}", "{\"$M\":{\"$M\":{\"x\":1}}}");
    check_becomes("{\"\\u0024B\":\"\\u0061Gk=\"}", "{\"$B\":\"aGk=\"}");
    check_becomes("[\"\\/\"]", "[\"/\"]");
}

static void check_typed_refused(const char *typed)
{
    struct value value;
    struct err err = {""};
    int error = value_from_typed(span_text(typed), &value, &err);
    if (error != -EINVAL || !strstr(err.text, "line ") || !strstr(err.text, "column "))
        check_fail("%s gives %d: %s", typed, error, err.text);
}

static void test_typed_refused(void)
{
    static const char *const bad[] = {
        "",
        "5",
        "\"S\"",
        "[]",
        "{}",
        "{\"S\":5}",
        "{\"S\":\"a\",\"N\":\"1\"}",
        "{\"X\":\"a\"}",
        "{\"s\":\"a\"}",
        "{\"N\":5}",
        "{\"N\":\"\"}",
        "{\"N\":\"x\"}",
        "{\"N\":\" 1\"}",
        "{\"N\":\"1e\"}",
        "{\"N\":\".\"}",
        "{\"N\":\"+-1\"}",
        "{\"N\":\"1.5.2\"}",
        "{\"N\":\"NaN\"}",
        "{\"B\":\"a\"}",
        "{\"B\":\"_w==\"}",
        "{\"BOOL\":\"true\"}",
        "{\"BOOL\":null}",
        "{\"NULL\":false}",
        "{\"NULL\":null}",
        "{\"L\":{}}",
        "{\"L\":[1]}",
        "{\"L\":[\"a\"]}",
        "{\"M\":[]}",
        "{\"M\":{\"a\":1}}",
        "{\"M\":{\"a\":{\"S\":\"x\"},\"a\":{\"S\":\"y\"}}}",
        "{\"SS\":[]}",
        "{\"SS\":[\"a\",\"a\"]}",
        "{\"SS\":[1]}",
        "{\"SS\":\"a\"}",
        "{\"NS\":[\"1\",\"1.0\"]}",
        "{\"NS\":[1]}",
        "{\"NS\":[\"x\"]}",
        "{\"BS\":[\"a\"]}",
        "{\"BS\":[\"AA==\",\"AA==\"]}",
        "{\"S\":\"a\"} 5",
        "{\"S\":\"a\"",
        "{\"S\":\"a\",}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_typed_refused(bad[i]);
}

static void check_loose(const char *loose, const char *want)
{
    char typed[200];
    cleanup(value_release) struct value value = {0};
    struct err err = {""};
    snprintf(typed, sizeof typed, "{\"N\":\"%s\"}", loose);
    if (value_from_typed(span_text(typed), &value, &err) != 0)
        check_fail("%s: %s", typed, err.text);
    else
        check_text(value_text(&value), want);
}

static void test_loose_numbers(void)
{
    check_loose("1.0", "1.0");
    check_loose("1E2", "1E2");
    check_loose("+5", "5");
    check_loose("007", "7");
    check_loose("-000", "-0");
    check_loose(".5", "0.5");
    check_loose("-.5e+3", "-0.5e+3");
    check_loose("5.", "5");
    check_loose("5.e2", "5e2");
    check_loose("+00.50", "0.50");
    check_loose("\\u0035", "5");
}

static void test_bin(void)
{
    cleanup(value_release) struct value value = {0};
    check_int(value_from_typed(span_text("{\"BIN\":\"aGk=\"}"), &value, NULL), 0);
    check_int(value.type, VALUE_B);
    check_text(value_text(&value), "hi");
}

/* Kernstack's B is a boolean; what cannot be one or binary is refused. */
static void test_kernstack_types(void)
{
    static const char typed[] = "{\"b\":{\"B\":true},\"l\":{\"L\":[{\"B\":false},{\"BIN\":"
                                "\"aGk=\"}]},\"m\":{\"M\":{\"x\":{\"B\":\"aGk=\"}}}}";
    cleanup(value_release) struct value map = {0}, other = {0};
    cleanup(buf_release) struct buf out;
    struct err err = {""};

    buf_init(&out, 1000);
    check_int(value_map_from_typed(span_text(typed), &map, &err), 0);
    check_int(value_member(&map, span_text("b"))->type, VALUE_BOOL);
    check(value_member(&map, span_text("b"))->boolean);
    value_map_to_typed(&map, &out);
    check_text(buf_span(&out), "{\"b\":{\"BOOL\":true},\"l\":{\"L\":[{\"BOOL\":false},{\"B\":"
                               "\"aGk=\"}]},\"m\":{\"M\":{\"x\":{\"B\":\"aGk=\"}}}}");
    cleanup(buf_release) struct buf named;
    buf_init(&named, 1000);
    check_int(value_map_rename(buf_span(&out), NAMES_KERNSTACK, &named, &err), 0);
    check_text(buf_span(&named), "{\"b\":{\"B\":true},\"l\":{\"L\":[{\"B\":false},{\"BIN\":"
                                 "\"aGk=\"}]},\"m\":{\"M\":{\"x\":{\"BIN\":\"aGk=\"}}}}");
    buf_clear(&named);
    check_int(value_map_rename(span_text("as it is"), NAMES_DYNAMODB, &named, &err), 0);
    check_text(buf_span(&named), "as it is");
    check_int(value_from_typed(span_text("{\"B\":1}"), &other, &err), -EINVAL);
    check_text(span_text(err.text), "line 1, column 6: a value of type B is a string of base64");
    check_int(value_from_typed(span_text("{\"BIN\":true}"), &other, NULL), -EINVAL);
    check_int(value_from_typed(span_text("{\"B\":null}"), &other, NULL), -EINVAL);
    check_int(value_from_typed(span_text("{\"B\":true,\"B\":true}"), &other, NULL), -EINVAL);
}

static void test_style(void)
{
    cleanup(value_release) struct value value = {0};
    cleanup(buf_release) struct buf out;
    const struct span first[] = {{"z", 1}, {"none", 4}, {"id", 2}};
    buf_init(&out, 1000);
    value_from_plain(span_text("{\"b\":[1,{\"y\":2,\"x\":{\"z\":1,\"a\":1}}],\"id\":\"i\",\"a\":[],"
                               "\"e\":{},\"z\":{\"$B\":\"\"},\"m\":{\"$M\":{\"$B\":1}}}"),
                     &value, NULL);
    struct value_style style = {.indent = 2, .sort = true, .first = first, .first_count = 3};
    value_to_plain(&value, style, &out);
    check_text(buf_span(&out), "{\n"
                               "  \"z\": {\n"
                               "    \"$B\": \"\"\n"
                               "  },\n"
                               "  \"id\": \"i\",\n"
                               "  \"a\": [],\n"
                               "  \"b\": [\n"
                               "    1,\n"
                               "    {\n"
                               "      \"x\": {\n"
                               "        \"a\": 1,\n"
                               "        \"z\": 1\n"
                               "      },\n"
                               "      \"y\": 2\n"
                               "    }\n"
                               "  ],\n"
                               "  \"e\": {},\n"
                               "  \"m\": {\n"
                               "    \"$M\": {\n"
                               "      \"$B\": 1\n"
                               "    }\n"
                               "  }\n"
                               "}");
}

static void test_style_without_order(void)
{
    cleanup(value_release) struct value value = {0};
    cleanup(buf_release) struct buf out;
    const struct span first[] = {{"z", 1}};
    buf_init(&out, 1000);
    value_from_plain(span_text("{\"b\":1,\"a\":2,\"z\":{\"y\":3,\"z\":4}}"), &value, NULL);
    value_to_plain(&value, (struct value_style){.first = first, .first_count = 1}, &out);
    check_text(buf_span(&out), "{\"z\":{\"y\":3,\"z\":4},\"b\":1,\"a\":2}");
}

static struct value text(const char *content)
{
    struct value value = {0};
    check_int(value_new_text(VALUE_S, span_text(content), &value), 0);
    return value;
}

static void test_members(void)
{
    cleanup(value_release) struct value map = value_new_map();
    char name[16];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "n%d", i);
        check_int(value_member_set(&map, span_text(name), text(name)), 0);
    }
    check_int(value_member_set(&map, span_text("n7"), text("other")), 0);
    check_int(map.map.count, 40);
    check_text(value_text(value_member(&map, span_text("n7"))), "other");
    for (int i = 0; i < 38; i++) {
        snprintf(name, sizeof name, "n%d", i);
        value_member_remove(&map, span_text(name));
        value_member_remove(&map, span_text(name));
    }
    check_int(map.map.count, 2);
    check(value_member(&map, span_text("n5")) == NULL);
    check_text(value_text(value_member(&map, span_text("n39"))), "n39");
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "m%d", i);
        check_int(value_member_set(&map, span_text(name), text(name)), 0);
    }
    check_int(map.map.count, 22);
    check_text(value_text(value_member(&map, span_text("m19"))), "m19");
}

static void check_equal(const char *a, const char *b, bool want)
{
    cleanup(value_release) struct value left = {0};
    cleanup(value_release) struct value right = {0};
    check_int(value_from_plain(span_text(a), &left, NULL), 0);
    check_int(value_from_plain(span_text(b), &right, NULL), 0);
    if (value_equal(&left, &right) != want || value_equal(&right, &left) != want)
        check_fail("%s and %s", a, b);
}

static void test_equal(void)
{
    check_equal("1", "1.0", true);
    check_equal("1", "\"1\"", false);
    check_equal("\"a\"", "\"\\u0061\"", true);
    check_equal("null", "null", true);
    check_equal("null", "false", false);
    check_equal("true", "false", false);
    check_equal("[1,2]", "[2,1]", false);
    check_equal("[1]", "[1,2]", false);
    check_equal("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1e0}", true);
    check_equal("{\"a\":1}", "{\"b\":1}", false);
    check_equal("{\"a\":1}", "{\"a\":1,\"b\":2}", false);
    check_equal("{\"$SS\":[\"a\",\"b\"]}", "{\"$SS\":[\"b\",\"a\"]}", true);
    check_equal("{\"$SS\":[\"a\"]}", "{\"$SS\":[\"b\"]}", false);
    check_equal("{\"$NS\":[1,2]}", "{\"$NS\":[2.0,1]}", true);
    check_equal("{\"$SS\":[\"a\"]}", "[\"a\"]", false);
    check_equal("{\"$B\":\"aGk=\"}", "\"hi\"", false);
    check_equal("{\"$BS\":[\"AA==\",\"AQ==\"]}", "{\"$BS\":[\"AQ==\",\"AA==\"]}", true);
}

static void test_type_names(void)
{
    enum value_type type = VALUE_S;
    for (int i = VALUE_S; i <= VALUE_BS; i++) {
        check(value_type_from_name(span_text(value_type_name((enum value_type)i)), &type));
        check_int(type, i);
    }
    check(!value_type_from_name(span_text("BIN"), &type));
    check(!value_type_from_name(span_text(""), &type));
}

/* The deepest plain text reads, its typed form is twice as deep and reads back. */
static void check_deep(const char *open, const char *close, size_t levels)
{
    cleanup(buf_release) struct buf text_buf;
    cleanup(buf_release) struct buf typed;
    cleanup(value_release) struct value value = {0};
    cleanup(value_release) struct value again = {0};
    struct err err = {""};
    buf_init(&text_buf, 1 << 20);
    buf_init(&typed, 1 << 20);
    for (size_t i = 0; i < levels; i++)
        buf_add_text(&text_buf, open);
    buf_add_text(&text_buf, "1");
    for (size_t i = 0; i < levels; i++)
        buf_add_text(&text_buf, close);
    check_int(value_from_plain(buf_span(&text_buf), &value, &err), 0);
    value_to_typed(&value, &typed);
    check_int(value_from_typed(buf_span(&typed), &again, &err), 0);
    check(value_equal(&value, &again));
    check_text(span_text(err.text), "");
}

static void test_deep(void)
{
    check_deep("[", "]", JSON_DEPTH_MAX);
    check_deep("{\"a\":", "}", JSON_DEPTH_MAX);
    check_deep("{\"$M\":{\"$B\":", "}}", JSON_DEPTH_MAX / 2);
    /* Typed text that would be too deep in plain form. */
    cleanup(buf_release) struct buf typed;
    buf_init(&typed, 1 << 20);
    for (int i = 0; i < 257; i++)
        buf_add_text(&typed, "{\"M\":{\"$B\":");
    buf_add_text(&typed, "{\"NULL\":true}");
    for (int i = 0; i < 257; i++)
        buf_add_text(&typed, "}}");
    check_typed_refused(typed.data);
}

static void test_sort_sets(void)
{
    cleanup(value_release) struct value value = {0};
    cleanup(buf_release) struct buf out;

    buf_init(&out, 1 << 20);
    check_int(value_from_typed(
                  span_text("{\"M\":{\"l\":{\"L\":[{\"SS\":[\"b\",\"\",\"a\"]},{\"S\":\"z\"},"
                            "{\"S\":\"y\"},{\"L\":[{\"NS\":[\"2\",\"10\"]}]}]},"
                            "\"b\":{\"BS\":[\"AQ==\",\"AA==\"]}}}"),
                  &value, NULL),
              0);
    value_sort_sets(&value);
    value_to_typed(&value, &out);
    check_text(buf_span(&out),
               "{\"M\":{\"b\":{\"BS\":[\"AA==\",\"AQ==\"]},\"l\":{\"L\":[{\"SS\":[\"\",\"a\","
               "\"b\"]},{\"S\":\"z\"},{\"S\":\"y\"},{\"L\":[{\"NS\":[\"10\",\"2\"]}]}]}}}");
}

/* What is JSON alone has no forms. */
static void test_json_alone(void)
{
    static const char text[] = "{\"$B\":5,\"a\":{\"$SS\":[]},\"b\":{\"$M\":{\"$B\":\"\"}}}";
    cleanup(value_release) struct value value = {0}, binary = {0}, other = {0};
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    buf_init(&out, 1000);
    check_int(value_from_json(span_text(text), &value, &err), 0);
    check(value_is_json(&value));
    value_to_plain(&value, (struct value_style){.sort = true, .json = true}, &out);
    check_text(buf_span(&out), text);
    check_int(value_from_plain(span_text("[1,{\"a\":{\"$B\":\"AA==\"}}]"), &binary, NULL), 0);
    check(!value_is_json(&binary));
    check_int(value_from_json(span_text("{\"a\":1,}"), &other, &err), -EINVAL);
    check_text(span_text(err.text),
               "line 1, column 8: expected a name (is there a trailing comma?)");
}

CHECK_MAIN(CHECK_TEST(test_json_alone), CHECK_TEST(test_forms), CHECK_TEST(test_forms_not_needed),
           CHECK_TEST(test_typed_refused), CHECK_TEST(test_loose_numbers), CHECK_TEST(test_bin),
           CHECK_TEST(test_kernstack_types), CHECK_TEST(test_style),
           CHECK_TEST(test_style_without_order), CHECK_TEST(test_members), CHECK_TEST(test_equal),
           CHECK_TEST(test_type_names), CHECK_TEST(test_deep), CHECK_TEST(test_sort_sets))
