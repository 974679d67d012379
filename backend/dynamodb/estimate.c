/* SPDX-License-Identifier: MIT */
/* What will be consumed, told beforehand: from a table's description, from an item. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "backend/dynamodb/service.h"
#include "backend/dynamodb/units.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

#define NAMES_MAX (1u << 20)

/* --- From an item --- */

static bool has_key(const struct value *item, const struct key_attribute *attribute)
{
    return !attribute->name || value_member(item, span_text(attribute->name));
}

double item_write_units(const struct table *table, const struct value *item)
{
    double units = write_units(item_bytes(item)), all = units;

    for (size_t i = 0; i < table->index_count; i++)
        if (has_key(item, &table->indexes[i].partition) && has_key(item, &table->indexes[i].sort))
            all += units;
    return all;
}

/* The budget that TABLE comes to first: its own, or that of all tables together; 0: none. */
static double budget_of(struct service *service, const struct table *table, enum capacity_kind kind)
{
    double own = capacity_limit(service->capacity, table->name, kind);
    double all = capacity_limit(service->capacity, NULL, kind);

    return own > 0 && (own < all || !(all > 0)) ? own : all;
}

double service_page_units(struct service *service, const struct table *table)
{
    double budget = budget_of(service, table, CAPACITY_READ);

    return budget < PAGE_UNITS ? budget : 0;
}

double service_batch_units(struct service *service, const struct table *table)
{
    return budget_of(service, table, CAPACITY_WRITE);
}

#define LONGEST_S 1e8 /* three years */

int64_t service_read_ns(struct service *service, const struct table *table, double units)
{
    double budget = budget_of(service, table, CAPACITY_READ);

    return budget > 0 ? (int64_t)(fmin(units / budget, LONGEST_S) * (double)NS_PER_S) : 0;
}

double service_item_units(struct service *service, const struct table *table)
{
    pthread_mutex_lock(&service->lock);
    double units = portions_find(&service->portions, table->id);
    pthread_mutex_unlock(&service->lock);
    return units > 0 ? units : service_item_bytes(service, table) / READ_UNIT_BYTES;
}

double service_note_items(struct service *service, const struct table *table, double items,
                          double units)
{
    double believed = portion_learn(service_item_units(service, table), items, units);

    scoped_lock(&service->lock);
    portions_put(&service->portions, table->id, believed);
    return believed;
}

/* --- From a description --- */

/* What an index takes of an item. Names stand one behind another, each with its NUL. */
struct share {
    bool local; /* its writes are of the table's units */
    bool all;   /* it has whole items */
    struct buf keys, attributes;
};

struct service_measure {
    struct measure measure; /* first */
    struct share *shares;
    size_t count;
};

static void service_measure_free(struct measure *measure)
{
    struct service_measure *own = (struct service_measure *)measure;

    for (size_t i = 0; i < own->count; i++) {
        buf_release(&own->shares[i].keys);
        buf_release(&own->shares[i].attributes);
    }
    free(own->shares);
    free(own);
}

static bool is_among(const struct buf *names, struct span name)
{
    for (size_t at = 0; at < names->len; at += strlen(names->data + at) + 1)
        if (span_equal(span_text(names->data + at), name))
            return true;
    return false;
}

/* Units that SHARE's index has to write; 0: the item does not appear there. */
static double share_units(const struct share *share, const struct value *item)
{
    size_t bytes = 0;

    for (size_t at = 0; at < share->keys.len; at += strlen(share->keys.data + at) + 1)
        if (!value_member(item, span_text(share->keys.data + at)))
            return 0;
    if (share->all)
        return write_units(item_bytes(item));
    for (size_t i = 0; i < item->map.count; i++) {
        const struct member *member = &item->map.members[i];
        if (is_among(&share->attributes, span_of(member->name, member->name_len)))
            bytes += member_bytes(member);
    }
    return write_units(bytes);
}

static int measure_put(const struct measure *measure, const struct value *item,
                       struct put_cost *ret_cost, struct err *err)
{
    const struct service_measure *own = (const struct service_measure *)measure;
    size_t bytes = item_bytes(item);
    struct put_cost cost = {.table = write_units(bytes)};

    if (bytes > DYNAMODB_ITEM_MAX)
        return err_set(err, EFBIG, "the item has %zu bytes, and the service takes %d", bytes,
                       DYNAMODB_ITEM_MAX);
    for (size_t i = 0; i < own->count; i++)
        *(own->shares[i].local ? &cost.table : &cost.indexes) += share_units(&own->shares[i], item);
    *ret_cost = cost;
    return 0;
}

