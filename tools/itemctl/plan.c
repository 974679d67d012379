/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/item.h"
#include "base/text.h"

#define SCAN_ITEMS 1000 /* at a time */

void plan_init(struct plan *plan)
{
    *plan = (struct plan){0};
    seeds_init(&plan->seeds);
}

void plan_release(struct plan *plan)
{
    for (size_t i = 0; i < plan->difference_count; i++) {
        free(plan->differences[i].what);
        free(plan->differences[i].declared);
        free(plan->differences[i].there);
    }
    free(plan->differences);
    seeds_release(&plan->seeds);
    subject_release(&plan->subject);
    table_free(plan->now);
}

int plan_add_difference(struct plan *plan, const char *what, const char *declared,
                        const char *there, enum plan_remedy remedy)
{
    struct plan_difference *more =
        reallocarray(plan->differences, plan->difference_count + 1, sizeof *more);

    if (!more)
        return -ENOMEM;
    plan->differences = more;
    more += plan->difference_count++;
    *more = (struct plan_difference){strdup(what), strdup(declared), strdup(there), remedy};
    return more->what && more->declared && more->there ? 0 : -ENOMEM;
}

const struct plan_difference *plan_refused(const struct plan *plan)
{
    for (size_t i = 0; i < plan->difference_count; i++)
        if (plan->differences[i].remedy == REMEDY_REFUSE)
            return &plan->differences[i];
    return NULL;
}

/* ---- keys and indexes ---- */

static void add_attribute(struct buf *out, const struct key_attribute *attribute)
{
    if (attribute->name)
        buf_addf(out, "%s:%s", attribute->name, value_type_name(attribute->type));
    else
        buf_add_text(out, "none");
}

static int compare_attribute(struct plan *plan, const char *what,
                             const struct key_attribute *declared,
                             const struct key_attribute *there, enum plan_remedy remedy)
{
    cleanup(buf_release) struct buf left, right;

    buf_init(&left, 65536);
    buf_init(&right, 65536);
    if (key_attribute_equal(declared, there))
        return 0;
    add_attribute(&left, declared);
    add_attribute(&right, there);
    if (buf_error(&left) || buf_error(&right))
        return -ENOMEM;
    return plan_add_difference(plan, what, left.data, right.data, remedy);
}

static void add_index(struct buf *out, const struct index *index)
{
    if (!index) {
        buf_add_text(out, "none");
        return;
    }
    add_attribute(out, &index->partition);
    if (index->sort.name) {
        buf_add_char(out, ',');
        add_attribute(out, &index->sort);
    }
}

/* An index that is new takes nothing away. */
static int compare_index(struct plan *plan, const char *name, const struct index *declared,
                         const struct index *there, bool force)
{
    enum plan_remedy remedy = !there || force ? REMEDY_INDEX : REMEDY_REFUSE;
    cleanup(buf_release) struct buf left, right;
    cleanup_free char *what = NULL;

    buf_init(&left, 65536);
    buf_init(&right, 65536);
    if (declared && there && index_equal(declared, there))
        return 0;
    add_index(&left, declared);
    add_index(&right, there);
    if (asprintf(&what, "index %s", name) < 0)
        what = NULL;
    if (!what || buf_error(&left) || buf_error(&right))
        return -ENOMEM;
    return plan_add_difference(plan, what, left.data, right.data, remedy);
}

static int compare_shape(struct plan *plan, bool force)
{
    const struct table *declared = plan->subject.table, *there = plan->now;
    enum plan_remedy remedy = force ? REMEDY_REPLACE : REMEDY_REFUSE;
    int r = compare_attribute(plan, "key", &declared->partition, &there->partition, remedy);

    if (r == 0)
        r = compare_attribute(plan, "sort key", &declared->sort, &there->sort, remedy);
    for (size_t i = 0; r == 0 && i < declared->index_count; i++) {
        const char *name = declared->indexes[i].name;
        r = compare_index(plan, name, &declared->indexes[i], table_index(there, span_text(name)),
                          force);
    }
    for (size_t i = 0; r == 0 && i < there->index_count; i++) {
        const char *name = there->indexes[i].name;
        if (!table_index(declared, span_text(name)))
            r = compare_index(plan, name, NULL, &there->indexes[i], force);
    }
    return r;
}

