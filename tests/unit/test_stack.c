/* SPDX-License-Identifier: MIT */
#include "base/stack.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "tests/check.h"

#define TABLE(members) "{\"resources\":{\"tables\":[{" members "}]}}"
#define USERS "\"name\":\"users\",\"key_name\":\"id\",\"key_type\":\"S\""

static void release_stack(struct stack **stack)
{
    stack_free(*stack);
}

static struct stack *parse(const char *text)
{
    struct stack *stack = NULL;
    struct err err = {""};

    check_int(stack_parse(span_text(text), &stack, &err), 0);
    check_text(span_text(err.text), "");
    return stack;
}

static void check_refused(const char *text, const char *why)
{
    struct stack *stack = NULL;
    struct err err = {""};

    check_int(stack_parse(span_text(text), &stack, &err), -EINVAL);
    check_text(span_text(err.text), why);
    check(!stack);
}

static void add_attribute(struct buf *out, const struct key_attribute *attribute)
{
    if (attribute->name)
        buf_addf(out, " %s:%s", attribute->name, value_type_name(attribute->type));
}

/* "NAME KEY [SORT] (INDEX KEY [SORT])... TTL KEYS STREAM seed=.. function=.." */
static void check_table(const char *text, const char *want)
{
    cleanup(release_stack) struct stack *stack = parse(text);
    cleanup(buf_release) struct buf got;

    buf_init(&got, 4096);
    if (!stack || stack->count != 1) {
        check(stack && stack->count == 1);
        return;
    }
    const struct stack_table *entry = &stack->tables[0];
    const struct table *table = entry->table;
    buf_add_text(&got, table->name);
    add_attribute(&got, &table->partition);
    add_attribute(&got, &table->sort);
    for (size_t i = 0; i < table->index_count; i++) {
        buf_addf(&got, " (%s", table->indexes[i].name);
        add_attribute(&got, &table->indexes[i].partition);
        add_attribute(&got, &table->indexes[i].sort);
        buf_add_char(&got, ')');
    }
    buf_addf(&got, " %s %s %s", table->ttl_attribute, table->keys == KEYS_PLAIN ? "plain" : "tags",
             table->stream ? "on" : "off");
    if (entry->seed)
        buf_addf(&got, " seed=%s", entry->seed);
    if (entry->function)
        buf_addf(&got, " function=%s", entry->function);
    check_text(buf_span(&got), want);
}

/* K-01, K-02, K-11 */
static void test_tables(void)
{
    check_table(TABLE(USERS ",\"indexes\":[]"), "users id:S -ttl plain off");
    check_table(TABLE(USERS), "users id:S -ttl plain off");
    check_table(TABLE("\"key_type\":\"N\",\"key_name\":\"id\",\"name\":\"users\",\"seed\":null,"
                      "\"indexes\":null,\"change_stream\":null"),
                "users id:N -ttl plain off");
    check_table(TABLE("\"name\":\"t\",\"key_name\":\"k\",\"key_type\":\"BIN\""),
                "t k:B -ttl plain off");
    check_table(TABLE(USERS ",\"seed\":\"data/u.json\","
                            "\"change_stream\":{\"function\":\"f\"}"),
                "users id:S -ttl plain on seed=data/u.json function=f");
    check_table(TABLE("\"name\":\"h\\u00e9 \\ud83d\\ude00\",\"key_name\":\"k\",\"key_type\":"
                      "\"S\""),
                "h\xc3\xa9 \xf0\x9f\x98\x80 k:S -ttl plain off");
}

static void test_sort_keys_and_indexes(void)
{
    check_table(TABLE(USERS ",\"sort_key_name\":\"at\",\"sort_key_type\":\"N\""),
                "users id:S at:N -ttl plain off");
    check_table(TABLE(USERS ",\"sort_key_name\":\"at\""), "users id:S at:S -ttl plain off");
    check_table(TABLE(USERS ",\"indexes\":[{\"name\":\"by-user\",\"key_name\":\"uID\","
                            "\"key_type\":\"S\"},{\"key_name\":\"n\",\"key_type\":\"N\","
                            "\"sort_key_name\":\"at\",\"sort_key_type\":\"N\"},"
                            "{\"key_name\":\"x\"}]"),
                "users id:S (by-user uID:S) (by-n-at n:N at:N) (by-x x:S) -ttl plain off");
}

