/* SPDX-License-Identifier: MIT */
/*
 * One replica less. With all stripes it is taken out of the configuration: nobody writes then, and
 * whoever takes a stripe afterwards looks at that first. Only then are its files deleted; that they
 * are to be is recorded, so that the command goes on where it was killed. What somebody has written
 * to them alone since is kept as a draft.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/check.h"
#include "backend/folder/private.h"

#define OPS_MOST 256

struct unplugging {
    struct folder *folder;
    const char *path;
    struct replicas *alone; /* it, as number 0 */
    const struct known *known;
    int64_t since_ns; /* when it was plugged out */
    struct buf names; /* to be looked at, each with its NUL */
    struct file_op ops[OPS_MOST];
    size_t op_count;
    const struct plug_options *options;
    struct plug_counts *counts;
};

/* --- Whether it may go --- */

struct others {
    const char *path;
    bool found, last;
};

static int look_at_others(void *context, size_t number, const struct replica_info *info)
{
    struct others *others = context;
    bool same = strcmp(info->path, others->path) == 0;

    (void)number;
    others->found |= same;
    others->last &= same || !info->in_use;
    return 0;
}

static int check_target(struct folder *folder, const char *path, bool *ret_plugged, struct err *err)
{
    struct others others = {.path = path, .last = true};

    if (!folder->list.edit || folder->read_only)
        return err_set(err, EROFS, "%s is open for reading only", folder->place);
    replicas_each(folder->replicas, look_at_others, &others);
    *ret_plugged = others.found;
    if (others.found && others.last)
        return err_set(err, EINVAL, "%s is the last replica in use", path);
    return others.found ? folder->list.edit(folder->list.context, NULL, path, true, err) : 0;
}

/* --- The list --- */

/* Since when what is in it may be somebody's alone: since it went out of use, if it has; 1: it may
 * have been so always. */
static int find_since(struct folder *folder, const char *path, int64_t *ret_since_ns,
                      struct err *err)
{
    cleanup(buf_release) struct buf reason;
    enum disk_is is = DISK_OTHER;

    buf_init(&reason, OUTS_ROW_MOST);
    int r = disk_check(folder, path, &is, NULL);
    if (r == 0)
        r = outs_get(folder, path, &reason, ret_since_ns, err);
    if (r == 0 && strcmp(reason.data, REPLICA_NOT_FILLED) == 0)
        is = DISK_NEW;
    if (r == -ENOENT && is == DISK_SAME) {
        *ret_since_ns = clock_now_ns();
        /* what is written once others may do so has a later time by any clock */
        nanosleep(&(struct timespec){.tv_nsec = CLOCK_TICK_NS}, NULL);
    } else if (is != DISK_SAME) {
        *ret_since_ns = 1;
    }
    return r == -ENOENT ? 0 : r;
}

static int leave_locked(struct folder *folder, const char *path, struct err *err)
{
    struct others others = {.path = path, .last = true};
    char key[PATH_MAX + 8];
    int64_t since_ns;

    replicas_each(folder->replicas, look_at_others, &others);
    if (others.last)
        return err_set(err, EINVAL, "%s is the last replica in use", path);
    plug_gone_key(path, key);
    int r = find_since(folder, path, &since_ns, err);
    if (r == 0)
        r = outs_put(folder, key, "plugged out", since_ns, err);
    if (r == 0)
        r = folder->list.edit(folder->list.context, NULL, path, false, err);
    if (r == 0)
        list_reload(folder);
    return r;
}

static int leave_list(struct folder *folder, const char *path, struct err *err)
{
    int r = plug_settle(folder, err); /* nothing is in this one alone */

    if (r == 0)
        r = locks_take(folder, ALL_STRIPES, err);
    if (r < 0)
        return r;
    r = leave_locked(folder, path, err);
    locks_give(folder, ALL_STRIPES);
    return r;
}

/* --- Its files --- */

static int note_name(void *context, const struct file_entry *entry)
{
    struct unplugging *unplugging = context;

    if (!entry->stat.regular || !name_is_item(span_text(entry->name))) {
        unplugging->counts->left++;
        return 0;
    }
    buf_add(&unplugging->names, entry->name, strlen(entry->name) + 1);
    return buf_error(&unplugging->names);
}

static int delete_noted(struct unplugging *unplugging, struct err *err)
{
    int r = replica_apply(unplugging->alone, 0, unplugging->ops, unplugging->op_count, false, err);

    if (r == 0)
        unplugging->counts->files += unplugging->op_count;
    unplugging->op_count = 0;
    if (r == 0 && unplugging->options->progress)
        unplugging->options->progress(unplugging->options->context, unplugging->counts);
    return r;
}

/* Whether the file, which differs from its ROW (empty: there is none), is an item's; what was
 * written since the replica went, by its own time or the kernel's, is kept. */
