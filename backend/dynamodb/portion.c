/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/portion.h"

#define ITEMS_MAX 1000000

double portion_learn(double units, double items, double page_units)
{
    double most, least;

    if (!(items >= 1) || !(page_units > 0))
        return units;
    most = page_units / items;
    least = (page_units - 1) / items;
    if (!(units > 0) || least > units)
        return most;
    return most < units ? (units + most) / 2 : units;
}

size_t portion_items(double budget, double units)
{
    double items = units > 0 ? budget / units : 1;

    return items < 1 ? 1 : items < ITEMS_MAX ? (size_t)items : ITEMS_MAX;
}

double portions_find(const struct portions *portions, uint64_t table_id)
{
    const struct portion *place = &portions->places[table_id % PORTIONS];

    return place->table_id == table_id ? place->units : 0;
}

void portions_put(struct portions *portions, uint64_t table_id, double units)
{
    portions->places[table_id % PORTIONS] = (struct portion){table_id, units};
}
