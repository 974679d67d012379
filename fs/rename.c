/* SPDX-License-Identifier: MIT */
/*
 * rename in all its forms. What moves keeps its inode, as everywhere: a temporary file that is
 * renamed onto an item becomes the item, and the item that was there lives on for those who hold it
 * open. Each form is one batch in the backend.
 *
 *   scratch -> item      a save: one MODIFY (or INSERT); TTL kept where the new text has none
 *   item -> item         delete and put; the body is rewritten where it shows its key
 *   item -> scratch      a copy; the item is deleted after a time of grace (backup.c, grace.c)
 *   scratch -> scratch   a new place
 *   table -> table       a new name
 */
#include "fs/rename.h"
#include "fs/operations.h"

#include <errno.h>
#include <linux/fs.h>

#include "base/log.h"

int current_content(struct mount *mount, struct inode *inode, struct body **ret_body,
                    int64_t *ret_mtime_ns, struct err *err)
{
    pthread_mutex_lock(&mount->cache->lock);
    const struct edit *edit = inode->edit;
    bool edited = edit && edit->loaded;
    bool pending = edited && (edit->dirty || edit->fresh);
    *ret_mtime_ns = pending ? edit->mtime_ns : inode->meta.mtime_ns;
    struct body *body = edited ? body_new(buf_span(&edit->bytes)) : NULL;
    pthread_mutex_unlock(&mount->cache->lock);
    if (!edited)
        return inode_load(mount, inode, ret_body, err);
    *ret_body = body;
    return body ? 0 : -ENOMEM;
}

/* The condition for what the new place holds, as far as this mount has shown it. */
static struct condition target_condition(struct mount *mount, const struct rename *rename,
                                         int64_t *ret_ttl)
{
    scoped_lock(&mount->cache->lock);
    const struct grace *grace = grace_find_locked(mount, rename->dir, rename->part);
    const struct inode *target = rename->target;
    if (target && !(target->edit && target->edit->fresh)) {
        *ret_ttl = target->meta.ttl;
        return (struct condition){COND_VERSION, target->meta.version};
    }
    *ret_ttl = grace ? grace->ttl : 0;
    return grace ? (struct condition){COND_VERSION, grace->version}
                 : (struct condition){COND_ABSENT, 0};
}

/* SOURCE has become the item; whatever stood there has not its name any more. */
static int become_item_locked(struct rename *rename, const struct action *put, struct span shown)
{
    struct mount *mount = rename->mount;
    struct inode *source = rename->source;
    if (rename->target) {
        inode_detach(mount->cache, rename->target, INODE_REMOVED);
        rename->target->replaced = true;
    }
    int code = inode_move(mount->cache, source, rename->dir, INODE_ITEM, rename->part,
                          rename->dir->volume);
    if (code < 0) { /* stored, but not known here under its new name: the next lookup finds it */
        inode_detach(mount->cache, source, INODE_OUTDATED);
        return 0;
    }
    free(source->scratch);
    source->scratch = NULL;
    spelling_note_locked(mount, source, rename->alias, rename->pid);
    save_applied_locked(mount, source, &put->meta);
    struct body *body = body_new(shown);
    inode_drop_body(mount->cache, source);
    if (body)
        inode_set_body(mount->cache, source, body);
    struct edit *edit = source->edit;
    if (edit) {
        edit->dirty = edit->written = edit->emptied = edit->fresh = edit->timed = false;
        edit->round++;
        edit->base = source->meta.version;
        edit->bytes.max = mount->config->max_item_size;
        buf_clear(&edit->bytes);
        buf_add_span(&edit->bytes, shown);
        edit->loaded = true;
    }
    return 0;
}

