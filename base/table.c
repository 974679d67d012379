/* SPDX-License-Identifier: MIT */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text.h"

/* A copy of TEXT as a C string; false when memory ran out. NULL stays NULL. */
static bool copy_text(const char *text, char **ret_copy)
{
    *ret_copy = text ? strdup(text) : NULL;
    return !text || *ret_copy;
}

struct table *table_new(struct span name)
{
    struct table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->name = strndup(name.len ? name.data : "", name.len);
    if (!table->name) {
        table_free(table);
        return NULL;
    }
    table->keys = KEYS_PLAIN;
    table->show_keys = true;
    table->format = FORMAT_PLAIN;
    return table;
}

struct table *table_new_default(struct span name)
{
    struct table *table = table_new(name);
    if (!table)
        return NULL;
    table->keys = KEYS_TAGS;
    table->show_keys = false;
    table->stream = true;
    table->partition.type = VALUE_S;
    if (!copy_text("key", &table->partition.name) ||
        !copy_text(TABLE_TTL_DEFAULT, &table->ttl_attribute)) {
        table_free(table);
        return NULL;
    }
    return table;
}

static bool copy_attribute(const struct key_attribute *from, struct key_attribute *to)
{
    to->type = from->type;
    return copy_text(from->name, &to->name);
}

static bool copy_index(const struct index *from, struct index *to)
{
    to->partial = from->partial;
    return copy_text(from->name, &to->name) && copy_attribute(&from->partition, &to->partition) &&
           copy_attribute(&from->sort, &to->sort);
}

static bool copy_indexes(const struct table *from, struct table *to)
{
    if (from->index_count == 0)
        return true;
    to->indexes = calloc(from->index_count, sizeof *to->indexes);
    if (!to->indexes)
        return false;
    to->index_count = from->index_count;
    for (size_t i = 0; i < from->index_count; i++) {
        if (!copy_index(&from->indexes[i], &to->indexes[i]))
            return false;
    }
    return true;
}

int table_add_index(struct table *table, const struct index *index)
{
    struct index *indexes =
        reallocarray(table->indexes, table->index_count + 1, sizeof *table->indexes);
    struct index copy = {0};

    if (!indexes)
        return -ENOMEM;
    table->indexes = indexes;
    if (!copy_index(index, &copy)) {
        index_release(&copy);
        return -ENOMEM;
    }
    table->indexes[table->index_count++] = copy;
    return 0;
}

void table_remove_index(struct table *table, size_t at)
{
    index_release(&table->indexes[at]);
    memmove(&table->indexes[at], &table->indexes[at + 1],
            (--table->index_count - at) * sizeof *table->indexes);
}

struct table *table_copy(const struct table *table)
{
    struct table *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *table;
    copy->name = copy->ttl_attribute = copy->partition.name = copy->sort.name = NULL;
    copy->indexes = NULL;
    copy->index_count = 0;
    if (!copy_text(table->name, &copy->name) ||
        !copy_text(table->ttl_attribute, &copy->ttl_attribute) ||
        !copy_attribute(&table->partition, &copy->partition) ||
        !copy_attribute(&table->sort, &copy->sort) || !copy_indexes(table, copy)) {
        table_free(copy);
        return NULL;
    }
    return copy;
}

bool key_attribute_equal(const struct key_attribute *a, const struct key_attribute *b)
{
    return text_equal(a->name, b->name) && a->type == b->type;
}

bool index_equal(const struct index *a, const struct index *b)
{
    return text_equal(a->name, b->name) && a->partial == b->partial &&
           key_attribute_equal(&a->partition, &b->partition) &&
           key_attribute_equal(&a->sort, &b->sort);
}