/* ---- settings ---- */

static const char *shown_ttl(const struct table *table)
{
    return table->ttl_attribute ? table->ttl_attribute : table->ttl_unknown ? "unknown" : "none";
}

static const char *shown_keys(const struct table *table)
{
    return table->keys == KEYS_TAGS ? "tags" : "plain";
}

struct expiring {
    const struct table *declared;
    int64_t now_s;
    bool found;
};

/* Whether the item would be gone at once. */
static int look_at_expiry(void *context, const struct record *record)
{
    struct expiring *expiring = context;
    struct item_facts facts;
    int r = item_examine(expiring->declared, record->key, record->body, &facts, NULL, NULL);

    expiring->found = r == 0 && item_expired(facts.ttl, expiring->now_s);
    return expiring->found ? 1 : r;
}

/* All items are read, up to the first that would expire. */
static int find_expiring(const struct plan *plan, bool *ret_found, struct err *err)
{
    struct expiring expiring = {.now_s = clock_now_s()};
    const struct scan_range range = {.bodies = true};
    struct table now = *plan->now;
    struct scan *scan;

    *ret_found = false;
    if (!plan->subject.table->ttl_attribute)
        return 0;
    now.ttl_attribute = plan->subject.table->ttl_attribute;
    expiring.declared = &now;
    int r = backend_scan_open(plan->subject.backend, plan->now, &range, &scan, err);
    if (r < 0)
        return r;
    while (r == 0 && !scan->ended)
        r = backend_scan_next(scan, SCAN_ITEMS, look_at_expiry, &expiring, err);
    backend_scan_close(scan);
    *ret_found = expiring.found;
    return r < 0 ? r : 0;
}

static int compare_ttl(struct plan *plan, bool force, struct err *err)
{
    const struct table *declared = plan->subject.table, *there = plan->now;
    bool expiring = false;
    int r = 0;

    if (!plan->says_ttl || text_equal(declared->ttl_attribute, there->ttl_attribute))
        return 0;
    if (!there->ttl_unknown && !force && !plan->settled)
        r = find_expiring(plan, &expiring, err);
    if (r < 0)
        return r;
    return plan_add_difference(plan, "ttl", shown_ttl(declared), shown_ttl(there),
                               there->ttl_unknown ? REMEDY_LEAVE
                               : expiring         ? REMEDY_REFUSE
                                                  : REMEDY_CHANGE);
}

static int compare_settings(struct plan *plan, bool force, struct err *err)
{
    const struct table *declared = plan->subject.table, *there = plan->now;
    enum plan_remedy remedy =
        force || plan->settled || !plan->has_items ? REMEDY_CHANGE : REMEDY_REFUSE;
    bool keeps_keys = backend_can(plan->subject.backend, BACKEND_SETTINGS);
    int r = compare_ttl(plan, force, err);

    if (r == 0 && plan->says_keys && keeps_keys && declared->keys != there->keys)
        r = plan_add_difference(plan, "keys", shown_keys(declared), shown_keys(there), remedy);
    if (r || declared->stream == there->stream || (plan->settled && !plan->says_stream))
        return r;
    remedy = plan->says_stream || force ? REMEDY_CHANGE : REMEDY_LEAVE;
    return plan_add_difference(plan, "stream", declared->stream ? "on" : "off",
                               there->stream ? "on" : "off", remedy);
}

/* ---- the plan ---- */

static int found_item(void *context, const struct record *record)
{
    (void)record;
    *(bool *)context = true;
    return 1;
}

static int look(struct plan *plan, struct source *source, struct err *err)
{
    const char *name = plan->subject.table->name;
    const struct walk first = {.limit = 1};
    struct backend *backend;
    struct err own = {""};
    int r = source_table(source, span_text(name), &backend, &plan->now, &own);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (backend != plan->subject.backend)
        return err_set(err, EEXIST,
                       "table %s is in another backend than the one where it would be made: name "
                       "it with \"backend\" in [table %s]",
                       name, name);
    r = backend_walk(backend, plan->now, &first, found_item, &plan->has_items, err);
    return r < 0 ? r : 0;
}

