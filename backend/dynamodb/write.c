/* SPDX-License-Identifier: MIT */
/*
 * Writing items. One item is a conditional UpdateItem (update.c), PutItem or DeleteItem, several
 * are one transaction; where the service has none, several are refused, and whoever keeps a journal
 * writes them one after another (backend/beside.h).
 *
 * A request whose answer was lost may have been applied, and the client sends it again: then its
 * own condition fails. So after a repetition a failed condition is looked at: where the item is
 * what was to be written, it was.
 *
 * An attribute that somebody else has added since the item was read meets no condition. The old
 * item that a deletion, or a put of more attributes than an update takes, gives back shows it; then
 * the write is undone, under the condition that nobody has written since, and the caller is told of
 * a conflict. Transactions give nothing back: there the item is read a moment before, which is one
 * request an item more, and what is added within this moment is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "backend/check.h"
#include "backend/dynamodb/condition.h"
#include "backend/dynamodb/update.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* --- One item --- */

/* Puts back what was overwritten, unless somebody has written since. */
static int undo(struct service *service, const struct plan *plan, const struct value *old,
                struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    const struct action *action = plan->action;
    struct condition condition = {action->kind == ACTION_PUT ? COND_VERSION : COND_ABSENT, 0};
    struct demand demand = {action->table->name, CAPACITY_WRITE,
                            item_write_units(action->table, old)};

    buf_init(&body, DYNAMODB_BODY_MAX);
    request_begin(&body, action->table);
    request_item(&body, "Item", old);
    request_condition(&body, action->table, condition, &plan->item, service_is_flat(service),
                      clock_now_s());
    return service_spend(service, "PutItem", &demand, 1, &body, NULL, &outcome, err);
}

