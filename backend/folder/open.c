/* SPDX-License-Identifier: MIT */
/* Opening folders: what was cut short is undone, and what others have written meanwhile is read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"

static struct folder *folder_new(struct backend *store, struct backend *imports,
                                 const struct folder_options *options)
{
    struct folder *folder = calloc(1, sizeof *folder);
    const char *slash = strrchr(options->paths[0], '/');

    if (!folder) {
        if (options->list.free)
            options->list.free(options->list.context);
        backend_close(store);
        backend_close(imports);
        return NULL;
    }
    folder->backend.ops = &folder_ops;
    folder->backend.max_item_size = store->max_item_size;
    folder->list = options->list;
    folder->store = store;
    folder->imports = imports;
    folder->read_only = options->read_only;
    folder->durable = options->durable;
    folder->configure = options->configure;
    folder->configure_context = options->configure_context;
    folder->lock_fd = -1;
    for (int i = 0; i < STRIPES; i++)
        pthread_mutex_init(&folder->stripes[i], NULL);
    pthread_mutex_init(&folder->tables_lock, NULL);
    pthread_mutex_init(&folder->own_lock, NULL);
    pthread_mutex_init(&folder->outs_lock, NULL);
    pthread_mutex_init(&folder->record_lock, NULL);
    pthread_mutex_init(&folder->repairs_lock, NULL);
    repairs_open(folder);
    folder->place = strdup(options->paths[0]);
    folder->one_name = strdup(slash ? slash + 1 : options->paths[0]);
    if (!folder->place || !folder->one_name) {
        folder_close(&folder->backend);
        return NULL;
    }
    return folder;
}

/* A table of our own in the state database, made where there is none. */
static int own_table(struct folder *folder, const char *name, const char *partition,
                     const char *sort, struct table **ret_table, struct err *err)
{
    struct table *wanted = table_new(span_text(name));
    struct err own = {""};
    int r = wanted ? key_attribute_parse(span_text(partition), &wanted->partition, &own) : -ENOMEM;

    if (r == 0 && sort)
        r = key_attribute_parse(span_text(sort), &wanted->sort, &own);
    if (r == 0)
        r = backend_create_table(folder->store, wanted, &own);
    table_free(wanted);
    if (r < 0 && r != -EEXIST)
        return err_set(err, -r, "the state database: %s", err_text(&own, r));
    return backend_describe(folder->store, span_text(name), ret_table, err);
}

static int own_tables(struct folder *folder, struct err *err)
{
    int r = own_table(folder, JOURNAL_TABLE, "batch", "file", &folder->journal, err);

    if (r == 0)
        r = own_table(folder, FOREIGN_TABLE, "table", "file:B", &folder->foreign, err);
    return r ? r : own_table(folder, REPLICAS_TABLE, "path", NULL, &folder->outs, err);
}

static int count_record(void *context, const struct record *record)
{
    (void)record;
    ++*(size_t *)context;
    return 0;
}

static int found_record(void *context, const struct record *record)
{
    (void)context;
    (void)record;
    return 1;
}

/* Whether the state database has an item. */
static int has_items(struct folder *folder, bool *ret_has, struct err *err)
{
    const struct walk walk = {.limit = 1};
    struct known **all;
    size_t count;
    int r = known_all(folder, &all, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = backend_walk(folder->imports, all[i]->table, &walk, found_record, NULL, err);
    known_free_all(all, count);
    *ret_has = r == 1;
    return r == 1 ? 0 : r;
}

static int found_entry(void *context, const struct file_entry *entry)
{
    (void)context;
    (void)entry;
    return 1;
}

struct emptiness {
    struct folder *folder;
    bool some; /* a replica in use that holds something */
    size_t empty[REPLICAS_MOST], empty_count;
};

static int find_empty(void *context, size_t number, const struct replica_info *info)
{
    struct emptiness *found = context;

    if (!info->in_use)
        return 0;
    if (replica_list(found->folder->replicas, number, "", found_entry, NULL, NULL) == 0)
        found->empty[found->empty_count++] = number;
    else
        found->some = true;
    return 0;
}

/* An empty folder where there should be items: more likely than that somebody has deleted them all
 * is that a disk is not mounted. Such a replica is never a source of deletions. */
static int check_emptiness(struct folder *folder, struct err *err)
{
    struct emptiness found = {.folder = folder};
    bool has = false;
    int r = has_items(folder, &has, err);

    if (r < 0 || !has)
        return r;
    replicas_each(folder->replicas, find_empty, &found);
    if (found.empty_count && !found.some)
        return err_set(err, ENOENT,
                       "%s is empty, and held items when it was used last: is its disk mounted? "
                       "(If it is to be empty, delete its state database.)",
                       folder->place);
    for (size_t i = 0; r == 0 && i < found.empty_count; i++)
        r = replica_take_out(folder->replicas, found.empty[i], "it is empty: is its disk mounted?",
                             0, err);
    return r;
}

static int open_folders(struct folder *folder, const struct folder_options *options,
                        struct err *err)
{
    const struct walk walk = {.limit = 0};
    size_t foreign = 0;
    int r = outs_open(folder, options, err);

    if (r == 0)
        r = layout_decide(folder, options->layout, err);
    if (r == 0)
        r = list_agree(folder, options->paths, options->count, err);
    if (r == 0)
        r = check_emptiness(folder, err);
    if (r == 0 && !folder->read_only)
        r = folder_journal_recover(folder, err);
    if (r == 0 && !folder->read_only)
        r = updates_recover(folder, err);
    if (r == 0 && options->watch)
        r = watch_open(folder, options->scan_ns, err);
    if (r == 0 && options->watch)
        r = watch_all(folder, err); /* before looking: nothing falls between */
    if (r == 0)
        r = tables_find(folder, err);
    if (r == 0 && !(folder->strange && folder->missing)) {
        folder->strange = false; /* nothing is missing in it: it is the one from now on */
        r = outs_note_disks(folder, err);
    }
    if (r == 0 && options->watch)
        r = watch_all(folder, err);
    if (r == 0)
        r = backend_walk(folder->store, folder->foreign, &walk, count_record, &foreign, err);
    folder->foreign_count = foreign;
    if (r == 0 && options->watch)
        r = scan_all(folder, 0, true, err);
    if (r == 0 && options->watch)
        r = watch_start(folder, err);
    if (r == 0 && options->watch && !folder->read_only)
        r = heal_start(folder, err);
    return r;
}

int folder_open(struct backend *store, struct backend *imports,
                const struct folder_options *options, struct backend **ret_backend, struct err *err)
{
    struct folder *folder = folder_new(store, imports, options);
    int r = folder ? locks_open(folder, options->lock_path, err) : -ENOMEM;

    if (r == 0)
        r = own_tables(folder, err);
    if (r == 0)
        r = open_folders(folder, options, err);
    if (r < 0) {
        if (folder)
            folder_close(&folder->backend);
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    }
    *ret_backend = &folder->backend;
    return 0;
}
