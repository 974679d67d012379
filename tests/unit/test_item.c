/* SPDX-License-Identifier: MIT */
#include "base/item.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "tests/check.h"

/* Table "t" with the key id (S), TTL attribute "-ttl", and what is given (NULL: none). */
static struct table *make(const char *key, const char *sort, const char *index, const char *other)
{
    struct table *table = table_new(span_text("t"));
    table->ttl_attribute = strdup("-ttl");
    key_attribute_parse(span_text(key), &table->partition, NULL);
    if (sort)
        key_attribute_parse(span_text(sort), &table->sort, NULL);
    table->indexes = calloc(2, sizeof *table->indexes);
    if (index)
        index_parse(span_text(index), &table->indexes[table->index_count++], NULL);
    if (other)
        index_parse(span_text(other), &table->indexes[table->index_count++], NULL);
    check_int(table_check(table, NULL), 0);
    return table;
}

static struct key key_of(const char *partition, const char *sort)
{
    return (struct key){span_text(partition), span_text(sort)};
}

static struct item_facts examine(const struct table *table, struct key key, const char *body)
{
    struct item_facts facts = {0};
    struct err err = {""};
    if (item_examine(table, key, span_text(body), &facts, NULL, &err) != 0)
        check_fail("%s: %s", body, err.text);
    return facts;
}

static void test_facts(void)
{
    struct table *table = make("id", NULL, NULL, NULL);
    struct key key = key_of("a", NULL);
    struct item_facts facts = examine(table, key, "");
    check(facts.is_empty && !facts.is_object && !facts.key_differs && !facts.has_ttl);
    facts = examine(table, key, "{\"id\":\"a\",\"-ttl\":1.7e9}");
    check(facts.is_object && !facts.is_empty && !facts.key_differs && facts.has_ttl);
    check_int(facts.ttl, 1700000000);
    facts = examine(table, key, " {\"\\u0069d\":\"\\u0062\"}");
    check(facts.is_object && facts.key_differs && !facts.has_ttl);
    check(!examine(table, key, "{\"id\":\"\\u0061\"}").key_differs);
    check(examine(table, key, "{\"id\":5}").key_differs);
    check(examine(table, key, "{\"id\":\"\"}").key_differs);
    check(!examine(table, key, "{\"x\":{\"id\":\"b\",\"-ttl\":5}}").key_differs);
    check(!examine(table, key, "{\"x\":{\"id\":\"b\",\"-ttl\":5}}").has_ttl);
    check(!examine(table, key, "5").is_object);
    check(!examine(table, key, "{\"$B\":\"\"}").is_object);
    check(examine(table, key, "{\"$M\":{\"id\":\"b\"}}").is_object);
    check(examine(table, key, "{\"$M\":{\"id\":\"b\"}}").key_differs);
    check_int(examine(table, key, "{\"$M\":{\"-ttl\":7}}").ttl, 7);
    check(!examine(table, key, "{\"$M\":{\"-ttl\":7},\"x\":1}").has_ttl);
    static const char *const never[] = {
        "\"5\"", "1.5", "0", "-5", "null", "[5]", "99999999999999999999"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        char body[100];
        snprintf(body, sizeof body, "{\"-ttl\": %s}", never[i]);
        facts = examine(table, key, body);
        check(facts.has_ttl);
        check_int(facts.ttl, 0);
    }
    table_free(table);
}

static void test_facts_of_other_keys(void)
{
    struct table *table = make("n:N", "b:B", NULL, NULL);
    struct key key = {span_text("15"), span_text("hi")};
    check(!examine(table, key, "{\"n\":1.50e1,\"b\":{\"$B\":\"aGk=\"}}").key_differs);
    check(examine(table, key, "{\"n\":16}").key_differs);
    check(examine(table, key, "{\"n\":\"15\"}").key_differs);
    check(examine(table, key, "{\"n\":1e999}").key_differs);
    check(examine(table, key, "{\"b\":{\"$B\":\"\"}}").key_differs);
    table_free(table);
    table = table_new_default(span_text("t"));
    key = key_of("a_b", NULL);
    check(!examine(table, key, "{\"key\":\"b_a\"}").key_differs);
    check(examine(table, key, "{\"key\":\"b_c\"}").key_differs);
    table_free(table);
}

