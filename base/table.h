/* SPDX-License-Identifier: MIT */
/* What a table is: its keys, indexes and settings. Pure data, shared by all layers. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/value.h"

#define TABLE_NAME_MAX 255
#define TABLE_INDEXES_MAX 25
#define TABLE_TTL_DEFAULT "-ttl"

/* One attribute of a key: VALUE_S, VALUE_N or VALUE_B. name is NULL where the part is absent. */
struct key_attribute {
    char *name;
    enum value_type type;
};

struct profile_table;

struct index {
    char *name;
    struct key_attribute partition;
    struct key_attribute sort; /* name NULL: none */
    bool partial;              /* of a service: it has only some attributes of its items */
};

enum keys_style { KEYS_PLAIN, KEYS_TAGS };
enum body_format { FORMAT_PLAIN, FORMAT_TYPED };

struct table {
    /* Kept by the backend. */
    uint64_t id; /* never used again within a store, and stable over remounts */
    char *name;
    struct key_attribute partition;
    struct key_attribute sort; /* name NULL: no sort key */
    char *ttl_attribute;       /* NULL: none */
    enum keys_style keys;
    bool ttl_unknown; /* a service that has no time to live, or does not let it be asked for */
    bool stream;
    struct index *indexes;
    size_t index_count;
    uint64_t read_units, write_units; /* a second, that a service provides; 0: as many as wanted */
    int64_t created_ns;               /* epoch nanoseconds */
    int64_t changed_ns; /* when an item or scratch file last appeared or went: directory mtime */

    /* Settings of this mount, from mount.conf; table_new gives the defaults. */
    bool strict_tags;
    bool show_keys; /* rendered bodies show the key (default: for plain keys) */
    enum body_format format;
    enum type_names types; /* how typed items that are given out call their types */

    /* Of a table with a profile (backend/profile/profile.h); else NULL and false. */
    const struct profile_table *profile; /* how a mount shows its items: of the shown table */
    bool ttl_beside; /* the time to live never stands in a body: an action's ttl is what counts */
    bool ttl_whole;  /* an item is there to the end of the second that is its time to live */
    bool eventual;   /* what a service reads may be a moment old */
    bool untold;     /* changes may be told without their keys */
    bool unordered;  /* walks go in another order than that of the keys */
    unsigned sort_digits; /* names of a sort key that is a number, not negative and whole, have so
                             many digits at least; 0: as many as it has */
};

/* A table named NAME without keys yet. NULL when memory ran out. */
struct table *table_new(struct span name);
struct table *table_copy(const struct table *table);
void table_free(struct table *table);
/* Whether both say the same of everything but times and units. */
bool table_equal(const struct table *a, const struct table *b);
/* Whether both have the same keys, and the same indexes in whatever order. */
bool table_shape_equal(const struct table *a, const struct table *b);
/* Gives TABLE copies of FROM's keys and indexes. -ENOMEM, and then it is as it was. */
int table_take_shape(struct table *table, const struct table *from);
bool index_equal(const struct index *a, const struct index *b);
bool key_attribute_equal(const struct key_attribute *a, const struct key_attribute *b);

static inline bool table_sorted(const struct table *table)
{
    return table->sort.name != NULL;
}

/* What `mkdir` makes: key `key` (S), tag keys, TTL attribute "-ttl", stream on. */
struct table *table_new_default(struct span name);

/* 1..255 bytes of UTF-8, no "/", no control bytes, not beginning with "."; -EINVAL with a reason.
 * Table names are file names as they are, without escapes. */
int table_check_name(struct span name, struct err *err);
/* Checks a whole description before it is created: names, types, distinct attributes, indexes. */
int table_check(const struct table *table, struct err *err);

/* Parse "NAME[:S|N|B]" (type S when absent), and "NAME:PK[:TYPE][,SK[:TYPE]]". An attribute's name
 * may hold ":" only when a type follows its last one. */
int key_attribute_parse(struct span text, struct key_attribute *ret_attribute, struct err *err);
int index_parse(struct span text, struct index *ret_index, struct err *err);
void key_attribute_release(struct key_attribute *attribute);
void index_release(struct index *index);
/* Adds a copy of INDEX behind the others; -ENOMEM. */
int table_add_index(struct table *table, const struct index *index);
void table_remove_index(struct table *table, size_t at);
const struct index *table_index(const struct table *table, struct span name);

/* The description as a JSON document for people and programs (2-space indent, final newline):
 * {"TableName", "KeySchema": [{"AttributeName","KeyType","AttributeType"}], "Keys": "tags"|"plain",
 *  "TimeToLive": attribute or null, "Stream": bool, "Indexes": [..], "Created": RFC 3339} */
void table_to_json(const struct table *table, struct buf *out);

#endif
