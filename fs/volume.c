/* SPDX-License-Identifier: MIT */
/* The tables of this mount, and keeping them in step with their backends. */
#include "fs/mount.h"

#include <errno.h>

#include "backend/profile/profile.h"
#include "base/log.h"

struct volume *volume_find_locked(struct mount *mount, struct span name)
{
    struct volume *volume = mount->volumes;
    while (volume && (volume->dropped || !span_equal(span_text(volume_table(volume)->name), name)))
        volume = volume->next;
    return volume;
}

struct volume *volume_by_id_locked(struct mount *mount, const struct backend *backend,
                                   uint64_t table_id)
{
    struct volume *volume = mount->volumes;
    while (volume && (volume->backend != backend || volume_table(volume)->id != table_id))
        volume = volume->next;
    return volume;
}

void volume_stored(const struct mount *mount, struct volume *volume, struct backend **ret_backend,
                   const struct table **ret_table)
{
    const struct table *table = volume_table(volume);
    size_t place = 0;
    while (mount->source->backends[place] != volume->backend)
        place++;
    *ret_backend = mount->stored->backends[place];
    *ret_table = table->profile ? table->profile->stored : table;
}

static struct table *current_table(struct volume *volume)
{
    return atomic_load_explicit(&volume->table, memory_order_acquire);
}

/* NAMES: each with its NUL. Collected first, since a walk must not call its own backend. */
static int collect_name(void *context, const struct table *table)
{
    struct buf *names = context;
    buf_add(names, table->name, strlen(table->name) + 1);
    return buf_error(names);
}

static void volume_update_locked(struct volume *volume, struct table *table)
{
    if (table_equal(current_table(volume), table)) {
        table_free(table);
        return;
    }
    struct retired_table *retired = malloc(sizeof *retired);
    if (!retired) {
        table_free(table); /* the old description serves until the next change */
        return;
    }
    *retired = (struct retired_table){current_table(volume), volume->retired};
    volume->retired = retired;
    atomic_store_explicit(&volume->table, table, memory_order_release);
}

/* The table's name was taken away: by a drop, or a rename elsewhere. */
static void name_gone_locked(struct mount *mount, struct span name, bool notify)
{
    struct inode *inode = inode_find(mount->cache, mount->cache->root, CLASS_TABLE, name);
    if (inode) {
        inode_ref(inode);
        inode_detach(mount->cache, inode, INODE_OUTDATED);
        if (notify) /* somebody may stand in it */
            notify_directory(mount, inode);
        inode_unref(mount->cache, inode);
    }
    if (notify)
        notify_name(mount, mount->cache->root, name);
}

/* The volume that had the table's name is another table now: it was dropped and made anew. */
static void drop_namesake_locked(struct mount *mount, const struct backend *backend,
                                 const struct table *table, bool notify)
{
    struct volume *namesake = volume_find_locked(mount, span_text(table->name));
    if (!namesake || (namesake->backend == backend && volume_table(namesake)->id == table->id))
        return;
    namesake->dropped = true;
    name_gone_locked(mount, span_text(table->name), notify);
}

static int volume_put_locked(struct mount *mount, struct backend *backend, struct table *table,
                             bool notify)
{
    drop_namesake_locked(mount, backend, table, notify);
    struct volume *volume = volume_by_id_locked(mount, backend, table->id);
    if (volume)
        volume->told_ns = clock_steady_ns();
    if (volume && !volume->dropped) {
        const struct table *old = volume_table(volume);
        bool renamed = strcmp(old->name, table->name) != 0;
        if (renamed)
            name_gone_locked(mount, span_text(old->name), notify);
        if (renamed && notify)
            notify_name(mount, mount->cache->root, span_text(table->name));
        bool reshown = old->profile != table->profile;
        volume_update_locked(volume, table);
        if (reshown)
            volume_changed_locked(mount, volume, true);
        return 0;
    }
    volume = calloc(1, sizeof *volume);
    if (!volume) {
        table_free(table);
        return -ENOMEM;
    }
    atomic_init(&volume->table, table);
    volume->backend = backend;
    volume->told_ns = clock_steady_ns();
    volume->next = mount->volumes;
    mount->volumes = volume;
    cache_moved(mount->cache, mount->cache->root, span_text(table->name));
    if (notify)
        notify_name(mount, mount->cache->root, span_text(table->name));
    return 0;
}