static void check_refused(const struct table *table, struct key key, const char *body,
                          const char *reason)
{
    struct err err = {""};
    struct item_facts facts;
    bool incomplete = true;
    int error = item_examine(table, key, span_text(body), &facts, &incomplete, &err);
    if (error != -EINVAL || !strstr(err.text, reason) || incomplete)
        check_fail("%s gives %d: %s", body, error, err.text);
}

static void test_refused(void)
{
    struct table *table = make("id", "b:B", "i:s,n:N", "v:$value:N");
    struct key key = key_of("a", "x");
    check_refused(table, key, "{\"id\": null}",
                  "line 1, column 8: \"id\" is the key: it must be a string or a number");
    check_refused(table, key, "{\"id\": [\"a\"]}", "\"id\" is the key");
    check_refused(table, key, "{\"id\": {\"$B\":\"\"}}", "\"id\" is the key");
    check_refused(table, key, "{\"b\": \"x\"}", "\"b\" is the key: it must be {\"$B\": ..}");
    check_refused(table, key, "{\"b\": {\"a\":1}}", "\"b\" is the key");
    check_refused(table, key, "{\"s\": 5}",
                  "\"s\" is a key of the index \"i\": it must be a string that is not empty");
    check_refused(table, key, "{\"s\": \"\"}", "index \"i\"");
    check_refused(table, key, "{\"s\": null}", "index \"i\"");
    check_refused(table, key, "{\"n\": \"5\"}", "index \"i\": it must be a number");
    check_refused(table, key, "{\"n\": 1e999}", "index \"i\"");
    check_refused(table, key, "\"x\"", "index \"v\"");
    check_refused(table, key, "{\"x\": {\"$B\": 1}}", "{\"$M\": {\"$B\": ..}}");
    examine(table, key, "{\"s\": \"\\u0061\", \"n\": 1e3, \"x\": {\"s\": 5}}");
    examine(table, key, "5");
    examine(table, key, "{\"$value\": 5}");
    examine(table, key, "{\"$schema\": \"s\", \"x\": {\"$ref\": \"#/a\"}}");
    table_free(table);
}

static void test_incomplete(void)
{
    struct table *table = make("id", NULL, NULL, NULL);
    struct item_facts facts;
    static const char *const texts[] = {" ", "{\"a\": ", "{\"$M\": {", "{\"$M\": {}", "{\"a\": [1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bool incomplete = false;
        check_int(
            item_examine(table, key_of("a", NULL), span_text(texts[i]), &facts, &incomplete, NULL),
            -EINVAL);
        check(incomplete);
    }
    table_free(table);
}

/* BODY is the item TYPED; what is written for that item is WANT and TTL, and reads as the same. */
static void check_body(const struct table *table, const char *body, int64_t ttl, const char *typed,
                       const char *want, int64_t want_ttl)
{
    struct key key = key_of("a", "7");
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    cleanup(value_release) struct value item = {0};
    struct err err = {""};
    int64_t got_ttl = -1;
    buf_init(&out, 10000);
    buf_init(&partition, 1000);
    buf_init(&sort, 1000);
    check_int(item_to_typed(table, key, span_text(body), ttl, &out, &err), 0);
    check_text(buf_span(&out), typed);
    check_int(item_from_typed(table, buf_span(&out), &item, &partition, &sort, &err), 0);
    check_text(buf_span(&partition), "a");
    check_text(buf_span(&sort), table_sorted(table) ? "7" : "");
    buf_clear(&out);
    check_int(item_to_body(table, &item, &out, &got_ttl, &err), 0);
    check_text(buf_span(&out), want);
    check_int(got_ttl, want_ttl);
    cleanup(buf_release) struct buf again;
    buf_init(&again, 10000);
    struct item_facts facts;
    check_int(item_examine(table, key, buf_span(&out), &facts, NULL, &err), 0);
    check_int(item_to_typed(table, key, buf_span(&out), got_ttl, &again, &err), 0);
    check_text(buf_span(&again), typed);
    if (err.text[0])
        check_fail("%s: %s", body, err.text);
}

