/* SPDX-License-Identifier: MIT */
/*
 * A page of keys is read, without bodies; then those of them that are to go are deleted. The oldest
 * of too many are known only when all were looked at: they are kept in a heap of bounded size, and
 * when it was too small, all are looked at once more.
 */
#include "upkeep/purge.h"

#include <errno.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "upkeep/crew.h"
#include "upkeep/oldest.h"

#define PAGE_ITEMS 512

uint64_t purge_excess(uint64_t items, uint64_t min, uint64_t max)
{
    if (min >= max || items < max)
        return 0;
    return (items - min) / (max - min) * (max - min);
}

bool purge_meets(const struct purge_rule *rule, struct key key, const struct item_meta *meta)
{
    switch (rule->kind) {
    case PURGE_ALL: return true;
    case PURGE_TAG: return key_has_tag(key.partition, rule->tag);
    case PURGE_UNTIL: return meta->mtime_ns < rule->before_ns;
    case PURGE_CAPACITY: break;
    }
    return false;
}

struct purging {
    struct backend *backend;
    const struct table *table;
    const struct purge_rule *rule;
    bool dry;
    unsigned flags;
    purge_fn each;
    void *context;
    struct purge_count *count;
    struct doomed_list doomed;
    uint64_t seen; /* of PURGE_CAPACITY: items in this round */
    struct err *err;
};

static void tell(const struct purging *purging)
{
    if (purging->each)
        purging->each(purging->context, purging->count);
}

static int judge(void *context, const struct record *record)
{
    struct purging *purging = context;
    struct purge_count *count = purging->count;

    count->items++;
    if (!purge_meets(purging->rule, record->key, &record->meta)) {
        if (!count->oldest_ns || record->meta.mtime_ns < count->oldest_ns)
            count->oldest_ns = record->meta.mtime_ns;
        return 0;
    }
    if (purging->dry)
        count->deleted++;
    return purging->dry ? 0 : doomed_add(&purging->doomed, record);
}

static int weigh(void *context, const struct record *record)
{
    struct purging *purging = context;

    purging->seen++;
    return oldest_add(&purging->doomed, record, DOOMED_MOST);
}

/* Deletes the first COUNT of those that are doomed, page by page. */
static int delete_doomed(struct purging *purging, size_t count)
{
    int code = 0;

    for (size_t at = 0; at < count && code == 0;) {
        size_t page = count - at < PAGE_ITEMS ? count - at : PAGE_ITEMS;
        code = crew_delete(purging->backend, purging->table, &purging->doomed, at, page,
                           purging->flags, purging->count, purging->err);
        at += page;
        tell(purging);
    }
    doomed_clear(&purging->doomed);
    return code;
}

/* All items once. LOOK gathers those that may go; where AT_ONCE, they are deleted page by page. */
static int look_through(struct purging *purging, record_fn look, bool at_once)
{
    const struct scan_range range = {.bodies = false};
    struct scan *scan = NULL;
    int code = backend_scan_open(purging->backend, purging->table, &range, &scan, purging->err);

    while (code == 0 && !scan->ended) {
        code = backend_scan_next(scan, PAGE_ITEMS, look, purging, purging->err);
        if (code == 0 && at_once)
            code = delete_doomed(purging, purging->doomed.count);
        if (code == 0 && is_cancelled())
            code = err_set(purging->err, EINTR, "interrupted");
        tell(purging);
    }
    backend_scan_close(scan);
    return code;
}

/* Until no more are left than were to be at first. Others may add and delete items meanwhile: what
 * is looked at again counts. */
static int purge_to_capacity(struct purging *purging)
{
    const struct purge_rule *rule = purging->rule;
    struct purge_count *count = purging->count;
    int code = look_through(purging, weigh, false);

    if (code < 0)
        return code;
    count->items = purging->seen;
    count->wanted = purge_excess(count->items, rule->min, rule->max);
    uint64_t left = count->items - count->wanted;
    if (purging->dry) {
        count->deleted = count->wanted;
        return 0;
    }
    for (;;) {
        uint64_t excess = purging->seen > left ? purging->seen - left : 0;
        uint64_t deleted = count->deleted;
        size_t known = purging->doomed.count;
        oldest_sort(&purging->doomed);
        code = delete_doomed(purging, excess < known ? (size_t)excess : known);
        if (code < 0 || excess <= known || deleted == count->deleted)
            return code;
        purging->seen = 0;
        code = look_through(purging, weigh, false);
        if (code < 0)
            return code;
    }
}

int purge(struct backend *backend, const struct table *table, const struct purge_rule *rule,
          bool dry, unsigned flags, purge_fn each, void *context, struct purge_count *ret_count,
          struct err *err)
{
    struct purging purging = {.backend = backend,
                              .table = table,
                              .rule = rule,
                              .dry = dry,
                              .flags = flags,
                              .each = each,
                              .context = context,
                              .count = ret_count,
                              .err = err};
    bool oldest = rule->kind == PURGE_CAPACITY;

    *ret_count = (struct purge_count){0};
    int code = oldest ? purge_to_capacity(&purging) : look_through(&purging, judge, true);
    doomed_release(&purging.doomed);
    if (code < 0)
        return err_set(err, -code, "table %s: %s", table->name, err_text(NULL, code));
    return 0;
}
