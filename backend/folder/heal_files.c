/* SPDX-License-Identifier: MIT */
/* The files of a replica that comes back, made as the rows say. */
#include <errno.h>
#include <string.h>

#include "backend/check.h"
#include "backend/folder/heal.h"
#include "base/text.h"

/* --- A file --- */

static uint64_t hash_file(const struct known *known, const char *name, int64_t mtime_ns)
{
    return hash64(span_text(name),
                  hash64(span_of((const char *)&mtime_ns, sizeof mtime_ns), known->table->id));
}

/* Before it is: then a crash between the two makes nothing of ours look like somebody's. */
static int note_written(struct healing *healing, const struct known *known, const char *name,
                        int64_t mtime_ns, struct err *err)
{
    return locks_filled_add(healing->folder, hash_file(known, name, mtime_ns), &healing->written,
                            err);
}

/* It has been changed elsewhere since: few are asked for. */
static bool was_written(const struct healing *healing, const struct known *known, const char *name,
                        int64_t mtime_ns)
{
    uint64_t hash = hash_file(known, name, mtime_ns);

    for (size_t at = 0; at < healing->written.len; at += sizeof hash)
        if (memcmp(healing->written.data + at, &hash, sizeof hash) == 0)
            return true;
    return false;
}

/* Whether somebody may have written it since the replica went out. A copy may have an old time of
 * its own (`cp -p`, `tar x`, `mv`), but not the kernel's, whose clock may be a tick behind. */
static bool is_newer(const struct healing *healing, const struct file_stat *stat)
{
    return healing->moved || stat->mtime_ns >= healing->keep_ns ||
           stat->ctime_ns >= healing->keep_ns - clock_tick_ns();
}

/* What the replica holds is kept, if nobody else has it, nor had. */
static int keep(struct healing *healing, const struct known *known, const char *name,
                struct span part, const struct file_stat *stat, struct span body, struct err *err)
{
    if (!is_newer(healing, stat) || was_written(healing, known, name, stat->mtime_ns) ||
        own_file_is(healing->folder, known->table->id, part, stat))
        return 0;
    return folder_draft(healing->folder, known, name, body,
                        "found in a replica that was out of use, beside a newer state", err);
}

static int put_file(struct healing *healing, const struct known *known, const char *name,
                    struct span part, const struct item_meta *meta, struct span row,
                    struct err *err)
{
    struct folder *folder = healing->folder;
    cleanup(buf_release) struct buf held;
    struct file_stat stat;
    struct err own = {""};

    buf_init(&held, folder->backend.max_item_size);
    int r =
        replica_read(folder->replicas, healing->number, known->folder, name, &stat, &held, &own);
    bool same = r == 0 && span_equal(buf_span(&held), row);
    bool old = stat.present && !is_newer(healing, &stat);
    if (r == 0 && !same)
        r = keep(healing, known, name, part, &stat, buf_span(&held), &own);
    else if (r == -ENOENT || (r == -EFBIG && old))
        r = 0;
    const struct file_op op = {.kind = same ? FILE_TOUCH : FILE_PUT,
                               .folder = known->folder,
                               .name = name,
                               .body = row,
                               .mtime_ns = meta->mtime_ns};
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = note_written(healing, known, name, meta->mtime_ns, err);
    return r ? r : replica_apply(folder->replicas, healing->number, &op, 1, false, err);
}

/* Whether the body is an item's, under its name. */
static int check_item(const struct known *known, struct span part, struct span body, bool *ret_is,
                      struct err *err)
{
    struct item_facts facts;
    int r = item_examine(known->table, (struct key){.partition = part}, body, &facts, NULL, NULL);

    *ret_is = r == 0 && !facts.key_differs;
    return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : 0;
}

/* It has no row: it was deleted, or is new here. What the others hold under the name is no item. */
static int delete_file(struct healing *healing, const struct known *known, const char *name,
                       struct span part, struct err *err)
{
    struct folder *folder = healing->folder;
    cleanup(buf_release) struct buf held;
    struct file_stat stat;
    struct err own = {""};
    bool is_item = false;

    buf_init(&held, folder->backend.max_item_size);
    int r =
        replica_read(folder->replicas, healing->number, known->folder, name, &stat, &held, &own);
    if (r == -ENOENT || r == -EINVAL || r == -EFBIG)
        return 0;
    if (r == 0)
        r = check_item(known, part, buf_span(&held), &is_item, &own);
    if (r == 0 && is_item)
        r = keep(healing, known, name, part, &stat, buf_span(&held), &own);
    const struct file_op op = {.kind = FILE_DELETE, .folder = known->folder, .name = name};
    if (r == 0 && is_item)
        r = replica_apply(folder->replicas, healing->number, &op, 1, false, &own);
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

/* The item's stripe is held. */
int heal_locked(struct healing *healing, const struct known *known, const char *name,
                struct span part, struct err *err)
{
    struct folder *folder = healing->folder;
    cleanup(buf_release) struct buf row;
    struct item_meta meta;
    struct file_stat stat;
    struct err own = {""};

    buf_init(&row, SIZE_MAX / 2);
    int r = replica_stat(folder->replicas, healing->number, known->folder, name, &stat, err);
    if (r < 0)
        return r;
    r = mirror_get(folder, known->table, part, &meta, &row, &own);
    if (r == -ENOENT)
        return stat.present ? delete_file(healing, known, name, part, err) : 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    return same_file(&stat, &meta)
               ? 0
               : put_file(healing, known, name, part, &meta, buf_span(&row), err);
}

/* Where the table has changed before the stripe was had, all is looked at again anyway. */
static int heal_current(struct healing *healing, const struct known *before, const char *name,
                        struct span part, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct err own = {""};
    int r = known_by_id(healing->folder, before->table->id, &known, &own);

    if (r == -ENOENT || (r == 0 && strcmp(known->folder, before->folder) != 0))
        return 0;
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r))
                 : heal_locked(healing, known, name, part, err);
}

