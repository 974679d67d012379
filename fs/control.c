/* SPDX-License-Identifier: MIT */
/*
 * The control directory: never listed, reachable by name. What it holds is made when it is read.
 *
 *   status.json  metrics  tables/NAME.json  drafts/TABLE/PATH  changes/NAME.jsonl (changes.c)
 *   tags/TABLE/TAG/NAME  index/TABLE/INDEX/VALUE/NAME (view.c)
 */
#include "fs/changes.h"

#include <errno.h>
#include <stdio.h>

#include "fs/view.h"

#define TABLES "tables"
#define DRAFTS "drafts"

/* The first component of PATH, and what follows it. */
static struct span first_part(struct span path, struct span *ret_rest)
{
    const char *slash = path.len ? memchr(path.data, '/', path.len) : NULL;
    size_t len = slash ? (size_t)(slash - path.data) : path.len;
    size_t skip = slash ? len + 1 : len;
    *ret_rest = path.len > skip ? span_of(path.data + skip, path.len - skip) : span_of("", 0);
    return span_of(path.data, len);
}

static struct volume *table_file_locked(struct mount *mount, struct span name)
{
    size_t suffix = strlen(KEY_ITEM_SUFFIX);
    if (name.len <= suffix || memcmp(name.data + name.len - suffix, KEY_ITEM_SUFFIX, suffix) != 0)
        return NULL;
    return volume_find_locked(mount, span_of(name.data, name.len - suffix));
}

/* --- Drafts: of all backends, and those held in memory --- */

struct draft_walk {
    struct mount *mount;
    struct span table, path;
    int (*each)(struct draft_walk *, const struct draft *, struct backend *, struct body *held);
    void *context;
    struct backend *backend;
    /* Of a search. */
    uint64_t id;
    struct backend *found;
    struct body *body;
    struct buf *reason;
};

static int draft_each(void *context, const struct draft *draft)
{
    struct draft_walk *walk = context;
    return walk->each(walk, draft, walk->backend, NULL);
}

static int drafts_walk(struct draft_walk *walk, struct err *err)
{
    struct mount *mount = walk->mount;
    int code = 0;
    for (size_t i = 0; i < mount->source->count && code == 0; i++) {
        walk->backend = mount->source->backends[i];
        code = backend_draft_list(walk->backend, walk->table, draft_each, walk, err);
    }
    scoped_lock(&mount->cache->lock);
    for (struct held_draft *held = mount->held; held && code == 0; held = held->next)
        if (!walk->table.len || span_equal(walk->table, held->draft.table))
            code = walk->each(walk, &held->draft, held->backend, held->body);
    return code;
}

static int match_draft(struct draft_walk *walk, const struct draft *draft, struct backend *backend,
                       struct body *held)
{
    if (!span_equal(draft->path, walk->path))
        return 0;
    walk->id = draft->id;
    walk->found = backend;
    walk->body = held ? body_ref(held) : NULL;
    if (walk->reason)
        buf_add_span(walk->reason, draft->reason);
    return 1;
}

/* PATH below drafts/: "TABLE/NAME". Release walk->body. */
static int find_draft(struct mount *mount, struct span path, struct draft_walk *walk,
                      struct err *err)
{
    struct span rest;
    *walk = (struct draft_walk){.mount = mount,
                                .each = match_draft,
                                .table = first_part(path, &rest),
                                .reason = walk->reason};
    walk->path = rest;
    int code = rest.len ? drafts_walk(walk, err) : 0;
    return code < 0 ? code : code == 1 ? 0 : -ENOENT;
}

/* The entries of a directory of drafts, each once. */
struct draft_listing {
    struct span
        below;       /* path below the table; "" for the table itself; a table when all is empty */
    struct buf seen; /* names, each with its NUL */
    control_fn each;
    void *context;
};

