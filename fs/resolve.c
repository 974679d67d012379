/* SPDX-License-Identifier: MIT */
/*
 * From names to inodes. A fetch takes a stamp first; when something moved under that name while it
 * was under way, what it brought may be old, and it is made again.
 */
#include "fs/mount.h"

#include <errno.h>

#include "fs/changes.h"

#define RESOLVE_TRIES 8

static int absent(struct err *err)
{
    (void)err; /* the most ordinary answer of all: no message is composed */
    return -ENOENT;
}

static void meta_from_backend(struct inode_meta *meta, const struct item_meta *from)
{
    *meta = (struct inode_meta){.version = from->version,
                                .size = from->size,
                                .mtime_ns = from->mtime_ns,
                                .ctime_ns = from->ctime_ns,
                                .ttl = from->ttl,
                                .change_ns = from->change_ns,
                                .change = (uint8_t)from->change,
                                .unreadable = from->unreadable,
                                .hidden = from->hidden};
}

/* The kernel may keep a listing of DIR only until something in it expires. */
static void expires_in_locked(struct inode *dir, int64_t ttl)
{
    if (ttl > 0 && (dir->meta.ttl == 0 || ttl < dir->meta.ttl))
        dir->meta.ttl = ttl;
}

void save_applied_locked(struct mount *mount, struct inode *inode, const struct item_meta *meta)
{
    meta_from_backend(&inode->meta, meta);
    cache_moved(mount->cache, inode->parent, inode_name(inode));
    expires_in_locked(inode->parent, meta->ttl);
}

struct scan_mark mark_now_locked(const struct mount *mount)
{
    return (struct scan_mark){cache_stamp(mount->cache), cache_ms()};
}

/* Whether INODE is open for writing and keeps its name, whatever the backend has. Not where a
 * stream told of a change; but while this mount writes it, nobody can tell whose change that is. */
static bool is_kept(const struct inode *inode)
{
    const struct edit *edit = inode->edit;
    return edit && (!inode->doubted || inode->frozen || edit->fresh || edit->saving);
}

/* The inode that is there already. Where nothing tells of changes, one of another version than the
 * backend's is out of date, unless this mount is just writing it. */
static struct inode *known_item_locked(struct mount *mount, struct inode *dir, struct span part,
                                       uint64_t version, struct scan_mark mark)
{
    struct inode *inode = inode_find(mount->cache, dir, CLASS_ITEM, part);
    if (!inode || backend_can(dir->volume->backend, BACKEND_LOG))
        return inode;
    bool same = inode->meta.version == version;
    bool newer = inode_told_ago(inode) < cache_ms() - mark.ms || /* asked for later than that */
                 cache_has_moved(mount->cache, dir, part, mark.stamp);
    if (same && !newer)
        inode_told_at(inode, mark.ms);
    if (same || newer || is_kept(inode))
        return inode;
    supersede_locked(mount, dir, part);
    return NULL;
}

/* Whether what is known of INODE still counts without asking. */
static bool is_current(const struct mount *mount, const struct inode *inode)
{
    return backend_can(inode->volume->backend, BACKEND_LOG) || is_kept(inode) ||
           told_counts(mount, inode);
}

struct inode *adopt_item_locked(struct mount *mount, struct inode *dir, struct span part,
                                const struct item_meta *meta, struct span body,
                                struct scan_mark mark)
{
    struct inode *inode = known_item_locked(mount, dir, part, meta->version, mark);
    expires_in_locked(dir, inode ? inode->meta.ttl : meta->ttl); /* also of a listing made anew */
    if (inode)
        return inode;
    if (cache_has_moved(mount->cache, dir, part, mark.stamp) || grace_find_locked(mount, dir, part))
        return NULL;
    inode = inode_new(mount->cache, dir, INODE_ITEM, part, dir->volume);
    if (!inode)
        return NULL;
    meta_from_backend(&inode->meta, meta);
    inode_told_at(inode, mark.ms);
    struct body *bytes = body.data && !meta->unreadable ? body_new(body) : NULL;
    if (bytes)
        inode_set_body(mount->cache, inode, bytes);
    return inode;
}