static int judge(struct unplugging *unplugging, const char *name, struct span part, struct span row,
                 bool *ret_is_item, struct err *err)
{
    const struct known *known = unplugging->known;
    cleanup(buf_release) struct buf held;
    struct item_facts facts;
    struct file_stat stat;
    struct err own = {""};

    buf_init(&held, unplugging->folder->backend.max_item_size);
    *ret_is_item = false;
    int r = replica_read(unplugging->alone, 0, known->folder, name, &stat, &held, &own);
    if (r == -ENOENT || r == -EINVAL || r == -EFBIG || r == -ETXTBSY || r == -EAGAIN)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    *ret_is_item = item_examine(known->table, (struct key){.partition = part}, buf_span(&held),
                                &facts, NULL, NULL) == 0 &&
                   !facts.key_differs;
    bool newer = stat.mtime_ns >= unplugging->since_ns || stat.ctime_ns >= unplugging->since_ns;
    if (!*ret_is_item || !newer || span_equal(buf_span(&held), row))
        return 0;
    return folder_draft(unplugging->folder, known, name, buf_span(&held),
                        "written to a replica that was plugged out", err);
}

static int delete_name(struct unplugging *unplugging, const char *name, struct err *err)
{
    const struct known *known = unplugging->known;
    cleanup(buf_release) struct buf part, row;
    struct item_meta meta;
    struct file_stat stat;
    bool is_item = true;
    struct err own = {""};

    buf_init(&part, KEY_PART_MAX + 1);
    buf_init(&row, SIZE_MAX / 2);
    int r = key_of_file_name(known->table, name, &part, NULL);
    if (r == 1 || r == -EINVAL) {
        unplugging->counts->left++;
        return 0;
    }
    if (r == 0)
        r = replica_stat(unplugging->alone, 0, known->folder, name, &stat, err);
    if (r < 0)
        return r;
    r = mirror_get(unplugging->folder, known->table, buf_span(&part), &meta, &row, &own);
    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (r == -ENOENT || !same_file(&stat, &meta))
        r = judge(unplugging, name, buf_span(&part), buf_span(&row), &is_item, err);
    if (r < 0)
        return r;
    if (!is_item) {
        unplugging->counts->left++;
        return 0;
    }
    unplugging->ops[unplugging->op_count++] =
        (struct file_op){.kind = FILE_DELETE, .folder = known->folder, .name = name};
    return unplugging->op_count == OPS_MOST ? delete_noted(unplugging, err) : 0;
}

static int delete_table(struct unplugging *unplugging, struct err *err)
{
    const char *folder_name = unplugging->known->folder;
    struct err own = {""};
    int r = replica_list(unplugging->alone, 0, folder_name, note_name, unplugging, &own);

    if (r < 0)
        return r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
    for (size_t at = 0; r == 0 && at < unplugging->names.len;
         at += strlen(unplugging->names.data + at) + 1)
        r = delete_name(unplugging, unplugging->names.data + at, err);
    if (r == 0)
        r = delete_noted(unplugging, err);
    buf_clear(&unplugging->names);
    if (r == 0)
        r = replica_tidy(unplugging->alone, 0, folder_name, err);
    if (r == 0 && folder_name[0]) /* what is no item keeps it */
        (void)replica_remove_folder(unplugging->alone, 0, folder_name, NULL);
    return r;
}

static int delete_files(struct unplugging *unplugging, struct err *err)
{
    struct known **all = NULL;
    size_t count = 0;
    int r = plug_open_alone(unplugging->path, false, &unplugging->alone, err);

    if (r == 0)
        r = known_all(unplugging->folder, &all, &count, err);
    buf_init(&unplugging->names, SIZE_MAX / 2);
    for (size_t i = 0; r == 0 && i < count; i++) {
        unplugging->known = all[i];
        r = delete_table(unplugging, err);
    }
    buf_release(&unplugging->names);
    known_free_all(all, count);
    replicas_close(unplugging->alone);
    return r;
}

static int clear(struct unplugging *unplugging, struct err *err)
{
    char key[PATH_MAX + 8];
    struct err own = {""};
    int r = delete_files(unplugging, &own);

    if (r < 0)
        return err_set(err, EIO,
                       "%s is plugged out, but not all of its files are deleted (say it again): %s",
                       unplugging->path, err_text(&own, r));
    plug_gone_key(unplugging->path, key);
    return outs_put(unplugging->folder, key, NULL, 0, err);
}

int folder_plug_out(struct backend *backend, const char *path, const struct plug_options *options,
                    struct plug_counts *ret_counts, struct err *err)
{
    struct folder *folder = folder_of(backend);
    cleanup_free char *real = realpath(path, NULL); /* its disk may be gone: then as it was named */
    cleanup(buf_release) struct buf reason;
    cleanup_free struct unplugging *unplugging = calloc(1, sizeof *unplugging);
    char key[PATH_MAX + 8];
    bool plugged = false;

    buf_init(&reason, OUTS_ROW_MOST);
    if (!unplugging)
        return err_set(err, ENOMEM, "no memory");
    unplugging->folder = folder;
    unplugging->path = real ? real : path;
    unplugging->options = options;
    unplugging->counts = ret_counts;
    plug_gone_key(unplugging->path, key);
    int r = check_target(folder, unplugging->path, &plugged, err);
    if (r == 0 && !plugged && outs_get(folder, key, &reason, &unplugging->since_ns, NULL) < 0)
        return err_set(err, EINVAL, "%s is no replica", unplugging->path);
    if (r == 0)
        r = plug_count_items(folder, &ret_counts->total, err);
    if (r < 0 || options->dry)
        return r;
    buf_clear(&reason);
    if (plugged)
        r = leave_list(folder, unplugging->path, err);
    if (r == 0)
        r = outs_get(folder, key, &reason, &unplugging->since_ns, err);
    return r ? r : clear(unplugging, err);
}
