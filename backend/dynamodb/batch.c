/* SPDX-License-Identifier: MIT */
/*
 * Many unconditional writes, each by itself: BatchWriteItem, 25 at a time. What the service leaves
 * undone ("unprocessed", when it is short of capacity) is sent again after a pause that grows.
 */
#include <errno.h>
#include <time.h>

#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/json.h"

#define ROUNDS_MAX 20
#define PAUSE_MS 50 /* before the second round; doubled up to PAUSE_MOST_MS */
#define PAUSE_MOST_MS 5000

static void pause_before(unsigned round)
{
    long ms = PAUSE_MS;

    for (unsigned i = 1; i < round && ms < PAUSE_MOST_MS; i++)
        ms *= 2;
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

static void add_request(struct buf *out, const struct action *action, const struct value *item)
{
    cleanup(buf_release) struct buf typed;

    buf_init(&typed, DYNAMODB_BODY_MAX);
    if (action->kind == ACTION_DELETE) {
        buf_add_text(out, "{\"DeleteRequest\":{\"Key\":");
        key_to_typed(action->table, action->key, out);
    } else {
        value_map_to_typed(item, &typed);
        buf_add_text(out, "{\"PutRequest\":{\"Item\":");
        buf_add_span(out, buf_span(&typed));
        if (buf_error(&typed))
            out->error = buf_error(&typed);
    }
    buf_add_text(out, "}}");
}

/* What a batch has still to write. */
struct load {
    struct buf items; /* {"TABLE": [..], ..} */
    struct demand demands[BATCH_MAX];
    size_t tables;
};

static void load_release(struct load *load)
{
    buf_release(&load->items);
}

/* Only LEFT is to be written yet: so much of the units too. */
static void load_shrink(struct load *load, const struct demand *expected, struct span left)
{
    double part = (double)left.len / (double)load->items.len;

    for (size_t i = 0; i < load->tables; i++)
        load->demands[i].units = expected[i].units * part;
    buf_clear(&load->items);
    buf_add_span(&load->items, left);
}

/* {"RequestItems": ITEMS}, until the service has taken all. */
static int send_until_taken(struct service *service, struct load *load, struct err *err)
{
    for (unsigned round = 1; round <= ROUNDS_MAX; round++) {
        cleanup(outcome_release) struct outcome outcome;
        cleanup(buf_release) struct buf body;
        struct demand expected[BATCH_MAX];
        struct span left;
        buf_init(&body, DYNAMODB_BODY_MAX);
        buf_add_text(&body, "{\"RequestItems\":");
        buf_add_span(&body, buf_span(&load->items));
        memcpy(expected, load->demands, sizeof expected);
        int r = service_spend(service, "BatchWriteItem", load->demands, load->tables, &body, NULL,
                              &outcome, err);
        if (r < 0)
            return r;
        if (!reply_member(buf_span(&outcome.body), "UnprocessedItems", &left) || left.len <= 2)
            return 0;
        load_shrink(load, expected, left);
        if (buf_error(&load->items))
            return -ENOMEM;
        pause_before(round);
    }
    return err_set(err, EBUSY, "BatchWriteItem: the service does not take all that is sent");
}

int service_write_batch(struct service *service, struct action *const *actions,
                        const struct value *const *items, size_t count, struct err *err)
{
    cleanup(load_release) struct load load = {.tables = 0};
    struct buf *body = &load.items;

    buf_init(body, DYNAMODB_BODY_MAX);
    buf_add_char(body, '{');
    for (size_t i = 0; i < count; i++) {
        const struct table *table = actions[i]->table;
        bool first = i == 0 || table->id != actions[i - 1]->table->id;
        if (first) {
            if (i)
                buf_add_text(body, "],");
            json_add_string(body, span_text(table->name));
            buf_add_text(body, ":[");
        } else {
            buf_add_char(body, ',');
        }
        add_request(body, actions[i], items[i]);
        demand_add(load.demands, &load.tables, table->name, CAPACITY_WRITE,
                   actions[i]->kind == ACTION_PUT ? item_write_units(table, items[i]) : 1);
    }
    buf_add_text(body, "]}");
    return send_until_taken(service, &load, err);
}