/* Whether a name that was absent a moment ago still counts as absent. */
static bool absence_counts(const struct mount *mount, const struct inode *dir)
{
    return backend_can(dir->volume->backend, BACKEND_LOG) ||
           mount->config->cache_ttl * 1000 >= ABSENT_MS;
}

/* A lookup under the lock: found, known to be absent, or to be fetched. */
enum found { FOUND, FOUND_NOTHING, FETCH };

static enum found find_item_locked(struct mount *mount, struct inode *dir, struct span part,
                                   struct inode **ret_inode, struct scan_mark *ret_mark)
{
    struct inode *inode = inode_find(mount->cache, dir, CLASS_ITEM, part);
    if (inode && inode_expired(inode) && !(inode->edit && inode->edit->dirty)) {
        inode_ref(inode);
        inode_detach(mount->cache, inode, INODE_OUTDATED);
        inode_unref(mount->cache, inode);
        inode = NULL;
    }
    if (inode && is_current(mount, inode)) {
        *ret_inode = inode_ref(inode);
        return FOUND;
    }
    *ret_mark = mark_now_locked(mount);
    if (inode)
        return FETCH;
    bool absent =
        grace_find_locked(mount, dir, part) ||
        (absence_counts(mount, dir) && cache_is_absent(mount->cache, dir, CLASS_ITEM, part));
    return absent ? FOUND_NOTHING : FETCH;
}

/* An item that changes each time while it is read: as it was while it was asked for, under no name.
 * The caller gets a reference. */
static int passing_item_locked(struct mount *mount, struct inode *dir, struct span part,
                               const struct item_meta *meta, struct span body,
                               struct inode **ret_inode, struct err *err)
{
    if (grace_find_locked(mount, dir, part))
        return absent(err);
    struct inode *inode = adopt_item_locked(mount, dir, part, meta, body, mark_now_locked(mount));
    if (!inode)
        return -ENOMEM;
    *ret_inode = inode_ref(inode);
    inode_detach(mount->cache, inode, INODE_OUTDATED);
    return 0;
}

int resolve_item(struct mount *mount, struct inode *dir, struct span part, struct inode **ret_inode,
                 struct err *err)
{
    pthread_mutex_t *lock = &mount->cache->lock;
    cleanup(buf_release) struct buf body;
    cleanup(buf_release) struct buf rendered;
    buf_init(&body, SIZE_MAX / 2);
    buf_init(&rendered, SIZE_MAX / 2);
    for (int tries = 0; tries < RESOLVE_TRIES; tries++) {
        struct scan_mark mark = {0};
        pthread_mutex_lock(lock);
        enum found found = find_item_locked(mount, dir, part, ret_inode, &mark);
        pthread_mutex_unlock(lock);
        if (found != FETCH)
            return found == FOUND ? 0 : absent(err);
        struct item_meta meta;
        const struct table *table = volume_table(dir->volume);
        struct key key = dir_key(dir, part);
        struct span shown = span_of("", 0);
        buf_clear(&body);
        int code = backend_get(dir->volume->backend, table, key, &meta, &body, err);
        if (code == 0)
            code = content_show(table, key, &meta, buf_span(&body), &rendered, &shown, err);
        if (code < 0 && code != -ENOENT)
            return code;
        scoped_lock(lock);
        if (code == -ENOENT) {
            if (cache_has_moved(mount->cache, dir, part, mark.stamp))
                continue;
            if (inode_find(mount->cache, dir, CLASS_ITEM, part))
                supersede_locked(mount, dir, part);
            cache_note_absent(mount->cache, dir, CLASS_ITEM, part, mark.stamp);
            return absent(err);
        }
        struct inode *inode = adopt_item_locked(mount, dir, part, &meta, shown, mark);
        if (inode) {
            *ret_inode = inode_ref(inode);
            return 0;
        }
        if (tries + 1 == RESOLVE_TRIES)
            return passing_item_locked(mount, dir, part, &meta, shown, ret_inode, err);
    }
    return absent(err); /* each time that it was asked for */
}

/* --- Hashed names: the part begins with PREFIX and has NAME --- */