/* One batch: PUT under the new name, and FIRST (a deletion of the old place). */
static int put_item(struct rename *rename, struct action *old, bool old_first, struct span content,
                    int64_t mtime_ns, int64_t ttl, struct condition condition, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *dir = rename->dir;
    const struct table *table = volume_table(dir->volume);
    struct key key = dir_key(dir, rename->part);
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf rendered;
    cleanup(buf_release) struct buf stored;
    buf_init(&stored, SIZE_MAX / 2);
    buf_init(&out, SIZE_MAX / 2);
    buf_init(&rendered, SIZE_MAX / 2);
    int64_t kept_ttl;
    bool rekeyed;
    int code = content_store(table, key, content, ttl, TTL_KEPT, &out, &kept_ttl, &rekeyed, err);
    if (code < 0)
        return code;
    struct action put = {.kind = ACTION_PUT,
                         .table = table,
                         .key = key,
                         .condition = condition,
                         .body = code == 1 ? buf_span(&out) : content,
                         .mtime_ns = mtime_ns,
                         .ttl = kept_ttl};
    struct action actions[2] = {put, put};
    size_t at = old && old_first ? 1 : 0;
    if (old)
        actions[1 - at] = *old;
    code = backend_write(dir->volume->backend, actions, old ? 2 : 1, 0, err);
    if (code < 0)
        return code;
    struct span shown;
    code = content_stored(&actions[at], dir->volume->backend, &stored, err);
    if (code < 0)
        return code;
    code = content_show(table, key, &actions[at].meta, actions[at].body, &rendered, &shown, err);
    if (code < 0)
        return code;
    rename->rewritten = !span_equal(shown, content);
    if (rekeyed && rename->source->kind == INODE_FILE)
        draft_keep_rekeyed(mount, dir, rename->name, key, content);
    atomic_fetch_add_explicit(&mount->saves, 1, memory_order_relaxed);
    grace_cancel(mount, dir, rename->part);
    if (rename->target)
        draft_settle(mount, rename->target, rename->pid);
    scoped_lock(&mount->cache->lock);
    return become_item_locked(rename, &actions[at], shown);
}

static int refuse_rename(struct rename *rename, struct span content, int code, struct err *err)
{
    struct mount *mount = rename->mount;
    if (code == -ESTALE && !scratch_recheck(mount, rename->source))
        return code; /* the kernel looks again, and finds the file as it is */
    if (code == -ESTALE || code == -EEXIST) {
        atomic_fetch_add(&mount->conflicts, 1);
        err_clear(err);
        code = err_set(err, ESTALE,
                       "table %s: the item was changed elsewhere since it was read "
                       "here",
                       volume_table(rename->dir->volume)->name);
        scoped_lock(&mount->cache->lock);
        rename->source->conflicted = true;
        supersede_locked(mount, rename->dir, rename->part);
    }
    atomic_fetch_add(&mount->refusals, 1);
    if (content.len)
        draft_keep(mount, rename->dir, rename->name, content, code, err, rename->pid);
    grace_call_off(mount, rename->dir, rename->part);
    return code;
}

static int scratch_to_item(struct rename *rename, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *source = rename->source;
    if (source->kind != INODE_FILE)
        return err_set(err, EINVAL, "an item is a file");
    pthread_mutex_lock(&mount->cache->lock);
    bool again =
        source->conflicted; /* on ESTALE the kernel looks again by itself: nobody has seen */
    source->conflicted = false;
    pthread_mutex_unlock(&mount->cache->lock);
    if (again)
        return -ESTALE;
    struct body *body;
    int64_t mtime_ns, ttl;
    int code = current_content(mount, source, &body, &mtime_ns, err);
    if (code < 0)
        return code;
    struct condition condition = target_condition(mount, rename, &ttl);
    if (source->meta.ttl > 0) /* set by name on the temporary, as rsync -X does */
        ttl = source->meta.ttl;
    struct action old;
    pthread_mutex_lock(&mount->cache->lock);
    scratch_delete_action_locked(source, &old);
    pthread_mutex_unlock(&mount->cache->lock);
    struct span content = body_span(body);
    if (content.len == 0 && condition.kind == COND_VERSION)
        code = err_set(err, EINVAL, "table %s: an item cannot be emptied; it stays as it was",
                       volume_table(rename->dir->volume)->name);
    else if (content.len > mount->config->max_item_size)
        code = err_set(err, EFBIG, "table %s: the item is larger than max_item_size",
                       volume_table(rename->dir->volume)->name);
    else
        code = put_item(rename, old.scratch.id ? &old : NULL, false, content, mtime_ns, ttl,
                        condition, err);
    if (code < 0)
        code = refuse_rename(rename, content, code, err);
    body_unref(body);
    return code;
}

