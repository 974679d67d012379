/* SPDX-License-Identifier: MIT */
/*
 * Reading items. A walk is a Scan, or a Query of one partition, page by page; expired items, which
 * the service may keep for days, are left out here. Reads are consistent, except those of indexes,
 * which cannot be.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "backend/dynamodb/read.h"
#include "backend/dynamodb/units.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

/* What a table wants of its reads. */
static void request_consistency(struct buf *out, bool eventual)
{
    if (!eventual)
        request_raw(out, "ConsistentRead", span_text("true"));
}

static int get_typed(struct service *service, const struct table *table, struct key key,
                     bool eventual, struct buf *typed, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {table->name, CAPACITY_READ, 1};
    struct span item;

    buf_init(&body, DYNAMODB_BODY_MAX);
    request_begin(&body, table);
    request_key(&body, "Key", table, key);
    request_consistency(&body, eventual);
    int r = service_spend(service, "GetItem", &demand, 1, &body, cancel_flag(), &outcome, err);
    if (r < 0)
        return r;
    if (!reply_member(buf_span(&outcome.body), "Item", &item))
        return err_set(err, ENOENT, "table %s has no such item", table->name);
    buf_add_span(typed, item);
    return buf_error(typed);
}

int service_get_typed(struct service *service, const struct table *table, struct key key,
                      struct buf *typed, struct err *err)
{
    return get_typed(service, table, key, false, typed, err);
}

int service_get(struct backend *backend, const struct table *table, struct key key,
                struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    cleanup(buf_release) struct buf typed, partition, sort;

    buf_init(&typed, DYNAMODB_BODY_MAX);
    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    size_t before = body ? body->len : 0;
    int r = get_typed(service_of(backend), table, key, table->eventual, &typed, err);
    if (r == 0)
        r = item_from_reply(table, buf_span(&typed), &partition, &sort, ret_meta, body, err);
    if (r < 0)
        return r;
    if (!item_hidden(table, ret_meta->ttl)) {
        recent_put(service_of(backend)->recent, table->id, key, ret_meta->version,
                   buf_span(&typed));
        return 0;
    }
    if (body)
        buf_resize(body, before);
    return err_set(err, ENOENT, "table %s has no such item", table->name);
}

/* --- Pages --- */

void reading_init(struct reading *reading, struct service *service, const struct table *table,
                  struct err *err)
{
    *reading = (struct reading){
        .service = service, .table = table, .cancelled = cancel_flag(), .err = err};
    buf_init(&reading->fixed, DYNAMODB_BODY_MAX);
    buf_init(&reading->after, DYNAMODB_BODY_MAX);
    buf_init(&reading->partition, KEY_PART_MAX);
    buf_init(&reading->sort, KEY_PART_MAX);
    buf_init(&reading->body, DYNAMODB_BODY_MAX);
}

void reading_release(struct reading *reading)
{
    buf_release(&reading->fixed);
    buf_release(&reading->after);
    buf_release(&reading->partition);
    buf_release(&reading->sort);
    buf_release(&reading->body);
}

static int give(void *context, struct span raw)
{
    struct reading *reading = context;
    struct record record;

    buf_clear(&reading->partition);
    buf_clear(&reading->sort);
    buf_clear(&reading->body);
    int r = (reading->typed ? item_line_from_reply : item_from_reply)(
        reading->table, raw, &reading->partition, &reading->sort, &record.meta, &reading->body,
        reading->err);
    if (r < 0)
        return r;
    if (item_hidden(reading->table, record.meta.ttl))
        return 0;
    record.key = (struct key){buf_span(&reading->partition), buf_span(&reading->sort)};
    record.body = reading->bodies
                      ? span_of(reading->body.data ? reading->body.data : "", reading->body.len)
                      : span_of(NULL, 0);
    reading->given++;
    r = reading->each(reading->context, &record);
    return r ? r : reading->limit && reading->given >= reading->limit;
}

/* Items that the next page may have; 0: as many as the service gives. Where there is a small
 * budget, pages are small too: a debt of minutes would hold up whoever reads one item. RET_UNITS is
 * what the page will probably consume. */
static size_t page_items(struct reading *reading, double *ret_units)
{
    double units = service_page_units(reading->service, reading->table);
    size_t wanted = reading->limit ? reading->limit - reading->given : 0;

    *ret_units = reading->units > 0 ? reading->units : 1;
    if (!(units > 0))
        return wanted;
    if (!(reading->item_units > 0))
        reading->item_units = service_item_units(reading->service, reading->table);
    size_t most = portion_items(units, reading->item_units);
    if (wanted && wanted < most)
        most = wanted;
    *ret_units = fmin(fmax((double)most * reading->item_units, 1), PAGE_UNITS);
    return most;
}

static void note_units(struct reading *reading, struct span answer, double units)
{
    double items = reply_number(answer, "ScannedCount");

    reading->units = units;
    if (!(service_page_units(reading->service, reading->table) > 0))
        return;
    if (reading->indexed)
        reading->item_units = portion_learn(reading->item_units, items, units);
    else
        reading->item_units = service_note_items(reading->service, reading->table, items, units);
}

