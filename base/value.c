/* SPDX-License-Identifier: MIT */
/* The tree of attribute values. Reading it from JSON is in value_read.c and value_typed.c, writing
 * in value_write.c. Recursion is bounded: no reader makes a tree deeper than JSON_DEPTH_MAX. */
#include "base/value.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/form.h"
#include "base/number.h"
#include "base/value_tree.h"

static const char *const type_names[] = {
    [VALUE_S] = "S",       [VALUE_N] = "N",  [VALUE_B] = "B", [VALUE_BOOL] = "BOOL",
    [VALUE_NULL] = "NULL", [VALUE_L] = "L",  [VALUE_M] = "M", [VALUE_SS] = "SS",
    [VALUE_NS] = "NS",     [VALUE_BS] = "BS"};

const char *value_type_name(enum value_type type)
{
    return type_names[type];
}

bool value_type_from_name(struct span name, enum value_type *ret_type)
{
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (span_equal(name, span_text(type_names[i]))) {
            *ret_type = (enum value_type)i;
            return true;
        }
    }
    return false;
}

static bool is_text(enum value_type type)
{
    return type == VALUE_S || type == VALUE_N || type == VALUE_B;
}

bool value_is_set(enum value_type type)
{
    return type == VALUE_SS || type == VALUE_NS || type == VALUE_BS;
}

static void member_release(struct member *member)
{
    free(member->name);
    value_release(&member->value);
}

void value_release(struct value *value)
{
    if (is_text(value->type)) {
        free(value->text.data);
    } else if (value->type == VALUE_M) {
        for (size_t i = 0; i < value->map.count; i++)
            member_release(&value->map.members[i]);
        free(value->map.members);
    } else if (value->type == VALUE_L || value_is_set(value->type)) {
        for (size_t i = 0; i < value->list.count; i++)
            value_release(&value->list.items[i]);
        free(value->list.items);
    }
    *value = (struct value){0};
}

