/* SPDX-License-Identifier: MIT */
/* What folders are called, and which of them are one. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/replica_list.h"
#include "backend/source.h"
#include "backend/source_private.h"
#include "base/cleanup.h"

#define LINKS_MOST 16
#define PLACE_DEPTH 64

/* --- Paths --- */

static int real_path(const char *path, unsigned links, char **ret_real);

/* PATH as seen from the folder that the last part of FROM is in. */
static int real_beside(const char *from, size_t folder_len, const char *path, unsigned links,
                       char **ret_real)
{
    cleanup_free char *joined = NULL;

    if (path[0] == '/')
        return real_path(path, links, ret_real);
    return asprintf(&joined, "%.*s/%s", (int)folder_len, from, path) < 0
               ? -ENOMEM
               : real_path(joined, links, ret_real);
}

static int real_path(const char *path, unsigned links, char **ret_real)
{
    char target[PATH_MAX];
    const char *slash = strrchr(path, '/');
    char *real = realpath(path, NULL);

    if (real || !slash || slash == path || links > LINKS_MOST) {
        *ret_real = real ? real : strdup(path);
        return *ret_real ? 0 : -ENOMEM;
    }
    size_t folder_len = (size_t)(slash - path);
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len > 0) {
        target[len] = '\0';
        return real_beside(path, folder_len, target, links + 1, ret_real);
    }
    cleanup_free char *folder = strndup(path, folder_len), *real_folder = NULL;
    int r = folder ? real_path(folder, links, &real_folder) : -ENOMEM;
    if (r < 0)
        return r;
    return asprintf(ret_real, "%s%s", strcmp(real_folder, "/") == 0 ? "" : real_folder, slash) < 0
               ? -ENOMEM
               : 0;
}

int source_real_path(const char *path, char **ret_real)
{
    return real_path(path, 0, ret_real);
}

/* --- Folders that are one --- */

/* A folder of a backend, with every folder above it. */
struct place {
    const char *backend;
    char *path;
    struct stat above[PLACE_DEPTH]; /* the folder itself first; none where it is not there */
    size_t depth;
};

