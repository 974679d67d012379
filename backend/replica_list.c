/* SPDX-License-Identifier: MIT */
#include "backend/replica_list.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/rewrite.h"
#include "backend/source_private.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/schemas.h"

struct replica_list {
    const struct config *config;
    const struct backend_config *settings;
    pthread_mutex_t lock; /* guards seen */
    struct stat seen;     /* of the file, when it was read last */
};

/* The file, or NULL. */
static const char *list_path(const struct replica_list *list)
{
    return list->settings->config ? list->settings->config : list->config->path;
}

struct replica_list *replica_list_new(const struct config *config,
                                      const struct backend_config *settings)
{
    struct replica_list *list = calloc(1, sizeof *list);

    if (!list)
        return NULL;
    list->config = config;
    list->settings = settings;
    pthread_mutex_init(&list->lock, NULL);
    return list;
}

void replica_list_free(struct replica_list *list)
{
    if (!list)
        return;
    pthread_mutex_destroy(&list->lock);
    free(list);
}

/* ---- the file ---- */

/* A file that is missing for a moment, while an editor replaces it, says nothing. */
bool replica_list_changed(struct replica_list *list)
{
    const char *path = list_path(list);
    struct stat found;

    if (!path || stat(path, &found) < 0)
        return false;
    scoped_lock(&list->lock);
    return !rewrite_is_same(&found, &list->seen);
}

/* ---- reading ---- */

static int read_configuration(const struct replica_list *list, struct span text,
                              struct path_list *paths, struct err *err)
{
    struct config *config = NULL;
    const struct backend_config *found = NULL;
    int r = config_parse(text, list->config->path, &config, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < config->backend_count; i++)
        if (strcmp(config->backends[i].name, list->settings->name) == 0)
            found = &config->backends[i];
    if (!found || !found->replicas.count) {
        r = err_set(err, EINVAL, "%s: [backend %s] names no replicas", list->config->path,
                    list->settings->name);
        config_free(config);
        return r;
    }
    for (size_t i = 0; r == 0 && i < found->replicas.count; i++)
        r = path_list_add(paths, found->replicas.paths[i], err);
    config_free(config);
    return r;
}

static int read_names(struct replica_list *list, struct path_list *names, struct err *err)
{
    cleanup(buf_release) struct buf text;
    const char *path = list_path(list);
    struct stat found;
    int r = 0;

    buf_init(&text, SCHEMAS_BYTES_MAX);
    if (!path) {
        for (size_t i = 0; r == 0 && i < list->settings->replicas.count; i++)
            r = path_list_add(names, list->settings->replicas.paths[i], err);
        return r;
    }
    r = rewrite_read(path, &text, &found, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&list->lock);
    list->seen = found; /* also of one that says nothing of use: it is not asked again */
    pthread_mutex_unlock(&list->lock);
    if (list->settings->config)
        return schemas_read(buf_span(&text), path, list->settings->environment, names, err);
    return read_configuration(list, buf_span(&text), names, err);
}

int replica_list_read(struct replica_list *list, struct path_list *ret_paths, struct err *err)
{
    struct path_list names = {NULL, 0}, paths = {NULL, 0};
    int r = read_names(list, &names, err);

    for (size_t i = 0; r == 0 && i < names.count; i++) {
        cleanup_free char *real = NULL;
        r = source_real_path(names.paths[i], &real);
        if (r == 0)
            r = path_list_add(&paths, real, err);
    }
    path_list_release(&names);
    if (r < 0)
        path_list_release(&paths);
    else
        *ret_paths = paths;
    return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
}

/* ---- changing ---- */

/* A link stays one: the file that it leads to is replaced. */
int replica_list_edit(struct replica_list *list, const char *add, const char *remove, bool dry,
                      struct err *err)
{
    const char *path = list_path(list);
    cleanup_free char *real = path ? realpath(path, NULL) : NULL;
    cleanup(buf_release) struct buf text, edited;
    struct stat found;

    buf_init(&text, SCHEMAS_BYTES_MAX);
    buf_init(&edited, SCHEMAS_BYTES_MAX);
    if (!path)
        return err_set(err, EOPNOTSUPP,
                       "no configuration names the replicas of %s: mount a mount.conf with "
                       "\"replicas = ...\" to have more of them",
                       list->settings->replicas.paths[0]);
    if (!real)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    int r = rewrite_read(real, &text, &found, err);
    pthread_mutex_lock(&list->lock);
    if (r == 0 && !rewrite_is_same(&found, &list->seen))
        r = err_set(err, EAGAIN, "%s was changed by somebody else meanwhile: try again", path);
    pthread_mutex_unlock(&list->lock);
    if (r == 0 && list->settings->config)
        r = schemas_edit(buf_span(&text), path, list->settings->environment, add, remove, &edited,
                         err);
    else if (r == 0)
        r = config_edit_replicas(buf_span(&text), path, list->settings->name, add, remove, &edited,
                                 err);
    return r || dry ? r : rewrite_replace(real, &found, buf_span(&edited), err);
}