/* The text that goes to a table where the time to live is beside it: without the time to live that
 * the table of the source has in it. */
static int without_ttl(const struct rename *rename, int64_t ttl, struct buf *text,
                       struct span *content, struct err *err)
{
    const struct table *from = volume_table(rename->source->volume);

    if (!volume_table(rename->dir->volume)->ttl_beside || from->ttl_beside || ttl == 0 ||
        !from->ttl_attribute || item_ttl_beside(*content, ttl))
        return 0;
    int code = item_set_ttl(from, *content, 0, text, err);
    if (code == 0)
        *content = buf_span(text);
    return code;
}

static int item_to_item(struct rename *rename, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *source = rename->source;
    struct body *body;
    struct key_copy copy;
    int64_t mtime_ns, ttl;
    int code = current_content(mount, source, &body, &mtime_ns, err);
    if (code < 0)
        return code;
    struct condition condition = target_condition(mount, rename, &ttl);
    pthread_mutex_lock(&mount->cache->lock);
    bool fresh = source->edit && source->edit->fresh;
    uint64_t version = source->meta.version;
    ttl = source->meta.ttl;
    code = key_copy_locked(source, &copy);
    pthread_mutex_unlock(&mount->cache->lock);
    struct action old = {.kind = ACTION_DELETE,
                         .table = volume_table(source->volume),
                         .key = copy.key,
                         .condition = {COND_VERSION, version}};
    struct inode *old_dir = source->parent;
    cleanup(buf_release) struct buf text;
    buf_init(&text, SIZE_MAX / 2);
    struct span content = body_span(body);
    if (code == 0)
        code = without_ttl(rename, ttl, &text, &content, err);
    if (code == 0)
        code = put_item(rename, fresh ? NULL : &old, true, content, mtime_ns, ttl, condition, err);
    if (code == 0) {
        scoped_lock(&mount->cache->lock);
        partition_lingers_locked(old_dir);
    }
    if (code == -ESTALE || code == -EEXIST) {
        scoped_lock(&mount->cache->lock);
        supersede_locked(mount, rename->dir, rename->part);
        supersede_locked(mount, old_dir, inode_name(source));
        code = rename->flags & RENAME_NOREPLACE ? code : -ESTALE; /* the kernel looks once more */
    }
    if (code == -EINVAL && source->volume != rename->dir->volume)
        code = -EXDEV; /* of a rename it means "into itself"; a copy is refused for what it is */
    key_copy_release(&copy);
    body_unref(body);
    return code;
}

static bool same_holder(const struct inode *a, const struct inode *b)
{
    while (a->kind == INODE_DIRECTORY)
        a = a->parent;
    while (b->kind == INODE_DIRECTORY)
        b = b->parent;
    return a == b;
}

void move_action_locked(const struct inode *inode, const struct inode *dir, struct span name,
                        struct action *ret_action)
{
    scratch_action_locked(inode, ret_action);
    struct scratch place;
    scratch_place(dir, &place);
    ret_action->table = volume_table(dir->volume);
    ret_action->scratch.table_id = place.table_id;
    ret_action->scratch.partition = place.partition;
    ret_action->scratch.parent = place.parent;
    ret_action->scratch.name = name;
}

int rename_look_again(struct rename *rename, int code)
{
    struct mount *mount = rename->mount;
    scratch_recheck(mount, rename->source);
    if (rename->target)
        scratch_recheck(mount, rename->target);
    if (rename->target || code == -ESTALE)
        return -ESTALE;
    scoped_lock(&mount->cache->lock);
    cache_moved(mount->cache, rename->dir, rename->name);
    notify_name(mount, rename->dir, rename->name);
    return rename->flags & RENAME_NOREPLACE ? code : -ESTALE;
}

