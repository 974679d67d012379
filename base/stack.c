/* SPDX-License-Identifier: MIT */
#include "base/stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"

#define TEXT_MAX 65536

struct stack_reader {
    struct json_reader *json;
    struct stack *stack;
    struct err *err;
};

/* A member of an object: its NAME is compared with, its value is read by READ into TARGET. */
struct stack_member {
    const char *name;
    int (*read)(struct stack_reader *reader, const struct json_token *value, void *target);
    void *target;
};

static int refuse(const struct stack_reader *reader, const struct json_token *at,
                  const char *reason)
{
    return json_refuse(reader->json, at->raw.data, reader->err, "%s", reason);
}

static int next(struct stack_reader *reader, struct json_token *token)
{
    return json_next(reader->json, token, reader->err);
}

/* Passes over the value that begins with VALUE. */
static int pass_over(struct stack_reader *reader, const struct json_token *value)
{
    struct json_token token = *value;
    int r = 0;

    if (value->kind != JSON_OBJECT && value->kind != JSON_ARRAY)
        return 0;
    do
        r = next(reader, &token);
    while (r == 0 && (token.depth != value->depth ||
                      (token.kind != JSON_OBJECT_END && token.kind != JSON_ARRAY_END)));
    return r;
}

static const struct stack_member *find_member(const struct stack_member *members,
                                              const struct json_token *name)
{
    for (; members->name; members++)
        if (!name->escaped && span_equal(name->raw, span_text(members->name)))
            return members;
    return NULL;
}

/* WHAT an unknown member is in; NULL: it is passed over. */
static int unknown_member(struct stack_reader *reader, const struct stack_member *members,
                          const struct json_token *name, const char *what)
{
    cleanup(buf_release) struct buf known;

    buf_init(&known, 4096);
    for (; members->name; members++)
        buf_addf(&known, "%s%s", known.len ? ", " : "", members->name);
    return json_refuse(reader->json, name->raw.data, reader->err,
                       "\"%.*s\" is no member of %s; there are %s", (int)name->raw.len,
                       name->raw.data, what, known.data ? known.data : "none");
}

/* The members of the object that BEGIN opens. null stands for an absent one. */
static int read_object(struct stack_reader *reader, const struct json_token *begin,
                       const struct stack_member *members, const char *what)
{
    struct json_token name, value;
    int r = begin->kind == JSON_OBJECT ? 0 : refuse(reader, begin, "this must be an object");

    while (r == 0) {
        r = next(reader, &name);
        if (r < 0 || name.kind == JSON_OBJECT_END)
            break;
        const struct stack_member *member = find_member(members, &name);
        if (!member && what)
            return unknown_member(reader, members, &name, what);
        r = next(reader, &value);
        if (r == 0 && (!member || value.kind == JSON_NULL))
            r = pass_over(reader, &value);
        else if (r == 0)
            r = member->read(reader, &value, member->target);
    }
    return r;
}

/* Each element of the array that BEGIN opens. */
static int read_array(struct stack_reader *reader, const struct json_token *begin,
                      int (*read)(struct stack_reader *, const struct json_token *, void *),
                      void *target)
{
    struct json_token element;
    int r = begin->kind == JSON_ARRAY ? 0 : refuse(reader, begin, "this must be an array");

    while (r == 0) {
        r = next(reader, &element);
        if (r < 0 || element.kind == JSON_ARRAY_END)
            break;
        r = read(reader, &element, target);
    }
    return r;
}

/* ---- values ---- */

/* A char *, on the heap. */
static int read_text(struct stack_reader *reader, const struct json_token *value, void *target)
{
    char **field = target;
    struct buf text;

    buf_init(&text, TEXT_MAX);
    if (value->kind != JSON_STRING || value->raw.len == 0)
        return refuse(reader, value, "this must be a string that is not empty");
    json_unescape(value->raw, &text);
    bool whole = buf_error(&text) == 0 && !memchr(text.data, 0, text.len);
    char *copy = buf_take(&text, NULL);
    buf_release(&text);
    if (copy && !whole) {
        free(copy);
        return refuse(reader, value, "no name holds a NUL");
    }
    if (!copy)
        return -ENOMEM;
    free(*field);
    *field = copy;
    return 0;
}

/* An enum value_type; BIN is B, as in items. */
static int read_type(struct stack_reader *reader, const struct json_token *value, void *target)
{
    enum value_type *type = target;

    if (value->kind == JSON_STRING && span_equal(value->raw, span_text("S")))
        *type = VALUE_S;
    else if (value->kind == JSON_STRING && span_equal(value->raw, span_text("N")))
        *type = VALUE_N;
    else if (value->kind == JSON_STRING &&
             (span_equal(value->raw, span_text("B")) || span_equal(value->raw, span_text("BIN"))))
        *type = VALUE_B;
    else
        return refuse(reader, value, "the type of a key is \"S\", \"N\" or \"B\"");
    return 0;
}