static char *copy_bytes(struct span text)
{
    char *copy = malloc(text.len + 1);
    if (!copy)
        return NULL;
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

int value_new_text(enum value_type type, struct span text, struct value *ret_value)
{
    char *copy = copy_bytes(text);
    if (!copy)
        return -ENOMEM;
    *ret_value = (struct value){.type = type, .text = {.data = copy, .len = text.len}};
    return 0;
}

struct value value_new_map(void)
{
    return (struct value){.type = VALUE_M};
}

/* Room for one more element of an array of COUNT. Arrays are always grown to a power of two, so
 * that COUNT alone tells whether there may be none; one that lost elements has more. */
static void *grow(void *array, size_t count, size_t size)
{
    if (count > 0 && (count < 4 || (count & (count - 1)) != 0))
        return array;
    size_t capacity = count ? 2 * count : 4;
    return capacity > SIZE_MAX / size ? NULL : realloc(array, capacity * size);
}

int value_list_add(struct value *list, struct value value)
{
    struct value *items = grow(list->list.items, list->list.count, sizeof value);
    if (!items) {
        value_release(&value);
        return -ENOMEM;
    }
    list->list.items = items;
    items[list->list.count++] = value;
    return 0;
}

int value_member_add(struct value *map, struct span name, struct value value)
{
    char *copy = copy_bytes(name);
    struct member *members = copy ? grow(map->map.members, map->map.count, sizeof *members) : NULL;
    if (!members) {
        free(copy);
        value_release(&value);
        return -ENOMEM;
    }
    map->map.members = members;
    members[map->map.count++] = (struct member){.name = copy, .name_len = name.len, .value = value};
    return 0;
}

struct value *value_member(const struct value *map, struct span name)
{
    for (size_t i = 0; i < map->map.count; i++) {
        struct member *member = &map->map.members[i];
        if (span_equal(span_of(member->name, member->name_len), name))
            return &member->value;
    }
    return NULL;
}

int value_member_set(struct value *map, struct span name, struct value value)
{
    struct value *old = value_member(map, name);
    if (!old)
        return value_member_add(map, name, value);
    value_release(old);
    *old = value;
    return 0;
}

void value_member_remove(struct value *map, struct span name)
{
    struct value *value = value_member(map, name);
    if (!value)
        return;
    size_t at = 0;
    while (&map->map.members[at].value != value)
        at++;
    member_release(&map->map.members[at]);
    map->map.count--;
    memmove(&map->map.members[at], &map->map.members[at + 1],
            (map->map.count - at) * sizeof *map->map.members);
}

/* How many levels of arrays and objects the plain form of VALUE has. */
size_t value_plain_depth(const struct value *value)
{
    size_t deepest = 0;
    if (value->type == VALUE_M) {
        for (size_t i = 0; i < value->map.count; i++) {
            size_t depth = value_plain_depth(&value->map.members[i].value);
            deepest = depth > deepest ? depth : deepest;
        }
        return deepest + (value_needs_wrap(value) ? 2 : 1);
    }
    if (value->type != VALUE_L)
        return value->type == VALUE_B ? 1 : value_is_set(value->type) ? 2 : 0;
    for (size_t i = 0; i < value->list.count; i++) {
        size_t depth = value_plain_depth(&value->list.items[i]);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}

bool value_needs_wrap(const struct value *map)
{
    const struct member *first = map->map.members;
    return map->map.count == 1 && form_of_name(span_of(first->name, first->name_len)) != FORM_NONE;
}

static int order_members(const void *a, const void *b)
{
    const struct member *left = *(const struct member *const *)a;
    const struct member *right = *(const struct member *const *)b;
    return span_compare(span_of(left->name, left->name_len), span_of(right->name, right->name_len));
}

const struct member **value_members_listed(const struct value *map)
{
    const struct member **list = malloc((map->map.count + 1) * sizeof *list);
    for (size_t i = 0; list && i < map->map.count; i++)
        list[i] = &map->map.members[i];
    return list;
}

const struct member **value_members_sorted(const struct value *map)
{
    const struct member **sorted = value_members_listed(map);
    if (sorted && map->map.count > 1)
        qsort(sorted, map->map.count, sizeof *sorted, order_members);
    return sorted;
}

static bool maps_equal(const struct value *a, const struct value *b)
{
    if (a->map.count != b->map.count)
        return false;
    cleanup_free const struct member **a_sorted = value_members_sorted(a);
    cleanup_free const struct member **b_sorted = value_members_sorted(b);
    for (size_t i = 0; i < a->map.count; i++) {
        const struct member *left = a_sorted ? a_sorted[i] : &a->map.members[i];
        struct span name = span_of(left->name, left->name_len);
        const struct value *right = NULL;
        if (!a_sorted || !b_sorted)
            right = value_member(b, name); /* no memory to sort: slower, and the same answer */
        else if (span_equal(name, span_of(b_sorted[i]->name, b_sorted[i]->name_len)))
            right = &b_sorted[i]->value;
        if (!right || !value_equal(&left->value, right))
            return false;
    }
    return true;
}

static int order_bytes(const void *a, const void *b)
{
    return span_compare(*(const struct span *)a, *(const struct span *)b);
}

static int order_numbers(const void *a, const void *b)
{
    return number_compare(*(const struct span *)a, *(const struct span *)b);
}

int value_set_sorted(const struct value *set, struct span **ret_elements)
{
    size_t count = set->list.count;
    struct span *elements = malloc((count + 1) * sizeof *elements);
    if (!elements)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        elements[i] = value_text(&set->list.items[i]);
    bool numbers = set->type == VALUE_NS;
    if (count > 1)
        qsort(elements, count, sizeof *elements, numbers ? order_numbers : order_bytes);
    *ret_elements = elements;
    for (size_t i = 1; i < count; i++) {
        if ((numbers ? order_numbers : order_bytes)(&elements[i - 1], &elements[i]) == 0)
            return 1;
    }
    return 0;
}

static bool set_has(const struct value *set, struct span element)
{
    for (size_t i = 0; i < set->list.count; i++) {
        struct span other = value_text(&set->list.items[i]);
        if (set->type == VALUE_NS ? number_compare(other, element) == 0
                                  : span_equal(other, element))
            return true;
    }
    return false;
}

static bool sets_equal(const struct value *a, const struct value *b)
{
    if (a->list.count != b->list.count)
        return false;
    cleanup_free struct span *left = NULL;
    cleanup_free struct span *right = NULL;
    bool sorted = value_set_sorted(a, &left) >= 0 && value_set_sorted(b, &right) >= 0;
    bool equal = true;
    for (size_t i = 0; i < a->list.count && equal; i++) {
        if (!sorted)
            equal = set_has(b, value_text(&a->list.items[i]));
        else if (a->type == VALUE_NS)
            equal = number_compare(left[i], right[i]) == 0;
        else
            equal = span_equal(left[i], right[i]);
    }
    return equal;
}

static bool lists_equal(const struct value *a, const struct value *b)
{
    bool equal = a->list.count == b->list.count;
    for (size_t i = 0; i < a->list.count && equal; i++)
        equal = value_equal(&a->list.items[i], &b->list.items[i]);
    return equal;
}

bool value_equal(const struct value *a, const struct value *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case VALUE_S:
    case VALUE_B: return span_equal(value_text(a), value_text(b));
    case VALUE_N: return number_compare(value_text(a), value_text(b)) == 0;
    case VALUE_BOOL: return a->boolean == b->boolean;
    case VALUE_NULL: return true;
    case VALUE_L: return lists_equal(a, b);
    case VALUE_M: return maps_equal(a, b);
    default: return sets_equal(a, b);
    }
}

bool value_is_json(const struct value *value)
{
    bool json = value->type != VALUE_B && !value_is_set(value->type);
    for (size_t i = 0; json && value->type == VALUE_L && i < value->list.count; i++)
        json = value_is_json(&value->list.items[i]);
    for (size_t i = 0; json && value->type == VALUE_M && i < value->map.count; i++)
        json = value_is_json(&value->map.members[i].value);
    return json;
}