int heal_file(struct healing *healing, const struct known *known, const char *name, struct err *err)
{
    struct folder *folder = healing->folder;
    cleanup(buf_release) struct buf part;
    struct err own = {""};

    buf_init(&part, KEY_PART_MAX + 1);
    int r = key_of_file_name(known->table, name, &part, &own);
    if (r == 1 || r == -EINVAL)
        return 0; /* it is no item's, whatever is in it */
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (heal_is_stopped(folder))
        return err_set(err, ECANCELED, "healing was broken off");
    uint64_t stripe = lock_bit(known->table->id, buf_span(&part));
    r = locks_take(folder, stripe, err);
    if (r < 0)
        return r;
    r = heal_current(healing, known, name, buf_span(&part), err);
    locks_give(folder, stripe);
    if (healing->progress)
        healing->progress(healing);
    return r;
}

/* --- Tables --- */

/* Whether the folder NAME was put there since, as it is: what is in it may be older. What is done
 * in a folder changes both of its times, its renaming only the kernel's. */
static int was_moved(struct healing *healing, const char *name, bool *ret_moved, struct err *err)
{
    struct file_stat stat;
    int r = replica_stat(healing->folder->replicas, healing->number, "", name, &stat, err);

    *ret_moved = r == 0 && stat.present && stat.ctime_ns >= healing->keep_ns &&
                 stat.ctime_ns > stat.mtime_ns;
    return r;
}

static int heal_table(struct healing *healing, struct known *known, struct err *err)
{
    struct folder *folder = healing->folder;
    cleanup(buf_release) struct buf names;
    struct err own = {""};
    int r = 0;

    buf_init(&names, SIZE_MAX / 2);
    if (known->folder[0])
        r = was_moved(healing, known->folder, &healing->moved, &own);
    if (r == 0)
        r = repair_make_folder(folder, known, healing->number, &own);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = scan_replica(folder, known, healing->number, &names, err);
    for (size_t at = 0; r == 0 && at < names.len; at += strlen(names.data + at) + 1)
        r = heal_file(healing, known, names.data + at, err);
    healing->moved = false;
    return r;
}

/* What is in a folder that is no table's. */
struct stray {
    struct healing *healing;
    struct buf
        names; /* of files that were an item's when the table was dropped, each with its NUL */
};

/* Times of their own that are newer say nothing: they may have been set to the future. */
static int note_stray(void *context, const struct file_entry *entry)
{
    struct stray *stray = context;

    if (!name_is_item(span_text(entry->name)) || !entry->stat.regular ||
        entry->stat.ctime_ns >= stray->healing->keep_ns)
        return 0;
    buf_add(&stray->names, entry->name, strlen(entry->name) + 1);
    return buf_error(&stray->names);
}

static int delete_strays(struct healing *healing, const char *name, const struct buf *names,
                         struct err *err)
{
    int r = 0;

    for (size_t at = 0; r == 0 && at < names->len; at += strlen(names->data + at) + 1) {
        const struct file_op op = {.kind = FILE_DELETE, .folder = name, .name = names->data + at};
        r = replica_apply(healing->folder->replicas, healing->number, &op, 1, false, err);
    }
    return r;
}

/* The items of a table that was dropped meanwhile go, and with them the folder, unless there is
 * something else in it. What somebody has made here is a table, as anywhere. */
static int heal_stray(struct healing *healing, const char *name, struct err *err)
{
    struct folder *folder = healing->folder;
    struct stray stray = {.healing = healing};
    struct err own = {""};
    bool moved = false;

    buf_init(&stray.names, SIZE_MAX / 2);
    int r = was_moved(healing, name, &moved, &own);
    if (r == 0 && !moved)
        r = replica_list(folder->replicas, healing->number, name, note_stray, &stray, &own);
    if (r == 0 && !moved)
        r = delete_strays(healing, name, &stray.names, &own);
    if (r == 0 && !moved && healing->keep_ns > -TIME_NS_MOST)
        r = replica_remove_folder(folder->replicas, healing->number, name, &own);
    buf_release(&stray.names);
    return r < 0 && r != -ENOTEMPTY && r != -ENOENT ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

static int note_folder(void *context, const char *name)
{
    struct buf *names = context;

    buf_add(names, name, strlen(name) + 1);
    return buf_error(names);
}

static int heal_strays(struct healing *healing, struct err *err)
{
    struct folder *folder = healing->folder;
    cleanup(buf_release) struct buf names;

    buf_init(&names, SIZE_MAX / 2);
    int r = replica_folders(folder->replicas, healing->number, note_folder, &names, err);
    for (size_t at = 0; r == 0 && at < names.len; at += strlen(names.data + at) + 1) {
        cleanup(known_release) struct known *known = NULL;
        struct err own = {""};
        const char *name = names.data + at;
        if (is_internal_name(name) || table_check_name(span_text(name), NULL) < 0)
            continue;
        r = known_by_folder(folder, name, &known, &own);
        if (r == -ENOENT)
            r = heal_stray(healing, name, err);
        else if (r < 0)
            r = err_set(err, -r, "%s", err_text(&own, r));
    }
    return r;
}

int heal_tables(struct healing *healing, struct err *err)
{
    struct folder *folder = healing->folder;
    struct known **all = NULL;
    size_t count = 0;
    int r = folder->one_table ? 0 : heal_strays(healing, err);

    if (r == 0)
        r = known_all(folder, &all, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = all[i]->missing_ns ? 0 : heal_table(healing, all[i], err);
    known_free_all(all, count);
    return r;
}
