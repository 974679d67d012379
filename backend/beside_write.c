/* SPDX-License-Identifier: MIT */
/* A batch, taken apart: the items, then everything that is kept beside them (beside.h). */
#include "backend/beside_private.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/check.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"

static bool is_of_state(const struct action *action)
{
    return !changes_item(action) && action->kind != ACTION_TOUCH;
}

/* What a batch has to do with. */
struct parts {
    size_t items, state;
    size_t puts; /* what must not be missing beside items that were written */
};

static struct parts count_parts(const struct action *actions, size_t count)
{
    struct parts parts = {0};

    for (size_t i = 0; i < count; i++) {
        parts.items += changes_item(&actions[i]);
        parts.state += is_of_state(&actions[i]);
        parts.puts += actions[i].kind == ACTION_SCRATCH_PUT || actions[i].kind == ACTION_DRAFT_PUT;
    }
    return parts;
}

/* A touch changes nothing but the row; the item must be there. */
static int find_touched(struct beside *beside, struct action *actions, size_t count,
                        struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        struct action *action = &actions[i];
        if (action->kind != ACTION_TOUCH)
            continue;
        r = beside_get(&beside->backend, action->table, action->key, &action->meta, NULL, err);
        action->meta.ctime_ns = clock_now_ns();
        action->meta.mtime_ns = action->mtime_ns ? action->mtime_ns : action->meta.ctime_ns;
        action->change = CHANGE_NONE;
    }
    return r;
}

/* The state database's part of a batch: an action for each of the batch's own, and behind them
 * those that note when directories changed. */
struct ending {
    struct action *actions;
    struct directory_note *notes;
    size_t count, noted;
};

static int ending_init(struct ending *ending, size_t count)
{
    *ending = (struct ending){
        .actions = calloc((1 + DIRECTORY_ACTIONS) * count + 1, sizeof *ending->actions),
        .notes = calloc(count + 1, sizeof *ending->notes)};
    return ending->actions && ending->notes ? 0 : -ENOMEM;
}

static void ending_release(struct ending *ending)
{
    for (size_t i = 0; i < ending->noted; i++)
        buf_release(&ending->notes[i].name);
    free(ending->actions);
    free(ending->notes);
}

/* Scratch files stand in a table of the state database; drafts have none. */
static int add_state(struct beside *beside, const struct action *action, struct ending *ending,
                     struct err *err)
{
    struct action *own = &ending->actions[ending->count++];

    *own = *action;
    if (!action->table)
        return 0;
    return beside_files(beside, action->table, &own->table, err);
}

/* Whether an item came or went by ACTION. */
static bool moves_directory(const struct action *action)
{
    return changes_item(action) &&
           (action->change == CHANGE_INSERT || action->change == CHANGE_REMOVE);
}

/* The directories in which items came or went; of neighbours in one directory the first tells. */
static int add_directories(struct beside *beside, const struct action *actions, size_t count,
                           struct ending *ending)
{
    int64_t now_ns = clock_now_ns();
    const struct action *last = NULL;
    size_t added;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct action *action = &actions[i];
        if (!moves_directory(action))
            continue;
        if (last && last->table->id == action->table->id &&
            (!table_sorted(action->table) ||
             span_equal(last->key.partition, action->key.partition)))
            continue;
        last = action;
        r = directory_actions(beside, action->table, action->key.partition, now_ns,
                              &ending->notes[ending->noted++], &ending->actions[ending->count],
                              &added);
        ending->count += added;
    }
    return r;
}

static void take_results(struct action *actions, size_t count, const struct ending *ending)
{
    for (size_t i = 0, at = 0; i < count; i++) {
        if (!is_of_state(&actions[i]))
            continue;
        const struct action *own = &ending->actions[at++];
        actions[i].meta = own->meta;
        actions[i].change = own->change;
        actions[i].made_id = own->made_id;
    }
}

/* An item that was written as it was has the changes that it had. */
static void keep_change(struct beside *beside, struct action *action)
{
    struct times_row row = times_row_of(action->table, action->key, &action->meta);
    bool meet;

    if (times_find(beside->times, &row, &meet)) {
        action->meta.change_ns = row.change_ns;
        action->meta.change = row.modified ? CHANGE_MODIFY : CHANGE_INSERT;
    }
}

/* What was written or touched, with its times from now on. Rows of what was deleted are left: an
 * item that comes back as it was has its times again. */
static void write_times(struct beside *beside, struct action *actions, size_t count)
{
    cleanup_free struct times_row *rows = calloc(count + 1, sizeof *rows);
    size_t noted = 0;

    for (size_t i = 0; i < count; i++) {
        struct action *action = &actions[i];
        if (action->kind != ACTION_TOUCH && action->kind != ACTION_PUT)
            continue;
        if (action->kind == ACTION_PUT && action->change == CHANGE_NONE)
            keep_change(beside, action);
        if (rows)
            rows[noted++] = times_row_of(action->table, action->key, &action->meta);
    }
    times_set(beside->times, rows, noted);
}

/* All that is kept beside, in one transaction; ENTRY (may be NULL) goes with it. Times have a file
 * of their own: they are noted when all else is done. */
static int write_state(struct beside *beside, struct action *actions, size_t count,
                       const struct journal_entry *entry, unsigned flags, struct err *err)
{
    cleanup(ending_release) struct ending ending = {0};
    int r = ending_init(&ending, count);

    for (size_t i = 0; r == 0 && i < count; i++)
        if (is_of_state(&actions[i]))
            r = add_state(beside, &actions[i], &ending, err);
    if (r == 0)
        r = add_directories(beside, actions, count, &ending);
    if (r == 0 && entry)
        ending.actions[ending.count++] = journal_done(beside, entry);
    if (r == 0 && ending.count)
        r = backend_write(beside->state, ending.actions, ending.count,
                          entry ? flags | WRITE_DURABLE : flags, err);
    if (r < 0)
        return r;
    take_results(actions, count, &ending);
    write_times(beside, actions, count);
    return 0;
}

