/* SPDX-License-Identifier: MIT */
/* What is no item: its place and attributes in the backend. Each change is made under the condition
 * that the object is as this mount knows it, so that two mounts do not undo each other's. */
#include "fs/mount.h"

#include <errno.h>

void scratch_action_locked(const struct inode *inode, struct action *ret_action)
{
    *ret_action = (struct action){.kind = ACTION_SCRATCH_PUT, .table = volume_table(inode->volume)};
    struct scratch *scratch = &ret_action->scratch;
    scratch_place(inode->parent, scratch);
    scratch->id = inode->scratch->id;
    if (scratch->id)
        ret_action->condition = (struct condition){COND_VERSION, inode->scratch->version};
    scratch->name = inode_name(inode);
    scratch->kind = inode->kind == INODE_FILE   ? SCRATCH_FILE
                    : inode->kind == INODE_LINK ? SCRATCH_LINK
                                                : SCRATCH_DIRECTORY;
    scratch->mode = inode->scratch->mode;
    scratch->uid = inode->scratch->uid;
    scratch->gid = inode->scratch->gid;
    scratch->mtime_ns = inode->meta.mtime_ns;
    scratch->ctime_ns = inode->meta.ctime_ns;
    scratch->ttl = inode->meta.ttl;
}

void scratch_delete_action_locked(const struct inode *inode, struct action *ret_action)
{
    *ret_action = (struct action){.kind = ACTION_SCRATCH_DELETE,
                                  .table = volume_table(inode->volume),
                                  .condition = {COND_VERSION, inode->scratch->version},
                                  .scratch = {.id = inode->scratch->id}};
}

void scratch_written_locked(struct inode *inode, const struct action *action)
{
    inode->scratch->id = action->made_id;
    inode->scratch->version = action->meta.version;
    inode->meta.mtime_ns = action->meta.mtime_ns;
    inode->meta.ctime_ns = action->meta.ctime_ns;
}

void scratch_outdated_locked(struct mount *mount, struct inode *inode)
{
    if (inode->state != INODE_ATTACHED)
        return;
    notify_name(mount, inode->parent, inode_name(inode));
    notify_directory(mount, inode->parent);
    inode_detach(mount->cache, inode, INODE_OUTDATED);
}

static int copy_version(void *context, const struct scratch *scratch)
{
    uint64_t *found = context;
    found[0] = scratch->id;
    found[1] = scratch->version;
    return 0;
}

bool scratch_recheck(struct mount *mount, struct inode *inode)
{
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    struct scratch place;
    if (!inode->scratch)
        return true;
    pthread_mutex_lock(&mount->cache->lock);
    uint64_t known[2] = {inode->scratch->id, inode->scratch->version}, found[2] = {0, 0};
    scratch_place(inode->parent, &place);
    buf_add_span(&name, inode_name(inode));
    pthread_mutex_unlock(&mount->cache->lock);
    if (known[0] == 0)
        return true;
    int code =
        backend_scratch_find(inode->volume->backend, volume_table(inode->volume), place.partition,
                             place.parent, buf_span(&name), copy_version, found, NULL);
    if (code < 0 && code != -ENOENT)
        return true;
    if (found[0] == known[0] && found[1] == known[1])
        return true;
    scoped_lock(&mount->cache->lock);
    scratch_outdated_locked(mount, inode);
    return false;
}

int scratch_write_attributes(struct mount *mount, struct inode *inode, struct err *err)
{
    struct action action;
    pthread_mutex_lock(&mount->cache->lock);
    inode_freeze_locked(mount, inode);
    scratch_action_locked(inode, &action);
    bool stored = action.scratch.id != 0 && inode->state == INODE_ATTACHED;
    pthread_mutex_unlock(&mount->cache->lock);
    int code = stored ? backend_write(inode->volume->backend, &action, 1, 0, err) : 0;
    scoped_lock(&mount->cache->lock);
    inode_thaw_locked(mount, inode);
    if (stored && code == 0)
        scratch_written_locked(inode, &action);
    else if (code == -ESTALE)
        scratch_outdated_locked(mount, inode);
    else if (code == 0)
        inode->meta.ctime_ns = clock_now_ns();
    return code;
}
