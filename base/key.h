/* SPDX-License-Identifier: MIT */
/*
 * Keys and the file names they appear under.
 *
 * A key is one or two parts. A part in memory is canonical bytes: S its text (WTF-8, not empty),
 * N the canonical decimal (number.h), B the raw bytes (not empty).
 *
 * Part to name: S percent-encoded (upper-case hex) where it holds "/", NUL, control bytes (below
 * 0x20, and DEL), "%", or begins with "."; the rest byte for byte. N as its decimal. B as base64url
 * without padding. A file's name is the part's name + ".json" (KEY_ITEM_SUFFIX); a partition
 * directory's name has no suffix. A name that would pass KEY_NAME_MAX bytes, suffix included, is
 * the longest beginning of the encoded part (cut at whole characters and whole escapes) + "~" + 32
 * hex digits of the SHA-256 of the part + suffix: a hashed name, of KEY_NAME_MAX bytes at most. A
 * short part whose encoding ends in "~" + 32 lower-case hex digits gets that "~" as "%7E". So names
 * and keys are one to one, and every other spelling of a name is refused.
 *
 * Tag keys: a name's parts between "_" are tags; the canonical key has them sorted (key_sort_tags).
 * The tag store's programs make names as long as a filesystem takes them, and look for them in
 * listings: there only a name that would pass KEY_TAGS_NAME_MAX is a hashed one, of the same length
 * as elsewhere. Where programs have no such habit, KEY_NAME_MAX leaves editors room for the names
 * of their backups and swap files.
 */
#ifndef BASE_KEY_H
#define BASE_KEY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "base/table.h"

#define KEY_NAME_MAX 240
#define KEY_TAGS_NAME_MAX 255
#define KEY_ITEM_SUFFIX ".json"
#define KEY_PART_MAX 65535 /* bytes; a local limit, DynamoDB has tighter ones */

struct key {
    struct span partition;
    struct span sort; /* len 0 in tables without sort key */
};

static inline bool key_equal(struct key a, struct key b)
{
    return span_equal(a.partition, b.partition) && span_equal(a.sort, b.sort);
}

/* True for a name that an item's file has: ends in ".json" and does not begin with ".". */
bool name_is_item(struct span name);

/* Appends the name of PART, a value of TYPE that is no tag key, with SUFFIX ("" or
 * KEY_ITEM_SUFFIX). */
void name_from_part(enum value_type type, struct span part, const char *suffix, struct buf *out);

/*
 * The inverse. 0: the part's bytes are appended to OUT. 1: NAME is a hashed name; OUT gets the
 * bytes that the part begins with (for B whole bytes only), to search from; compare candidates by
 * name_from_part. -EINVAL with a reason (err names the right spelling where there is one) for any
 * name that no part has.
 */
int name_to_part(enum value_type type, struct span name, const char *suffix, struct buf *out,
                 struct err *err);

/* The same for a part of a key of TABLE, which may have tag keys. Tags come as they are written:
 * their order is not looked at. */
void key_part_to_name(const struct table *table, bool sort_part, struct span part,
                      const char *suffix, struct buf *out);
int key_part_from_name(const struct table *table, bool sort_part, struct span name,
                       const char *suffix, struct buf *out, struct err *err);

/*
 * A name of several parts, as symlinks in an index's directory have it: the parts, encoded as
 * above, with "," between them; "," within a part is escaped, too. One that would be too long, or
 * look hashed, is hashed: its beginning + "~" + 32 hex digits of the SHA-256 of what it would have
 * been. A single part has the name that name_from_part gives.
 */
#define NAME_PARTS_MAX 3
struct name_part {
    enum value_type type;
    struct span bytes; /* canonical, not empty */
};
void name_from_parts(const struct name_part *parts, size_t count, const char *suffix,
                     struct buf *out);
/* The inverse, into empty buffers. 0; 1: a hashed name, whose parts it does not tell; -EINVAL: no
 * such parts have this name. */
int name_to_parts(const enum value_type *types, size_t count, struct span name, const char *suffix,
                  struct buf *ret_parts);

/*
 * Appends the canonical order of the tags of TEXT (a name's part decoded, tags joined with "_"):
 * first by bytes, then stably by the tag store's rule, where two numeric strings compare as
 * numbers and all else by bytes (tests/vectors/lucinda.json). Numeric strings are
 * PHP's: optional white space, sign, decimal or exponent form; integers beyond 64 bits and
 * exponent forms as floating point; equal ones keep byte order. Where STRICT, each tag must be
 * [a-z0-9-]+ (not empty), else -EINVAL with the reason; otherwise any text is a tag, also "".
 */
int key_sort_tags(struct span text, bool strict, struct buf *out, struct err *err);

/* Why TAG is none, in words: it holds "_", or is against the strict rule where STRICT; -EINVAL. */
int key_check_tag(struct span tag, bool strict, struct err *err);
/* Whether TAG is one of the tags of TEXT, tags joined with "_". */
bool key_has_tag(struct span text, struct span tag);
/* The first of the tags of REST, which becomes what follows it (data NULL: nothing). */
struct span key_next_tag(struct span *rest);

/* Canonical bytes of a key part from what a person typed (S as is, N any number, B base64 with
 * standard alphabet), tags sorted where TABLE has tag keys and SORT_PART is false. */
int key_part_from_text(const struct table *table, bool sort_part, struct span text, struct buf *out,
                       struct err *err);
/* The same from an attribute value; its type must be the part's (-EINVAL). */
int key_part_from_value(const struct table *table, bool sort_part, const struct value *value,
                        struct buf *out, struct err *err);
/* The attribute value of a canonical part. */
int key_part_to_value(enum value_type type, struct span part, struct value *ret_value);

/* Appends the whole key in typed form on one line: {"id":{"S":"a"},"sort":{"N":"5"}}. */
void key_to_typed(const struct table *table, struct key key, struct buf *out);

/* A number for stat's st_ino: stable over remounts, never 0 or 1 (2 is the lowest). PARENT is the
 * directory's number; the same NAME (bytes of a key part, or of a scratch name) gives the same. */
uint64_t key_inode_number(uint64_t parent, struct span name);

#endif
