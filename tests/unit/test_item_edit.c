/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item.h"
#include "tests/check.h"

static const struct key the_key = {{"a", 1}, {NULL, 0}};

static struct table *make(const char *key, const char *ttl)
{
    struct table *table = table_new(span_text("t"));
    table->ttl_attribute = ttl ? strdup(ttl) : NULL;
    key_attribute_parse(span_text(key), &table->partition, NULL);
    return table;
}

static void check_fit(const struct table *table, struct key key, const char *body, const char *want)
{
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    struct item_facts facts;
    buf_init(&out, 10000);
    if (item_fit_key(table, key, span_text(body), &out, &err) != 0)
        check_fail("%s: %s", body, err.text);
    check_text(buf_span(&out), want);
    check_int(item_examine(table, key, buf_span(&out), &facts, NULL, &err), 0);
    check(!facts.key_differs);
}

static void test_fit_key(void)
{
    struct table *table = make("id", NULL);
    check_fit(table, the_key, "", "");
    check_fit(table, the_key, "5\n", "5\n");
    check_fit(table, the_key, " { \"x\" : 1 } ", " { \"x\" : 1 } ");
    check_fit(table, the_key, "{\"x\":1,\n \"id\" : \"b\" ,\"y\":\"\\/\"}\n",
              "{\"x\":1,\n \"id\" : \"a\" ,\"y\":\"\\/\"}\n");
    check_fit(table, the_key, "{\"id\":\"\\u0061\"}", "{\"id\":\"\\u0061\"}");
    check_fit(table, the_key, "{\"id\":5,\"x\":{\"id\":5}}", "{\"id\":\"a\",\"x\":{\"id\":5}}");
    check_fit(table, the_key, "{\"$M\":{\"id\":\"b\"}}", "{\"$M\":{\"id\":\"a\"}}");
    check_fit(table, (struct key){{"a\"\0", 3}, {NULL, 0}}, "{\"id\":\"b\"}",
              "{\"id\":\"a\\\"\\u0000\"}");
    table_free(table);
    table = make("id:B", NULL);
    check_fit(table, (struct key){{"hi", 2}, {NULL, 0}}, "{\"id\": {\"$B\":\"\"}, \"x\":1}",
              "{\"id\": {\"$B\": \"aGk=\"}, \"x\":1}");
    table_free(table);
    table = make("n:N", NULL);
    key_attribute_parse(span_text("s"), &table->sort, NULL);
    check_fit(table, (struct key){{"15", 2}, {"x", 1}}, "{\"s\":\"y\",\"n\":3}",
              "{\"s\":\"x\",\"n\":15}");
    check_fit(table, (struct key){{"15", 2}, {"x", 1}}, "{\"s\":\"x\",\"n\":1.5e1}",
              "{\"s\":\"x\",\"n\":1.5e1}");
    struct err err = {""};
    cleanup(buf_release) struct buf out;
    buf_init(&out, 100);
    check_int(item_fit_key(table, the_key, span_text("{\"n\": [1]}"), &out, &err), -EINVAL);
    check(err.text[0] != '\0');
    table_free(table);
}

static void check_ttl(const struct table *table, const char *body, int64_t seconds,
                      const char *want)
{
    cleanup(buf_release) struct buf out;
    struct err err = {""};
    struct item_facts facts;
    buf_init(&out, 10000);
    if (item_set_ttl(table, span_text(body), seconds, &out, &err) != 0)
        check_fail("%s: %s", body, err.text);
    check_text(buf_span(&out), want);
    check_int(item_examine(table, the_key, buf_span(&out), &facts, NULL, &err), 0);
    check_int(facts.ttl, seconds);
    check_int(facts.has_ttl, seconds != 0);
}

static void test_set_ttl(void)
{
    struct table *table = make("id", "-ttl");
    check_ttl(table, "{\"a\": 1, \"-ttl\" : 5 }\n", 7, "{\"a\": 1, \"-ttl\" : 7 }\n");
    check_ttl(table, "{\"-ttl\":\"never\"}", 7, "{\"-ttl\":7}");
    check_ttl(table, "{\"\\u002dttl\":[1,2]}", 7, "{\"\\u002dttl\":7}");
    check_ttl(table, "{\"x\":{\"-ttl\":1}}", 7, "{\"x\":{\"-ttl\":1},\"-ttl\":7}");
    table_free(table);
}

