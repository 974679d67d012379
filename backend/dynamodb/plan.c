/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/plan.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/check.h"
#include "backend/dynamodb/condition.h"
#include "base/cleanup.h"
#include "base/clock.h"

void stored_release(struct stored *stored)
{
    value_release(&stored->item);
}

static void plan_release(struct plan *plan)
{
    value_release(&plan->item);
    stored_release(&plan->base);
}

void plans_release(struct plan *plans, size_t count)
{
    for (size_t i = 0; plans && i < count; i++)
        plan_release(&plans[i]);
    free(plans);
}

/* --- What is there --- */

int stored_from_typed(const struct table *table, struct span typed, struct stored *ret_stored,
                      struct err *err)
{
    cleanup(value_release) struct value canonical = {0};
    struct value item;
    int r = value_map_from_typed(typed, &canonical, err);

    if (r == 0)
        r = value_canonical(&canonical, err);
    if (r == 0)
        r = value_map_from_typed(typed, &item, err);
    if (r < 0)
        return r;
    bool hidden = item_hidden(table, item_ttl(table, &canonical));
    *ret_stored = (struct stored){item, hidden ? 0 : item_version(&canonical)};
    return 0;
}

int stored_read(struct service *service, const struct action *action, struct stored *ret_stored,
                struct err *err)
{
    cleanup(buf_release) struct buf typed;
    struct err own = {""};

    buf_init(&typed, DYNAMODB_BODY_MAX);
    int r = service_get_typed(service, action->table, action->key, &typed, &own);
    if (r == 0)
        return stored_from_typed(action->table, buf_span(&typed), ret_stored, err);
    if (r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    *ret_stored = (struct stored){.version = 0};
    return 0;
}

/* --- Plans --- */

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
    if (r < 0)
        return r;
    plan->version = item_version(&plan->item);
    plan->size = body.len;
    plan->ttl = item_ttl(table, &plan->item);
    return 0;
}

/* What was last read of the item, where that has the version that its condition names. */
static bool find_recent(struct service *service, const struct action *action,
                        struct stored *ret_stored)
{
    cleanup(buf_release) struct buf typed = {0};

    buf_init(&typed, DYNAMODB_BODY_MAX);
    return recent_find(service->recent, action->table->id, action->key, action->condition.version,
                       &typed) &&
           stored_from_typed(action->table, buf_span(&typed), ret_stored, NULL) == 0;
}

/* A version names a state, read a moment ago or now; its hash tells whether it is that. A
 * transaction will not tell what was there, so each item is read now, whatever is remembered: only
 * what somebody adds between this and the transaction is not seen. */
int plan_action(struct service *service, struct plan *plan, bool several, struct err *err)
{
    const struct action *action = plan->action;
    enum condition_kind kind = action->condition.kind;
    int r = action->kind == ACTION_PUT ? plan_put(plan, err) : 0;

    if (r < 0)
        return r;
    if (several ? kind != COND_ABSENT
                : kind == COND_VERSION && !find_recent(service, action, &plan->base))
        r = stored_read(service, action, &plan->base, err);
    if (r == 0 && kind == COND_VERSION && plan->base.version != action->condition.version)
        r = condition_failed(action->table, action->key, COND_VERSION, err);
    return r;
}

void plan_done(struct plan *plan, uint64_t old)
{
    struct action *action = plan->action;
    int64_t now_ns = clock_now_ns();

    if (action->kind == ACTION_DELETE) {
        action->change = old ? CHANGE_REMOVE : CHANGE_NONE;
        return;
    }
    action->change = !old ? CHANGE_INSERT : old == plan->version ? CHANGE_NONE : CHANGE_MODIFY;
    action->meta = (struct item_meta){.version = plan->version,
                                      .size = plan->size,
                                      .mtime_ns = action->mtime_ns ? action->mtime_ns : now_ns,
                                      .ctime_ns = now_ns,
                                      .ttl = plan->ttl,
                                      .change_ns = now_ns,
                                      .change = action->change};
}

/* --- Requests --- */

void request_item(struct buf *out, const char *name, const struct value *item)
{
    cleanup(buf_release) struct buf typed;

    buf_init(&typed, DYNAMODB_BODY_MAX);
    value_map_to_typed(item, &typed);
    request_raw(out, name, buf_span(&typed));
    if (buf_error(&typed))
        out->error = buf_error(&typed);
}

bool service_is_flat(struct service *service)
{
    scoped_lock(&service->lock);
    return service->flat;
}

bool plan_cannot_compare(struct service *service, const struct plan *plan)
{
    const struct action *action = plan->action;
    cleanup(stored_release) struct stored now = {0};

    if (action->condition.kind != COND_VERSION || service_is_flat(service) ||
        stored_read(service, action, &now, NULL) < 0 || now.version != action->condition.version)
        return false;
    scoped_lock(&service->lock);
    service->flat = true;
    return true;
}

void plan_request(struct service *service, struct buf *out, const struct plan *plan)
{
    const struct action *action = plan->action;

    request_begin(out, action->table);
    if (action->kind == ACTION_PUT)
        request_item(out, "Item", &plan->item);
    else
        request_key(out, "Key", action->table, action->key);
    request_condition(out, action->table, action->condition, &plan->base.item,
                      service_is_flat(service), clock_now_s());
}

double plan_units(const struct plan *plan)
{
    const struct table *table = plan->action->table;
    double before = 1, after = 1;

    if (plan->base.item.type == VALUE_M)
        before = item_write_units(table, &plan->base.item);
    if (plan->action->kind == ACTION_PUT)
        after = item_write_units(table, &plan->item);
    return before > after ? before : after;
}
