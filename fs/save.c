/* SPDX-License-Identifier: MIT */
/*
 * Saving: from bytes that somebody wrote to one commit in the backend, or a refusal that loses
 * nothing.
 *
 * While a commit is under way the edit is marked `saving`, its bytes stand still, and writers wait.
 * The commit is conditional on `base`, the version that this mount showed when the edit began, so
 * that it never overwrites what its writer could not have seen. A refused save leaves its bytes
 * where they are, for a writer that goes on (shells duplicate descriptors, and each close of one is
 * a flush), and in a draft; the inode loses its name, so that the path shows what the backend has.
 */
#include "fs/mount.h"

#include <errno.h>

/* --- Loading --- */

/* Content of VERSION out of the change log, where the backend has a newer one already. */
struct log_search {
    uint64_t version;
    struct buf *body;
    int64_t ttl;
    bool found;
};

static int log_version(void *context, const struct log_entry *entry)
{
    struct log_search *search = context;
    if (entry->sequence == search->version && entry->new_body.data) {
        buf_add_span(search->body, entry->new_body);
        search->ttl = entry->new_ttl;
        search->found = true;
    }
    return 1;
}

static int read_item(struct mount *mount, struct inode *inode, struct key key, uint64_t version,
                     struct buf *raw, struct item_meta *meta, struct err *err)
{
    struct backend *backend = inode->volume->backend;
    int code = backend_get(backend, volume_table(inode->volume), key, meta, raw, err);
    if (code == 0 && meta->version == version && meta->unreadable)
        return err_set(err, EIO, "%.*s", (int)raw->len, raw->data);
    if (code == 0 && meta->version == version)
        return 0;
    if (code < 0 && code != -ENOENT)
        return code;
    pthread_mutex_lock(&mount->cache->lock);
    if (inode->meta.version == version && inode->state == INODE_ATTACHED)
        supersede_locked(mount, inode->parent, inode_name(inode));
    pthread_mutex_unlock(&mount->cache->lock);
    struct log_search search = {.version = version, .body = raw};
    buf_clear(raw);
    if (version > 0 && backend_can(backend, BACKEND_LOG))
        (void)backend_log(backend, version - 1, 1, log_version, &search, NULL);
    meta->ttl = search.ttl;
    if (search.found)
        return buf_error(raw);
    return err_set(err, ESTALE, "table %s: the item was changed elsewhere while it was open",
                   volume_table(inode->volume)->name);
}

static int read_content(struct mount *mount, struct inode *inode, uint64_t version, uint64_t id,
                        struct key key, struct body **ret_body, struct err *err)
{
    cleanup(buf_release) struct buf raw;
    cleanup(buf_release) struct buf rendered;
    buf_init(&raw, SIZE_MAX / 2);
    buf_init(&rendered, SIZE_MAX / 2);
    struct span shown = span_of("", 0);
    int code = 0;
    if (inode->kind == INODE_ITEM) {
        struct item_meta meta = {0};
        code = read_item(mount, inode, key, version, &raw, &meta, err);
        if (code == 0)
            code = content_show(volume_table(inode->volume), key, &meta, buf_span(&raw), &rendered,
                                &shown, err);
    } else if (id != 0) {
        code = backend_scratch_read(inode->volume->backend, id, &raw, err);
        shown = buf_span(&raw);
    }
    if (code < 0)
        return code;
    *ret_body = body_new(shown);
    return *ret_body ? 0 : -ENOMEM;
}

int inode_load(struct mount *mount, struct inode *inode, struct body **ret_body, struct err *err)
{
    struct cache *cache = mount->cache;
    for (;;) {
        struct key_copy copy;
        pthread_mutex_lock(&cache->lock);
        struct body *body = inode_use_body(cache, inode);
        if (body)
            *ret_body = body_ref(body);
        uint64_t version = inode->meta.version;
        uint64_t id = inode->scratch ? inode->scratch->id : 0;
        int code = body ? 0 : key_copy_locked(inode, &copy);
        pthread_mutex_unlock(&cache->lock);
        if (body || code < 0)
            return code;
        code = read_content(mount, inode, version, id, copy.key, &body, err);
        key_copy_release(&copy);
        if (code < 0)
            return code;
        scoped_lock(&cache->lock);
        if (inode->meta.version != version) { /* saved meanwhile, by this mount */
            body_unref(body);
            continue;
        }
        if (!inode->body)
            inode_set_body(cache, inode, body_ref(body));
        *ret_body = body;
        return 0;
    }
}

void inode_keep(struct mount *mount, struct inode *inode)
{
    if (!inode || (inode->kind != INODE_ITEM && inode->kind != INODE_FILE))
        return;
    pthread_mutex_lock(&mount->cache->lock);
    bool held = inode->refs > 1 && !(inode->edit && inode->edit->loaded);
    pthread_mutex_unlock(&mount->cache->lock);
    struct body *body;
    if (held && inode_load(mount, inode, &body, NULL) == 0)
        body_unref(body);
}

