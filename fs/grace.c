/* SPDX-License-Identifier: MIT */
/*
 * Editors save by renaming the file to a backup name and writing a new one in its place. In a table
 * that must be one change and not a deletion and a creation. So an item renamed to a scratch name
 * disappears from this mount at once, but is deleted from the backend only when no new item has
 * taken its place within rename_grace seconds. A crash meanwhile leaves the item: nothing is lost.
 */
#include "fs/mount.h"

#include <errno.h>
#include <signal.h>

#include "base/log.h"

static bool is_of(const struct grace *grace, const struct inode *dir, struct span part)
{
    return grace->dir == dir && span_equal(span_of(grace->name, grace->name_len), part);
}

static bool is_expired(const struct grace *grace)
{
    return item_gone(volume_table(grace->volume), grace->ttl, clock_now_s());
}

struct grace *grace_find_locked(struct mount *mount, const struct inode *dir, struct span part)
{
    struct grace *grace = mount->graces;
    while (grace && (grace->shown || !is_of(grace, dir, part)))
        grace = grace->next;
    return grace && is_expired(grace) ? NULL : grace;
}

static int64_t deadline(const struct mount *mount)
{
    return clock_steady_ns() + (int64_t)(mount->config->rename_grace * (double)NS_PER_S);
}

int grace_add(struct mount *mount, struct inode *item, pid_t pid, bool ended, struct err *err)
{
    (void)err;
    struct grace *grace = calloc(1, sizeof *grace);
    scoped_lock(&mount->cache->lock);
    char *name = grace ? malloc(item->name_len + 1u) : NULL;
    if (!name) {
        free(grace);
        return -ENOMEM;
    }
    memcpy(name, item->name, item->name_len + 1u);
    *grace = (struct grace){
        .dir = inode_ref(item->parent),
        .name = name,
        .name_len = item->name_len,
        .volume = item->volume,
        .version = item->meta.version,
        .ttl = item->meta.ttl,
        .deadline_ns = deadline(mount),
        .pid = pid,
        .ended = ended,
        .next = mount->graces,
    };
    mount->graces = grace;
    return 0;
}

static void unlink_locked(struct mount *mount, const struct grace *grace)
{
    struct grace **link = &mount->graces;
    while (*link != grace)
        link = &(*link)->next;
    *link = grace->next;
}

static void grace_free_locked(struct mount *mount, struct grace *grace)
{
    inode_unref(mount->cache, grace->dir);
    free(grace->name);
    free(grace);
}

void grace_cancel(struct mount *mount, const struct inode *dir, struct span part)
{
    scoped_lock(&mount->cache->lock);
    struct grace *grace = grace_find_locked(mount, dir, part);
    if (!grace)
        return;
    unlink_locked(mount, grace);
    grace_free_locked(mount, grace);
}

void grace_respelled(struct mount *mount, const struct inode *dir, struct span part)
{
    scoped_lock(&mount->cache->lock);
    struct grace *grace = grace_find_locked(mount, dir, part);
    if (!grace || !grace->ended)
        return;
    unlink_locked(mount, grace);
    supersede_locked(mount, grace->dir, part);
    notify_directory(mount, dir);
    grace_free_locked(mount, grace);
}

void grace_call_off(struct mount *mount, const struct inode *dir, struct span part)
{
    scoped_lock(&mount->cache->lock);
    struct grace *grace = grace_find_locked(mount, dir, part);
    if (!grace)
        return;
    grace->shown = true;
    grace->deadline_ns = deadline(mount);
    supersede_locked(mount, grace->dir, part);
    notify_directory(mount, dir);
}

bool grace_resume_locked(struct mount *mount, const struct inode *item, pid_t pid)
{
    for (struct grace *grace = mount->graces; grace; grace = grace->next) {
        if (!grace->shown || grace->pid != pid || grace->version != item->meta.version ||
            !is_of(grace, item->parent, inode_name(item)))
            continue;
        grace->shown = false;
        grace->deadline_ns = deadline(mount);
        return true;
    }
    return false;
}

void grace_overtaken_locked(struct mount *mount, const struct inode *dir, struct span part)
{
    for (struct grace *next, *grace = mount->graces; grace; grace = next) {
        next = grace->next;
        if (!is_of(grace, dir, part))
            continue;
        unlink_locked(mount, grace);
        grace_free_locked(mount, grace);
    }
}

/* A place that is being written again is not vacant: its deletion waits for the outcome. */
static bool is_retaken_locked(struct mount *mount, const struct grace *grace)
{
    return inode_find(mount->cache, grace->dir, CLASS_ITEM,
                      span_of(grace->name, grace->name_len)) != NULL;
}

static bool is_due(const struct grace *grace, int64_t now_ns)
{
    if (grace->ended)
        return kill(grace->pid, 0) < 0 && errno == ESRCH;
    return grace->deadline_ns <= now_ns;
}

static struct grace *next_due_locked(struct mount *mount, const struct inode *dir, bool all)
{
    int64_t now = clock_steady_ns();
    struct grace *grace = mount->graces;
    while (grace && ((dir && grace->dir != dir) || (!all && !is_due(grace, now)) ||
                     (!grace->shown && is_retaken_locked(mount, grace))))
        grace = grace->next;
    return grace;
}

static void carry_out(struct mount *mount, struct grace *grace)
{
    struct err err = {0};
    if (grace->shown || is_expired(grace)) {
        scoped_lock(&mount->cache->lock);
        grace_free_locked(mount, grace);
        return;
    }
    struct span part = span_of(grace->name, grace->name_len);
    struct action action = {.kind = ACTION_DELETE,
                            .table = volume_table(grace->volume),
                            .key = dir_key(grace->dir, part),
                            .condition = {COND_VERSION, grace->version}};
    int code = backend_write(grace->volume->backend, &action, 1, 0, &err);
    scoped_lock(&mount->cache->lock);
    if (code < 0) { /* changed elsewhere meanwhile, or the backend is out: it shows again */
        log_warning("grace", "table %s: an item that was renamed away stays: %s",
                    volume_table(grace->volume)->name, err_text(&err, code));
        supersede_locked(mount, grace->dir, part);
    }
    cache_moved(mount->cache, grace->dir, part);
    notify_directory(mount, grace->dir); /* its times moved */
    grace_free_locked(mount, grace);
}

void grace_run(struct mount *mount, const struct inode *dir, bool all)
{
    for (;;) {
        pthread_mutex_lock(&mount->cache->lock);
        struct grace *grace = next_due_locked(mount, dir, all);
        if (grace)
            unlink_locked(mount, grace);
        pthread_mutex_unlock(&mount->cache->lock);
        if (!grace)
            return;
        carry_out(mount, grace);
    }
}
