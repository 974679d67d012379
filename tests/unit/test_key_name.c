/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/key.h"
#include "base/text.h"
#include "tests/check.h"

#define HEX32 "0123456789abcdef0123456789abcdef"
static const char mark[] = "~" HEX32;

static void test_is_item(void)
{
    check(name_is_item(span_text("a.json")));
    check(name_is_item(span_text("a.json.json")));
    check(name_is_item(span_text("%2Ea.json")));
    check(!name_is_item(span_text(".json")));
    check(!name_is_item(span_text(".a.json")));
    check(!name_is_item(span_text("a.json~")));
    check(!name_is_item(span_text("a.JSON")));
    check(!name_is_item(span_text("json")));
    check(!name_is_item(span_text("")));
}

/* PART is named NAME, and NAME means PART. */
static void check_name(enum value_type type, struct span part, const char *suffix, const char *name)
{
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf back;
    struct err err = {""};
    buf_init(&out, 1000);
    buf_init(&back, 1000);
    name_from_part(type, part, suffix, &out);
    check_text(buf_span(&out), name);
    check_int(name_to_part(type, span_text(name), suffix, &back, &err), 0);
    check_span(buf_span(&back), part);
    check_text(span_text(err.text), "");
}

static void test_text_names(void)
{
    check_name(VALUE_S, span_text("ada"), ".json", "ada.json");
    check_name(VALUE_S, span_text("ada"), "", "ada");
    check_name(VALUE_S, span_text("a.json"), ".json", "a.json.json");
    check_name(VALUE_S, span_text("a/b"), ".json", "a%2Fb.json");
    check_name(VALUE_S, span_of("a\0b", 3), ".json", "a%00b.json");
    check_name(VALUE_S, span_text("\x01\x1f\x7f\n"), ".json", "%01%1F%7F%0A.json");
    check_name(VALUE_S, span_text("100%"), ".json", "100%25.json");
    check_name(VALUE_S, span_text("."), ".json", "%2E.json");
    check_name(VALUE_S, span_text(".."), "", "%2E.");
    check_name(VALUE_S, span_text(".a.b"), ".json", "%2Ea.b.json");
    check_name(VALUE_S, span_text("a b~c\"'\\*?"), ".json", "a b~c\"'\\*?.json");
    check_name(VALUE_S, span_text("\xc3\xa9\xf0\x9f\x98\x80"), ".json",
               "\xc3\xa9\xf0\x9f\x98\x80.json");
    check_name(VALUE_S, span_text("\xed\xa0\x80"), ".json", "\xed\xa0\x80.json");
    check_name(VALUE_S, span_text("%2F"), ".json", "%252F.json");
    check_name(VALUE_S, span_text("~"), ".json", "~.json");
}

static void test_other_names(void)
{
    check_name(VALUE_N, span_text("-1.5"), ".json", "-1.5.json");
    check_name(VALUE_N, span_text("0"), "", "0");
    check_name(VALUE_B, span_of("\xff\xfe\0", 3), ".json", "__4A.json");
    check_name(VALUE_B, span_text("f"), ".json", "Zg.json");
    check_name(VALUE_B, span_text(">>>"), "", "Pj4-");
}

static void test_lookalikes(void)
{
    check_name(VALUE_S, span_text("a~" HEX32), ".json", "a%7E" HEX32 ".json");
    check_name(VALUE_S, span_text("~" HEX32), ".json", "%7E" HEX32 ".json");
    check_name(VALUE_S, span_text("~~" HEX32), "", "~%7E" HEX32);
    check_name(VALUE_S, span_text("a~" HEX32 "0"), ".json", "a~" HEX32 "0.json");
    check_name(VALUE_S, span_text("a~0123456789ABCDEF0123456789abcdef"), ".json",
               "a~0123456789ABCDEF0123456789abcdef.json");
    check_name(VALUE_S, span_text("a%7E" HEX32), ".json", "a%257E" HEX32 ".json");
    check_name(VALUE_S, span_text("/~" HEX32), ".json", "%2F%7E" HEX32 ".json");
}

/* NAME is refused, and the message tells the RIGHT spelling (NULL: there is none to tell). */
static void check_refused(enum value_type type, struct span name, const char *suffix,
                          const char *right)
{
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    buf_init(&out, 1000);
    buf_add_text(&out, "kept");
    int error = name_to_part(type, name, suffix, &out, &err);
    bool told = !right || strstr(err.text, right);
    if (error != -EINVAL || err.text[0] == '\0' || !told || out.len != 4)
        check_fail("\"%.*s\" gives %d: %s", (int)name.len, name.data, error, err.text);
}