struct search {
    struct span prefix, name;
    const struct table *table;
    bool in_partition; /* parts are of the sort key */
    bool ordered;      /* parts come in order: one behind the prefix ends the search */
    const char *suffix;
    struct buf *part;
    struct buf candidate;
    bool found;
};

static int search_each(struct search *search, struct span part)
{
    if (part.len < search->prefix.len ||
        memcmp(part.data, search->prefix.data, search->prefix.len) != 0)
        return search->ordered && span_compare(part, search->prefix) > 0;
    buf_clear(&search->candidate);
    key_part_to_name(search->table, search->in_partition, part, search->suffix, &search->candidate);
    if (!span_equal(buf_span(&search->candidate), search->name))
        return 0;
    buf_clear(search->part);
    buf_add_span(search->part, part);
    search->found = true;
    return 1;
}

static int search_item(void *context, const struct record *record)
{
    struct search *search = context;
    return search_each(search, search->in_partition ? record->key.sort : record->key.partition);
}

static int search_partition(void *context, const struct partition_info *info)
{
    return search_each(context, info->partition);
}

/*
 * Keys are walked in order from the prefix on. A walk starts behind a key, so it starts behind the
 * prefix without its last byte: that leaves out nothing that begins with the prefix.
 */
static int search_hashed(struct mount *mount, struct inode *dir, struct span name,
                         struct place *place, struct err *err)
{
    (void)mount;
    const struct table *table = volume_table(dir->volume);
    struct backend *backend = dir->volume->backend;
    struct search search = {.name = name, .table = table, .part = &place->part};
    cleanup(buf_release) struct buf prefix;
    buf_init(&prefix, KEY_PART_MAX);
    buf_add_span(&prefix, buf_span(&place->part));
    search.prefix = buf_span(&prefix);
    search.ordered = backend_can(backend, BACKEND_ORDERED) && !table->unordered;
    struct span start = span_of(prefix.data, search.ordered && prefix.len ? prefix.len - 1 : 0);
    buf_init(&search.candidate, KEY_PART_MAX);
    int code;
    if (place->kind == PLACE_PARTITION) {
        search.suffix = "";
        code = backend_partitions(backend, table, start, 0, search_partition, &search, err);
    } else {
        search.in_partition = dir->kind == INODE_PARTITION;
        search.suffix = KEY_ITEM_SUFFIX;
        struct walk walk = {.after = dir_key(dir, start), .in_partition = search.in_partition};
        code = backend_walk(backend, table, &walk, search_item, &search, err);
    }
    buf_release(&search.candidate);
    if (code < 0)
        return code;
    return search.found ? 0 : absent(err);
}

/* --- Tables, partitions, scratch --- */

struct inode *adopt_table_locked(struct mount *mount, struct volume *volume)
{
    const struct table *table = volume_table(volume);
    struct inode *root = mount->cache->root;
    struct inode *inode = inode_find(mount->cache, root, CLASS_TABLE, span_text(table->name));
    if (!inode) {
        inode = inode_new(mount->cache, root, INODE_TABLE, span_text(table->name), volume);
        if (inode)
            inode->meta.mtime_ns = inode->meta.ctime_ns = table->changed_ns;
    }
    return inode;
}

static int resolve_known_table(struct mount *mount, struct span name, struct inode **ret_inode,
                               struct err *err)
{
    scoped_lock(&mount->cache->lock);
    struct volume *volume = volume_find_locked(mount, name);
    if (!volume)
        return absent(err);
    struct inode *inode = adopt_table_locked(mount, volume);
    if (!inode)
        return -ENOMEM;
    *ret_inode = inode_ref(inode);
    return 0;
}

/* A table that is not known may have been made a moment ago, and what is known be out of date. */
static int resolve_table(struct mount *mount, struct span name, struct inode **ret_inode,
                         struct err *err)
{
    bool current = volumes_current(mount, name);
    int code = current ? resolve_known_table(mount, name, ret_inode, NULL) : -ENOENT;
    if (code == -ENOENT)
        code = volume_load(mount, name, err);
    else
        return code;
    return code < 0 ? code : resolve_known_table(mount, name, ret_inode, err);
}

