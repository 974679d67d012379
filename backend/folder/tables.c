/* SPDX-License-Identifier: MIT */
/*
 * Tables and their folders. Whoever makes, renames or drops one holds all stripes: nobody writes an
 * item meanwhile.
 *
 * A name is changed in the folders first. Where a program dies between the two, the next start
 * finds a folder of the new name, and none of the old one: the items are there, and the settings of
 * the table are the usual ones again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"

#define KEY_NAME "-key"

struct table *folder_new_table(struct span name)
{
    struct table *table = table_new_default(name);

    if (!table)
        return NULL;
    key_attribute_release(&table->partition);
    table->partition = (struct key_attribute){strdup(KEY_NAME), VALUE_S};
    table->stream = false;
    table->strict_tags = true;
    if (!table->partition.name) {
        table_free(table);
        return NULL;
    }
    return table;
}

/* --- Describing --- */

static int current_tables(struct folder *folder, struct err *err)
{
    if (folder->watch)
        return watch_settle(folder, err);
    if (clock_steady_ns() - folder->listed_ns < NS_PER_S)
        return 0;
    return tables_find(folder, err);
}

static bool is_missing(struct folder *folder, const struct table *table)
{
    cleanup(known_release) struct known *known = NULL;

    return folder->missing && known_by_id(folder, table->id, &known, NULL) == -ENOENT;
}

struct telling {
    struct folder *folder;
    table_fn each;
    void *context;
};

/* With the rule of its tags, which is no setting of the state database's. */
static int tell_table(void *context, const struct table *table)
{
    const struct telling *telling = context;
    struct table told = *table;

    told.strict_tags = true;
    if (is_internal_name(table->name) || is_missing(telling->folder, table))
        return 0;
    return telling->each(telling->context, &told);
}

int folder_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    struct folder *folder = folder_of(backend);
    struct telling telling = {folder, each, context};
    int r = current_tables(folder, err);

    return r ? r : backend_tables(folder->store, tell_table, &telling, err);
}

int folder_describe(struct backend *backend, struct span name, struct table **ret_table,
                    struct err *err)
{
    struct folder *folder = folder_of(backend);
    struct table *table;
    int r = current_tables(folder, err);

    if (r == 0)
        r = backend_describe(folder->store, name, &table, err);
    if (r != 0)
        return r;
    if (is_internal_name(table->name) || is_missing(folder, table)) {
        table_free(table);
        return -ENOENT;
    }
    table->strict_tags = true;
    *ret_table = table;
    return 0;
}

/* --- Changing --- */

static int refuse_one(const struct folder *folder, struct err *err)
{
    return err_set(err, EOPNOTSUPP, "%s is one table, and cannot hold others (layout = table)",
                   folder->place);
}

int folder_check_table(struct backend *backend, const struct table *table, struct err *err)
{
    const struct folder *folder = folder_of(backend);

    if (folder->read_only)
        return err_set(err, EROFS, "%s is open for reading only", folder->place);
    if (folder->one_table)
        return refuse_one(folder, err);
    if (is_internal_name(table->name))
        return err_set(err, EINVAL, "table %s: the name is taken", table->name);
    if (table_sorted(table))
        return err_set(err, EOPNOTSUPP,
                       "table %s: tables in folders have no sort key: a file's name is one key",
                       table->name);
    return 0;
}

static int create_locked(struct folder *folder, const struct table *table, struct err *err)
{
    struct err own = {""};
    int r = replicas_make_folder(folder->replicas, table->name, &own);

    if (r == -EEXIST)
        return err_set(err, EEXIST, "table %s exists", table->name);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = tables_forget(folder, table->name, err);
    if (r == 0)
        r = backend_create_table(folder->store, table, err);
    if (r < 0)
        (void)replicas_remove_folder(folder->replicas, table->name, NULL);
    return r ? r : locks_next_generation(folder, err);
}

int folder_create_table(struct backend *backend, const struct table *table, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = tables_find(folder, err);

    if (r == 0)
        r = locks_take(folder, ALL_STRIPES, err);
    if (r < 0)
        return r;
    r = create_locked(folder, table, err);
    locks_give(folder, ALL_STRIPES);
    if (r == 0 && folder->watch)
        r = watch_table(folder, table->name, err);
    return r;
}

static int found_item(void *context, const struct record *record)
{
    (void)context;
    (void)record;
    return 1;
}

static int found_scratch(void *context, const struct scratch *scratch)
{
    (void)context;
    (void)scratch;
    return 1;
}

/* All stripes are held: what is empty stays so. */
static int check_empty(struct folder *folder, const struct table *table, struct err *err)
{
    const struct walk walk = {.limit = 1};
    int r = backend_walk(folder->store, table, &walk, found_item, NULL, err);

    if (r == 1)
        return err_set(err, ENOTEMPTY, "table %s has items", table->name);
    if (r == 0)
        r = backend_scratch_list(folder->store, table, span_of(NULL, 0), 0, found_scratch, NULL,
                                 err);
    return r == 1 ? err_set(err, ENOTEMPTY, "table %s has files beside its items", table->name) : r;
}

struct emptying {
    struct folder *folder;
    struct known *known;
    struct buf names; /* of the items' files, each with its NUL */
    const char *foreign;
};