/* What else a stack holds is passed over, whatever it is. */
static void test_other_members(void)
{
    cleanup(release_stack) struct stack *stack =
        parse("{\"name\":\"shop\",\"tables\":[1,{\"a\":[]}],\"resources\":{\"queues\":[{\"name\":"
              "{}}],\"tables\":[],\"buckets\":null},\"version\":1.5}");

    check(stack && stack->count == 0 && !stack->has_functions);
}

static void test_functions(void)
{
    cleanup(release_stack) struct stack *stack =
        parse("{\"resources\":{\"functions\":[{\"name\":\"f\",\"runtime\":\"x\",\"env\":{\"a\":[1]"
              "}},{\"url\":\"https://example.org/g?s=1\",\"name\":\"g\"}],\"tables\":[{" USERS
              ",\"change_stream\":{\"function\":\"g\"}}]}}");

    if (!stack)
        return;
    check(stack->has_functions);
    check_int(stack->function_count, 2);
    check_int(stack_function(stack, "f")->function.kind, FUNCTION_NONE);
    check_text(span_text(stack_function(stack, "g")->url), "https://example.org/g?s=1");
    check_text(span_text(stack_function(stack, "g")->function.shown), "https://example.org/g");
    check(!stack_function(stack, "h"));
}

static void test_bad_functions(void)
{
    check_refused("{\"resources\":{\"functions\":[{\"name\":\"f\"}],\"tables\":[{" USERS
                  ",\"change_stream\":{\"function\":\"g\"}}]}}",
                  "table users: change_stream names the function \"g\", which "
                  "resources.functions does not have");
    check_refused("{\"resources\":{\"functions\":[{\"name\":\"f\"},{\"name\":\"f\"}]}}",
                  "line 1, column 41: a second function \"f\"");
    check_refused("{\"resources\":{\"functions\":[{\"url\":\"exec:/bin/true\"}]}}",
                  "line 1, column 28: a function needs a name");
    check_refused("{\"resources\":{\"functions\":[{\"name\":\"f\",\"url\":\"exec:x\"}]}}",
                  "line 1, column 28: function f: url: exec: wants the whole path of a program: "
                  "exec:/PATH/PROGRAM");
    check_refused(TABLE(USERS ",\"change_stream\":{}"),
                  "line 1, column 88: a change_stream names its function");
    check_refused(TABLE(USERS ",\"change_stream\":{\"function\":\"f\",\"filter\":\"x\"}"),
                  "line 1, column 105: \"filter\" is no member of change_stream; there are "
                  "function");
}

