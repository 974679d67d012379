/* SPDX-License-Identifier: MIT */
/*
 * A file's name is the key and ".json". Bytes that a name cannot have, or that would hide it, are
 * escaped as in a mount (base/key.h), and a longer name is as long as the file system's own limit
 * allows where nothing has to be escaped. Hashed names there are none: a file must lead back to its
 * key by its name alone.
 */
#include <errno.h>
#include <string.h>

#include "backend/check.h"
#include "backend/folder/private.h"

#define SUFFIX_LEN (sizeof KEY_ITEM_SUFFIX - 1)

/* Whether PART is spelled as it is, in a name of any length. */
static bool is_plain(struct span part)
{
    for (size_t i = 0; i < part.len; i++) {
        unsigned char c = (unsigned char)part.data[i];
        if (c < 0x20 || c == 0x7F || c == '/' || c == '%' || c == '~')
            return false;
    }
    return part.len > 0 && part.data[0] != '.';
}

static bool is_long(enum value_type type, struct span part)
{
    return type == VALUE_S && part.len + SUFFIX_LEN > KEY_NAME_MAX &&
           part.len + SUFFIX_LEN <= NAME_MAX && is_plain(part);
}

/* Whether the key is one of TABLE, as far as its tags go. */
static int check_tags(const struct table *table, struct span part, struct err *err)
{
    cleanup(buf_release) struct buf sorted;

    buf_init(&sorted, KEY_PART_MAX + 1);
    if (table->keys != KEYS_TAGS)
        return 0;
    int r = key_sort_tags(part, table->strict_tags, &sorted, err);
    if (r == 0 && !span_equal(buf_span(&sorted), part))
        return err_set(err, EINVAL, "its tags are not in order: this key is \"%.*s\"",
                       (int)sorted.len, sorted.data);
    return r;
}

int key_of_file_name(const struct table *table, const char *name, struct buf *part, struct err *err)
{
    struct span whole = span_text(name);
    size_t before = part->len;

    if (!name_is_item(whole) || whole.len == SUFFIX_LEN)
        return 1;
    struct span core = span_of(name, whole.len - SUFFIX_LEN);
    int r = 0;
    if (is_long(table->partition.type, core))
        buf_add_span(part, core);
    else
        r = name_to_part(table->partition.type, whole, KEY_ITEM_SUFFIX, part, err);
    if (r == 1)
        return err_set(err, EINVAL, "its name is a hashed one, which tells no key");
    if (r == 0)
        r = buf_error(part);
    struct span own = span_from(buf_span(part), before);
    if (r == 0)
        r = check_part(table->partition.type, own, "key", err);
    return r ? r : check_tags(table, own, err);
}

int file_name_of_key(const struct table *table, struct key key, char ret_name[NAME_MAX + 1],
                     struct err *err)
{
    cleanup(buf_release) struct buf name, back;
    struct err own = {""};
    size_t room = 4 * (size_t)KEY_PART_MAX;

    buf_init(&name, room);
    buf_init(&back, room);
    if (is_long(table->partition.type, key.partition)) {
        buf_add_span(&name, key.partition);
        buf_add_text(&name, KEY_ITEM_SUFFIX);
    } else {
        name_from_part(table->partition.type, key.partition, KEY_ITEM_SUFFIX, &name);
    }
    if (buf_error(&name))
        return err_set(err, ENOMEM, "no memory");
    int r = key_of_file_name(table, name.data, &back, &own);
    if (r == 0 && span_equal(buf_span(&back), key.partition)) {
        memcpy(ret_name, name.data, name.len + 1);
        return 0;
    }
    if (r == -ENOMEM)
        return err_set(err, ENOMEM, "no memory");
    if (key.partition.len + SUFFIX_LEN > KEY_NAME_MAX)
        return err_set(err, ENAMETOOLONG,
                       "%s: no file can have this name: it is the key, and has %d bytes at most",
                       item_label(table, key).text, NAME_MAX);
    return err_set(err, EINVAL, "%s: %s", item_label(table, key).text,
                   own.text[0] ? own.text : "no file can have this name");
}