/* Volumes whose name is not among NAMES were dropped. */
static void drop_missing_locked(struct mount *mount, const struct buf *names, bool notify)
{
    for (struct volume *volume = mount->volumes; volume; volume = volume->next) {
        const char *own = volume_table(volume)->name;
        const char *at = names->data, *end = at ? at + names->len : at;
        while (at < end && strcmp(at, own) != 0)
            at += strlen(at) + 1;
        if (at < end || volume->dropped)
            continue;
        volume->dropped = true;
        name_gone_locked(mount, span_text(own), notify);
    }
}

static int load(struct mount *mount, struct span name, bool notify, struct err *err)
{
    struct backend *backend;
    struct table *table;
    int code = source_table(mount->source, name, &backend, &table, err);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    return volume_put_locked(mount, backend, table, notify);
}

int volume_load(struct mount *mount, struct span name, struct err *err)
{
    int code = load(mount, name, false, err);
    if (code != -ENOENT)
        return code;
    scoped_lock(&mount->cache->lock);
    struct volume *volume = volume_find_locked(mount, name);
    if (volume && !backend_can(volume->backend, BACKEND_LOG)) { /* nobody else tells */
        volume->dropped = true;
        name_gone_locked(mount, name, true);
    }
    return code;
}

bool may_change_behind(const struct mount *mount, const struct volume *volume)
{
    if (volume)
        return backend_can(volume->backend, BACKEND_FILES);
    for (size_t i = 0; i < mount->source->count; i++)
        if (backend_can(mount->source->backends[i], BACKEND_FILES))
            return true;
    return false;
}

bool all_tell(const struct mount *mount)
{
    for (size_t i = 0; i < mount->source->count; i++)
        if (!backend_can(mount->source->backends[i], BACKEND_LOG))
            return false;
    return true;
}

bool volumes_current(struct mount *mount, struct span name)
{
    scoped_lock(&mount->cache->lock);
    const struct volume *volume = name.len ? volume_find_locked(mount, name) : NULL;
    bool told = volume ? backend_can(volume->backend, BACKEND_LOG) : all_tell(mount);
    int64_t told_ns = volume ? volume->told_ns : mount->volumes_told_ns;
    return told ||
           (double)(clock_steady_ns() - told_ns) < mount->config->cache_ttl * (double)NS_PER_S;
}

static int tell_forbidden(void *context, const char *table, const char *why)
{
    (void)context;
    (void)table; /* named in WHY */
    log_warning("tables", "forbidden: %s", why);
    return 0;
}

static int is_this(void *context, const char *table, const char *why)
{
    (void)why;
    return strcmp(context, table) == 0;
}

/* NAME was listed a moment ago. */
static int load_listed(struct mount *mount, char *name, bool notify, struct err *err)
{
    struct err own = {0};
    int code = load(mount, span_text(name), notify, &own);
    if (code == -ENOENT) /* dropped just now: the next load sees it */
        return 0;
    if (code == -EACCES && source_forbidden(mount->source, is_this, name) == 1) /* likewise */
        return 0;
    if (code == -EINVAL) { /* made since the mount began, and not as the configuration has it */
        log_warning("tables", "%s: not shown: %s", name, err_text(&own, code));
        return 0;
    }
    return code < 0 ? err_set(err, -code, "%s", err_text(&own, code)) : 0;
}

int volumes_load(struct mount *mount, bool notify, struct err *err)
{
    cleanup(buf_release) struct buf names;
    buf_init(&names, SIZE_MAX / 2);
    int code = source_tables(mount->source, collect_name, &names, err);
    if (code == 0)
        source_forbidden(mount->source, tell_forbidden, NULL);
    for (size_t at = 0; code == 0 && at < names.len;) {
        char *name = names.data + at;
        at += strlen(name) + 1;
        code = load_listed(mount, name, notify, err);
    }
    if (code == 0) {
        scoped_lock(&mount->cache->lock);
        drop_missing_locked(mount, &names, notify);
        mount->volumes_told_ns = clock_steady_ns();
        if (notify) {
            mount->cache->root->relist = true;
            notify_directory(mount, mount->cache->root);
        }
    }
    return code;
}

void volumes_free(struct mount *mount)
{
    while (mount->volumes) {
        struct volume *volume = mount->volumes;
        mount->volumes = volume->next;
        while (volume->retired) {
            struct retired_table *retired = volume->retired;
            volume->retired = retired->next;
            table_free(retired->table);
            free(retired);
        }
        table_free(current_table(volume));
        free(volume);
    }
}
