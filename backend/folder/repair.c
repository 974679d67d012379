/* SPDX-License-Identifier: MIT */
/*
 * Replicas that differ. A program that writes them itself writes one after another, so what was
 * found is looked at again after a grace. What then differs from the item's row, which is the
 * newest, is made like it; what it held is kept as a draft.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"

#define REPAIRS_MOST 65536
#define BEFORE_MOST 4

/* Of those that wait, in the order in which they are due. */
struct repair {
    struct repair *next;
    uint64_t table_id;
    int64_t due_ns;                       /* steady clock */
    struct item_meta before[BEFORE_MOST]; /* what the item was until now, one after another */
    size_t before_count;
    char name[];
};

static bool was_before(const struct repair *repair, const struct file_stat *stat)
{
    for (size_t i = 0; i < repair->before_count; i++)
        if (same_file(stat, &repair->before[i]))
            return true;
    return false;
}

static int compare(const void *left, const void *right)
{
    const struct repair *a = left, *b = right;

    if (a->table_id != b->table_id)
        return a->table_id < b->table_id ? -1 : 1;
    return strcmp(a->name, b->name);
}

static struct repair *repair_new(uint64_t table_id, const char *name)
{
    size_t size = strlen(name) + 1;
    struct repair *repair = calloc(1, sizeof *repair + size);

    if (!repair)
        return NULL;
    repair->table_id = table_id;
    repair->due_ns = clock_steady_ns() + GRACE_NS;
    memcpy(repair->name, name, size);
    return repair;
}

/* The one of that name that waits, which may be a new one. NULL: there are too many. -ENOMEM. */
static int find_or_add_locked(struct folder *folder, uint64_t table_id, const char *name,
                              struct repair **ret_repair)
{
    struct repair *repair = repair_new(table_id, name);
    struct repair **found = repair ? tsearch(repair, &folder->repairs_by_name, compare) : NULL;

    *ret_repair = found ? *found : NULL;
    if (!found || *found != repair) {
        free(repair);
        return found ? 0 : -ENOMEM;
    }
    if (folder->repair_count == REPAIRS_MOST) {
        tdelete(repair, &folder->repairs_by_name, compare);
        free(repair);
        *ret_repair = NULL;
        return 0;
    }
    *folder->repairs_end = repair;
    folder->repairs_end = &repair->next;
    folder->repair_count++;
    return 0;
}

int repair_later(struct folder *folder, const struct known *known, const char *name,
                 const struct item_meta *before, struct err *err)
{
    scoped_lock(&folder->repairs_lock);
    struct repair *repair;
    if (find_or_add_locked(folder, known->table->id, name, &repair) < 0)
        return err_set(err, ENOMEM, "no memory");
    if (!repair)
        folder->rescan = true; /* all of it, then */
    else if (before && repair->before_count < BEFORE_MOST)
        repair->before[repair->before_count++] = *before;
    return 0;
}

/* The first that is due, taken out; to be freed. NULL: none is. */
static struct repair *next_repair(struct folder *folder, bool now)
{
    scoped_lock(&folder->repairs_lock);
    struct repair *repair = folder->repairs;

    if (!repair || (!now && repair->due_ns > clock_steady_ns()))
        return NULL;
    folder->repairs = repair->next;
    if (!folder->repairs)
        folder->repairs_end = &folder->repairs;
    folder->repair_count--;
    tdelete(repair, &folder->repairs_by_name, compare);
    return repair;
}

void repairs_open(struct folder *folder)
{
    folder->repairs_end = &folder->repairs;
}

void repairs_close(struct folder *folder)
{
    for (struct repair *repair; (repair = next_repair(folder, true));)
        free(repair);
}

/* An item that is made alike in all replicas. */
struct mending {
    struct folder *folder;
    struct known *known;
    const struct repair *repair;
    struct span part; /* its key */
    struct item_meta meta;
    struct buf body;
    bool again; /* programs are in the way */
};

/* Once more, after another grace. */
static int repair_again(struct folder *folder, const struct repair *repair, struct err *err)
{
    struct repair *again;

    scoped_lock(&folder->repairs_lock);
    if (find_or_add_locked(folder, repair->table_id, repair->name, &again) < 0)
        return err_set(err, ENOMEM, "no memory");
    if (!again) {
        folder->rescan = true;
    } else if (repair->before_count) { /* what is oldest counts most */
        memcpy(again->before, repair->before, sizeof again->before);
        again->before_count = repair->before_count;
    }
    return 0;
}

