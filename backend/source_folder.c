/* SPDX-License-Identifier: MIT */
/* Folders opened, with the state database that is their index. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/folder/folder.h"
#include "backend/replica_list.h"
#include "backend/source.h"
#include "backend/source_private.h"
#include "backend/sqlite/sqlite.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

static int compare_paths(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Where the state of replicas is kept: one place for the same folders in any order. */
static int folder_state_path(const struct config *config, const struct path_list *replicas,
                             const char *suffix, char **ret_path)
{
    cleanup(buf_release) struct buf text;
    char *sorted[CONFIG_REPLICAS_MOST];
    char hash[65];

    buf_init(&text, CONFIG_REPLICAS_MOST * (size_t)PATH_MAX);
    for (size_t i = 0; i < replicas->count; i++)
        sorted[i] = replicas->paths[i];
    qsort(sorted, replicas->count, sizeof sorted[0], compare_paths);
    for (size_t i = 0; i < replicas->count; i++)
        buf_addf(&text, "%s\n", sorted[i]);
    if (buf_error(&text))
        return buf_error(&text);
    sha256_hex(buf_span(&text), hash);
    return asprintf(ret_path, "%s/folder-%.16s%s", config->state_dir, hash, suffix) < 0 ? -ENOMEM
                                                                                        : 0;
}

/*
 * A list that is changed while it is in use keeps its state database: the name that it has from
 * now on becomes a link to it. What had that name, when these folders were used together before, is
 * an index of old; it is put aside, since there may be drafts in it.
 */
static int put_aside(const char *path, struct err *err)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    int64_t now_s = clock_now_s();

    for (size_t i = 0; i < 3; i++) {
        cleanup_free char *from = NULL, *to = NULL;
        if (asprintf(&from, "%s%s", path, suffixes[i]) < 0 ||
            asprintf(&to, "%s.%lld%s", path, (long long)now_s, suffixes[i]) < 0)
            return err_set(err, ENOMEM, "no memory");
        if (rename(from, to) < 0 && errno != ENOENT)
            return err_set(err, errno, "%s: %s", from, strerror(errno));
    }
    return 0;
}

static int link_state(const char *path, const char *name, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char target[PATH_MAX];
    ssize_t len = readlink(name, target, sizeof target - 1);

    if (strcmp(path, name) == 0)
        return 0;
    if (len >= 0) {
        target[len] = '\0';
        if (strcmp(target, slash + 1) == 0)
            return 0;
        if (unlink(name) < 0)
            return err_set(err, errno, "%s: %s", name, strerror(errno));
    }
    int r = put_aside(name, err);
    if (r == 0 && symlink(slash + 1, name) < 0)
        r = err_set(err, errno, "%s: %s", name, strerror(errno));
    return r;
}

/* PATH, or what it is a link to. */
static int follow_link(char **path)
{
    char target[PATH_MAX];
    ssize_t len = readlink(*path, target, sizeof target - 1);

    if (len < 0 || memchr(target, '/', (size_t)len))
        return 0;
    target[len] = '\0';
    char *slash = strrchr(*path, '/'), *followed = NULL;
    if (asprintf(&followed, "%.*s/%s", (int)(slash - *path), *path, target) < 0)
        return -ENOMEM;
    free(*path);
    *path = followed;
    return 0;
}

/* ---- the list of replicas, for as long as the folders are open ---- */

struct place {
    const struct config *config;
    struct replica_list *list;
    char *state; /* the path of the state database; NULL: not known yet */
};

static struct place *place_new(const struct config *config, const struct backend_config *settings)
{
    struct place *place = calloc(1, sizeof *place);

    if (!place)
        return NULL;
    place->config = config;
    place->list = replica_list_new(config, settings);
    if (!place->list) {
        free(place);
        return NULL;
    }
    return place;
}

static void place_free(void *context)
{
    struct place *place = context;

    replica_list_free(place->list);
    free(place->state);
    free(place);
}

static bool place_changed(void *context)
{
    const struct place *place = context;

    return replica_list_changed(place->list);
}

/* So that whoever opens PATHS has this state database. */
static int place_link(const struct place *place, const struct path_list *paths, struct err *err)
{
    cleanup_free char *name = NULL;
    int r = place->state ? folder_state_path(place->config, paths, ".db", &name) : 0;

    if (r < 0)
        return err_set(err, -r, "no memory");
    return name ? link_state(place->state, name, err) : 0;
}

static int place_read(void *context, struct path_list *ret_paths, struct err *err)
{
    const struct place *place = context;
    struct path_list paths = {NULL, 0};
    int r = replica_list_read(place->list, &paths, err);

    if (r == 0)
        r = place_link(place, &paths, err);
    if (r < 0)
        path_list_release(&paths);
    else
        *ret_paths = paths;
    return r;
}

