/* SPDX-License-Identifier: MIT */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/check.h"

static void test_names(void)
{
    static const char *const good[] = {"users", "a", "Ключ", "with space", "a.b", "-x", "a%2Fb"};
    static const char *const bad[] = {"",     ".",    "..",   ".git", "a/b",
                                      "a\nb", "\x7f", "\xff", "a\x01"};
    char longest[TABLE_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_int(table_check_name(span_text(good[i]), NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {""};
        check_int(table_check_name(span_text(bad[i]), &err), -EINVAL);
        check(err.text[0] != '\0');
    }
    check_int(table_check_name(span_of(longest, TABLE_NAME_MAX), NULL), 0);
    check_int(table_check_name(span_of(longest, TABLE_NAME_MAX + 1), NULL), -EINVAL);
    check_int(table_check_name(span_of("a\0b", 3), NULL), -EINVAL);
}

static void check_attribute(const char *text, int want, const char *name, enum value_type type)
{
    struct key_attribute attribute = {0};
    struct err err = {""};
    int error = key_attribute_parse(span_text(text), &attribute, &err);
    if (error != want)
        check_fail("%s gives %d: %s", text, error, err.text);
    if (want == 0) {
        check_text(span_text(attribute.name), name);
        check_int(attribute.type, type);
    }
    key_attribute_release(&attribute);
}

static void test_attribute_parse(void)
{
    check_attribute("id", 0, "id", VALUE_S);
    check_attribute("id:S", 0, "id", VALUE_S);
    check_attribute("id:N", 0, "id", VALUE_N);
    check_attribute("id:B", 0, "id", VALUE_B);
    check_attribute("a:b:N", 0, "a:b", VALUE_N);
    check_attribute("a:b", -EINVAL, "", VALUE_S);
    check_attribute("a:s", -EINVAL, "", VALUE_S);
    check_attribute("a:BOOL", -EINVAL, "", VALUE_S);
    check_attribute("a:", -EINVAL, "", VALUE_S);
    check_attribute(":N", -EINVAL, "", VALUE_S);
    check_attribute("", -EINVAL, "", VALUE_S);
}

static void test_index_parse(void)
{
    struct index index = {0};
    check_int(index_parse(span_text("by-status:status"), &index, NULL), 0);
    check_text(span_text(index.name), "by-status");
    check_text(span_text(index.partition.name), "status");
    check_int(index.partition.type, VALUE_S);
    check(index.sort.name == NULL);
    index_release(&index);
    check_int(index_parse(span_text("i:a:B,b:N"), &index, NULL), 0);
    check_text(span_text(index.partition.name), "a");
    check_int(index.partition.type, VALUE_B);
    check_text(span_text(index.sort.name), "b");
    check_int(index.sort.type, VALUE_N);
    index_release(&index);
    static const char *const bad[] = {"",     "i",    "i:",      ":a",      "i:a:X",
                                      "i:a,", "i:,b", "i:a,b:Q", "i:a,b:N,"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {""};
        if (index_parse(span_text(bad[i]), &index, &err) != -EINVAL || err.text[0] == '\0')
            check_fail("%s is taken", bad[i]);
    }
    struct err err = {""};
    check_int(index_parse(span_text("i:a,b,c"), &index, &err), -EINVAL);
    check_text(span_text(err.text), "\"i:a,b,c\": an index has at most two attributes, PK and SK");
}

/* A table "t" with the key NAME[:TYPE] and indexes of one text each, NULL for none. */
static struct table *make(const char *key, const char *sort, const char *first, const char *second)
{
    struct table *table = table_new(span_text("t"));
    key_attribute_parse(span_text(key), &table->partition, NULL);
    if (sort)
        key_attribute_parse(span_text(sort), &table->sort, NULL);
    table->indexes = calloc(2, sizeof *table->indexes);
    const char *const texts[] = {first, second};
    for (size_t i = 0; i < 2 && texts[i]; i++)
        check_int(index_parse(span_text(texts[i]), &table->indexes[table->index_count++], NULL), 0);
    return table;
}

static void check_table(struct table *table, const char *ttl, int want)
{
    struct err err = {""};
    table->ttl_attribute = ttl ? strdup(ttl) : NULL;
    int error = table_check(table, &err);
    if (error != want || (error && err.text[0] == '\0'))
        check_fail("key %s gives %d: %s", table->partition.name, error, err.text);
    table_free(table);
}

static void test_check(void)
{
    check_table(make("id", NULL, NULL, NULL), NULL, 0);
    check_table(make("id:B", "n:N", "i:a,b", "j:b,a:S"), "-ttl", 0);
    check_table(make("id", NULL, "i:id,n:N", NULL), "n", 0);
    check_table(make("id", NULL, "i:$value", NULL), NULL, 0);
    check_table(make("id", "id", NULL, NULL), NULL, -EINVAL);
    check_table(make("$value", NULL, NULL, NULL), NULL, -EINVAL);
    check_table(make("id", "$value", NULL, NULL), NULL, -EINVAL);
    check_table(make("id", NULL, NULL, NULL), "id", -EINVAL);
    check_table(make("id", "s", NULL, NULL), "s", -EINVAL);
    check_table(make("id", NULL, NULL, NULL), "$value", -EINVAL);
    check_table(make("id", NULL, NULL, NULL), "", -EINVAL);
    check_table(make("id", NULL, "i:id:N", NULL), NULL, -EINVAL);
    check_table(make("id", NULL, "i:a:N", "j:a:S"), NULL, -EINVAL);
    check_table(make("id", NULL, "i:t:S", NULL), "t", -EINVAL);
    check_table(make("id", NULL, "i:a,a", NULL), NULL, -EINVAL);
    check_table(make("id", NULL, "i:a", "i:b"), NULL, -EINVAL);
    check_table(make("id", NULL, ".i:a", NULL), NULL, -EINVAL);
    check_table(make("id", NULL, "a/b:a", NULL), NULL, -EINVAL);
    check_table(make("\xff", NULL, NULL, NULL), NULL, -EINVAL);
    check_table(table_new(span_text("nokey")), NULL, -EINVAL);
    struct table *tags = make("id:N", NULL, NULL, NULL);
    tags->keys = KEYS_TAGS;
    check_table(tags, NULL, -EINVAL);
    struct table *typed = make("id", NULL, NULL, NULL);
    typed->partition.type = VALUE_L;
    check_table(typed, NULL, -EINVAL);
}

static void test_defaults_and_copy(void)
{
    struct table *plain = table_new(span_of("names", 4));
    check_text(span_text(plain->name), "name");
    check(plain->show_keys && plain->keys == KEYS_PLAIN && !plain->ttl_attribute);
    table_free(plain);
    struct table *table = table_new_default(span_text("users"));
    check_int(table_check(table, NULL), 0);
    check_text(span_text(table->partition.name), "key");
    check_text(span_text(table->ttl_attribute), "-ttl");
    check(table->keys == KEYS_TAGS && table->stream && !table->show_keys && !table_sorted(table));
    table_free(table);
    table = make("id", "n:N", "i:a,b:N", "j:c");
    table->id = 7;
    struct table *copy = table_copy(table);
    table_free(table);
    check_int(copy->id, 7);
    check_text(span_text(copy->sort.name), "n");
    check_int(copy->index_count, 2);
    check_text(span_text(copy->indexes[0].sort.name), "b");
    check(table_index(copy, span_text("j")) == &copy->indexes[1]);
    check(table_index(copy, span_text("k")) == NULL);
    table_free(copy);
    table_free(NULL);
}

static void test_equal(void)
{
    struct table *table = make("id", "n:N", "i:a,b:N", "j:c");
    struct table *copy = table_copy(table);
    copy->changed_ns = 5;
    check(table_equal(table, copy)); /* but for times */
    copy->stream = !copy->stream;
    check(!table_equal(table, copy));
    copy->stream = table->stream;
    copy->id = 9;
    check(!table_equal(table, copy));
    copy->id = table->id;
    copy->indexes[1].partition.type = VALUE_N;
    check(!table_equal(table, copy));
    copy->indexes[1].partition.type = VALUE_S;
    check(table_equal(table, copy));
    copy->index_count = 1;
    check(!table_equal(table, copy));
    copy->index_count = 2;
    free(copy->ttl_attribute);
    copy->ttl_attribute = strdup("expires");
    check(!table_equal(table, copy));
    table_free(table);
    table_free(copy);
}

static void test_json(void)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 10000);
    struct table *table = table_new_default(span_text("us\"ers"));
    table->created_ns = INT64_C(1700000000123456789);
    table_to_json(table, &out);
    table_free(table);
    check_text(buf_span(&out), "{\n"
                               "  \"TableName\": \"us\\\"ers\",\n"
                               "  \"KeySchema\": [\n"
                               "    {\"AttributeName\": \"key\", \"KeyType\": \"HASH\", "
                               "\"AttributeType\": \"S\"}\n"
                               "  ],\n"
                               "  \"Keys\": \"tags\",\n"
                               "  \"TimeToLive\": \"-ttl\",\n"
                               "  \"Stream\": true,\n"
                               "  \"Indexes\": [],\n"
                               "  \"Created\": \"2023-11-14T22:13:20Z\"\n"
                               "}\n");
    buf_clear(&out);
    table = make("id", "n:N", "i:a,b:N", NULL);
    table_to_json(table, &out);
    table_free(table);
    check_text(buf_span(&out), "{\n"
                               "  \"TableName\": \"t\",\n"
                               "  \"KeySchema\": [\n"
                               "    {\"AttributeName\": \"id\", \"KeyType\": \"HASH\", "
                               "\"AttributeType\": \"S\"},\n"
                               "    {\"AttributeName\": \"n\", \"KeyType\": \"RANGE\", "
                               "\"AttributeType\": \"N\"}\n"
                               "  ],\n"
                               "  \"Keys\": \"plain\",\n"
                               "  \"TimeToLive\": null,\n"
                               "  \"Stream\": false,\n"
                               "  \"Indexes\": [\n"
                               "    {\n"
                               "      \"IndexName\": \"i\",\n"
                               "      \"KeySchema\": [\n"
                               "        {\"AttributeName\": \"a\", \"KeyType\": \"HASH\", "
                               "\"AttributeType\": \"S\"},\n"
                               "        {\"AttributeName\": \"b\", \"KeyType\": \"RANGE\", "
                               "\"AttributeType\": \"N\"}\n"
                               "      ]\n"
                               "    }\n"
                               "  ],\n"
                               "  \"Created\": \"1970-01-01T00:00:00Z\"\n"
                               "}\n");
}

CHECK_MAIN(CHECK_TEST(test_names), CHECK_TEST(test_attribute_parse), CHECK_TEST(test_index_parse),
           CHECK_TEST(test_check), CHECK_TEST(test_defaults_and_copy), CHECK_TEST(test_equal),
           CHECK_TEST(test_json))
