/* SPDX-License-Identifier: MIT */
#include "backend/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/folder.h"
#include "backend/source_private.h"
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

/* What the profile of TABLE says of it. */
static int fit_profile(const struct source *source, struct table *table, struct err *err)
{
    const struct profile_choice *choice = source_choice(source, span_text(table->name));
    struct err why = {""};

    if (!choice)
        return 0;
    int r = choice->profile->fit(choice->options, table, &why);
    table->show_keys = true;
    return r < 0 ? err_set(err, -r, "table %s: %s", table->name, err_text(&why, r)) : 0;
}

/* Whether BACKEND is to be told of the settings of TABLE, which it has described as KEPT: those of
 * a profile are none of a service's, whose tables belong to other programs. */
static bool must_alter(const struct source *source, const struct backend *backend,
                       const struct table *table, const struct table *kept)
{
    if (source_choice(source, span_text(table->name)) && !backend_can(backend, BACKEND_SETTINGS))
        return table->stream != kept->stream;
    return !kept_settings_equal(table, kept);
}

/* KEPT's settings, but for the stream's, which is TABLE's: what a service is told where they are
 * its own. */
static int alter(const struct source *source, struct backend *backend, const struct table *table,
                 const struct table *kept, struct err *err)
{
    if (!source_choice(source, span_text(table->name)) || backend_can(backend, BACKEND_SETTINGS))
        return backend_alter_table(backend, table, err);
    struct table *told = table_copy(kept);
    if (!told)
        return err_set(err, ENOMEM, "no memory");
    told->stream = table->stream;
    int r = backend_alter_table(backend, told, err);
    table_free(told);
    return r;
}

/* Applies the configuration to TABLE, as BACKEND described it. On failure the table still has what
 * the backend keeps, so that a caller may go on with it. */
static int settle(const struct source *source, struct backend *backend, struct table *table,
                  struct err *err)
{
    const struct table_config *settings = config_table(source->config, span_text(table->name));
    struct table *kept;

    if (!settings)
        return 0;
    kept = table_copy(table);
    if (!kept)
        return err_set(err, ENOMEM, "no memory");
    config_apply(source->config, table);
    int r = fit_profile(source, table, err);
    bool wanted = r == 0 && must_alter(source, backend, table, kept);
    if (wanted && !source->config->read_only)
        r = alter(source, backend, table, kept, err);
    if (r < 0 || (wanted && source->config->read_only && !settings->profile))
        keep_settings(settings, table, kept);
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

/* Units are a matter of those who count them. */
struct table *source_new_profile_table(struct source *source, struct span name,
                                       const struct profile_choice *choice)
{
    const struct backend *backend = source_backend_for(source, name);
    struct table *table = table_new(name);

    if (table && profile_make_table(choice, table, NULL) < 0) {
        table_free(table);
        return NULL;
    }
    if (table && !backend->ops->measure)
        table->read_units = table->write_units = 0;
    if (table && backend_can(backend, BACKEND_SETTINGS)) /* where it costs nothing */
        table->stream = true;
    return table;
}

struct table *source_new_table(struct source *source, struct span name)
{
    const struct backend *backend = source_backend_for(source, name);
    const struct profile_choice *choice = source_choice(source, name);

    if (choice)
        return source_new_profile_table(source, name, choice);
    struct table *table =
        backend_can(backend, BACKEND_FILES) ? folder_new_table(name) : table_new_default(name);

    if (table && !backend_can(backend, BACKEND_SETTINGS)) {
        table->keys = KEYS_PLAIN;
        table->stream = false;
    }
    if (table && config_shape(source->config, table) < 0) {
        table_free(table);
        return NULL;
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

static int find_table(struct source *source, struct span name, struct backend **ret_backend,
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

int source_table(struct source *source, struct span name, struct backend **ret_backend,
                 struct table **ret_table, struct err *err)
{
    return source->stored ? source_shown_table(source, name, ret_backend, ret_table, err)
                          : find_table(source, name, ret_backend, ret_table, err);
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

    if (source->stored)
        return source_shown_tables(source, each, context, err);

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
    r = source_choose_profiles(source, err);
    if (r == 0)
        r = source_check_folders(config, err);
    while (r == 0 && source->count < config->backend_count) {
        r = source_open_backend(config, &config->backends[source->count], create,
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
        if (!source->stored || source->backends[i] != source->stored->backends[i])
            backend_close(source->backends[i]);
    if (!source->stored)
        source_forget_profiles(source);
    free(source->backends);
    free(source);
}
