/* SPDX-License-Identifier: MIT */
/*
 * One more replica. It is filled as one that was out of use is healed: with the items of the state
 * database, file by file, while everybody goes on; then what the log tells of, the last of it with
 * all stripes. In that moment nobody writes, the folder has everything, and it is added to the
 * configuration: whoever takes a stripe afterwards looks at that first.
 *
 * That it is not filled yet is recorded from the beginning. So a command that is repeated knows
 * that what is in the folder is of the first one; and where it dies between the configuration and
 * the record, the replica is out of use, and healed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/folder/heal.h"

#define BUSY_WAIT_NS (30 * NS_PER_S) /* for another one that heals */

/* --- What both ways need --- */

static int count_row(void *context, const struct record *record)
{
    (void)record;
    ++*(uint64_t *)context;
    return 0;
}

int plug_count_items(struct folder *folder, uint64_t *ret_items, struct err *err)
{
    const struct walk walk = {.limit = 0};
    struct known **all;
    size_t count;
    int r = known_all(folder, &all, &count, err);

    *ret_items = 0;
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = backend_walk(folder->imports, all[i]->table, &walk, count_row, ret_items, err);
    known_free_all(all, count);
    return r;
}

int plug_open_alone(const char *path, bool read_only, struct replicas **ret_alone, struct err *err)
{
    const struct replica_options options = {
        .paths = &path, .count = 1, .timed = true, .read_only = read_only};

    return replicas_open(&options, ret_alone, err);
}

void plug_gone_key(const char *path, char ret_key[PATH_MAX + 8])
{
    snprintf(ret_key, PATH_MAX + 8, "gone %s", path);
}

static void pause_for(int64_t time_ns)
{
    nanosleep(&(struct timespec){(time_t)(time_ns / NS_PER_S), (long)(time_ns % NS_PER_S)}, NULL);
}

int plug_settle(struct folder *folder, struct err *err)
{
    int r = tables_find(folder, err);

    if (r == 0)
        r = scan_all(folder, 0, false, err);
    pthread_mutex_lock(&folder->repairs_lock);
    bool repairs = folder->repair_count > 0;
    pthread_mutex_unlock(&folder->repairs_lock);
    if (r < 0 || !repairs)
        return r;
    pause_for(GRACE_NS); /* who writes one after another is given that */
    return repairs_run(folder, true, err);
}

/* --- What may become a replica --- */

static bool is_below(const char *path, const char *above)
{
    size_t len = strlen(above);

    return strncmp(path, above, len) == 0 && (path[len] == '/' || above[len - 1] == '/');
}

struct target {
    const char *path;
    struct stat stat;
    struct err *err;
};

static int check_replica(void *context, size_t number, const struct replica_info *info)
{
    const struct target *target = context;
    struct stat stat_of;

    (void)number;
    if (strcmp(info->path, target->path) == 0 ||
        (stat(info->path, &stat_of) == 0 && stat_of.st_dev == target->stat.st_dev &&
         stat_of.st_ino == target->stat.st_ino))
        return err_set(target->err, EEXIST, "%s is a replica already", target->path);
    if (is_below(info->path, target->path) || is_below(target->path, info->path))
        return err_set(target->err, EINVAL, "%s and the replica %s are not beside each other",
                       target->path, info->path);
    return 0;
}

static int check_target(struct folder *folder, const char *path, struct err *err)
{
    struct target target = {.path = path, .err = err};
    size_t numbers[REPLICAS_MOST];

    if (!folder->list.edit || folder->read_only)
        return err_set(err, EROFS, "%s is open for reading only", folder->place);
    if (stat(path, &target.stat) < 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(target.stat.st_mode))
        return err_set(err, ENOTDIR, "%s is no folder", path);
    if (replicas_numbers(folder->replicas, numbers) == REPLICAS_MOST)
        return err_set(err, EINVAL, "there are %d replicas already, and no more can be",
                       REPLICAS_MOST);
    int r = replicas_each(folder->replicas, check_replica, &target);
    return r ? r : folder->list.edit(folder->list.context, path, NULL, true, err);
}

