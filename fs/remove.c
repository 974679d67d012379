/* SPDX-License-Identifier: MIT */
/* unlink and rmdir. */
#include "fs/operations.h"

#include <errno.h>

static void drop_ref(struct mount *mount, struct inode *inode)
{
    scoped_lock(&mount->cache->lock);
    inode_unref(mount->cache, inode);
}

static enum spelling_fate fate_of(struct mount *mount, const struct inode *item, bool alias,
                                  pid_t pid)
{
    scoped_lock(&mount->cache->lock);
    return spelling_fate_locked(mount, item, alias, pid);
}

static int remove_later(struct mount *mount, struct inode *inode, pid_t pid, struct err *err)
{
    inode_keep(mount, inode);
    int code = grace_add(mount, inode, pid, true, err);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    inode_detach(mount->cache, inode, INODE_REMOVED);
    return 0;
}

static int remove_item(struct mount *mount, struct inode *inode, pid_t pid, struct err *err)
{
    inode_keep(mount, inode);
    struct key_copy copy;
    pthread_mutex_lock(&mount->cache->lock);
    inode_freeze_locked(mount, inode);
    bool stored = !(inode->edit && inode->edit->fresh) && !grace_resume_locked(mount, inode, pid);
    int code = key_copy_locked(inode, &copy);
    pthread_mutex_unlock(&mount->cache->lock);
    struct action action = {.kind = ACTION_DELETE,
                            .table = volume_table(inode->volume),
                            .key = copy.key,
                            .condition = {COND_EXISTS, 0}};
    if (code == 0 && stored)
        code = backend_write(inode->volume->backend, &action, 1, 0, err);
    key_copy_release(&copy);
    scoped_lock(&mount->cache->lock);
    inode_thaw_locked(mount, inode);
    if (code == 0 || code == -ENOENT) {
        partition_lingers_locked(inode->parent);
        inode_detach(mount->cache, inode, INODE_REMOVED);
    }
    return code;
}

static int remove_scratch(struct mount *mount, struct inode *inode, struct err *err)
{
    inode_keep(mount, inode);
    pthread_mutex_lock(&mount->cache->lock);
    inode_freeze_locked(mount, inode);
    struct action action;
    scratch_delete_action_locked(inode, &action);
    bool empty = inode->locals == NULL;
    pthread_mutex_unlock(&mount->cache->lock);
    int code = 0;
    if (!empty)
        code = err_set(err, ENOTEMPTY, "the directory is not empty");
    else if (action.scratch.id != 0)
        code = backend_write(inode->volume->backend, &action, 1, 0, err);
    scoped_lock(&mount->cache->lock);
    inode_thaw_locked(mount, inode);
    if (code == 0)
        inode_detach(mount->cache, inode, INODE_REMOVED);
    else if (code == -ESTALE)
        scratch_outdated_locked(mount, inode);
    return code;
}

int fs_unlink(struct mount *mount, fuse_req_t req, struct inode *dir, struct span name,
              struct err *err)
{
    struct inode *inode;
    bool alias = false;
    pid_t pid = fuse_req_ctx(req)->pid;
    int code = resolve(mount, dir, name, &inode, &alias, err);
    if (code < 0)
        return code;
    switch (inode_kind(inode)) {
    case INODE_ITEM:
        switch (fate_of(mount, inode, alias, pid)) {
        case SPELLING_KEPT: break;
        case SPELLING_WAITS: code = remove_later(mount, inode, pid, err); break;
        case SPELLING_GOES: code = remove_item(mount, inode, pid, err); break;
        }
        break;
    case INODE_FILE:
    case INODE_LINK: code = remove_scratch(mount, inode, err); break;
    case INODE_CONTROL: code = control_remove(mount, inode_name(inode), err); break;
    default: code = -EISDIR; break;
    }
    drop_ref(mount, inode);
    return code;
}

/* --- Directories --- */

static int remove_table(struct mount *mount, struct inode *inode, struct err *err)
{
    grace_run(mount, inode, true);
    pthread_mutex_lock(&mount->cache->lock);
    bool busy = inode->locals != NULL;
    pthread_mutex_unlock(&mount->cache->lock);
    const struct table *table = volume_table(inode->volume);
    if (busy)
        return err_set(err, ENOTEMPTY, "table %s: something in it is still being written",
                       table->name);
    int code = backend_drop_table(inode->volume->backend, table, false, err);
    if (code < 0 && code != -ENOENT)
        return code;
    scoped_lock(&mount->cache->lock);
    inode->volume->dropped = true;
    inode_detach(mount->cache, inode, INODE_REMOVED);
    return code;
}

static int found_something(void *context, const struct scratch *scratch)
{
    (void)context;
    (void)scratch;
    return 1;
}

static int remove_partition(struct mount *mount, struct inode *inode, struct err *err)
{
    grace_run(mount, inode, true);
    struct backend *backend = inode->volume->backend;
    const struct table *table = volume_table(inode->volume);
    uint64_t items;
    int64_t changed_ns;
    int code = backend_partition(backend, table, inode_name(inode), &items, &changed_ns, err);
    if (code == 0)
        code = 1;
    else if (code == -ENOENT)
        code =
            backend_scratch_list(backend, table, inode_name(inode), 0, found_something, NULL, err);
    if (code == 0 && inode->locals)
        code = 1;
    if (code == 1)
        code = err_set(err, ENOTEMPTY, "the partition is not empty%s",
                       table->profile ? ", or has items that its profile hides" : "");
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    inode_detach(mount->cache, inode, INODE_REMOVED);
    return 0;
}

int fs_rmdir(struct mount *mount, struct inode *dir, struct span name, struct err *err)
{
    struct inode *inode;
    int code = resolve(mount, dir, name, &inode, NULL, err);
    if (code < 0)
        return code;
    switch (inode_kind(inode)) {
    case INODE_TABLE: code = remove_table(mount, inode, err); break;
    case INODE_PARTITION: code = remove_partition(mount, inode, err); break;
    case INODE_DIRECTORY: code = remove_scratch(mount, inode, err); break;
    case INODE_CONTROL:
        code = err_set(err, EPERM, "directories of %s cannot be removed", CONTROL_NAME);
        break;
    default: code = -ENOTDIR; break;
    }
    drop_ref(mount, inode);
    return code;
}
