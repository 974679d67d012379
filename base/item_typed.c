/* SPDX-License-Identifier: MIT */
/* Between a body's bytes and the typed item. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item_body.h"
#include "base/number.h"
#include "base/value_tree.h"

static int out_of_memory(int error, struct err *err)
{
    return error ? err_set(err, -error, "%s",
                           error == -EFBIG ? "the item is too large" : "out of memory for an item")
                 : 0;
}

/* Puts the key attributes of KEY into ITEM. */
static int set_key(const struct table *table, struct key key, struct value *item)
{
    const struct key_attribute *attributes[] = {&table->partition, &table->sort};
    for (size_t i = 0; i < 2; i++) {
        struct value value;
        if (!attributes[i]->name)
            continue;
        int error = key_part_to_value(attributes[i]->type, item_key_part(table, key, attributes[i]),
                                      &value);
        if (!error)
            error = value_member_set(item, span_text(attributes[i]->name), value);
        if (error)
            return error;
    }
    return 0;
}

/* Adds the TTL that is kept beside a body. */
static int add_ttl(const struct table *table, int64_t ttl, struct value *item)
{
    char digits[24];
    struct value value;
    if (ttl == 0 || !table->ttl_attribute)
        return 0;
    struct span name = span_text(table->ttl_attribute);
    if (value_member(item, name))
        return 0;
    snprintf(digits, sizeof digits, "%lld", (long long)ttl);
    int error = value_new_text(VALUE_N, span_text(digits), &value);
    return error ? error : value_member_add(item, name, value);
}

/* The attributes that BODY holds. A form at the top, {"$M": ..}, was resolved by the reader, so a
 * map here is an object there. */
static int read_attributes(struct span body, struct value *ret_item, struct err *err)
{
    struct value value, item = value_new_map();
    int error = body.len ? value_from_plain(body, &value, err) : 0;
    if (error)
        return error;
    if (body.len > 0 && value.type == VALUE_M)
        item = value;
    else if (body.len > 0)
        error = value_member_add(&item, span_text(ITEM_VALUE), value);
    if (error)
        return out_of_memory(error, err);
    *ret_item = item;
    return 0;
}

int item_from_body(const struct table *table, struct key key, struct span body, int64_t ttl,
                   struct value *ret_item, struct err *err)
{
    struct value item;
    int error = read_attributes(body, &item, err);
    if (error)
        return error;
    error = set_key(table, key, &item);
    error = error ? error : add_ttl(table, ttl, &item);
    if (error) {
        value_release(&item);
        return out_of_memory(error, err);
    }
    *ret_item = item;
    return 0;
}

/*
 * The value that an item is shown bare as, or NULL. Only when nothing else is there that the body
 * could not tell; and no map, which would be taken for the attributes themselves.
 */
static const struct value *bare_value(const struct table *table, const struct value *item,
                                      int64_t *ret_ttl)
{
    const struct value *bare = NULL;
    int64_t ttl = 0;
    for (size_t i = 0; i < item->map.count; i++) {
        const struct member *member = &item->map.members[i];
        struct span name = span_of(member->name, member->name_len);
        if (span_equal(name, span_text(ITEM_VALUE)))
            bare = &member->value;
        else if (item_is_ttl(table, name) && member->value.type == VALUE_N &&
                 number_to_int64(value_text(&member->value), &ttl) && ttl > 0)
            continue;
        else if (!item_key_attribute(table, name))
            return NULL;
    }
    if (!bare || bare->type == VALUE_M)
        return NULL;
    *ret_ttl = ttl;
    return bare;
}

/* A map of those members of ITEM that a body shows; only its array is its own. */
static int shown_members(const struct table *table, const struct value *item,
                         struct member **ret_members, struct value *ret_shown)
{
    struct member *members = malloc((item->map.count + 1) * sizeof *members);
    if (!members)
        return -ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < item->map.count; i++) {
        const struct member *member = &item->map.members[i];
        struct span name = span_of(member->name, member->name_len);
        if (table->show_keys || !item_key_attribute(table, name))
            members[count++] = *member;
    }
    *ret_shown = value_new_map();
    *ret_members = ret_shown->map.members = members;
    ret_shown->map.count = count;
    return 0;
}