/* --- What is in it already --- */

struct content {
    struct folder *folder;
    struct known *const *all;
    size_t count;
    const struct known *known; /* the table that is looked at */
    const char *path;
    struct replicas *alone;
    struct err *err;
};

/* Whether the file is a copy of the item, with its time or another one. */
static bool is_copy(const struct content *content, const struct file_entry *entry, struct span part)
{
    const char *folder_name = content->known->folder;
    cleanup(buf_release) struct buf row, held;
    struct item_meta meta;
    struct file_stat stat;

    buf_init(&row, SIZE_MAX / 2);
    buf_init(&held, content->folder->backend.max_item_size);
    if (mirror_get(content->folder, content->known->table, part, &meta, &row, NULL) < 0)
        return false;
    if (same_file(&entry->stat, &meta))
        return true;
    return meta.size == entry->stat.size &&
           replica_read(content->alone, 0, folder_name, entry->name, &stat, &held, NULL) == 0 &&
           span_equal(buf_span(&held), buf_span(&row));
}

static int check_file(void *context, const struct file_entry *entry)
{
    const struct content *content = context;
    cleanup(buf_release) struct buf part;

    buf_init(&part, KEY_PART_MAX + 1);
    if (!entry->stat.regular ||
        key_of_file_name(content->known->table, entry->name, &part, NULL) != 0)
        return 0; /* left alone, as everywhere */
    if (is_copy(content, entry, buf_span(&part)))
        return 0;
    return err_set(content->err, ENOTEMPTY,
                   "%s%s%s/%s is there, and is no copy of an item: a new replica is an empty "
                   "folder, or a copy",
                   content->path, content->known->folder[0] ? "/" : "", content->known->folder,
                   entry->name);
}

static int check_folder(void *context, const char *name)
{
    const struct content *content = context;

    for (size_t i = 0; i < content->count; i++)
        if (strcmp(content->all[i]->folder, name) == 0)
            return 0;
    return err_set(content->err, ENOTEMPTY,
                   "%s/%s is there, and would be a table: a new replica is an empty folder, or a "
                   "copy",
                   content->path, name);
}

/* Items that are not these are somebody's: they are neither mixed with them nor deleted. */
static int check_content(struct folder *folder, const char *path, struct err *err)
{
    cleanup(cleanup_replicas) struct replicas *alone = NULL;
    struct content content = {.folder = folder, .path = path, .err = err};
    struct known **all = NULL;
    size_t count = 0;
    int r = plug_open_alone(path, true, &alone, err);

    if (r == 0)
        r = known_all(folder, &all, &count, err);
    content.alone = alone;
    content.all = all;
    content.count = count;
    if (r == 0 && !folder->one_table)
        r = replica_folders(alone, 0, check_folder, &content, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct err own = {""};
        content.known = all[i];
        r = replica_list(alone, 0, all[i]->folder, check_file, &content, &own);
        if (r < 0 && r != -ENOENT)
            err_set(err, -r, "%s", err_text(&own, r));
        r = r == -ENOENT ? 0 : r;
    }
    known_free_all(all, count);
    return r;
}

/* --- Filling it --- */

struct plugging {
    struct folder *folder;
    const char *path;
    const char *paths[REPLICAS_MOST]; /* the new list */
    struct replica_info infos[REPLICAS_MOST];
    size_t count;
    size_t number; /* its own */
    const struct plug_options *options;
    struct plug_counts *counts;
};

static int note_path(void *context, size_t number, const struct replica_info *info)
{
    struct plugging *plugging = context;

    (void)number;
    plugging->infos[plugging->count] = *info;
    plugging->paths[plugging->count] = plugging->infos[plugging->count].path;
    plugging->count++;
    return 0;
}

static int find_number(void *context, size_t number, const struct replica_info *info)
{
    struct plugging *plugging = context;

    if (strcmp(info->path, plugging->path) == 0)
        plugging->number = number;
    return 0;
}

