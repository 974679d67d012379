/* SPDX-License-Identifier: MIT */
/* Canonical key parts: from text and attribute values, and back. Names are in key_name.c, the
 * order of tags in key_tags.c. */
#include "base/key.h"

#include <errno.h>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"

static int check_part(struct span part, enum value_type type, struct err *err)
{
    if (part.len == 0)
        return err_set(err, EINVAL, "a key cannot be empty");
    if (part.len > KEY_PART_MAX)
        return err_set(err, ENAMETOOLONG, "a key has at most %d bytes", KEY_PART_MAX);
    if (type == VALUE_S && !text_is_utf8(part, true))
        return err_set(err, EINVAL, "a key of type S must be UTF-8");
    return 0;
}

static int buf_result(const struct buf *out, struct err *err)
{
    return buf_error(out) ? err_set(err, -buf_error(out), "out of memory for a key") : 0;
}

static int add_checked(const struct table *table, bool sort_part, enum value_type type,
                       struct span part, struct buf *out, struct err *err)
{
    int error = check_part(part, type, err);
    if (error)
        return error;
    if (!sort_part && type == VALUE_S && table->keys == KEYS_TAGS)
        return key_sort_tags(part, table->strict_tags, out, err);
    buf_add_span(out, part);
    return buf_result(out, err);
}

static int add_number(struct span text, struct buf *out, struct err *err)
{
    int error = number_canonical(text, out, err);
    return error ? error : buf_result(out, err);
}

int key_part_from_text(const struct table *table, bool sort_part, struct span text, struct buf *out,
                       struct err *err)
{
    enum value_type type = sort_part ? table->sort.type : table->partition.type;
    if (type == VALUE_N)
        return add_number(text, out, err);
    if (type == VALUE_S)
        return add_checked(table, sort_part, type, text, out, err);
    size_t before = out->len;
    int error = buf_error(out) ? 0 : base64_decode(text, false, out);
    if (error)
        return err_set(err, EINVAL, "a key of type B is written in base64");
    error = buf_result(out, err);
    return error ? error : check_part(buf_from(out, before), VALUE_B, err);
}

int key_part_from_value(const struct table *table, bool sort_part, const struct value *value,
                        struct buf *out, struct err *err)
{
    const struct key_attribute *attribute = sort_part ? &table->sort : &table->partition;
    if (value->type != attribute->type)
        return err_set(err, EINVAL, "the key attribute \"%s\" must be of type %s, not %s",
                       attribute->name, value_type_name(attribute->type),
                       value_type_name(value->type));
    if (value->type == VALUE_N)
        return add_number(value_text(value), out, err);
    return add_checked(table, sort_part, value->type, value_text(value), out, err);
}

int key_part_to_value(enum value_type type, struct span part, struct value *ret_value)
{
    return value_new_text(type, part, ret_value);
}

static void add_typed_part(const struct key_attribute *attribute, struct span part, struct buf *out)
{
    json_add_string(out, span_text(attribute->name));
    buf_addf(out, ":{\"%s\":", value_type_name(attribute->type));
    if (attribute->type == VALUE_B) {
        buf_add_char(out, '"');
        base64_encode(part, false, out);
        buf_add_char(out, '"');
    } else {
        json_add_string(out, part);
    }
    buf_add_char(out, '}');
}

void key_to_typed(const struct table *table, struct key key, struct buf *out)
{
    buf_add_char(out, '{');
    add_typed_part(&table->partition, key.partition, out);
    if (table_sorted(table)) {
        buf_add_char(out, ',');
        add_typed_part(&table->sort, key.sort, out);
    }
    buf_add_char(out, '}');
}

uint64_t key_inode_number(uint64_t parent, struct span name)
{
    uint64_t number = hash64(name, parent);
    return number < 2 ? number + 2 : number;
}