/* A replica that cannot be made like the others is out of use. */
static int give_up(struct folder *folder, size_t number, int code, const struct err *why,
                   struct err *err)
{
    if (code == -ENOMEM)
        return err_set(err, ENOMEM, "no memory");
    return replica_take_out(folder->replicas, number, err_text(why, code), 0, err);
}

/* Whether the file is what the item was: what was put there by a save or a repair of this object.
 * What has the time of the item itself is no older than that. */
static bool is_own_before(const struct mending *mending, const struct file_stat *stat)
{
    return stat->mtime_ns != mending->meta.mtime_ns &&
           own_write_is(mending->folder, mending->known->table->id, mending->part, stat->mtime_ns);
}

/* What replica NUMBER holds instead is kept, unless it is the same, or what was there before. */
static int keep_loser(struct mending *mending, size_t number, const struct file_stat *stat,
                      bool *ret_same, struct err *ret_why, struct err *err)
{
    struct folder *folder = mending->folder;
    const struct repair *repair = mending->repair;
    cleanup(buf_release) struct buf held;
    struct file_stat read;

    buf_init(&held, folder->backend.max_item_size);
    *ret_same = false;
    if (!stat->present || !stat->regular || was_before(repair, stat) ||
        is_own_before(mending, stat) || file_is_lost(stat, &mending->meta))
        return 0;
    int r = replica_read(folder->replicas, number, mending->known->folder, repair->name, &read,
                         &held, ret_why);
    if (r == -ENOENT || (r == 0 && !file_stat_equal(&read, stat)))
        return -EBUSY;
    if (r < 0)
        return r;
    *ret_same = span_equal(buf_span(&held), buf_span(&mending->body));
    if (*ret_same)
        return 0;
    r = folder_draft(folder, mending->known, repair->name, buf_span(&held),
                     "replaced by the newer file of another replica", err);
    return r < 0 ? -ECANCELED : 0;
}

int repair_make_folder(struct folder *folder, const struct known *known, size_t number,
                       struct err *err)
{
    struct err own = {""};
    int r =
        known->folder[0] ? replica_make_folder(folder->replicas, number, known->folder, &own) : 0;

    return r == 0 || r == -EEXIST ? 0 : err_set(err, -r, "%s", err_text(&own, r));
}

static int mend(struct mending *mending, size_t number, const struct file_stat *stat,
                struct err *err)
{
    struct folder *folder = mending->folder;
    struct err why = {""};
    bool same = false;
    int r = keep_loser(mending, number, stat, &same, &why, err);

    if (r == -ECANCELED) /* it cannot be kept */
        return r;
    const struct file_op op = {.kind = same ? FILE_TOUCH : FILE_PUT,
                               .folder = mending->known->folder,
                               .name = mending->repair->name,
                               .body = buf_span(&mending->body),
                               .mtime_ns = mending->meta.mtime_ns,
                               .conditional = true,
                               .expected = *stat};
    if (r == 0 && !stat->present)
        r = repair_make_folder(folder, mending->known, number, &why);
    if (r == 0)
        r = replica_apply(folder->replicas, number, &op, 1, false, &why);
    if (r == -EBUSY || r == -ETXTBSY || r == -EAGAIN) {
        mending->again = true;
        return 0;
    }
    return r < 0 ? give_up(folder, number, r, &why, err) : 0;
}

/* FILES are as they were when the row was made of them. */
static int mend_all(struct mending *mending, struct span part, const struct file_stats *files,
                    struct err *err)
{
    struct folder *folder = mending->folder;
    struct err own = {""};
    int r = mirror_get(folder, mending->known->table, part, &mending->meta, &mending->body, &own);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    own_write_note(folder, mending->known->table->id, part, mending->meta.mtime_ns);
    for (size_t i = 0; r == 0 && i < REPLICAS_MOST; i++)
        if (files->in_use[i] && !same_file(&files->stats[i], &mending->meta))
            r = mend(mending, i, &files->stats[i], err);
    return r;
}

/* A table's folder that is missing in some replicas only. */
static int repair_folder(struct folder *folder, struct known *known, struct err *err)
{
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    struct replica_info info;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        struct err why = {""};
        replica_info(folder->replicas, numbers[i], &info);
        int code = info.in_use ? repair_make_folder(folder, known, numbers[i], &why) : 0;
        if (code < 0)
            r = give_up(folder, numbers[i], code, &why, err);
    }
    return r ? r : scan_table(folder, known, false, err);
}

