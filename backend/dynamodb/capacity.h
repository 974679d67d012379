/* SPDX-License-Identifier: MIT */
/*
 * What requests for items consume: counted for each table and operation, as the service tells, and
 * held to budgets.
 *
 * A request passes the budget of each of its tables and then that of all tables together: it waits
 * there until nothing is owed and nobody who came before is waiting, and takes what it will
 * probably consume. When its answer is there, that is corrected. So nobody is passed over, a table
 * in debt holds up no other table, and who has to wait has taken from what comes first already.
 */
#ifndef BACKEND_DYNAMODB_CAPACITY_H
#define BACKEND_DYNAMODB_CAPACITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

enum capacity_kind { CAPACITY_READ, CAPACITY_WRITE };
#define CAPACITY_KINDS 2

struct capacity_budget {
    const char *table;              /* NULL: all tables together */
    double units_s[CAPACITY_KINDS]; /* units a second; 0: no limit */
};

/* What a request is expected to consume of one table, behind it what it came to. */
struct demand {
    const char *table;
    enum capacity_kind kind;
    double units;
};
/* Adds UNITS to the demand on TABLE among the *COUNT of DEMANDS, which have room for another. */
void demand_add(struct demand *demands, size_t *count, const char *table, enum capacity_kind kind,
                double units);

struct capacity;
/* -ENOMEM. */
int capacity_new(const struct capacity_budget *budgets, size_t count,
                 struct capacity **ret_capacity);
void capacity_free(struct capacity *capacity); /* accepts NULL; no request may be under way */
/* The budget of TABLE, or of all together (NULL); 0: none. */
double capacity_limit(struct capacity *capacity, const char *table, enum capacity_kind kind);

/*
 * Waits until the budgets let a request through, and takes DEMANDS (one at least, of each table and
 * kind once) from them: capacity_settle must follow. OPERATION is a literal. -ETIMEDOUT at
 * DEADLINE_NS (steady clock), -EINTR when it was cancelled (CANCELLED may be NULL), -ENOMEM; then
 * nothing has been taken.
 */
int capacity_enter(struct capacity *capacity, const char *operation, const struct demand *demands,
                   size_t count, int64_t deadline_ns, const atomic_bool *cancelled,
                   struct err *err);

/* What a request consumed of one table: for the budgets in any case, to be counted where TOLD. */
struct spent {
    double units[CAPACITY_KINDS];
    bool told[CAPACITY_KINDS];
};
/* One of SPENT for each of DEMANDS, which are as they were in capacity_enter. */
void capacity_settle(struct capacity *capacity, const char *operation, const struct demand *demands,
                     size_t count, const struct spent *spent);

/* Counts a request of a kind that consumes nothing that the budgets are made of. */
void capacity_count(struct capacity *capacity, const char *operation, const char *table);

/* Whether to ask for consumed capacity with OPERATION: UNKNOWN at first. */
enum capacity_asking { CAPACITY_UNKNOWN, CAPACITY_ACCEPTED, CAPACITY_REFUSED };
enum capacity_asking capacity_asking(struct capacity *capacity, const char *operation);
void capacity_set_asking(struct capacity *capacity, const char *operation,
                         enum capacity_asking asking);

/* Calls EACH for every table and operation, by table; see backend_usage. */
int capacity_usage(struct capacity *capacity, usage_fn each, void *context);

#endif
