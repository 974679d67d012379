/* SPDX-License-Identifier: MIT */
/* The tables as the state database describes them, read again when the lock file says that they
 * have changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"

static const char *const internal_names[] = {JOURNAL_TABLE, FOREIGN_TABLE, REPLICAS_TABLE};

bool is_internal_name(const char *name)
{
    for (size_t i = 0; i < sizeof internal_names / sizeof internal_names[0]; i++)
        if (strcmp(name, internal_names[i]) == 0)
            return true;
    return false;
}

void known_put(struct known *known)
{
    if (known && atomic_fetch_sub(&known->references, 1) == 1) {
        table_free(known->table);
        free(known);
    }
}

void known_free_all(struct known **all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        known_put(all[i]);
    free(all);
}

struct loading {
    struct folder *folder;
    struct known **all;
    size_t count;
};

/* What this object knows of a table besides its description goes on. */
static void go_on(const struct folder *folder, struct known *known)
{
    for (size_t i = 0; i < folder->known_count; i++) {
        const struct known *before = folder->known[i];
        if (before->table->id != known->table->id || strcmp(before->folder, known->folder) != 0)
            continue;
        known->due_ns = before->due_ns;
        known->missing_ns = before->missing_ns;
        known->watched = before->watched;
        if (before->table->keys == known->table->keys)
            known->scanned_ns = before->scanned_ns;
    }
}

static int load_each(void *context, const struct table *table)
{
    struct loading *loading = context;
    struct folder *folder = loading->folder;
    struct known **all;

    if (is_internal_name(table->name))
        return 0;
    all = reallocarray(loading->all, loading->count + 1, sizeof(struct known *));
    if (!all)
        return -ENOMEM;
    loading->all = all;
    struct known *known = calloc(1, sizeof *known);
    struct table *copy = known ? table_copy(table) : NULL;
    if (!copy) {
        free(known);
        return -ENOMEM;
    }
    copy->strict_tags = true;
    if (folder->configure)
        folder->configure(folder->configure_context, copy);
    known->references = 1;
    known->table = copy;
    if (!folder->one_table)
        memcpy(known->folder, table->name, strlen(table->name)); /* TABLE_NAME_MAX */
    go_on(folder, known);
    all[loading->count++] = known;
    return 0;
}

static size_t count_missing(const struct folder *folder)
{
    size_t missing = 0;

    for (size_t i = 0; i < folder->known_count; i++)
        missing += folder->known[i]->missing_ns != 0;
    return missing;
}

/* Called with tables_lock held, which guards what is read here against a second reader. */
static int load(struct folder *folder, uint64_t generation, struct err *err)
{
    struct loading loading = {.folder = folder};
    int r = backend_tables(folder->imports, load_each, &loading, err);

    if (r < 0) {
        known_free_all(loading.all, loading.count);
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    }
    known_free_all(folder->known, folder->known_count);
    folder->known = loading.all;
    folder->known_count = loading.count;
    folder->missing = count_missing(folder);
    folder->generation = generation;
    return 0;
}

static int refresh(struct folder *folder, struct err *err)
{
    uint64_t generation;
    int r = locks_generation(folder, &generation, err);

    if (r == 0 && generation != folder->generation)
        r = load(folder, generation, err);
    return r;
}

static struct known *hold(struct known *known)
{
    atomic_fetch_add(&known->references, 1);
    return known;
}

int known_by_id(struct folder *folder, uint64_t id, struct known **ret_known, struct err *err)
{
    scoped_lock(&folder->tables_lock);
    int r = refresh(folder, err);

    for (size_t i = 0; r == 0 && i < folder->known_count; i++)
        if (folder->known[i]->table->id == id && !folder->known[i]->missing_ns) {
            *ret_known = hold(folder->known[i]);
            return 0;
        }
    return r ? r : err_set(err, ENOENT, "the table is gone");
}

int known_by_folder(struct folder *folder, const char *name, struct known **ret_known,
                    struct err *err)
{
    scoped_lock(&folder->tables_lock);
    int r = refresh(folder, err);

    for (size_t i = 0; r == 0 && i < folder->known_count; i++)
        if (strcmp(folder->known[i]->folder, name) == 0) {
            *ret_known = hold(folder->known[i]);
            return 0;
        }
    return r ? r : err_set(err, ENOENT, "%s is no table's folder", name);
}

int known_all(struct folder *folder, struct known ***ret_all, size_t *ret_count, struct err *err)
{
    scoped_lock(&folder->tables_lock);
    int r = refresh(folder, err);
    struct known **all = r ? NULL : calloc(folder->known_count + 1, sizeof(struct known *));

    if (!all)
        return r ? r : err_set(err, ENOMEM, "no memory");
    for (size_t i = 0; i < folder->known_count; i++)
        all[i] = hold(folder->known[i]);
    *ret_all = all;
    *ret_count = folder->known_count;
    return 0;
}

void known_set_due(struct folder *folder, const char *name)
{
    scoped_lock(&folder->tables_lock);
    for (size_t i = 0; i < folder->known_count; i++)
        if (strcmp(folder->known[i]->folder, name) == 0)
            folder->known[i]->due_ns = clock_steady_ns();
}

void known_set_missing(struct folder *folder, uint64_t id, bool missing)
{
    scoped_lock(&folder->tables_lock);
    for (size_t i = 0; i < folder->known_count; i++) {
        struct known *known = folder->known[i];
        if (known->table->id != id)
            continue;
        known->missing_ns = missing ? clock_steady_ns() : 0;
        known->due_ns = clock_steady_ns();
    }
    folder->missing = count_missing(folder);
}

void known_close(struct folder *folder)
{
    known_free_all(folder->known, folder->known_count);
}
