/* SPDX-License-Identifier: MIT */
/*
 * Reading. A partition of the shown table is a query on the index that lists it; where there is
 * none, the whole table is read for it, in the order in which it is stored. What is hidden is left
 * out, so a read of so many items goes on until it has them.
 */
#include <errno.h>

#include "backend/check.h"
#include "backend/profile/shown_private.h"
#include "base/clock.h"

/* The stored RECORD, where it has expired, if it is still that one. What does not go is hidden. */
static void remove_expired(struct shown *shown, const struct profile_table *table,
                           const struct record *record, int64_t ttl)
{
    struct action gone = {.kind = ACTION_DELETE,
                          .table = table->stored,
                          .key = record->key,
                          .condition = {COND_VERSION, record->meta.version}};

    if (!table->profile->removes_expired || shown->read_only ||
        !item_gone(table->shown, ttl, clock_now_s()))
        return;
    (void)backend_write(shown->stored, &gone, 1, 0, NULL);
}

int shown_get(struct backend *backend, const struct table *table, struct key key,
              struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    struct shown *shown = shown_of(backend);
    const struct profile_table *profiled = table->profile;
    cleanup(shown_item_release) struct shown_item place, item;

    shown_item_init(&place);
    shown_item_init(&item);
    if (!profiled)
        return backend_get(shown->stored, table, key, ret_meta, body, err);
    int r = item_stored_key(profiled, key, &place, err);
    if (r == 0)
        r = item_read(shown, profiled, key, &place, &item, err);
    if (r == -ENOENT || r == -EINVAL) { /* or there can be no such item */
        err_clear(err);
        r = item_find_stray(shown, profiled, key, &place, err);
        r = r == 1 ? item_read(shown, profiled, key, &place, &item, err) : r < 0 ? r : -ENOENT;
    }
    if (r < 0)
        return r;
    if (item.hidden) {
        const struct record record = {.key = shown_item_key(&place), .meta = item.meta};

        remove_expired(shown, profiled, &record, item.meta.ttl);
        return -ENOENT;
    }
    *ret_meta = item.meta;
    if (body)
        buf_add_span(body, buf_span(&item.body));
    return body ? buf_error(body) : 0;
}

/* --- Records on their way --- */

struct giving {
    const struct profile_table *table;
    record_fn each;
    void *context;
    size_t limit;            /* 0: all */
    bool bodies;             /* are wanted */
    const struct span *only; /* the shown partition that is wanted; NULL: any */
    struct key behind;       /* leave this shown key out; len 0: none */
    size_t given;
    size_t read;                /* stored ones */
    struct buf partition, sort; /* the last stored key */
    struct buf last;            /* sort key of the last one that has a shown key */
    bool listing;               /* in their order: of several with one shown key, the first */
    struct buf once;            /* then: sort key of the last one that was given */
    struct shown_item item;
    int code; /* what EACH has returned */
};

static void giving_init(struct giving *giving, const struct profile_table *table, record_fn each,
                        void *context)
{
    *giving = (struct giving){.table = table, .each = each, .context = context, .bodies = true};
    buf_init(&giving->partition, KEY_PART_MAX);
    buf_init(&giving->sort, KEY_PART_MAX);
    buf_init(&giving->last, KEY_PART_MAX);
    buf_init(&giving->once, KEY_PART_MAX);
    shown_item_init(&giving->item);
}

static void giving_release(struct giving *giving)
{
    buf_release(&giving->partition);
    buf_release(&giving->sort);
    buf_release(&giving->last);
    buf_release(&giving->once);
    shown_item_release(&giving->item);
}

static void set_buf(struct buf *buf, struct span span)
{
    buf_clear(buf);
    buf_add_span(buf, span);
}

static bool is_wanted(const struct giving *giving, struct key key)
{
    if (giving->only && !span_equal(*giving->only, key.partition))
        return false;
    if (giving->listing && giving->given && span_equal(buf_span(&giving->once), key.sort))
        return false;
    return !giving->behind.partition.len || !key_equal(giving->behind, key);
}