static size_t edit_max(const struct mount *mount, const struct inode *inode)
{
    return inode->kind == INODE_ITEM ? mount->config->max_item_size : SCRATCH_SIZE_MAX;
}

/* Waits until no commit of INODE is under way. */
static void wait_saved_locked(struct mount *mount, struct inode *inode)
{
    while (inode->frozen || (inode->edit && inode->edit->saving))
        pthread_cond_wait(&mount->cache->changed, &mount->cache->lock);
}

int edit_empty(struct mount *mount, struct inode *inode, struct edit **ret_edit, struct err *err)
{
    (void)err;
    pthread_mutex_lock(&mount->cache->lock);
    wait_saved_locked(mount, inode);
    struct edit *edit = inode_edit(inode, edit_max(mount, inode));
    if (!edit) {
        pthread_mutex_unlock(&mount->cache->lock);
        return -ENOMEM;
    }
    buf_clear(&edit->bytes);
    edit->loaded = true;
    *ret_edit = edit;
    return 0;
}

int edit_load(struct mount *mount, struct inode *inode, struct edit **ret_edit, struct err *err)
{
    struct body *body = NULL;
    for (;;) {
        pthread_mutex_lock(&mount->cache->lock);
        wait_saved_locked(mount, inode);
        struct edit *edit = inode_edit(inode, edit_max(mount, inode));
        if (edit && !edit->loaded && (edit->fresh || edit->restart || body)) {
            if (body && !edit->restart)
                buf_add_span(&edit->bytes, body_span(body));
            edit->loaded = true;
        }
        if (edit && edit->loaded) {
            body_unref(body);
            *ret_edit = edit;
            return 0;
        }
        pthread_mutex_unlock(&mount->cache->lock);
        if (!edit)
            return -ENOMEM;
        int code = inode_load(mount, inode, &body, err);
        if (code < 0)
            return code;
    }
}

/* --- Committing --- */

void supersede_locked(struct mount *mount, struct inode *dir, struct span part)
{
    struct inode *other = inode_find(mount->cache, dir, CLASS_ITEM, part);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    key_part_to_name(volume_table(dir->volume), dir->kind == INODE_PARTITION, part, KEY_ITEM_SUFFIX,
                     &name);
    if (other) {
        inode_ref(other);
        inode_detach(mount->cache, other, INODE_OUTDATED);
        inode_unref(mount->cache, other);
    }
    cache_moved(mount->cache, dir, part);
    notify_name(mount, dir, buf_span(&name));
}

void outdate_locked(struct mount *mount, struct inode *item)
{
    supersede_locked(mount, item->parent, inode_name(item));
    item->superseded = true;
}

/* The edit's bytes are now what the backend has. */
static void committed_locked(struct mount *mount, struct inode *inode)
{
    struct edit *edit = inode->edit;
    struct body *body = body_new(buf_span(&edit->bytes));
    edit->dirty = edit->written = edit->emptied = edit->fresh = edit->timed = false;
    edit->ttl_set = edit->paged = false;
    edit->base = inode->meta.version;
    inode->meta.size = edit->bytes.len;
    inode_unlist(inode);
    if (inode->parent->shown_early) {
        inode->parent->shown_early = false;
        notify_times(mount, inode->parent);
    }
    if (body)
        inode_set_body(mount->cache, inode, body);
    else
        inode_drop_body(mount->cache, inode);
}

static void saving_ended_locked(struct mount *mount, struct inode *inode)
{
    inode->edit->round++;
    inode->edit->saving = false;
    pthread_cond_broadcast(&mount->cache->changed);
}

void inode_freeze_locked(struct mount *mount, struct inode *inode)
{
    wait_saved_locked(mount, inode);
    inode->frozen = true;
}

void inode_thaw_locked(struct mount *mount, struct inode *inode)
{
    inode->frozen = false;
    pthread_cond_broadcast(&mount->cache->changed);
}

