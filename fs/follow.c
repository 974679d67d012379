/* SPDX-License-Identifier: MIT */
/*
 * What happens without a request: changes made elsewhere, and what time brings.
 *
 * A change made elsewhere never changes an inode: its name is taken away, here and in the kernel,
 * and the next lookup makes a new one (cache/inode.h). So a program that reads the old one goes on
 * reading one version, and nobody sees half of each. The order is: take the name away, which moves
 * the stamp; then tell the kernel. A lookup that was under way meanwhile sees the moved stamp and
 * fetches again, or has its answer invalidated after it arrived, since the kernel holds the
 * directory's lock over both.
 */
#include "fs/mount.h"

#include <errno.h>

#include "base/log.h"

#define LOG_BATCH 1000
#define MISSED_NS (300 * NS_PER_S) /* half of what a log keeps at least */
#define KEEPER_MS 250

/* --- Sleeping --- */

bool timer_sleep(struct mount *mount, int64_t ns_from_now)
{
    struct timespec when;
    clock_gettime(CLOCK_MONOTONIC, &when);
    int64_t at = (int64_t)when.tv_sec * NS_PER_S + when.tv_nsec + ns_from_now;
    when = (struct timespec){.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
    scoped_lock(&mount->timer_lock);
    while (!mount->stopping &&
           pthread_cond_timedwait(&mount->timer_wake, &mount->timer_lock, &when) != ETIMEDOUT)
        ;
    return !mount->stopping;
}

/* --- One entry of a log --- */

struct follower {
    struct mount *mount;
    struct backend *backend;
    uint64_t position;
    int64_t polled_ns;
    size_t seen;
    bool schema;
    struct buf partitions; /* that lost an item: inode pointers, with references */
};

struct inode *directory_locked(struct mount *mount, struct volume *volume, struct span partition)
{
    const struct table *table = volume_table(volume);
    struct inode *dir =
        inode_find(mount->cache, mount->cache->root, CLASS_TABLE, span_text(table->name));
    if (dir && partition.len)
        return inode_find(mount->cache, dir, CLASS_PARTITION, partition);
    return dir;
}

void partition_appeared_locked(struct mount *mount, struct inode *dir, struct span partition)
{
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    name_from_part(volume_table(dir->volume)->partition.type, partition, "", &name);
    cache_moved(mount->cache, dir, partition);
    notify_name(mount, dir, buf_span(&name));
    notify_directory(mount, dir);
}

static void item_changed_locked(struct follower *follower, struct volume *volume,
                                const struct log_entry *entry)
{
    struct mount *mount = follower->mount;
    const struct table *table = volume_table(volume);
    bool sorted = table_sorted(table);
    struct span part = sorted ? entry->key.sort : entry->key.partition;
    struct inode *top = directory_locked(mount, volume, span_of(NULL, 0));
    struct inode *dir = sorted ? directory_locked(mount, volume, entry->key.partition) : top;
    if (!top)
        return; /* the kernel knows nothing of the table */
    if (!dir) {
        if (entry->change == CHANGE_INSERT)
            partition_appeared_locked(mount, top, entry->key.partition);
        return;
    }
    if (entry->kind == LOG_ITEM)
        grace_overtaken_locked(mount, dir, part);
    const struct inode *known = inode_find(mount->cache, dir, CLASS_ITEM, part);
    if (known && entry->kind == LOG_ITEM && known->meta.version >= entry->sequence)
        return; /* fetched, or made here, after it happened */
    if (known && known->edit && known->edit->fresh && entry->expired)
        return; /* its expired predecessor was swept */
    supersede_locked(mount, dir, part);
    if (entry->kind == LOG_ITEM && entry->change != CHANGE_MODIFY) {
        notify_directory(mount, dir);
        if (dir != top)
            notify_times(mount, top);
    }
    if (sorted && entry->change == CHANGE_REMOVE) {
        struct inode *held = inode_ref(dir);
        buf_add(&follower->partitions, &held, sizeof held);
        if (buf_error(&follower->partitions))
            inode_unref(mount->cache, held);
    }
}

static void scratch_changed_locked(struct mount *mount, struct volume *volume,
                                   const struct log_entry *entry)
{
    struct inode *dir = directory_locked(mount, volume, entry->key.partition);
    if (!dir)
        return;
    if (entry->scratch_parent) { /* scratch directories are few: the one with that id */
        for (size_t i = 0; i < mount->cache->buckets; i++)
            for (struct inode *inode = mount->cache->by_node[i]; inode; inode = inode->next_by_node)
                if (inode->kind == INODE_DIRECTORY && inode->state == INODE_ATTACHED &&
                    inode->volume == volume && inode->scratch->id == entry->scratch_parent)
                    dir = inode;
    }
    struct inode *known = inode_find(mount->cache, dir, CLASS_SCRATCH, entry->scratch_name);
    if (known) {
        inode_ref(known);
        inode_detach(mount->cache, known, INODE_OUTDATED);
        inode_unref(mount->cache, known);
    }
    cache_moved(mount->cache, dir, entry->scratch_name);
    notify_name(mount, dir, entry->scratch_name);
    notify_directory(mount, dir);
}

static int follow_entry(void *context, const struct log_entry *entry)
{
    struct follower *follower = context;
    struct mount *mount = follower->mount;
    follower->position = entry->sequence;
    follower->seen++;
    if (entry->own && !entry->expired)
        return 0;
    atomic_fetch_add_explicit(&mount->foreign_changes, 1, memory_order_relaxed);
    scoped_lock(&mount->cache->lock);
    struct volume *volume = volume_by_id_locked(mount, follower->backend, entry->table_id);
    switch (entry->kind) {
    case LOG_ITEM:
    case LOG_TOUCH:
        if (volume)
            item_changed_locked(follower, volume, entry);
        break;
    case LOG_SCRATCH:
        if (volume)
            scratch_changed_locked(mount, volume, entry);
        break;
    case LOG_SCHEMA: follower->schema = true; break;
    case LOG_DRAFT: break; /* the control directory is never cached */
    }
    return 0;
}

/* Partitions whose last item went elsewhere are gone. */
static void check_partitions(struct follower *follower)
{
    struct mount *mount = follower->mount;
    struct inode **dirs = (struct inode **)(void *)follower->partitions.data;
    size_t count = follower->partitions.len / sizeof *dirs;
    for (size_t i = 0; i < count; i++) {
        uint64_t items;
        int64_t changed_ns;
        bool asked = i > 0 && dirs[i] == dirs[i - 1];
        int code = asked ? 0
                         : backend_partition(follower->backend, volume_table(dirs[i]->volume),
                                             inode_name(dirs[i]), &items, &changed_ns, NULL);
        scoped_lock(&mount->cache->lock);
        if (code == -ENOENT && dirs[i]->state == INODE_ATTACHED && !dirs[i]->linger) {
            cleanup(buf_release) struct buf name;
            buf_init(&name, SIZE_MAX / 2);
            inode_file_name(dirs[i], &name);
            inode_detach(mount->cache, dirs[i], INODE_OUTDATED);
            notify_name(mount, dirs[i]->parent, buf_span(&name));
            notify_directory(mount, dirs[i]->parent);
        }
        inode_unref(mount->cache, dirs[i]);
    }
    buf_clear(&follower->partitions);
}

/* --- The follower --- */

/* The log may have been trimmed before it was read: nothing that is known counts any more. */
static void forget_everything(struct mount *mount)
{
    scoped_lock(&mount->cache->lock);
    for (size_t i = 0; i < mount->cache->buckets; i++) {
        struct inode *next;
        for (struct inode *inode = mount->cache->by_node[i]; inode; inode = next) {
            next = inode->next_by_node;
            if (inode->state != INODE_ATTACHED || !inode->parent || inode->kind == INODE_CONTROL ||
                inode->listed)
                continue;
            if (inode->kind == INODE_TABLE || inode->kind == INODE_PARTITION) {
                notify_directory(mount, inode);
                continue;
            }
            cleanup(buf_release) struct buf name;
            buf_init(&name, SIZE_MAX / 2);
            inode_file_name(inode, &name);
            inode_detach(mount->cache, inode, INODE_OUTDATED);
            notify_name(mount, inode->parent, buf_span(&name));
        }
    }
}

static void follow_backend(struct follower *follower)
{
    struct mount *mount = follower->mount;
    struct err err = {0};
    int64_t now = clock_steady_ns();
    bool missed = now - follower->polled_ns > MISSED_NS;
    follower->polled_ns = now;
    bool changed = false;
    int code = backend_poll(follower->backend, &changed, &err);
    if (code == 0 && missed) {
        code = backend_log_position(follower->backend, &follower->position, &err);
        forget_everything(mount);
        follower->schema = true;
    }
    do {
        follower->seen = 0;
        if (code == 0 && (changed || missed))
            code = backend_log(follower->backend, follower->position, LOG_BATCH, follow_entry,
                               follower, &err);
        check_partitions(follower);
    } while (code == 0 && follower->seen == LOG_BATCH);
    if (code == 0 && follower->schema) {
        code = volumes_load(mount, true, &err);
        follower->schema = code < 0;
    }
    if (code < 0)
        log_warning("follow", "cannot follow changes: %s", err_text(&err, code));
}

static void *follower_main(void *context)
{
    struct mount *mount = context;
    size_t count = mount->source->count;
    struct follower *followers = calloc(count, sizeof *followers);
    for (size_t i = 0; followers && i < count; i++) {
        followers[i] = (struct follower){.mount = mount, .backend = mount->source->backends[i]};
        buf_init(&followers[i].partitions, SIZE_MAX / 2);
        followers[i].position = mount->log_positions[i];
        followers[i].polled_ns = clock_steady_ns();
    }
    while (followers && timer_sleep(mount, FOLLOW_MS * (NS_PER_S / 1000)))
        for (size_t i = 0; i < count; i++)
            if (backend_can(followers[i].backend, BACKEND_LOG))
                follow_backend(&followers[i]);
    for (size_t i = 0; followers && i < count; i++)
        buf_release(&followers[i].partitions);
    free(followers);
    return NULL;
}

/* --- The keeper --- */

static void *keeper_main(void *context)
{
    struct mount *mount = context;
    int64_t wait_ns = 0;
    while (timer_sleep(mount, wait_ns)) {
        wait_ns = KEEPER_MS * (NS_PER_S / 1000);
        grace_run(mount, NULL, false);
        drafts_retry(mount);
        streams_watch(mount);
        for (size_t i = 0; i < mount->source->count && !mount->config->read_only; i++) {
            struct err err = {0};
            int64_t next_ns = wait_ns;
            int code = backend_maintain(mount->source->backends[i], &next_ns, &err);
            if (code < 0)
                log_warning("maintain", "%s", err_text(&err, code));
            else if (next_ns < wait_ns)
                wait_ns = next_ns;
        }
    }
    return NULL;
}

/* Who may not list the tables can use those that he knows. */
static int load_tables(struct mount *mount, struct err *err)
{
    struct err own = {0};
    int code = volumes_load(mount, false, &own);
    if (code == -EACCES) {
        log_warning("tables", "they cannot be listed: %s", err_text(&own, code));
        return 0;
    }
    return code < 0 ? err_set(err, -code, "%s", err_text(&own, code)) : 0;
}

int follow_start(struct mount *mount, struct err *err)
{
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&mount->timer_wake, &steady);
    pthread_condattr_destroy(&steady);
    pthread_mutex_init(&mount->timer_lock, NULL);
    mount->log_positions = calloc(mount->source->count, sizeof *mount->log_positions);
    int code = mount->log_positions ? 0 : -ENOMEM;
    for (size_t i = 0; code == 0 && i < mount->source->count; i++)
        if (backend_can(mount->source->backends[i], BACKEND_LOG))
            code = backend_log_position(mount->source->backends[i], &mount->log_positions[i], err);
    if (code == 0)
        code = load_tables(mount, err); /* after the position: nothing falls between */
    if (code < 0) {
        free(mount->log_positions);
        mount->log_positions = NULL;
        return code;
    }
    mount->follower_started = pthread_create(&mount->follower, NULL, follower_main, mount) == 0;
    mount->keeper_started = pthread_create(&mount->keeper, NULL, keeper_main, mount) == 0;
    if (!mount->follower_started || !mount->keeper_started)
        return err_set(err, EAGAIN, "cannot start a thread");
    return streams_start(mount, err);
}

void follow_stop(struct mount *mount)
{
    pthread_mutex_lock(&mount->timer_lock);
    mount->stopping = true;
    pthread_cond_broadcast(&mount->timer_wake);
    pthread_mutex_unlock(&mount->timer_lock);
    streams_stop(mount);
    if (mount->follower_started)
        pthread_join(mount->follower, NULL);
    if (mount->keeper_started)
        pthread_join(mount->keeper, NULL);
    mount->follower_started = mount->keeper_started = false;
    free(mount->log_positions);
    mount->log_positions = NULL;
}