static void test_bodies(void)
{
    struct table *table = make("id", NULL, NULL, NULL);
    const char *only = "{\"id\":{\"S\":\"a\"}}";
    check_body(table, "", 0, only, "{\n  \"id\": \"a\"\n}\n", 0);
    check_body(table, "{}", 0, only, "{\n  \"id\": \"a\"\n}\n", 0);
    check_body(table, "{\"z\":1,\"id\":\"other\",\"b\":[]}", 0,
               "{\"b\":{\"L\":[]},\"id\":{\"S\":\"a\"},\"z\":{\"N\":\"1\"}}",
               "{\n  \"id\": \"a\",\n  \"b\": [],\n  \"z\": 1\n}\n", 0);
    table->show_keys = false;
    check_body(table, "", 0, only, "{}\n", 0);
    check_body(table, "{\"z\":1}", 0, "{\"id\":{\"S\":\"a\"},\"z\":{\"N\":\"1\"}}",
               "{\n  \"z\": 1\n}\n", 0);
    check_body(table, "{\"-ttl\":5}", 0, "{\"-ttl\":{\"N\":\"5\"},\"id\":{\"S\":\"a\"}}",
               "{\n  \"-ttl\": 5\n}\n", 0);
    check_body(table, "{\"$x\":1}", 0, "{\"$x\":{\"N\":\"1\"},\"id\":{\"S\":\"a\"}}",
               "{\n  \"$x\": 1\n}\n", 0);
    check_body(table, "{\"$M\":{\"$B\":\"aGk=\"}}", 0,
               "{\"$B\":{\"S\":\"aGk=\"},\"id\":{\"S\":\"a\"}}",
               "{\n  \"$M\": {\n    \"$B\": \"aGk=\"\n  }\n}\n", 0);
    table_free(table);
    table = make("id", "n:N", NULL, NULL);
    check_body(table, "{\"b\":1,\"n\":8}", 0,
               "{\"b\":{\"N\":\"1\"},\"id\":{\"S\":\"a\"},\"n\":{\"N\":\"7\"}}",
               "{\n  \"id\": \"a\",\n  \"n\": 7,\n  \"b\": 1\n}\n", 0);
    table_free(table);
}

static void test_bare_bodies(void)
{
    struct table *table = make("id", NULL, NULL, NULL);
    check_body(table, "5", 0, "{\"$value\":{\"N\":\"5\"},\"id\":{\"S\":\"a\"}}", "5\n", 0);
    check_body(
        table, " [1, {\"b\": 2, \"a\": 1}] ", 0,
        "{\"$value\":{\"L\":[{\"N\":\"1\"},{\"M\":{\"a\":{\"N\":\"1\"},\"b\":{\"N\":\"2\"}}}]"
        "},\"id\":{\"S\":\"a\"}}",
        "[1,{\"a\":1,\"b\":2}]\n", 0);
    check_body(table, "{\"$SS\": [\"x\"]}", 0, "{\"$value\":{\"SS\":[\"x\"]},\"id\":{\"S\":\"a\"}}",
               "{\"$SS\":[\"x\"]}\n", 0);
    check_body(table, "null", 77,
               "{\"$value\":{\"NULL\":true},\"-ttl\":{\"N\":\"77\"},\"id\":{\"S\":\"a\"}}",
               "null\n", 77);
    check_body(table, "{\"$value\":5}", 0, "{\"$value\":{\"N\":\"5\"},\"id\":{\"S\":\"a\"}}", "5\n",
               0);
    check_body(table, "{\"id\":\"a\",\"$value\":5,\"-ttl\":9}", 0,
               "{\"$value\":{\"N\":\"5\"},\"-ttl\":{\"N\":\"9\"},\"id\":{\"S\":\"a\"}}", "5\n", 9);
    /* What a bare body could not tell stays an object. */
    table->show_keys = false;
    check_body(table, "{\"$value\":5,\"x\":1}", 0,
               "{\"$value\":{\"N\":\"5\"},\"id\":{\"S\":\"a\"},\"x\":{\"N\":\"1\"}}",
               "{\n  \"$value\": 5,\n  \"x\": 1\n}\n", 0);
    check_body(table, "{\"$value\":5,\"-ttl\":\"x\"}", 0,
               "{\"$value\":{\"N\":\"5\"},\"-ttl\":{\"S\":\"x\"},\"id\":{\"S\":\"a\"}}",
               "{\n  \"$value\": 5,\n  \"-ttl\": \"x\"\n}\n", 0);
    check_body(table, "{\"$value\":5,\"-ttl\":0}", 0,
               "{\"$value\":{\"N\":\"5\"},\"-ttl\":{\"N\":\"0\"},\"id\":{\"S\":\"a\"}}",
               "{\n  \"$value\": 5,\n  \"-ttl\": 0\n}\n", 0);
    check_body(table, "{\"$value\":{\"b\":1}}", 0,
               "{\"$value\":{\"M\":{\"b\":{\"N\":\"1\"}}},\"id\":{\"S\":\"a\"}}",
               "{\n  \"$value\": {\n    \"b\": 1\n  }\n}\n", 0);
    table_free(table);
}