static int commit_scratch(struct mount *mount, struct inode *inode, unsigned flags, struct err *err)
{
    struct edit *edit = inode->edit;
    struct action action;
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    pthread_mutex_lock(&mount->cache->lock);
    scratch_action_locked(inode, &action);
    buf_add_span(&name, inode_name(inode));
    bool outdated = inode->state == INODE_OUTDATED;
    pid_t author = edit->author;
    pthread_mutex_unlock(&mount->cache->lock);
    action.scratch.name = buf_span(&name);
    action.body = edit->bytes.len ? buf_span(&edit->bytes) : span_of("", 0);
    action.scratch.mtime_ns = edit->mtime_ns;
    int code = edit->code;
    if (code == 0 && outdated) /* its place, and perhaps its id, belong to another file now */
        code = err_set(err, ESTALE, "the file was changed elsewhere since it was opened here");
    if (code == 0)
        code = backend_write(inode->volume->backend, &action, 1, flags & SAVE_DURABLE, err);
    if (code < 0) { /* while the edit stands still */
        report_failure(mount, inode->parent, buf_span(&name), "save", code, err);
        draft_keep(mount, inode->parent, buf_span(&name), buf_span(&edit->bytes), code, err,
                   author);
    }
    scoped_lock(&mount->cache->lock);
    saving_ended_locked(mount, inode);
    if (code < 0) { /* the path shows what the backend has, if it has anything */
        edit->dirty = edit->written = edit->emptied = edit->fresh = false;
        edit->refused = code;
        scratch_outdated_locked(mount, inode);
        return code;
    }
    inode->meta.version = inode->meta.version + 1;
    scratch_written_locked(inode, &action);
    committed_locked(mount, inode);
    return 0;
}

/* What goes to the backend, from the edit, whose bytes stand still. */
static int commit_item_write(struct mount *mount, struct inode *inode, struct key key,
                             unsigned flags, struct buf *out, struct action *action,
                             bool *ret_rekeyed, struct err *err)
{
    const struct table *table = volume_table(inode->volume);
    struct edit *edit = inode->edit;
    struct span file = edit->bytes.len ? buf_span(&edit->bytes) : span_of("", 0);
    if (edit->code < 0)
        return err_set(err, EFBIG, "table %s: the item is larger than max_item_size (%llu bytes)",
                       table->name, (unsigned long long)mount->config->max_item_size);
    if (file.len == 0 && edit->base != 0) /* also one that was renamed to a backup a moment ago */
        return err_set(err, EINVAL, "table %s: an item cannot be emptied; it stays as it was",
                       table->name);
    int64_t ttl;
    int code = content_store(table, key, file, inode->meta.ttl, edit->ttl_set ? TTL_SET : TTL_TEXT,
                             out, &ttl, ret_rekeyed, err);
    if (code < 0)
        return code;
    *action = (struct action){
        .kind = ACTION_PUT,
        .table = table,
        .key = key,
        .condition = edit->base ? (struct condition){COND_VERSION, edit->base}
                                : (struct condition){COND_ABSENT, 0},
        .body = code == 1 ? (out->len ? buf_span(out) : span_of("", 0)) : file,
        .mtime_ns = edit->mtime_ns,
        .ttl = ttl,
    };
    code = backend_write(inode->volume->backend, action, 1, flags & SAVE_DURABLE, err);
    if (code == -EEXIST || code == -ESTALE) {
        atomic_fetch_add(&mount->conflicts, 1);
        err_clear(err);
        return err_set(err, ESTALE,
                       "table %s: the item was changed elsewhere since it was read here",
                       table->name);
    }
    return code;
}

/* Shows what the backend has, keeps what was written. The lock is not held. */
static int refuse(struct mount *mount, struct inode *inode, int code, struct err *err)
{
    struct edit *edit = inode->edit;
    atomic_fetch_add(&mount->refusals, 1);
    bool emptied = edit->bytes.len == 0;
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    pthread_mutex_lock(&mount->cache->lock);
    inode_file_name(inode, &name);
    pid_t author = edit->author;
    pthread_mutex_unlock(&mount->cache->lock);
    report_failure(mount, inode->parent, buf_span(&name), "save", code, err);
    if (!emptied)
        draft_keep(mount, inode->parent, buf_span(&name), buf_span(&edit->bytes), code, err,
                   author);
    if (inode->kind == INODE_ITEM)
        grace_call_off(mount, inode->parent, inode_name(inode));
    scoped_lock(&mount->cache->lock);
    edit->dirty = edit->written = edit->emptied = false;
    edit->refused = code;
    if (emptied && !edit->fresh) {
        edit->loaded = false; /* as if it had not happened */
        edit->restart = true;
    } else if (inode->state == INODE_ATTACHED) {
        inode_detach(mount->cache, inode, INODE_OUTDATED);
        notify_name(mount, inode->parent, buf_span(&name));
        notify_directory(mount, inode->parent);
    }
    edit->fresh = false;
    saving_ended_locked(mount, inode);
    return code;
}

/* As if the save had not been tried. */
static int give_up(struct mount *mount, struct inode *inode, int code)
{
    scoped_lock(&mount->cache->lock);
    inode->edit->saving = false;
    pthread_cond_broadcast(&mount->cache->changed);
    return code;
}