static void test_add_ttl(void)
{
    struct table *table = make("id", "-ttl");
    check_ttl(table, "", 7, "{\"-ttl\": 7}\n");
    check_ttl(table, "{}", 7, "{\"-ttl\": 7}");
    check_ttl(table, "{\"a\":1}", 7, "{\"a\":1,\"-ttl\":7}");
    check_ttl(table, "{\"a\": 1}", 7, "{\"a\": 1, \"-ttl\": 7}");
    check_ttl(table, "{ \"a\" : 1 }", 7, "{ \"a\" : 1, \"-ttl\" : 7 }");
    check_ttl(table, "{\"a\": 1, \"b\": [\n]}", 7, "{\"a\": 1, \"b\": [\n], \"-ttl\": 7}");
    check_ttl(table, "{\n  \"a\": 1\n}\n", 7, "{\n  \"a\": 1,\n  \"-ttl\": 7\n}\n");
    check_ttl(table, "{\r\n\t\"a\":1,\r\n\t\"b\":2\r\n}", 7,
              "{\r\n\t\"a\":1,\r\n\t\"b\":2,\r\n\t\"-ttl\":7\r\n}");
    check_ttl(table, "{ \"a\": 1\n, \"b\": 2\n}", 7, "{ \"a\": 1\n, \"b\": 2, \"-ttl\": 7\n}");
    check_ttl(table, "{\"$M\": {\"$x\": 1}}", 7, "{\"$M\": {\"$x\": 1, \"-ttl\": 7}}");
    check_ttl(table, "{\"a\": \"x,y\", \"b\": \",\"}", 7,
              "{\"a\": \"x,y\", \"b\": \",\", \"-ttl\": 7}");
    table_free(table);
}

static void test_remove_ttl(void)
{
    struct table *table = make("id", "-ttl");
    check_ttl(table, "", 0, "");
    check_ttl(table, "{\"a\":1}\n", 0, "{\"a\":1}\n");
    check_ttl(table, "{\"-ttl\": 5}", 0, "{}");
    check_ttl(table, "{\n  \"-ttl\": 5\n}\n", 0, "{}\n");
    check_ttl(table, "{\"-ttl\": 5, \"a\": 1}", 0, "{\"a\": 1}");
    check_ttl(table, "{\"a\": 1, \"-ttl\": 5}", 0, "{\"a\": 1}");
    check_ttl(table, "{\"a\": 1, \"-ttl\": 5, \"b\": 2}", 0, "{\"a\": 1, \"b\": 2}");
    check_ttl(table, "{\n  \"a\": 1,\n  \"-ttl\": 5\n}\n", 0, "{\n  \"a\": 1\n}\n");
    check_ttl(table, "{\n  \"-ttl\": 5,\n  \"a\": 1\n}\n", 0, "{\n  \"a\": 1\n}\n");
    check_ttl(table, "{\"$M\": {\"-ttl\": 5}}", 0, "{\"$M\": {}}");
    table_free(table);
}

/* An edit must not turn an object into something that reads as a form, or as none at all. */
static void test_ttl_and_forms(void)
{
    struct table *table = make("id", "-ttl");
    check_ttl(table, " {\"-ttl\": 5, \"$x\": 1}\n", 0, " {\"$M\": {\"$x\": 1}}\n");
    check_ttl(table, "{\"$B\": \"aGk=\", \"-ttl\": 5}", 0, "{\"$M\": {\"$B\": \"aGk=\"}}");
    check_ttl(table, "{\"$x\": 1, \"-ttl\": 5, \"b\": 2}", 0, "{\"$x\": 1, \"b\": 2}");
    check_ttl(table, "{\"$M\": {\"$x\": 1, \"-ttl\": 5}}", 0, "{\"$M\": {\"$x\": 1}}");
    check_ttl(table, "{\"\\u0024x\": 1, \"-ttl\": 5}", 0, "{\"$M\": {\"\\u0024x\": 1}}");
    table_free(table);
    table = make("id", "$ttl");
    check_ttl(table, "{}", 7, "{\"$M\": {\"$ttl\": 7}}");
    check_ttl(table, "{\"a\":1}", 7, "{\"a\":1,\"$ttl\":7}");
    check_ttl(table, "{\"$M\": {\"$ttl\": 7}}", 9, "{\"$M\": {\"$ttl\": 9}}");
    table_free(table);
}

static void test_ttl_refused(void)
{
    static const char *const bodies[] = {"5", "\"x\"", "[{}]", "{\"$B\": \"\"}", "{\"a\": }"};
    struct table *table = make("id", "-ttl");
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct err err = {""};
        check_int(item_set_ttl(table, span_text(bodies[i]), 5, &out, &err), -EINVAL);
        check(err.text[0] != '\0');
    }
    table_free(table);
    table = make("id", NULL);
    check_int(item_set_ttl(table, span_text("{}"), 5, &out, NULL), -EINVAL);
    check_int(out.len, 0);
    table_free(table);
}

/* The limit of the output is an error of its own. */
static void test_too_large(void)
{
    struct table *table = make("id", "-ttl");
    cleanup(buf_release) struct buf out;
    buf_init(&out, 10);
    check_int(item_set_ttl(table, span_text("{\"a\": 1}"), 5, &out, NULL), -EFBIG);
    buf_clear(&out);
    check_int(item_fit_key(table, the_key, span_text("{\"a\": 1111}"), &out, NULL), -EFBIG);
    table_free(table);
}

CHECK_MAIN(CHECK_TEST(test_fit_key), CHECK_TEST(test_set_ttl), CHECK_TEST(test_add_ttl),
           CHECK_TEST(test_remove_ttl), CHECK_TEST(test_ttl_and_forms),
           CHECK_TEST(test_ttl_refused), CHECK_TEST(test_too_large))