int item_to_body(const struct table *table, const struct value *item, struct buf *out,
                 int64_t *ret_ttl, struct err *err)
{
    int64_t ttl = 0;
    const struct value *bare = bare_value(table, item, &ttl);
    struct value shown = value_new_map();
    cleanup_free struct member *members = NULL;
    int error = bare ? 0 : shown_members(table, item, &members, &shown);
    if (error)
        return out_of_memory(error, err);
    if (value_plain_depth(bare ? bare : &shown) > JSON_DEPTH_MAX)
        return err_set(err, EINVAL, "the item is nested too deeply");
    struct span first[2] = {span_text(table->partition.name), span_text(table->sort.name)};
    struct value_style style = {.indent = bare ? 0 : 2,
                                .sort = true,
                                .first = bare ? NULL : first,
                                .first_count = table_sorted(table) ? 2 : 1};
    value_to_plain(bare ? bare : &shown, style, out);
    buf_add_char(out, '\n');
    if (buf_error(out))
        return out_of_memory(buf_error(out), err);
    *ret_ttl = ttl;
    return 0;
}

int item_render(const struct table *table, struct key key, struct span body, int64_t ttl,
                struct buf *out, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    int64_t beside;
    int error = item_from_body(table, key, body, ttl, &item, err);
    error = error ? error : value_canonical(&item, err);
    error = error ? error : item_to_body(table, &item, out, &beside, err);
    return error ? error : buf_error(out);
}

int item_to_typed(const struct table *table, struct key key, struct span body, int64_t ttl,
                  struct buf *out, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    int error = item_from_body(table, key, body, ttl, &item, err);
    if (error)
        return error;
    value_map_to_typed(&item, out);
    return out_of_memory(buf_error(out), err);
}

/* Appends the canonical part of a key attribute that must be in ITEM. */
static int take_part(const struct table *table, bool sort_part, const struct value *item,
                     struct buf *out, struct err *err)
{
    const char *name = sort_part ? table->sort.name : table->partition.name;
    const struct value *value = value_member(item, span_text(name));
    if (!value)
        return err_set(err, EINVAL, "the item has no key attribute \"%s\"", name);
    return key_part_from_value(table, sort_part, value, out, err);
}

int item_from_typed(const struct table *table, struct span typed, struct value *ret_item,
                    struct buf *partition, struct buf *sort, struct err *err)
{
    struct value item;
    size_t partition_at = partition->len, sort_at = sort->len;
    int error = value_map_from_typed(typed, &item, err);
    if (error)
        return error;
    error = take_part(table, false, &item, partition, err);
    if (!error && table_sorted(table))
        error = take_part(table, true, &item, sort, err);
    struct key key = {0};
    if (!error) {
        key.partition = buf_from(partition, partition_at);
        key.sort = buf_from(sort, sort_at);
        error = out_of_memory(set_key(table, key, &item), err);
    }
    if (error)
        value_release(&item);
    else
        *ret_item = item;
    return error;
}

int64_t item_ttl_beside(struct span body, int64_t ttl)
{
    for (size_t i = 0; i < body.len; i++)
        if (!memchr(" \t\r\n", body.data[i], 4))
            return body.data[i] == '{' ? 0 : ttl;
    return ttl;
}

int64_t item_ttl(const struct table *table, const struct value *item)
{
    const struct value *value =
        table->ttl_attribute ? value_member(item, span_text(table->ttl_attribute)) : NULL;
    int64_t ttl;
    if (!value || value->type != VALUE_N || !number_to_int64(value_text(value), &ttl) || ttl < 0)
        return 0;
    return ttl;
}

