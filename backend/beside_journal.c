/* SPDX-License-Identifier: MIT */
/*
 * Batches that cannot be one transaction: several items of a service that has none, or items
 * together with what is put beside them. They are applied step by step. (One item, and something
 * beside that goes, needs no journal: beside_write.c.)
 *
 * An entry of the journal, a row of a table in the state database, says what every item was before
 * the batch and what it is to be. The order is
 *
 *   1  the entry is written, on stable storage, before the first step
 *   2  the items, each under the condition that it still is what the entry says: puts first, then
 *      deletes, so that no content is ever without a name
 *   3  what is kept beside, and the entry goes, in one transaction: with it the batch is done. On
 *      stable storage, too: an entry that came back would undo what others do from now on
 *
 * So an entry that is there is a batch that was cut short: by the death of its process, or by a
 * failure after which nobody knows whether a step was applied. Recovery looks at what each item is,
 * and depends on nothing else, so it does not matter how far the batch came, and a recovery that is
 * cut short itself is begun anew.
 *
 *   Forward, where every item is what it was or what it is to be, as far as the order of the steps
 *   allows: the steps that are missing are made. Not back, because a request of a dead process may
 *   still be on its way. It comes too late when its step has been made, but after an undoing it
 *   would do harm: the old name deleted when the new one is gone.
 *
 *   Back, where somebody else has changed an item, or a step is refused: the first item that is as
 *   it was before is where the batch ended. Those before it become what they were, each under the
 *   condition that it still is what the batch made of it. One that is something else now stays, and
 *   what it was is kept as a draft with the reason.
 *
 *   Back, too, where the batch puts something beside the items (a file and an item change places):
 *   that is not in the entry. There a late request can still come, so a draft is kept in any case.
 *
 * What takes part in an unfinished entry is not written before that is settled: a repeated attempt
 * must not meet the end of the first.
 *
 * Whoever works on an entry, batch or recovery, holds a lock that the kernel lets go of when the
 * process ends: a byte of the lock file, at the entry's number. An entry whose lock can be had is
 * nobody's. When recovery runs: journal_open, each write to one of the items, the keeper's turns.
 *
 * Here is a batch that goes well; beside_settle.c has the rest.
 */
#include "backend/beside_entry.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/check.h"
#include "base/cleanup.h"
#include "base/clock.h"

static int plan_step(struct beside *beside, const struct action *action,
                     struct journal_entry *entry, struct err *err)
{
    const struct table *table = action->table;
    cleanup(buf_release) struct buf before, after;
    struct step step = {.table = span_text(table->name), .table_id = table->id, .key = action->key};
    struct item_facts facts = {.is_object = false};
    int r = 0;

    buf_init(&before, ENTRY_MAX);
    buf_init(&after, ENTRY_MAX);
    if (action->kind == ACTION_PUT)
        r = item_examine(table, action->key, action->body, &facts, NULL, err);
    if (r == 0 && action->kind == ACTION_PUT)
        r = step_text(table, action->key, action->body, facts.is_object ? 0 : action->ttl, &after,
                      err);
    if (r == 0 && action->condition.kind != COND_ABSENT)
        r = step_read(beside, table, action->key, &before, &step.version, err);
    if (r == 0)
        r = check_condition(action, step.version != 0, step.version, err);
    step.before = buf_span(&before);
    step.after = buf_span(&after);
    return r ? r : entry_add(entry, &step);
}

/* As a transaction would: what an item is afterwards would depend on the order. */
static int check_distinct(const struct journal_entry *entry, struct err *err)
{
    for (size_t i = 0; i < entry->count; i++)
        for (size_t j = 0; j < i; j++)
            if (entry->steps[i].table_id == entry->steps[j].table_id &&
                key_equal(entry->steps[i].key, entry->steps[j].key))
                return err_set(err, EINVAL, "%s: twice in a batch",
                               item_label(entry->steps[i].description, entry->steps[i].key).text);
    return 0;
}

