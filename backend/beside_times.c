/* SPDX-License-Identifier: MIT */
/* The times of items that a service keeps none of. */
#include "backend/beside_private.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define NOTES_MAX 1024 /* rows that are noted together */

struct times_row times_row_of(const struct table *table, struct key key,
                              const struct item_meta *meta)
{
    return (struct times_row){.id = times_id(table->id, key),
                              .version = meta->version,
                              .mtime_ns = meta->mtime_ns,
                              .ctime_ns = meta->ctime_ns,
                              .change_ns = meta->change_ns,
                              .modified = meta->change == CHANGE_MODIFY};
}

void times_to_meta(const struct times_row *row, struct item_meta *meta)
{
    meta->mtime_ns = row->mtime_ns;
    meta->ctime_ns = row->ctime_ns;
    meta->change_ns = row->change_ns;
    meta->change = row->modified ? CHANGE_MODIFY : CHANGE_INSERT;
}

/* Gives META the times that are known, or those of now. ROW is for times_meet where that is true.
 */
static bool give_times(struct beside *beside, const struct table *table, struct key key,
                       struct item_meta *meta, struct times_row *row)
{
    bool meet;
    meta->mtime_ns = meta->ctime_ns = meta->change_ns = clock_now_ns();
    *row = times_row_of(table, key, meta);
    times_find(beside->times, row, &meet);
    times_to_meta(row, meta);
    return meet;
}

int beside_get(struct backend *backend, const struct table *table, struct key key,
               struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct times_row row;
    int r = backend_get(beside->items, table, key, ret_meta, body, err);

    if (r == 0 && give_times(beside, table, key, ret_meta, &row)) {
        times_meet(beside->times, &row, 1);
        times_to_meta(&row, ret_meta);
    }
    return r;
}

/* A walk, query or scan under way: rows to be noted are noted together. */
struct timing {
    struct beside *beside;
    const struct table *table;
    record_fn each;
    void *context;
    bool indexed; /* records of an index may be old, or a part of the item: nothing is noted */
    struct times_row notes[NOTES_MAX];
    size_t count;
};

static void write_notes(struct timing *timing)
{
    times_meet(timing->beside->times, timing->notes, timing->count);
    timing->count = 0;
}

static int time_record(void *context, const struct record *record)
{
    struct timing *timing = context;
    struct record timed = *record;

    if (give_times(timing->beside, timing->table, record->key, &timed.meta,
                   &timing->notes[timing->count]) &&
        !timing->indexed && ++timing->count == NOTES_MAX)
        write_notes(timing);
    return timing->each(timing->context, &timed);
}

static struct timing *timing_new(struct beside *beside, const struct table *table, record_fn each,
                                 void *context)
{
    struct timing *timing = calloc(1, sizeof *timing);

    if (!timing)
        return NULL;
    timing->beside = beside;
    timing->table = table;
    timing->each = each;
    timing->context = context;
    return timing;
}

static void timing_end(struct timing *timing)
{
    if (timing)
        write_notes(timing);
    free(timing);
}

int beside_walk(struct backend *backend, const struct table *table, const struct walk *walk,
                record_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct timing *timing = timing_new(beside, table, each, context);

    if (!timing)
        return -ENOMEM;
    int r = backend_walk(beside->items, table, walk, time_record, timing, err);
    timing_end(timing);
    return r;
}

/* A scan of the items' backend, timed. */
struct timed_scan {
    struct scan scan; /* first */
    struct scan *items;
    struct table *table;
    struct timing *timing; /* NULL: no times are asked for */
    record_fn each;
    void *context;
};

static int pass_on(void *context, const struct record *record)
{
    struct timed_scan *timed = context;

    timed->scan.mark = timed->items->mark;
    timed->scan.segment = timed->items->segment;
    return timed->each(timed->context, record);
}

void beside_scan_close(struct scan *scan)
{
    struct timed_scan *timed = (struct timed_scan *)scan;

    backend_scan_close(timed->items);
    timing_end(timed->timing);
    table_free(timed->table);
    free(timed);
}

int beside_scan_open(struct backend *backend, const struct table *table,
                     const struct scan_range *range, struct scan **ret_scan, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct timed_scan *timed = calloc(1, sizeof *timed);
    int r = -ENOMEM;

    if (!timed)
        return r;
    timed->table = table_copy(table);
    if (!range->typed)
        timed->timing = timing_new(beside, timed->table, pass_on, timed);
    if (timed->table && (timed->timing || range->typed))
        r = backend_scan_open(beside->items, table, range, &timed->items, err);
    if (r < 0) {
        beside_scan_close(&timed->scan);
        return r;
    }
    timed->scan.segments = timed->items->segments;
    *ret_scan = &timed->scan;
    return 0;
}

int beside_scan_next(struct scan *scan, size_t limit, record_fn each, void *context,
                     struct err *err)
{
    struct timed_scan *timed = (struct timed_scan *)scan;

    timed->each = each;
    timed->context = context;
    int r = timed->timing ? backend_scan_next(timed->items, limit, time_record, timed->timing, err)
                          : backend_scan_next(timed->items, limit, pass_on, timed, err);
    scan->ended = timed->items->ended;
    if (timed->timing && (r != 0 || scan->ended))
        write_notes(timed->timing);
    return r;
}

int beside_query(struct backend *backend, const struct table *table, const struct query *query,
                 record_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct timing *timing = timing_new(beside, table, each, context);

    if (!timing)
        return -ENOMEM;
    timing->indexed = query->index != NULL;
    int r = backend_query(beside->items, table, query, time_record, timing, err);
    timing_end(timing);
    return r;
}
