/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/keys.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/value.h"
#include "tools/itemctl/arguments.h"

void key_bytes_init(struct key_bytes *bytes)
{
    buf_init(&bytes->partition, KEY_PART_MAX + 1);
    buf_init(&bytes->sort, KEY_PART_MAX + 1);
}

void key_bytes_release(struct key_bytes *bytes)
{
    buf_release(&bytes->partition);
    buf_release(&bytes->sort);
}

struct key key_bytes_key(const struct key_bytes *bytes)
{
    return (struct key){buf_span(&bytes->partition), buf_span(&bytes->sort)};
}

int key_bytes_set(struct key_bytes *bytes, struct key key)
{
    buf_clear(&bytes->partition);
    buf_clear(&bytes->sort);
    buf_add_span(&bytes->partition, key.partition);
    buf_add_span(&bytes->sort, key.sort);
    return buf_error(&bytes->partition) ? buf_error(&bytes->partition) : buf_error(&bytes->sort);
}

/* Whether TEXT, which begins with "{", holds objects, as a whole key does. 1, 0 or -errno. */
static int is_whole_key(struct span text, struct err *err)
{
    struct json_reader *reader = json_reader_new(text);
    struct json_token token = {0};
    int r = reader ? 0 : err_set(err, ENOMEM, "no memory");

    for (int i = 0; r == 0 && i < 3; i++) {
        r = json_next(reader, &token, err);
        if (r == 0 && i == 1 && token.kind != JSON_NAME)
            break;
    }
    json_reader_free(reader);
    return r < 0 ? r : token.kind == JSON_OBJECT;
}

static int bad_key(struct ctl *ctl, const char *text, const struct err *reason)
{
    return ctl_usage(ctl, "key %.200s: %s", text, reason->text);
}

static int part_from_member(const struct table *table, bool sort_part, struct value *map,
                            struct buf *out, struct err *err)
{
    const char *name = sort_part ? table->sort.name : table->partition.name;
    struct value *value = value_member(map, span_text(name));
    int r;

    if (!value)
        return err_set(err, EINVAL, "it has no attribute \"%s\"", name);
    r = key_part_from_value(table, sort_part, value, out, err);
    if (r == 0)
        value_member_remove(map, span_text(name));
    return r;
}

static int check_nothing_left(const struct value *map, struct err *err)
{
    if (map->map.count == 0)
        return 0;
    return err_set(err, EINVAL, "\"%.*s\" is no attribute of this key",
                   (int)map->map.members[0].name_len, map->map.members[0].name);
}

static int part_from_typed(const struct table *table, bool sort_part, struct span text,
                           struct buf *out, struct err *err)
{
    cleanup(value_release) struct value value = {0};
    int whole = is_whole_key(text, err);
    int r;

    if (whole < 0)
        return whole;
    if (!whole) {
        r = value_from_typed(text, &value, err);
        return r < 0 ? r : key_part_from_value(table, sort_part, &value, out, err);
    }
    r = value_map_from_typed(text, &value, err);
    if (r == 0)
        r = part_from_member(table, sort_part, &value, out, err);
    return r < 0 ? r : check_nothing_left(&value, err);
}

int key_part_from_word(struct ctl *ctl, const struct table *table, bool sort_part, const char *text,
                       struct buf *out)
{
    struct err reason = {""};
    int r = text[0] == '{' ? part_from_typed(table, sort_part, span_text(text), out, &reason)
                           : key_part_from_text(table, sort_part, span_text(text), out, &reason);

    return r < 0 ? bad_key(ctl, text, &reason) : 0;
}

/* Both parts of a sorted table's key from one word. */
static int key_from_whole(struct ctl *ctl, const struct table *table, struct span text,
                          struct key_bytes *key, struct err *err)
{
    cleanup(value_release) struct value map = {0};
    int r = value_map_from_typed(text, &map, err);

    if (r == 0 && !value_member(&map, span_text(table->partition.name))) {
        int shown = key_from_shown(ctl, table, &map, key, err);

        if (shown <= 0)
            return shown;
    }
    if (r == 0)
        r = part_from_member(table, false, &map, &key->partition, err);
    if (r == 0)
        r = part_from_member(table, true, &map, &key->sort, err);
    return r < 0 ? r : check_nothing_left(&map, err);
}

int key_from_words(struct ctl *ctl, const struct table *table, const char *key,
                   struct key_bytes *ret_key)
{
    const char *sort = arguments_value(ctl->arguments, "--sort-key");
    struct err reason = {""};
    int r;

    if (sort && !table_sorted(table))
        return ctl_usage(ctl, "table %s has no sort key", table->name);
    if (table_sorted(table) && !sort) {
        if (key[0] != '{' || is_whole_key(span_text(key), NULL) != 1)
            return ctl_usage(ctl, "table %s has a sort key, \"%s\": add --sort-key KEY",
                             table->name, table->sort.name);
        r = key_from_whole(ctl, table, span_text(key), ret_key, &reason);
        return r < 0 ? bad_key(ctl, key, &reason) : 0;
    }
    r = key_part_from_word(ctl, table, false, key, &ret_key->partition);
    return r || !sort ? r : key_part_from_word(ctl, table, true, sort, &ret_key->sort);
}

int key_from_options(struct ctl *ctl, const struct table *table, struct key_bytes *ret_key)
{
    const char *key = arguments_value(ctl->arguments, "-k");

    return key ? key_from_words(ctl, table, key, ret_key)
               : ctl_usage(ctl, "%s needs -k KEY", ctl->command->name);
}
