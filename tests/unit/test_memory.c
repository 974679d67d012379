/* SPDX-License-Identifier: MIT */
/* Every allocation of every operation on bodies fails once: the answer is -ENOMEM or the right one,
 * and nothing is left allocated. The linker sends the allocator's calls here (--wrap). */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/update.h"
#include "tests/check.h"

static long countdown = -1; /* allocations until the failing one; negative: none fails */
static long live;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *pointer);
char *__wrap_strndup(const char *text, size_t len);
char *__wrap_strdup(const char *text);

static bool must_fail(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t size)
{
    void *made = must_fail() ? NULL : __real_malloc(size);
    live += made != NULL;
    return made;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *made = must_fail() ? NULL : __real_calloc(count, size);
    live += made != NULL;
    return made;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *made = must_fail() ? NULL : __real_realloc(old, size);
    live += made != NULL && old == NULL;
    return made;
}

void __wrap_free(void *pointer)
{
    live -= pointer != NULL;
    __real_free(pointer);
}

char *__wrap_strndup(const char *text, size_t len)
{
    size_t used = strnlen(text, len);
    char *copy = __wrap_malloc(used + 1);
    if (copy) {
        memcpy(copy, text, used);
        copy[used] = '\0';
    }
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}

struct setting {
    struct table *table;
    struct key key;
    struct span body, typed;
    struct buf *out; /* what the operation gave, for comparison */
};
typedef int (*operation_fn)(const struct setting *setting, struct err *err);

static int run_examine(const struct setting *setting, struct err *err)
{
    struct item_facts facts;
    int error = item_examine(setting->table, setting->key, setting->body, &facts, NULL, err);
    if (!error)
        buf_addf(setting->out, "%d %lld", facts.key_differs, (long long)facts.ttl);
    return error ? error : buf_error(setting->out);
}

static int run_to_typed(const struct setting *setting, struct err *err)
{
    return item_to_typed(setting->table, setting->key, setting->body, 0, setting->out, err);
}

static int run_from_typed(const struct setting *setting, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    int64_t ttl;
    buf_init(&partition, 1000);
    buf_init(&sort, 1000);
    int error = item_from_typed(setting->table, setting->typed, &item, &partition, &sort, err);
    if (!error)
        error = item_to_body(setting->table, &item, setting->out, &ttl, err);
    return error;
}

static int run_typed_file(const struct setting *setting, struct err *err)
{
    cleanup(buf_release) struct buf file;
    int64_t ttl;
    buf_init(&file, 1 << 20);
    int error = item_body_to_typed_file(setting->table, setting->key, setting->body, 0, &file, err);
    if (!error)
        error = item_body_from_typed_file(setting->table, setting->key, buf_span(&file),
                                          setting->out, &ttl, err);
    return error;
}

static int run_fit_key(const struct setting *setting, struct err *err)
{
    return item_fit_key(setting->table, setting->key, setting->body, setting->out, err);
}

static int run_set_ttl(const struct setting *setting, struct err *err)
{
    int error = item_set_ttl(setting->table, setting->body, 0, setting->out, err);
    return error ? error : item_set_ttl(setting->table, setting->body, 77, setting->out, err);
}

static int add_index_key(void *context, size_t index, struct span partition, struct span sort)
{
    struct buf *out = context;
    buf_addf(out, "%zu:%.*s/%.*s ", index, (int)partition.len, partition.data, (int)sort.len,
             sort.data);
    return buf_error(out);
}

static int run_index_keys(const struct setting *setting, struct err *err)
{
    return item_index_keys(setting->table, setting->key, setting->body, 0, add_index_key,
                           setting->out, err);
}

static int run_key(const struct setting *setting, struct err *err)
{
    cleanup(buf_release) struct buf name;
    buf_init(&name, 1000);
    int error = key_part_from_text(setting->table, false,
                                   span_text("i_h_g_f_e_d_c_99999999999999999999_b_a"), &name, err);
    if (error)
        return error;
    buf_add_span(setting->out, buf_span(&name));
    buf_clear(&name);
    name_from_part(VALUE_S, setting->key.partition, ".json", &name);
    name_from_part(VALUE_B, setting->typed, ".json", &name);
    if (buf_error(&name))
        return buf_error(&name);
    buf_add_span(setting->out, buf_span(&name));
    error = name_to_part(VALUE_S, span_text("%2Fa.json"), ".json", setting->out, err);
    return error ? error : buf_error(setting->out);
}

static int run_table(const struct setting *setting, struct err *err)
{
    struct table *copy = table_copy(setting->table);
    struct table *fresh = table_new_default(span_text("x"));
    if (copy && fresh)
        table_to_json(copy, setting->out);
    int error = copy && fresh ? table_check(copy, err) : -ENOMEM;
    table_free(copy);
    table_free(fresh);
    struct index index = {0};
    error = error ? error : index_parse(span_text("i:a:N,b:S"), &index, err);
    index_release(&index);
    return error ? error : buf_error(setting->out);
}