/* ---- tables ---- */

#define TYPE_ABSENT ((enum value_type) - 1)

/* Gives an index that is called nothing the name by-KEY, or by-KEY-SORT. */
static int name_index(struct index *index)
{
    if (index->name)
        return 0;
    int r = asprintf(&index->name, "by-%s%s%s", index->partition.name, index->sort.name ? "-" : "",
                     index->sort.name ? index->sort.name : "");
    if (r < 0)
        index->name = NULL;
    return r < 0 ? -ENOMEM : 0;
}

/* A sort key's type belongs to a sort key; types that are left out are S. */
static int finish_attribute(struct stack_reader *reader, const struct json_token *at,
                            struct key_attribute *attribute)
{
    if (!attribute->name && attribute->type != TYPE_ABSENT)
        return refuse(reader, at, "sort_key_type without sort_key_name");
    if (attribute->type == TYPE_ABSENT)
        attribute->type = VALUE_S;
    return 0;
}

static int read_index(struct stack_reader *reader, const struct json_token *value, void *target)
{
    struct table *table = target;
    struct index *more =
        reallocarray(table->indexes, table->index_count + 1, sizeof *table->indexes);

    if (!more)
        return -ENOMEM;
    table->indexes = more;
    struct index *index = &more[table->index_count++];
    *index = (struct index){.partition.type = TYPE_ABSENT, .sort.type = TYPE_ABSENT};
    const struct stack_member members[] = {
        {"name", read_text, &index->name},
        {"key_name", read_text, &index->partition.name},
        {"key_type", read_type, &index->partition.type},
        {"sort_key_name", read_text, &index->sort.name},
        {"sort_key_type", read_type, &index->sort.type},
        {NULL, NULL, NULL},
    };
    int r = read_object(reader, value, members, "an index");
    if (r == 0 && !index->partition.name)
        r = refuse(reader, value, "an index needs a key_name");
    if (r == 0)
        r = finish_attribute(reader, value, &index->partition);
    if (r == 0)
        r = finish_attribute(reader, value, &index->sort);
    return r ? r : name_index(index);
}

static int read_indexes(struct stack_reader *reader, const struct json_token *value, void *target)
{
    return read_array(reader, value, read_index, target);
}

static int read_change_stream(struct stack_reader *reader, const struct json_token *value,
                              void *target)
{
    struct stack_table *table = target;
    const struct stack_member members[] = {{"function", read_text, &table->function},
                                           {NULL, NULL, NULL}};
    int r = read_object(reader, value, members, "change_stream");

    if (r == 0 && !table->function)
        r = refuse(reader, value, "a change_stream names its function");
    return r;
}

static int finish_table(struct stack_reader *reader, const struct json_token *at,
                        struct stack_table *entry)
{
    struct table *table = entry->table;
    struct err reason = {""};

    if (!table->name[0])
        return refuse(reader, at, "a table needs a name");
    if (!table->partition.name || table->partition.type == TYPE_ABSENT)
        return json_refuse(reader->json, at->raw.data, reader->err,
                           "table %s: key_name and key_type are missing", table->name);
    int r = finish_attribute(reader, at, &table->sort);
    if (r < 0)
        return r;
    table->keys = KEYS_PLAIN;
    table->show_keys = true;
    table->stream = entry->function != NULL;
    r = table_check(table, &reason);
    return r < 0 ? json_refuse(reader->json, at->raw.data, reader->err, "table %s: %s", table->name,
                               reason.text)
                 : 0;
}

static int check_once(struct stack_reader *reader, const struct json_token *at)
{
    const struct stack *stack = reader->stack;
    const char *name = stack->tables[stack->count - 1].table->name;

    for (size_t i = 0; i + 1 < stack->count; i++)
        if (text_equal(stack->tables[i].table->name, name))
            return json_refuse(reader->json, at->raw.data, reader->err, "a second table \"%s\"",
                               name);
    return 0;
}

static int read_table(struct stack_reader *reader, const struct json_token *value, void *target)
{
    struct stack *stack = target;
    struct stack_table *more = reallocarray(stack->tables, stack->count + 1, sizeof *more);

    if (!more)
        return -ENOMEM;
    stack->tables = more;
    struct stack_table *entry = &more[stack->count++];
    *entry = (struct stack_table){.table = table_new_default(span_text(""))};
    if (!entry->table)
        return -ENOMEM;
    struct table *table = entry->table;
    key_attribute_release(&table->partition);
    table->partition.type = table->sort.type = TYPE_ABSENT;
    const struct stack_member members[] = {
        {"name", read_text, &table->name},
        {"key_name", read_text, &table->partition.name},
        {"key_type", read_type, &table->partition.type},
        {"sort_key_name", read_text, &table->sort.name},
        {"sort_key_type", read_type, &table->sort.type},
        {"indexes", read_indexes, table},
        {"seed", read_text, &entry->seed},
        {"change_stream", read_change_stream, entry},
        {NULL, NULL, NULL},
    };
    int r = read_object(reader, value, members, "a table");
    if (r == 0)
        r = finish_table(reader, value, entry);
    return r ? r : check_once(reader, value);
}

