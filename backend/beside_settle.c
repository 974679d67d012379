/* SPDX-License-Identifier: MIT */
/* Batches that were cut short, by a failure or the end of their process: beside_journal.c says what
 * becomes of them. */
#include <stdlib.h>

#include "backend/beside_entry.h"
#include "backend/check.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define JOURNAL_TABLE "itemfs journal" /* a space: no table of the service has such a name */
#define TRIES_MAX 4                    /* each further one means that somebody has just written */

/* An item becomes TEXT, one of its step's, if it still is what it was when it was looked at. */
static int set_item(struct beside *beside, const struct step *step, struct span text,
                    struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct action action = {.kind = ACTION_DELETE,
                            .table = step->description,
                            .key = step->key,
                            .condition = {step->now ? COND_VERSION : COND_ABSENT, step->now}};
    int r = 0;

    buf_init(&body, ENTRY_MAX);
    if (text.len) {
        action.kind = ACTION_PUT;
        r = step_body(step, text, &body, &action.ttl, err);
        action.body = buf_span(&body);
    }
    return r ? r : backend_write(beside->items, &action, 1, 0, err);
}

/* What the items of an entry are. RET_ORDERLY: its steps may have made them so. */
static int look(struct beside *beside, struct journal_entry *entry, bool *ret_orderly,
                struct err *err)
{
    cleanup(buf_release) struct buf now;
    bool ended = false;
    int r = 0;

    buf_init(&now, ENTRY_MAX);
    *ret_orderly = true;
    for (size_t i = 0; r == 0 && i < entry->count; i++) {
        struct step *step = &entry->steps[i];
        buf_clear(&now);
        if (step->description)
            r = step_read(beside, step->description, step->key, &now, &step->now, err);
        step->state = !step->description                         ? STEP_OTHER
                      : span_equal(buf_span(&now), step->after)  ? STEP_AFTER
                      : span_equal(buf_span(&now), step->before) ? STEP_BEFORE
                                                                 : STEP_OTHER;
        if (step->state == STEP_OTHER ||
            (ended && step->state == STEP_AFTER && !span_equal(step->before, step->after)))
            *ret_orderly = false;
        ended = ended || step->state == STEP_BEFORE;
    }
    return r;
}

static int go_forward(struct beside *beside, const struct journal_entry *entry, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < entry->count; i++)
        if (entry->steps[i].state == STEP_BEFORE)
            r = set_item(beside, &entry->steps[i], entry->steps[i].after, err);
    return r;
}

/* What was there comes back before what was not goes. */
static int go_back(struct beside *beside, struct journal_entry *entry, struct err *err)
{
    size_t end = 0;
    int r = 0;

    while (end < entry->begun && entry->steps[end].state != STEP_BEFORE)
        end++;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; r == 0 && i < end; i++) {
            struct step *step = &entry->steps[i];
            step->lost = step->state == STEP_OTHER && step->before.len;
            if (step->state == STEP_AFTER && (step->before.len == 0) == (pass == 1) &&
                !span_equal(step->before, step->after))
                r = set_item(beside, step, step->before, err);
        }
    for (size_t i = end; entry->beside && i < entry->begun; i++)
        entry->steps[i].lost = entry->steps[i].before.len > 0; /* its request may be on its way */
    return r;
}

/* A failure after which the same is to be tried again, later. */
static bool is_passing(int code)
{
    return code == -EIO || code == -ETIMEDOUT || code == -EHOSTUNREACH || code == -EINTR ||
           code == -EBUSY || code == -EDQUOT || code == -ENOMEM;
}

/* Brings the items of an entry into one of its two states: forward where FORWARD and what they are
 * allows it. */
static int settle(struct beside *beside, struct journal_entry *entry, bool forward, bool *ret_whole,
                  struct err *err)
{
    int r = -EBUSY;

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        bool orderly;
        struct err own = {""};
        r = look(beside, entry, &orderly, &own);
        *ret_whole = forward && orderly;
        if (r == 0)
            r = *ret_whole ? go_forward(beside, entry, &own) : go_back(beside, entry, &own);
        if (r == 0)
            return 0;
        if (is_passing(r) || (!*ret_whole && !is_conflict(r)))
            return err_set(err, -r, "%s", err_text(&own, r));
        forward = forward && is_conflict(r); /* else a step is refused: back */
    }
    return err_set(err, EBUSY, "somebody else is writing the same items");
}

/* The results of a batch whose answers did not come. */
static int find_results(struct beside *beside, const struct journal_entry *entry,
                        struct action *actions, size_t count, struct err *err)
{
    size_t at = 0;
    int r = 0;

    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; r == 0 && i < count; i++) {
            struct action *action = &actions[i];
            if (action->kind != step_order[pass])
                continue;
            const struct step *step = &entry->steps[at++];
            action->change = !step->version     ? CHANGE_INSERT
                             : !step->after.len ? CHANGE_REMOVE
                                                : CHANGE_MODIFY;
            if (step->after.len)
                r = backend_get(beside->items, action->table, action->key, &action->meta, NULL,
                                err);
            else if (!step->version)
                action->change = CHANGE_NONE;
            action->meta.ctime_ns = action->meta.change_ns = clock_now_ns();
            action->meta.mtime_ns = action->mtime_ns ? action->mtime_ns : action->meta.ctime_ns;
            action->meta.change = action->change;
        }
    return r;
}

