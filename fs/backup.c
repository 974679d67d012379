/* SPDX-License-Identifier: MIT */
/* An item renamed to a scratch name: an editor's backup, or rsync's. The backup is a copy; whether
 * and when the item itself goes is decided here. */
#include "fs/rename.h"

#include <errno.h>

/* The backup as it goes to the backend. BODY stays with the caller. */
static int write_backup(struct rename *rename, const struct body *body, int64_t mtime_ns,
                        int64_t ttl, struct action *ret_action, struct err *err)
{
    const struct mount *mount = rename->mount;
    const struct inode *target = rename->target;
    struct action action = {.kind = ACTION_SCRATCH_PUT,
                            .table = volume_table(rename->dir->volume),
                            .body = body_span(body)};
    scratch_place(rename->dir, &action.scratch);
    action.scratch.id = target ? target->scratch->id : 0;
    if (action.scratch.id)
        action.condition = (struct condition){COND_VERSION, target->scratch->version};
    action.scratch.name = rename->name;
    action.scratch.kind = SCRATCH_FILE;
    action.scratch.mode = 0666 & ~mount->config->umask;
    action.scratch.uid = mount->uid;
    action.scratch.gid = mount->gid;
    action.scratch.mtime_ns = mtime_ns;
    action.scratch.ttl = ttl;
    int code = backend_write(rename->dir->volume->backend, &action, 1, 0, err);
    *ret_action = action;
    return code == -ESTALE || code == -EEXIST ? rename_look_again(rename, code) : code;
}

/* The item's inode becomes the backup's, as in any filesystem. */
static int become_backup(struct rename *rename, const struct action *action)
{
    struct mount *mount = rename->mount;
    struct inode *source = rename->source;
    struct scratch_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    scoped_lock(&mount->cache->lock);
    partition_lingers_locked(source->parent);
    if (rename->target)
        inode_detach(mount->cache, rename->target, INODE_REMOVED);
    *state = (struct scratch_state){action->made_id, action->meta.version, action->scratch.mode,
                                    action->scratch.uid, action->scratch.gid};
    source->scratch = state;
    source->meta.ctime_ns = action->meta.ctime_ns;
    if (source->edit) {
        source->edit->dirty = source->edit->written = source->edit->fresh = false;
        source->edit->bytes.max = SCRATCH_SIZE_MAX;
    }
    return inode_move(mount->cache, source, rename->dir, INODE_FILE, rename->name,
                      rename->dir->volume);
}

/* The item stays as it is beside its backup: the kernel, which has moved its entry, is told. */
static void stay_locked(struct rename *rename)
{
    struct mount *mount = rename->mount;
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    inode_file_name(rename->source, &name);
    notify_name(mount, rename->source->parent, buf_span(&name));
    if (rename->target)
        scratch_outdated_locked(mount, rename->target);
    cache_moved(mount->cache, rename->dir, rename->name);
    notify_name(mount, rename->dir, rename->name);
    notify_directory(mount, rename->dir);
}

int rename_to_backup(struct rename *rename, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *source = rename->source;
    struct body *body;
    struct action action;
    int64_t mtime_ns;
    int code = current_content(mount, source, &body, &mtime_ns, err);
    if (code < 0)
        return code;
    pthread_mutex_lock(&mount->cache->lock);
    bool fresh = source->edit && source->edit->fresh;
    int64_t ttl = source->meta.ttl;
    enum spelling_fate fate =
        spelling_fate_locked(mount, source, rename->source_alias, rename->pid);
    pthread_mutex_unlock(&mount->cache->lock);
    code = write_backup(rename, body, mtime_ns, ttl, &action, err);
    body_unref(body);
    if (code < 0)
        return code;
    if (fate == SPELLING_KEPT) {
        scoped_lock(&mount->cache->lock);
        stay_locked(rename);
        return 0;
    }
    if (!fresh)
        code = grace_add(mount, source, rename->pid, fate == SPELLING_WAITS, err);
    return code < 0 ? code : become_backup(rename, &action);
}
