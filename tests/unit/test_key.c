/* SPDX-License-Identifier: MIT */
#include "base/key.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/check.h"

static struct table *make(const char *key, const char *sort)
{
    struct table *table = table_new(span_text("t"));
    key_attribute_parse(span_text(key), &table->partition, NULL);
    if (sort)
        key_attribute_parse(span_text(sort), &table->sort, NULL);
    return table;
}

static void check_part(const char *key, enum keys_style keys, struct span text, int want,
                       const char *part)
{
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    buf_init(&out, 1 << 20);
    struct table *table = make(key, NULL);
    table->keys = keys;
    int error = key_part_from_text(table, false, text, &out, &err);
    if (error != want || (error && err.text[0] == '\0'))
        check_fail("%.20s gives %d: %s", text.data, error, err.text);
    if (want == 0)
        check_text(buf_span(&out), part);
    table_free(table);
}

static void test_from_text(void)
{
    char longest[KEY_PART_MAX + 1];
    memset(longest, 'x', sizeof longest);
    check_part("id", KEYS_PLAIN, span_text("b_a"), 0, "b_a");
    check_part("id", KEYS_TAGS, span_text("b_a"), 0, "a_b");
    check_part("id", KEYS_PLAIN, span_text(""), -EINVAL, "");
    check_part("id", KEYS_TAGS, span_text(""), -EINVAL, "");
    check_part("id", KEYS_PLAIN, span_text("\xff"), -EINVAL, "");
    check_part("id", KEYS_PLAIN, span_text("\xed\xa0\x80"), 0, "\xed\xa0\x80");
    check_part("id", KEYS_PLAIN, span_of(longest, KEY_PART_MAX + 1), -ENAMETOOLONG, "");
    check_part("id:N", KEYS_PLAIN, span_text("+007.50"), 0, "7.5");
    check_part("id:N", KEYS_PLAIN, span_text("1e3"), 0, "1000");
    check_part("id:N", KEYS_PLAIN, span_text("x"), -EINVAL, "");
    check_part("id:N", KEYS_PLAIN, span_text("1e300"), -ERANGE, "");
    check_part("id:B", KEYS_PLAIN, span_text("aGk="), 0, "hi");
    check_part("id:B", KEYS_PLAIN, span_text("aGk"), -EINVAL, "");
    check_part("id:B", KEYS_PLAIN, span_text(""), -EINVAL, "");
}

static void test_from_value(void)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    struct table *table = make("id", "n:N");
    table->keys = KEYS_TAGS;
    struct value text, number;
    value_new_text(VALUE_S, span_text("y_x"), &text);
    value_new_text(VALUE_N, span_text("1.50e1"), &number);
    check_int(key_part_from_value(table, false, &text, &out, NULL), 0);
    check_text(buf_span(&out), "x_y");
    buf_clear(&out);
    check_int(key_part_from_value(table, true, &number, &out, NULL), 0);
    check_text(buf_span(&out), "15");
    struct err err = {""};
    check_int(key_part_from_value(table, true, &text, &out, &err), -EINVAL);
    check_text(span_text(err.text), "the key attribute \"n\" must be of type N, not S");
    value_release(&text);
    value_release(&number);
    table_free(table);
}

static void test_to_typed(void)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    struct table *table = make("id", "n:N");
    key_to_typed(table, (struct key){span_text("a\"b"), span_text("5")}, &out);
    check_text(buf_span(&out), "{\"id\":{\"S\":\"a\\\"b\"},\"n\":{\"N\":\"5\"}}");
    table_free(table);
    buf_clear(&out);
    table = make("k:B", NULL);
    key_to_typed(table, (struct key){span_text("hi"), span_text("")}, &out);
    check_text(buf_span(&out), "{\"k\":{\"B\":\"aGk=\"}}");
    table_free(table);
}

static void test_inode_number(void)
{
    uint64_t number = key_inode_number(5, span_text("ada"));
    check(number == key_inode_number(5, span_text("ada")));
    check(number != key_inode_number(6, span_text("ada")));
    check(number != key_inode_number(5, span_text("adb")));
    for (int i = 0; i < 1000; i++)
        check(key_inode_number(5, span_of((const char *)&i, sizeof i)) >= 2);
}

CHECK_MAIN(CHECK_TEST(test_from_text), CHECK_TEST(test_from_value), CHECK_TEST(test_to_typed),
           CHECK_TEST(test_inode_number))