/* Whether the old item, as the answer gives it back, is the one that the caller knew. */
static int check_old(struct service *service, const struct plan *plan, struct span answer,
                     uint64_t *ret_old, struct err *err)
{
    const struct action *action = plan->action;
    cleanup(stored_release) struct stored old = {0};
    struct err own = {""};
    struct span raw;

    *ret_old = 0;
    if (!reply_member(answer, "Attributes", &raw))
        return 0;
    int r = stored_from_typed(action->table, raw, &old, &own);
    if (r < 0 && action->condition.kind != COND_VERSION) { /* was there, whatever it was */
        *ret_old = UINT64_MAX;
        return 0;
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    *ret_old = old.version;
    if (action->condition.kind != COND_VERSION || !old.version ||
        old.version == action->condition.version)
        return 0;
    r = undo(service, plan, &old.item, &own);
    if (r < 0 && r != -EEXIST) /* that is somebody's who has written since */
        return err_set(err, EIO, "%s: was changed meanwhile, and is overwritten: %s",
                       item_label(action->table, action->key).text, err_text(&own, r));
    return condition_failed(action->table, action->key, COND_VERSION, err);
}

/* After a repetition, or without an answer: whether the items are what they were to be. */
static bool was_it_us(struct service *service, const struct outcome *outcome,
                      const struct plan *plans, size_t count)
{
    bool ours = outcome->repeated || outcome->uncertain;

    for (size_t i = 0; ours && i < count; i++) {
        cleanup(stored_release) struct stored now = {0};
        ours = stored_read(service, plans[i].action, &now, NULL) == 0 &&
               now.version == plans[i].version;
    }
    return ours;
}

/* What an error that came to OUTCOME means: 0 where the write was applied all the same. */
static int judge_failure(struct service *service, const struct plan *plan,
                         const struct outcome *outcome, int code, const struct err *own,
                         struct err *err)
{
    const struct action *action = plan->action;

    if (was_it_us(service, outcome, plan, 1))
        return 0;
    if (strcmp(outcome->type, "ConditionalCheckFailedException") != 0)
        return err_set(err, -code, "%s", err_text(own, code));
    if (plan_cannot_compare(service, plan))
        return -EAGAIN;
    return condition_failed(action->table, action->key, action->condition.kind, err);
}

static int write_whole(struct service *service, struct plan *plan, struct err *err)
{
    const struct action *action = plan->action;
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {action->table->name, CAPACITY_WRITE, plan_units(plan)};
    struct err own = {""};
    uint64_t old = action->condition.kind == COND_ABSENT ? 0 : plan->base.version;

    buf_init(&body, DYNAMODB_BODY_MAX);
    plan_request(service, &body, plan);
    request_text(&body, "ReturnValues", span_text("ALL_OLD"));
    int r = service_spend(service, action->kind == ACTION_PUT ? "PutItem" : "DeleteItem", &demand,
                          1, &body, NULL, &outcome, &own);
    if (r == 0)
        r = check_old(service, plan, buf_span(&outcome.body), &old, err);
    else
        r = judge_failure(service, plan, &outcome, r, &own, err);
    if (r == -EAGAIN)
        return write_whole(service, plan, err);
    if (r == 0)
        plan_done(plan, old);
    return r;
}

static int write_one(struct service *service, struct plan *plan, struct err *err)
{
    bool fits;
    int r = update_write(service, plan, &fits, err);

    return fits ? r : write_whole(service, plan, err);
}

/* --- Several --- */

static void add_token(struct buf *out)
{
    unsigned char bytes[16];
    char token[33];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        out->error = -EIO;
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    request_text(out, "ClientRequestToken", span_text(token));
}

struct reason_search {
    const struct plan *plans;
    size_t at;
    int code;
    struct err *err;
};

static int read_reason(void *context, struct span raw)
{
    struct reason_search *search = context;
    const struct action *action = search->plans[search->at++].action;

    if (reply_text_is(raw, "Code", "ConditionalCheckFailed"))
        search->code =
            condition_failed(action->table, action->key, action->condition.kind, search->err);
    else if (reply_text_is(raw, "Code", "TransactionConflict"))
        search->code = err_set(search->err, EBUSY, "%s: somebody else is writing it",
                               item_label(action->table, action->key).text);
    return search->code != 0;
}

/* The answer names a reason for each item, in their order. */
static int cancelled(const struct plan *plans, const struct outcome *outcome, int code,
                     const struct err *own, struct err *err)
{
    struct reason_search search = {.plans = plans, .err = err};
    struct span reasons;

    if (reply_member(buf_span(&outcome->body), "CancellationReasons", &reasons))
        reply_each(reasons, read_reason, &search);
    return search.code ? search.code : err_set(err, -code, "%s", err_text(own, code));
}

static int refuse_several(struct err *err)
{
    return err_set(err, EOPNOTSUPP, "the service has no transactions");
}

/* All of them together, for twice the units. */
static int transact(struct service *service, const struct plan *plans, size_t count,
                    struct outcome *ret_outcome, struct err *err)
{
    cleanup_free struct demand *demands = calloc(count, sizeof *demands);
    cleanup(buf_release) struct buf body = {0};
    size_t tables = 0;

    outcome_init(ret_outcome);
    if (!demands)
        return err_set(err, ENOMEM, "no memory");
    buf_init(&body, DYNAMODB_BODY_MAX);
    buf_add_text(&body, "{\"TransactItems\":[");
    for (size_t i = 0; i < count; i++) {
        buf_add_text(&body, i ? ",{" : "{");
        buf_add_text(&body, plans[i].action->kind == ACTION_PUT ? "\"Put\":" : "\"Delete\":");
        plan_request(service, &body, &plans[i]);
        buf_add_text(&body, "}}");
        demand_add(demands, &tables, plans[i].action->table->name, CAPACITY_WRITE,
                   2 * plan_units(&plans[i]));
    }
    buf_add_char(&body, ']');
    add_token(&body);
    return service_spend(service, "TransactWriteItems", demands, tables, &body, NULL, ret_outcome,
                         err);
}

static int write_several(struct service *service, struct plan *plans, size_t count, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct err own = {""};
    int r = transact(service, plans, count, &outcome, &own);

    if (r < 0 && was_it_us(service, &outcome, plans, count)) /* the token was of no use */
        r = 0;
    else if (r < 0 && strcmp(outcome.type, "TransactionCanceledException") == 0)
        return cancelled(plans, &outcome, r, &own, err);
    if (r == -EOPNOTSUPP) {
        scoped_lock(&service->lock);
        service->no_transactions = true;
        return refuse_several(err);
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    for (size_t i = 0; i < count; i++)
        plan_done(&plans[i], plans[i].base.version);
    return 0;
}

/* PLANS get one for each action that has something to do here: times are kept beside. */
static int plan_all(struct service *service, struct action *actions, size_t count, bool several,
                    struct plan *plans, struct err *err)
{
    size_t planned = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        if (actions[i].kind == ACTION_TOUCH)
            continue;
        plans[planned].action = &actions[i];
        r = plan_action(service, &plans[planned++], several, err);
    }
    return r;
}

static bool has_no_transactions(struct service *service)
{
    scoped_lock(&service->lock);
    return service->no_transactions;
}

int service_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                  struct err *err)
{
    struct service *service = service_of(backend);
    size_t sent = 0;

    for (size_t i = 0; i < count; i++)
        sent += actions[i].kind != ACTION_TOUCH;
    if (service->read_only) /* what the service acknowledges is durable: no flag for it */
        return err_set(err, EROFS, "the tables are open for reading only");
    if (flags & WRITE_LOOSE)
        return service_write_loose(service, actions, count, err);
    if (sent > 1 && has_no_transactions(service))
        return refuse_several(err);
    struct plan *plans = calloc(sent + 1, sizeof *plans);
    int r = plans ? plan_all(service, actions, count, sent > 1, plans, err) : -ENOMEM;
    if (r == 0 && sent == 1)
        r = write_one(service, &plans[0], err);
    else if (r == 0 && sent > 1)
        r = write_several(service, plans, sent, err);
    plans_release(plans, sent);
    return r;
}
