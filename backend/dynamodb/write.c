/* SPDX-License-Identifier: MIT */
/*
 * Writing items. One item is a conditional PutItem or DeleteItem, several are one transaction.
 *
 * A request whose answer was lost may have been applied, and the client sends it again: then its
 * own condition fails. So after a repetition a failed condition is looked at: where the item is
 * what was to be written, it was.
 *
 * An attribute that somebody else has added since the item was read meets no condition. The old
 * item that a put or delete gives back shows it; then the write is undone, under the condition that
 * nobody has written since, and the caller is told of a conflict. Transactions give nothing back:
 * there the item is read a moment before, which is one request an item more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "backend/check.h"
#include "backend/dynamodb/condition.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* An action as it goes to the service. */
struct plan {
    struct action *action;
    bool sent;         /* it has something to do there */
    struct value item; /* PUT: what is written, canonical */
    struct value base; /* COND_VERSION: what was read; an M */
    size_t size;       /* of the body that a reader will see */
    int64_t ttl;
};

static void plan_release(struct plan *plan)
{
    value_release(&plan->item);
    value_release(&plan->base);
}

static void plans_release(struct plan *plans, size_t count)
{
    for (size_t i = 0; plans && i < count; i++)
        plan_release(&plans[i]);
    free(plans);
}

/* What the item holds now, canonical; -ENOENT. */
static int read_item(struct service *service, const struct table *table, struct key key,
                     struct value *ret_item, struct err *err)
{
    cleanup(buf_release) struct buf typed;
    struct value item = {0};

    buf_init(&typed, DYNAMODB_BODY_MAX);
    int r = service_get_typed(service, table, key, &typed, err);
    if (r == 0)
        r = value_map_from_typed(buf_span(&typed), &item, err);
    if (r == 0)
        r = value_canonical(&item, err);
    if (r < 0)
        value_release(&item);
    else
        *ret_item = item;
    return r;
}

static int plan_put(struct plan *plan, struct err *err)
{
    struct action *action = plan->action;
    const struct table *table = action->table;
    cleanup(buf_release) struct buf body;
    struct item_facts facts;
    int64_t beside;
    int r = item_examine(table, action->key, action->body, &facts, NULL, err);

    buf_init(&body, DYNAMODB_BODY_MAX);
    if (r == 0)
        r = item_from_body(table, action->key, action->body, facts.is_object ? 0 : action->ttl,
                           &plan->item, err);
    if (r == 0)
        r = value_canonical(&plan->item, err);
    if (r == 0)
        r = item_to_body(table, &plan->item, &body, &beside, err);
    if (r == 0)
        r = buf_error(&body);
    if (r == 0 && item_bytes(&plan->item) > DYNAMODB_ITEM_MAX)
        r = err_set(err, EFBIG, "%s: %zu bytes, and the service takes %d",
                    item_label(table, action->key).text, item_bytes(&plan->item),
                    DYNAMODB_ITEM_MAX);
    plan->size = body.len;
    plan->ttl = facts.is_object ? facts.ttl : beside;
    return r;
}

static bool recent_item(struct service *service, struct plan *plan)
{
    const struct action *action = plan->action;
    cleanup(buf_release) struct buf typed;

    buf_init(&typed, DYNAMODB_BODY_MAX);
    if (!recent_find(service->recent, action->table->id, action->key, action->condition.version,
                     &typed))
        return false;
    if (value_map_from_typed(buf_span(&typed), &plan->base, NULL) == 0 &&
        value_canonical(&plan->base, NULL) == 0)
        return true;
    value_release(&plan->base);
    plan->base = (struct value){0};
    return false;
}

/* The state that a version names, read a moment ago or now: the hash tells whether it is that. */
static int plan_base(struct service *service, struct plan *plan, struct err *err)
{
    struct action *action = plan->action;
    int r = recent_item(service, plan)
                ? 0
                : read_item(service, action->table, action->key, &plan->base, err);

    if (r == -ENOENT || (r == 0 && item_version(&plan->base) != action->condition.version)) {
        err_clear(err);
        return condition_failed(action->table, action->key, COND_VERSION, err);
    }
    return r;
}

static int plan_action(struct service *service, struct plan *plan, struct err *err)
{
    enum action_kind kind = plan->action->kind;
    int r = 0;

    if (kind == ACTION_TOUCH) /* times are kept beside the service */
        return 0;
    plan->sent = true;
    if (kind == ACTION_PUT)
        r = plan_put(plan, err);
    if (r == 0 && plan->action->condition.kind == COND_VERSION)
        r = plan_base(service, plan, err);
    return r;
}

/* --- Requests --- */

static void add_item(struct buf *out, const char *name, const struct value *item)
{
    cleanup(buf_release) struct buf typed;

    buf_init(&typed, DYNAMODB_BODY_MAX);
    value_map_to_typed(item, &typed);
    request_raw(out, name, buf_span(&typed));
    if (buf_error(&typed))
        out->error = buf_error(&typed);
}

