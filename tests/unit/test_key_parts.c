/* SPDX-License-Identifier: MIT */
/* Names of several parts: one to one, whatever is in them. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/key.h"
#include "tests/check.h"

#define TWO(a, b)                                                                                  \
    {                                                                                              \
        {VALUE_S, {a, sizeof a - 1}},                                                              \
        {                                                                                          \
            VALUE_S,                                                                               \
            {                                                                                      \
                b, sizeof b - 1                                                                    \
            }                                                                                      \
        }                                                                                          \
    }

static void name_of(const struct name_part *parts, size_t count, struct buf *out)
{
    buf_init(out, 10000);
    name_from_parts(parts, count, KEY_ITEM_SUFFIX, out);
    check_int(buf_error(out), 0);
    check(out->len <= KEY_NAME_MAX);
}

/* What NAME says of COUNT parts of TYPE; they are released. */
static int read_name(enum value_type type, size_t count, struct span name)
{
    struct buf parts[NAME_PARTS_MAX];
    const enum value_type types[NAME_PARTS_MAX] = {type, type, type};
    for (size_t i = 0; i < NAME_PARTS_MAX; i++)
        buf_init(&parts[i], KEY_PART_MAX);
    int code = name_to_parts(types, count, name, KEY_ITEM_SUFFIX, parts);
    for (size_t i = 0; i < NAME_PARTS_MAX; i++)
        buf_release(&parts[i]);
    return code;
}

static void test_names(void)
{
    static const struct {
        struct name_part parts[2];
        const char *name;
    } cases[] = {
        {TWO("cust-7", "2024-01-05"), "cust-7,2024-01-05.json"},
        {TWO("a,b", "c"), "a%2Cb,c.json"},
        {TWO("a", "b,c"), "a,b%2Cc.json"},
        {TWO("a%2Cb", "c"), "a%252Cb,c.json"},
        {TWO(".a", ".b/\n\x7f"), "%2Ea,%2Eb%2F%0A%7F.json"},
        {TWO("a\0b", "\xc3\xa4"), "a%00b,\xc3\xa4.json"},
        {{{VALUE_N, {"-1.5", 4}}, {VALUE_B, {"\xff\xfe,", 3}}}, "-1.5,__4s.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup(buf_release) struct buf name;
        struct buf parts[2];
        const enum value_type types[2] = {cases[i].parts[0].type, cases[i].parts[1].type};
        buf_init(&parts[0], KEY_PART_MAX);
        buf_init(&parts[1], KEY_PART_MAX);
        name_of(cases[i].parts, 2, &name);
        check_text(buf_span(&name), cases[i].name);
        check_int(name_to_parts(types, 2, buf_span(&name), KEY_ITEM_SUFFIX, parts), 0);
        check_span(buf_span(&parts[0]), cases[i].parts[0].bytes);
        check_span(buf_span(&parts[1]), cases[i].parts[1].bytes);
        buf_release(&parts[0]);
        buf_release(&parts[1]);
    }
}

static void test_other_spellings(void)
{
    static const char *const wrong[] = {
        "a.json",   "a,b,c.json", "a,.json",   ",a.json",    "a,b",    "a%2cb,c.json", "%61,b.json",
        "a,%.json", "a,%4.json",  ".a,b.json", "a,b/c.json", ",.json", "a,\xff.json",  ".json",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (read_name(VALUE_S, 2, span_text(wrong[i])) != -EINVAL)
            check_fail("%s is taken for a name", wrong[i]);
    check_int(read_name(VALUE_N, 2, span_text("1,2.json")), 0);
    check_int(read_name(VALUE_N, 2, span_text("01,2.json")), -EINVAL);
    check_int(read_name(VALUE_B, 2, span_text("_w,_w.json")), 0);
    check_int(read_name(VALUE_B, 2, span_text("_x,_w.json")), -EINVAL);
}

/* Long ones differ in what the name does not show; a short one that looks hashed is hashed. */
static void test_hashed(void)
{
    char text[300];
    cleanup(buf_release) struct buf first;
    cleanup(buf_release) struct buf second;
    memset(text, ',', sizeof text);
    struct name_part parts[] = {{VALUE_S, {text, 299}}, {VALUE_S, {"x", 1}}};
    name_of(parts, 2, &first);
    parts[1].bytes = span_text("y");
    name_of(parts, 2, &second);
    check(!span_equal(buf_span(&first), buf_span(&second)));
    check_int(first.len, KEY_NAME_MAX - 1); /* 67 whole escapes, the mark, the suffix */
    check_int(read_name(VALUE_S, 2, buf_span(&first)), 1);

    const struct name_part looks[] = TWO("a", "b~0123456789abcdef0123456789abcdef");
    buf_release(&first);
    name_of(looks, 2, &first);
    check_int(first.len, 2 + 34 + 33 + 5);
    check_int(read_name(VALUE_S, 2, buf_span(&first)), 1);
}

static void test_cut_characters(void)
{
    char text[260];
    for (size_t i = 0; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    for (size_t len = 1; len <= 3; len++) {
        cleanup(buf_release) struct buf name;
        const struct name_part parts[] = {{VALUE_S, {"abc", len}}, {VALUE_S, {text, 258}}};
        name_of(parts, 2, &name);
        size_t head = name.len - 33 - 5;
        check(head >= 200);
        check(((unsigned char)name.data[head - 1] & 0xC0) == 0x80); /* ends in a whole one */
        check_int((head - len - 1) % 2, 0);
    }
}

static void test_one_part_is_a_name(void)
{
    cleanup(buf_release) struct buf name;
    const struct name_part part = {VALUE_S, {"a,b", 3}};
    name_of(&part, 1, &name);
    check_text(buf_span(&name), "a,b.json");
    check_int(read_name(VALUE_S, 1, span_text("a,b.json")), 0);
}

CHECK_MAIN(CHECK_TEST(test_names), CHECK_TEST(test_other_spellings), CHECK_TEST(test_hashed),
           CHECK_TEST(test_cut_characters), CHECK_TEST(test_one_part_is_a_name))
