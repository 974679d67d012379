/* SPDX-License-Identifier: MIT */
/*
 * A service's table: DescribeTable and DescribeTimeToLive make a description. It is kept for a
 * while (known_tables), since one command or mount asks several times in a row.
 *
 * What the service does not keep (tag keys, rendering) has the defaults of a table that was there
 * before: plain keys, keys shown; mount.conf says otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "backend/dynamodb/answer.h"
#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#define TABLE_NAME_MIN 3
#define TABLE_NAME_MAX 255

/* --- Those that are chosen --- */

void service_chosen(const struct service *service, struct buf *names)
{
    const char *list = service->only_tables;

    while (*list) {
        list += strspn(list, ", ");
        size_t len = strcspn(list, ", ");
        if (len) {
            buf_add(names, list, len);
            buf_add_char(names, '\0');
        }
        list += len;
    }
}

bool service_shows(const struct service *service, struct span name)
{
    cleanup(buf_release) struct buf names = {0};

    if (!service->only_tables)
        return true;
    buf_init(&names, 1u << 20);
    service_chosen(service, &names);
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
        if (span_equal(span_text(names.data + at), name))
            return true;
    return false;
}

bool service_hides(const struct service *service, struct span name)
{
    return !service->only_tables && span_equal(name, span_text(LEASES_TABLE));
}

bool service_can_name(struct span name)
{
    static const char name_characters[] = "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    if (name.len < TABLE_NAME_MIN || name.len > TABLE_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!memchr(name_characters, name.data[i], sizeof name_characters - 1))
            return false;
    return true;
}

/* --- One description --- */

struct schema_reading {
    struct span definitions; /* AttributeDefinitions */
    struct key_attribute *partition, *sort;
    struct err *err;
};

struct type_search {
    struct span name;
    enum value_type type;
    bool found;
};

static int find_type(void *context, struct span raw)
{
    struct type_search *search = context;
    cleanup(buf_release) struct buf name, type;

    buf_init(&name, 1024);
    buf_init(&type, 64);
    if (!reply_text(raw, "AttributeName", &name) || !span_equal(buf_span(&name), search->name) ||
        !reply_text(raw, "AttributeType", &type))
        return 0;
    search->found = value_type_from_name(buf_span(&type), &search->type);
    return 1;
}

static int read_schema_entry(void *context, struct span raw)
{
    struct schema_reading *reading = context;
    cleanup(buf_release) struct buf name;

    buf_init(&name, 1024);
    if (!reply_text(raw, "AttributeName", &name))
        return err_set(reading->err, EIO, "a key schema without names");
    struct type_search search = {.name = buf_span(&name)};
    reply_each(reading->definitions, find_type, &search);
    if (!search.found)
        return err_set(reading->err, EIO, "the key \"%s\" has no type", name.data);
    struct key_attribute *attribute =
        reply_text_is(raw, "KeyType", "HASH") ? reading->partition : reading->sort;
    free(attribute->name);
    attribute->name = buf_take(&name, NULL);
    attribute->type = search.type;
    return attribute->name ? 0 : -ENOMEM;
}

struct index_reading {
    struct table *table;
    struct span definitions;
    struct err *err;
};

static int read_index(void *context, struct span raw)
{
    struct index_reading *reading = context;
    struct table *table = reading->table;
    cleanup(buf_release) struct buf name;
    struct span schema, projection;
    struct index *indexes =
        reallocarray(table->indexes, table->index_count + 1, sizeof *table->indexes);

    buf_init(&name, 1024);
    if (!indexes)
        return -ENOMEM;
    table->indexes = indexes;
    struct index *index = &indexes[table->index_count++];
    *index = (struct index){0};
    if (!reply_text(raw, "IndexName", &name) || !reply_member(raw, "KeySchema", &schema))
        return err_set(reading->err, EIO, "an index without name or keys");
    index->name = buf_take(&name, NULL);
    index->partial = reply_path(raw, "Projection.ProjectionType", &projection) &&
                     !span_equal(projection, span_text("\"ALL\""));
    struct schema_reading keys = {reading->definitions, &index->partition, &index->sort,
                                  reading->err};
    return index->name ? reply_each(schema, read_schema_entry, &keys) : -ENOMEM;
}