/* The stripe is held. */
static int repair_locked(struct folder *folder, const struct repair *repair, struct span part,
                         struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct mending mending = {.folder = folder, .repair = repair, .part = part};
    struct found found;
    struct err own = {""};
    int r = known_by_id(folder, repair->table_id, &known, &own);

    if (r < 0)
        return r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
    mending.known = known;
    buf_init(&mending.body, SIZE_MAX / 2);
    r = reconcile_locked(folder, known, repair->name, part, LOOK_MEND, &found, err);
    mending.again = found.busy;
    if (r == 0 && !found.busy && !folder->read_only)
        r = mend_all(&mending, part, &found.files, err);
    if (r == 0 && mending.again)
        r = repair_again(folder, repair, err);
    buf_release(&mending.body);
    return r;
}

static int repair_item(struct folder *folder, struct known *known, const struct repair *repair,
                       struct err *err)
{
    cleanup(buf_release) struct buf part;
    struct err own = {""};

    buf_init(&part, KEY_PART_MAX + 1);
    int r = key_of_file_name(known->table, repair->name, &part, &own);
    if (r == 1 || r == -EINVAL)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    uint64_t stripe = lock_bit(known->table->id, buf_span(&part));
    r = locks_take(folder, stripe, err);
    if (r < 0)
        return r;
    r = repair_locked(folder, repair, buf_span(&part), err);
    locks_give(folder, stripe);
    return r;
}

static int run_repair(struct folder *folder, const struct repair *repair, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct err own = {""};
    int r = known_by_id(folder, repair->table_id, &known, &own);

    if (r < 0)
        return r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
    if (repair->name[0])
        return repair_item(folder, known, repair, err);
    return folder->read_only ? 0 : repair_folder(folder, known, err);
}

/* A repair of NAME that is as one that waits, if one does; to be freed. NULL: no memory. */
static struct repair *copy_repair(struct folder *folder, uint64_t table_id, const char *name)
{
    struct repair *repair = repair_new(table_id, name);

    if (!repair)
        return NULL;
    scoped_lock(&folder->repairs_lock);
    struct repair *const *waits = tfind(repair, &folder->repairs_by_name, compare);
    if (waits) {
        memcpy(repair->before, (*waits)->before, sizeof repair->before);
        repair->before_count = (*waits)->before_count;
    }
    return repair;
}

static int keep_one(struct mending *mending, size_t number, const struct file_stat *stat,
                    struct err *err)
{
    struct err why = {""};
    bool same;
    int r = keep_loser(mending, number, stat, &same, &why, err);

    if (r == -ETXTBSY || r == -EAGAIN || r == -EBUSY)
        return err_set(err, EBUSY, "%s is being written by another program", mending->repair->name);
    return r < 0 && r != -ECANCELED ? give_up(mending->folder, number, r, &why, err) : r;
}

int repair_keep(struct folder *folder, struct known *known, const char *name, struct span part,
                struct err *err)
{
    cleanup_free struct repair *repair = copy_repair(folder, known->table->id, name);
    struct mending mending = {.folder = folder, .known = known, .repair = repair, .part = part};
    struct file_stats files;
    struct err own = {""};

    if (!repair)
        return err_set(err, ENOMEM, "no memory");
    buf_init(&mending.body, SIZE_MAX / 2);
    int r = mirror_get(folder, known->table, part, &mending.meta, &mending.body, &own);
    if (r < 0)
        err_set(err, -r, "%s", err_text(&own, r));
    if (r == 0)
        r = replicas_stat(folder->replicas, known->folder, name, &files, err);
    for (size_t i = 0; r == 0 && i < REPLICAS_MOST; i++)
        if (files.in_use[i] && !same_file(&files.stats[i], &mending.meta))
            r = keep_one(&mending, i, &files.stats[i], err);
    buf_release(&mending.body);
    return r;
}

static size_t count_repairs(struct folder *folder)
{
    scoped_lock(&folder->repairs_lock);
    return folder->repair_count;
}

int repairs_run(struct folder *folder, bool now, struct err *err)
{
    struct repair *repair;
    int r = atomic_exchange(&folder->rescan, false) ? scan_all(folder, 0, false, err) : 0;

    /* Those that are put off again meanwhile wait for the next run. */
    for (size_t left = count_repairs(folder);
         r == 0 && left > 0 && (repair = next_repair(folder, now)); left--) {
        r = run_repair(folder, repair, err);
        if (r < 0)
            (void)repair_again(folder, repair, NULL);
        free(repair);
    }
    return r;
}
