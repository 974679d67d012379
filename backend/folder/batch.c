/* SPDX-License-Identifier: MIT */
/*
 * A batch: the stripes of its items are taken, and the locks of their files that other programs
 * know; what others have written to them counts first; conditions are checked; the files are
 * written in every replica; the state database's transaction follows. Its end is the batch's.
 *
 * Files first, so that what is acknowledged is in the files, which are what counts. A crash between
 * the two leaves files that differ from their rows. Of one file the next start completes what it
 * finds: what was put is a newer file, and counts; what was deleted in some replicas only is made
 * again there. Of several files it undoes all of it (journal.c).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/check.h"
#include "backend/folder/private.h"

struct batch {
    struct folder *folder;
    struct action *actions; /* copies, as the state database is to apply them */
    struct buf *fitted;     /* of each, the body where it had to be rewritten */
    size_t count;
    struct plan *plans;       /* of each file that is touched, once */
    struct file_lock **locks; /* of each plan; NULL: none */
    size_t plan_count;
    unsigned flags;
    uint64_t stripes;
    char journal[JOURNAL_ID_LEN + 1]; /* "" where there is no entry */
};

static bool is_of_item(const struct action *action)
{
    return action->kind == ACTION_PUT || action->kind == ACTION_DELETE ||
           action->kind == ACTION_TOUCH;
}

static void batch_release(struct batch *batch)
{
    for (size_t i = 0; i < batch->plan_count; i++)
        known_put(batch->plans[i].known);
    for (size_t i = 0; batch->fitted && i < batch->count; i++)
        buf_release(&batch->fitted[i]);
    free(batch->actions);
    free(batch->fitted);
    free(batch->plans);
    free(batch->locks);
}

static int batch_init(struct batch *batch, const struct action *actions, struct err *err)
{
    size_t count = batch->count;

    /* Behind the actions is room for those that end the journal's entry. */
    batch->actions = calloc(2 * count + 1, sizeof *batch->actions);
    batch->fitted = calloc(count + 1, sizeof *batch->fitted);
    batch->plans = calloc(count + 1, sizeof *batch->plans);
    batch->locks = calloc(count + 1, sizeof *batch->locks);
    if (!batch->actions || !batch->fitted || !batch->plans || !batch->locks)
        return err_set(err, ENOMEM, "no memory");
    memcpy(batch->actions, actions, count * sizeof *actions);
    for (size_t i = 0; i < count; i++)
        buf_init(&batch->fitted[i], SIZE_MAX / 2);
    return 0;
}

/* --- Which files --- */

static struct plan *find_plan(struct batch *batch, const struct action *action)
{
    for (size_t i = 0; i < batch->plan_count; i++)
        if (batch->plans[i].known->table->id == action->table->id &&
            span_equal(batch->plans[i].part, action->key.partition))
            return &batch->plans[i];
    return NULL;
}

static int add_plan(struct batch *batch, size_t i, struct err *err)
{
    const struct action *action = &batch->actions[i];
    assert(action->table); /* check_action */
    /* A loose batch is long, and applied in order: of two with one key the last stands anyway. */
    struct plan *plan = batch->flags & WRITE_LOOSE ? NULL : find_plan(batch, action);

    if (plan) {
        plan->action = i;
        return 0;
    }
    plan = &batch->plans[batch->plan_count];
    int r = known_by_id(batch->folder, action->table->id, &plan->known, NULL);
    if (r == -ENOENT)
        return err_set(err, ENOENT, "there is no table %s", action->table->name);
    if (r < 0)
        return r;
    batch->plan_count++;
    plan->action = i;
    plan->part = action->key.partition;
    batch->stripes |= lock_bit(action->table->id, plan->part);
    return file_name_of_key(plan->known->table, action->key, plan->name, err);
}

static int find_files(struct batch *batch, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < batch->count; i++)
        if (is_of_item(&batch->actions[i]))
            r = add_plan(batch, i, err);
    return r;
}