static int place_edit(void *context, const char *add, const char *remove, bool dry, struct err *err)
{
    const struct place *place = context;
    struct path_list paths = {NULL, 0}, edited = {NULL, 0};
    int r = replica_list_read(place->list, &paths, err);

    for (size_t i = 0; r == 0 && i < paths.count; i++)
        if (!remove || strcmp(paths.paths[i], remove) != 0)
            r = path_list_add(&edited, paths.paths[i], err);
    if (r == 0 && add)
        r = path_list_add(&edited, add, err);
    if (r == 0 && !dry)
        r = place_link(place, &edited, err); /* before anybody can open them */
    if (r == 0)
        r = replica_list_edit(place->list, add, remove, dry, err);
    path_list_release(&paths);
    path_list_release(&edited);
    return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
}

static void configure(const void *config, struct table *table)
{
    config_apply(config, table);
}

/* Both handles of the state database of folders. */
static int open_index(const struct config *config, const char *path, struct backend **ret_store,
                      struct backend **ret_imports, struct err *err)
{
    const struct sqlite_options options = {
        .create = true, .max_item_size = config->max_item_size, .leave_expired = true};
    struct sqlite_options imports = options;
    struct err own = {""};
    int r = sqlite_open(path, &options, ret_store, &own);

    imports.show_expired = true;
    if (r < 0)
        return source_explain_state(r, &own, err);
    r = sqlite_open(path, &imports, ret_imports, &own);
    if (r < 0) {
        backend_close(*ret_store);
        return source_explain_state(r, &own, err);
    }
    return 0;
}

static struct folder_options folder_options(const struct config *config,
                                            const struct backend_config *settings,
                                            const struct path_list *replicas)
{
    return (struct folder_options){
        .paths = (const char *const *)replicas->paths,
        .count = replicas->count,
        .layout = settings->config ? LAYOUT_TABLE : settings->layout,
        .read_only = config->read_only,
        .durable = settings->fsync_always,
        .watch = config->watch,
        .scan_ns = (int64_t)(config->cache_ttl * (double)NS_PER_S),
        .timeout_ns = (int64_t)(settings->replica_timeout * (double)NS_PER_S),
        .configure = configure,
        .configure_context = config,
    };
}

/* Where the state of REPLICAS is, and the lock that goes with it. */
static int find_state(const struct config *config, const struct path_list *replicas,
                      char **ret_path, char **ret_lock_path)
{
    int r = folder_state_path(config, replicas, ".db", ret_path);

    if (r == 0)
        r = follow_link(ret_path);
    if (r < 0)
        return r;
    assert(*ret_path);
    return asprintf(ret_lock_path, "%.*s.lock", (int)strlen(*ret_path) - 3, *ret_path) < 0 ? -ENOMEM
                                                                                           : 0;
}

/* PLACE is taken. */
static int open_replicas(const struct config *config, const struct backend_config *settings,
                         const struct path_list *replicas, struct place *place,
                         struct backend **ret_backend, struct err *err)
{
    cleanup_free char *lock_path = NULL;
    struct folder_options options = folder_options(config, settings, replicas);
    struct backend *store = NULL, *imports = NULL;
    int r = source_make_state(config, err);

    options.list = (struct folder_list){place_changed, place_read, place_edit, place_free, place};
    if (r == 0 && find_state(config, replicas, &place->state, &lock_path) < 0)
        r = err_set(err, ENOMEM, "no memory");
    if (r == 0)
        r = open_index(config, place->state, &store, &imports, err);
    options.lock_path = lock_path;
    if (r < 0) {
        place_free(place);
        return r;
    }
    return folder_open(store, imports, &options, ret_backend, err);
}

int source_open_folder(const struct config *config, const struct backend_config *settings,
                       struct backend **ret_backend, struct err *err)
{
    struct path_list replicas = {NULL, 0};
    struct place *place = place_new(config, settings);

    if (!place)
        return err_set(err, ENOMEM, "no memory");
    int r = place_read(place, &replicas, err);
    if (r < 0) {
        place_free(place);
        return r;
    }
    r = open_replicas(config, settings, &replicas, place, ret_backend, err);
    path_list_release(&replicas);
    return r;
}

/* ---- how replicas are ---- */

int source_health(const struct config *config, const struct backend_config *settings,
                  int64_t most_ns, health_fn each, void *context, struct err *err)
{
    struct replica_list *list = replica_list_new(config, settings);
    struct path_list replicas = {NULL, 0};
    int r = list ? replica_list_read(list, &replicas, err) : err_set(err, ENOMEM, "no memory");

    if (r == 0)
        r = folder_health((const char *const *)replicas.paths, replicas.count,
                          (int64_t)(settings->replica_timeout * (double)NS_PER_S), most_ns, each,
                          context, err);
    path_list_release(&replicas);
    replica_list_free(list);
    return r;
}
