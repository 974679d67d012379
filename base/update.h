/* SPDX-License-Identifier: MIT */
/*
 * A change of one attribute by what it is: a number that is added to, a list that is appended to.
 * Whoever asks for one need not know what is there, and whoever applies it does so at once, so that
 * no number of writers lose each other's. The rules, whatever the backend:
 *
 *   - The item must be there. Of its attributes any but those of its key and its TTL can be changed
 *     so; ITEM_VALUE is that of a body that is no object.
 *   - UPDATE_ADD: an absent attribute and null count as 0. Sums are exact (number_add).
 *   - UPDATE_APPEND: an absent attribute counts as an empty list; null does not.
 *     UPDATE_APPEND_UNIQUE: -EEXIST where the list holds an equal value (value_equal: 5 is 5.0, 7
 * is not "7"; lists within it are not looked into), also where the attribute is a set that does.
 *   - ITEM_VALUE is never made where it is absent, and no attribute is made beside it: a number
 *     stays a number, an object an object.
 *   - All else is -EINVAL, says why, and changes nothing.
 */
#ifndef BASE_UPDATE_H
#define BASE_UPDATE_H

#include "base/item.h"

enum update_kind { UPDATE_ADD, UPDATE_APPEND, UPDATE_APPEND_UNIQUE };

struct update {
    enum update_kind kind;
    struct span attribute; /* a name */
    struct span value; /* ADD: a number, as number_canonical takes it; else plain JSON (value.h) */
};

/* Whether UPDATE is one that items of TABLE can have. -EINVAL, -ERANGE. */
int update_check(const struct table *table, const struct update *update, struct err *err);

/* Whether an item takes UPDATE where its attribute is CURRENT (NULL: absent); HAS_VALUE: it has
 * ITEM_VALUE. -EINVAL, -EEXIST. The sum may still be out of range. */
int update_judge(const struct update *update, const struct value *current, bool has_value,
                 struct err *err);

/*
 * Appends BODY with UPDATE applied by the smallest edit of its text, and for UPDATE_ADD the
 * attribute's new number to RET_NUMBER (else it may be NULL). UPDATE has passed update_check, BODY
 * item_examine; what comes out may be none that item_examine takes (nested too deep, no key of an
 * index). -EINVAL, -EEXIST, -ERANGE.
 */
int item_update(struct span body, const struct update *update, struct buf *out,
                struct buf *ret_number, struct err *err);

#endif
