/* SPDX-License-Identifier: MIT */
/*
 * Bulk loads: BatchWriteItem, up to 25 puts and deletes of different items in a request of limited
 * size, each applied by itself. What the service leaves undone ("unprocessed", when it is short of
 * capacity) is sent again after a pause that grows as long as nothing gets done.
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "backend/check.h"
#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/json.h"

#define IDLE_ROUNDS_MAX 20 /* in a row that get nothing done: over a minute */
#define PAUSE_MS 50        /* after the first of them; doubled up to PAUSE_MOST_MS */
#define PAUSE_MOST_MS 5000
#define REQUEST_BYTES                                                                              \
    (DYNAMODB_BODY_MAX - (1u << 20)) /* of items; the service takes 16 MB in all */

/* Requests side by side: at 10 ms each, 20,000 items a second. */
#define BULK_CALLS 8

/* A small budget is used up by one, and who waits behind it waits for a second or so. */
struct backend_bulk service_bulk(struct backend *backend, const struct table *table)
{
    double units = service_batch_units(service_of(backend), table);
    bool small = units > 0 && units < BULK_CALLS * BATCH_MAX;

    return (struct backend_bulk){
        .calls = small ? 1 : BULK_CALLS, .items = BATCH_MAX, .units = units};
}

/* --- What is put --- */

/* The configured limit counts bytes of what a file would show. Nothing that the service takes shows
 * as more than the usual limit, so that it is rendered only where the limit is another. */
static int check_sizes(const struct service *service, const struct table *table, struct key key,
                       const struct value *item, struct err *err)
{
    cleanup(buf_release) struct buf body;
    uint64_t most = service->backend.max_item_size;
    int64_t beside;
    int r = 0;

    buf_init(&body, DYNAMODB_BODY_MAX);
    if (item_bytes(item) > DYNAMODB_ITEM_MAX)
        return err_set(err, EFBIG, "%s: %zu bytes, and the service takes %d",
                       item_label(table, key).text, item_bytes(item), DYNAMODB_ITEM_MAX);
    if (most < ITEM_SIZE_DEFAULT)
        r = item_to_body(table, item, &body, &beside, err);
    if (r == 0 && body.len > most)
        return err_set(err, EFBIG, "%s: %zu bytes, more than the %" PRIu64 " that an item may have",
                       item_label(table, key).text, body.len, most);
    return r;
}

int service_pack(struct backend *backend, const struct table *table, struct span typed,
                 struct packed *packed, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    int r = item_from_typed(table, typed, &item, &packed->partition, &packed->sort, err);

    if (r == 0)
        r = value_canonical(&item, err);
    if (r == 0)
        r = item_check_indexes(table, &item, err);
    struct key key = {buf_span(&packed->partition), buf_span(&packed->sort)};
    if (r == 0)
        r = check_sizes(service_of(backend), table, key, &item, err);
    if (r == 0) {
        value_map_to_typed(&item, &packed->body);
        packed->units = item_write_units(table, &item);
    }
    return r;
}

/* --- Requests --- */

