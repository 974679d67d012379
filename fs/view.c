/* SPDX-License-Identifier: MIT */
#include "fs/view_private.h"

#include <errno.h>

bool view_is(struct span path)
{
    const char *const tops[] = {VIEW_TAGS, VIEW_INDEX};
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(tops[i]);
        if (path.len >= len && memcmp(path.data, tops[i], len) == 0 &&
            (path.len == len || path.data[len] == '/'))
            return true;
    }
    return false;
}

static struct span next_part(struct span *path)
{
    const char *slash = path->len ? memchr(path->data, '/', path->len) : NULL;
    size_t len = slash ? (size_t)(slash - path->data) : path->len;
    struct span part = span_of(path->data, len);
    *path = slash ? span_from(*path, len + 1) : span_of("", 0);
    return part;
}

static void view_release(struct view *view)
{
    buf_release(&view->value);
    if (!view->dir)
        return;
    scoped_lock(&view->mount->cache->lock);
    inode_unref(view->mount->cache, view->dir);
}

static bool has_view(const struct table *table, bool tags)
{
    return tags ? table->keys == KEYS_TAGS : table->index_count > 0;
}

static int find_table(struct view *view, struct span name, bool tags, struct err *err)
{
    struct mount *mount = view->mount;
    int code = resolve(mount, mount->cache->root, name, &view->dir, NULL, err);
    if (code < 0)
        return code;
    if (view->dir->kind != INODE_TABLE)
        return -ENOENT;
    view->backend = view->dir->volume->backend;
    view->table = volume_table(view->dir->volume);
    return has_view(view->table, tags) ? 0 : -ENOENT;
}

static int find_index(struct view *view, struct span name)
{
    cleanup(buf_release) struct buf known;
    buf_init(&known, KEY_NAME_MAX + 1);
    for (size_t i = 0; i < view->table->index_count; i++) {
        buf_clear(&known);
        name_from_part(VALUE_S, span_text(view->table->indexes[i].name), "", &known);
        if (!span_equal(buf_span(&known), name))
            continue;
        view->index = &view->table->indexes[i];
        view->index_number = i;
        return 0;
    }
    return -ENOENT;
}

/* Release RET_VIEW, also on failure. */
static int view_parse(struct mount *mount, struct span path, struct view *ret_view, struct err *err)
{
    *ret_view = (struct view){.mount = mount};
    buf_init(&ret_view->value, KEY_PART_MAX);
    bool tags = span_equal(next_part(&path), span_text(VIEW_TAGS));
    int code = 0;
    if (!path.len)
        return 0;
    ret_view->depth = DEPTH_TABLE;
    code = find_table(ret_view, next_part(&path), tags, err);
    if (code == 0 && !tags && path.len)
        code = find_index(ret_view, next_part(&path));
    if (code == 0 && (tags || ret_view->index))
        ret_view->depth = DEPTH_VALUES;
    if (code == 0 && path.len) {
        ret_view->depth = DEPTH_VALUE;
        code = view_find_value(ret_view, next_part(&path), err);
    }
    if (code == 0 && path.len) {
        ret_view->depth = DEPTH_LINK;
        ret_view->name = path;
        code = memchr(path.data, '/', path.len) ? -ENOENT : 0;
    }
    return code;
}

int view_stat(struct mount *mount, struct span path, enum control_kind *ret_kind,
              struct buf *target, struct err *err)
{
    struct view view;
    int code = view_parse(mount, path, &view, err);
    bool link = code == 0 && view.depth == DEPTH_LINK;
    if (link)
        code = view.index ? view_find_indexed(&view, target, err)
                          : view_find_tagged(&view, target, err);
    view_release(&view);
    *ret_kind = link ? CONTROL_LINK : CONTROL_DIRECTORY;
    if (code == 0 && target)
        code = buf_error(target);
    return code;
}

/* --- Listings --- */

struct directory_listing {
    enum value_type type;
    struct buf name;
    control_fn each;
    void *context;
};

static int list_directory(void *context, struct span value)
{
    struct directory_listing *listing = context;
    buf_clear(&listing->name);
    name_from_part(listing->type, value, "", &listing->name);
    int code = buf_error(&listing->name);
    return code ? code : listing->each(listing->context, listing->name.data, CONTROL_DIRECTORY);
}

static int list_tables(struct mount *mount, bool tags, control_fn each, void *context)
{
    int code = 0;
    scoped_lock(&mount->cache->lock);
    for (struct volume *volume = mount->volumes; volume && code == 0; volume = volume->next)
        if (!volume->dropped && has_view(volume_table(volume), tags))
            code = each(context, volume_table(volume)->name, CONTROL_DIRECTORY);
    return code;
}

static int list_indexes(const struct table *table, struct directory_listing *listing)
{
    int code = 0;
    for (size_t i = 0; i < table->index_count && code == 0; i++)
        code = list_directory(listing, span_text(table->indexes[i].name));
    return code;
}

static int list_values(const struct view *view, struct directory_listing *listing, struct err *err)
{
    listing->type = view_value_type(view);
    return view_each_value(view, list_directory, listing, err);
}

int view_list(struct mount *mount, struct span path, control_fn each, void *context,
              struct err *err)
{
    struct view view;
    struct directory_listing listing = {.type = VALUE_S, .each = each, .context = context};
    int code = view_parse(mount, path, &view, err);
    buf_init(&listing.name, KEY_NAME_MAX + 1);
    if (code == 0)
        switch (view.depth) {
        case DEPTH_TOP:
            code = list_tables(mount, span_equal(path, span_text(VIEW_TAGS)), each, context);
            break;
        case DEPTH_TABLE: code = list_indexes(view.table, &listing); break;
        case DEPTH_VALUES: code = list_values(&view, &listing, err); break;
        case DEPTH_VALUE:
            code = view.index ? view_list_indexed(&view, each, context, err)
                              : view_list_tagged(&view, each, context, err);
            break;
        case DEPTH_LINK: code = -ENOTDIR; break;
        }
    buf_release(&listing.name);
    view_release(&view);
    return code;
}
