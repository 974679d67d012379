/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void known_table_release(struct known_table *known)
{
    table_free(known->table);
    free(known->denied);
    free(known->stream_arn);
    free(known->stream_label);
}

/* The place of NAME, or where it belongs. */
static size_t place_of(const struct known_tables *known, struct span name, bool *ret_found)
{
    size_t low = 0, high = known->count;

    *ret_found = false;
    while (low < high && !*ret_found) {
        size_t middle = low + (high - low) / 2;
        int order = span_compare(span_text(known->tables[middle].table->name), name);
        *ret_found = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

const struct known_table *known_tables_find(const struct known_tables *known, struct span name)
{
    bool found;
    size_t place = place_of(known, name, &found);

    return found ? &known->tables[place] : NULL;
}

int known_tables_put(struct known_tables *known, struct known_table *table)
{
    bool found;
    size_t place = place_of(known, span_text(table->table->name), &found);

    if (found) {
        known_table_release(&known->tables[place]);
        known->tables[place] = *table;
        return 0;
    }
    struct known_table *more = reallocarray(known->tables, known->count + 1, sizeof *known->tables);
    if (!more) {
        known_table_release(table);
        return -ENOMEM;
    }
    known->tables = more;
    memmove(&more[place + 1], &more[place], (known->count - place) * sizeof *more);
    more[place] = *table;
    known->count++;
    return 0;
}

static void remove_at(struct known_tables *known, size_t place)
{
    known_table_release(&known->tables[place]);
    known->count--;
    memmove(&known->tables[place], &known->tables[place + 1],
            (known->count - place) * sizeof *known->tables);
}

void known_tables_remove(struct known_tables *known, struct span name)
{
    bool found;
    size_t place = place_of(known, name, &found);

    if (found)
        remove_at(known, place);
}

static bool is_among(const struct buf *names, const char *name)
{
    for (size_t at = 0; at < names->len; at += strlen(names->data + at) + 1)
        if (strcmp(names->data + at, name) == 0)
            return true;
    return false;
}

void known_tables_keep(struct known_tables *known, const struct buf *names)
{
    for (size_t i = known->count; i-- > 0;)
        if (!is_among(names, known->tables[i].table->name))
            remove_at(known, i);
}

void known_tables_release(struct known_tables *known)
{
    for (size_t i = 0; i < known->count; i++)
        known_table_release(&known->tables[i]);
    free(known->tables);
    *known = (struct known_tables){0};
}
