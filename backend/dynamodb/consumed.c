/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/consumed.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dynamodb/reply.h"
#include "base/cleanup.h"

struct entries {
    const struct demand *demand;
    bool only;
    struct spent spent;
};

/* The units that member NAME tells. */
static bool read_number(struct span entry, const char *name, double *ret_units)
{
    struct span raw;
    char text[64];

    if (!reply_member(entry, name, &raw) || raw.len >= sizeof text || raw.data[0] == '"')
        return false;
    memcpy(text, raw.data, raw.len);
    text[raw.len] = '\0';
    char *end;
    double units = strtod(text, &end);
    if (end == text || *end || !(units >= 0 && units <= CONSUMED_MOST))
        return false;
    *ret_units = units;
    return true;
}

static bool is_about(struct span entry, const struct entries *entries)
{
    struct span name;

    if (!reply_member(entry, "TableName", &name))
        return entries->only;
    return reply_text_is(entry, "TableName", entries->demand->table);
}

static void add(struct spent *spent, enum capacity_kind kind, double units)
{
    spent->units[kind] += units;
    spent->told[kind] = true;
}

static int read_entry(void *context, struct span entry)
{
    struct entries *entries = context;
    double units;
    bool reads, writes;

    if (!is_about(entry, entries))
        return 0;
    reads = read_number(entry, "ReadCapacityUnits", &units);
    if (reads)
        add(&entries->spent, CAPACITY_READ, units);
    writes = read_number(entry, "WriteCapacityUnits", &units);
    if (writes)
        add(&entries->spent, CAPACITY_WRITE, units);
    if (!reads && !writes && read_number(entry, "CapacityUnits", &units))
        add(&entries->spent, entries->demand->kind, units);
    return 0;
}

bool consumed_read(struct span answer, const struct demand *demand, bool only,
                   struct spent *ret_spent)
{
    struct entries entries = {.demand = demand, .only = only};
    struct span consumed;

    if (!reply_member(answer, "ConsumedCapacity", &consumed))
        return false;
    if (consumed.data[0] == '{')
        read_entry(&entries, consumed);
    else
        reply_each(consumed, read_entry, &entries);
    if (!entries.spent.told[CAPACITY_READ] && !entries.spent.told[CAPACITY_WRITE])
        return false;
    *ret_spent = entries.spent;
    return true;
}