static void place_look(struct place *place)
{
    char at[PATH_MAX];

    snprintf(at, sizeof at, "%s", place->path);
    while (place->depth < PLACE_DEPTH && stat(at, &place->above[place->depth]) == 0) {
        char *slash = strrchr(at, '/');
        place->depth++;
        if (!slash || strcmp(at, "/") == 0)
            break;
        slash[slash == at] = '\0';
    }
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether INNER is OUTER, or lies in it. */
static bool place_is_in(const struct place *inner, const struct place *outer)
{
    size_t len = strlen(outer->path);

    for (size_t i = 0; outer->depth && i < inner->depth; i++)
        if (is_same(&inner->above[i], &outer->above[0]))
            return true;
    return strncmp(inner->path, outer->path, len) == 0 &&
           (inner->path[len] == '/' || !inner->path[len]);
}

static int place_compare(const struct place *a, const struct place *b, struct err *err)
{
    bool a_in_b = place_is_in(a, b), b_in_a = place_is_in(b, a);
    const struct place *inner = a_in_b ? a : b, *outer = a_in_b ? b : a;

    if (a_in_b && b_in_a)
        return err_set(err, EINVAL, "backend %s: %s is the same folder as %s of backend %s",
                       b->backend, b->path, a->path, a->backend);
    if (a_in_b || b_in_a)
        return err_set(err, EINVAL, "backend %s: %s lies in %s of backend %s", inner->backend,
                       inner->path, outer->path, outer->backend);
    return 0;
}

struct places {
    struct place *all;
    size_t count;
};

static void places_release(struct places *places)
{
    for (size_t i = 0; i < places->count; i++)
        free(places->all[i].path);
    free(places->all);
}

/* PATH is as the file system calls it. */
static int places_add(struct places *places, const char *backend, const char *path, struct err *err)
{
    struct place *all = reallocarray(places->all, places->count + 1, sizeof *all);
    int r = 0;

    if (!all)
        return -ENOMEM;
    places->all = all;
    struct place *place = &all[places->count];
    *place = (struct place){.backend = backend, .path = strdup(path)};
    if (!place->path)
        return -ENOMEM;
    places->count++;
    place_look(place);
    for (size_t i = 0; r == 0 && i + 1 < places->count; i++)
        r = place_compare(&all[i], place, err);
    return r;
}

static int places_add_all(struct places *places, const struct config *config,
                          const struct backend_config *backend, struct err *err)
{
    struct replica_list *list = replica_list_new(config, backend);
    struct path_list paths = {NULL, 0};
    int r = list ? replica_list_read(list, &paths, err) : -ENOMEM;

    for (size_t i = 0; r == 0 && i < paths.count; i++)
        r = places_add(places, backend->name, paths.paths[i], err);
    path_list_release(&paths);
    replica_list_free(list);
    return r;
}

int source_check_folders(const struct config *config, struct err *err)
{
    cleanup(places_release) struct places places = {NULL, 0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < config->backend_count; i++)
        if (config->backends[i].type == BACKEND_TYPE_FOLDER)
            r = places_add_all(&places, config, &config->backends[i], err);
    return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
}

/* --- The mount point --- */

static int check_hidden(const struct place *mountpoint, const char *what, const char *path,
                        struct err *err)
{
    struct place place = {.path = NULL};
    int r = path ? source_real_path(path, &place.path) : 0;

    if (r < 0 || !place.path)
        return r < 0 ? err_set(err, ENOMEM, "no memory") : 0;
    place_look(&place);
    if (place_is_in(&place, mountpoint))
        r = err_set(err, EINVAL, "%s: %s %s would be hidden below the mount", mountpoint->path,
                    what, path);
    free(place.path);
    return r;
}

static int check_around(const struct place *mountpoint, const struct places *folders,
                        struct err *err)
{
    for (size_t i = 0; i < folders->count; i++)
        if (place_is_in(mountpoint, &folders->all[i]))
            return err_set(err, EINVAL, "%s: it lies in %s, which is to be mounted",
                           mountpoint->path, folders->all[i].path);
    return 0;
}

static int check_backend(const struct place *mountpoint, const struct config *config,
                         const struct backend_config *backend, struct err *err)
{
    cleanup(places_release) struct places folders = {NULL, 0};
    cleanup_free char *directory = backend->path ? strdup(backend->path) : NULL;
    char *slash = directory ? strrchr(directory, '/') : NULL;

    if (backend->path && !directory)
        return err_set(err, ENOMEM, "no memory");
    if (slash) /* the store may still have to be made, the directory not */
        slash[slash == directory] = '\0';
    int r = check_hidden(mountpoint, "the store in", directory, err);
    if (r == 0)
        r = check_hidden(mountpoint, "the configuration", backend->config, err);
    if (r == 0 && backend->type == BACKEND_TYPE_FOLDER)
        r = places_add_all(&folders, config, backend, err);
    for (size_t i = 0; r == 0 && i < folders.count; i++)
        r = check_hidden(mountpoint, "the folder", folders.all[i].path, err);
    return r ? r : check_around(mountpoint, &folders, err);
}

int source_check_mountpoint(const struct config *config, const char *mountpoint, struct err *err)
{
    struct place place = {.path = strdup(mountpoint)};

    if (!place.path)
        return err_set(err, ENOMEM, "no memory");
    place_look(&place);
    int r = check_hidden(&place, "state_dir", config->state_dir, err);
    if (r == 0)
        r = check_hidden(&place, "the configuration", config->path, err);
    for (size_t i = 0; r == 0 && i < config->backend_count; i++)
        r = check_backend(&place, config, &config->backends[i], err);
    free(place.path);
    return r;
}
