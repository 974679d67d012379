/* SPDX-License-Identifier: MIT */
/*
 * Updates (base/update.h), beside programs that count in the same files under flock. The item's
 * stripe is taken, then the lock that they know, on its file in the first replica in use; what the
 * file has then is what is changed. It is written in place, since who waits for the lock waits for
 * it on this file; the other replicas get a new file, and then the state database its row.
 *
 * Those who wait for the lock have the file open for writing, so that replica_read takes it for one
 * that is being written: what others have done before is taken over from the locked file itself,
 * without waiting until all have closed it. But a text that is no item, or none at all, may be that
 * of a program that writes without the lock, and has just begun: that one is waited for.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "backend/check.h"
#include "backend/folder/private.h"

#define PAUSE_NS (NS_PER_S / 1000)
#define INCOMPLETE 1

struct updating {
    struct folder *folder;
    const struct update *update;
    struct plan plan; /* of the one file */
    struct key key;
    struct file_lock *lock; /* NULL: there is no such file in the first replica */
    struct file_stat file;  /* the locked one, as it was read */
    struct buf row;         /* the item's body, before */
    struct buf text;        /* of the locked file */
    struct buf body;        /* the new one */
};

static const struct table *table_of(const struct updating *updating)
{
    return updating->plan.known->table;
}

static int label_error(const struct updating *updating, int code, const struct err *why,
                       struct err *err)
{
    return err_set(err, -code, "%s: %s", item_label(table_of(updating), updating->key).text,
                   err_text(why, code));
}

/* --- What is there --- */

static int absent(const struct updating *updating, struct err *err)
{
    return err_set(err, ENOENT, "%s: does not exist",
                   item_label(table_of(updating), updating->key).text);
}

static int read_row(struct updating *updating, struct err *err)
{
    struct plan *plan = &updating->plan;
    struct err own = {""};

    buf_clear(&updating->row);
    plan->before = (struct item_meta){.size = 0};
    int r = mirror_get(updating->folder, table_of(updating), plan->part, &plan->before,
                       &updating->row, &own);
    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    plan->exists = r == 0 && !item_expired(plan->before.ttl, clock_now_s());
    return 0;
}