static int note_file(void *context, const struct file_entry *entry)
{
    struct emptying *emptying = context;
    struct folder *folder = emptying->folder;
    cleanup(buf_release) struct buf part;
    struct item_meta meta;
    struct err own = {""};

    buf_init(&part, KEY_PART_MAX + 1);
    int r = key_of_file_name(emptying->known->table, entry->name, &part, &own);
    if (r == 0)
        r = mirror_get(folder, emptying->known->table, buf_span(&part), &meta, NULL, &own);
    if (r != 0)
        return -ENOTEMPTY; /* named by the removal of the folder */
    buf_add(&emptying->names, entry->name, strlen(entry->name) + 1);
    return buf_error(&emptying->names);
}

static int delete_files(struct folder *folder, const char *name, const struct buf *names,
                        struct err *err)
{
    bool changed;
    int r = 0;

    for (size_t at = 0; r == 0 && at < names->len; at += strlen(names->data + at) + 1) {
        const struct file_op op = {.kind = FILE_DELETE, .folder = name, .name = names->data + at};
        r = replicas_apply(folder->replicas, &op, 1, false, &changed, err);
    }
    return r;
}

/* The files of items; nothing where there are others too: then the removal says which. */
static int empty_folder(struct folder *folder, struct known *known, struct err *err)
{
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    struct emptying emptying = {.folder = folder, .known = known};
    int r = 0;

    buf_init(&emptying.names, SIZE_MAX / 2);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct replica_info info;
        replica_info(folder->replicas, numbers[i], &info);
        if (info.in_use)
            r = replica_list(folder->replicas, numbers[i], known->folder, note_file, &emptying,
                             err);
    }
    if (r == 0)
        r = delete_files(folder, known->folder, &emptying.names, err);
    buf_release(&emptying.names);
    return r == -ENOTEMPTY ? 0 : r;
}

/* What is no item stays, and with it the table. */
static int drop_locked(struct folder *folder, const struct table *table, bool force,
                       struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    int r = known_by_id(folder, table->id, &known, err);

    if (r == 0 && !force)
        r = check_empty(folder, known->table, err);
    if (r == 0) /* of all items, or of those that have expired */
        r = empty_folder(folder, known, err);
    if (r == 0)
        r = replicas_remove_folder(folder->replicas, known->folder, err);
    if (r == 0)
        r = backend_drop_table(folder->store, known->table, true, err);
    return r ? r : locks_next_generation(folder, err);
}

/* What others have written counts: it is looked for first. */
int folder_drop_table(struct backend *backend, const struct table *table, bool force,
                      struct err *err)
{
    struct folder *folder = folder_of(backend);
    cleanup(known_release) struct known *known = NULL;
    int r =
        folder->read_only ? err_set(err, EROFS, "%s is open for reading only", folder->place) : 0;

    if (r == 0 && folder->one_table)
        return refuse_one(folder, err);
    if (r == 0 && folder->watch)
        r = watch_drain(folder, err);
    if (r == 0)
        r = known_by_id(folder, table->id, &known, err);
    if (r == 0 && !folder->watch)
        r = scan_table(folder, known, false, err);
    if (r == 0)
        r = locks_take(folder, ALL_STRIPES, err);
    if (r < 0)
        return r;
    r = drop_locked(folder, table, force, err);
    locks_give(folder, ALL_STRIPES);
    return r;
}

static int alter_locked(struct folder *folder, const struct known *known, const struct table *table,
                        struct err *err)
{
    bool renamed = strcmp(known->table->name, table->name) != 0;
    struct err own = {""};
    int r = 0;

    if (renamed && folder->one_table)
        return refuse_one(folder, err);
    if (renamed && is_internal_name(table->name))
        return err_set(err, EINVAL, "table %s: the name is taken", table->name);
    if (renamed)
        r = replicas_rename_folder(folder->replicas, known->folder, table->name, &own);
    if (r == -EEXIST)
        return err_set(err, EEXIST, "table %s exists", table->name);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (renamed)
        r = tables_forget(folder, table->name, err);
    if (r == 0)
        r = backend_alter_table(folder->store, table, err);
    if (r < 0 && renamed)
        (void)replicas_rename_folder(folder->replicas, table->name, known->folder, NULL);
    return r ? r : locks_next_generation(folder, err);
}

int folder_alter_table(struct backend *backend, const struct table *table, struct err *err)
{
    struct folder *folder = folder_of(backend);
    cleanup(known_release) struct known *known = NULL;
    int r = locks_take(folder, ALL_STRIPES, err);

    if (r < 0)
        return r;
    r = known_by_id(folder, table->id, &known, err);
    if (r == 0)
        r = alter_locked(folder, known, table, err);
    locks_give(folder, ALL_STRIPES);
    if (r == 0 && folder->watch && strcmp(known->table->name, table->name) != 0)
        r = watch_table(folder, table->name, err);
    /* Names that are keys of the one style may be none of the other. */
    if (r == 0 && known->table->keys != table->keys)
        r = scan_all(folder, INT64_MAX, false, err);
    return r;
}

/* Indexes are the state database's alone. */
int folder_alter_indexes(struct backend *backend, const struct table *table, struct err *err)
{
    struct folder *folder = folder_of(backend);
    int r = locks_take(folder, ALL_STRIPES, err);

    if (r < 0)
        return r;
    r = backend_alter_indexes(folder->store, table, err);
    if (r == 0)
        r = locks_next_generation(folder, err);
    locks_give(folder, ALL_STRIPES);
    return r;
}
