/* SPDX-License-Identifier: MIT */
/*
 * What others have done to an item's files, found by comparing them with the item's row. A file is
 * the row's when it has its size and its time. Of all replicas in use:
 *
 *   all are the row's             nothing has happened
 *   some are there and differ     the newest of these is the item from now on; but where the row's
 *                                 file is there, too, and newer than these, that is
 *   none is there                 the item is gone
 *   some are there and the row's, nothing by itself: a disk that is not mounted shows an empty
 *   or older, others are not      folder. After a grace the missing ones are made again
 *
 * A program that writes the replicas one after another is given that grace, too, before they are
 * made alike (repair.c). Equal bytes are equal, whatever their times.
 *
 * A file that is no item (no JSON, another key in it, too large) takes the item out of the row's
 * table and is left alone: foreign.c. One that is just being written is looked at when its writer
 * closes it.
 */
#include <errno.h>
#include <string.h>

#include "backend/check.h"
#include "backend/folder/private.h"
#include "base/log.h"
#include "base/text.h"

#define TRIES 8
#define OWN_NS (NS_PER_S / 5)  /* that a write of our own takes; else its bytes are compared */
#define CHANGED 1              /* while it was looked at: again */
#define NO_ITEM 2              /* but others may be */
#define RACY_NS (2 * NS_PER_S) /* longer than any clock by which files are stamped stands still */

bool same_file(const struct file_stat *stat, const struct item_meta *meta)
{
    return file_stat_is(stat, meta->size, meta->mtime_ns) ||
           (stat->mtime_ns == 0 && meta->mtime_ns == 1 && file_stat_is(stat, meta->size, 0));
}

bool file_is_young(const struct file_stat *stat)
{
    int64_t age_ns = clock_now_ns() - stat->ctime_ns;

    return age_ns < GRACE_NS && age_ns > -GRACE_NS;
}

bool file_is_lost(const struct file_stat *stat, const struct item_meta *meta)
{
    return meta->size > 0 && file_stat_is(stat, 0, meta->mtime_ns);
}

/* Files that are nearer than that may have been written in any order. */
static int64_t grain_of(const struct file_stat *a, const struct file_stat *b)
{
    return a->grain_ns > b->grain_ns ? a->grain_ns : b->grain_ns;
}

/* A copy that was made later than what is in it: the kernel's note says nothing of the bytes. */
static bool is_copied(const struct file_stat *stat)
{
    return stat->ctime_ns - stat->mtime_ns >= CLOCK_TICK_NS;
}

/* Times that are set here are finer than those of the kernel, which may be a tick behind: between
 * two files that are so near the kernel's own note of both decides. A copy has no such note; what
 * it was copied from is gone, or it would not be the copy's rival. Within one of its ticks it is
 * the first replica, which whoever writes them all writes first. A time that is yet to come, which
 * somebody has set, says nothing: the kernel's note decides there, too. */
bool file_is_newer(const struct file_stats *files, size_t left, size_t right)
{
    const struct file_stat *a = &files->stats[left], *b = &files->stats[right];
    bool later = a->mtime_ns > b->mtime_ns;
    uint64_t apart_ns = later ? (uint64_t)a->mtime_ns - (uint64_t)b->mtime_ns
                              : (uint64_t)b->mtime_ns - (uint64_t)a->mtime_ns;

    int64_t now_ns = clock_now_ns() + CLOCK_TICK_NS;
    if (apart_ns >= CLOCK_TICK_NS && a->mtime_ns <= now_ns && b->mtime_ns <= now_ns)
        return later;
    if (apart_ns == 0 && (a->size == 0) != (b->size == 0)) /* one has lost its bytes */
        return b->size == 0;
    if (is_copied(a) != is_copied(b))
        return is_copied(b);
    if (is_copied(a) && apart_ns > 0 && apart_ns < CLOCK_TICK_NS)
        return later;
    return a->ctime_ns == b->ctime_ns ? left < right : a->ctime_ns > b->ctime_ns;
}