/* Tables have no numbers: their unique id, where the service gives one, else name and birthday. */
static uint64_t table_number(struct span description, const struct table *table)
{
    cleanup(buf_release) struct buf id;

    buf_init(&id, 4096);
    if (!reply_text(description, "TableId", &id)) {
        buf_add_text(&id, table->name);
        buf_addf(&id, " %lld", (long long)table->created_ns);
    }
    return hash64(buf_span(&id), 0) & INT64_MAX;
}

/* The stream that was switched on last, whether it still is or not. */
static int read_stream(struct span description, struct known_table *known)
{
    cleanup(buf_release) struct buf arn, label;

    buf_init(&arn, 4096);
    buf_init(&label, 4096);
    if (!reply_text(description, "LatestStreamArn", &arn) ||
        !reply_text(description, "LatestStreamLabel", &label))
        return 0;
    known->stream_arn = buf_take(&arn, NULL);
    known->stream_label = buf_take(&label, NULL);
    return known->stream_arn && known->stream_label ? 0 : -ENOMEM;
}

static int read_description(struct span answer, struct known_table *known, struct err *err)
{
    struct table *table = known->table;
    struct span description, definitions, part;

    if (!reply_member(answer, "Table", &description) ||
        !reply_member(description, "AttributeDefinitions", &definitions) ||
        !reply_member(description, "KeySchema", &part))
        return err_set(err, EIO, "table %s: a description without keys", table->name);
    struct schema_reading keys = {definitions, &table->partition, &table->sort, err};
    int r = reply_each(part, read_schema_entry, &keys);
    struct index_reading indexes = {table, definitions, err};
    if (r == 0 && reply_member(description, "GlobalSecondaryIndexes", &part))
        r = reply_each(part, read_index, &indexes);
    if (r == 0 && reply_member(description, "LocalSecondaryIndexes", &part))
        r = reply_each(part, read_index, &indexes);
    if (r < 0)
        return r;
    table->created_ns = time_ns_of_s(reply_number(description, "CreationDateTime"));
    table->changed_ns = table->created_ns;
    table->id = table_number(description, table);
    if (reply_member(description, "ProvisionedThroughput", &part)) { /* 0 where none are */
        table->read_units = (uint64_t)reply_number(part, "ReadCapacityUnits");
        table->write_units = (uint64_t)reply_number(part, "WriteCapacityUnits");
    }
    known->bytes = (uint64_t)reply_number(description, "TableSizeBytes");
    known->items = (uint64_t)reply_number(description, "ItemCount");
    table->stream = reply_path(description, "StreamSpecification.StreamEnabled", &part) &&
                    span_equal(part, span_text("true"));
    return read_stream(description, known);
}

static int call_about(struct service *service, const char *operation, const struct table *table,
                      struct outcome *ret_outcome, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct err own = {""};

    buf_init(&body, 65536);
    request_begin(&body, table);
    buf_add_char(&body, '}');
    int r = service_call(service, operation, &body, ret_outcome, &own);
    return r < 0 ? err_set(err, -r, "table %s: %s", table->name, err_text(&own, r)) : 0;
}