static int read_tables(struct stack_reader *reader, const struct json_token *value, void *target)
{
    ((struct stack *)target)->has_tables = true;
    return read_array(reader, value, read_table, target);
}

/* ---- functions ---- */

const struct stack_function *stack_function(const struct stack *stack, const char *name)
{
    for (size_t i = 0; i < stack->function_count; i++)
        if (text_equal(stack->functions[i].name, name))
            return &stack->functions[i];
    return NULL;
}

static int parse_url(struct stack_reader *reader, const struct json_token *at,
                     struct stack_function *function)
{
    struct err reason = {""};
    int r = function->url ? function_parse(function->url, &function->function, &reason) : 0;

    return r == -EINVAL ? json_refuse(reader->json, at->raw.data, reader->err,
                                      "function %s: url: %s", function->name, reason.text)
                        : r;
}

static int read_function(struct stack_reader *reader, const struct json_token *value, void *target)
{
    struct stack *stack = target;
    struct stack_function *more =
        reallocarray(stack->functions, stack->function_count + 1, sizeof *more);

    if (!more)
        return -ENOMEM;
    stack->functions = more;
    struct stack_function *function = &more[stack->function_count++];
    *function = (struct stack_function){0};
    const struct stack_member members[] = {{"name", read_text, &function->name},
                                           {"url", read_text, &function->url},
                                           {NULL, NULL, NULL}};
    int r = read_object(reader, value, members, NULL);
    if (r == 0 && !function->name)
        r = refuse(reader, value, "a function needs a name");
    if (r == 0 && stack_function(stack, function->name) != function)
        r = json_refuse(reader->json, value->raw.data, reader->err, "a second function \"%s\"",
                        function->name);
    return r ? r : parse_url(reader, value, function);
}

static int read_functions(struct stack_reader *reader, const struct json_token *value, void *target)
{
    struct stack *stack = target;

    stack->has_functions = true;
    return read_array(reader, value, read_function, target);
}

/* ---- the whole ---- */

static int read_resources(struct stack_reader *reader, const struct json_token *value, void *target)
{
    const struct stack_member members[] = {
        {"tables", read_tables, target}, {"functions", read_functions, target}, {NULL, NULL, NULL}};

    return read_object(reader, value, members, NULL);
}

static int read_stack(struct stack_reader *reader)
{
    const struct stack_member members[] = {{"resources", read_resources, reader->stack},
                                           {NULL, NULL, NULL}};
    struct json_token token;
    int r = next(reader, &token);

    if (r == 0)
        r = read_object(reader, &token, members, NULL);
    return r ? r : next(reader, &token);
}

/* A list of functions has those that tables name. */
static int check_functions(const struct stack *stack, struct err *err)
{
    for (size_t i = 0; stack->has_functions && i < stack->count; i++) {
        const struct stack_table *entry = &stack->tables[i];
        if (entry->function && !stack_function(stack, entry->function))
            return err_set(err, EINVAL,
                           "table %s: change_stream names the function \"%s\", which "
                           "resources.functions does not have",
                           entry->table->name, entry->function);
    }
    return 0;
}

int stack_parse(struct span text, struct stack **ret_stack, struct err *err)
{
    struct stack_reader reader = {
        .json = json_reader_new(text), .stack = calloc(1, sizeof *reader.stack), .err = err};
    int r = reader.json && reader.stack ? read_stack(&reader) : -ENOMEM;

    if (r == 0 && !reader.stack->has_tables)
        r = err_set(err, EINVAL, "there is no list resources.tables: it declares nothing");
    if (r == 0)
        r = check_functions(reader.stack, err);
    json_reader_free(reader.json);
    if (r < 0) {
        stack_free(reader.stack);
        return err_set(err, -r, "no memory");
    }
    *ret_stack = reader.stack;
    return 0;
}

void stack_free(struct stack *stack)
{
    if (!stack)
        return;
    for (size_t i = 0; i < stack->count; i++) {
        table_free(stack->tables[i].table);
        free(stack->tables[i].seed);
        free(stack->tables[i].function);
    }
    for (size_t i = 0; i < stack->function_count; i++) {
        free(stack->functions[i].name);
        free(stack->functions[i].url);
        function_release(&stack->functions[i].function);
    }
    free(stack->tables);
    free(stack->functions);
    free(stack);
}