/* Where times are cut to whole seconds, what was written last may seem to be the older one. */
static bool is_apart(const struct file_stat *newer, const struct file_stat *older)
{
    int64_t grain_ns = grain_of(newer, older);

    return grain_ns <= 1 || newer->mtime_ns - older->mtime_ns >= grain_ns;
}

bool file_is_overtaken(const struct file_stats *files, const struct item_meta *meta, size_t number)
{
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (i != number && files->in_use[i] && same_file(&files->stats[i], meta) &&
            file_is_newer(files, i, number) && is_apart(&files->stats[i], &files->stats[number]))
            return true;
    return false;
}

int mirror_get(struct folder *folder, const struct table *table, struct span part,
               struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    return backend_get(folder->imports, table, (struct key){.partition = part}, ret_meta, body,
                       err);
}

/* --- What this object has written itself --- */

void own_write_note(struct folder *folder, uint64_t table_id, struct span part, int64_t mtime_ns)
{
    scoped_lock(&folder->own_lock);
    folder->own[folder->own_at++ % (sizeof folder->own / sizeof folder->own[0])] =
        (struct own_write){hash64(part, table_id), mtime_ns, clock_now_ns()};
}

bool own_write_is(struct folder *folder, uint64_t table_id, struct span part, int64_t mtime_ns)
{
    uint64_t item = hash64(part, table_id);

    scoped_lock(&folder->own_lock);
    for (size_t i = 0; i < sizeof folder->own / sizeof folder->own[0]; i++)
        if (folder->own[i].item == item && folder->own[i].mtime_ns == mtime_ns)
            return true;
    return false;
}

bool own_file_is(struct folder *folder, uint64_t table_id, struct span part,
                 const struct file_stat *stat)
{
    uint64_t item = hash64(part, table_id);

    scoped_lock(&folder->own_lock);
    for (size_t i = 0; i < sizeof folder->own / sizeof folder->own[0]; i++)
        if (folder->own[i].item == item && folder->own[i].mtime_ns == stat->mtime_ns &&
            stat->ctime_ns < folder->own[i].noted_ns + OWN_NS)
            return true;
    return false;
}

/* --- Looking --- */

struct look {
    struct folder *folder;
    struct known *known;
    const char *name;
    struct span part;
    unsigned flags;
    struct file_stats files;
    bool there; /* the row is */
    struct item_meta meta;
    struct buf row;  /* its body, where it was needed */
    struct buf body; /* of the file */
    size_t equal, absent, differing;
    size_t lost;   /* of the absent: empty ones in their place */
    size_t newest; /* the number of the newest that differs */
    bool alone;    /* what differs has no rival: where it is no item, there is none */
    struct found *found;
};

static const struct table *table_of(const struct look *look)
{
    return look->known->table;
}

static int look_at_files(struct look *look, struct err *err)
{
    struct err own = {""};
    int r =
        replicas_stat(look->folder->replicas, look->known->folder, look->name, &look->files, err);

    if (r == 0)
        r = mirror_get(look->folder, table_of(look), look->part, &look->meta, NULL, &own);
    look->there = r == 0;
    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    look->equal = look->absent = look->lost = look->differing = 0;
    for (size_t i = 0; i < REPLICAS_MOST; i++) {
        const struct file_stat *stat = &look->files.stats[i];
        if (!look->files.in_use[i])
            continue;
        if (!stat->present || (look->there && file_is_lost(stat, &look->meta))) {
            look->absent++;
            look->lost += stat->present;
        } else if (look->there && same_file(stat, &look->meta)) {
            look->equal++;
        } else if (look->differing++ == 0 || file_is_newer(&look->files, i, look->newest)) {
            look->newest = i;
        }
    }
    return 0;
}

static int repair(struct look *look, struct err *err)
{
    if (look->flags & LOOK_MEND)
        return 0;
    return repair_later(look->folder, look->known, look->name, look->there ? &look->meta : NULL,
                        err);
}

/* Its writer tells of it when it is done. */
static int is_busy(struct look *look, struct err *err)
{
    look->found->busy = true;
    return repair(look, err);
}