static void test_typed_items_refused(void)
{
    static const char *const bad[] = {
        "{}",
        "{\"id\":{\"N\":\"1\"},\"n\":{\"N\":\"1\"}}",
        "{\"id\":{\"S\":\"\"},\"n\":{\"N\":\"1\"}}",
        "{\"id\":{\"S\":\"a\"}}",
        "{\"id\":{\"S\":\"a\"},\"n\":{\"S\":\"1\"}}",
        "{\"id\":\"a\",\"n\":{\"N\":\"1\"}}",
        "[]",
    };
    struct table *table = make("id", "n:N", NULL, NULL);
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    buf_init(&partition, 1000);
    buf_init(&sort, 1000);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct value item;
        struct err err = {""};
        int error = item_from_typed(table, span_text(bad[i]), &item, &partition, &sort, &err);
        if (error != -EINVAL || err.text[0] == '\0')
            check_fail("%s gives %d: %s", bad[i], error, err.text);
    }
    struct value item;
    buf_clear(&partition);
    check_int(item_from_typed(table, span_text("{\"id\":{\"S\":\"a\"},\"n\":{\"N\":\"+01.50\"}}"),
                              &item, &partition, &sort, NULL),
              0);
    check_text(buf_span(&sort), "1.5");
    check_text(value_text(value_member(&item, span_text("n"))), "1.5");
    value_release(&item);
    table_free(table);
}

static void test_typed_files(void)
{
    struct table *table = make("id", "n:N", NULL, NULL);
    struct key key = key_of("a", "7");
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    int64_t ttl = -1;
    buf_init(&out, 10000);
    check_int(item_body_to_typed_file(table, key, span_text("{\"z\":{\"$B\":\"\"},\"b\":[1]}"), 0,
                                      &out, &err),
              0);
    const char *file = "{\n"
                       "  \"id\": {\"S\":\"a\"},\n"
                       "  \"n\": {\"N\":\"7\"},\n"
                       "  \"b\": {\"L\":[{\"N\":\"1\"}]},\n"
                       "  \"z\": {\"B\":\"\"}\n"
                       "}\n";
    check_text(buf_span(&out), file);
    buf_clear(&out);
    check_int(item_body_from_typed_file(table, key, span_text(file), &out, &ttl, &err), 0);
    check_text(buf_span(&out), "{\n  \"id\": \"a\",\n  \"n\": 7,\n  \"b\": [\n    1\n  ],\n"
                               "  \"z\": {\n    \"$B\": \"\"\n  }\n}\n");
    check_int(ttl, 0);
    /* The name wins over what the file says of the key; a bare value keeps its TTL beside. */
    buf_clear(&out);
    check_int(
        item_body_from_typed_file(
            table, key,
            span_text("{\"id\":{\"N\":\"9\"},\"$value\":{\"N\":\"5\"},\"-ttl\":{\"N\":\"9\"}}"),
            &out, &ttl, &err),
        0);
    check_text(buf_span(&out), "5\n");
    check_int(ttl, 9);
    buf_clear(&out);
    check_int(item_body_to_typed_file(table, key, span_text("5"), 9, &out, &err), 0);
    check_text(buf_span(&out), "{\n  \"id\": {\"S\":\"a\"},\n  \"n\": {\"N\":\"7\"},\n"
                               "  \"$value\": {\"N\":\"5\"},\n  \"-ttl\": {\"N\":\"9\"}\n}\n");
    buf_clear(&out);
    check_int(item_body_to_typed_file(table, key, span_text(""), 0, &out, &err), 0);
    check_int(out.len, 0);
    check_int(item_body_from_typed_file(table, key, span_text(""), &out, &ttl, &err), 0);
    check_int(out.len + (size_t)ttl, 0);
    check_int(item_body_from_typed_file(table, key, span_text("{\"id\":{\"NULL\":true}}"), &out,
                                        &ttl, &err),
              -EINVAL);
    check_text(span_text(err.text), "\"id\" is the key: it must be of type S");
    table_free(table);
}

struct seen {
    char text[200];
    int stop;
};

