/* SPDX-License-Identifier: MIT */
/*
 * Where an item is stored: where its profile says, which is a matter of its shown key alone. But an
 * application may have been set up otherwise once, and its index leads to what it has stored then,
 * too: a stray. So where nothing is found in the right place the index is asked; what is written
 * to a stray goes where it is. As long as no stray was seen of a table, writes do not look for one:
 * what a mount saves over, it has shown.
 */
#include <errno.h>

#include "backend/profile/shown_private.h"

int item_read(struct shown *shown, const struct profile_table *table, struct key key,
              const struct shown_item *place, struct shown_item *item, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct record record = {.key = shown_item_key(place)};

    buf_init(&body, SIZE_MAX / 8);
    int r = backend_get(shown->stored, table->stored, record.key, &record.meta, &body, err);
    record.body = buf_span(&body);
    if (r == 0)
        r = item_show(table, &record, item);
    if (r < 0)
        return r;
    /* Two shown keys may have one stored key: then the item is the other one's. */
    if (!item->partition.len || !key_equal(shown_item_key(item), key))
        return -ENOENT;
    return item->hidden;
}

struct search {
    const struct profile_table *table;
    struct key key; /* shown */
    struct shown_item *place;
    struct shown_item item;
};

/* What the index tells of the place itself may be older than what was found there. */
static int look(void *context, const struct record *record)
{
    struct search *search = context;
    struct shown_item *place = search->place;
    int r = item_show(search->table, record, &search->item);

    if (r < 0 || !search->item.partition.len ||
        !key_equal(shown_item_key(&search->item), search->key) ||
        key_equal(record->key, shown_item_key(place)))
        return r;
    buf_clear(&place->partition);
    buf_clear(&place->sort);
    buf_add_span(&place->partition, record->key.partition);
    buf_add_span(&place->sort, record->key.sort);
    return buf_error(&place->partition) || buf_error(&place->sort) ? -ENOMEM : 1;
}

int item_find_stray(struct shown *shown, const struct profile_table *table, struct key key,
                    struct shown_item *place, struct err *err)
{
    struct search search = {.table = table, .key = key, .place = place};
    const struct query query = {.index = table->listing,
                                .partition = key.partition,
                                .has_from = table_sorted(table->shown),
                                .has_to = table_sorted(table->shown),
                                .from = key.sort,
                                .to = key.sort};

    if (!table->listing || !table->other_keys)
        return 0;
    shown_item_init(&search.item);
    int r = backend_query(shown->stored, table->stored, &query, look, &search, err);
    shown_item_release(&search.item);
    return r;
}

int item_locate(struct shown *shown, const struct profile_table *table, struct key key,
                struct shown_item *place, struct err *err)
{
    cleanup(shown_item_release) struct shown_item item;
    struct err why = {""};
    int made = item_stored_key(table, key, place, &why), r = -ENOENT;

    shown_item_init(&item);
    if (atomic_load(table->strays)) {
        if (made == 0)
            r = item_read(shown, table, key, place, &item, err);
        if (r == -ENOENT) {
            err_clear(err);
            r = item_find_stray(shown, table, key, place, err);
        }
        if (r)
            return r < 0 ? r : 0;
    }
    return made < 0 ? err_set(err, -made, "%s", err_text(&why, made)) : 0;
}

int shown_locate(struct backend *backend, const struct table *table, struct key key,
                 struct buf *partition, struct buf *sort, struct err *err)
{
    cleanup(shown_item_release) struct shown_item place;

    shown_item_init(&place);
    atomic_store(table->profile->strays, true); /* who asks once has seen none */
    int r = item_locate(shown_of(backend), table->profile, key, &place, err);
    if (r < 0)
        return r;
    buf_add_span(partition, buf_span(&place.partition));
    buf_add_span(sort, buf_span(&place.sort));
    return buf_error(partition) ? buf_error(partition) : buf_error(sort);
}
