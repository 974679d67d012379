/* SPDX-License-Identifier: MIT */
/* Backends opened as the configuration says; services with a state database beside them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/beside.h"
#include "backend/dynamodb/dynamodb.h"
#include "backend/source.h"
#include "backend/source_private.h"
#include "backend/sqlite/sqlite.h"
#include "backend/times.h"
#include "base/cleanup.h"
#include "base/text.h"

/* DIRECTORY with those above it, for this user alone. */
static int make_directory(const char *directory, struct err *err)
{
    cleanup_free char *path = strdup(directory);

    for (char *at = path ? path + 1 : NULL; at && *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return err_set(err, errno, "%s: %s (for state_dir, %s)", path, strerror(errno),
                           directory);
        *at = '/';
    }
    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        return err_set(err, errno, "%s: %s (state_dir)", directory, strerror(errno));
    return 0;
}

int source_make_state(const struct config *config, struct err *err)
{
    return make_directory(config->state_dir, err);
}

/* Where the state of ITEMS is kept: one place for each endpoint, region and profile. */
static int state_path(const struct config *config, const struct backend_config *settings,
                      struct backend *items, const char *suffix, char **ret_path)
{
    cleanup(buf_release) struct buf text;
    char hash[65];

    buf_init(&text, 65536);
    buf_addf(&text, "%s\n%s\n%s\n", dynamodb_endpoint(items), dynamodb_region(items),
             settings->profile ? settings->profile : "");
    if (buf_error(&text))
        return buf_error(&text);
    sha256_hex(buf_span(&text), hash);
    return asprintf(ret_path, "%s/dynamodb-%.16s%s", config->state_dir, hash, suffix) < 0 ? -ENOMEM
                                                                                          : 0;
}

/* One that is damaged is not put aside by itself: there may be drafts in it. */
int source_explain_state(int code, const struct err *own, struct err *err)
{
    if (code != -EUCLEAN && code != -EINVAL)
        return err_set(err, -code, "%s", err_text(own, code));
    return err_set(err, -code,
                   "%s: this is the state database; it may be moved away or deleted together with "
                   "its -wal and -shm: drafts, scratch files and times of change are lost with it, "
                   "and no item",
                   err_text(own, code));
}

static int open_state(const char *path, const char *times_path, struct backend **ret_state,
                      struct times **ret_times, struct err *err)
{
    const struct sqlite_options options = {.create = true, .max_item_size = UINT64_C(1) << 28};
    struct backend *state;
    struct err own = {""};
    int r = sqlite_open(path, &options, &state, &own);

    if (r < 0)
        return source_explain_state(r, &own, err);
    r = times_open(times_path, 0, ret_times, err);
    if (r < 0) {
        backend_close(state);
        return r;
    }
    *ret_state = state;
    return 0;
}

/* ITEMS with its state database beside it; takes ITEMS. */
static int open_beside(const struct config *config, const struct backend_config *settings,
                       struct backend *items, struct backend **ret_backend, struct err *err)
{
    cleanup_free char *path = NULL, *times_path = NULL, *lock_path = NULL;
    struct backend *state = NULL;
    struct times *times = NULL;
    struct err own = {""};
    int r = source_make_state(config, err);

    if (r == 0)
        r = state_path(config, settings, items, ".db", &path);
    if (r == 0)
        r = state_path(config, settings, items, ".times", &times_path);
    if (r == 0)
        r = state_path(config, settings, items, ".lock", &lock_path);
    if (r == 0)
        r = open_state(path, times_path, &state, &times, err);
    if (r < 0) {
        backend_close(items);
        return r;
    }
    r = beside_new(items, state, times, config->read_only ? NULL : lock_path, ret_backend, &own);
    if (r == -EUCLEAN) {
        struct err named = {""};
        err_set(&named, EUCLEAN, "%s: %s", path, err_text(&own, r));
        return source_explain_state(r, &named, err);
    }
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

/* The budgets of a service: of all its tables together, and of each that may be in it. On the heap;
 * NULL: no memory. */
static struct capacity_budget *
find_budgets(const struct config *config, const struct backend_config *settings, size_t *ret_count)
{
    struct capacity_budget *budgets = calloc(config->table_count + 1, sizeof *budgets);
    size_t count = 0;

    if (!budgets)
        return NULL;
    budgets[count++] =
        (struct capacity_budget){NULL, {settings->read_units, settings->write_units}};
    for (size_t i = 0; i < config->table_count; i++) {
        const struct table_config *table = &config->tables[i];
        if (!table->backend || strcmp(table->backend, settings->name) == 0)
            budgets[count++] =
                (struct capacity_budget){table->name, {table->read_units, table->write_units}};
    }
    *ret_count = count;
    return budgets;
}

static int open_service(const struct config *config, const struct backend_config *settings,
                        struct backend **ret_backend, struct err *err)
{
    size_t budget_count = 0;
    cleanup_free struct capacity_budget *budgets = find_budgets(config, settings, &budget_count);
    const struct dynamodb_options options = {.region = settings->region,
                                             .endpoint = settings->endpoint,
                                             .profile = settings->profile,
                                             .ca_file = settings->ca_file,
                                             .tables = settings->tables,
                                             .segments = (unsigned)settings->segments,
                                             .read_only = config->read_only,
                                             .stream_poll_ms =
                                                 (unsigned)(config->stream_poll * 1000),
                                             .max_item_size = config->max_item_size,
                                             .budgets = budgets,
                                             .budget_count = budget_count};
    struct backend *items;
    struct err own = {""};
    int r = budgets ? dynamodb_open(&options, &items, &own) : -ENOMEM;

    if (r < 0)
        return err_set(err, -r, "dynamodb:%s: %s", settings->region ? settings->region : "",
                       err_text(&own, r));
    return open_beside(config, settings, items, ret_backend, err);
}

int source_open_backend(const struct config *config, const struct backend_config *settings,
                        bool create, struct backend **ret_backend, struct err *err)
{
    struct sqlite_options options = {
        .create = create && !config->read_only,
        .read_only = config->read_only,
        .max_item_size = config->max_item_size,
    };

    switch (settings->type) {
    case BACKEND_TYPE_SQLITE: return sqlite_open(settings->path, &options, ret_backend, err);
    case BACKEND_TYPE_DYNAMODB: return open_service(config, settings, ret_backend, err);
    case BACKEND_TYPE_FOLDER: return source_open_folder(config, settings, ret_backend, err);
    }
    return err_set(err, EOPNOTSUPP, "backend %s has an unknown type", settings->name);
}
