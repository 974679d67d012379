/* SPDX-License-Identifier: MIT */
/*
 * The links of an index. A listing is a query of the index. A link is looked at by what it leads
 * to: its name tells the key, and the item, as this mount knows it, whether it belongs there.
 */
#include "fs/view_private.h"

#include <errno.h>

static size_t part_types(const struct view *view, enum value_type types[NAME_PARTS_MAX])
{
    size_t count = 0;
    if (view->index->sort.name)
        types[count++] = view->index->sort.type;
    types[count++] = view->table->partition.type;
    if (table_sorted(view->table))
        types[count++] = view->table->sort.type;
    return count;
}

struct entry_search {
    const struct view *view;
    struct buf sort; /* of the entry under the value */
    bool found;
};

static int note_entry(void *context, size_t index, struct span partition, struct span sort)
{
    struct entry_search *search = context;
    const struct view *view = search->view;
    if (index != view->index_number || !span_equal(partition, buf_span(&view->value)))
        return 0;
    buf_add_span(&search->sort, sort);
    search->found = true;
    return 0;
}

/* Whether the item KEY with BODY is in the index under the value; the name that its link has. */
static int link_name(const struct view *view, struct key key, struct span body, int64_t ttl,
                     struct buf *name, bool *ret_found, struct err *err)
{
    struct entry_search search = {.view = view};
    struct name_part parts[NAME_PARTS_MAX];
    enum value_type types[NAME_PARTS_MAX];
    size_t count = 0;
    buf_init(&search.sort, KEY_PART_MAX);
    part_types(view, types);
    int code = item_index_keys(view->table, key, body, item_ttl_beside(body, ttl), note_entry,
                               &search, err);
    if (code == 0 && search.found) {
        if (view->index->sort.name)
            parts[count++].bytes = buf_span(&search.sort);
        parts[count++].bytes = key.partition;
        if (table_sorted(view->table))
            parts[count++].bytes = key.sort;
        for (size_t i = 0; i < count; i++)
            parts[i].type = types[i];
        name_from_parts(parts, count, KEY_ITEM_SUFFIX, name);
    }
    *ret_found = search.found;
    code = code ? code : buf_error(&search.sort) ? buf_error(&search.sort) : buf_error(name);
    buf_release(&search.sort);
    return code;
}

/* The directory that the item KEY is in, with a reference. */
static int find_directory(const struct view *view, struct key key, struct inode **ret_dir,
                          struct err *err)
{
    struct mount *mount = view->mount;
    cleanup(buf_release) struct buf name;
    buf_init(&name, KEY_TAGS_NAME_MAX + 1);
    if (!table_sorted(view->table)) {
        scoped_lock(&mount->cache->lock);
        *ret_dir = inode_ref(view->dir);
        return 0;
    }
    key_part_to_name(view->table, false, key.partition, "", &name);
    int code = resolve(mount, view->dir, buf_span(&name), ret_dir, NULL, err);
    if (code < 0 || inode_kind(*ret_dir) == INODE_PARTITION)
        return code;
    scoped_lock(&mount->cache->lock);
    inode_unref(mount->cache, *ret_dir);
    return -ENOENT;
}

/* The plain body of an item, which is shown as FILE. */
static int plain_body(const struct view *view, struct key key, struct span file, struct buf *out,
                      struct span *ret_body, struct err *err)
{
    int64_t ttl;
    *ret_body = file;
    if (view->table->format != FORMAT_TYPED)
        return 0;
    int code = item_body_from_typed_file(view->table, key, file, out, &ttl, err);
    *ret_body = buf_span(out);
    return code;
}

/* Whether ITEM, as this mount knows it, has the link. */
static int check_item(const struct view *view, struct inode *item, struct key key, struct err *err)
{
    struct mount *mount = view->mount;
    cleanup(buf_release) struct buf plain;
    cleanup(buf_release) struct buf name;
    struct body *file = NULL;
    struct span body;
    bool found = false;
    buf_init(&plain, SIZE_MAX / 2);
    buf_init(&name, KEY_NAME_MAX + 1);
    pthread_mutex_lock(&mount->cache->lock);
    bool fresh = item->edit && item->edit->fresh; /* not saved yet */
    int64_t ttl = item->meta.ttl;
    pthread_mutex_unlock(&mount->cache->lock);
    int code = fresh ? -ENOENT : inode_load(mount, item, &file, err);
    if (code == 0)
        code = plain_body(view, key, body_span(file), &plain, &body, err);
    if (code == 0)
        code = link_name(view, key, body, ttl, &name, &found, err);
    body_unref(file);
    return code < 0 ? code : found && span_equal(buf_span(&name), view->name) ? 0 : -ENOENT;
}