static int commit_item(struct mount *mount, struct inode *inode, unsigned flags,
                       bool *ret_rewritten, struct err *err)
{
    struct edit *edit = inode->edit;
    struct key_copy copy;
    struct action action = {0};
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf rendered;
    cleanup(buf_release) struct buf stored;
    cleanup(buf_release) struct buf name;
    bool rekeyed = false;
    buf_init(&out, SIZE_MAX / 2);
    buf_init(&stored, SIZE_MAX / 2);
    buf_init(&rendered, SIZE_MAX / 2);
    buf_init(&name, SIZE_MAX / 2);
    pthread_mutex_lock(&mount->cache->lock);
    int code = key_copy_locked(inode, &copy);
    pid_t author = edit->author;
    inode_file_name(inode, &name);
    pthread_mutex_unlock(&mount->cache->lock);
    if (code == 0)
        code = commit_item_write(mount, inode, copy.key, flags, &out, &action, &rekeyed, err);
    struct span shown = span_of(NULL, 0);
    if (code == 0)
        code = content_stored(&action, inode->volume->backend, &stored, err);
    if (code == 0)
        code =
            content_show(action.table, copy.key, &action.meta, action.body, &rendered, &shown, err);
    if (code == 0 && rekeyed)
        draft_keep_rekeyed(mount, inode->parent, buf_span(&name), copy.key, buf_span(&edit->bytes));
    key_copy_release(&copy);
    if (code < 0 && (flags & SAVE_TRY))
        return give_up(mount, inode, code);
    if (code < 0)
        return refuse(mount, inode, code, err);
    atomic_fetch_add_explicit(&mount->saves, 1, memory_order_relaxed);
    if (action.change != CHANGE_NONE) /* an editor that puts the old text back settles nothing */
        draft_settle(mount, inode, author);
    if (edit->fresh && edit->base)
        grace_cancel(mount, inode->parent, inode_name(inode));
    scoped_lock(&mount->cache->lock);
    bool elsewhere = !span_equal(shown, buf_span(&edit->bytes)) || edit->restart ||
                     inode->state == INODE_OUTDATED;
    edit->restart = false;
    save_applied_locked(mount, inode, &action.meta);
    committed_locked(mount, inode);
    if (elsewhere) /* what is open here stays as it was written, and paths lead to another inode */
        outdate_locked(mount, inode);
    saving_ended_locked(mount, inode);
    if (ret_rewritten)
        *ret_rewritten = elsewhere;
    return 0;
}

/* Whether there is something to commit, in ROUND if that is not 0; marks the edit as saving if so.
 */
static bool begin_locked(struct mount *mount, struct inode *inode, unsigned round, unsigned flags)
{
    wait_saved_locked(mount, inode);
    struct edit *edit = inode->edit;
    if (!edit || (round && edit->round != round) || ((flags & SAVE_LAST) && edit->writers > 0))
        return false;
    bool fresh = edit->fresh && (flags & SAVE_FRESH);
    if (!edit->dirty && !fresh)
        return false;
    if (inode->state == INODE_REMOVED) { /* as a write to any deleted file */
        edit->dirty = edit->written = edit->fresh = false;
        return false;
    }
    edit->saving = true;
    return true;
}

int save_round(struct mount *mount, struct inode *inode, unsigned round, unsigned flags,
               bool *ret_rewritten, struct err *err)
{
    if (ret_rewritten)
        *ret_rewritten = false;
    if (inode->kind != INODE_ITEM && inode->kind != INODE_FILE)
        return 0;
    pthread_mutex_lock(&mount->cache->lock);
    bool wanted = begin_locked(mount, inode, round, flags);
    pthread_mutex_unlock(&mount->cache->lock);
    if (!wanted)
        return 0;
    if (inode->kind == INODE_FILE)
        return commit_scratch(mount, inode, flags, err);
    return commit_item(mount, inode, flags, ret_rewritten, err);
}

int save(struct mount *mount, struct inode *inode, unsigned flags, bool *ret_rewritten,
         struct err *err)
{
    return save_round(mount, inode, 0, flags, ret_rewritten, err);
}

/* One inode with something unsaved, with a reference. */
static struct inode *next_dirty_locked(struct mount *mount)
{
    for (size_t i = 0; i < mount->cache->buckets; i++)
        for (struct inode *inode = mount->cache->by_node[i]; inode; inode = inode->next_by_node)
            if (inode->edit && (inode->edit->dirty || inode->edit->fresh))
                return inode_ref(inode);
    return NULL;
}

void save_all(struct mount *mount)
{
    for (;;) {
        pthread_mutex_lock(&mount->cache->lock);
        struct inode *inode = next_dirty_locked(mount);
        pthread_mutex_unlock(&mount->cache->lock);
        if (!inode)
            return;
        struct err err = {0};
        (void)save(mount, inode, SAVE_FRESH | SAVE_DURABLE, NULL, &err); /* reports by itself */
        scoped_lock(&mount->cache->lock);
        inode->edit->dirty = inode->edit->fresh = false;
        inode_unref(mount->cache, inode);
    }
}