/* For this object it is one from now on, out of use. */
static int join_list(struct plugging *plugging, struct err *err)
{
    struct folder *folder = plugging->folder;
    int64_t took_ns;
    int r = locks_take(folder, ALL_STRIPES, err);

    if (r < 0)
        return r;
    replicas_each(folder->replicas, note_path, plugging);
    plugging->paths[plugging->count++] = plugging->path;
    r = replicas_change(folder->replicas, plugging->paths, plugging->count, err);
    if (r == 0)
        replicas_each(folder->replicas, find_number, plugging);
    locks_give(folder, ALL_STRIPES);
    return r ? r : replica_probe(folder->replicas, plugging->number, &took_ns, err);
}

static void tell_progress(struct healing *healing)
{
    const struct plugging *plugging = healing->context;

    plugging->counts->files++;
    if (plugging->options->progress)
        plugging->options->progress(plugging->options->context, plugging->counts);
}

/* All stripes are held, and it has everything. */
static int publish(struct healing *healing, struct err *err)
{
    const struct plugging *plugging = healing->context;
    struct folder *folder = plugging->folder;
    int r = folder->list.edit(folder->list.context, plugging->path, NULL, false, err);

    if (r == 0)
        r = replica_put_back(folder->replicas, plugging->number, err);
    return r ? r : list_agree(folder, plugging->paths, plugging->count, err);
}

static int wait_for_healing(struct folder *folder, struct err *err)
{
    int64_t until_ns = clock_steady_ns() + BUSY_WAIT_NS;
    int r;

    while ((r = locks_take_healing(folder, err)) == -EBUSY && clock_steady_ns() < until_ns)
        pause_for(NS_PER_S / 20);
    return r == -EBUSY ? err_set(err, EBUSY, "another replica is being filled") : r;
}

static int fill(struct plugging *plugging, int64_t keep_ns, struct err *err)
{
    struct folder *folder = plugging->folder;
    struct healing healing = {.folder = folder,
                              .keep_ns = keep_ns,
                              .finish = publish,
                              .progress = tell_progress,
                              .context = plugging};
    int r = join_list(plugging, err);

    healing.number = plugging->number;
    if (r == 0)
        r = heal_fill(&healing, err);
    return r ? r : disk_note(folder, plugging->path, err);
}

static int plug(struct plugging *plugging, bool again, int64_t since_ns, struct err *err)
{
    struct folder *folder = plugging->folder;
    char key[PATH_MAX + 8];
    int r = wait_for_healing(folder, err);

    if (r < 0)
        return r;
    plug_gone_key(plugging->path, key);
    r = outs_put(folder, key, NULL, 0, err);
    if (r == 0)
        r = fill(plugging, again ? since_ns : -TIME_NS_MOST, err);
    locks_give_healing(folder);
    return r ? r : plug_settle(folder, err); /* what others have written directly meanwhile */
}

int folder_plug_in(struct backend *backend, const char *path, const struct plug_options *options,
                   struct plug_counts *ret_counts, struct err *err)
{
    struct folder *folder = folder_of(backend);
    cleanup_free char *real = realpath(path, NULL);
    cleanup(buf_release) struct buf reason;
    int64_t since_ns = 0;

    buf_init(&reason, OUTS_ROW_MOST);
    if (!real)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    cleanup_free struct plugging *plugging = calloc(1, sizeof *plugging);
    if (!plugging)
        return err_set(err, ENOMEM, "no memory");
    plugging->folder = folder;
    plugging->path = real;
    plugging->options = options;
    plugging->counts = ret_counts;
    int r = check_target(folder, real, err);
    if (r == 0)
        r = plug_settle(folder, err);
    if (r == 0)
        r = plug_count_items(folder, &ret_counts->total, err);
    if (r < 0)
        return r;
    r = outs_get(folder, real, &reason, &since_ns, err);
    bool again = r == 0;
    if (r == -ENOENT)
        r = check_content(folder, real, err);
    return r || options->dry ? r : plug(plugging, again, since_ns, err);
}
