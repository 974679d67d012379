/* SPDX-License-Identifier: MIT */
#include "backend/scan.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct walk_scan {
    struct scan scan; /* first */
    struct table *table;
    struct scan_range range;
    struct buf partition, sort; /* the last key */
    struct buf typed;
    size_t given; /* by this call */
    record_fn each;
    void *context;
    struct err *err;
};

static struct walk_scan *walk_scan_of(struct scan *scan)
{
    return (struct walk_scan *)scan;
}

void walk_scan_close(struct scan *scan)
{
    struct walk_scan *walk = walk_scan_of(scan);

    table_free(walk->table);
    buf_release(&walk->partition);
    buf_release(&walk->sort);
    buf_release(&walk->typed);
    free(walk);
}

static void begin(struct walk_scan *walk, const struct scan_range *range)
{
    struct key after = {.partition = range->partition};

    if (range->after && range->after[0].partition.len)
        after = range->after[0];
    buf_add_span(&walk->partition, after.partition);
    buf_add_span(&walk->sort, after.sort);
}

int walk_scan_open(const struct table *table, const struct scan_range *range,
                   struct scan **ret_scan)
{
    struct walk_scan *walk = calloc(1, sizeof *walk);

    if (!walk)
        return -ENOMEM;
    buf_init(&walk->partition, KEY_PART_MAX);
    buf_init(&walk->sort, KEY_PART_MAX);
    buf_init(&walk->typed, SIZE_MAX / 8);
    walk->table = table_copy(table);
    walk->range = *range;
    walk->range.after = NULL; /* the caller's */
    walk->scan.segments = 1;
    begin(walk, range);
    if (!walk->table || buf_error(&walk->partition) || buf_error(&walk->sort)) {
        walk_scan_close(&walk->scan);
        return -ENOMEM;
    }
    *ret_scan = &walk->scan;
    return 0;
}

static int give_typed(struct walk_scan *walk, const struct record *record)
{
    struct record typed = *record;

    buf_clear(&walk->typed);
    int r = item_to_typed(walk->table, record->key, record->body,
                          item_ttl_beside(record->body, record->meta.ttl), &walk->typed, walk->err);
    typed.body = buf_span(&walk->typed);
    return r < 0 ? r : walk->each(walk->context, &typed);
}

static int give(void *context, const struct record *record)
{
    struct walk_scan *walk = context;

    walk->given++;
    buf_clear(&walk->partition);
    buf_clear(&walk->sort);
    buf_add_span(&walk->partition, record->key.partition);
    buf_add_span(&walk->sort, record->key.sort);
    if (buf_error(&walk->partition) || buf_error(&walk->sort))
        return -ENOMEM;
    return walk->range.typed ? give_typed(walk, record) : walk->each(walk->context, record);
}

int walk_scan_next(struct scan *scan, size_t limit, record_fn each, void *context, struct err *err)
{
    struct walk_scan *walk = walk_scan_of(scan);
    cleanup(buf_release) struct buf partition, sort;
    const struct scan_range *wanted = &walk->range;
    struct walk range = {.in_partition = wanted->partition.data != NULL,
                         .limit = limit,
                         .bodies = wanted->bodies || wanted->typed};

    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    buf_add_span(&partition, buf_span(&walk->partition)); /* they move while it walks */
    buf_add_span(&sort, buf_span(&walk->sort));
    if (buf_error(&partition) || buf_error(&sort))
        return -ENOMEM;
    range.after = (struct key){buf_span(&partition), buf_span(&sort)};
    if (wanted->mark)
        scan->mark = wanted->mark(wanted->mark_context);
    walk->given = 0;
    walk->each = each;
    walk->context = context;
    walk->err = err;
    int r = backend_walk(scan->backend, walk->table, &range, give, walk, err);
    scan->ended = r == 0 && walk->given < limit;
    return r;
}