static int import(struct look *look, struct action *action, struct err *err)
{
    action->table = table_of(look);
    action->key.partition = look->part;
    int r = backend_write(look->folder->imports, action, 1, 0, err);
    if (r == 0)
        look->folder->imported++;
    return r;
}

static int remove_row(struct look *look, struct err *err)
{
    struct action action = {.kind = ACTION_DELETE};

    return look->there ? import(look, &action, err) : 0;
}

/* --- A file that differs --- */

static int is_foreign(struct look *look, const struct file_stat *stat, bool keep,
                      const char *reason, struct err *err)
{
    if (!look->alone)
        return NO_ITEM;
    struct span body = keep ? buf_span(&look->body) : span_of(NULL, 0);
    int r = foreign_note(look->folder, look->known, look->name, stat, body, reason, err);

    return r ? r : remove_row(look, err);
}

/* The reason why the body is none; "" where it is one. */
static int examine(const struct look *look, struct item_facts *facts, struct err *reason,
                   struct err *err)
{
    int r = item_examine(table_of(look), (struct key){.partition = look->part},
                         buf_span(&look->body), facts, NULL, reason);

    if (r == -ENOMEM)
        return err_set(err, ENOMEM, "no memory");
    if (r == 0 && facts->key_differs)
        err_set(reason, EINVAL, "\"%s\" in it is not the key that its name says",
                table_of(look)->partition.name);
    return 0;
}

static int read_row(struct look *look, struct err *err)
{
    buf_clear(&look->row);
    if (!look->there)
        return 0;
    return mirror_get(look->folder, table_of(look), look->part, &look->meta, &look->row, err);
}

/* Its bytes are those of the row already, where another replica is the row's: no change. */
static bool is_copy(const struct look *look)
{
    return look->there && look->equal && span_equal(buf_span(&look->body), buf_span(&look->row));
}

/* Whether all replicas have the file so. */
static bool are_alike(const struct look *look, const struct file_stat *stat)
{
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (look->files.in_use[i] &&
            !file_stat_is(&look->files.stats[i], stat->size, stat->mtime_ns))
            return false;
    return true;
}

static int take_over(struct look *look, const struct file_stat *stat, struct err *err)
{
    struct item_facts facts = {.is_object = false};
    struct err reason = {""};
    int r = look->there ? update_undo(look->folder, look->known, look->name, look->part, err) : 0;

    if (r == -EBUSY)
        return is_busy(look, err);
    if (r != 0)
        return r < 0 ? r : CHANGED;
    r = examine(look, &facts, &reason, err);
    if (r < 0)
        return r;
    if (stat->unsure && file_is_young(stat) && !(look->flags & (LOOK_TOLD | LOOK_MEND)))
        return is_busy(look, err);
    if (reason.text[0])
        return is_foreign(look, stat, !facts.key_differs, reason.text, err);
    r = read_row(look, err);
    if (r < 0)
        return r;
    if (is_copy(look))
        return repair(look, err);
    struct action action = {
        .kind = ACTION_PUT,
        .body = buf_span(&look->body),
        .mtime_ns = stat_mtime(stat),
        .ttl = look->there ? item_ttl_beside(buf_span(&look->row), look->meta.ttl) : 0};
    if (!action.body.data)
        action.body = span_of("", 0);
    r = import(look, &action, err);
    if (r == 0)
        r = foreign_forget(look->folder, look->known, look->name, err);
    return r == 0 && !are_alike(look, stat) ? repair(look, err) : r;
}

/* What nobody can read is not overwritten, as long as it is a replica's that is in use. */
static int cannot_read(struct look *look, size_t number, int code, const struct err *why,
                       struct err *err)
{
    if (replica_take_out(look->folder->replicas, number, err_text(why, code), 0, NULL) == 0)
        return CHANGED;
    return err_set(err, -code, "%s", err_text(why, code));
}

