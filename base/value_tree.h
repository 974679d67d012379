/* SPDX-License-Identifier: MIT */
/* What the files behind value.h share. Nothing else includes it. */
#ifndef BASE_VALUE_TREE_H
#define BASE_VALUE_TREE_H

#include "base/value.h"

bool value_is_set(enum value_type type);
/* True for a map whose plain form must be wrapped in "$M". */
bool value_needs_wrap(const struct value *map);
/* How many levels of arrays and objects the plain form of VALUE has. */
size_t value_plain_depth(const struct value *value);

/* Append to a list or set, and to a map that is known to lack NAME; take VALUE, also on failure.
 * -ENOMEM. */
int value_list_add(struct value *list, struct value value);
int value_member_add(struct value *map, struct span name, struct value value);

/* The members as they stand, or in the order of their names' bytes; to be freed. NULL when memory
 * ran out. */
const struct member **value_members_listed(const struct value *map);
const struct member **value_members_sorted(const struct value *map);
/* The elements in order, to be freed. 1: two are equal. -ENOMEM. */
int value_set_sorted(const struct value *set, struct span **ret_elements);

#endif