/* What is in the table counts, not the index, which of a service lags behind. */
static int check_key(const struct view *view, struct key key, struct err *err)
{
    struct mount *mount = view->mount;
    struct inode *dir = NULL, *item = NULL;
    int code = find_directory(view, key, &dir, err);
    if (code == 0)
        code = resolve_item(mount, dir, table_sorted(view->table) ? key.sort : key.partition, &item,
                            err);
    if (code == 0)
        code = check_item(view, item, key, err);
    scoped_lock(&mount->cache->lock);
    if (item)
        inode_unref(mount->cache, item);
    if (dir)
        inode_unref(mount->cache, dir);
    return code == -ESTALE ? -ENOENT : code; /* changed while it was looked at */
}

/* All links of the value, by name; or the key of the one that is looked for. */
struct link_walk {
    const struct view *view;
    control_fn each; /* NULL: the link NAME is looked for */
    void *context;
    struct span name;
    struct buf link;
    struct buf *parts; /* of the key that was found: partition, sort */
    struct err *err;
};

static int walk_link(void *context, const struct record *record)
{
    struct link_walk *walk = context;
    bool found;
    buf_clear(&walk->link);
    int code = link_name(walk->view, record->key, record->body, record->meta.ttl, &walk->link,
                         &found, walk->err);
    if (code < 0 || !found)
        return code;
    if (walk->each)
        return walk->each(walk->context, walk->link.data, CONTROL_LINK);
    if (!span_equal(buf_span(&walk->link), walk->name))
        return 0;
    buf_add_span(&walk->parts[0], record->key.partition);
    buf_add_span(&walk->parts[1], record->key.sort);
    return 1;
}

static int walk_links(struct link_walk *walk)
{
    const struct view *view = walk->view;
    const struct query query = {.index = view->index, .partition = buf_span(&view->value)};
    buf_init(&walk->link, KEY_NAME_MAX + 1);
    int code = backend_query(view->backend, view->table, &query, walk_link, walk, walk->err);
    buf_release(&walk->link);
    return code;
}

static void add_target(const struct view *view, struct key key, struct buf *target)
{
    const struct table *table = view->table;
    bool sorted = table_sorted(table);
    buf_addf(target, "../../../../../%s/", table->name);
    key_part_to_name(table, false, key.partition, sorted ? "" : KEY_ITEM_SUFFIX, target);
    if (!sorted)
        return;
    buf_add_char(target, '/');
    key_part_to_name(table, true, key.sort, KEY_ITEM_SUFFIX, target);
}

int view_find_indexed(struct view *view, struct buf *target, struct err *err)
{
    struct buf parts[NAME_PARTS_MAX];
    enum value_type types[NAME_PARTS_MAX];
    size_t count = part_types(view, types), first = view->index->sort.name != NULL;
    for (size_t i = 0; i < NAME_PARTS_MAX; i++)
        buf_init(&parts[i], KEY_PART_MAX);
    int code = name_to_parts(types, count, view->name, KEY_ITEM_SUFFIX, parts);
    if (code == 1) {
        struct link_walk walk = {
            .view = view, .name = view->name, .parts = &parts[first], .err = err};
        buf_clear(&parts[first]); /* a beginning may be in it */
        code = walk_links(&walk);
        code = code == 1 ? 0 : code < 0 ? code : -ENOENT;
    } else if (code < 0) {
        code = -ENOENT;
    }
    struct key key = {buf_span(&parts[first]), span_of(NULL, 0)};
    if (table_sorted(view->table))
        key.sort = buf_span(&parts[first + 1]);
    if (code == 0)
        code = check_key(view, key, err);
    if (code == 0 && target)
        add_target(view, key, target);
    for (size_t i = 0; i < NAME_PARTS_MAX; i++)
        buf_release(&parts[i]);
    return code;
}

int view_list_indexed(const struct view *view, control_fn each, void *context, struct err *err)
{
    struct link_walk walk = {.view = view, .each = each, .context = context, .err = err};
    return walk_links(&walk);
}
