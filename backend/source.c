/* SPDX-License-Identifier: MIT */
#include "backend/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/beside.h"
#include "backend/dynamodb/dynamodb.h"
#include "backend/sqlite/sqlite.h"
#include "backend/times.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

/* ---- settings ---- */

static bool kept_settings_equal(const struct table *a, const struct table *b)
{
    return a->keys == b->keys && a->stream == b->stream &&
           text_equal(a->ttl_attribute, b->ttl_attribute);
}

/* Gives TABLE back the settings that the backend keeps for it. */
static void keep_settings(const struct table_config *settings, struct table *table,
                          struct table *kept)
{
    char *attribute = table->ttl_attribute;

    table->ttl_attribute = kept->ttl_attribute;
    kept->ttl_attribute = attribute;
    table->keys = kept->keys;
    table->stream = kept->stream;
    if (!settings->has_show_keys)
        table->show_keys = kept->show_keys;
}

/* Applies the configuration to TABLE, as BACKEND described it. On failure the table still has what
 * the backend keeps, so that a caller may go on with it. */
static int settle(const struct source *source, struct backend *backend, struct table *table,
                  struct err *err)
{
    const struct table_config *settings = config_table(source->config, span_text(table->name));
    struct table *kept;
    int r = 0;

    if (!settings)
        return 0;
    kept = table_copy(table);
    if (!kept)
        return err_set(err, ENOMEM, "no memory");
    config_apply(source->config, table);
    if (!kept_settings_equal(table, kept)) {
        if (!source->config->read_only)
            r = backend_alter_table(backend, table, err);
        if (r < 0 || source->config->read_only)
            keep_settings(settings, table, kept);
    }
    table_free(kept);
    return r;
}

/* ---- one table ---- */

/* The place of the backend that [table NAME] names, or source->count. */
static size_t configured_place(const struct source *source, struct span name)
{
    const struct table_config *settings = config_table(source->config, name);

    if (!settings || !settings->backend)
        return source->count;
    for (size_t i = 0; i < source->count; i++)
        if (strcmp(source->config->backends[i].name, settings->backend) == 0)
            return i;
    return source->count;
}

struct backend *source_backend_for(struct source *source, struct span name)
{
    size_t place = configured_place(source, name);

    return source->backends[place < source->count ? place : 0];
}

struct table *source_new_table(struct source *source, struct span name)
{
    struct table *table = table_new_default(name);

    if (table && !backend_can(source_backend_for(source, name), BACKEND_SETTINGS)) {
        table->keys = KEYS_PLAIN;
        table->stream = false;
    }
    return table;
}

static int describe(struct source *source, size_t place, struct span name,
                    struct backend **ret_backend, struct table **ret_table, struct err *err)
{
    struct table *table;
    int r = backend_describe(source->backends[place], name, &table, err);

    if (r < 0)
        return r;
    r = settle(source, source->backends[place], table, err);
    if (r < 0) {
        table_free(table);
        return r;
    }
    *ret_backend = source->backends[place];
    *ret_table = table;
    return 0;
}

int source_table(struct source *source, struct span name, struct backend **ret_backend,
                 struct table **ret_table, struct err *err)
{
    size_t first = configured_place(source, name);
    struct err own = {""}, denied = {""};
    int r = -ENOENT;