/* 1 ends the walk: there are enough, or EACH wants no more. */
static int give(void *context, const struct record *record)
{
    struct giving *giving = context;
    struct shown_item *item = &giving->item;
    int r = item_show(giving->table, record, item);

    giving->read++;
    set_buf(&giving->partition, record->key.partition);
    set_buf(&giving->sort, record->key.sort);
    if (item->partition.len)
        set_buf(&giving->last, buf_span(&item->sort));
    if (r == 0 && (buf_error(&giving->partition) || buf_error(&giving->sort)))
        r = -ENOMEM;
    if (r < 0 || item->hidden || !is_wanted(giving, shown_item_key(item)))
        return r;
    const struct record shown = {.key = shown_item_key(item),
                                 .meta = item->meta,
                                 .body = giving->bodies ? buf_span(&item->body) : span_of(NULL, 0)};
    if (giving->listing)
        set_buf(&giving->once, shown.key.sort);
    giving->given++;
    giving->code = giving->each(giving->context, &shown);
    return giving->code ? giving->code : giving->limit && giving->given == giving->limit;
}

/* What the caller of a walk that has returned CODE returns. */
static int giving_result(const struct giving *giving, int code)
{
    return giving->code ? giving->code : code < 0 ? code : 0;
}

/* --- Walks --- */

/* The place in the stored table behind the shown key AFTER, into GIVING. What can be no item is
 * nowhere: from the beginning. */
static int place_after(struct shown *shown, struct giving *giving, struct key after,
                       struct err *err)
{
    cleanup(shown_item_release) struct shown_item item;

    shown_item_init(&item);
    if (!after.partition.len)
        return 0;
    if (!giving->table->profile->store_key) {
        buf_add_span(&giving->partition, after.partition);
        buf_add_span(&giving->sort, after.sort);
        return 0;
    }
    int r = item_locate(shown, giving->table, after, &item, err);
    if (r == -EINVAL) {
        err_clear(err);
        return 0;
    }
    buf_add_span(&giving->partition, buf_span(&item.partition));
    buf_add_span(&giving->sort, buf_span(&item.sort));
    return r;
}

/* The stored table from the place in GIVING on. */
static int walk_stored(struct shown *shown, struct giving *giving, bool in_partition,
                       struct err *err)
{
    cleanup(buf_release) struct buf partition, sort;
    int r = 0;

    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    do {
        struct walk walk = {.in_partition = in_partition, .limit = giving->limit, .bodies = true};
        set_buf(&partition, buf_span(&giving->partition)); /* the others move while it walks */
        set_buf(&sort, buf_span(&giving->sort));
        if (buf_error(&partition) || buf_error(&sort))
            return -ENOMEM;
        walk.after = (struct key){buf_span(&partition), buf_span(&sort)};
        giving->read = 0;
        r = backend_walk(shown->stored, giving->table->stored, &walk, give, giving, err);
    } while (r == 0 && giving->limit && giving->read == giving->limit);
    return giving_result(giving, r);
}

static int walk_partition(struct shown *shown, const struct walk *walk, struct giving *giving,
                          struct err *err)
{
    const struct profile_table *table = giving->table;
    const struct part_query query = {.partition = walk->after.partition,
                                     .has_from = walk->after.sort.len > 0,
                                     .behind = true,
                                     .from = walk->after.sort,
                                     .limit = walk->limit};

    if (table->listing) {
        record_fn each = giving->each;
        return query_partition(shown, table, &query, each, giving->context, NULL, err);
    }
    giving->only = &walk->after.partition;
    int r = walk->after.sort.len ? place_after(shown, giving, walk->after, err) : 0;
    return r ? r : walk_stored(shown, giving, false, err);
}

int shown_walk(struct backend *backend, const struct table *table, const struct walk *walk,
               record_fn each, void *context, struct err *err)
{
    struct shown *shown = shown_of(backend);
    const struct profile_table *profiled = table->profile;
    cleanup(giving_release) struct giving giving;

    giving_init(&giving, profiled, each, context);
    if (!profiled)
        return backend_walk(shown->stored, table, walk, each, context, err);
    giving.limit = walk->limit;
    giving.bodies = walk->bodies;
    if (walk->in_partition && profiled->other_keys)
        return walk_partition(shown, walk, &giving, err);
    int r = place_after(shown, &giving, walk->after, err);
    return r ? r : walk_stored(shown, &giving, walk->in_partition, err);
}

/* --- Queries --- */

static int run_query(struct shown *shown, const struct query *query, struct giving *giving,
                     struct err *err)
{
    struct query whole = *query;

    whole.limit = 0; /* who is hidden does not count */
    int r = backend_query(shown->stored, giving->table->stored, &whole, give, giving, err);
    return giving_result(giving, r);
}

/*
 * QUERY, of a listing, in pages of as many as are still wanted, since what a service reads costs
 * whether it is used or not. The next page begins with the last one of the page before, which is
 * known by its shown key; where a whole page has none, it is read again, larger.
 */
