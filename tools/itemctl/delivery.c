/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/delivery.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

#define FIRST_TALLY 3
_Static_assert(FIRST_TALLY + TALLIES == DELIVERY_COLUMNS, "a column for each");
const char *const delivery_heads[DELIVERY_COLUMNS] = {"Delivery", "To come", "Oldest",  "Delivered",
                                                      "Retried",  "Dropped", "Skipped", "Lost"};

static int look_at_stream(struct backend *backend, const struct table *table,
                          struct delivery *delivery, struct err *err)
{
    cleanup(buf_release) struct buf position;
    struct err own = {""};

    buf_init(&position, LEASE_TEXT_MAX);
    mark_read(buf_span(&delivery->lease.position), &delivery->position, &delivery->tally);
    buf_add_span(&position, delivery->position);
    if (position.len == 0)
        buf_add_text(&position, STREAM_OLDEST);
    if (buf_error(&position))
        return err_set(err, ENOMEM, "no memory");
    int r = backend_stream_lag(backend, table, position.data, &delivery->lag, &own);
    delivery->counted = r == 0;
    return r == 0 || r == -EOPNOTSUPP ? 0 : err_set(err, -r, "%s", err_text(&own, r));
}

int delivery_look(struct backend *backend, const struct table *table,
                  const struct table_config *settings, struct delivery *ret_delivery,
                  struct err *err)
{
    struct delivery delivery = {.function = settings->function.shown};
    struct err own = {""};

    lease_init(&delivery.lease);
    int r = backend_lease_read(backend, span_text(table->name), &delivery.lease, &own);
    if (r < 0 && r != -EOPNOTSUPP)
        err_set(err, -r, "%s", err_text(&own, r));
    else
        r = r < 0 ? 0 : look_at_stream(backend, table, &delivery, err);
    if (r < 0) {
        delivery_release(&delivery);
        return r;
    }
    *ret_delivery = delivery;
    return 0;
}

void delivery_release(struct delivery *delivery)
{
    lease_release(&delivery->lease);
}

static double seconds_behind(const struct delivery *delivery)
{
    int64_t age_ns = delivery->lag.first_ns ? clock_now_ns() - delivery->lag.first_ns : 0;

    return age_ns > 0 ? (double)age_ns / (double)NS_PER_S : 0;
}

static void add_text(struct buf *out, const char *name, struct span text)
{
    if (!text.len)
        return;
    buf_addf(out, ", \"%s\": ", name);
    json_add_string(out, text);
}

void delivery_to_json(const struct delivery *delivery, struct buf *out)
{
    buf_add_text(out, "{\"Function\": ");
    json_add_string(out, span_text(delivery->function));
    add_text(out, "Holder", buf_span(&delivery->lease.holder));
    add_text(out, "Position", delivery->position);
    if (delivery->counted)
        buf_addf(out, ", \"RecordsBehind\": %llu, \"SecondsBehind\": %.3f",
                 (unsigned long long)delivery->lag.records, seconds_behind(delivery));
    for (size_t i = 0; i < TALLIES; i++)
        buf_addf(out, ", \"%s\": %llu", delivery_heads[FIRST_TALLY + i],
                 (unsigned long long)delivery->tally.of[i]);
    buf_add_char(out, '}');
}

void delivery_add_rows(const struct delivery *delivery, struct grid *grid)
{
    const struct buf *holder = &delivery->lease.holder;

    grid_addf(grid, "  delivered to");
    grid_add(grid, span_text(delivery->function));
    grid_addf(grid, "  by");
    if (holder->len)
        grid_add(grid, buf_span(holder));
    else
        grid_addf(grid, "nobody");
    if (!delivery->position.len)
        return;
    grid_addf(grid, "  position");
    grid_add(grid, delivery->position);
}

void delivery_add_numbers(const struct delivery *delivery, const char *table, struct grid *grid)
{
    grid_add(grid, span_text(table));
    if (delivery->counted) {
        grid_addf(grid, "%llu", (unsigned long long)delivery->lag.records);
        grid_addf(grid, delivery->lag.records ? "%.0f s" : "-", seconds_behind(delivery));
    } else {
        grid_addf(grid, "unknown");
        grid_addf(grid, "unknown");
    }
    for (size_t i = 0; i < TALLIES; i++)
        grid_addf(grid, "%llu", (unsigned long long)delivery->tally.of[i]);
}