struct inode *adopt_partition_locked(struct mount *mount, struct inode *dir, struct span part,
                                     int64_t changed_ns)
{
    struct inode *inode = inode_find(mount->cache, dir, CLASS_PARTITION, part);
    if (!inode) {
        inode = inode_new(mount->cache, dir, INODE_PARTITION, part, dir->volume);
        if (inode)
            inode->meta.mtime_ns = inode->meta.ctime_ns = changed_ns;
    }
    return inode;
}

void partition_lingers_locked(struct inode *dir)
{
    if (dir->kind != INODE_PARTITION || dir->state != INODE_ATTACHED)
        return;
    dir->linger = true;
    inode_list_locally(dir);
}

/*
 * In a partition that is written to all the time something always moves meanwhile. One that was
 * there is shown all the same, and asked for again before anything counts on it (attr.c).
 */
static int resolve_partition(struct mount *mount, struct inode *dir, struct span part,
                             struct inode **ret_inode, struct err *err)
{
    pthread_mutex_t *lock = &mount->cache->lock;
    for (int tries = 0; tries < RESOLVE_TRIES; tries++) {
        pthread_mutex_lock(lock);
        struct inode *inode = inode_find(mount->cache, dir, CLASS_PARTITION, part);
        if (inode)
            *ret_inode = inode_ref(inode);
        struct scan_mark mark = mark_now_locked(mount);
        pthread_mutex_unlock(lock);
        if (inode)
            return 0;
        uint64_t items;
        int64_t changed_ns;
        int code = backend_partition(dir->volume->backend, volume_table(dir->volume), part, &items,
                                     &changed_ns, err);
        if (code < 0 && code != -ENOENT)
            return code;
        scoped_lock(lock);
        bool moved = cache_has_moved(mount->cache, dir, part, mark.stamp);
        if (code == -ENOENT && moved)
            continue;
        if (code == -ENOENT)
            return absent(err);
        inode = adopt_partition_locked(mount, dir, part, changed_ns);
        if (!inode)
            return -ENOMEM;
        if (!moved)
            partition_told_locked(mount, inode, mark.ms);
        *ret_inode = inode_ref(inode);
        return 0;
    }
    return absent(err); /* each time that it was asked for */
}

static enum inode_kind scratch_inode_kind(enum scratch_kind kind)
{
    static const enum inode_kind kinds[] = {[SCRATCH_FILE] = INODE_FILE,
                                            [SCRATCH_LINK] = INODE_LINK,
                                            [SCRATCH_DIRECTORY] = INODE_DIRECTORY};
    return kinds[kind];
}

struct inode *adopt_scratch_locked(struct mount *mount, struct inode *dir,
                                   const struct scratch *scratch, uint64_t stamp)
{
    struct inode *inode = inode_find(mount->cache, dir, CLASS_SCRATCH, scratch->name);
    if (inode)
        return inode;
    if (cache_has_moved(mount->cache, dir, scratch->name, stamp))
        return NULL;
    struct scratch_state *state = calloc(1, sizeof *state);
    if (state)
        inode = inode_new(mount->cache, dir, scratch_inode_kind(scratch->kind), scratch->name,
                          dir->volume);
    if (!inode) {
        free(state);
        return NULL;
    }
    *state = (struct scratch_state){scratch->id, scratch->version, scratch->mode, scratch->uid,
                                    scratch->gid};
    inode->scratch = state;
    inode->meta = (struct inode_meta){.version = 1,
                                      .size = scratch->size,
                                      .mtime_ns = scratch->mtime_ns,
                                      .ctime_ns = scratch->ctime_ns,
                                      .ttl = scratch->ttl};
    return inode;
}

struct adoption {
    struct mount *mount;
    struct inode *dir;
    uint64_t stamp;
    struct inode *inode;
};

static int adopt_found(void *context, const struct scratch *scratch)
{
    struct adoption *adoption = context;
    scoped_lock(&adoption->mount->cache->lock);
    adoption->inode =
        adopt_scratch_locked(adoption->mount, adoption->dir, scratch, adoption->stamp);
    if (adoption->inode)
        inode_ref(adoption->inode);
    return 0;
}

