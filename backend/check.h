/* SPDX-License-Identifier: MIT */
/* What every backend refuses in the same way and the same words: keys, names, sizes. */
#ifndef BACKEND_CHECK_H
#define BACKEND_CHECK_H

#include "backend/backend.h"

/* How messages call an item: "orders/cust-7/2024-01-05", its path without suffix; long ones cut. */
struct item_label {
    char text[200];
};
struct item_label item_label(const struct table *table, struct key key);

/* Canonical parts of the table's types, a sort part exactly where the table has one. -EINVAL. */
int check_key(const struct table *table, struct key key, struct err *err);
/* One part, not empty. WHAT ("partition key") is for the message. */
int check_part(enum value_type type, struct span part, const char *what, struct err *err);
/* An action as a caller of backend_write with FLAGS must give it, a body's size included (-EFBIG).
 */
int check_action(const struct backend *backend, const struct action *action, unsigned flags,
                 struct err *err);

/* Whether CONDITION holds where the item is FOUND with VERSION; 0, -EEXIST, -ENOENT, -ESTALE. */
int check_condition(const struct action *action, bool found, uint64_t version, struct err *err);
/* Whether the item, which is there in the version of the condition, has the mtime that ACTION,
 * where that is a DELETE, may ask for; -ESTALE. */
int check_mtime(const struct action *action, int64_t mtime_ns, struct err *err);

#endif