static int list_draft(struct draft_walk *walk, const struct draft *draft, struct backend *backend,
                      struct body *held)
{
    (void)backend;
    (void)held;
    struct draft_listing *listing = walk->context;
    struct span name = draft->table, rest = draft->path;
    if (walk->table.len) {
        struct span below = listing->below;
        if (below.len && (draft->path.len <= below.len || draft->path.data[below.len] != '/' ||
                          memcmp(draft->path.data, below.data, below.len) != 0))
            return 0;
        size_t skip = below.len ? below.len + 1 : 0;
        name = first_part(span_of(draft->path.data + skip, draft->path.len - skip), &rest);
    }
    for (size_t at = 0; at < listing->seen.len; at += strlen(listing->seen.data + at) + 1)
        if (span_equal(span_text(listing->seen.data + at), name))
            return 0;
    size_t at = listing->seen.len;
    buf_add_span(&listing->seen, name);
    buf_add_char(&listing->seen, '\0');
    if (buf_error(&listing->seen))
        return -ENOMEM;
    return listing->each(listing->context, listing->seen.data + at,
                         rest.len > 0 ? CONTROL_DIRECTORY : CONTROL_FILE);
}

static int list_drafts(struct mount *mount, struct span path, control_fn each, void *context,
                       struct err *err)
{
    struct draft_listing listing = {.each = each, .context = context};
    buf_init(&listing.seen, SIZE_MAX / 2);
    struct draft_walk walk = {.mount = mount, .each = list_draft, .context = &listing};
    walk.table = path.len ? first_part(path, &listing.below) : path;
    int code = drafts_walk(&walk, err);
    buf_release(&listing.seen);
    return code;
}

static int count_entry(void *context, const char *name, enum control_kind kind)
{
    (void)name;
    (void)kind;
    ++*(size_t *)context;
    return 1;
}

/* --- The tree --- */

/* A kernel that does not ask when a file is opened does not tell either when it is closed. */
static int stat_changes(struct mount *mount, struct span name, enum control_kind *ret_kind,
                        struct err *err)
{
    if (mount->config->read_only)
        return err_set(err, EOPNOTSUPP,
                       "a read-only mount has no files of changes (itemctl changes --follow "
                       "shows them)");
    *ret_kind = name.len ? CONTROL_FILE : CONTROL_DIRECTORY;
    return name.len ? changes_find(mount, name, err) : 0;
}

int control_stat(struct mount *mount, struct span path, enum control_kind *ret_kind,
                 struct err *err)
{
    struct span rest, top = first_part(path, &rest);
    if (view_is(path))
        return view_stat(mount, path, ret_kind, NULL, err);
    *ret_kind = CONTROL_DIRECTORY;
    if (path.len == 0 || span_equal(path, span_text(TABLES)) || span_equal(path, span_text(DRAFTS)))
        return 0;
    *ret_kind = CONTROL_FILE;
    if (span_equal(path, span_text("status.json")) || span_equal(path, span_text("metrics")))
        return 0;
    if (span_equal(top, span_text(TABLES))) {
        scoped_lock(&mount->cache->lock);
        return table_file_locked(mount, rest) ? 0 : -ENOENT;
    }
    if (span_equal(top, span_text(CHANGES_NAME)))
        return stat_changes(mount, rest, ret_kind, err);
    if (!span_equal(top, span_text(DRAFTS)))
        return -ENOENT;
    struct draft_walk walk = {0};
    int code = find_draft(mount, rest, &walk, err);
    body_unref(walk.body);
    if (code != -ENOENT)
        return code;
    size_t entries = 0;
    code = list_drafts(mount, rest, count_entry, &entries, err);
    *ret_kind = CONTROL_DIRECTORY;
    return code < 0 ? code : entries ? 0 : -ENOENT;
}

static int read_draft(struct mount *mount, struct span path, struct buf *out, struct err *err)
{
    struct draft_walk walk = {0};
    int code = find_draft(mount, path, &walk, err);
    if (code < 0)
        return code;
    if (walk.body)
        buf_add_span(out, body_span(walk.body));
    else
        code = backend_draft_read(walk.found, walk.id, out, err);
    body_unref(walk.body);
    return code;
}