/* Of replica NUMBER. Also CHANGED, NO_ITEM. */
static int read_file(struct look *look, size_t number, struct err *err)
{
    struct folder *folder = look->folder;
    struct file_stat stat = look->files.stats[number];
    struct err own = {""};
    int r = foreign_known(folder, look->known, look->name, &stat, err);

    if (r == 1 && !look->alone)
        return NO_ITEM;
    if (r != 0)
        return r < 0 ? r : remove_row(look, err);
    buf_clear(&look->body);
    r = replica_read(folder->replicas, number, look->known->folder, look->name, &stat, &look->body,
                     &own);
    switch (r) {
    case 0: return take_over(look, &stat, err);
    case -ENOENT: return CHANGED;
    case -ETXTBSY:
    case -EAGAIN: return is_busy(look, err);
    case -EINVAL: return is_foreign(look, &stat, false, "it is no regular file", err);
    case -EFBIG: return is_foreign(look, &stat, false, "it is larger than max_item_size", err);
    default: break;
    }
    if (look->flags & LOOK_CLAIM)
        return cannot_read(look, number, r, &own, err);
    log_warning("folder", "%s", err_text(&own, r));
    return 0;
}

/* The newest that differs, has not been TRIED, and is not older than the row's file, where that is
 * there: else it is a replica's that has missed something. REPLICAS_MOST: there is none. */
static size_t next_newest(const struct look *look, const bool *tried)
{
    size_t found = REPLICAS_MOST;

    for (size_t i = 0; i < REPLICAS_MOST; i++) {
        const struct file_stat *stat = &look->files.stats[i];
        if (!look->files.in_use[i] || !stat->present || tried[i] ||
            (look->there && (same_file(stat, &look->meta) || file_is_lost(stat, &look->meta) ||
                             file_is_overtaken(&look->files, &look->meta, i))))
            continue;
        if (found == REPLICAS_MOST || file_is_newer(&look->files, i, found))
            found = i;
    }
    return found;
}

/* What is no item does not count as long as another replica has one. */
static int read_newest(struct look *look, struct err *err)
{
    bool tried[REPLICAS_MOST] = {false};
    size_t at;

    look->alone = look->differing == 1 && look->equal == 0;
    while ((at = next_newest(look, tried)) < REPLICAS_MOST) {
        int r = read_file(look, at, err);
        if (r != NO_ITEM)
            return r;
        tried[at] = true;
    }
    if (look->equal)
        return repair(look, err);
    look->alone = true;
    return read_file(look, look->newest, err);
}

/* --- Files that seem to be the row's --- */

/* A file may have been written twice within one tick of the clock that stamps it. */
static bool times_are_coarse(const struct look *look)
{
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (look->files.in_use[i] && look->files.stats[i].grain_ns > 1)
            return true;
    return false;
}

static bool may_be_racy(const struct look *look)
{
    if (look->flags & LOOK_RACY)
        return true;
    return (look->flags & LOOK_TOLD) && look->meta.mtime_ns > clock_now_ns() - RACY_NS &&
           (times_are_coarse(look) ||
            !own_write_is(look->folder, table_of(look)->id, look->part, look->meta.mtime_ns));
}

static int check_bytes(struct look *look, struct err *err)
{
    int r = read_row(look, err);

    for (size_t i = 0; r == 0 && i < REPLICAS_MOST; i++) {
        struct file_stat stat;
        if (!look->files.in_use[i] || !look->files.stats[i].present)
            continue;
        buf_clear(&look->body);
        if (replica_read(look->folder->replicas, i, look->known->folder, look->name, &stat,
                         &look->body, NULL) < 0 ||
            span_equal(buf_span(&look->body), buf_span(&look->row)))
            continue;
        look->equal = 0;
        look->alone = true;
        return take_over(look, &stat, err);
    }
    return r;
}

/* One replica has lost the row's file, and the others have not got it yet. */
static bool are_behind(const struct look *look)
{
    if (!look->there || look->equal || !look->absent)
        return false;
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (look->files.in_use[i] && look->files.stats[i].present &&
            look->files.stats[i].mtime_ns >= look->meta.mtime_ns &&
            !file_is_lost(&look->files.stats[i], &look->meta))
            return false;
    return true;
}