static int add_key(void *context, struct span raw)
{
    struct buf *names = context;

    reply_text(raw, "AttributeName", names);
    buf_add_char(names, '\0');
    return buf_error(names);
}

static int add_attribute(void *context, struct span raw)
{
    struct buf *names = context;

    if (raw.len >= 2)
        json_unescape(span_of(raw.data + 1, raw.len - 2), names);
    buf_add_char(names, '\0');
    return buf_error(names);
}

/* The indexes of one kind. */
struct share_reading {
    struct service_measure *own;
    struct span table_keys;
    bool local;
};

static int read_share(void *context, struct span raw)
{
    const struct share_reading *reading = context;
    struct service_measure *own = reading->own;
    struct share *shares = reallocarray(own->shares, own->count + 1, sizeof *shares);
    struct span part;
    int r = 0;

    if (!shares)
        return -ENOMEM;
    own->shares = shares;
    struct share *share = &shares[own->count++];
    *share = (struct share){.local = reading->local};
    buf_init(&share->keys, NAMES_MAX);
    buf_init(&share->attributes, NAMES_MAX);
    if (reply_member(raw, "KeySchema", &part))
        r = reply_each(part, add_key, &share->keys);
    buf_add_span(&share->attributes, buf_span(&share->keys));
    if (r == 0)
        r = reply_each(reading->table_keys, add_key, &share->attributes);
    if (r == 0 && reply_path(raw, "Projection.NonKeyAttributes", &part))
        r = reply_each(part, add_attribute, &share->attributes);
    share->all = reply_path(raw, "Projection.ProjectionType", &part) &&
                 span_equal(part, span_text("\"ALL\""));
    return r;
}

static int read_shares(struct service_measure *own, struct span description)
{
    struct share_reading reading = {.own = own};
    struct span indexes;
    int r = 0;

    if (!reply_member(description, "KeySchema", &reading.table_keys))
        return -EIO;
    if (reply_member(description, "GlobalSecondaryIndexes", &indexes))
        r = reply_each(indexes, read_share, &reading);
    reading.local = true;
    if (r == 0 && reply_member(description, "LocalSecondaryIndexes", &indexes))
        r = reply_each(indexes, read_share, &reading);
    return r;
}

/* What is no count is none. */
static uint64_t count_of(struct span object, const char *name)
{
    double number = reply_number(object, name);

    return number > 0 && number < 0x1p63 ? (uint64_t)llround(number) : 0;
}

/* Pages of PAGE_UNITS, or of what a budget leaves of them (0: all), and of an item at least. */
static uint64_t count_pages(const struct measure *measure, double page)
{
    uint64_t pages = (uint64_t)ceil(measure->scan_units / (page > 0 ? fmax(page, 1) : PAGE_UNITS));

    return measure->items > 0 && pages > measure->items ? measure->items : pages;
}

static void read_measure(struct service *service, const struct table *table,
                         struct span description, struct measure *measure)
{
    struct span throughput;

    measure->items = count_of(description, "ItemCount");
    measure->bytes = count_of(description, "TableSizeBytes");
    if (reply_member(description, "ProvisionedThroughput", &throughput)) {
        measure->read_limit = (double)count_of(throughput, "ReadCapacityUnits");
        measure->write_limit = (double)count_of(throughput, "WriteCapacityUnits");
    }
    measure->read_budget = budget_of(service, table, CAPACITY_READ);
    measure->write_budget = budget_of(service, table, CAPACITY_WRITE);
    measure->scan_units = read_units(measure->bytes);
    measure->scan_requests = count_pages(measure, service_page_units(service, table));
    measure->bulk_items = BATCH_MAX;
    measure->bulk_units = service_batch_units(service, table);
    measure->put = measure_put;
    measure->free = service_measure_free;
}

int service_measure(struct backend *backend, const struct table *table,
                    struct measure **ret_measure, struct err *err)
{
    struct service *service = service_of(backend);
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct span description;

    buf_init(&body, 65536);
    request_begin(&body, table);
    buf_add_char(&body, '}');
    int r = service_call(service, "DescribeTable", &body, &outcome, err);
    if (r < 0)
        return r;
    if (!reply_member(buf_span(&outcome.body), "Table", &description))
        return err_set(err, EIO, "table %s: the service does not describe it", table->name);
    struct service_measure *own = calloc(1, sizeof *own);
    if (!own)
        return err_set(err, ENOMEM, "no memory");
    read_measure(service, table, description, &own->measure);
    r = read_shares(own, description);
    if (r < 0) {
        service_measure_free(&own->measure);
        return err_set(err, -r, "table %s: its description cannot be read", table->name);
    }
    *ret_measure = &own->measure;
    return 0;
}