/* Tables may have changed before the stripes were had. */
static int find_tables_again(struct batch *batch, struct err *err)
{
    for (size_t i = 0; i < batch->plan_count; i++) {
        struct plan *plan = &batch->plans[i];
        const struct table *table = plan->known->table;
        struct known *known;
        int r = known_by_id(batch->folder, table->id, &known, NULL);
        if (r < 0)
            return err_set(err, -r, "there is no table %s", table->name);
        known_put(plan->known);
        plan->known = known;
    }
    return 0;
}

/* --- What is there --- */

/* A bulk load waits for nobody's increments, only for who is just writing. */
static int look(struct batch *batch, struct plan *plan, struct file_lock **lock, struct err *err)
{
    struct folder *folder = batch->folder;
    struct err own = {""};
    int r =
        file_claim(folder, plan->known, plan->name, plan->part,
                   batch->flags & WRITE_LOOSE ? CLAIM_LOOSE : CLAIM_WAIT, lock, &plan->differ, err);

    if (r < 0)
        return r;
    r = mirror_get(folder, plan->known->table, plan->part, &plan->before, NULL, &own);
    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    plan->exists = r == 0 && !item_expired(plan->before.ttl, clock_now_s());
    return 0;
}

/* The bytes that the state database will have: a body that names another key is rewritten. */
static int fit(struct batch *batch, size_t i, struct err *err)
{
    struct action *action = &batch->actions[i];
    struct item_facts facts;

    if (action->kind != ACTION_PUT)
        return 0;
    if (!action->body.data)
        action->body = span_of("", 0);
    int r = item_examine(action->table, action->key, action->body, &facts, NULL, err);
    if (r < 0 || !facts.key_differs)
        return r;
    r = item_fit_key(action->table, action->key, action->body, &batch->fitted[i], err);
    if (r == 0)
        r = buf_error(&batch->fitted[i]);
    action->body = buf_span(&batch->fitted[i]);
    return r ? err_set(err, -r, "%s: the key does not fit into the body",
                       item_label(action->table, action->key).text)
             : 0;
}

static int check_one(const struct batch *batch, struct err *err)
{
    const struct plan *plan = batch->plans;
    const struct action *action = &batch->actions[plan->action];

    if (action->kind == ACTION_TOUCH && !plan->exists)
        return err_set(err, ENOENT, "%s: does not exist",
                       item_label(action->table, action->key).text);
    int r = check_condition(action, plan->exists, plan->before.version, err);
    return r == 0 && plan->exists ? check_mtime(action, plan->before.mtime_ns, err) : r;
}

/* Whether it can be done, before anything is. */
static int check(struct batch *batch, struct err *err)
{
    if (batch->flags & WRITE_LOOSE)
        return 0;
    if (batch->count == 1)
        return check_one(batch, err);
    cleanup_free struct action *tried = calloc(batch->count, sizeof *tried);
    if (!tried)
        return err_set(err, ENOMEM, "no memory");
    memcpy(tried, batch->actions, batch->count * sizeof *tried);
    return backend_write(batch->folder->store, tried, batch->count, WRITE_TRY, err);
}

/* --- What is to be --- */

static bool is_equal_put(const struct batch *batch, const struct plan *plan)
{
    const struct action *action = &batch->actions[plan->action];
    cleanup(buf_release) struct buf body;
    struct item_meta meta;

    buf_init(&body, SIZE_MAX / 2);
    return plan->exists && plan->before.size == action->body.len &&
           mirror_get(batch->folder, plan->known->table, plan->part, &meta, &body, NULL) == 0 &&
           span_equal(buf_span(&body), action->body);
}