static void test_bad_tables(void)
{
    static const char nothing[] = "there is no list resources.tables: it declares nothing";

    check_refused("", "line 1, column 1: the text is empty");
    check_refused("{}", nothing);
    check_refused("{\"tables\":[]}", nothing);
    check_refused("{\"resource\":{\"tables\":[]}}", nothing);
    check_refused("{\"resources\":{\"table\":[]}}", nothing);
    check_refused("{\"resources\":{\"tables\":null}}", nothing);
    check_refused("[]", "line 1, column 1: this must be an object");
    check_refused("{} {}",
                  "line 1, column 4: the document ended before this: one file is one value");
    check_refused("{\"resources\":{\"tables\":{}}}", "line 1, column 24: this must be an array");
    check_refused(TABLE("\"key_name\":\"id\",\"key_type\":\"S\""),
                  "line 1, column 25: a table needs a name");
    check_refused(TABLE("\"name\":\"users\",\"key_name\":\"id\""),
                  "line 1, column 25: table users: key_name and key_type are missing");
    check_refused(TABLE("\"name\":\"users\",\"key_type\":\"S\""),
                  "line 1, column 25: table users: key_name and key_type are missing");
    check_refused(TABLE("\"name\":\"\",\"key_name\":\"id\",\"key_type\":\"S\""),
                  "line 1, column 34: this must be a string that is not empty");
    check_refused(TABLE("\"name\":\"a\\u0000b\",\"key_name\":\"id\",\"key_type\":\"S\""),
                  "line 1, column 34: no name holds a NUL");
    check_refused(TABLE("\"name\":\"a/b\",\"key_name\":\"id\",\"key_type\":\"S\""),
                  "line 1, column 25: table a/b: the name of a table may not hold \"/\" or control "
                  "bytes");
    check_refused(TABLE("\"name\":\"t\",\"key_name\":\"id\",\"key_type\":\"string\""),
                  "line 1, column 65: the type of a key is \"S\", \"N\" or \"B\"");
    check_refused(TABLE("\"name\":\"t\",\"key_name\":\"-ttl\",\"key_type\":\"S\""),
                  "line 1, column 25: table t: \"-ttl\" cannot be the time to live attribute");
    check_refused(TABLE(USERS ",\"sort_name\":\"at\""),
                  "line 1, column 73: \"sort_name\" is no member of a table; there are name, "
                  "key_name, key_type, sort_key_name, sort_key_type, indexes, seed, change_stream");
    check_refused(TABLE(USERS ",\"sort_key_type\":\"N\""),
                  "line 1, column 25: sort_key_type without sort_key_name");
    check_refused(TABLE(USERS ",\"sort_key_name\":\"id\""),
                  "line 1, column 25: table users: \"id\" cannot be partition key and sort key at "
                  "once");
    check_refused(TABLE(USERS ",\"indexes\":[{\"name\":\"x\"}]"),
                  "line 1, column 83: an index needs a key_name");
    check_refused(TABLE(USERS ",\"indexes\":[\"uID\"]"),
                  "line 1, column 84: this must be an object");
    check_refused(TABLE(USERS ",\"indexes\":[{\"key_name\":\"a\"},{\"key_name\":\"a\"}]"),
                  "line 1, column 25: table users: two indexes are named \"by-a\"");
    check_refused(TABLE(USERS ",\"indexes\":[{\"key_name\":\"id\",\"key_type\":\"N\"}]"),
                  "line 1, column 25: table users: attribute \"id\" is declared as S and as N");
    check_refused(TABLE(USERS ",\"seed\":5"),
                  "line 1, column 79: this must be a string that is not empty");
    check_refused("{\"resources\":{\"tables\":[{" USERS "},\n {" USERS "}]}}",
                  "line 2, column 2: a second table \"users\"");
    check_refused(TABLE(USERS ",\"name\":\"x\""),
                  "line 1, column 72: this name is there twice in one object");
}

/* Every beginning of a stack is refused and leaks nothing. */
static void test_cut_short(void)
{
    static const char text[] =
        "{\"resources\":{\"functions\":[{\"name\":\"g\",\"url\":\"exec:/bin/true "
        "a\"}],\"tables\":[{" USERS
        ",\"sort_key_name\":\"at\",\"indexes\":[{\"key_name\":\"a\"}],\"seed\":\"s\","
        "\"change_stream\":{\"function\":\"g\"}}]}}";

    for (size_t i = 0; i + 1 < sizeof text; i++) {
        struct stack *stack = NULL;
        struct err err = {""};
        check_int(stack_parse(span_of(text, i), &stack, &err), -EINVAL);
        check(err.text[0] != '\0');
    }
    stack_free(parse(text));
}

CHECK_MAIN(CHECK_TEST(test_tables), CHECK_TEST(test_sort_keys_and_indexes),
           CHECK_TEST(test_other_members), CHECK_TEST(test_functions),
           CHECK_TEST(test_bad_functions), CHECK_TEST(test_bad_tables), CHECK_TEST(test_cut_short))
