/* SPDX-License-Identifier: MIT */
#include "base/json_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define LINEAR_MAX 16 /* names of one object that are searched one by one */
#define SLOTS_FIRST 128

void json_names_init(struct json_names *names)
{
    names->names = names->inline_names;
    names->count = 0;
    names->capacity = JSON_NAMES_INLINE;
    names->objects = names->inline_objects;
    names->object_count = 0;
    names->object_capacity = JSON_OBJECTS_INLINE;
    names->slots = NULL;
    names->slot_count = 0;
    names->slots_used = 0;
    buf_init(&names->scratch[0], SIZE_MAX / 8);
    buf_init(&names->scratch[1], SIZE_MAX / 8);
}

void json_names_release(struct json_names *names)
{
    if (names->names != names->inline_names)
        free(names->names);
    if (names->objects != names->inline_objects)
        free(names->objects);
    free(names->slots);
    buf_release(&names->scratch[0]);
    buf_release(&names->scratch[1]);
}

/* Twice the room for elements of SIZE bytes; FIRST is the array that is not on the heap. */
static void *grow(void *array, const void *first, size_t *capacity, size_t size)
{
    void *old = array == first ? NULL : array;
    void *grown = realloc(old, 2 * *capacity * size);
    if (!grown)
        return NULL;
    if (!old)
        memcpy(grown, first, *capacity * size);
    *capacity *= 2;
    return grown;
}

int json_names_open(struct json_names *names)
{
    if (names->object_count == names->object_capacity) {
        size_t *grown = grow(names->objects, names->inline_objects, &names->object_capacity,
                             sizeof *names->objects);
        if (!grown)
            return -ENOMEM;
        names->objects = grown;
    }
    names->objects[names->object_count++] = names->count;
    return 0;
}

static size_t object_start(const struct json_names *names)
{
    return names->objects[names->object_count - 1];
}

/* The slot that holds the name INDEX, or the first free one on its way. */
static size_t slot_of(const struct json_names *names, size_t index)
{
    size_t mask = names->slot_count - 1;
    size_t slot = names->names[index].hash & mask;
    while (names->slots[slot] && names->slots[slot] != index + 1)
        slot = (slot + 1) & mask;
    return slot;
}

void json_names_close(struct json_names *names)
{
    size_t start = object_start(names);
    bool hashed = names->count - start > LINEAR_MAX;
    while (hashed && names->count > start) {
        names->slots[slot_of(names, --names->count)] = 0;
        names->slots_used--;
    }
    names->count = start;
    names->object_count--;
}

/* The name's bytes; SCRATCH holds them where they must be unescaped. -ENOMEM. */
static int name_bytes(const struct json_name *name, struct buf *scratch, struct span *ret_bytes)
{
    *ret_bytes = span_of(name->raw, name->len);
    if (!name->escaped)
        return 0;
    buf_clear(scratch);
    json_unescape(*ret_bytes, scratch);
    *ret_bytes = buf_span(scratch);
    return buf_error(scratch);
}

/* 1 when BYTES is the name OTHER. */
static int name_is(struct json_names *names, struct span bytes, const struct json_name *other)
{
    if (!other->escaped)
        return bytes.len == other->len && memcmp(bytes.data, other->raw, other->len) == 0;
    struct span other_bytes;
    int error = name_bytes(other, &names->scratch[1], &other_bytes);
    return error ? error : span_equal(bytes, other_bytes);
}

static int find_linear(struct json_names *names, struct span bytes)
{
    int found = 0;
    for (size_t i = object_start(names); i < names->count && !found; i++)
        found = name_is(names, bytes, &names->names[i]);
    return found;
}

/* A hash that differs for each place in the text and each reader, so that names of objects around
 * do not stand in the way, and nobody can prepare names that collide. */
static uint64_t name_hash(const struct json_names *names, struct span bytes)
{
    return hash64(bytes, (uintptr_t)names ^ (uint64_t)object_start(names) << 32);
}

static int find_hashed(struct json_names *names, struct span bytes, uint64_t hash)
{
    size_t start = object_start(names);
    size_t mask = names->slot_count - 1;
    for (size_t slot = hash & mask; names->slots[slot]; slot = (slot + 1) & mask) {
        size_t index = names->slots[slot] - 1;
        if (index < start || names->names[index].hash != hash)
            continue;
        int found = name_is(names, bytes, &names->names[index]);
        if (found)
            return found;
    }
    return 0;
}

static void insert(struct json_names *names, size_t index)
{
    names->slots[slot_of(names, index)] = (uint32_t)index + 1;
    names->slots_used++;
}

/* Makes room for COUNT more entries. The old ones enter the larger table oldest first: closing
 * relies on that order. */
static int reserve_slots(struct json_names *names, size_t count)
{
    size_t slot_count = names->slot_count ? names->slot_count : SLOTS_FIRST;
    while ((names->slots_used + count) * 2 > slot_count)
        slot_count *= 2;
    if (slot_count == names->slot_count)
        return 0;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    free(names->slots);
    names->slots = slots;
    names->slot_count = slot_count;
    names->slots_used = 0;
    for (size_t object = 0; object < names->object_count; object++) {
        size_t start = names->objects[object];
        size_t stop = object + 1 < names->object_count ? names->objects[object + 1] : names->count;
        for (size_t i = start; stop - start > LINEAR_MAX && i < stop; i++)
            insert(names, i);
    }
    return 0;
}

/* Called when the innermost object gets its first name too many: all of them enter the table. */
static int start_hashing(struct json_names *names)
{
    int error = reserve_slots(names, LINEAR_MAX + 1);
    for (size_t i = object_start(names); i < names->count && !error; i++) {
        struct span bytes;
        error = name_bytes(&names->names[i], &names->scratch[1], &bytes);
        names->names[i].hash = error ? 0 : name_hash(names, bytes);
        if (!error)
            insert(names, i);
    }
    return error;
}

static int add_hashed(struct json_names *names, struct span bytes, struct json_name *name)
{
    int found = names->count - object_start(names) == LINEAR_MAX ? start_hashing(names) : 0;
    found = found ? found : reserve_slots(names, 1);
    name->hash = name_hash(names, bytes);
    return found ? found : find_hashed(names, bytes, name->hash);
}

int json_names_add(struct json_names *names, struct span raw, bool escaped)
{
    struct json_name name = {.raw = raw.data, .len = raw.len, .escaped = escaped};
    struct span bytes;
    int found = name_bytes(&name, &names->scratch[0], &bytes);
    if (found)
        return found;
    bool hashed = names->count - object_start(names) >= LINEAR_MAX;
    found = hashed ? add_hashed(names, bytes, &name) : find_linear(names, bytes);
    if (found)
        return found < 0 ? found : -EEXIST;
    if (names->count == UINT32_MAX)
        return -ENOMEM;
    if (names->count == names->capacity) {
        struct json_name *grown =
            grow(names->names, names->inline_names, &names->capacity, sizeof name);
        if (!grown)
            return -ENOMEM;
        names->names = grown;
    }
    names->names[names->count++] = name;
    if (hashed)
        insert(names, names->count - 1);
    return 0;
}