static int note_index(void *context, size_t index, struct span partition, struct span sort)
{
    struct seen *seen = context;
    size_t len = strlen(seen->text);
    snprintf(seen->text + len, sizeof seen->text - len, "%zu:%.*s/%.*s ", index, (int)partition.len,
             partition.data, (int)sort.len, sort.data);
    return seen->stop;
}

static void check_index_keys(const struct table *table, const char *body, int64_t ttl,
                             const char *want)
{
    struct seen seen = {"", 0};
    struct err err = {""};
    check_int(
        item_index_keys(table, key_of("a", "7"), span_text(body), ttl, note_index, &seen, &err), 0);
    if (strcmp(seen.text, want) != 0)
        check_fail("%s has \"%s\", not \"%s\"", body, seen.text, want);
}

static void test_index_keys(void)
{
    struct table *table = make("id", "n:N", "i:s,x:N", "j:-ttl:N,id");
    check_index_keys(table, "{}", 0, "");
    check_index_keys(table, "", 0, "");
    check_index_keys(table, "{\"s\":\"o\"}", 0, "");
    check_index_keys(table, "{\"x\":1}", 0, "");
    check_index_keys(table, "{\"s\":\"\\u006f\",\"x\":1.50e1}", 0, "0:o/15 ");
    check_index_keys(table, "{\"s\":\"o\",\"x\":\"1\"}", 0, "");
    check_index_keys(table, "{\"s\":\"\",\"x\":1}", 0, "");
    check_index_keys(table, "{\"x\":2,\"s\":\"o\",\"-ttl\":50,\"id\":\"ignored\"}", 0,
                     "0:o/2 1:50/a ");
    check_index_keys(table, "5", 60, "1:60/a ");
    check_index_keys(table, "{\"$M\":{\"s\":\"o\",\"x\":1}}", 0, "0:o/1 ");
    check_index_keys(table, "{\"y\":{\"s\":\"o\",\"x\":1}}", 0, "");
    struct seen seen = {"", 5};
    check_int(item_index_keys(table, key_of("a", "7"), span_text("{\"s\":\"o\",\"x\":1}"), 9,
                              note_index, &seen, NULL),
              5);
    check_text(span_text(seen.text), "0:o/1 ");
    table_free(table);
    table = make("id", NULL, "v:$value:N", "b:d:B");
    check_index_keys(table, "5e1", 0, "0:50/ ");
    check_index_keys(table, "\"x\"", 0, "");
    check_index_keys(table, "{\"d\":{\"$B\":\"aGk=\"}}", 0, "1:hi/ ");
    table_free(table);
}

/* Typed form reaches as deep as plain form does; a wrapper that would be one level too many is
 * refused. */
static void test_depth(void)
{
    struct table *table = make("id", NULL, NULL, NULL);
    cleanup(buf_release) struct buf typed;
    cleanup(buf_release) struct buf out;
    buf_init(&typed, 1 << 20);
    buf_init(&out, 1 << 20);
    for (int extra = 0; extra < 2; extra++) {
        cleanup(value_release) struct value item = {0};
        struct err err = {""};
        int64_t ttl;
        buf_clear(&typed);
        buf_clear(&out);
        buf_add_text(&typed, "{\"id\":{\"S\":\"a\"},\"$B\":");
        for (int i = 0; i < JSON_DEPTH_MAX - 2 + extra; i++)
            buf_add_text(&typed, "{\"L\":[");
        for (int i = 0; i < JSON_DEPTH_MAX - 2 + extra; i++)
            buf_add_text(&typed, "]}");
        buf_add_text(&typed, "}");
        table->show_keys = false;
        check_int(item_from_typed(table, buf_span(&typed), &item, &out, &out, &err), 0);
        check_int(item_to_body(table, &item, &out, &ttl, &err), extra ? -EINVAL : 0);
    }
    table_free(table);
}

static void test_expired(void)
{
    check(!item_expired(0, 100));
    check(item_expired(100, 100));
    check(!item_expired(101, 100));
    check(!item_expired(-5, 100));
}

CHECK_MAIN(CHECK_TEST(test_facts), CHECK_TEST(test_facts_of_other_keys), CHECK_TEST(test_refused),
           CHECK_TEST(test_incomplete), CHECK_TEST(test_bodies), CHECK_TEST(test_bare_bodies),
           CHECK_TEST(test_typed_items_refused), CHECK_TEST(test_typed_files),
           CHECK_TEST(test_index_keys), CHECK_TEST(test_depth), CHECK_TEST(test_expired))
