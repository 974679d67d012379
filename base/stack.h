/* SPDX-License-Identifier: MIT */
/*
 * stack.json: the tables that a Kernstack stack declares, and what its functions are called by.
 *
 *   {"resources": {
 *      "tables": [{"name": "orders", "key_name": "id", "key_type": "S",
 *                  "sort_key_name": "at", "sort_key_type": "N",
 *                  "indexes": [{"name": "by-user", "key_name": "uID", "key_type": "S",
 *                               "sort_key_name": "at", "sort_key_type": "N"}],
 *                  "seed": "data/orders.json",
 *                  "change_stream": {"function": "on-order"}}],
 *      "functions": [{"name": "on-order", "url": "https://..." or "exec:/..."}]}}
 *
 * docs/KERNSTACK.md says which of these the published page leaves open. An unknown member of a
 * table, index or change_stream is an error, since keys cannot be changed later; whatever else a
 * stack holds is none of our business and passed over. Pure.
 */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include "base/err.h"
#include "base/function.h"
#include "base/span.h"
#include "base/table.h"

struct stack_table {
    struct table *table; /* plain keys, TTL attribute "-ttl", stream on where a function is named */
    char *seed;          /* as it is written; NULL: none is named */
    char *function;      /* a name; NULL: none */
};

struct stack_function {
    char *name;
    char *url; /* as "function =" in mount.conf has it; NULL: none is given */
    struct function function;
};

struct stack {
    struct stack_table *tables;
    size_t count;
    bool has_tables;    /* there is a list of them: else it is no stack */
    bool has_functions; /* there is a list of them */
    struct stack_function *functions;
    size_t function_count;
};

/* Reads a whole document, and checks the tables. -EINVAL with a reason that has line and column, or
 * names the table. */
int stack_parse(struct span text, struct stack **ret_stack, struct err *err);
void stack_free(struct stack *stack); /* accepts NULL */
/* The function of that name, or NULL. */
const struct stack_function *stack_function(const struct stack *stack, const char *name);

#endif