int reading_page(struct reading *reading, bool *ret_last)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {reading->table->name, CAPACITY_READ, 1};
    size_t most = page_items(reading, &demand.units);
    struct span part;

    buf_init(&body, DYNAMODB_BODY_MAX);
    buf_add_span(&body, buf_span(&reading->fixed));
    if (reading->after.len)
        request_raw(&body, "ExclusiveStartKey", buf_span(&reading->after));
    if (most) {
        char limit[32];
        snprintf(limit, sizeof limit, "%zu", most);
        request_raw(&body, "Limit", span_text(limit));
    }
    /* A page that cost more than was thought may be owed for longer than a request may take. */
    const struct spending spending = {
        .operation = reading->operation,
        .demands = &demand,
        .count = 1,
        .body = &body,
        .cancelled = reading->cancelled,
        .own_ns = service_read_ns(reading->service, reading->table, reading->units)};
    int r = service_spend_for(reading->service, &spending, &outcome, reading->err);
    if (r < 0)
        return r;
    note_units(reading, buf_span(&outcome.body), demand.units);
    if (reply_member(buf_span(&outcome.body), "Items", &part))
        r = reply_each(part, give, reading);
    buf_clear(&reading->after);
    *ret_last = !reply_member(buf_span(&outcome.body), "LastEvaluatedKey", &part);
    if (!*ret_last)
        buf_add_span(&reading->after, part);
    return r ? r : buf_error(&reading->after);
}

static int read_all(struct reading *reading)
{
    bool last = false;
    int r = buf_error(&reading->fixed);

    while (r == 0 && !last)
        r = reading_page(reading, &last);
    if (r > 0 && reading->limit && reading->given >= reading->limit)
        return 0;
    return r;
}

static void add_range(struct buf *names, struct buf *values, struct buf *expression,
                      const struct key_attribute *sort, const struct query *query)
{
    if (!query->has_from && !query->has_to)
        return;
    buf_add_text(expression, query->has_from && query->has_to ? " AND #s BETWEEN :a AND :b"
                             : query->has_from                ? " AND #s >= :a"
                                                              : " AND #s <= :b");
    buf_add_char(names, ',');
    json_add_string(names, span_text("#s"));
    buf_add_char(names, ':');
    json_add_string(names, span_text(sort->name));
    if (query->has_from) {
        buf_add_text(values, ",\":a\":");
        add_part(values, sort->type, query->from);
    }
    if (query->has_to) {
        buf_add_text(values, ",\":b\":");
        add_part(values, sort->type, query->to);
    }
}

/* Query's request: names, values and expression belong together. */
static void add_query(struct buf *out, const struct table *table, const struct query *query)
{
    const struct index *index = query->index;
    const struct key_attribute *partition = index ? &index->partition : &table->partition;
    const struct key_attribute *sort = index ? &index->sort : &table->sort;
    cleanup(buf_release) struct buf names, values, expression;

    buf_init(&names, DYNAMODB_BODY_MAX);
    buf_init(&values, DYNAMODB_BODY_MAX);
    buf_init(&expression, 4096);
    buf_add_text(&names, "{\"#p\":");
    json_add_string(&names, span_text(partition->name));
    buf_add_text(&values, "{\":p\":");
    add_part(&values, partition->type, query->partition);
    buf_add_text(&expression, "#p = :p");
    add_range(&names, &values, &expression, sort, query);
    buf_add_char(&names, '}');
    buf_add_char(&values, '}');
    request_begin(out, table);
    if (index)
        request_text(out, "IndexName", span_text(index->name));
    else
        request_consistency(out, table->eventual);
    request_text(out, "KeyConditionExpression", buf_span(&expression));
    request_raw(out, "ExpressionAttributeNames", buf_span(&names));
    request_raw(out, "ExpressionAttributeValues", buf_span(&values));
    if (query->reverse)
        request_raw(out, "ScanIndexForward", span_text("false"));
}

const char *request_items(struct buf *out, const struct table *table, struct span partition)
{
    if (partition.data) {
        const struct query all = {.partition = partition};
        add_query(out, table, &all);
        return "Query";
    }
    request_begin(out, table);
    request_consistency(out, table->eventual);
    return "Scan";
}

int service_walk(struct backend *backend, const struct table *table, const struct walk *walk,
                 record_fn each, void *context, struct err *err)
{
    cleanup(reading_release) struct reading reading;
    struct span after = walk->in_partition ? walk->after.sort : walk->after.partition;
    struct span whole = span_of(NULL, 0);

    reading_init(&reading, service_of(backend), table, err);
    reading.limit = walk->limit;
    reading.bodies = walk->bodies;
    reading.each = each;
    reading.context = context;
    reading.operation =
        request_items(&reading.fixed, table, walk->in_partition ? walk->after.partition : whole);
    if (after.len)
        key_to_typed(table, walk->after, &reading.after);
    return read_all(&reading);
}

int service_query(struct backend *backend, const struct table *table, const struct query *query,
                  record_fn each, void *context, struct err *err)
{
    cleanup(reading_release) struct reading reading;

    reading_init(&reading, service_of(backend), table, err);
    reading.operation = "Query";
    reading.indexed = query->index != NULL;
    reading.limit = query->limit;
    reading.bodies = true;
    reading.each = each;
    reading.context = context;
    add_query(&reading.fixed, table, query);
    return read_all(&reading);
}
