/* SPDX-License-Identifier: MIT */
/*
 * One attribute, changed by what it is: one UpdateItem, whose condition says what the attribute may
 * be. It is not ADD, which makes items that are missing and knows no null.
 *
 * Where the condition fails, the item is read to say why. Null, which counts as 0, is such a case:
 * a second request puts the number in its place, on the condition that it is null still. An item
 * that has become one that takes the update is asked for it again, for a while.
 *
 * Nothing tells whether an update whose answer was lost was applied, since what it leads to may be
 * somebody else's doing as well. So it is sent once (struct call), and the caller is told.
 */
#include <errno.h>
#include <string.h>

#include "backend/check.h"
#include "backend/dynamodb/condition.h"
#include "backend/dynamodb/plan.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"

#define TRIES_MAX 20

struct change {
    struct service *service;
    const struct table *table;
    struct key key;
    const struct update *update;
    struct value value; /* that is added or appended, canonical */
    bool from_null;
};

static void change_release(struct change *change)
{
    value_release(&change->value);
}

static int read_value(const struct update *update, struct value *ret_value, struct err *err)
{
    int r = update->kind == UPDATE_ADD ? value_new_text(VALUE_N, update->value, ret_value)
                                       : value_from_plain(update->value, ret_value, err);

    return r ? r : value_canonical(ret_value, err);
}

static int send_change(const struct change *change, struct outcome *outcome, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct demand demand = {change->table->name, CAPACITY_WRITE, 1};
    const struct spending spending = {
        .operation = "UpdateItem", .demands = &demand, .count = 1, .body = &body, .once = true};

    buf_init(&body, DYNAMODB_BODY_MAX);
    request_begin(&body, change->table);
    request_key(&body, "Key", change->table, change->key);
    request_update(&body, change->table, change->update, &change->value, change->from_null,
                   clock_now_s());
    request_text(&body, "ReturnValues", span_text("ALL_NEW"));
    return service_spend_for(change->service, &spending, outcome, err);
}

/* Why the condition failed; 0 where nothing is in the way now. */
static int judge_failure(struct change *change, struct err *err)
{
    const struct action action = {.table = change->table, .key = change->key};
    cleanup(stored_release) struct stored now = {0};
    int r = stored_read(change->service, &action, &now, err);

    if (r < 0)
        return r;
    if (!now.version)
        return err_set(err, ENOENT, "does not exist");
    const struct value *current = value_member(&now.item, change->update->attribute);
    change->from_null = current && current->type == VALUE_NULL;
    return update_judge(change->update, current,
                        value_member(&now.item, span_text(ITEM_VALUE)) != NULL, err);
}

/* What the answer says of the item as it is now. */
static int take_answer(const struct change *change, struct span answer, struct item_meta *ret_meta,
                       struct buf *ret_number, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf partition, sort;
    int64_t now_ns = clock_now_ns();
    struct span raw = {NULL, 0};

    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    reply_member(answer, "Attributes", &raw);
    int r = item_from_reply(change->table, raw, &partition, &sort, ret_meta, NULL, err);
    if (r == 0 && change->update->kind == UPDATE_ADD) {
        r = value_map_from_typed(raw, &item, err);
        const struct value *number = r ? NULL : value_member(&item, change->update->attribute);
        if (number && number->type == VALUE_N)
            r = number_canonical(value_text(number), ret_number, err);
    }
    ret_meta->mtime_ns = ret_meta->ctime_ns = ret_meta->change_ns = now_ns;
    ret_meta->change = CHANGE_MODIFY;
    return r;
}

/* 1: to be tried again. */
static int try_change(struct change *change, struct item_meta *ret_meta, struct buf *ret_number,
                      struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct err own = {""};
    int r = send_change(change, &outcome, &own);

    if (r == 0)
        return take_answer(change, buf_span(&outcome.body), ret_meta, ret_number, err);
    if (strcmp(outcome.type, "ConditionalCheckFailedException") != 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = judge_failure(change, err);
    return r ? r : 1;
}

int service_update(struct backend *backend, const struct table *table, struct key key,
                   const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                   struct err *err)
{
    cleanup(change_release) struct change change = {
        .service = service_of(backend), .table = table, .key = key, .update = update};
    struct err own = {""};

    if (change.service->read_only)
        return err_set(err, EROFS, "the tables are open for reading only");
    int r = read_value(update, &change.value, &own);
    for (int i = 0; r >= 0 && i < TRIES_MAX; i++) {
        r = try_change(&change, ret_meta, ret_number, &own);
        if (r == 0)
            return 0;
    }
    if (r > 0)
        r = err_set(&own, EBUSY, "others keep changing it");
    return err_set(err, -r, "%s: %s", item_label(table, key).text, err_text(&own, r));
}
