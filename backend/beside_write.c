/* SPDX-License-Identifier: MIT */
/* A batch, taken apart: what is kept, then the items, then what goes (beside.h). */
#include "backend/beside_private.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

static bool is_scratch(const struct action *action)
{
    return action->kind == ACTION_SCRATCH_PUT || action->kind == ACTION_SCRATCH_DELETE;
}

static bool is_of_state(const struct action *action)
{
    return is_scratch(action) || action->kind == ACTION_DRAFT_PUT ||
           action->kind == ACTION_DRAFT_DELETE;
}

static bool goes_last(const struct action *action)
{
    return action->kind == ACTION_SCRATCH_DELETE || action->kind == ACTION_DRAFT_DELETE;
}

/* Those of ACTIONS that CHOSEN wants, applied together to BACKEND, with their results. */
static int write_some(struct beside *beside, struct backend *backend, struct action *actions,
                      size_t count, bool (*chosen)(const struct action *), unsigned flags,
                      struct err *err)
{
    cleanup_free struct action *some = calloc(count + 1, sizeof *some);
    size_t chosen_count = 0;
    int r = some ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < count; i++) {
        if (!chosen(&actions[i]))
            continue;
        some[chosen_count] = actions[i];
        if (is_scratch(&actions[i]))
            r = beside_state(beside, actions[i].table, &some[chosen_count].table, err);
        chosen_count++;
    }
    if (r == 0 && chosen_count)
        r = backend_write(backend, some, chosen_count, flags, err);
    for (size_t i = 0, at = 0; r == 0 && i < count; i++)
        if (chosen(&actions[i])) {
            const struct table *table = actions[i].table;
            actions[i] = some[at++];
            actions[i].table = table;
        }
    return r;
}

static bool is_first(const struct action *action)
{
    return is_of_state(action) && !goes_last(action);
}

static bool is_item(const struct action *action)
{
    return !is_of_state(action);
}

/* A touch changes nothing but the row; the item must be there. */
static int touch(struct beside *beside, struct action *action, struct err *err)
{
    int r = backend_get(beside->items, action->table, action->key, &action->meta, NULL, err);

    if (r < 0)
        return r;
    action->meta.mtime_ns = action->mtime_ns ? action->mtime_ns : clock_now_ns();
    action->meta.ctime_ns = clock_now_ns();
    action->change = CHANGE_NONE;
    return 0;
}

/* What was written, with its times from now on. Rows of what was deleted are left: an item that
 * comes back as it was has its times again. */
static int note_written(struct beside *beside, struct action *actions, size_t count,
                        struct err *err)
{
    cleanup_free struct times_row *rows = calloc(count + 1, sizeof *rows);
    size_t noted = 0;
    int r = rows ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < count; i++) {
        struct action *action = &actions[i];
        if (action->kind == ACTION_TOUCH)
            r = touch(beside, action, err);
        if (r == 0 && (action->kind == ACTION_TOUCH || action->kind == ACTION_PUT))
            rows[noted++] = times_row_of(action->table, action->key, &action->meta);
    }
    times_set(beside->times, rows, noted);
    return r;
}

int beside_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                 struct err *err)
{
    struct beside *beside = beside_of(backend);
    int r = write_some(beside, beside->state, actions, count, is_first, flags, err);

    if (r == 0)
        r = write_some(beside, beside->items, actions, count, is_item, flags, err);
    if (r == 0 && !(flags & WRITE_LOOSE)) /* else they have the time when they are first seen */
        r = note_written(beside, actions, count, err);
    if (r == 0)
        r = write_some(beside, beside->state, actions, count, goes_last, flags, err);
    return r;
}