static int scratch_to_scratch(struct rename *rename, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *source = rename->source, *target = rename->target;
    if (source->kind == INODE_DIRECTORY && !same_holder(source->parent, rename->dir))
        return err_set(err, EXDEV, "a scratch directory stays in its table");
    if (target && (target->kind == INODE_DIRECTORY) != (source->kind == INODE_DIRECTORY))
        return target->kind == INODE_DIRECTORY ? -EISDIR : -ENOTDIR;
    struct action actions[2] = {0};
    size_t count = 0;
    pthread_mutex_lock(&mount->cache->lock);
    if (target && target->scratch->id)
        scratch_delete_action_locked(target, &actions[count++]);
    if (source->scratch->id)
        move_action_locked(source, rename->dir, rename->name, &actions[count++]);
    pthread_mutex_unlock(&mount->cache->lock);
    int code = count ? backend_write(rename->dir->volume->backend, actions, count, 0, err) : 0;
    if (code == -ESTALE || code == -EEXIST)
        return rename_look_again(rename, code);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    if (source->scratch->id)
        scratch_written_locked(source, &actions[count - 1]);
    if (target)
        inode_detach(mount->cache, target, INODE_REMOVED);
    bool pending = source->listed;
    code = inode_move(mount->cache, source, rename->dir, source->kind, rename->name,
                      rename->dir->volume);
    if (pending && code == 0)
        inode_list_locally(source);
    return code;
}

/* --- Tables --- */

static int rename_table(struct mount *mount, struct inode *source, struct inode *dir,
                        struct span name, struct err *err)
{
    if (dir->kind != INODE_ROOT || name.data[0] == '.')
        return err_set(err, EPERM, "a table stays at the root, under a name that is not hidden");
    int code = table_check_name(name, err);
    if (code < 0)
        return code;
    struct table *table = table_copy(volume_table(source->volume));
    char *copy = strndup(name.data, name.len);
    if (!table || !copy) {
        table_free(table);
        free(copy);
        return -ENOMEM;
    }
    free(table->name);
    table->name = copy;
    code = backend_alter_table(source->volume->backend, table, err);
    if (code == 0 && table->profile)
        log_warning("profile",
                    "table %s is %s now: mount.conf gives its profile to the old name, so that its "
                    "items are shown as they are stored",
                    volume_table(source->volume)->name, table->name);
    if (code == 0) {
        scoped_lock(&mount->cache->lock);
        code = inode_move(mount->cache, source, dir, INODE_TABLE, name, source->volume);
    }
    table_free(table);
    return code < 0 ? code : volume_load(mount, name, err);
}

/* --- Choosing the form --- */

static int rename_resolved(struct rename *rename, struct err *err)
{
    struct inode *source = rename->source, *target = rename->target;
    if (target == source)
        return 0; /* two spellings of one item */
    if (target && (rename->flags & RENAME_NOREPLACE))
        return -EEXIST;
    if (source->kind == INODE_PARTITION || source->kind == INODE_CONTROL)
        return err_set(err, EXDEV, "only its files can be moved");
    if (source->volume->backend != rename->dir->volume->backend)
        return err_set(err, EXDEV, "the tables are in different backends");
    if (target && target->kind == INODE_PARTITION)
        return -EISDIR;
    struct mount *mount = rename->mount;
    inode_keep(mount, target);
    if (rename->flags & RENAME_EXCHANGE)
        return rename_exchange(rename, err);
    if (source->kind == INODE_ITEM)
        return rename->item ? item_to_item(rename, err) : rename_to_backup(rename, err);
    return rename->item ? scratch_to_item(rename, err) : scratch_to_scratch(rename, err);
}

