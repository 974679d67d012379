/* SPDX-License-Identifier: MIT */
/*
 * The names of the objects that a JSON reader is inside of, to find duplicates. Part of json.c.
 *
 * All names stand on one stack, an object's above those of the objects around it. An object of few
 * names is searched one by one; once it has more, its names also stand in a hash table that all
 * open objects share. Objects close innermost first, so entries leave the table in reverse order of
 * their coming, and linear probing needs no marks for removed ones.
 */
#ifndef BASE_JSON_NAMES_H
#define BASE_JSON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define JSON_NAMES_INLINE 16
#define JSON_OBJECTS_INLINE 8

struct json_name {
    const char *raw;
    size_t len;
    uint64_t hash; /* of the unescaped name; only set once it is in the table */
    bool escaped;
};

struct json_names {
    struct json_name *names; /* `inline_names` until they are too many */
    size_t count, capacity;
    size_t *objects; /* where each open object's names begin */
    size_t object_count, object_capacity;
    uint32_t *slots; /* index of a name + 1; 0: free */
    size_t slot_count;
    size_t slots_used;
    struct buf scratch[2];
    struct json_name inline_names[JSON_NAMES_INLINE];
    size_t inline_objects[JSON_OBJECTS_INLINE];
};

void json_names_init(struct json_names *names);
void json_names_release(struct json_names *names);
/* An object begins, ends. -ENOMEM. */
int json_names_open(struct json_names *names);
void json_names_close(struct json_names *names);
/* A name of the innermost object; RAW must outlive it. -EEXIST when the object has it already. */
int json_names_add(struct json_names *names, struct span raw, bool escaped);

#endif
