/* SPDX-License-Identifier: MIT */
/* Checking a body, and the keys that it gives its item in the indexes. Edits of bodies are in
 * item_edit.c, their conversion from and to typed items in item_typed.c. */
#include "base/item.h"

#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/item_body.h"
#include "base/number.h"

static int refuse_index(const struct body_reader *reader, const struct body_member *member,
                        const struct index *index, enum value_type type)
{
    return json_refuse(reader->json, member->first.raw.data, reader->err,
                       "\"%.*s\" is a key of the index \"%s\": it must be %s",
                       (int)member->name.len, member->name.data, index->name,
                       type == VALUE_S   ? ITEM_INDEX_STRING
                       : type == VALUE_N ? ITEM_INDEX_NUMBER
                                         : "{\"$B\": ..} that is not empty");
}

/* The simple cases of item_index_part, without a tree: 1 good, 0 not, -1 to be looked at. */
static int quick_index_check(enum value_type type, const struct body_member *member)
{
    enum json_kind kind = member->first.kind;
    bool wanted = kind == (type == VALUE_S   ? JSON_STRING
                           : type == VALUE_N ? JSON_NUMBER
                                             : JSON_OBJECT);
    if (!wanted)
        return 0;
    if (type == VALUE_S && !member->first.escaped)
        return member->raw.len > 2 && member->raw.len - 2 <= KEY_PART_MAX;
    return -1;
}

static int check_index_attribute(const struct body_reader *reader, const struct body_member *member,
                                 const struct index *index, const struct key_attribute *attribute)
{
    if (!attribute->name || !span_equal(member->name, span_text(attribute->name)))
        return 0;
    int good = quick_index_check(attribute->type, member);
    if (good < 0) {
        cleanup(buf_release) struct buf part;
        buf_init(&part, SIZE_MAX / 8);
        int wrong = item_index_part(attribute->type, member->raw, &part);
        if (wrong < 0)
            return err_set(reader->err, -wrong, "out of memory for an index key");
        good = !wrong;
    }
    return good ? 0 : refuse_index(reader, member, index, attribute->type);
}

static int check_indexes(const struct table *table, const struct body_reader *reader,
                         const struct body_member *member)
{
    int error = 0;
    for (size_t i = 0; i < table->index_count && !error; i++) {
        const struct index *index = &table->indexes[i];
        error = check_index_attribute(reader, member, index, &index->partition);
        error = error ? error : check_index_attribute(reader, member, index, &index->sort);
    }
    return error;
}

static void note_ttl(const struct body_member *member, struct item_facts *facts)
{
    int64_t ttl;
    facts->has_ttl = true;
    if (member->first.kind == JSON_NUMBER && number_to_int64(member->raw, &ttl) && ttl > 0)
        facts->ttl = ttl;
}

static int examine_member(const struct table *table, struct key key,
                          const struct body_reader *reader, const struct body_member *member,
                          struct item_facts *facts)
{
    const struct key_attribute *attribute = item_key_attribute(table, member->name);
    if (attribute && reader->kind == BODY_OBJECT) {
        int differs = item_member_differs(table, attribute, item_key_part(table, key, attribute),
                                          reader, member);
        facts->key_differs |= differs > 0;
        return differs < 0 ? differs : 0;
    }
    if (reader->kind == BODY_OBJECT && item_is_ttl(table, member->name))
        note_ttl(member, facts);
    return check_indexes(table, reader, member);
}

int item_examine(const struct table *table, struct key key, struct span body,
                 struct item_facts *ret_facts, bool *ret_incomplete, struct err *err)
{
    cleanup(body_close) struct body_reader reader;
    struct body_member member;
    struct item_facts facts = {.is_empty = body.len == 0};
    int got = body_open(&reader, body, err);
    got = got ? got : body_next(&reader, &member);
    while (got > 0) {
        got = examine_member(table, key, &reader, &member, &facts);
        got = got ? got : body_next(&reader, &member);
    }
    if (ret_incomplete)
        *ret_incomplete = got < 0 && reader.incomplete;
    if (got < 0)
        return got;
    facts.is_object = reader.kind == BODY_OBJECT;
    *ret_facts = facts;
    return 0;
}

/* Where the text of an index's key attributes stands in the body; data NULL: nowhere. */
struct index_places {
    struct span raw[TABLE_INDEXES_MAX][2];
};

static const struct key_attribute *index_attribute(const struct index *index, int part)
{
    return part == 0 ? &index->partition : &index->sort;
}

static void note_places(const struct table *table, const struct body_member *member,
                        struct index_places *places)
{
    for (size_t i = 0; i < table->index_count; i++) {
        for (int part = 0; part < 2; part++) {
            const char *name = index_attribute(&table->indexes[i], part)->name;
            if (name && span_equal(member->name, span_text(name)))
                places->raw[i][part] = member->raw;
        }
    }
}

static int find_places(const struct table *table, struct span body, struct index_places *places,
                       struct err *err)
{
    cleanup(body_close) struct body_reader reader;
    struct body_member member;
    int got = body_open(&reader, body, err);
    got = got ? got : body_next(&reader, &member);
    while (got > 0) {
        note_places(table, &member, places);
        got = body_next(&reader, &member);
    }
    return got;
}

/* Appends one part of an index's key. 1: the item has none. */
static int add_index_part(const struct table *table, const struct key_attribute *attribute,
                          struct key key, struct span raw, int64_t ttl, struct buf *out)
{
    struct span name = span_text(attribute->name);
    const struct key_attribute *of_key = item_key_attribute(table, name);
    if (of_key) {
        buf_add_span(out, item_key_part(table, key, of_key));
        return buf_error(out);
    }
    if (raw.data)
        return item_index_part(attribute->type, raw, out);
    if (ttl == 0 || !item_is_ttl(table, name))
        return 1;
    buf_addf(out, "%lld", (long long)ttl);
    return buf_error(out);
}

int item_index_keys(const struct table *table, struct key key, struct span body, int64_t ttl,
                    item_index_fn each, void *context, struct err *err)
{
    struct index_places places = {0};
    int error = table->index_count ? find_places(table, body, &places, err) : 0;
    if (error)
        return error;
    cleanup(buf_release) struct buf parts;
    buf_init(&parts, SIZE_MAX / 8);
    for (size_t i = 0; i < table->index_count && !error; i++) {
        const struct index *index = &table->indexes[i];
        buf_clear(&parts);
        error = add_index_part(table, &index->partition, key, places.raw[i][0], ttl, &parts);
        size_t cut = parts.len;
        if (!error && index->sort.name)
            error = add_index_part(table, &index->sort, key, places.raw[i][1], ttl, &parts);
        if (error < 0)
            return err_set(err, -error, "out of memory for an index key");
        if (!error)
            error = each(context, i, span_of(parts.data, cut),
                         span_of(parts.data + cut, parts.len - cut));
        else
            error = 0;
    }
    return error;
}