bool table_equal(const struct table *a, const struct table *b)
{
    bool equal = a->id == b->id && text_equal(a->name, b->name) &&
                 key_attribute_equal(&a->partition, &b->partition) &&
                 key_attribute_equal(&a->sort, &b->sort) &&
                 text_equal(a->ttl_attribute, b->ttl_attribute) && a->keys == b->keys &&
                 a->stream == b->stream && a->strict_tags == b->strict_tags &&
                 a->show_keys == b->show_keys && a->format == b->format && a->types == b->types &&
                 a->profile == b->profile && a->index_count == b->index_count;
    for (size_t i = 0; equal && i < a->index_count; i++)
        equal = index_equal(&a->indexes[i], &b->indexes[i]);
    return equal;
}

bool table_shape_equal(const struct table *a, const struct table *b)
{
    bool equal = key_attribute_equal(&a->partition, &b->partition) &&
                 key_attribute_equal(&a->sort, &b->sort) && a->index_count == b->index_count;

    for (size_t i = 0; equal && i < a->index_count; i++) {
        const struct index *other = table_index(b, span_text(a->indexes[i].name));
        equal = other && index_equal(&a->indexes[i], other);
    }
    return equal;
}

int table_take_shape(struct table *table, const struct table *from)
{
    struct table *copy = table_copy(from);

    if (!copy)
        return -ENOMEM;
    struct table old = *table;
    table->partition = copy->partition;
    table->sort = copy->sort;
    table->indexes = copy->indexes;
    table->index_count = copy->index_count;
    copy->partition = old.partition;
    copy->sort = old.sort;
    copy->indexes = old.indexes;
    copy->index_count = old.index_count;
    table_free(copy);
    return 0;
}

void key_attribute_release(struct key_attribute *attribute)
{
    free(attribute->name);
    *attribute = (struct key_attribute){0};
}

void index_release(struct index *index)
{
    free(index->name);
    key_attribute_release(&index->partition);
    key_attribute_release(&index->sort);
    index->name = NULL;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->index_count; i++)
        index_release(&table->indexes[i]);
    free(table->indexes);
    key_attribute_release(&table->partition);
    key_attribute_release(&table->sort);
    free(table->ttl_attribute);
    free(table->name);
    free(table);
}

const struct index *table_index(const struct table *table, struct span name)
{
    for (size_t i = 0; i < table->index_count; i++) {
        if (span_equal(span_text(table->indexes[i].name), name))
            return &table->indexes[i];
    }
    return NULL;
}

/* The rules for what is shown as a directory under its own name; WHAT is "table" or "index". */
static int check_directory_name(const char *what, struct span name, struct err *err)
{
    if (name.len == 0)
        return err_set(err, EINVAL, "a %s needs a name", what);
    if (name.len > TABLE_NAME_MAX)
        return err_set(err, EINVAL, "the name of a %s has at most %d bytes", what, TABLE_NAME_MAX);
    if (name.data[0] == '.')
        return err_set(err, EINVAL, "the name of a %s may not begin with \".\"", what);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c == '/' || c < 0x20 || c == 0x7F)
            return err_set(err, EINVAL, "the name of a %s may not hold \"/\" or control bytes",
                           what);
    }
    if (!text_is_utf8(name, false))
        return err_set(err, EINVAL, "the name of a %s must be UTF-8", what);
    return 0;
}

int table_check_name(struct span name, struct err *err)
{
    return check_directory_name("table", name, err);
}

static int check_attribute_name(const char *role, const char *name, struct err *err)
{
    size_t len = name ? strlen(name) : 0;
    if (len == 0)
        return err_set(err, EINVAL, "%s needs a name", role);
    if (len > 255)
        return err_set(err, EINVAL, "%s: the name has more than 255 bytes", role);
    if (!text_is_utf8(span_text(name), false))
        return err_set(err, EINVAL, "%s: the name must be UTF-8", role);
    return 0;
}

static int check_attribute(const char *role, const struct key_attribute *attribute, struct err *err)
{
    if (attribute->type != VALUE_S && attribute->type != VALUE_N && attribute->type != VALUE_B)
        return err_set(err, EINVAL, "%s must be of type S, N or B", role);
    return check_attribute_name(role, attribute->name, err);
}