static void test_spellings_refused(void)
{
    static const char *const texts[][2] = {
        {"%41.json", "\"A.json\""},
        {"a%2fb.json", "\"a%2Fb.json\""},
        {"a%2Eb.json", "\"a.b.json\""},
        {"100%.json", "\"100%25.json\""},
        {"a%zz.json", "\"a%25zz.json\""},
        {"a%2.json", "\"a%252.json\""},
        {"%7E.json", "\"~.json\""},
        {"a%7E" HEX32 "x.json", "\"a~" HEX32 "x.json\""},
        {"a~" HEX32 ".json", "\"a%7E" HEX32 ".json\""},
        {"~" HEX32 ".json", "\"%7E" HEX32 ".json\""},
        {".a.json", "\"%2Ea.json\""},
        {"a\n.json", "\"a%0A.json\""},
        {"a\x7f.json", "\"a%7F.json\""},
        {"a/b.json", "\"a%2Fb.json\""},
        {"%C3%A9.json", "\"\xc3\xa9.json\""},
        {"%FF.json", "UTF-8"},
        {"\xff.json", "UTF-8"},
        {"\xed\xa0\x80\xed\xb0\x80.json", "UTF-8"},
        {".json", NULL},
        {"", NULL},
        {"a.jso", NULL},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_refused(VALUE_S, span_text(texts[i][0]), ".json", texts[i][1]);
    check_refused(VALUE_S, span_text(""), "", NULL);
    check_refused(VALUE_S, span_text(".git"), "", "\"%2Egit\"");
    static const char *const numbers[][2] = {
        {"007.json", "\"7.json\""},    {"+5.json", "\"5.json\""}, {"1.0.json", "\"1.json\""},
        {"1e3.json", "\"1000.json\""}, {"-0.json", "\"0.json\""}, {".5.json", "\"0.5.json\""},
        {"x.json", "not a number"},    {"1e300.json", "1e-130"},  {"5 .json", NULL},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        check_refused(VALUE_N, span_text(numbers[i][0]), ".json", numbers[i][1]);
    static const char *const binaries[] = {"Zg==.json", "Z.json",   "Zh.json",
                                           "+/8.json",  "a b.json", ("aa~" HEX32 ".json"),
                                           "%41.json"};
    for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++)
        check_refused(VALUE_B, span_text(binaries[i]), ".json", "base64url");
}

/* The name of a long part in a table with KEYS: hashed from the first byte too many on, which is
 * one more than MOST, and then of KEY_NAME_MAX bytes. */
static void check_boundary(enum keys_style keys, const char *suffix, size_t most)
{
    const struct table table = {.partition = {.type = VALUE_S}, .keys = keys};
    size_t head = KEY_NAME_MAX - strlen(suffix) - 33;
    char part[400];
    char hex[65];
    cleanup(buf_release) struct buf name;
    cleanup(buf_release) struct buf back;
    buf_init(&name, 1000);
    buf_init(&back, 1000);
    memset(part, 'x', sizeof part);
    key_part_to_name(&table, false, span_of(part, most), suffix, &name);
    check_int(name.len, most + strlen(suffix));
    check_int(key_part_from_name(&table, false, buf_span(&name), suffix, &back, NULL), 0);
    check_int(back.len, most);
    buf_clear(&name);
    buf_clear(&back);
    key_part_to_name(&table, false, span_of(part, most + 1), suffix, &name);
    check_int(name.len, KEY_NAME_MAX);
    sha256_hex(span_of(part, most + 1), hex);
    check_span(span_of(name.data + head, 1), span_text("~"));
    check_span(span_of(name.data + head + 1, 32), span_of(hex, 32));
    check_int(key_part_from_name(&table, false, buf_span(&name), suffix, &back, NULL), 1);
    check_span(buf_span(&back), span_of(part, head));
    /* A written name that is too long is not another way to say it. */
    struct err err = {""};
    memcpy(part + most + 1, suffix, strlen(suffix));
    check_int(key_part_from_name(&table, false, span_of(part, most + 1 + strlen(suffix)), suffix,
                                 &back, &err),
              -EINVAL);
    check(strstr(err.text, name.data) != NULL);
    /* A hashed name with a shorter beginning belongs to no part. */
    char shorter[300];
    int len = snprintf(shorter, sizeof shorter, "%.*s~%.32s%s", (int)head - 4, part, hex, suffix);
    check_int(key_part_from_name(&table, false, span_of(shorter, (size_t)len), suffix, &back, NULL),
              -EINVAL);
}

static void test_boundary(void)
{
    check_boundary(KEYS_PLAIN, ".json", 235);
    check_boundary(KEYS_PLAIN, "", 240);
    check_boundary(KEYS_TAGS, ".json", 250);
    check_boundary(KEYS_TAGS, "", 255);
}

/* Of a table with tag keys only the partition key is made of tags. */
static void test_sort_part_beside_tags(void)
{
    const struct table table = {
        .partition = {.type = VALUE_S}, .sort = {.type = VALUE_N}, .keys = KEYS_TAGS};
    cleanup(buf_release) struct buf name;
    cleanup(buf_release) struct buf back;
    buf_init(&name, 1000);
    buf_init(&back, 1000);
    key_part_to_name(&table, true, span_text("1.5"), ".json", &name);
    check_text(buf_span(&name), "1.5.json");
    check_int(key_part_from_name(&table, true, span_text("1.5.json"), ".json", &back, NULL), 0);
    check_int(key_part_from_name(&table, true, span_text("a.json"), ".json", &back, NULL), -EINVAL);
}

/* Whole characters and escapes only: each kind of unit, shifted over the cut. */
static void test_cut(void)
{
    static const char *const units[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "/"};
    for (size_t unit = 0; unit < 4; unit++) {
        for (size_t shift = 0; shift < 5; shift++) {
            cleanup(buf_release) struct buf part;
            cleanup(buf_release) struct buf name;
            cleanup(buf_release) struct buf back;
            buf_init(&part, 1000);
            buf_init(&name, 1000);
            buf_init(&back, 1000);
            for (size_t i = 0; i < shift; i++)
                buf_add_char(&part, 'x');
            for (int i = 0; i < 130; i++)
                buf_add_text(&part, units[unit]);
            name_from_part(VALUE_S, buf_span(&part), ".json", &name);
            check(name.len <= KEY_NAME_MAX && name.len > KEY_NAME_MAX - 4);
            check_int(name_to_part(VALUE_S, buf_span(&name), ".json", &back, NULL), 1);
            check_span(buf_span(&back), span_of(part.data, back.len));
            check(text_is_utf8(buf_span(&back), true));
        }
    }
}

/* A lookalike whose escaped "~" makes it too long is hashed. */
static void check_long_lookalike(enum keys_style keys, size_t room)
{
    const struct table table = {.partition = {.type = VALUE_S}, .keys = keys};
    char part[300];
    for (size_t head = 196; head <= 220; head++) {
        cleanup(buf_release) struct buf name;
        cleanup(buf_release) struct buf back;
        buf_init(&name, 1000);
        buf_init(&back, 1000);
        memset(part, 'x', head);
        memcpy(part + head, "~" HEX32, 34);
        key_part_to_name(&table, false, span_of(part, head + 33), ".json", &name);
        int want = head + 35 > room;
        check_int(key_part_from_name(&table, false, buf_span(&name), ".json", &back, NULL), want);
        check_span(buf_span(&back), want ? span_of(part, 202) : span_of(part, head + 33));
        check_int(name.len, want ? KEY_NAME_MAX : head + 40);
    }
}

static void test_long_lookalike(void)
{
    check_long_lookalike(KEYS_PLAIN, 235);
    check_long_lookalike(KEYS_TAGS, 250);
}

static void test_binary_boundary(void)
{
    unsigned char part[400];
    for (size_t i = 0; i < sizeof part; i++)
        part[i] = (unsigned char)(i * 7);
    for (size_t len = 170; len < 190; len++) {
        for (int with = 0; with < 2; with++) {
            const char *suffix = with ? ".json" : "";
            cleanup(buf_release) struct buf name;
            cleanup(buf_release) struct buf back;
            buf_init(&name, 1000);
            buf_init(&back, 1000);
            name_from_part(VALUE_B, span_of((char *)part, len), suffix, &name);
            check(name.len <= KEY_NAME_MAX);
            int want = (len * 8 + 5) / 6 + strlen(suffix) > KEY_NAME_MAX;
            check_int(name_to_part(VALUE_B, buf_span(&name), suffix, &back, NULL), want);
            size_t whole = want ? (KEY_NAME_MAX - strlen(suffix) - 33) * 6 / 8 : len;
            check_span(buf_span(&back), span_of((char *)part, whole));
        }
    }
}

/* A random part of valid text, weighted towards what needs care. */
static void random_part(struct buf *part)
{
    static const char *const pieces[] = {"a",        ".",
                                         "/",        "%",
                                         "~",        "_",
                                         "\n",       "\x7f",
                                         "\xc3\xa9", "\xf0\x9f\x98\x80",
                                         "%41",      "%7E",
                                         HEX32,      mark,
                                         ".json",    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
    int count = 1 + rand() % 12;
    buf_clear(part);
    for (int i = 0; i < count; i++)
        buf_add_text(part, pieces[rand() % 16]);
    if (rand() % 8 == 0)
        buf_add_char(part, '\0');
}

static void check_random(enum value_type type, enum keys_style keys, struct span part,
                         struct buf *name, struct buf *back)
{
    const struct table table = {.partition = {.type = type}, .keys = keys};
    size_t max = keys == KEYS_TAGS ? KEY_TAGS_NAME_MAX : KEY_NAME_MAX;
    const char *suffix = rand() % 2 ? ".json" : "";
    buf_clear(name);
    buf_clear(back);
    key_part_to_name(&table, false, part, suffix, name);
    int hashed = key_part_from_name(&table, false, buf_span(name), suffix, back, NULL);
    bool begins = back->len <= part.len && memcmp(back->data, part.data, back->len) == 0;
    if (hashed < 0 || !begins || (!hashed && back->len != part.len) || name->len > max ||
        memchr(name->data, '/', name->len) || name->data[0] == '.')
        check_fail("%.*s is named %s", (int)part.len, part.data, name->data);
}

static void test_random(void)
{
    cleanup(buf_release) struct buf part;
    cleanup(buf_release) struct buf name;
    cleanup(buf_release) struct buf back;
    buf_init(&part, 10000);
    buf_init(&name, 10000);
    buf_init(&back, 10000);
    srand(13);
    for (int round = 0; round < 20000; round++) {
        random_part(&part);
        check_random(VALUE_S, KEYS_PLAIN, buf_span(&part), &name, &back);
        check_random(VALUE_S, KEYS_TAGS, buf_span(&part), &name, &back);
        check_random(VALUE_B, KEYS_PLAIN, buf_span(&part), &name, &back);
    }
}

/* Any bytes as a name are refused or are the one name of what they mean. */
static void test_random_names(void)
{
    cleanup(buf_release) struct buf name;
    cleanup(buf_release) struct buf part;
    cleanup(buf_release) struct buf again;
    buf_init(&name, 10000);
    buf_init(&part, 10000);
    buf_init(&again, 10000);
    srand(14);
    for (int round = 0; round < 20000; round++) {
        random_part(&name);
        buf_add_text(&name, ".json");
        buf_clear(&part);
        buf_clear(&again);
        if (name_to_part(VALUE_S, buf_span(&name), ".json", &part, NULL) != 0)
            continue;
        name_from_part(VALUE_S, buf_span(&part), ".json", &again);
        check_span(buf_span(&again), buf_span(&name));
    }
}

/* PART of the sort key of TABLE is named NAME, and NAME means PART. */
static void check_digits(const struct table *table, const char *part, const char *name)
{
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf back;
    struct err err = {""};
    buf_init(&out, 1000);
    buf_init(&back, 1000);
    key_part_to_name(table, true, span_text(part), ".json", &out);
    check_text(buf_span(&out), name);
    check_int(key_part_from_name(table, true, span_text(name), ".json", &back, &err), 0);
    check_text(buf_span(&back), part);
}

static void check_other_digits(const struct table *table, const char *name, const char *right)
{
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    buf_init(&out, 1000);
    check_int(key_part_from_name(table, true, span_text(name), ".json", &out, &err), -EINVAL);
    check(strstr(err.text, right) != NULL);
    check_int(out.len, 0);
}

static void test_digits(void)
{
    struct table *table = table_new(span_text("t"));
    check_int(key_attribute_parse(span_text("p:N"), &table->partition, NULL), 0);
    check_int(key_attribute_parse(span_text("s:N"), &table->sort, NULL), 0);
    table->sort_digits = 5;
    check_digits(table, "0", "00000.json");
    check_digits(table, "7", "00007.json");
    check_digits(table, "12345", "12345.json");
    check_digits(table, "123456", "123456.json");
    check_digits(table, "-7", "-7.json"); /* not as many digits: order by name is not theirs */
    check_digits(table, "1.5", "1.5.json");
    check_other_digits(table, "7.json", "use \"00007.json\"");
    check_other_digits(table, "000007.json", "use \"00007.json\"");
    check_other_digits(table, "0123456.json", "use \"123456.json\"");
    cleanup(buf_release) struct buf out;
    buf_init(&out, 100);
    key_part_to_name(table, false, span_text("7"), "", &out); /* of the sort key alone */
    check_text(buf_span(&out), "7");
    table_free(table);
}

CHECK_MAIN(CHECK_TEST(test_digits), CHECK_TEST(test_is_item), CHECK_TEST(test_text_names),
           CHECK_TEST(test_other_names), CHECK_TEST(test_lookalikes),
           CHECK_TEST(test_spellings_refused), CHECK_TEST(test_boundary),
           CHECK_TEST(test_sort_part_beside_tags), CHECK_TEST(test_cut),
           CHECK_TEST(test_long_lookalike), CHECK_TEST(test_binary_boundary),
           CHECK_TEST(test_random), CHECK_TEST(test_random_names))