static int rename_file(struct mount *mount, struct inode *source, struct inode *dir,
                       struct span name, unsigned flags, bool source_alias, pid_t pid,
                       bool *ret_rewritten, struct err *err)
{
    struct place place;
    int code = place_find(mount, dir, name, &place, err);
    cleanup(buf_release) struct buf part = place.part;
    struct rename rename = {.mount = mount,
                            .source = source,
                            .dir = dir,
                            .name = name,
                            .flags = flags,
                            .item = place.kind == PLACE_ITEM,
                            .alias = place.alias,
                            .source_alias = source_alias,
                            .pid = pid,
                            .part = buf_span(&part)};
    if (code == 0)
        code = creatable(dir, &place, name, err);
    if (code == 0)
        code = resolve(mount, dir, name, &rename.target, NULL, err);
    if (code == -ENOENT) {
        rename.target = NULL;
        err_clear(err);
        code = 0;
    }
    if (code == 0 && source->kind == INODE_ITEM) /* what was written so far goes with it */
        code = save(mount, source, 0, NULL, err);
    if (code == 0 && rename.target && (flags & RENAME_EXCHANGE))
        code = save(mount, rename.target, SAVE_FRESH, NULL, err);
    if (code == 0) {
        bool other = rename.target && rename.target != source;
        pthread_mutex_lock(&mount->cache->lock);
        inode_freeze_locked(mount, source);
        if (other)
            inode_freeze_locked(mount, rename.target);
        pthread_mutex_unlock(&mount->cache->lock);
        code = rename_resolved(&rename, err);
        pthread_mutex_lock(&mount->cache->lock);
        inode_thaw_locked(mount, source);
        if (other)
            inode_thaw_locked(mount, rename.target);
        pthread_mutex_unlock(&mount->cache->lock);
    }
    if (code == 0 &&
        place.alias) { /* the kernel has moved its entry there: no entry outlives an item */
        scoped_lock(&mount->cache->lock);
        notify_name(mount, dir, name);
    }
    *ret_rewritten = rename.rewritten;
    if (rename.target) {
        scoped_lock(&mount->cache->lock);
        inode_unref(mount->cache, rename.target);
    }
    return code;
}

/* An item is about to be moved under another spelling: the kernel may hold the listed one. */
static void listed_name_moves(struct mount *mount, const struct inode *item)
{
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    scoped_lock(&mount->cache->lock);
    inode_file_name(item, &name);
    notify_name(mount, item->parent, buf_span(&name));
}

int fs_rename(struct mount *mount, struct inode *dir, struct span name, struct inode *new_dir,
              struct span new_name, unsigned flags, pid_t pid, struct inode **ret_rewritten,
              struct err *err)
{
    *ret_rewritten = NULL;
    if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
        return -EINVAL;
    struct inode *source;
    bool alias = false;
    int code = resolve(mount, dir, name, &source, &alias, err);
    if (code < 0)
        return code;
    if (alias)
        listed_name_moves(mount, source);
    bool rewritten = false;
    if (source->kind == INODE_TABLE) {
        struct inode *target = NULL;
        if (new_dir->kind == INODE_ROOT &&
            resolve(mount, new_dir, new_name, &target, NULL, NULL) == 0)
            code = target == source ? 0 : -EEXIST;
        else
            code = rename_table(mount, source, new_dir, new_name, err);
        if (target) {
            scoped_lock(&mount->cache->lock);
            inode_unref(mount->cache, target);
        }
    } else if (new_dir->kind == INODE_ROOT || new_dir->kind == INODE_CONTROL ||
               source->kind == INODE_CONTROL) {
        code = err_set(err, EXDEV, "only tables live at the root, and control files in %s",
                       CONTROL_NAME);
    } else {
        code = rename_file(mount, source, new_dir, new_name, flags, alias, pid, &rewritten, err);
    }
    scoped_lock(&mount->cache->lock);
    if (rewritten)
        *ret_rewritten = source; /* with the reference */
    else
        inode_unref(mount->cache, source);
    return code;
}