int control_read(struct mount *mount, struct span path, struct buf *out, struct err *err)
{
    struct span rest, top = first_part(path, &rest);
    int code = 0;
    if (span_equal(path, span_text("status.json"))) {
        status_json(mount, out);
    } else if (span_equal(path, span_text("metrics"))) {
        status_metrics(mount, out);
    } else if (span_equal(top, span_text(TABLES))) {
        scoped_lock(&mount->cache->lock);
        const struct volume *volume = table_file_locked(mount, rest);
        if (!volume)
            return -ENOENT;
        table_to_json(volume_table(volume), out);
    } else if (span_equal(top, span_text(DRAFTS))) {
        code = read_draft(mount, rest, out, err);
    } else if (view_is(path)) {
        enum control_kind kind;
        code = view_stat(mount, path, &kind, out, err);
    } else if (changes_is_file(path)) {
        return 0; /* nobody has it open: there is nothing in it */
    } else {
        code = -ENOENT;
    }
    return code < 0 ? code : buf_error(out);
}

static int list_tables(struct mount *mount, const char *suffix, control_fn each, void *context)
{
    int code = 0;
    scoped_lock(&mount->cache->lock);
    for (struct volume *volume = mount->volumes; volume && code == 0; volume = volume->next) {
        if (volume->dropped)
            continue;
        char name[TABLE_NAME_MAX + sizeof CHANGES_SUFFIX];
        snprintf(name, sizeof name, "%s%s", volume_table(volume)->name, suffix);
        code = each(context, name, CONTROL_FILE);
    }
    return code;
}

int control_list(struct mount *mount, struct span path, control_fn each, void *context,
                 struct err *err)
{
    static const struct {
        const char *name;
        enum control_kind kind;
    } top[] = {{CHANGES_NAME, CONTROL_DIRECTORY}, {DRAFTS, CONTROL_DIRECTORY},
               {VIEW_INDEX, CONTROL_DIRECTORY},   {"metrics", CONTROL_FILE},
               {"status.json", CONTROL_FILE},     {TABLES, CONTROL_DIRECTORY},
               {VIEW_TAGS, CONTROL_DIRECTORY}};
    struct span rest;
    int code = 0;
    if (path.len == 0) {
        for (size_t i = mount->config->read_only ? 1 : 0;
             i < sizeof top / sizeof top[0] && code == 0; i++)
            code = each(context, top[i].name, top[i].kind);
        return code;
    }
    if (view_is(path))
        return view_list(mount, path, each, context, err);
    if (span_equal(path, span_text(TABLES)))
        return list_tables(mount, KEY_ITEM_SUFFIX, each, context);
    if (span_equal(path, span_text(CHANGES_NAME)))
        return list_tables(mount, CHANGES_SUFFIX, each, context);
    if (span_equal(first_part(path, &rest), span_text(DRAFTS)))
        return list_drafts(mount, rest, each, context, err);
    return -ENOTDIR;
}

static int drop_held(struct mount *mount, const struct body *body)
{
    scoped_lock(&mount->cache->lock);
    for (struct held_draft **link = &mount->held; *link; link = &(*link)->next) {
        struct held_draft *held = *link;
        if (held->body != body)
            continue;
        *link = held->next;
        body_unref(held->body);
        free(held);
        return 0;
    }
    return -ENOENT;
}

int control_remove(struct mount *mount, struct span path, struct err *err)
{
    struct span rest;
    if (!span_equal(first_part(path, &rest), span_text(DRAFTS)) || !rest.len)
        return err_set(err, EPERM, "only drafts can be removed here");
    struct draft_walk walk = {0};
    int code = find_draft(mount, rest, &walk, err);
    if (code < 0)
        return code;
    struct action action = {.kind = ACTION_DRAFT_DELETE, .draft = {.id = walk.id}};
    if (walk.body)
        code = drop_held(mount, walk.body);
    else
        code = backend_write(walk.found, &action, 1, 0, err);
    body_unref(walk.body);
    return code;
}

int control_error(struct mount *mount, struct span path, struct buf *out, struct err *err)
{
    struct span rest;
    if (!span_equal(first_part(path, &rest), span_text(DRAFTS)))
        return report_find(mount, mount->cache->root, path, out) ? 0 : -ENODATA;
    struct draft_walk walk = {.reason = out};
    int code = find_draft(mount, rest, &walk, err);
    body_unref(walk.body);
    return code == -ENOENT ? -ENODATA : code;
}