static bool is_flat_service(struct service *service)
{
    scoped_lock(&service->lock);
    return service->flat;
}

static void add_plan(struct service *service, struct buf *out, const struct plan *plan)
{
    const struct action *action = plan->action;

    request_begin(out, action->table);
    if (action->kind == ACTION_PUT)
        add_item(out, "Item", &plan->item);
    else
        request_key(out, "Key", action->table, action->key);
    request_condition(out, action->table, action->condition, &plan->base, is_flat_service(service),
                      clock_now_s());
}

/* Units that it will consume: the larger of the item before, where that is known, and after. */
static double plan_units(const struct plan *plan)
{
    const struct table *table = plan->action->table;
    double before = 1, after = 1;

    if (plan->base.type == VALUE_M)
        before = item_write_units(table, &plan->base);
    if (plan->action->kind == ACTION_PUT)
        after = item_write_units(table, &plan->item);
    return before > after ? before : after;
}

static void plan_done(struct plan *plan, bool was_there)
{
    struct action *action = plan->action;
    int64_t now_ns = clock_now_ns();

    if (action->kind == ACTION_DELETE) {
        action->change = was_there ? CHANGE_REMOVE : CHANGE_NONE;
        return;
    }
    action->change = was_there ? CHANGE_MODIFY : CHANGE_INSERT;
    action->meta = (struct item_meta){.version = item_version(&plan->item),
                                      .size = plan->size,
                                      .mtime_ns = action->mtime_ns ? action->mtime_ns : now_ns,
                                      .ctime_ns = now_ns,
                                      .ttl = plan->ttl,
                                      .change_ns = now_ns,
                                      .change = (uint8_t)action->change};
}

/* --- One item --- */

/* Puts back what was overwritten, unless somebody has written since. */
static void undo(struct service *service, const struct plan *plan, const struct value *old)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    const struct action *action = plan->action;
    struct condition condition = {COND_ABSENT, 0};
    struct demand demand = {action->table->name, CAPACITY_WRITE,
                            item_write_units(action->table, old)};

    buf_init(&body, DYNAMODB_BODY_MAX);
    request_begin(&body, action->table);
    add_item(&body, "Item", old);
    if (action->kind == ACTION_PUT)
        condition.kind = COND_VERSION;
    request_condition(&body, action->table, condition, &plan->item, is_flat_service(service),
                      clock_now_s());
    (void)service_spend(service, "PutItem", &demand, 1, &body, NULL, &outcome, NULL);
}

/* Whether the old item, as the answer gives it back, is the one that the caller knew. */
static int check_old(struct service *service, const struct plan *plan, struct span answer,
                     bool *ret_was_there, struct err *err)
{
    const struct action *action = plan->action;
    cleanup(value_release) struct value old = {0};
    struct span raw;
    int r = 0;

    *ret_was_there = reply_member(answer, "Attributes", &raw);
    if (!*ret_was_there || action->condition.kind != COND_VERSION)
        return 0;
    r = value_map_from_typed(raw, &old, err);
    if (r == 0)
        r = value_canonical(&old, err);
    if (r < 0 || item_version(&old) == action->condition.version)
        return r;
    undo(service, plan, &old);
    return condition_failed(action->table, action->key, COND_VERSION, err);
}

/* A condition failed after a repetition: 0 where the item is what was to be. */
static int was_it_us(struct service *service, struct plan *plan)
{
    const struct action *action = plan->action;
    cleanup(value_release) struct value now = {0};
    int r = read_item(service, action->table, action->key, &now, NULL);

    if (action->kind == ACTION_DELETE)
        return r == -ENOENT ? 0 : -1;
    return r == 0 && item_version(&now) == item_version(&plan->item) ? 0 : -1;
}

/* A condition failed although the item has the version that it names: then the service cannot
 * compare maps or lists, and is asked without from now on. What they hold is seen in the old item
 * all the same (check_old). */
static bool cannot_compare(struct service *service, const struct plan *plan)
{
    const struct action *action = plan->action;
    cleanup(value_release) struct value now = {0};

    if (action->condition.kind != COND_VERSION || is_flat_service(service) ||
        read_item(service, action->table, action->key, &now, NULL) < 0 ||
        item_version(&now) != action->condition.version)
        return false;
    scoped_lock(&service->lock);
    service->flat = true;
    return true;
}