static int run_pages(struct shown *shown, const struct query *query, struct giving *giving,
                     struct err *err)
{
    cleanup(buf_release) struct buf from;
    struct query page = *query;
    size_t times = 1;
    int r;

    buf_init(&from, KEY_PART_MAX);
    set_buf(&from, query->from);
    set_buf(&giving->last, query->from);
    do {
        page.has_from |= from.len > 0;
        page.from = buf_span(&from);
        page.limit = times * (giving->limit - giving->given + 1);
        giving->read = 0;
        r = backend_query(shown->stored, giving->table->stored, &page, give, giving, err);
        r = giving_result(giving, r);
        times = span_equal(buf_span(&from), buf_span(&giving->last)) ? 2 * times : 1;
        set_buf(&from, buf_span(&giving->last));
        if (r == 0 && (buf_error(&from) || buf_error(&giving->last) || buf_error(&giving->once)))
            r = -ENOMEM;
    } while (r == 0 && giving->read == page.limit && giving->given < giving->limit);
    return r;
}

int query_partition(struct shown *shown, const struct profile_table *table,
                    const struct part_query *part, record_fn each, void *context, bool *ret_ended,
                    struct err *err)
{
    cleanup(giving_release) struct giving giving;
    const struct query query = {.index = table->listing,
                                .partition = part->partition,
                                .has_from = part->has_from,
                                .has_to = part->has_to,
                                .from = part->from,
                                .to = part->to,
                                .reverse = part->reverse};

    giving_init(&giving, table, each, context);
    if (!table->listing)
        return err_set(err, EOPNOTSUPP, "table %s has no index by which a partition is listed",
                       table->shown->name);
    giving.limit = part->limit;
    giving.listing = true;
    if (part->behind && part->has_from)
        giving.behind = (struct key){part->partition, part->from};
    int r = part->limit && !part->reverse ? run_pages(shown, &query, &giving, err)
                                          : run_query(shown, &query, &giving, err);
    if (ret_ended)
        *ret_ended = r == 0 && !(giving.limit && giving.given == giving.limit);
    return r;
}

/* A query of the shown table's own keys, which are not the stored ones. */
static int query_keys(struct shown *shown, const struct table *table, const struct query *query,
                      record_fn each, void *context, struct err *err)
{
    const struct part_query part = {.partition = query->partition,
                                    .has_from = query->has_from,
                                    .has_to = query->has_to,
                                    .from = query->from,
                                    .to = query->to,
                                    .reverse = query->reverse,
                                    .limit = query->limit};
    cleanup(buf_release) struct buf body;
    struct record record = {.key.partition = query->partition};

    buf_init(&body, SIZE_MAX / 8);
    if (table_sorted(table))
        return query_partition(shown, table->profile, &part, each, context, NULL, err);
    int r = shown_get(&shown->backend, table, record.key, &record.meta, &body, err);
    record.body = body.data ? buf_span(&body) : span_of("", 0);
    return r == -ENOENT ? 0 : r < 0 ? r : each(context, &record);
}

/* The index of the stored table that is called as one of the shown table's. */
static int stored_index(const struct profile_table *table, const struct index *index,
                        const struct index **ret_index, struct err *err)
{
    *ret_index = table_index(table->stored, span_text(index->name));
    return *ret_index ? 0
                      : err_set(err, EINVAL, "table %s has no index \"%s\"", table->stored->name,
                                index->name);
}

int shown_query(struct backend *backend, const struct table *table, const struct query *query,
                record_fn each, void *context, struct err *err)
{
    struct shown *shown = shown_of(backend);
    const struct profile_table *profiled = table->profile;
    cleanup(giving_release) struct giving giving;
    struct query stored = *query;

    giving_init(&giving, profiled, each, context);
    if (!profiled)
        return backend_query(shown->stored, table, query, each, context, err);
    if (!query->index && profiled->other_keys)
        return query_keys(shown, table, query, each, context, err);
    int r = query->index ? stored_index(profiled, query->index, &stored.index, err) : 0;
    if (r < 0)
        return r;
    giving.limit = query->limit;
    return run_query(shown, &stored, &giving, err);
}

int shown_index_values(struct backend *backend, const struct table *table,
                       const struct index *index, value_fn each, void *context, struct err *err)
{
    struct shown *shown = shown_of(backend);
    const struct index *stored;

    if (!table->profile)
        return backend_index_values(shown->stored, table, index, each, context, err);
    int r = stored_index(table->profile, index, &stored, err);
    return r ? r
             : backend_index_values(shown->stored, table->profile->stored, stored, each, context,
                                    err);
}
