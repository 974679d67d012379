/* SPDX-License-Identifier: MIT */
/* The folders that are watched: the roots, and those of tables, in all replicas in use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "backend/folder/watch.h"
#include "base/log.h"

#define TABLE_EVENTS                                                                               \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB |            \
     IN_DELETE_SELF | IN_MOVE_SELF)
#define ROOT_EVENTS (IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF)

/* File systems that others than this machine's programs write. */
static bool is_remote(const char *path)
{
    static const uint32_t magics[] = {0x6969,     0xFF534D42, 0xFE534D42, 0x517B,
                                      0x65735546, 0x01021997, 0x00C36400, 0x5346414F};
    struct statfs found;

    if (statfs(path, &found) < 0)
        return false;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if ((uint32_t)found.f_type == magics[i])
            return true;
    return false;
}

/* The first place whose watch is not below WD. */
static size_t find_watch(const struct watch *watch, int wd)
{
    size_t low = 0, high = watch->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (watch->places[middle].wd < wd)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remove_place(struct watch *watch, size_t at)
{
    memmove(watch->places + at, watch->places + at + 1,
            (--watch->count - at) * sizeof *watch->places);
}

/* PLACE's watch has been had just now. */
static int note_place(struct watch *watch, const struct place *place)
{
    size_t at = find_watch(watch, place->wd);

    if (at == watch->count || watch->places[at].wd != place->wd) {
        struct place *places = reallocarray(watch->places, watch->count + 1, sizeof *places);
        if (!places)
            return -ENOMEM;
        watch->places = places;
        memmove(places + at + 1, places + at, (watch->count++ - at) * sizeof *places);
    }
    watch->places[at] = *place;
    return 0;
}

static void make_path(const char *root, const char *folder_name,
                      char ret_path[PATH_MAX + NAME_MAX + 2])
{
    snprintf(ret_path, PATH_MAX + NAME_MAX + 2, "%s%s%s", root, folder_name[0] ? "/" : "",
             folder_name);
}

/* In one replica. A folder that is not there is missed when it is looked for. */
static int add_place(struct folder *folder, const char *root, size_t replica,
                     const char *folder_name, bool is_root, struct err *err)
{
    struct watch *watch = folder->watch;
    struct place place = {.root = is_root, .replica = replica};
    char path[PATH_MAX + NAME_MAX + 2];
    struct stat found;

    make_path(root, folder_name, path);
    memcpy(place.folder, folder_name, strlen(folder_name) + 1);
    if (lstat(path, &found) == 0) {
        place.device = found.st_dev;
        place.inode = found.st_ino;
    }
    scoped_lock(&watch->places_lock);
    if (is_remote(path))
        watch->must_look = true;
    place.wd = inotify_add_watch(
        watch->fd, path, (is_root ? ROOT_EVENTS : TABLE_EVENTS) | IN_ONLYDIR | IN_DONT_FOLLOW);
    if (place.wd >= 0)
        return note_place(watch, &place) < 0 ? err_set(err, ENOMEM, "no memory") : 0;
    if (errno == ENOENT || errno == ENOTDIR)
        return 0;
    if (!watch->must_look)
        log_warning("folder", "%s cannot be watched (%s): it is looked through instead", path,
                    errno == ENOSPC ? "fs.inotify.max_user_watches" : strerror(errno));
    watch->must_look = true;
    return 0;
}

struct adding {
    struct folder *folder;
    const char *name;
    bool root;
    struct err *err;
};

static int add_in(void *context, size_t number, const struct replica_info *info)
{
    const struct adding *adding = context;

    if (!info->in_use)
        return 0;
    return add_place(adding->folder, info->path, number, adding->name, adding->root, adding->err);
}

static int add_everywhere(struct folder *folder, const char *name, bool root, struct err *err)
{
    struct adding adding = {folder, name, root, err};

    return replicas_each(folder->replicas, add_in, &adding);
}

int watch_table(struct folder *folder, const char *folder_name, struct err *err)
{
    return add_everywhere(folder, folder_name, false, err);
}

int places_watch(struct folder *folder, bool all_tables, struct err *err)
{
    struct known **all = NULL;
    size_t count = 0;
    int r = folder->one_table ? 0 : add_everywhere(folder, "", true, err);

    if (r == 0)
        r = known_all(folder, &all, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (!all_tables && all[i]->watched && !known_is_due(all[i]))
            continue;
        r = watch_table(folder, all[i]->folder, err);
        all[i]->watched = r == 0;
    }
    known_free_all(all, count);
    return r;
}

int watch_all(struct folder *folder, struct err *err)
{
    return places_watch(folder, true, err);
}

/* What was plugged out is nobody's business any more, and its disk may be unmounted. */
static void forget_gone(struct folder *folder)
{
    struct watch *watch = folder->watch;
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    bool there[REPLICAS_MOST] = {false};

    for (size_t i = 0; i < count; i++)
        there[numbers[i]] = true;
    scoped_lock(&watch->places_lock);
    for (size_t i = watch->count; i-- > 0;) {
        if (there[watch->places[i].replica])
            continue;
        (void)inotify_rm_watch(watch->fd, watch->places[i].wd);
        remove_place(watch, i);
    }
}

int watch_change(struct folder *folder, struct err *err)
{
    forget_gone(folder);
    return watch_all(folder, err);
}

bool place_of_event(struct watch *watch, const struct inotify_event *event, struct place *ret_place)
{
    scoped_lock(&watch->places_lock);
    size_t at = find_watch(watch, event->wd);
    if (at == watch->count || watch->places[at].wd != event->wd)
        return false;
    *ret_place = watch->places[at];
    if ((event->mask & IN_MOVE_SELF) && !ret_place->root)
        (void)inotify_rm_watch(watch->fd, event->wd);
    if ((event->mask & IN_IGNORED) || ((event->mask & IN_MOVE_SELF) && !ret_place->root))
        remove_place(watch, at);
    return true;
}

static bool has_changed(struct place *place, const char *root)
{
    char path[PATH_MAX + NAME_MAX + 2];
    struct stat found;

    make_path(root, place->folder, path);
    return lstat(path, &found) < 0 || found.st_dev != place->device || found.st_ino != place->inode;
}

static int check_mounted(void *context, size_t number, const struct replica_info *info)
{
    struct folder *folder = context;
    struct watch *watch = folder->watch;
    bool changed = false;

    pthread_mutex_lock(&watch->places_lock);
    for (size_t i = 0; i < watch->count && info->in_use; i++) {
        struct place *place = &watch->places[i];
        if (place->replica != number || !has_changed(place, info->path))
            continue;
        known_set_due(folder, place->folder);
        changed = true;
    }
    pthread_mutex_unlock(&watch->places_lock);
    folder->rewatch |= changed;
    return 0;
}

void places_check(struct folder *folder)
{
    replicas_each(folder->replicas, check_mounted, folder);
}