static int check_key(const char *role, const struct key_attribute *attribute, struct err *err)
{
    int error = check_attribute(role, attribute, err);
    if (!error && strcmp(attribute->name, "$value") == 0)
        error = err_set(err, EINVAL, "%s: \"$value\" stands for bodies that are no objects", role);
    return error;
}

static int check_pair(const struct key_attribute *partition, const struct key_attribute *sort,
                      struct err *err)
{
    if (sort->name && strcmp(partition->name, sort->name) == 0)
        return err_set(err, EINVAL, "\"%s\" cannot be partition key and sort key at once",
                       sort->name);
    return 0;
}

static int check_ttl(const struct table *table, struct err *err)
{
    if (!table->ttl_attribute)
        return 0;
    int error = check_attribute_name("the time to live attribute", table->ttl_attribute, err);
    if (error)
        return error;
    if (strcmp(table->ttl_attribute, table->partition.name) == 0 ||
        (table->sort.name && strcmp(table->ttl_attribute, table->sort.name) == 0) ||
        strcmp(table->ttl_attribute, "$value") == 0)
        return err_set(err, EINVAL, "\"%s\" cannot be the time to live attribute",
                       table->ttl_attribute);
    return 0;
}

/* One attribute has one type, in whatever key it stands. */
static int check_same_type(const struct key_attribute *a, const struct key_attribute *b,
                           struct err *err)
{
    if (a->name && b->name && strcmp(a->name, b->name) == 0 && a->type != b->type)
        return err_set(err, EINVAL, "attribute \"%s\" is declared as %s and as %s", a->name,
                       value_type_name(a->type), value_type_name(b->type));
    return 0;
}

static int check_types_of(const struct table *table, size_t count,
                          const struct key_attribute *attribute, struct err *err)
{
    struct key_attribute ttl = {.name = table->ttl_attribute, .type = VALUE_N};
    int error = check_same_type(&table->partition, attribute, err);
    error = error ? error : check_same_type(&table->sort, attribute, err);
    error = error ? error : check_same_type(&ttl, attribute, err);
    for (size_t i = 0; i < count && !error; i++) {
        error = check_same_type(&table->indexes[i].partition, attribute, err);
        error = error ? error : check_same_type(&table->indexes[i].sort, attribute, err);
    }
    return error;
}

static int check_index(const struct table *table, size_t at, struct err *err)
{
    const struct index *index = &table->indexes[at];
    int error = check_directory_name("index", span_text(index->name), err);
    error = error ? error : check_attribute("an index's partition key", &index->partition, err);
    if (!error && index->sort.name)
        error = check_attribute("an index's sort key", &index->sort, err);
    error = error ? error : check_pair(&index->partition, &index->sort, err);
    error = error ? error : check_types_of(table, at, &index->partition, err);
    error = error ? error : check_types_of(table, at, &index->sort, err);
    if (!error && table_index(table, span_text(index->name)) != index)
        error = err_set(err, EINVAL, "two indexes are named \"%s\"", index->name);
    return error;
}

int table_check(const struct table *table, struct err *err)
{
    int error = table_check_name(span_text(table->name), err);
    error = error ? error : check_key("the partition key", &table->partition, err);
    if (!error && table->sort.name)
        error = check_key("the sort key", &table->sort, err);
    error = error ? error : check_pair(&table->partition, &table->sort, err);
    error = error ? error : check_ttl(table, err);
    if (!error && table->keys == KEYS_TAGS && table->partition.type != VALUE_S)
        error = err_set(err, EINVAL, "tag keys need a partition key of type S");
    if (!error && table->index_count > TABLE_INDEXES_MAX)
        error = err_set(err, EINVAL, "a table has at most %d indexes", TABLE_INDEXES_MAX);
    for (size_t i = 0; i < table->index_count && !error; i++)
        error = check_index(table, i, err);
    return error;
}
