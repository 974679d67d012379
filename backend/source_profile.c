/* SPDX-License-Identifier: MIT */
/* Tables with a profile: what the configuration says of them, and a source that shows them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/profile/shown.h"
#include "backend/source.h"
#include "backend/source_private.h"
#include "base/cleanup.h"

int source_choose_profiles(struct source *source, struct err *err)
{
    const struct config *config = source->config;
    int r = 0;

    source->choices = calloc(config->table_count + 1, sizeof *source->choices);
    if (!source->choices)
        return err_set(err, ENOMEM, "no memory");
    for (size_t i = 0; r == 0 && i < config->table_count; i++)
        r = profile_choose(config, &config->tables[i], &source->choices[i], err);
    return r;
}

void source_forget_profiles(struct source *source)
{
    for (size_t i = 0; source->choices && i < source->config->table_count; i++)
        if (source->choices[i].profile)
            profile_choice_release(&source->choices[i]);
    free(source->choices);
}

const struct profile_choice *source_choice(const struct source *source, struct span name)
{
    const struct table_config *settings = config_table(source->config, name);
    const struct profile_choice *choice =
        settings ? &source->choices[settings - source->config->tables] : NULL;

    return choice && choice->profile ? choice : NULL;
}

/* --- A source as a mount shows it --- */

/* Whether a table with a profile may be in the backend at PLACE. */
static bool may_have_profiles(const struct source *source, size_t place)
{
    const struct config *config = source->config;

    for (size_t i = 0; i < config->table_count; i++)
        if (config->tables[i].profile &&
            (!config->tables[i].backend ||
             strcmp(config->tables[i].backend, config->backends[place].name) == 0))
            return true;
    return false;
}

int source_show(struct source *stored, struct source **ret_source, struct err *err)
{
    struct source *source = calloc(1, sizeof *source);
    int r = 0;

    if (source)
        source->backends = calloc(stored->count, sizeof(struct backend *));
    if (!source || !source->backends) {
        free(source);
        return err_set(err, ENOMEM, "no memory");
    }
    source->config = stored->config;
    source->choices = stored->choices;
    source->stored = stored;
    while (r == 0 && source->count < stored->count) {
        size_t place = source->count;
        source->backends[place] = stored->backends[place];
        if (may_have_profiles(stored, place))
            r = shown_new(stored->backends[place], stored->config->read_only,
                          &source->backends[place]);
        source->count += r == 0;
    }
    if (r < 0) {
        source_close(source);
        return err_set(err, -r, "no memory");
    }
    *ret_source = source;
    return 0;
}

int source_shown_table(struct source *source, struct span name, struct backend **ret_backend,
                       struct table **ret_table, struct err *err)
{
    const struct profile_choice *choice = source_choice(source, name);
    struct backend *backend;
    struct table *stored, *shown;
    size_t place = 0;
    int r = source_table(source->stored, name, &backend, &stored, err);

    if (r < 0)
        return r;
    while (source->stored->backends[place] != backend)
        place++;
    *ret_backend = source->backends[place];
    if (!choice || source->backends[place] == backend) {
        if (source->backends[place] != backend)
            shown_plain(source->backends[place], stored->id);
        *ret_table = stored;
        return 0;
    }
    r = shown_table(source->backends[place], choice, stored, &shown, err);
    table_free(stored);
    if (r == 0)
        *ret_table = shown;
    return r;
}

struct shown_walk {
    struct source *source;
    table_fn each;
    void *context;
};

/* What was told is told by the stored source when it has collected all: it may be asked again. */
static int tell_shown(void *context, const struct table *stored)
{
    const struct shown_walk *walk = context;
    struct backend *backend;
    struct table *shown;

    if (!source_choice(walk->source, span_text(stored->name)) ||
        source_shown_table(walk->source, span_text(stored->name), &backend, &shown, NULL) < 0)
        return walk->each(walk->context, stored);
    int r = walk->each(walk->context, shown);
    table_free(shown);
    return r;
}

int source_shown_tables(struct source *source, table_fn each, void *context, struct err *err)
{
    struct shown_walk walk = {source, each, context};

    return source_tables(source->stored, tell_shown, &walk, err);
}

/* --- The first reads --- */

static int read_first(struct source *stored, struct span name, const char *key, struct err *err)
{
    struct backend *backend;
    struct table *table;
    struct item_meta meta;
    int r = source_table(stored, name, &backend, &table, err);

    if (r < 0)
        return r;
    if (!table_sorted(table) && table->partition.type == VALUE_S)
        r = backend_get(backend, table, (struct key){.partition = span_text(key)}, &meta, NULL,
                        err);
    table_free(table);
    return r;
}

void source_first_reads(struct source *stored, first_read_fn failed, void *context)
{
    for (size_t i = 0; i < stored->config->table_count; i++) {
        const struct profile_choice *choice = &stored->choices[i];
        const char *name = stored->config->tables[i].name;
        const char *key = choice->profile && choice->profile->first_read
                              ? choice->profile->first_read(choice->options)
                              : NULL;
        struct err err = {""};
        int r = key ? read_first(stored, span_text(name), key, &err) : 0;
        if (r < 0 && r != -ENOENT)
            failed(context, name, err_text(&err, r));
    }
}
