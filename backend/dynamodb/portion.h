/* SPDX-License-Identifier: MIT */
/*
 * How many items a page may have, where a budget is so small that it should cost about a second of
 * it: as many as what an item of the table costs leaves room for. That is what pages have told, in
 * this process; before the first one, what the table's description tells on average; else a page of
 * one item tells.
 *
 * A page's units are rounded up, so it tells two bounds of what its items cost. What is believed is
 * moved only by a page that contradicts it: up at once, since a page that is too dear holds up
 * everybody, and down by halves, since the next items may be large again. Pure; not locked.
 */
#ifndef BACKEND_DYNAMODB_PORTION_H
#define BACKEND_DYNAMODB_PORTION_H

#include <stddef.h>
#include <stdint.h>

/* What is believed of an item's units, where it was UNITS (0: nothing is), behind a page that went
 * over ITEMS and consumed PAGE_UNITS. */
double portion_learn(double units, double items, double page_units);
/* Items of a page that should cost BUDGET, one at least. UNITS 0: not known. */
size_t portion_items(double budget, double units);

/* What is believed of tables, by id. Where two have the same place the last one has it. */
#define PORTIONS 256
struct portions {
    struct portion {
        uint64_t table_id;
        double units;
    } places[PORTIONS];
};
double portions_find(const struct portions *, uint64_t table_id); /* 0: nothing */
void portions_put(struct portions *, uint64_t table_id, double units);

#endif
