/* SPDX-License-Identifier: MIT */
/*
 * Scans: one of the backend below, whose records are turned into shown ones, or, of a partition
 * that an index lists, a query for each page.
 */
#include <errno.h>

#include "backend/profile/shown_private.h"

struct shown_scan {
    struct scan scan;                  /* first */
    const struct profile_table *table; /* NULL: records are handed on */
    struct scan *stored;               /* NULL: by queries */
    bool bodies, partitioned;
    struct buf partition, sort; /* shown: the partition that is wanted, and the last key in it */
    struct scan_mark (*mark)(void *context);
    void *mark_context;
    struct shown_item item;
    record_fn each; /* of the call */
    void *context;
};

static struct shown_scan *scan_of(struct scan *scan)
{
    return (struct shown_scan *)scan;
}

void shown_scan_close(struct scan *scan)
{
    struct shown_scan *shown = scan_of(scan);

    backend_scan_close(shown->stored);
    buf_release(&shown->partition);
    buf_release(&shown->sort);
    shown_item_release(&shown->item);
    free(shown);
}

/* The stored keys behind which a scan of so many segments goes on; to be freed, with ITEMS. */
struct places {
    struct key *keys;
    struct shown_item *items;
    unsigned count;
};

static void places_release(struct places *places)
{
    for (unsigned i = 0; places->items && i < places->count; i++)
        shown_item_release(&places->items[i]);
    free(places->items);
    free(places->keys);
}

static int places_after(struct shown *shown, const struct profile_table *table,
                        const struct scan_range *range, struct places *places, struct err *err)
{
    int r = 0;

    places->count = range->segments ? range->segments : 1;
    places->keys = calloc(places->count, sizeof *places->keys);
    places->items = calloc(places->count, sizeof *places->items);
    if (!places->keys || !places->items)
        return -ENOMEM;
    for (unsigned i = 0; r == 0 && i < places->count; i++) {
        shown_item_init(&places->items[i]);
        if (!range->after[i].partition.len)
            continue;
        r = item_locate(shown, table, range->after[i], &places->items[i], err);
        places->keys[i] = shown_item_key(&places->items[i]);
    }
    return r;
}

/* The scan of the backend below, of the whole table or of a partition that is one there, too. */
static int open_stored(struct shown *shown, const struct table *table,
                       const struct scan_range *range, struct shown_scan *scan, struct err *err)
{
    cleanup(places_release) struct places places = {NULL, NULL, 0};
    struct scan_range stored = *range;
    int r = 0;

    if (scan->table) {
        table = scan->table->stored;
        stored.bodies = true; /* what is hidden, and how large files are, stands there */
        if (scan->table->other_keys)
            stored.partition = span_of(NULL, 0);
        if (range->after)
            r = places_after(shown, scan->table, range, &places, err);
        if (range->after)
            stored.after = places.keys;
    }
    if (r == 0)
        r = backend_scan_open(shown->stored, table, &stored, &scan->stored, err);
    if (r == 0)
        scan->scan.segments = scan->stored->segments;
    return r;
}

static int open_scan(struct shown *shown, const struct table *table, const struct scan_range *range,
                     struct shown_scan *scan, struct err *err)
{
    if (scan->table && range->typed)
        return err_set(err, EOPNOTSUPP, "table %s has a profile: typed items are the stored ones",
                       table->name);
    scan->partitioned = scan->table && range->partition.data;
    if (scan->partitioned)
        buf_add_span(&scan->partition, range->partition);
    if (!scan->partitioned || !scan->table->other_keys || !scan->table->listing)
        return open_stored(shown, table, range, scan, err);
    scan->scan.segments = 1;
    if (range->after && range->after[0].partition.len)
        buf_add_span(&scan->sort, range->after[0].sort);
    return buf_error(&scan->partition) ? buf_error(&scan->partition) : buf_error(&scan->sort);
}

int shown_scan_open(struct backend *backend, const struct table *table,
                    const struct scan_range *range, struct scan **ret_scan, struct err *err)
{
    struct shown_scan *scan = calloc(1, sizeof *scan);

    if (!scan)
        return -ENOMEM;
    scan->table = table->profile;
    scan->bodies = range->bodies;
    scan->mark = range->mark;
    scan->mark_context = range->mark_context;
    buf_init(&scan->partition, KEY_PART_MAX);
    buf_init(&scan->sort, KEY_PART_MAX);
    shown_item_init(&scan->item);
    int r = open_scan(shown_of(backend), table, range, scan, err);
    if (r < 0) {
        shown_scan_close(&scan->scan);
        return r;
    }
    *ret_scan = &scan->scan;
    return 0;
}

static int give_stored(void *context, const struct record *record)
{
    struct shown_scan *scan = context;
    struct shown_item *item = &scan->item;

    scan->scan.mark = scan->stored->mark;
    scan->scan.segment = scan->stored->segment;
    if (!scan->table)
        return scan->each(scan->context, record);
    int r = item_show(scan->table, record, item);
    if (r < 0 || item->hidden ||
        (scan->partitioned && !span_equal(buf_span(&scan->partition), buf_span(&item->partition))))
        return r;
    const struct record shown = {.key = shown_item_key(item),
                                 .meta = item->meta,
                                 .body = scan->bodies ? buf_span(&item->body) : span_of(NULL, 0)};
    return scan->each(scan->context, &shown);
}

static int give_queried(void *context, const struct record *record)
{
    struct shown_scan *scan = context;

    buf_clear(&scan->sort);
    buf_add_span(&scan->sort, record->key.sort);
    if (buf_error(&scan->sort))
        return -ENOMEM;
    return scan->each(scan->context, record);
}

static int next_queried(struct shown_scan *scan, size_t limit, struct err *err)
{
    cleanup(buf_release) struct buf from; /* the other one moves meanwhile */
    bool ended = false;

    buf_init(&from, KEY_PART_MAX);
    buf_add_span(&from, buf_span(&scan->sort));
    if (buf_error(&from))
        return buf_error(&from);
    const struct part_query query = {.partition = buf_span(&scan->partition),
                                     .has_from = from.len > 0,
                                     .behind = true,
                                     .from = buf_span(&from),
                                     .limit = limit};
    if (scan->mark)
        scan->scan.mark = scan->mark(scan->mark_context);
    int r = query_partition(shown_of(scan->scan.backend), scan->table, &query, give_queried, scan,
                            &ended, err);
    scan->scan.ended = r == 0 && ended;
    return r;
}

int shown_scan_next(struct scan *scan, size_t limit, record_fn each, void *context, struct err *err)
{
    struct shown_scan *shown = scan_of(scan);

    shown->each = each;
    shown->context = context;
    if (!shown->stored)
        return next_queried(shown, limit, err);
    int r = backend_scan_next(shown->stored, limit, give_stored, shown, err);
    scan->ended = shown->stored->ended;
    return r;
}