/* A file in the name's place that is no item: its bytes are kept, or it stays. */
static int check_place(struct batch *batch, struct plan *plan, struct err *err)
{
    struct folder *folder = batch->folder;
    cleanup(buf_release) struct buf body;
    struct file_stats files;
    int r = replicas_stat(folder->replicas, plan->known->folder, plan->name, &files, err);

    buf_init(&body, folder->backend.max_item_size);
    for (size_t i = 0; r == 0 && i < REPLICAS_MOST; i++) {
        struct file_stat stat;
        struct err own = {""};
        if (!files.in_use[i] || !files.stats[i].present)
            continue;
        buf_clear(&body);
        r = replica_read(folder->replicas, i, plan->known->folder, plan->name, &stat, &body, &own);
        if (r == -ENOENT)
            r = 0;
        else if (r == -ETXTBSY || r == -EAGAIN)
            return err_set(err, EBUSY, "%s is being written by another program", plan->name);
        else if (r < 0)
            return err_set(err, -r, "%s: what has this name is no item, and stays: %s", plan->name,
                           err_text(&own, r));
        else if (body.len)
            r = folder_draft(folder, plan->known, plan->name, buf_span(&body),
                             "it was no item, and an item of its name was saved", err);
    }
    return r ? r : foreign_forget(folder, plan->known, plan->name, err);
}

/* What other replicas hold than the newest one. */
static int keep_others(const struct batch *batch, const struct plan *plan, struct err *err)
{
    return repair_keep(batch->folder, plan->known, plan->name, plan->part, err);
}

static int decide(struct batch *batch, struct plan *plan, struct err *err)
{
    struct action *action = &batch->actions[plan->action];
    bool row = plan->before.version != 0;

    if (action->kind == ACTION_DELETE) {
        plan->gone = row;
        return row && plan->differ ? keep_others(batch, plan, err) : 0;
    }
    if (action->mtime_ns == 0)
        action->mtime_ns = clock_now_ns();
    plan->mtime_ns = action->mtime_ns;
    plan->size = action->body.len;
    plan->put =
        action->kind == ACTION_PUT && ((batch->flags & WRITE_LOOSE) || !is_equal_put(batch, plan));
    if (plan->put && !row)
        return check_place(batch, plan, err);
    return plan->put && plan->differ ? keep_others(batch, plan, err) : 0;
}

/* --- Doing it --- */

static struct file_op op_of(const struct batch *batch, const struct plan *plan)
{
    return (struct file_op){.kind = plan->put    ? FILE_PUT
                                    : plan->gone ? FILE_DELETE
                                                 : FILE_TOUCH,
                            .folder = plan->known->folder,
                            .name = plan->name,
                            .body = batch->actions[plan->action].body,
                            .mtime_ns = plan->mtime_ns};
}

/* A delete of what is not there has no file. */
static bool has_op(const struct batch *batch, const struct plan *plan)
{
    return plan->gone || batch->actions[plan->action].kind != ACTION_DELETE;
}

/* Puts before deletes: at no time is a content without a name. */
static size_t make_ops(const struct batch *batch, struct file_op *ops)
{
    size_t count = 0;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < batch->plan_count; i++)
            if (has_op(batch, &batch->plans[i]) && batch->plans[i].gone == (pass == 1))
                ops[count++] = op_of(batch, &batch->plans[i]);
    return count;
}

static int write_files(struct batch *batch, bool *ret_changed, struct err *err)
{
    cleanup_free struct file_op *ops = calloc(batch->plan_count + 1, sizeof *ops);
    bool durable = batch->folder->durable || (batch->flags & WRITE_DURABLE);
    int r = 0;

    *ret_changed = false;
    if (!ops)
        return err_set(err, ENOMEM, "no memory");
    size_t count = make_ops(batch, ops);
    for (size_t at = 0; r == 0 && at < count; at += FILE_OPS_MOST) {
        size_t some = count - at < FILE_OPS_MOST ? count - at : FILE_OPS_MOST;
        bool changed = false;
        r = replicas_apply(batch->folder->replicas, ops + at, some, durable, &changed, err);
        *ret_changed |= changed;
    }
    return r;
}