/* Step by step, with a journal. From the first step on nobody calls it off. */
static int apply_journaled(struct beside *beside, struct action *actions, size_t count,
                           const struct parts *parts, unsigned flags, struct err *err)
{
    struct journal_entry *entry = NULL;
    struct err own = {""};
    int r = journal_begin(beside, actions, count, parts->puts > 0, &entry, err);

    if (r < 0)
        return r;
    cancel_set(NULL);
    r = journal_apply(beside, entry, actions, count, &own);
    if (r < 0)
        r = journal_rescue(beside, entry, actions, count, true, r, &own, err);
    if (r == 0) {
        err_clear(&own);
        r = write_state(beside, actions, count, entry, flags, &own);
        if (r < 0)
            r = journal_rescue(beside, entry, actions, count, false, r, &own, err);
    }
    journal_end(entry);
    return r;
}

static int write_journaled(struct beside *beside, struct action *actions, size_t count,
                           const struct parts *parts, unsigned flags, struct err *err)
{
    const atomic_bool *flag = cancel_flag();
    int r = apply_journaled(beside, actions, count, parts, flags, err);

    cancel_set(flag);
    return r;
}

/* Those of ACTIONS that the items' backend applies together, with their results. */
static int write_items(struct beside *beside, struct action *actions, size_t count, unsigned flags,
                       struct err *err)
{
    cleanup_free struct action *items = calloc(count + 1, sizeof *items);
    size_t chosen = 0;

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (changes_item(&actions[i]))
            items[chosen++] = actions[i];
    int r = backend_write(beside->items, items, chosen, flags, err);
    for (size_t i = 0, at = 0; r == 0 && i < count; i++)
        if (changes_item(&actions[i]))
            actions[i] = items[at++];
    return r;
}

/* Whether what goes with the items can go: later it is too late to refuse. */
static int check_state(struct beside *beside, const struct action *actions, size_t count,
                       struct err *err)
{
    cleanup(ending_release) struct ending ending = {0};
    int r = ending_init(&ending, count);

    for (size_t i = 0; r == 0 && i < count; i++)
        if (is_of_state(&actions[i]))
            r = add_state(beside, &actions[i], &ending, err);
    return r ? r : backend_write(beside->state, ending.actions, ending.count, WRITE_TRY, err);
}

/* One item, and what goes with it: a temporary file that became the item, a draft that is not
 * needed any more. First the item, so that what is cut short leaves a file too many and no more. */
static int write_and_tidy(struct beside *beside, struct action *actions, size_t count,
                          unsigned flags, struct err *err)
{
    struct err own = {""};
    int r = check_state(beside, actions, count, err);

    if (r == 0)
        r = write_items(beside, actions, count, flags, err);
    if (r < 0)
        return r;
    r = write_state(beside, actions, count, NULL, flags, &own);
    if (r == 0)
        return 0;
    const struct action *item = actions;
    while (!changes_item(item))
        item++;
    return err_set(err, EIO, "%s: is written, and what was to go with it is still there: %s",
                   item_label(item->table, item->key).text, err_text(&own, r));
}

/* Whether items that are to go have the mtimes that they were judged by. */
static int check_times(struct beside *beside, const struct action *actions, size_t count,
                       struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct action *action = &actions[i];
        struct item_meta meta = {.version = action->condition.version};
        struct times_row row;
        bool meet;

        if (action->kind != ACTION_DELETE || !action->mtime_ns)
            continue;
        row = times_row_of(action->table, action->key, &meta);
        if (times_find(beside->times, &row, &meet))
            r = check_mtime(action, row.mtime_ns, err);
    }
    return r;
}

int beside_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                 struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct parts parts = count_parts(actions, count);
    struct err own = {""};
    int r = find_touched(beside, actions, count, err);

    if (r == 0)
        r = check_times(beside, actions, count, err);
    if (r == 0 && parts.items)
        r = journal_settle(beside, actions, count, err);
    if (r < 0)
        return r;
    if (parts.items == 1 && parts.state && !parts.puts)
        return write_and_tidy(beside, actions, count, flags, err);
    if (parts.items && parts.state)
        return write_journaled(beside, actions, count, &parts, flags, err);
    if (parts.items == 0)
        return write_state(beside, actions, count, NULL, flags, err);
    r = write_items(beside, actions, count, flags, &own);
    if (r == -EOPNOTSUPP && parts.items > 1)
        return write_journaled(beside, actions, count, &parts, flags, err);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (flags &
        WRITE_LOOSE) /* nothing is told of what was there: times are noted when it is seen */
        return 0;
    /* Without it a directory's time does not move, and times are noted when items are seen. */
    (void)write_state(beside, actions, count, NULL, flags, NULL);
    return 0;
}

int beside_update(struct backend *backend, const struct table *table, struct key key,
                  const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                  struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct action action = {
        .kind = ACTION_PUT, .table = table, .key = key, .change = CHANGE_MODIFY};
    int r = journal_settle(beside, &action, 1, err);

    if (r == 0)
        r = backend_update(beside->items, table, key, update, &action.meta, ret_number, err);
    if (r < 0)
        return r;
    write_times(beside, &action, 1);
    *ret_meta = action.meta;
    return 0;
}
