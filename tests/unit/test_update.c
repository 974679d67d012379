/* SPDX-License-Identifier: MIT */
#include "base/update.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/check.h"

static const enum update_kind add = UPDATE_ADD, append = UPDATE_APPEND,
                              unique = UPDATE_APPEND_UNIQUE;

/* WANT: the body after it, and NUMBER the number that it tells; the item is a good one still. */
static void check_update(const char *body, enum update_kind kind, const char *attribute,
                         const char *value, const char *want, const char *number)
{
    const struct update update = {kind, span_text(attribute), span_text(value)};
    struct table *table = table_new_default(span_text("t"));
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf told;
    struct item_facts facts;
    struct err err = {""};
    buf_init(&out, 10000);
    buf_init(&told, 1000);
    check_int(update_check(table, &update, &err), 0);
    int error = item_update(span_text(body), &update, &out, &told, &err);
    if (error)
        check_fail("%s: %s", body, err.text);
    check_text(buf_span(&out), want);
    check_text(buf_span(&told), number);
    const struct key key = {{"a", 1}, {NULL, 0}};
    check_int(item_examine(table, key, buf_span(&out), &facts, NULL, &err), 0);
    table_free(table);
}

static void check_refused(const char *body, enum update_kind kind, const char *attribute,
                          const char *value, int code, const char *message)
{
    const struct update update = {kind, span_text(attribute), span_text(value)};
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf told;
    struct err err = {""};
    buf_init(&out, 10000);
    buf_init(&told, 1000);
    check_int(item_update(span_text(body), &update, &out, &told, &err), code);
    check_text(span_text(err.text), message);
    check_int(out.len + told.len, 0);
}

static void test_add_to_a_bare_number(void)
{
    check_update("1", add, ITEM_VALUE, "1", "2", "2");
    check_update("5\n", add, ITEM_VALUE, "1", "6\n", "6");
    check_update("  8", add, ITEM_VALUE, "1", "  9", "9");
    check_update("\t0 \r\n", add, ITEM_VALUE, "-1", "\t-1 \r\n", "-1");
    check_update("null", add, ITEM_VALUE, "+3", "3", "3");
    check_update("1.5", add, ITEM_VALUE, "1", "2.5", "2.5");
    check_update("99", add, ITEM_VALUE, "-90", "9", "9");
    check_update("12345678901234567890123456789012345678", add, ITEM_VALUE, "1",
                 "12345678901234567890123456789012345679",
                 "12345678901234567890123456789012345679");
}

static void test_add_to_a_member(void)
{
    check_update(" {\"x\" : 1.500e3,\r\n \"n\":1, \"y\":\"\\/\"}\n\n", add, "n", "41",
                 " {\"x\" : 1.500e3,\r\n \"n\":42, \"y\":\"\\/\"}\n\n", "42");
    check_update("{\"a\": {\"n\": 1}, \"n\": 2}", add, "n", "1", "{\"a\": {\"n\": 1}, \"n\": 3}",
                 "3");
    check_update("{\"n\\u00e9\": 1}", add, "n\xc3\xa9", "1", "{\"n\\u00e9\": 2}", "2");
    check_update("{\"n\": null}", add, "n", "1", "{\"n\": 1}", "1");
    check_update("{\"$M\": {\"n\": 1}}", add, "n", "1", "{\"$M\": {\"n\": 2}}", "2");
    check_update("{\"a.b\": 1}", add, "a.b", "1", "{\"a.b\": 2}", "2");
}

static void test_add_makes_a_member(void)
{
    check_update("{\n  \"a\": 1\n}\n", add, "n", "7", "{\n  \"a\": 1,\n  \"n\": 7\n}\n", "7");
    check_update("{\"a\":1}", add, "n", "-7", "{\"a\":1,\"n\":-7}", "-7");
    check_update("{}", add, "n", "7", "{\"n\": 7}", "7");
    check_update("", add, "n", "7", "{\"n\": 7}\n", "7");
    check_update("{}", add, "$n", "7", "{\"$M\": {\"$n\": 7}}", "7");
}

static void test_add_refused(void)
{
    check_refused("\"7\"", add, ITEM_VALUE, "1", -EINVAL,
                  "\"$value\" is of type S, and only a number (N) can be added to");
    check_refused("true", add, ITEM_VALUE, "1", -EINVAL,
                  "\"$value\" is of type BOOL, and only a number (N) can be added to");
    check_refused("[1]", add, ITEM_VALUE, "1", -EINVAL,
                  "\"$value\" is of type L, and only a number (N) can be added to");
    check_refused("{\"n\": {\"$NS\": [1]}}", add, "n", "1", -EINVAL,
                  "\"n\" is of type NS, and only a number (N) can be added to");
    check_refused("{\"n\": 1}", add, ITEM_VALUE, "1", -EINVAL,
                  "it is no bare value: name one of its attributes (itemctl: --attr NAME)");
    check_refused("", add, ITEM_VALUE, "1", -EINVAL,
                  "it is no bare value: name one of its attributes (itemctl: --attr NAME)");
    check_refused("5", add, "n", "1", -EINVAL, "\"n\" cannot be made beside a bare value");
    check_refused("{\"n\": 1e38}", add, "n", "1", -ERANGE,
                  "the sum of 1e38 and 1 has more than 38 significant digits, or is outside of "
                  "1e-130 .. 9.99e125");
    check_refused("{\"n\": 123456789012345678901234567890123456789}", add, "n", "1", -ERANGE,
                  "number 123456789012345678901234567890123456789 has more than 38 significant "
                  "digits");
}

