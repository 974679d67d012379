/* SPDX-License-Identifier: MIT */
/* Names, keys and where an inode is: everything that needs no backend. */
#include "fs/mount.h"

#include <errno.h>

#define NAME_LONGEST 255 /* what every other filesystem can take a copy of */

bool dir_holds_items(const struct inode *dir)
{
    if (dir->kind == INODE_PARTITION)
        return true;
    return dir->kind == INODE_TABLE && !table_sorted(volume_table(dir->volume));
}

bool inode_expired(const struct inode *inode)
{
    return inode->kind == INODE_ITEM &&
           (inode->meta.hidden ||
            item_gone(volume_table(inode->volume), inode->meta.ttl, clock_now_s()));
}

struct key dir_key(const struct inode *dir, struct span part)
{
    if (dir->kind == INODE_PARTITION)
        return (struct key){.partition = inode_name(dir), .sort = part};
    return (struct key){.partition = part};
}

int key_copy_locked(const struct inode *item, struct key_copy *ret_copy)
{
    struct key key = dir_key(item->parent, inode_name(item));
    buf_init(&ret_copy->bytes, SIZE_MAX / 2);
    buf_add_span(&ret_copy->bytes, key.partition);
    buf_add_span(&ret_copy->bytes, key.sort);
    buf_add_char(&ret_copy->bytes, '\0');
    if (buf_error(&ret_copy->bytes))
        return -ENOMEM;
    const char *bytes = ret_copy->bytes.data;
    ret_copy->key.partition = span_of(bytes, key.partition.len);
    ret_copy->key.sort = span_of(bytes + key.partition.len, key.sort.len);
    return 0;
}

void key_copy_release(struct key_copy *copy)
{
    buf_release(&copy->bytes);
}

/* The name of PART in DIR. */
static void add_name(const struct inode *dir, struct span part, const char *suffix, struct buf *out)
{
    key_part_to_name(volume_table(dir->volume), dir->kind == INODE_PARTITION, part, suffix, out);
}

void inode_file_name(const struct inode *inode, struct buf *out)
{
    switch (inode_kind(inode)) {
    case INODE_ITEM: add_name(inode->parent, inode_name(inode), KEY_ITEM_SUFFIX, out); break;
    case INODE_PARTITION: add_name(inode->parent, inode_name(inode), "", out); break;
    default: buf_add_span(out, inode_name(inode)); break;
    }
}

void scratch_place(const struct inode *dir, struct scratch *ret_scratch)
{
    *ret_scratch = (struct scratch){.table_id = volume_table(dir->volume)->id};
    if (dir->kind == INODE_DIRECTORY)
        ret_scratch->parent = dir->scratch->id;
    while (dir->kind == INODE_DIRECTORY)
        dir = dir->parent;
    if (dir->kind == INODE_PARTITION)
        ret_scratch->partition = inode_name(dir);
}

/* The key part of an item or partition name, tags sorted. */
static int parse_part(const struct inode *dir, struct span name, struct place *place,
                      struct err *err)
{
    const struct table *table = volume_table(dir->volume);
    const char *suffix = place->kind == PLACE_ITEM ? KEY_ITEM_SUFFIX : "";
    cleanup(buf_release) struct buf raw;
    buf_init(&raw, KEY_PART_MAX);
    bool tags = table->keys == KEYS_TAGS && dir->kind == INODE_TABLE;
    int code = key_part_from_name(table, dir->kind == INODE_PARTITION, name, suffix,
                                  tags ? &raw : &place->part, err);
    if (code < 0)
        return code;
    place->hashed = code == 1;
    if (!tags)
        return buf_error(&place->part);
    if (place->hashed)
        buf_add_span(&place->part, buf_span(&raw));
    else
        code = key_sort_tags(buf_span(&raw), table->strict_tags, &place->part, err);
    place->alias = !place->hashed && !span_equal(buf_span(&raw), buf_span(&place->part));
    return code < 0 ? code : buf_error(&place->part);
}

static bool ends_in(struct span name, const char *suffix)
{
    size_t len = strlen(suffix);
    return name.len >= len && memcmp(name.data + name.len - len, suffix, len) == 0;
}

bool name_is_temporary(struct span name)
{
    static const char *const suffixes[] = {"~",     ".tmp", ".temp", ".bak",  ".old",
                                           ".orig", ".swp", ".new",  ".part", ".save"};
    bool digits = name.len > 0;
    for (size_t i = 0; i < name.len; i++)
        digits &= name.data[i] >= '0' && name.data[i] <= '9'; /* vim's 4913 */
    if (digits || name.data[0] == '.' || name.data[0] == '#' ||
        (name.len == 9 && memcmp(name.data, "sed", 3) == 0) || /* sed -i */
        (name.len == 8 && memcmp(name.data, "XX", 2) == 0))    /* perl -i */
        return true;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (ends_in(name, suffixes[i]))
            return true;
    return memmem(name.data, name.len, ".json.", 6) || span_equal(name, span_text("tmp"));
}

int place_parse(const struct inode *dir, struct span name, struct place *ret_place, struct err *err)
{
    *ret_place = (struct place){.kind = PLACE_SCRATCH};
    buf_init(&ret_place->part, KEY_PART_MAX);
    if (name.len > NAME_LONGEST)
        return err_set(err, ENAMETOOLONG, "a name has at most %d bytes, this has %zu", NAME_LONGEST,
                       name.len);
    bool hidden = name.data[0] == '.';
    if (dir->kind == INODE_CONTROL ||
        (dir->kind == INODE_ROOT && span_equal(name, span_text(CONTROL_NAME))))
        ret_place->kind = PLACE_CONTROL;
    else if (dir->kind == INODE_ROOT)
        ret_place->kind = PLACE_TABLE;
    else if (dir_holds_items(dir) && name_is_item(name))
        ret_place->kind = PLACE_ITEM;
    else if (dir->kind == INODE_TABLE && !dir_holds_items(dir) && !hidden)
        ret_place->kind = PLACE_PARTITION;
    if (ret_place->kind == PLACE_ITEM || ret_place->kind == PLACE_PARTITION)
        return parse_part(dir, name, ret_place, err);
    buf_add_span(&ret_place->part, name);
    return buf_error(&ret_place->part);
}