/* Services without time to live have no such attribute. */
static int read_ttl(struct service *service, struct known_table *known, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf name;
    struct table *table = known->table;
    struct span description;
    struct err own = {""};
    int r = call_about(service, "DescribeTimeToLive", table, &outcome, &own);

    buf_init(&name, 65536);
    table->ttl_unknown = r == -EOPNOTSUPP || (r < 0 && answer_denies(outcome.type));
    if (r == -EOPNOTSUPP)
        return 0;
    if (table->ttl_unknown) {
        known->ttl_denied = true;
        return 0;
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (!reply_member(span_of(outcome.body.data, outcome.body.len), "TimeToLiveDescription",
                      &description) ||
        !(reply_text_is(description, "TimeToLiveStatus", "ENABLED") ||
          reply_text_is(description, "TimeToLiveStatus", "ENABLING")) ||
        !reply_text(description, "AttributeName", &name))
        return 0;
    table->ttl_attribute = buf_take(&name, NULL);
    return table->ttl_attribute ? 0 : -ENOMEM;
}

static int describe(struct service *service, struct span name, struct known_table *ret_known,
                    struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct known_table known = {.table = table_new(name), .read_ns = clock_steady_ns()};

    struct err own = {""};

    outcome_init(&outcome);
    if (!known.table)
        return -ENOMEM;
    int r = call_about(service, "DescribeTable", known.table, &outcome, &own);
    if (r < 0 && answer_denies(outcome.type)) {
        known.denied = strdup(err_text(&own, r));
        r = known.denied ? 0 : -ENOMEM;
    } else if (r == 0) {
        r = read_description(buf_span(&outcome.body), &known, &own);
        if (r == 0)
            r = read_ttl(service, &known, &own);
    }
    if (r < 0) {
        known_table_release(&known);
        err_set(err, -r, "%s", err_text(&own, r));
        return r;
    }
    *ret_known = known;
    return 0;
}

bool service_is_recent(int64_t read_ns, int64_t ms)
{
    return read_ns && clock_steady_ns() - read_ns < ms * (NS_PER_S / 1000);
}

bool service_is_fresh(struct service *service, struct span name, int64_t ms)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, name);
    return known && service_is_recent(known->read_ns, ms);
}

static int copy_known(struct service *service, struct span name, struct table **ret_table,
                      struct err *err)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, name);
    if (!known) /* dropped meanwhile */
        return -ENOENT;
    if (known->denied)
        return err_set(err, EACCES, "%s", known->denied);
    *ret_table = table_copy(known->table);
    return *ret_table ? 0 : -ENOMEM;
}

/* RET_NEWS: that its time to live is not to be known is. */
static int put_known(struct service *service, struct known_table *known, bool *ret_news)
{
    scoped_lock(&service->lock);
    const struct known_table *before =
        known_tables_find(&service->known, span_text(known->table->name));

    *ret_news = known->ttl_denied && !(before && before->ttl_denied);
    return known_tables_put(&service->known, known);
}

int service_refresh(struct service *service, struct span name, struct err *err)
{
    struct known_table known = {0};
    bool news;
    int r = describe(service, name, &known, err);

    if (r == -ENOENT) {
        scoped_lock(&service->lock);
        known_tables_remove(&service->known, name);
        return r;
    }
    if (r == 0)
        r = put_known(service, &known, &news);
    if (r == 0 && news)
        log_warning("tables",
                    "table %.*s: the service denies DescribeTimeToLive: expired items are not "
                    "hidden, and no file has a time to live",
                    (int)name.len, name.data);
    return r;
}

int service_describe(struct backend *backend, struct span name, struct table **ret_table,
                     struct err *err)
{
    struct service *service = service_of(backend);
    int r = 0;

    if (!service_can_name(name) || !service_shows(service, name))
        return err_set(err, ENOENT, "there is no table %.*s", (int)name.len, name.data);
    if (!service_is_fresh(service, name, TABLE_FRESH_MS))
        r = service_refresh(service, name, err);
    return r < 0 ? r : copy_known(service, name, ret_table, err);
}

bool service_is_forbidden(struct service *service, struct span name)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, name);
    return known && known->denied;
}

uint64_t service_table_bytes(struct service *service, const struct table *table)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, span_text(table->name));
    return known && known->table->id == table->id ? known->bytes : 0;
}

double service_item_bytes(struct service *service, const struct table *table)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, span_text(table->name));
    bool counted = known && known->table->id == table->id && known->items > 0;
    return counted ? (double)known->bytes / (double)known->items : 0;
}
