/* SPDX-License-Identifier: MIT */
/*
 * Folders that are tables. One that somebody has made is a table from then on.
 *
 * A table whose folder is gone in every replica in use is out of sight at once, and is dropped a
 * second later: who puts another folder in the place of one moves that away first, and means the
 * same table. Where a replica is not the folder that it was when it was in use last (disks.c), what
 * it lacks was not removed by anybody, and the table stays out of sight until its folder is there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"
#include "base/log.h"

struct names {
    char **names;
    size_t count;
};

static void names_release(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
}

static int names_add(void *context, const char *name)
{
    struct names *names = context;
    char **bigger = reallocarray(names->names, names->count + 1, sizeof *bigger);

    if (!bigger)
        return -ENOMEM;
    names->names = bigger;
    bigger[names->count] = strdup(name);
    if (!bigger[names->count])
        return -ENOMEM;
    names->count++;
    return 0;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* In their order, each once. */
static void names_sort(struct names *names)
{
    size_t kept = 0;

    if (names->count)
        qsort(names->names, names->count, sizeof *names->names, compare_names);
    for (size_t i = 0; i < names->count; i++) {
        if (kept && strcmp(names->names[kept - 1], names->names[i]) == 0)
            free(names->names[i]);
        else
            names->names[kept++] = names->names[i];
    }
    names->count = kept;
}

static bool names_have(const struct names *names, const char *name)
{
    return names->count &&
           bsearch(&name, names->names, names->count, sizeof *names->names, compare_names);
}

/* In any replica in use. A replica whose folders cannot be listed counts for nothing here; where no
 * one's can, that is the error. */
static int list_folders(struct folder *folder, struct names *names, struct err *err)
{
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    struct err own = {""};
    int failed = -EIO;
    bool listed = false;

    for (size_t i = 0; i < count; i++) {
        struct replica_info info;
        replica_info(folder->replicas, numbers[i], &info);
        if (!info.in_use)
            continue;
        int r = replica_folders(folder->replicas, numbers[i], names_add, names, &own);
        if (r == -ENOMEM)
            return err_set(err, ENOMEM, "no memory");
        if (r < 0 && count > 1)
            (void)replica_take_out(folder->replicas, numbers[i], err_text(&own, r), 0, NULL);
        failed = r < 0 ? r : failed;
        listed |= r == 0;
    }
    names_sort(names);
    return listed ? 0 : err_set(err, -failed, "%s", err_text(&own, failed));
}

static int adopt(struct folder *folder, const char *name, struct err *err)
{
    struct err own = {""};

    if (is_internal_name(name) || table_check_name(span_text(name), &own) < 0) {
        log_warning("folder", "%s/%s is no table: %s", folder->place, name,
                    own.text[0] ? own.text : "the name is taken");
        return 0;
    }
    struct table *table = folder_new_table(span_text(name));
    if (!table)
        return err_set(err, ENOMEM, "no memory");
    int r = backend_create_table(folder->imports, table, &own);
    table_free(table);
    if (r < 0 && r != -EEXIST)
        return err_set(err, -r, "%s", err_text(&own, r));
    folder->imported++;
    return locks_next_generation(folder, err);
}

static int abandon(struct folder *folder, const struct known *known, struct err *err)
{
    log_warning("folder", "%s/%s is gone: so is the table", folder->place, known->folder);
    int r = backend_drop_table(folder->imports, known->table, true, err);

    if (r < 0 && r != -ENOENT)
        return r;
    err_clear(err);
    folder->imported++;
    return locks_next_generation(folder, err);
}

int tables_forget(struct folder *folder, const char *name, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct err own = {""};
    int r = known_by_folder(folder, name, &known, &own);

    if (r == 0 && known->missing_ns)
        return abandon(folder, known, err);
    return r == 0 || r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
}

/* Whoever follows the log looks at the tables again. */
static int tell_all(struct folder *folder, const struct known *known, struct err *err)
{
    struct table *table;
    struct err own = {""};
    int r = backend_describe(folder->imports, span_text(known->table->name), &table, &own);

    if (r == 0) {
        r = backend_alter_table(folder->imports, table, &own);
        table_free(table);
    }
    folder->imported++;
    return r == 0 || r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
}

static bool is_over(const struct folder *folder, const struct known *known)
{
    return known->missing_ns && !folder->strange &&
           clock_steady_ns() - known->missing_ns >= GRACE_NS;
}

bool tables_are_due(const struct folder *folder)
{
    return folder->missing && !folder->strange && clock_steady_ns() - folder->listed_ns >= GRACE_NS;
}

/* Whether what is known of the table's folder is no longer so. */
static bool has_moved(const struct folder *folder, const struct known *known, bool there)
{
    return there ? known->missing_ns != 0 : !known->missing_ns || is_over(folder, known);
}

static int follow_move(struct folder *folder, const struct known *known, bool there,
                       struct err *err)
{
    if (!there && known->missing_ns)
        return abandon(folder, known, err);
    known_set_missing(folder, known->table->id, !there);
    if (!there && folder->strange)
        log_warning("folder",
                    "%s/%s is missing, and %s is not the folder that it was: what is kept beside "
                    "the table's files stays until it is there again",
                    folder->place, known->folder, folder->place);
    return folder->watch ? tell_all(folder, known, err) : 0; /* else nobody follows */
}

static int compare_folders(const void *left, const void *right)
{
    return strcmp((*(struct known *const *)left)->folder, (*(struct known *const *)right)->folder);
}

static int find_folder(const void *name, const void *known)
{
    return strcmp(name, (*(struct known *const *)known)->folder);
}

/* ALL are in the order of their folders. */
static bool is_known(struct known *const *all, size_t count, const char *name)
{
    return bsearch(name, all, count, sizeof *all, find_folder);
}

/* All stripes are held, or nothing needs to be done. */
static int compare(struct folder *folder, bool locked, bool *ret_differ, struct err *err)
{
    cleanup(names_release) struct names names = {NULL, 0};
    struct known **all = NULL;
    size_t count = 0;
    int r = list_folders(folder, &names, err);

    if (r == 0)
        r = known_all(folder, &all, &count, err);
    if (r == 0)
        qsort(all, count, sizeof(struct known *), compare_folders);
    *ret_differ = false;
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        if (is_known(all, count, names.names[i]) || is_internal_name(names.names[i]) ||
            table_check_name(span_text(names.names[i]), NULL) < 0)
            continue;
        *ret_differ = true;
        if (locked)
            r = adopt(folder, names.names[i], err);
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        bool there = names_have(&names, all[i]->folder);
        if (!has_moved(folder, all[i], there))
            continue;
        *ret_differ = true;
        if (locked)
            r = follow_move(folder, all[i], there, err);
    }
    known_free_all(all, count);
    return r;
}

static int find_one(struct folder *folder, struct err *err)
{
    struct known **all;
    size_t count;
    int r = known_all(folder, &all, &count, err);

    if (r == 0) {
        known_free_all(all, count);
        if (count == 0)
            r = adopt(folder, folder->one_name, err);
    }
    return r;
}

int tables_find(struct folder *folder, struct err *err)
{
    bool differ = false;
    int r;

    folder->listed_ns = clock_steady_ns();
    if (folder->one_table)
        return find_one(folder, err);
    r = compare(folder, false, &differ, err);
    if (r < 0 || !differ)
        return r;
    r = locks_take(folder, ALL_STRIPES, err);
    if (r == 0) {
        r = compare(folder, true, &differ, err);
        locks_give(folder, ALL_STRIPES);
    }
    return r;
}