/* Its flock. -EBUSY: somebody else keeps it. */
static int lock_file(struct updating *updating, struct err *err)
{
    struct err own = {""};
    int r = replicas_lock_file(updating->folder->replicas, updating->plan.known->folder,
                               updating->plan.name, LOCK_TO_UPDATE, &updating->lock, &own);

    if (r == -EAGAIN)
        r = -EBUSY;
    else if (r < 0 && !updating->plan.exists)
        return 0; /* something of its name that cannot be locked is no item */
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

/* Whether the text is an item's. */
static int examine(const struct updating *updating, struct err *why)
{
    struct item_facts facts;
    int r = item_examine(table_of(updating), updating->key, buf_span(&updating->text), &facts, NULL,
                         why);

    if (r == 0 && facts.key_differs)
        r = err_set(why, EINVAL, "\"%s\" in its file is not the key that its name says",
                    table_of(updating)->partition.name);
    return r;
}

/* What another program has written since its files were looked at. */
static int take_over(struct updating *updating, const struct file_stat *stat, struct err *err)
{
    const struct plan *plan = &updating->plan;
    struct err why = {""};
    int r = examine(updating, &why);

    if (r < 0 && r != -ENOMEM && !plan->exists)
        return 0; /* as before: it is no item */
    if (r < 0)
        return label_error(updating, r, &why, err);
    struct action action = {.kind = ACTION_PUT,
                            .table = table_of(updating),
                            .key = updating->key,
                            .body = buf_span(&updating->text),
                            .mtime_ns = stat_mtime(stat),
                            .ttl = item_ttl_beside(buf_span(&updating->row), plan->before.ttl)};
    if (!action.body.data)
        action.body = span_of("", 0);
    r = backend_write(updating->folder->imports, &action, 1, 0, err);
    if (r == 0)
        updating->folder->imported++;
    return r ? r : read_row(updating, err);
}

/* The locked file and the row are the same afterwards: the newer one counts. INCOMPLETE: it is just
 * being written. */
static int settle_text(struct updating *updating, struct err *err)
{
    struct folder *folder = updating->folder;
    const struct plan *plan = &updating->plan;
    struct file_stats files;
    struct file_stat stat;
    struct err own = {""};

    updating->file = (struct file_stat){.present = false};
    buf_clear(&updating->text);
    if (!updating->lock)
        return 0; /* it is missing everywhere, or is made here */
    int r = file_lock_read(updating->lock, &stat, &updating->text, &own);
    if (r < 0)
        return label_error(updating, r, &own, err);
    updating->file = stat;
    bool there = plan->before.version != 0;
    if (there && span_equal(buf_span(&updating->text), buf_span(&updating->row)))
        return 0;
    if (stat.written && (updating->text.len == 0 || examine(updating, NULL) < 0))
        return INCOMPLETE;
    r = replicas_stat(folder->replicas, plan->known->folder, plan->name, &files, err);
    if (r < 0)
        return r;
    if (!there || !file_is_overtaken(&files, &plan->before, file_lock_replica(updating->lock)))
        return take_over(updating, &stat, err);
    return folder_draft(folder, plan->known, plan->name, buf_span(&updating->text),
                        "replaced by the newer file of another replica", err);
}

static int try_look(struct updating *updating, struct err *err)
{
    struct plan *plan = &updating->plan;
    int r = reconcile_locked(updating->folder, plan->known, plan->name, plan->part, 0, NULL, err);

    if (r == 0)
        r = read_row(updating, err);
    if (r == 0)
        r = lock_file(updating, err);
    if (r == 0)
        r = settle_text(updating, err);
    return r == 0 && !plan->exists ? absent(updating, err) : r;
}

static void unlock_file(struct updating *updating)
{
    file_lock_release(updating->lock);
    updating->lock = NULL;
}

/* Who writes the file is waited for, without its lock: he may want it. */
static int look(struct updating *updating, int64_t until_ns, struct err *err)
{
    int r;

    while ((r = try_look(updating, err)) == INCOMPLETE) {
        unlock_file(updating);
        if (clock_steady_ns() >= until_ns)
            return err_set(err, EBUSY, "%s is being written by another program",
                           item_label(table_of(updating), updating->key).text);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return r;
}

/* --- What is to be --- */

/* The new body, which the state database is asked whether it takes. */
static int reckon(struct updating *updating, struct action *action, struct buf *ret_number,
                  struct err *err)
{
    struct plan *plan = &updating->plan;
    struct err why = {""};

    buf_clear(&updating->body);
    int r =
        item_update(buf_span(&updating->row), updating->update, &updating->body, ret_number, &why);
    if (r < 0)
        return label_error(updating, r, &why, err);
    *action = (struct action){.kind = ACTION_PUT,
                              .table = table_of(updating),
                              .key = updating->key,
                              .body = buf_span(&updating->body),
                              .mtime_ns = clock_now_ns(),
                              .ttl = item_ttl_beside(buf_span(&updating->row), plan->before.ttl)};
    plan->put = true;
    plan->size = updating->body.len;
    plan->mtime_ns = action->mtime_ns;
    struct action tried = *action;
    return backend_write(updating->folder->store, &tried, 1, WRITE_TRY, err);
}

static int write_all(struct updating *updating, struct action *action, struct err *err)
{
    struct folder *folder = updating->folder;
    const struct plan *plan = &updating->plan;
    const struct file_op op = {.kind = updating->lock ? FILE_UPDATE : FILE_PUT,
                               .folder = plan->known->folder,
                               .name = plan->name,
                               .body = action->body,
                               .mtime_ns = plan->mtime_ns,
                               .lock = updating->lock,
                               .expected = updating->file};
    bool changed = false, noted = false;
    struct err own = {""};
    int r = 0;

    if (updating->lock)
        r = update_begin(folder, plan, buf_span(&updating->text), action->body, &noted, err);
    if (r < 0)
        return r;
    own_write_note(folder, table_of(updating)->id, plan->part, plan->mtime_ns);
    r = replicas_apply(folder->replicas, &op, 1, folder->durable, &changed, &own);
    if (r == 0)
        r = update_commit(folder, plan, action, noted, &own);
    if (r == 0)
        return 0;
    (void)files_restore(folder, plan, 1, NULL);
    unlock_file(updating);
    if (noted)
        (void)update_undo(folder, plan->known, plan->name, plan->part, NULL);
    return err_set(err, -r, "%s", err_text(&own, r));
}

static int update_locked(struct updating *updating, struct item_meta *ret_meta,
                         struct buf *ret_number, struct err *err)
{
    int64_t until_ns = clock_steady_ns() + UPDATE_LOCK_WAIT_NS;
    size_t number_at = ret_number ? ret_number->len : 0;
    struct action action = {.table = NULL};
    int r;

    do {
        err_clear(err);
        if (ret_number)
            buf_resize(ret_number, number_at);
        r = look(updating, until_ns, err);
        if (r == 0)
            r = reckon(updating, &action, ret_number, err);
        if (r == 0)
            r = write_all(updating, &action, err);
        unlock_file(updating);
    } while (r == -EBUSY && clock_steady_ns() < until_ns); /* it was written just now */
    if (r == 0)
        *ret_meta = action.meta;
    return r;
}

static int update_known(struct updating *updating, struct item_meta *ret_meta,
                        struct buf *ret_number, struct err *err)
{
    struct folder *folder = updating->folder;
    struct plan *plan = &updating->plan;
    uint64_t stripe = lock_bit(table_of(updating)->id, plan->part);

    if (file_name_of_key(table_of(updating), updating->key, plan->name, NULL) < 0)
        return absent(updating, err);
    int r = locks_take(folder, stripe, err);
    if (r < 0)
        return r;
    r = update_locked(updating, ret_meta, ret_number, err);
    locks_give(folder, stripe);
    return r;
}

int folder_update(struct backend *backend, const struct table *table, struct key key,
                  const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                  struct err *err)
{
    struct folder *folder = folder_of(backend);
    struct updating updating = {
        .folder = folder, .update = update, .key = key, .plan.part = key.partition};

    if (folder->read_only)
        return err_set(err, EROFS, "%s is open for reading only", folder->place);
    int r = folder->watch ? watch_settle(folder, err) : 0;
    if (r < 0)
        return r;
    r = known_by_id(folder, table->id, &updating.plan.known, NULL);
    if (r < 0)
        return err_set(err, -r, "there is no table %s", table->name);
    buf_init(&updating.row, SIZE_MAX / 2);
    buf_init(&updating.text, folder->backend.max_item_size);
    buf_init(&updating.body, SIZE_MAX / 8);
    r = update_known(&updating, ret_meta, ret_number, err);
    buf_release(&updating.row);
    buf_release(&updating.text);
    buf_release(&updating.body);
    known_put(updating.plan.known);
    return r;
}