static bool has_remedy(const struct plan *plan, enum plan_remedy remedy)
{
    for (size_t i = 0; i < plan->difference_count; i++)
        if (plan->differences[i].remedy == remedy)
            return true;
    return false;
}

int plan_make(struct plan *plan, struct source *source, bool force, struct err *err)
{
    int r = look(plan, source, err);

    if (r < 0)
        return r;
    if (!plan->now) {
        plan->action = PLAN_MAKE;
        return backend_check_table(plan->subject.backend, plan->subject.table, err);
    }
    r = plan->by_profile ? 0 : compare_shape(plan, force);
    if (r == 0)
        r = compare_settings(plan, force, err);
    bool changed = has_remedy(plan, REMEDY_CHANGE) || has_remedy(plan, REMEDY_INDEX);
    plan->action = has_remedy(plan, REMEDY_REPLACE) ? PLAN_REPLACE
                   : changed                        ? PLAN_CHANGE
                                                    : PLAN_NONE;
    if (r == 0 && plan->action == PLAN_REPLACE)
        r = backend_check_table(plan->subject.backend, plan->subject.table, err);
    return r;
}

/* The table as it is there, with the settings that are to be changed. A service without time to
 * live has done the rest when it says so. */
static int change_settings(struct plan *plan, struct err *err)
{
    const struct table *declared = plan->subject.table;
    struct table changed = *plan->now;

    for (size_t i = 0; i < plan->difference_count; i++) {
        const struct plan_difference *difference = &plan->differences[i];
        if (difference->remedy != REMEDY_CHANGE)
            continue;
        if (strcmp(difference->what, "ttl") == 0)
            changed.ttl_attribute = declared->ttl_attribute;
        else if (strcmp(difference->what, "keys") == 0)
            changed.keys = declared->keys;
        else if (strcmp(difference->what, "stream") == 0)
            changed.stream = declared->stream;
    }
    struct err own = {""};
    int r = backend_alter_table(plan->subject.backend, &changed, &own);
    if (r != -EOPNOTSUPP || text_equal(changed.ttl_attribute, plan->now->ttl_attribute))
        return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
    for (size_t i = 0; i < plan->difference_count; i++) /* as when such a table is made */
        if (strcmp(plan->differences[i].what, "ttl") == 0)
            plan->differences[i].remedy = REMEDY_LEAVE;
    return 0;
}

static int change_indexes(const struct plan *plan, struct err *err)
{
    struct table changed = *plan->now;

    changed.indexes = plan->subject.table->indexes;
    changed.index_count = plan->subject.table->index_count;
    return backend_alter_indexes(plan->subject.backend, &changed, err);
}

static int change(struct plan *plan, struct err *err)
{
    int r = has_remedy(plan, REMEDY_INDEX) ? change_indexes(plan, err) : 0;

    return r == 0 && has_remedy(plan, REMEDY_CHANGE) ? change_settings(plan, err) : r;
}

/* The description of what is there now, with this source's settings: items are put into it. */
static int describe(struct plan *plan, struct source *source, struct err *err)
{
    struct backend *backend;
    struct table *table;
    int r = source_table(source, span_text(plan->subject.table->name), &backend, &table, err);

    if (r < 0)
        return r == -ENOENT ? -EIO : r;
    table_free(plan->subject.table);
    plan->subject.table = table;
    return 0;
}

int plan_apply(struct plan *plan, struct source *source, struct err *err)
{
    const struct subject *subject = &plan->subject;
    int r = 0;

    if (plan->action == PLAN_REPLACE)
        r = backend_drop_table(subject->backend, plan->now, true, err);
    if (r == 0 && (plan->action == PLAN_MAKE || plan->action == PLAN_REPLACE))
        r = backend_create_table(subject->backend, subject->table, err);
    else if (r == 0 && plan->action == PLAN_CHANGE)
        r = change(plan, err);
    return r < 0 ? r : describe(plan, source, err);
}
