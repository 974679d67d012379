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
#include "fs/session.h"

#include <errno.h>

#include "base/log.h"

#define LOG_BATCH 1000
#define MISSED_NS (300 * NS_PER_S) /* half of what a log keeps at least */
#define KEEPER_MS 250

/* --- Sleeping --- */

static struct timespec steady_time_in(int64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t at = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec + ns;
    return (struct timespec){.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
}

bool timer_sleep(struct mount *mount, int64_t ns_from_now)
{
    struct timespec when = steady_time_in(ns_from_now);
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
    _Atomic uint64_t settled; /* changes of others' in files that were read out of the log */
    pthread_mutex_t lock;     /* guards the rest; held while the log is read: by one at a time */
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
    key_part_to_name(volume_table(dir->volume), false, partition, "", &name);
    cache_moved(mount->cache, dir, partition);
    notify_name(mount, dir, buf_span(&name));
    notify_directory(mount, dir);
}

/* INODE, which the caller holds, may be another now. */
static void inode_changed_locked(struct mount *mount, struct inode *inode, bool anew)
{
    if (inode->kind == INODE_TABLE || inode->kind == INODE_PARTITION) {
        inode->relist = true;
        inode->filled = false;
        notify_directory(mount, inode);
    } else if (inode->kind == INODE_ITEM && anew) {
        supersede_locked(mount, inode->parent, inode_name(inode));
    } else if (inode->kind == INODE_ITEM) {
        cleanup(buf_release) struct buf name;
        buf_init(&name, SIZE_MAX / 2);
        inode_file_name(inode, &name);
        inode_doubt(inode);
        cache_moved(mount->cache, inode->parent, inode_name(inode));
        notify_name(mount, inode->parent, buf_span(&name));
    }
}

void volume_changed_locked(struct mount *mount, struct volume *volume, bool reshown)
{
    struct cache *cache = mount->cache;
    bool anew = reshown || backend_can(volume->backend, BACKEND_LOG);
    for (size_t i = 0; i < cache->buckets; i++) {
        struct inode *inode = cache->by_node[i] ? inode_ref(cache->by_node[i]) : NULL;
        while (inode) {
            if (inode->volume == volume && inode->state == INODE_ATTACHED && !inode->listed)
                inode_changed_locked(mount, inode, anew);
            struct inode *next = inode->next_by_node;
            if (next)
                inode_ref(next);
            inode_unref(cache, inode);
            inode = next;
        }
    }
}

/* The last item of DIR may have gone. */
static void note_partition_locked(struct follower *follower, struct inode *dir)
{
    struct inode *held = inode_ref(dir);
    buf_add(&follower->partitions, &held, sizeof held);
    if (buf_error(&follower->partitions))
        inode_unref(follower->mount->cache, held);
}

static void any_changed_locked(struct follower *follower, struct volume *volume)
{
    struct mount *mount = follower->mount;
    volume_changed_locked(mount, volume, false);
    for (size_t i = 0; i < mount->cache->buckets; i++)
        for (struct inode *inode = mount->cache->by_node[i]; inode; inode = inode->next_by_node)
            if (inode->volume == volume && inode->kind == INODE_PARTITION &&
                inode->state == INODE_ATTACHED)
                note_partition_locked(follower, inode);
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
        dir->relist = true;
        notify_directory(mount, dir);
        if (dir != top)
            notify_times(mount, top);
    }
    if (sorted && entry->change == CHANGE_REMOVE)
        note_partition_locked(follower, dir);
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
    dir->relist = true;
    notify_directory(mount, dir);
    if (known && known->scratch->version >= (uint64_t)entry->time_ns)
        return; /* fetched, or made here, after it happened */
    if (known) {
        inode_ref(known);
        inode_detach(mount->cache, known, INODE_OUTDATED);
        inode_unref(mount->cache, known);
    }
    cache_moved(mount->cache, dir, entry->scratch_name);
    notify_name(mount, dir, entry->scratch_name);
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
        if (volume && entry->key.partition.len == 0) /* nobody can tell which */
            any_changed_locked(follower, volume);
        else if (volume)
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
    scoped_lock(&follower->lock);
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

static void told(void *context)
{
    struct mount *mount = context;
    scoped_lock(&mount->timer_lock);
    mount->told = true;
    pthread_cond_signal(&mount->follow_wake);
}

/* Until it is time to look, or somebody tells; false once the mount is stopping. */
static bool follower_sleep(struct mount *mount)
{
    struct timespec when = steady_time_in(FOLLOW_MS * (NS_PER_S / 1000));
    scoped_lock(&mount->timer_lock);
    while (!mount->stopping && !mount->told &&
           pthread_cond_timedwait(&mount->follow_wake, &mount->timer_lock, &when) != ETIMEDOUT)
        ;
    mount->told = false;
    return !mount->stopping;
}

static void *follower_main(void *context)
{
    struct mount *mount = context;
    while (follower_sleep(mount)) {
        streams_watch(mount); /* here nothing waits for a service */
        for (size_t i = 0; i < mount->source->count; i++)
            if (backend_can(mount->followers[i].backend, BACKEND_LOG))
                follow_backend(&mount->followers[i]);
    }
    return NULL;
}

/* --- Files that others write --- */

static void settle_backend(struct follower *follower)
{
    struct err err = {0};
    uint64_t count = follower->settled;
    int code = backend_settle(follower->backend, &count, &err);
    if (code < 0)
        log_warning("settle", "changes of others cannot be read: %s", err_text(&err, code));
    if (count == follower->settled)
        return;
    follow_backend(follower);
    follower->settled = count;
}

void settle(struct mount *mount, const struct volume *volume)
{
    if (!may_change_behind(mount, volume))
        return;
    for (size_t i = 0; mount->followers && i < mount->source->count; i++)
        if (backend_can(mount->followers[i].backend, BACKEND_FILES) &&
            (!volume || volume->backend == mount->followers[i].backend))
            settle_backend(&mount->followers[i]);
}

static int make_followers(struct mount *mount, struct err *err)
{
    size_t count = mount->source->count;
    struct follower *followers = calloc(count, sizeof *followers);
    int code = followers ? 0 : -ENOMEM;
    for (size_t i = 0; followers && i < count; i++) {
        followers[i].mount = mount;
        followers[i].backend = mount->source->backends[i];
        buf_init(&followers[i].partitions, SIZE_MAX / 2);
        pthread_mutex_init(&followers[i].lock, NULL);
        followers[i].polled_ns = clock_steady_ns();
        if (code == 0 && backend_can(followers[i].backend, BACKEND_LOG))
            code = backend_log_position(followers[i].backend, &followers[i].position, err);
    }
    mount->followers = followers;
    return code;
}

static void free_followers(struct mount *mount)
{
    for (size_t i = 0; mount->followers && i < mount->source->count; i++) {
        buf_release(&mount->followers[i].partitions);
        pthread_mutex_destroy(&mount->followers[i].lock);
    }
    free(mount->followers);
    mount->followers = NULL;
}

/* --- The keeper --- */

static void *keeper_main(void *context)
{
    struct mount *mount = context;
    int64_t wait_ns = 0;
    while (timer_sleep(mount, wait_ns)) {
        wait_ns = KEEPER_MS * (NS_PER_S / 1000);
        session_wake(mount);
        grace_run(mount, NULL, false);
        drafts_retry(mount);
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

int follow_prepare(struct mount *mount, struct err *err)
{
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&mount->timer_wake, &steady);
    pthread_cond_init(&mount->follow_wake, &steady);
    pthread_condattr_destroy(&steady);
    pthread_mutex_init(&mount->timer_lock, NULL);
    int code = make_followers(mount, err);
    if (code == 0)
        code = load_tables(mount, err); /* after the position: nothing falls between */
    if (code < 0)
        free_followers(mount);
    return code;
}

int follow_start(struct mount *mount, struct err *err)
{
    int code = streams_start(mount, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < mount->source->count; i++)
        backend_listen(mount->source->backends[i], told, mount);
    mount->follower_started = pthread_create(&mount->follower, NULL, follower_main, mount) == 0;
    mount->keeper_started = pthread_create(&mount->keeper, NULL, keeper_main, mount) == 0;
    if (!mount->follower_started || !mount->keeper_started)
        return err_set(err, EAGAIN, "cannot start a thread");
    return 0;
}

void follow_stop(struct mount *mount)
{
    for (size_t i = 0; i < mount->source->count; i++)
        backend_listen(mount->source->backends[i], NULL, NULL);
    pthread_mutex_lock(&mount->timer_lock);
    mount->stopping = true;
    pthread_cond_broadcast(&mount->timer_wake);
    pthread_cond_broadcast(&mount->follow_wake);
    pthread_mutex_unlock(&mount->timer_lock);
    if (mount->follower_started)
        pthread_join(mount->follower, NULL);
    streams_stop(mount);
    if (mount->keeper_started)
        pthread_join(mount->keeper, NULL);
    mount->follower_started = mount->keeper_started = false;
    free_followers(mount);
}
