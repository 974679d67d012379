/* SPDX-License-Identifier: MIT */
/*
 * Conditions of writes, as the service's expressions.
 *
 * The service keeps no versions, and no attribute of ours goes into users' items. So "still the
 * version that was read" is: every attribute that was there then has its value still. What an
 * expression cannot say is that no attribute has been added; that is seen in the old item, which a
 * put or delete gives back without cost (write.c).
 */
#ifndef BACKEND_DYNAMODB_CONDITION_H
#define BACKEND_DYNAMODB_CONDITION_H

#include "backend/dynamodb/service.h"

/* The service takes 4 KiB of an expression and 300 operators. */
#define CONDITION_ATTRIBUTES_MAX 100

/* Appends ConditionExpression with its names and values to the open object OUT: CONDITION on the
 * item of TABLE whose state it names, BASE (read for COND_VERSION alone), at the time NOW_S.
 * Expired items count as absent. FLAT: maps and lists are left out, for services that cannot
 * compare them. */
void request_condition(struct buf *out, const struct table *table, struct condition condition,
                       const struct value *base, bool flat, int64_t now_s);
/* An attribute that is changed: from a value to another, NULL where there is none. */
struct touch {
    struct span name;
    const struct value *before, *after;
};
/* The same for UpdateItem: UpdateExpression and ConditionExpression. The item must be there, with
 * each of TOUCHES as it was before, and of its other attributes those of REST (may be NULL) that
 * fit. */
void request_change(struct buf *out, const struct table *table, const struct touch *touches,
                    size_t count, const struct value *rest, bool flat);
/* The same for an update, of which VALUE is the value, in canonical form: the attribute is changed
 * where the item is there at the time NOW_S and takes it (update.h). FROM_NULL: of a number that is
 * null, which the service cannot add to; else such a one fails the condition. */
void request_update(struct buf *out, const struct table *table, const struct update *update,
                    const struct value *value, bool from_null, int64_t now_s);
/* What a failed condition means. */
int condition_failed(const struct table *table, struct key key, enum condition_kind kind,
                     struct err *err);

#endif
