/* SPDX-License-Identifier: MIT */
/*
 * KEY on a command line: plain text in the key's type, a typed value ({"S":"a"}), or a whole key
 * ({"id":{"S":"a"},"sort":{"N":"1"}}). What begins with "{" is one of the last two; a plain key
 * that does is written as a typed value. What is wrong with a key is a usage error.
 */
#ifndef ITEMCTL_KEYS_H
#define ITEMCTL_KEYS_H

#include "base/buf.h"
#include "base/key.h"
#include "tools/itemctl/itemctl.h"

struct key_bytes {
    struct buf partition, sort;
};
void key_bytes_init(struct key_bytes *bytes);
void key_bytes_release(struct key_bytes *bytes);
struct key key_bytes_key(const struct key_bytes *bytes);
/* A copy of KEY; -ENOMEM. */
int key_bytes_set(struct key_bytes *bytes, struct key key);

struct value;
/* The stored key of a whole key, MAP, as user.itemfs.key has it of a table with a profile, where
 * that is another one. 1: it is no such key. */
int key_from_shown(struct ctl *ctl, const struct table *table, const struct value *map,
                   struct key_bytes *ret_key, struct err *err);
/* The key of an item from KEY and --sort-key. */
int key_from_words(struct ctl *ctl, const struct table *table, const char *key,
                   struct key_bytes *ret_key);
/* The same from -k and --sort-key. */
int key_from_options(struct ctl *ctl, const struct table *table, struct key_bytes *ret_key);
/* One part from TEXT, which may also be a whole key with that part alone. */
int key_part_from_word(struct ctl *ctl, const struct table *table, bool sort_part, const char *text,
                       struct buf *out);

#endif