static void pause_after(unsigned idle_rounds)
{
    long ms = PAUSE_MS;

    for (unsigned i = 1; i < idle_rounds && ms < PAUSE_MOST_MS; i++)
        ms *= 2;
    if (ms > PAUSE_MOST_MS)
        ms = PAUSE_MOST_MS;
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

/* What goes to the service together. */
struct request {
    struct service *service;
    const struct table *table;
    const struct action *actions[BATCH_MAX]; /* of different keys */
    size_t count;
    double units;     /* that the items will probably consume */
    double most;      /* that they should, of several; 0: any */
    struct buf items; /* {"table":[..]}, open until it is sent */
};

static double units_of_action(const struct action *action)
{
    return action->kind == ACTION_PUT && action->units > 1 ? action->units : 1;
}

/* One call; what it left undone takes the place of the items, all where the service was too busy.
 */
static int send_once(struct request *request, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {request->table->name, CAPACITY_WRITE, request->units};
    struct span left;

    buf_init(&body, DYNAMODB_BODY_MAX);
    buf_add_text(&body, "{\"RequestItems\":");
    buf_add_span(&body, buf_span(&request->items));
    int r =
        service_spend(request->service, "BatchWriteItem", &demand, 1, &body, NULL, &outcome, err);
    if (r < 0)
        return r;
    bool done = !reply_member(buf_span(&outcome.body), "UnprocessedItems", &left) || left.len <= 2;
    buf_clear(&request->items);
    if (!done)
        buf_add_span(&request->items, left);
    return buf_error(&request->items);
}

static int count_one(void *context, struct span raw)
{
    (void)raw;
    ++*(size_t *)context;
    return 0;
}

static size_t items_left(const struct request *request)
{
    struct span part;
    size_t count = 0;

    if (reply_member(buf_span(&request->items), request->table->name, &part))
        reply_each(part, count_one, &count);
    return count;
}

static int refused(const struct request *request, int code, const struct err *own, struct err *err)
{
    return err_set(err, -code, "table %s: %s", request->table->name, err_text(own, code));
}

/* Until the service has taken all. */
static int request_send(struct request *request, struct err *err)
{
    size_t before = request->count;
    struct err own = {""};
    int r = 0;

    buf_add_text(&request->items, "]}");
    if (buf_error(&request->items))
        return buf_error(&request->items);
    for (unsigned idle = 0; before > 0 && idle < IDLE_ROUNDS_MAX;) {
        err_clear(&own);
        r = send_once(request, &own);
        if (r < 0 && r != -EBUSY)
            return refused(request, r, &own, err);
        size_t left = items_left(request);
        idle = left < before ? 0 : idle + 1;
        request->units *= (double)left / (double)before;
        before = left;
        if (left && idle < IDLE_ROUNDS_MAX)
            pause_after(idle);
    }
    request->count = 0;
    request->units = 0;
    buf_clear(&request->items);
    if (before == 0)
        return 0;
    if (r == 0)
        err_set(&own, EBUSY, "BatchWriteItem: the service leaves all unprocessed");
    return refused(request, -EBUSY, &own, err);
}

static void request_add(struct request *request, const struct action *action)
{
    struct buf *items = &request->items;

    if (request->count == 0) {
        request->table = action->table;
        request->most = service_batch_units(request->service, action->table);
        buf_add_char(items, '{');
        json_add_string(items, span_text(action->table->name));
        buf_add_text(items, ":[");
    } else {
        buf_add_char(items, ',');
    }
    if (action->kind == ACTION_DELETE) {
        buf_add_text(items, "{\"DeleteRequest\":{\"Key\":");
        key_to_typed(action->table, action->key, items);
    } else {
        buf_add_text(items, "{\"PutRequest\":{\"Item\":");
        buf_add_span(items, action->body);
    }
    buf_add_text(items, "}}");
    request->actions[request->count++] = action;
    request->units += units_of_action(action);
}

static bool has_room(const struct request *request, const struct action *action)
{
    if (request->count == BATCH_MAX || request->table != action->table ||
        request->items.len + action->body.len > REQUEST_BYTES ||
        (request->most > 0 && request->units + units_of_action(action) > request->most))
        return false;
    for (size_t i = 0; i < request->count; i++)
        if (key_equal(request->actions[i]->key, action->key))
            return false;
    return true;
}

/* One alone, where a refusal can name it. */
static int write_single(struct service *service, const struct action *action, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {action->table->name, CAPACITY_WRITE, units_of_action(action)};
    struct err own = {""};
    bool put = action->kind == ACTION_PUT;

    buf_init(&body, DYNAMODB_BODY_MAX);
    request_begin(&body, action->table);
    if (put)
        request_raw(&body, "Item", action->body);
    else
        request_key(&body, "Key", action->table, action->key);
    int r = service_spend(service, put ? "PutItem" : "DeleteItem", &demand, 1, &body, NULL,
                          &outcome, &own);
    return r < 0 ? err_set(err, -r, "%s: %s", item_label(action->table, action->key).text,
                           err_text(&own, r))
                 : 0;
}

int service_write_loose(struct service *service, const struct action *actions, size_t count,
                        struct err *err)
{
    struct request request = {.service = service};
    int r = 0;

    if (count == 1)
        return write_single(service, &actions[0], err);
    buf_init(&request.items, DYNAMODB_BODY_MAX);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (request.count && !has_room(&request, &actions[i]))
            r = request_send(&request, err);
        if (r == 0)
            request_add(&request, &actions[i]);
    }
    if (r == 0 && request.count)
        r = request_send(&request, err);
    buf_release(&request.items);
    return r;
}