int resolve_scratch(struct mount *mount, struct inode *dir, struct span name,
                    struct inode **ret_inode, struct err *err)
{
    pthread_mutex_t *lock = &mount->cache->lock;
    for (int tries = 0; tries < RESOLVE_TRIES; tries++) {
        pthread_mutex_lock(lock);
        struct inode *inode = inode_find(mount->cache, dir, CLASS_SCRATCH, name);
        if (inode)
            *ret_inode = inode_ref(inode);
        struct adoption adoption = {mount, dir, cache_stamp(mount->cache), NULL};
        bool known = !inode && cache_is_absent(mount->cache, dir, CLASS_SCRATCH, name);
        pthread_mutex_unlock(lock);
        if (inode || known)
            return inode ? 0 : absent(err);
        struct scratch place;
        scratch_place(dir, &place);
        int code =
            backend_scratch_find(dir->volume->backend, volume_table(dir->volume), place.partition,
                                 place.parent, name, adopt_found, &adoption, err);
        if (code == 0 && adoption.inode) {
            *ret_inode = adoption.inode;
            return 0;
        }
        if (code < 0 && code != -ENOENT)
            return code;
        scoped_lock(lock);
        if (code == -ENOENT && !cache_has_moved(mount->cache, dir, name, adoption.stamp)) {
            cache_note_absent(mount->cache, dir, CLASS_SCRATCH, name, adoption.stamp);
            return absent(err);
        }
    }
    return err_set(err, EAGAIN, "the file changes faster than it can be read");
}

static int resolve_control(struct mount *mount, struct inode *dir, struct span name,
                           struct inode **ret_inode, struct err *err)
{
    cleanup(buf_release) struct buf path;
    buf_init(&path, 1 << 20);
    if (dir->kind == INODE_CONTROL) { /* a control inode's name is its path under .itemfs */
        buf_add_span(&path, inode_name(dir));
        if (path.len)
            buf_add_char(&path, '/');
        buf_add_span(&path, name);
    }
    enum control_kind kind;
    int code = control_stat(mount, buf_span(&path), &kind, err);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    struct inode *root = mount->cache->root;
    struct inode *inode = changes_current_locked(
        mount, inode_find(mount->cache, root, CLASS_CONTROL, buf_span(&path)));
    if (!inode)
        inode = inode_new(mount->cache, root, INODE_CONTROL, buf_span(&path), NULL);
    if (!inode)
        return -ENOMEM;
    inode->linger = false;
    inode->meta.change = (uint8_t)kind;
    *ret_inode = inode_ref(inode);
    return 0;
}

int place_find(struct mount *mount, struct inode *dir, struct span name, struct place *ret_place,
               struct err *err)
{
    int code = place_parse(dir, name, ret_place, err);
    if (code < 0 || !ret_place->hashed)
        return code;
    code = search_hashed(mount, dir, name, ret_place, err);
    ret_place->hashed = code != 0;
    return code == -ENOENT ? 0 : code;
}

int resolve(struct mount *mount, struct inode *dir, struct span name, struct inode **ret_inode,
            bool *ret_alias, struct err *err)
{
    struct place place;
    int code = place_find(mount, dir, name, &place, NULL);
    cleanup(buf_release) struct buf part = place.part;
    if (ret_alias)
        *ret_alias = place.alias;
    if (code == -EINVAL || place.hashed) /* a name that nothing has */
        return absent(err);
    if (code < 0)
        return code;
    switch (place.kind) {
    case PLACE_TABLE: return resolve_table(mount, name, ret_inode, err);
    case PLACE_ITEM:
        if (place.alias)
            grace_respelled(mount, dir, buf_span(&part));
        return resolve_item(mount, dir, buf_span(&part), ret_inode, err);
    case PLACE_CONTROL: return resolve_control(mount, dir, name, ret_inode, err);
    case PLACE_PARTITION:
        code = resolve_partition(mount, dir, buf_span(&part), ret_inode, err);
        if (code != -ENOENT)
            return code;
        break;
    case PLACE_SCRATCH: break;
    }
    return resolve_scratch(mount, dir, name, ret_inode, err);
}