    if (first < source->count)
        r = describe(source, first, name, ret_backend, ret_table, &own);
    for (size_t i = 0; r == -ENOENT && i < source->count; i++) {
        err_clear(&own);
        if (i != first)
            r = describe(source, i, name, ret_backend, ret_table, &own);
        /* A service may say so of any name, its tables' or not: another backend may have it. */
        if (r == -EACCES && i + 1 < source->count) {
            err_set(&denied, EACCES, "%s", err_text(&own, r));
            r = -ENOENT;
        }
    }
    if (r == -ENOENT && denied.text[0])
        return err_set(err, EACCES, "%s", denied.text);
    if (r == -ENOENT)
        return err_set(err, ENOENT, "there is no table \"%.*s\"", (int)name.len,
                       name.len ? name.data : "");
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

/* ---- all tables ---- */

struct found {
    struct table *table;
    size_t place;
    size_t rank; /* 0: where the configuration wants it; else by place */
};

struct collection {
    const struct source *source;
    size_t place;
    struct found *items;
    size_t count;
};

static int collect(void *context, const struct table *table)
{
    struct collection *all = context;
    struct found *items = reallocarray(all->items, all->count + 1, sizeof *items);
    struct table *copy = items ? table_copy(table) : NULL;
    size_t wanted;

    if (items)
        all->items = items;
    if (!copy)
        return -ENOMEM;
    wanted = configured_place(all->source, span_text(table->name));
    items[all->count++] = (struct found){
        .table = copy,
        .place = all->place,
        .rank = wanted == all->place ? 0 : all->place + 1,
    };
    return 0;
}

static int compare_found(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    int order = strcmp(a->table->name, b->table->name);

    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* A setting that a backend refuses is not made: its own stands. */
static int tell(struct source *source, struct collection *all, table_fn each, void *context)
{
    const char *before = NULL;
    int r = 0;

    for (size_t i = 0; r == 0 && i < all->count; i++) {
        struct found *found = &all->items[i];

        if (before && strcmp(before, found->table->name) == 0)
            continue;
        before = found->table->name;
        (void)settle(source, source->backends[found->place], found->table, NULL);
        r = each(context, found->table);
    }
    return r;
}

int source_tables(struct source *source, table_fn each, void *context, struct err *err)
{
    struct collection all = {.source = source};
    int r = 0;

    for (; r == 0 && all.place < source->count; all.place++)
        r = backend_tables(source->backends[all.place], collect, &all, err);
    if (all.count)
        qsort(all.items, all.count, sizeof *all.items, compare_found);
    if (r == 0)
        r = tell(source, &all, each, context);
    for (size_t i = 0; i < all.count; i++)
        table_free(all.items[i].table);
    free(all.items);
    return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
}

int source_forbidden(struct source *source, forbidden_fn each, void *context)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < source->count; i++)
        r = backend_forbidden(source->backends[i], each, context);
    return r;
}

/* ---- opening ---- */

/* DIRECTORY with those above it, for this user alone. */
static int make_directory(const char *directory, struct err *err)
{
    cleanup_free char *path = strdup(directory);

    for (char *at = path ? path + 1 : NULL; at && *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return err_set(err, errno, "%s: %s", path, strerror(errno));
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
static int explain_state(int code, const struct err *own, struct err *err)
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
        return explain_state(r, &own, err);
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
        return explain_state(r, &named, err);
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

static int open_backend(const struct config *config, const struct backend_config *settings,
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
    }
    return err_set(err, EOPNOTSUPP, "backend %s has an unknown type", settings->name);
}

/* The settings of [table NAME], for those that are there. */
static int apply_settings(struct source *source, struct err *err)
{
    for (size_t i = 0; i < source->config->table_count; i++) {
        const char *name = source->config->tables[i].name;
        struct backend *backend;
        struct table *table;
        struct err own = {""};
        int r = source_table(source, span_text(name), &backend, &table, &own);
        if (r == 0)
            table_free(table);
        else if (r == -EACCES) /* the other tables are to be had all the same */
            log_warning("tables", "[table %s]: %s", name, err_text(&own, r));
        else if (r != -ENOENT)
            return err_set(err, -r, "%s", err_text(&own, r));
    }
    return 0;
}

int source_open(const struct config *config, bool create, struct source **ret_source,
                struct err *err)
{
    struct source *source = calloc(1, sizeof *source);
    int r = 0;

    if (source)
        source->backends = calloc(config->backend_count, sizeof(struct backend *));
    if (!source || !source->backends) {
        source_close(source);
        return err_set(err, ENOMEM, "no memory");
    }
    source->config = config;
    while (r == 0 && source->count < config->backend_count) {
        r = open_backend(config, &config->backends[source->count], create,
                         &source->backends[source->count], err);
        source->count += r == 0;
    }
    if (r == 0)
        r = apply_settings(source, err);
    if (r < 0) {
        source_close(source);
        return r;
    }
    *ret_source = source;
    return 0;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    for (size_t i = 0; i < source->count; i++)
        backend_close(source->backends[i]);
    free(source->backends);
    free(source);
}