static int check_index_value(const struct index *index, const struct key_attribute *attribute,
                             const struct value *item, struct err *err)
{
    const struct value *value =
        attribute->name ? value_member(item, span_text(attribute->name)) : NULL;
    if (!value)
        return 0;
    if (value->type == attribute->type && value->text.len > 0 && value->text.len <= KEY_PART_MAX)
        return 0;
    return err_set(err, EINVAL, "\"%s\" is a key of the index \"%s\": it must be %s",
                   attribute->name, index->name,
                   attribute->type == VALUE_S   ? ITEM_INDEX_STRING
                   : attribute->type == VALUE_N ? ITEM_INDEX_NUMBER
                                                : "binary that is not empty");
}

int item_check_indexes(const struct table *table, const struct value *item, struct err *err)
{
    int error = 0;
    for (size_t i = 0; i < table->index_count && !error; i++) {
        const struct index *index = &table->indexes[i];
        error = check_index_value(index, &index->partition, item, err);
        error = error ? error : check_index_value(index, &index->sort, item, err);
    }
    return error;
}

static void add_typed_line(struct buf *out, struct span name, const struct value *value,
                           const char *separator)
{
    buf_add_text(out, separator);
    buf_add_text(out, "\n  ");
    json_add_string(out, name);
    buf_add_text(out, ": ");
    value_to_typed(value, out);
}

/* One attribute a line, those of the key first: people edit it, and diffs stay small. */
static int add_typed_file(const struct table *table, const struct value *item, struct buf *out)
{
    cleanup_free const struct member **sorted = value_members_sorted(item);
    if (!sorted)
        return -ENOMEM;
    const char *keys[] = {table->partition.name, table->sort.name};
    const char *separator = "{";
    for (size_t i = 0; i < 2; i++) {
        const struct value *value = keys[i] ? value_member(item, span_text(keys[i])) : NULL;
        if (!value)
            continue;
        add_typed_line(out, span_text(keys[i]), value, separator);
        separator = ",";
    }
    for (size_t i = 0; i < item->map.count; i++) {
        struct span name = span_of(sorted[i]->name, sorted[i]->name_len);
        if (!item_key_attribute(table, name))
            add_typed_line(out, name, &sorted[i]->value, separator);
    }
    buf_add_text(out, "\n}\n");
    return buf_error(out);
}

int item_body_to_typed_file(const struct table *table, struct key key, struct span body,
                            int64_t ttl, struct buf *out, struct err *err)
{
    if (body.len == 0 && ttl == 0)
        return 0;
    cleanup(value_release) struct value item = {0};
    int error = item_from_body(table, key, body, ttl, &item, err);
    return error ? error : out_of_memory(add_typed_file(table, &item, out), err);
}

/* What a typed file says of its key may be wrong, but must be something that can name one. */
static int check_typed_key(const struct table *table, const struct value *item, struct err *err)
{
    const struct key_attribute *attributes[] = {&table->partition, &table->sort};
    for (size_t i = 0; i < 2; i++) {
        if (!attributes[i]->name)
            continue;
        const struct value *value = value_member(item, span_text(attributes[i]->name));
        bool binary = attributes[i]->type == VALUE_B;
        bool good = !value || (binary ? value->type == VALUE_B
                                      : value->type == VALUE_S || value->type == VALUE_N);
        if (!good)
            return err_set(err, EINVAL, "\"%s\" is the key: it must be of type %s",
                           attributes[i]->name, value_type_name(attributes[i]->type));
    }
    return 0;
}

int item_body_from_typed_file(const struct table *table, struct key key, struct span file,
                              struct buf *body, int64_t *ret_ttl, struct err *err)
{
    if (file.len == 0) {
        *ret_ttl = 0;
        return 0;
    }
    cleanup(value_release) struct value item = {0};
    int error = value_map_from_typed(file, &item, err);
    error = error ? error : check_typed_key(table, &item, err);
    error = error ? error : out_of_memory(set_key(table, key, &item), err);
    return error ? error : item_to_body(table, &item, body, ret_ttl, err);
}