static int run_update(const struct setting *setting, struct err *err)
{
    static const struct {
        enum update_kind kind;
        const char *attribute, *value;
    } updates[] = {{UPDATE_ADD, "x", "-0.5"},
                   {UPDATE_ADD, "new", "7"},
                   {UPDATE_APPEND, "a", "[1]"},
                   {UPDATE_APPEND_UNIQUE, "a", "{\"$SS\": [\"z\"]}"}};
    int error = 0;
    for (size_t i = 0; i < sizeof updates / sizeof updates[0] && !error; i++) {
        const struct update update = {updates[i].kind, span_text(updates[i].attribute),
                                      span_text(updates[i].value)};
        error = update_check(setting->table, &update, err);
        error =
            error ? error : item_update(setting->body, &update, setting->out, setting->out, err);
    }
    return error;
}

static int run_equal(const struct setting *setting, struct err *err)
{
    cleanup(value_release) struct value left = {0};
    cleanup(value_release) struct value right = {0};
    int error = value_from_plain(setting->body, &left, err);
    error = error ? error : value_from_plain(setting->body, &right, err);
    /* There is no error here: without memory to sort it is only slower. */
    if (!error && !value_equal(&left, &right))
        check_fail("not equal");
    return error;
}

static const char body_text[] =
    "{\"id\": \"b\", \"\\u0061\": [1, {\"$B\": \"aGk=\"}, {\"$SS\": [\"x\", \"\\u0079\"]}],"
    " \"ns\": {\"$NS\": [1, 2.5]}, \"bs\": {\"$BS\": [\"AA==\", \"AQ==\"]}, \"-ttl\": 50,"
    " \"m\": {\"$M\": {\"$M\": {\"$x\": null, \"y\": true}}}, \"s\": \"\\u006f\", \"x\": 1e3,"
    " \"deep\": {\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}}},"
    " \"n1\":1,\"n2\":1,\"n3\":1,\"n4\":1,\"n5\":1,\"n6\":1,\"n7\":1,\"n8\":1,\"n9\":1,\"na\":1,"
    " \"nb\":1,\"nc\":1,\"nd\":1,\"ne\":1,\"nf\":1,\"ng\":1,\"nh\":1,\"ni\":1,\"nj\":1,\"nk\":1}";

static const char typed_text[] =
    "{\"id\":{\"S\":\"b\"},\"n\":{\"N\":\"+1.50\"},\"l\":{\"L\":[{\"M\":{\"\\u0061\":{\"BIN\":"
    "\"aGk=\"}}},{\"NULL\":true}]},\"ss\":{\"SS\":[\"x\",\"\\u0079\"]},\"ns\":{\"NS\":[\"01\","
    "\"2\"]},\"bs\":{\"BS\":[\"AA==\"]},\"$x\":{\"M\":{\"$y\":{\"BOOL\":false}}}}";

static void setting_make(struct setting *setting, struct buf *out)
{
    struct table *table = table_new(span_text("t"));
    key_attribute_parse(span_text("id"), &table->partition, NULL);
    key_attribute_parse(span_text("n:N"), &table->sort, NULL);
    table->keys = KEYS_TAGS;
    table->ttl_attribute = strdup("-ttl");
    table->indexes = calloc(1, sizeof *table->indexes);
    check_int(index_parse(span_text("i:s,x:N"), table->indexes, NULL), 0);
    table->index_count = 1;
    *setting = (struct setting){.table = table,
                                .key = {span_text("a"), span_text("1.5")},
                                .body = span_text(body_text),
                                .typed = span_text(typed_text),
                                .out = out};
}

/* Runs OPERATION with its first, second, .. allocation failing, until one run has fewer. */
static void fail_each(const char *name, operation_fn operation, const struct setting *setting)
{
    cleanup(buf_release) struct buf right;
    buf_init(&right, 1 << 20);
    check_int(operation(setting, NULL), 0);
    buf_add_span(&right, buf_span(setting->out));
    for (long at = 0;; at++) {
        struct err err = {""};
        buf_release(setting->out);
        long before = live;
        countdown = at;
        int error = operation(setting, &err);
        bool all_good = countdown >= 0;
        countdown = -1;
        if (error == 0)
            check_span(buf_span(setting->out), buf_span(&right));
        else if (error != -ENOMEM)
            check_fail("%s: allocation %ld gives %d: %s", name, at, error, err.text);
        buf_release(setting->out);
        if (live != before)
            check_fail("%s: allocation %ld leaves %ld blocks", name, at, live - before);
        if (all_good)
            return;
    }
}

static void test_operations(void)
{
    static const struct {
        const char *name;
        operation_fn run;
    } operations[] = {
        {"examine", run_examine},       {"to_typed", run_to_typed}, {"from_typed", run_from_typed},
        {"typed_file", run_typed_file}, {"fit_key", run_fit_key},   {"set_ttl", run_set_ttl},
        {"index_keys", run_index_keys}, {"key", run_key},           {"table", run_table},
        {"update", run_update},         {"equal", run_equal},
    };
    struct buf out;
    struct setting setting;
    buf_init(&out, 1 << 20);
    setting_make(&setting, &out);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        buf_release(&out);
        fail_each(operations[i].name, operations[i].run, &setting);
    }
    table_free(setting.table);
    check_int(live, 0);
}

CHECK_MAIN(CHECK_TEST(test_operations))
