/* SPDX-License-Identifier: MIT */
/* What directories of a view stand for: tags, found by walking through keys, and values of indexes.
 * And the links of a tag. */
#include "fs/view_private.h"

#include <errno.h>

#include "base/set.h"

#define PAGE_ITEMS 4096
#define TAGS_BYTES_MAX (256u << 20) /* of different tags of a table */

enum value_type view_value_type(const struct view *view)
{
    return view->index ? view->index->partition.type : VALUE_S;
}

struct tag_walk {
    struct set seen;
    struct span only; /* data not NULL: items that carry it are given, instead of tags */
    value_fn each;    /* of a tag */
    record_fn record; /* of an item */
    void *context;
};

static int walk_part(struct tag_walk *walk, struct span part)
{
    int code = 0;
    for (struct span rest = part; code == 0 && rest.data;) {
        struct span tag = key_next_tag(&rest);
        code = tag.len ? set_add(&walk->seen, tag) : 0;
        code = code == 1 ? walk->each(walk->context, tag) : code;
    }
    return code;
}

static int walk_record(void *context, const struct record *record)
{
    struct tag_walk *walk = context;
    if (!walk->only.data)
        return walk_part(walk, record->key.partition);
    return key_has_tag(record->key.partition, walk->only) ? walk->record(walk->context, record) : 0;
}

static int walk_partition(void *context, const struct partition_info *info)
{
    const struct record record = {.key.partition = info->partition};
    return walk_record(context, &record);
}

/* All keys of the table, without bodies; of a sorted one its partitions. */
static int walk_keys(const struct view *view, struct tag_walk *walk, struct err *err)
{
    if (table_sorted(view->table))
        return backend_partitions(view->backend, view->table, span_of(NULL, 0), 0, walk_partition,
                                  walk, err);
    const struct scan_range range = {.bodies = false};
    struct scan *scan = NULL;
    int code = backend_scan_open(view->backend, view->table, &range, &scan, err);
    while (code == 0 && !scan->ended)
        code = backend_scan_next(scan, PAGE_ITEMS, walk_record, walk, err);
    backend_scan_close(scan);
    return code;
}

static int each_tag(const struct view *view, value_fn each, void *context, struct err *err)
{
    struct tag_walk walk = {.each = each, .context = context};
    set_init(&walk.seen, TAGS_BYTES_MAX);
    int code = walk_keys(view, &walk, err);
    set_release(&walk.seen);
    if (code == -EFBIG)
        return err_set(err, EFBIG, "table %s has too many tags to list them", view->table->name);
    return code;
}

int view_each_value(const struct view *view, value_fn each, void *context, struct err *err)
{
    if (view->index)
        return backend_index_values(view->backend, view->table, view->index, each, context, err);
    return each_tag(view, each, context, err);
}

/* A hashed name: the one value that has it. */
struct value_search {
    struct view *view;
    struct span name;
    struct buf candidate;
};

static int match_value(void *context, struct span value)
{
    struct value_search *search = context;
    buf_clear(&search->candidate);
    name_from_part(view_value_type(search->view), value, "", &search->candidate);
    if (!span_equal(buf_span(&search->candidate), search->name))
        return 0;
    buf_clear(&search->view->value);
    buf_add_span(&search->view->value, value);
    return 1;
}

int view_find_value(struct view *view, struct span name, struct err *err)
{
    int code = name_to_part(view_value_type(view), name, "", &view->value, NULL);
    if (code == 0 && !view->index)
        code = key_check_tag(buf_span(&view->value), view->table->strict_tags, NULL);
    if (code <= 0)
        return code < 0 ? -ENOENT : buf_error(&view->value);
    struct value_search search = {.view = view, .name = name};
    buf_init(&search.candidate, KEY_NAME_MAX + 1);
    code = view_each_value(view, match_value, &search, err);
    buf_release(&search.candidate);
    return code < 0 ? code : code == 1 ? 0 : -ENOENT;
}

/* --- Links of a tag: the names of the table --- */

int view_find_tagged(struct view *view, struct buf *target, struct err *err)
{
    struct mount *mount = view->mount;
    struct place place;
    struct inode *inode = NULL;
    int code = place_find(mount, view->dir, view->name, &place, NULL);
    cleanup(buf_release) struct buf part = place.part;
    bool one = code == 0 && !place.hashed && !place.alias &&
               (place.kind == PLACE_ITEM || place.kind == PLACE_PARTITION) &&
               key_has_tag(buf_span(&part), buf_span(&view->value));
    if (!one)
        return code < 0 && code != -EINVAL ? code : -ENOENT;
    code = resolve(mount, view->dir, view->name, &inode, NULL, err);
    if (code < 0)
        return code;
    bool there = inode_kind(inode) == INODE_ITEM || inode_kind(inode) == INODE_PARTITION;
    pthread_mutex_lock(&mount->cache->lock);
    inode_unref(mount->cache, inode);
    pthread_mutex_unlock(&mount->cache->lock);
    if (there && target) {
        buf_addf(target, "../../../../%s/", view->table->name);
        buf_add_span(target, view->name);
    }
    return there ? 0 : -ENOENT;
}

struct tagged_listing {
    const struct table *table;
    struct buf name;
    control_fn each;
    void *context;
};

static int list_tagged(void *context, const struct record *record)
{
    struct tagged_listing *listing = context;
    const struct table *table = listing->table;
    buf_clear(&listing->name);
    key_part_to_name(table, false, record->key.partition,
                     table_sorted(table) ? "" : KEY_ITEM_SUFFIX, &listing->name);
    int code = buf_error(&listing->name);
    return code ? code : listing->each(listing->context, listing->name.data, CONTROL_LINK);
}

int view_list_tagged(const struct view *view, control_fn each, void *context, struct err *err)
{
    struct tagged_listing listing = {.table = view->table, .each = each, .context = context};
    struct tag_walk walk = {
        .only = buf_span(&view->value), .record = list_tagged, .context = &listing};
    buf_init(&listing.name, KEY_TAGS_NAME_MAX + 1);
    int code = walk_keys(view, &walk, err);
    buf_release(&listing.name);
    return code;
}