static int write_one(struct service *service, struct plan *plan, struct err *err)
{
    struct action *action = plan->action;
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {action->table->name, CAPACITY_WRITE, plan_units(plan)};
    struct err own = {""};
    bool was_there = false;

    buf_init(&body, DYNAMODB_BODY_MAX);
    add_plan(service, &body, plan);
    request_text(&body, "ReturnValues", span_text("ALL_OLD"));
    int r = service_spend(service, action->kind == ACTION_PUT ? "PutItem" : "DeleteItem", &demand,
                          1, &body, NULL, &outcome, &own);
    if (r == 0)
        r = check_old(service, plan, buf_span(&outcome.body), &was_there, err);
    else if ((outcome.repeated || outcome.uncertain) && was_it_us(service, plan) == 0)
        r = 0, was_there = action->condition.kind != COND_ABSENT;
    else if (strcmp(outcome.type, "ConditionalCheckFailedException") == 0 &&
             cannot_compare(service, plan))
        return write_one(service, plan, err);
    else if (strcmp(outcome.type, "ConditionalCheckFailedException") == 0)
        r = condition_failed(action->table, action->key, action->condition.kind, err);
    else
        r = err_set(err, -r, "%s", err_text(&own, r));
    if (r == 0)
        plan_done(plan, was_there);
    return r;
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
    struct plan **sent;
    size_t at;
    int code;
    struct err *err;
};

static int read_reason(void *context, struct span raw)
{
    struct reason_search *search = context;
    const struct action *action = search->sent[search->at++]->action;

    if (reply_text_is(raw, "Code", "ConditionalCheckFailed"))
        search->code =
            condition_failed(action->table, action->key, action->condition.kind, search->err);
    else if (reply_text_is(raw, "Code", "TransactionConflict"))
        search->code = err_set(search->err, EBUSY, "%s: somebody else is writing it",
                               item_label(action->table, action->key).text);
    return search->code != 0;
}

/* The answer names a reason for each item, in their order. */
static int cancelled(struct plan **sent, const struct outcome *outcome, int code,
                     const struct err *own, struct err *err)
{
    struct reason_search search = {.sent = sent, .err = err};
    struct span reasons;

    if (reply_member(buf_span(&outcome->body), "CancellationReasons", &reasons))
        reply_each(reasons, read_reason, &search);
    return search.code ? search.code : err_set(err, -code, "%s", err_text(own, code));
}

/* Without transactions: what is put first, then what is deleted. A fault between leaves both. */
static int write_in_turn(struct service *service, struct plan **sent, size_t count, struct err *err)
{
    static const enum action_kind order[] = {ACTION_PUT, ACTION_DELETE};
    int r = 0;

    for (size_t step = 0; step < 2; step++)
        for (size_t i = 0; r == 0 && i < count; i++)
            if (sent[i]->action->kind == order[step])
                r = write_one(service, sent[i], err);
    return r;
}

/* All of them together, for twice the units. */
static int transact(struct service *service, struct plan **sent, size_t count,
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
        buf_add_text(&body, sent[i]->action->kind == ACTION_PUT ? "\"Put\":" : "\"Delete\":");
        add_plan(service, &body, sent[i]);
        buf_add_text(&body, "}}");
        demand_add(demands, &tables, sent[i]->action->table->name, CAPACITY_WRITE,
                   2 * plan_units(sent[i]));
    }
    buf_add_char(&body, ']');
    add_token(&body);
    return service_spend(service, "TransactWriteItems", demands, tables, &body, NULL, ret_outcome,
                         err);
}

static int write_several(struct service *service, struct plan **sent, size_t count, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct err own = {""};
    int r = transact(service, sent, count, &outcome, &own);

    if (r < 0 && strcmp(outcome.type, "TransactionCanceledException") == 0)
        return cancelled(sent, &outcome, r, &own, err);
    if (r == -EOPNOTSUPP)
        return write_in_turn(service, sent, count, err);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    for (size_t i = 0; i < count; i++)
        plan_done(sent[i], sent[i]->action->condition.kind == COND_VERSION ||
                               sent[i]->action->kind == ACTION_DELETE);
    return 0;
}

int service_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                  struct err *err)
{
    struct service *service = service_of(backend);

    if (service->read_only) /* what the service acknowledges is durable: no flag for it */
        return err_set(err, EROFS, "the tables are open for reading only");
    if (flags & WRITE_LOOSE)
        return service_write_loose(service, actions, count, err);
    cleanup_free struct plan **sent = calloc(count + 1, sizeof(struct plan *));
    struct plan *plans = calloc(count + 1, sizeof *plans);
    size_t sent_count = 0;
    int r = sent && plans ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < count; i++) {
        plans[i] = (struct plan){.action = &actions[i]};
        r = plan_action(service, &plans[i], err);
        if (plans[i].sent)
            sent[sent_count++] = &plans[i];
    }
    if (r == 0 && sent_count == 1)
        r = write_one(service, sent[0], err);
    else if (r == 0 && sent_count > 1)
        r = write_several(service, sent, sent_count, err);
    plans_release(plans, count);
    return r;
}