static void test_append(void)
{
    check_update("{\"l\": [1, 2]}", append, "l", "3", "{\"l\": [1, 2, 3]}", "");
    check_update("{\"l\":[1,2]}", append, "l", "\"]\"", "{\"l\":[1,2,\"]\"]}", "");
    check_update("{\"l\": [\n  1\n]}", append, "l", "2", "{\"l\": [\n  1,\n  2\n]}", "");
    check_update("{\"l\": [ [1,[2]] , {\"a\": [3]} ]}", append, "l", " [4] ",
                 "{\"l\": [ [1,[2]] , {\"a\": [3]}, [4] ]}", "");
    check_update("{\"l\": [ ]}", append, "l", "1", "{\"l\": [1 ]}", "");
    check_update("{\"l\": []}", append, "l", "null", "{\"l\": [null]}", "");
    check_update("{\"a\": 1}", append, "l", "{\"$B\": \"aGk=\"}",
                 "{\"a\": 1, \"l\": [{\"$B\": \"aGk=\"}]}", "");
    check_update("", append, "l", "1", "{\"l\": [1]}\n", "");
    check_update(" [\"a\"]\n", append, ITEM_VALUE, "\"b\"", " [\"a\",\"b\"]\n", "");
    check_update("[2, 2]", append, ITEM_VALUE, "2", "[2, 2, 2]", "");
}

static void test_append_unique(void)
{
    check_update("{\"l\": [\"7\"]}", unique, "l", "7", "{\"l\": [\"7\",7]}", "");
    check_update("{\"l\": [9007199254740992]}", unique, "l", "9007199254740993",
                 "{\"l\": [9007199254740992,9007199254740993]}", "");
    check_update("{\"l\": [[7], \"17\"]}", unique, "l", "7", "{\"l\": [[7], \"17\", 7]}", "");
    check_update("{}", unique, "l", "7", "{\"l\": [7]}", "");
    static const char *const held[][2] = {
        {"[7]", "7"},
        {"[5]", "5.0"},
        {"[0]", "-0"},
        {"[\"a\", true, {\"x\": 4, \"y\": 1}]", "{\"y\": 1.0, \"x\": 4}"},
        {"{\"$NS\": [1, 7]}", "7.0"}};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        check_refused(held[i][0], unique, ITEM_VALUE, held[i][1], -EEXIST,
                      "\"$value\" holds that value already");
}

static void test_append_refused(void)
{
    check_refused("{\"l\": \"abc\"}", unique, "l", "\"b\"", -EINVAL,
                  "\"l\" is of type S, and only a list (L) can be appended to");
    check_refused("{\"l\": null}", unique, "l", "7", -EINVAL,
                  "\"l\" is of type NULL, and only a list (L) can be appended to");
    check_refused("{\"l\": {\"$NS\": [1]}}", unique, "l", "7", -EINVAL,
                  "\"l\" is of type NS, and only a list (L) can be appended to");
    check_refused("{\"l\": {\"$NS\": [1]}}", append, "l", "1", -EINVAL,
                  "\"l\" is of type NS, and only a list (L) can be appended to");
    check_refused("5", append, "l", "7", -EINVAL, "\"l\" cannot be made beside a bare value");
}

static void check_no_update(enum update_kind kind, const char *attribute, const char *value,
                            int code, const char *message)
{
    const struct update update = {kind, span_text(attribute), span_text(value)};
    struct table *table = table_new_default(span_text("t"));
    struct err err = {""};
    check_int(key_attribute_parse(span_text("day"), &table->sort, NULL), 0);
    check_int(update_check(table, &update, &err), code);
    check_text(span_text(err.text), message);
    table_free(table);
}

static void test_check(void)
{
    check_no_update(add, "", "1", -EINVAL, "the attribute's name is empty");
    check_no_update(add, "\xff", "1", -EINVAL,
                    "the attribute's name is too long, or not valid UTF-8");
    check_no_update(add, "key", "1", -EINVAL, "\"key\" is the key: that stays as it is");
    check_no_update(append, "day", "1", -EINVAL, "\"day\" is the key: that stays as it is");
    check_no_update(add, "-ttl", "1", -EINVAL,
                    "\"-ttl\" is the time to live: set that by its own name");
    check_no_update(add, "n", "", -EINVAL, "\"\" is not a number");
    check_no_update(add, "n", " 1", -EINVAL, "\" 1\" is not a number");
    check_no_update(add, "n", "1e126", -ERANGE, "number 1e126 is outside of 1e-130 .. 9.99e125");
    check_no_update(append, "l", "1,2", -EINVAL,
                    "the value to append: line 1, column 2: the document ended before this: one "
                    "file is one value");
    check_no_update(unique, "l", "{\"$B\": 5}", -EINVAL,
                    "the value to append: line 1, column 1: \"$B\" needs a string of base64 (an "
                    "object with just that name is written {\"$M\": {\"$B\": ..}})");
}

CHECK_MAIN(CHECK_TEST(test_add_to_a_bare_number), CHECK_TEST(test_add_to_a_member),
           CHECK_TEST(test_add_makes_a_member), CHECK_TEST(test_add_refused),
           CHECK_TEST(test_append), CHECK_TEST(test_append_unique), CHECK_TEST(test_append_refused),
           CHECK_TEST(test_check))