static int write_rows(struct batch *batch, struct err *err)
{
    cleanup(buf_release) struct buf texts;
    unsigned flags = batch->flags | (batch->folder->durable ? WRITE_DURABLE : 0);
    size_t count = batch->count;
    int r = 0;

    buf_init(&texts, SIZE_MAX / 2);
    if (batch->journal[0]) {
        r = folder_journal_end(batch->folder, batch->plans, batch->plan_count, batch->journal,
                               &texts, batch->actions + count, err);
        count += batch->plan_count;
    }
    return r ? r : backend_write(batch->folder->store, batch->actions, count, flags, err);
}

static void note_own(struct batch *batch)
{
    for (size_t i = 0; i < batch->plan_count; i++)
        if (batch->plans[i].mtime_ns)
            own_write_note(batch->folder, batch->plans[i].known->table->id, batch->plans[i].part,
                           batch->plans[i].mtime_ns);
}

/* It was not done, and nothing is left of it. */
static void forget_journal(struct batch *batch)
{
    cleanup(buf_release) struct buf texts;
    struct action *actions = batch->actions + batch->count;

    buf_init(&texts, SIZE_MAX / 2);
    if (batch->journal[0] && folder_journal_end(batch->folder, batch->plans, batch->plan_count,
                                                batch->journal, &texts, actions, NULL) == 0)
        (void)backend_write(batch->folder->store, actions, batch->plan_count, 0, NULL);
}

static int apply(struct batch *batch, struct err *err)
{
    bool changed = false;
    struct err own = {""};
    int r = 0;

    if (batch->plan_count > 1 && !(batch->flags & WRITE_LOOSE))
        r = folder_journal_begin(batch->folder, batch->plans, batch->plan_count, batch->journal,
                                 batch->folder->durable || (batch->flags & WRITE_DURABLE), err);
    if (r < 0)
        return r;
    note_own(batch);
    r = write_files(batch, &changed, &own);
    if (r == 0) {
        changed = true;
        r = write_rows(batch, &own);
    }
    if (r < 0 &&
        (!changed || files_restore(batch->folder, batch->plans, batch->plan_count, NULL) == 0))
        forget_journal(batch);
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

static int write_locked(struct batch *batch, struct err *err)
{
    int r = find_tables_again(batch, err);

    for (size_t i = 0; r == 0 && i < batch->plan_count; i++)
        r = look(batch, &batch->plans[i], &batch->locks[i], err);
    if (r == 0)
        r = check(batch, err);
    for (size_t i = 0; r == 0 && i < batch->plan_count; i++)
        r = decide(batch, &batch->plans[i], err);
    if (r == 0)
        r = apply(batch, err);
    for (size_t i = 0; i < batch->plan_count; i++)
        file_lock_release(batch->locks[i]);
    return r;
}

static int write_batch(struct batch *batch, struct action *actions, struct err *err)
{
    int r = batch_init(batch, actions, err);

    for (size_t i = 0; r == 0 && i < batch->count; i++)
        r = fit(batch, i, err);
    if (r == 0)
        r = find_files(batch, err);
    if (r == 0)
        r = locks_take(batch->folder, batch->stripes, err);
    if (r < 0)
        return r;
    r = write_locked(batch, err);
    locks_give(batch->folder, batch->stripes);
    if (r < 0)
        return r;
    for (size_t i = 0; i < batch->count; i++) {
        actions[i].meta = batch->actions[i].meta;
        actions[i].change = batch->actions[i].change;
        actions[i].made_id = batch->actions[i].made_id;
    }
    return 0;
}

int folder_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                 struct err *err)
{
    struct folder *folder = folder_of(backend);
    struct batch batch = {.folder = folder, .count = count, .flags = flags};
    size_t items = 0;

    for (size_t i = 0; i < count; i++)
        items += is_of_item(&actions[i]);
    if (items == 0 || (flags & WRITE_TRY))
        return backend_write(folder->store, actions, count,
                             flags | (folder->durable ? WRITE_DURABLE : 0), err);
    if (folder->read_only)
        return err_set(err, EROFS, "%s is open for reading only", folder->place);
    int r = folder->watch ? watch_settle(folder, err) : 0;
    if (r == 0)
        r = write_batch(&batch, actions, err);
    batch_release(&batch);
    return r;
}