static int plan_entry(struct beside *beside, const struct action *actions, size_t count,
                      struct journal_entry *entry, struct err *err)
{
    size_t at = 0;
    int r = 0;

    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; r == 0 && i < count; i++)
            if (actions[i].kind == step_order[pass])
                r = plan_step(beside, &actions[i], entry, err);
    if (r == 0)
        r = entry_complete(entry, err);
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; r == 0 && i < count; i++)
            if (actions[i].kind == step_order[pass])
                r = (entry->steps[at++].description = table_copy(actions[i].table)) ? 0 : -ENOMEM;
    return r ? r : check_distinct(entry, err);
}

int journal_begin(struct beside *beside, const struct action *actions, size_t count,
                  bool with_state, struct journal_entry **ret_entry, struct err *err)
{
    struct journal_entry *entry;

    if (!beside->journal)
        return err_set(err, EROFS, "the tables are open for reading only");
    int r = entry_new(with_state, &entry, err);
    if (r < 0)
        return r;
    r = plan_entry(beside, actions, count, entry, err);
    if (r == 0)
        r = entry_lock(beside, entry, err);
    if (r == 0)
        r = entry_write(beside, entry, err);
    if (r < 0) {
        journal_end(entry);
        return r;
    }
    *ret_entry = entry;
    return 0;
}

/* The condition under which a step is made: that the item still is what the entry says. */
static struct condition step_condition(const struct step *step)
{
    return step->version ? (struct condition){COND_VERSION, step->version}
                         : (struct condition){COND_ABSENT, 0};
}

/* The batch's actions on items, in the order of the steps. */
struct work {
    struct action *actions; /* copies */
    size_t *places;         /* where each comes from */
    size_t count;
};

static int make_work(const struct journal_entry *entry, const struct action *actions, size_t count,
                     struct work *work)
{
    *work = (struct work){.actions = calloc(count + 1, sizeof *work->actions),
                          .places = calloc(count + 1, sizeof *work->places)};
    if (!work->actions || !work->places)
        return -ENOMEM;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            if (actions[i].kind != step_order[pass])
                continue;
            work->places[work->count] = i;
            work->actions[work->count] = actions[i];
            work->actions[work->count].condition = step_condition(&entry->steps[work->count]);
            work->count++;
        }
    return 0;
}

static void work_release(struct work *work)
{
    free(work->actions);
    free(work->places);
}

/* Somebody has changed an item since the entry was written, of which the batch's own conditions may
 * have nothing to say. */
static int conflict_code(const struct action *actions, size_t count, int code)
{
    for (size_t i = 0; i < count; i++)
        if (changes_item(&actions[i]) &&
            (actions[i].condition.kind == COND_ABSENT || actions[i].condition.kind == COND_VERSION))
            return code;
    return -EBUSY;
}

/* Together, where that can be; else one after another. */
static int do_work(struct beside *beside, struct journal_entry *entry, struct work *work,
                   struct err *err)
{
    int r = -EOPNOTSUPP;

    if (entry->count > 1) {
        r = backend_write(beside->items, work->actions, entry->count, 0, err);
        entry->begun = is_conflict(r) ? 0 : entry->count;
    }
    if (r != -EOPNOTSUPP)
        return r;
    err_clear(err);
    r = 0;
    for (size_t i = 0; r == 0 && i < entry->count; i++) {
        r = backend_write(beside->items, &work->actions[i], 1, 0, err);
        entry->begun = i + !is_conflict(r);
    }
    return r;
}

int journal_apply(struct beside *beside, struct journal_entry *entry, struct action *actions,
                  size_t count, struct err *err)
{
    cleanup(work_release) struct work work = {0};
    struct err own = {""};
    int r = make_work(entry, actions, count, &work);

    entry->begun = 0;
    if (r < 0)
        return r;
    r = do_work(beside, entry, &work, &own);
    entry->refused = is_conflict(r);
    if (entry->refused)
        r = conflict_code(actions, count, r);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    for (size_t i = 0; i < work.count; i++) {
        struct action *action = &actions[work.places[i]];
        action->meta = work.actions[i].meta;
        action->change = work.actions[i].change;
    }
    return 0;
}