static int settle(struct look *look, struct err *err)
{
    if (look->differing && are_behind(look))
        return repair(look, err);
    if (look->differing)
        return read_newest(look, err);
    if (look->equal == 0 && look->lost)
        return repair(look, err);
    if (look->equal == 0) {
        int r = remove_row(look, err);
        return r ? r : foreign_forget(look->folder, look->known, look->name, err);
    }
    if (may_be_racy(look)) {
        int r = check_bytes(look, err);
        if (r < 0)
            return r;
    }
    return look->absent ? repair(look, err) : 0;
}

int reconcile_locked(struct folder *folder, struct known *known, const char *name, struct span part,
                     unsigned flags, struct found *ret_found, struct err *err)
{
    struct found found = {.busy = false};
    struct look look = {.folder = folder,
                        .known = known,
                        .name = name,
                        .part = part,
                        .flags = flags,
                        .found = &found};
    int r = CHANGED;

    buf_init(&look.row, SIZE_MAX / 2);
    buf_init(&look.body, folder->backend.max_item_size);
    for (int i = 0; r == CHANGED && i < TRIES; i++) {
        found = (struct found){.busy = false};
        r = look_at_files(&look, err);
        found.differ = look.differing > 0;
        if (r == 0)
            r = settle(&look, err);
    }
    found.busy |= r == CHANGED;
    found.files = look.files;
    if (ret_found)
        *ret_found = found;
    buf_release(&look.row);
    buf_release(&look.body);
    return r == CHANGED ? 0 : r; /* who changes it so fast tells of it again */
}

/* Tables may have changed before the stripe was had. */
static int reconcile_current(struct folder *folder, const struct known *before, const char *name,
                             struct span part, unsigned flags, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct err own = {""};
    int r = known_by_id(folder, before->table->id, &known, &own);

    if (r == -ENOENT)
        return 0;
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r))
                 : reconcile_locked(folder, known, name, part, flags, NULL, err);
}

/* A name that no key has: what is in it does not matter. */
static int reconcile_foreign(struct folder *folder, struct known *known, const char *name,
                             const char *reason, struct err *err)
{
    struct file_stats files;
    int r = replicas_stat(folder->replicas, known->folder, name, &files, err);

    for (size_t i = 0; r == 0 && i < REPLICAS_MOST; i++)
        if (files.in_use[i] && files.stats[i].present)
            return foreign_note(folder, known, name, &files.stats[i], span_of(NULL, 0), reason,
                                err);
    return r ? r : foreign_forget(folder, known, name, err);
}

/* Whether what was written just now is what this object is writing, or has: then there is nothing
 * to find, and nobody waits until it has the item's row. */
static bool is_own(struct folder *folder, const struct known *known, const char *name,
                   struct span part)
{
    struct file_stats files;

    if (replicas_stat(folder->replicas, known->folder, name, &files, NULL) < 0)
        return false;
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (files.in_use[i] && !(files.stats[i].present &&
                                 own_file_is(folder, known->table->id, part, &files.stats[i])))
            return false;
    return true;
}

int reconcile(struct folder *folder, struct known *known, const char *name, unsigned flags,
              struct err *err)
{
    cleanup(buf_release) struct buf part;
    struct err reason = {""};

    buf_init(&part, KEY_PART_MAX + 1);
    int r = key_of_file_name(known->table, name, &part, &reason);
    if (r == -EINVAL)
        return reconcile_foreign(folder, known, name, reason.text, err);
    if (r != 0)
        return r == 1 ? 0 : err_set(err, -r, "%s", err_text(&reason, r));
    if ((flags & LOOK_TOLD) && is_own(folder, known, name, buf_span(&part)))
        return 1;
    uint64_t stripe = lock_bit(known->table->id, buf_span(&part));
    r = locks_take(folder, stripe, err);
    if (r < 0)
        return r;
    r = reconcile_current(folder, known, name, buf_span(&part), flags, err);
    locks_give(folder, stripe);
    return r;
}