int journal_rescue(struct beside *beside, struct journal_entry *entry, struct action *actions,
                   size_t count, bool forward, int code, const struct err *own, struct err *err)
{
    struct err why = {""};
    bool whole;
    int r = settle(beside, entry, forward && is_passing(code) && !entry->beside && !entry->refused,
                   &whole, &why);

    if (r == 0 && whole)
        r = find_results(beside, entry, actions, count, &why);
    if (r == 0 && whole)
        return 0;
    if (r == 0)
        r = entry_close(beside, entry, &why);
    if (r == 0)
        return err_set(err, -code, "%s", err_text(own, code));
    return err_set(err, -code, "%s; it is completed or undone later: %s", err_text(own, code),
                   err_text(&why, r));
}

/* --- Recovery --- */

static int describe_step(struct beside *beside, struct step *step, struct err *err)
{
    struct err own = {""};
    int r = backend_describe(beside->items, step->table, &step->description, &own);

    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (r == 0 && step->description->id != step->table_id) { /* a new table of that name */
        table_free(step->description);
        step->description = NULL;
    }
    return 0;
}

/* An entry that is nobody's. */
static int recover(struct beside *beside, struct journal_entry *entry, struct err *err)
{
    bool there, whole;
    int r = entry_lock(beside, entry, err);

    if (r < 0)
        return r == -EAGAIN ? 0 : r;
    r = entry_find(beside, entry, &there, err);
    if (r < 0 || !there) /* whoever had the lock has ended it */
        return r;
    for (size_t i = 0; r == 0 && i < entry->count; i++)
        r = describe_step(beside, &entry->steps[i], err);
    if (r == 0)
        r = settle(beside, entry, !entry->beside, &whole, err);
    return r ? r : entry_close(beside, entry, err);
}

struct entries {
    struct journal_entry **all;
    size_t count;
    int unreadable; /* of one that cannot be read: the others are not held up by it */
    struct err *err;
};

static int gather_entry(void *context, const struct record *record)
{
    struct entries *entries = context;
    struct journal_entry **all =
        reallocarray(entries->all, entries->count + 1, sizeof(struct journal_entry *));

    if (!all)
        return -ENOMEM;
    entries->all = all;
    int r = entry_read(record, &all[entries->count], entries->err);
    entries->count += r == 0;
    if (r != -EINVAL)
        return r;
    entries->unreadable = r;
    return 0;
}

static bool concerns(const struct journal_entry *entry, const struct action *actions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; changes_item(&actions[i]) && j < entry->count; j++)
            if (span_equal(span_text(actions[i].table->name), entry->steps[j].table) &&
                key_equal(actions[i].key, entry->steps[j].key))
                return true;
    return count == 0;
}

static int tell_unsettled(const struct journal_entry *entry, int code, const struct err *own,
                          struct err *err)
{
    const struct step *first = &entry->steps[0];

    if (first->description)
        return err_set(err, -code, "%s: a change that was cut short cannot be ended yet: %s",
                       item_label(first->description, first->key).text, err_text(own, code));
    return err_set(err, -code, "table %.*s: a change that was cut short cannot be ended yet: %s",
                   (int)first->table.len, first->table.data, err_text(own, code));
}

int journal_settle(struct beside *beside, const struct action *actions, size_t count,
                   struct err *err)
{
    const struct walk all = {.bodies = true};
    struct err own = {""}, unreadable = {""};
    struct entries entries = {.err = &unreadable};
    int failed = 0;

    if (!beside->journal)
        return 0;
    int r = backend_walk(beside->state, beside->journal, &all, gather_entry, &entries, err);
    for (size_t i = 0; r == 0 && i < entries.count; i++) {
        if (!concerns(entries.all[i], actions, count))
            continue;
        err_clear(&own);
        int code = recover(beside, entries.all[i], &own);
        if (failed == 0 && code < 0)
            failed = tell_unsettled(entries.all[i], code, &own, err);
    }
    for (size_t i = 0; i < entries.count; i++)
        journal_end(entries.all[i]);
    free(entries.all);
    if (failed == 0 && r == 0 && entries.unreadable && count == 0)
        return err_set(err, -entries.unreadable, "%s", unreadable.text);
    return failed ? failed : r;
}

int journal_open(struct beside *beside, const char *lock_path, struct err *err)
{
    int r = state_table(beside, JOURNAL_TABLE, "entry", NULL, &beside->journal, err);

    if (r < 0)
        return r;
    beside->lock_path = strdup(lock_path);
    if (!beside->lock_path)
        return -ENOMEM;
    /* What cannot be settled now has its turn before a write to its items, or the keeper's. */
    (void)journal_settle(beside, NULL, 0, NULL);
    return 0;
}
