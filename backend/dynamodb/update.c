/* SPDX-License-Identifier: MIT */
/*
 * A save over an item that was read: UpdateItem. It sets and removes the attributes that differ,
 * each under the condition that it still is what was read, and touches no others. So what somebody
 * else writes beside it is never overwritten, however the requests fall.
 *
 * Other attributes are in the condition too, as many as fit. What was not (an attribute that was
 * added, one beyond the limit, maps where the service cannot compare them) shows in the old item
 * that the answer gives back. Then the change is taken back, again attribute by attribute, and the
 * caller is told of a conflict.
 *
 * A request whose answer was lost may have been applied, and the client sends it again: then its
 * own condition fails. So after a repetition a failed condition is looked at: where all attributes
 * are what they were to be, it was applied.
 */
#include "backend/dynamodb/update.h"

#include <errno.h>
#include <string.h>

#include "backend/check.h"
#include "backend/dynamodb/condition.h"
#include "base/cleanup.h"

struct save {
    struct service *service;
    struct plan *plan;
    struct touch touches[CONDITION_ATTRIBUTES_MAX];
    size_t count;
};

/* --- What differs --- */

/* False where there is no room. */
static bool add_touch(struct save *save, const struct member *member, const struct value *before,
                      const struct value *after)
{
    if (before && after && value_equal(before, after))
        return true;
    if (save->count == CONDITION_ATTRIBUTES_MAX)
        return false;
    struct span name = span_of(member->name, member->name_len);
    save->touches[save->count++] = (struct touch){name, before, after};
    return true;
}

static bool find_touches(struct save *save)
{
    const struct value *before = &save->plan->base.item, *after = &save->plan->item;

    for (size_t i = 0; i < after->map.count; i++) {
        const struct member *member = &after->map.members[i];
        const struct value *old = value_member(before, span_of(member->name, member->name_len));
        if (!add_touch(save, member, old, &member->value))
            return false;
    }
    for (size_t i = 0; i < before->map.count; i++) {
        const struct member *member = &before->map.members[i];
        if (!value_member(after, span_of(member->name, member->name_len)) &&
            !add_touch(save, member, &member->value, NULL))
            return false;
    }
    return true;
}

/* --- Requests --- */

/* REST: the item whose other attributes are in the condition too, or NULL. */
static int send_update(const struct save *save, const struct touch *touches,
                       const struct value *rest, double units, struct outcome *outcome,
                       struct err *err)
{
    const struct action *action = save->plan->action;
    cleanup(buf_release) struct buf body;
    struct demand demand = {action->table->name, CAPACITY_WRITE, units};

    buf_init(&body, DYNAMODB_BODY_MAX);
    request_begin(&body, action->table);
    request_key(&body, "Key", action->table, action->key);
    request_change(&body, action->table, touches, save->count, rest,
                   service_is_flat(save->service));
    request_text(&body, "ReturnValues", span_text("ALL_OLD"));
    return service_spend(save->service, "UpdateItem", &demand, 1, &body, NULL, outcome, err);
}

/* Gives each attribute that was changed what it has in OLD, where it is what it was changed to. */
static int take_back(const struct save *save, const struct value *old, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct touch back[CONDITION_ATTRIBUTES_MAX];

    for (size_t i = 0; i < save->count; i++) {
        const struct touch *touch = &save->touches[i];
        back[i] = (struct touch){touch->name, touch->after, value_member(old, touch->name)};
    }
    return send_update(save, back, NULL, plan_units(save->plan), &outcome, err);
}

/* The change was applied to OLD, which is another item than the one that was read. */
static int conflict(const struct save *save, const struct value *old, struct err *err)
{
    const struct action *action = save->plan->action;
    struct err own = {""};
    int r = save->count ? take_back(save, old, &own) : 0;

    if (r < 0)
        return err_set(err, EIO,
                       "%s: was changed meanwhile, and what was saved over it is not taken back: "
                       "%s",
                       item_label(action->table, action->key).text, err_text(&own, r));
    return condition_failed(action->table, action->key, COND_VERSION, err);
}

/* --- Answers --- */

/* Whether the old item, as the answer gives it back, is the one that was read. */
static int check_old(const struct save *save, struct span answer, struct err *err)
{
    const struct action *action = save->plan->action;
    cleanup(stored_release) struct stored old = {0};
    struct span raw;

    if (!reply_member(answer, "Attributes", &raw))
        return 0;
    int r = stored_from_typed(action->table, raw, &old, err);
    if (r < 0 || old.version == action->condition.version)
        return r;
    return conflict(save, &old.item, err);
}

static bool is_applied(const struct save *save, const struct value *now)
{
    for (size_t i = 0; i < save->count; i++) {
        const struct touch *touch = &save->touches[i];
        const struct value *value = value_member(now, touch->name);
        if (value && touch->after ? !value_equal(value, touch->after) : value || touch->after)
            return false;
    }
    return true;
}

/* The condition failed, or nobody knows. 0: it was applied all the same; -EAGAIN: once more. */
static int judge_failure(const struct save *save, const struct outcome *outcome, int code,
                         const struct err *own, struct err *err)
{
    const struct plan *plan = save->plan;
    const struct action *action = plan->action;
    bool refused = strcmp(outcome->type, "ConditionalCheckFailedException") == 0;
    bool unknown = outcome->repeated || outcome->uncertain;
    cleanup(stored_release) struct stored now = {0};

    if (unknown && save->count && stored_read(save->service, action, &now, NULL) == 0 &&
        now.version && is_applied(save, &now.item))
        return now.version == plan->version ? 0 : conflict(save, &plan->base.item, err);
    if (!refused)
        return err_set(err, -code, "%s", err_text(own, code));
    if (plan_cannot_compare(save->service, plan))
        return -EAGAIN;
    return condition_failed(action->table, action->key, COND_VERSION, err);
}

int update_write(struct service *service, struct plan *plan, bool *ret_fits, struct err *err)
{
    const struct action *action = plan->action;
    struct save save = {.service = service, .plan = plan};
    cleanup(outcome_release) struct outcome outcome;
    struct err own = {""};

    outcome_init(&outcome);
    *ret_fits =
        action->kind == ACTION_PUT && action->condition.kind == COND_VERSION && find_touches(&save);
    if (!*ret_fits)
        return 0;
    int r = send_update(&save, save.touches, &plan->base.item, plan_units(plan), &outcome, &own);
    if (r == 0)
        r = check_old(&save, buf_span(&outcome.body), err);
    else
        r = judge_failure(&save, &outcome, r, &own, err);
    if (r == -EAGAIN)
        return update_write(service, plan, ret_fits, err);
    if (r == 0)
        plan_done(plan, plan->base.version);
    return r;
}
