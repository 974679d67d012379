/* SPDX-License-Identifier: MIT */
/*
 * The service's tables. DescribeTable and DescribeTimeToLive make a description, ListTables says
 * which there are. All that is kept for a while (known_tables), since one command or mount asks
 * several times in a row, and an account may have many.
 *
 * What the service does not keep (tag keys, rendering) has the defaults of a table that was there
 * before: plain keys, keys shown; mount.conf says otherwise.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

#define TABLE_NAME_MIN 3
#define TABLE_NAME_MAX 255
#define TABLE_FRESH_MS 1000   /* of a description that is asked for by name, and of the list */
#define LISTED_FRESH_MS 60000 /* of one that is among all: whoever uses a table asks for it */

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
    struct span schema;
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
    table->created_ns =
        (int64_t)llround(reply_number(description, "CreationDateTime") * 1000) * 1000000;
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
    return 0;
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
static int read_ttl(struct service *service, struct table *table, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf name;
    struct span description;
    struct err own = {""};
    int r = call_about(service, "DescribeTimeToLive", table, &outcome, &own);

    buf_init(&name, 65536);
    if (r == -EOPNOTSUPP)
        return 0;
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

    outcome_init(&outcome);
    if (!known.table)
        return -ENOMEM;
    int r = call_about(service, "DescribeTable", known.table, &outcome, err);
    if (r == 0)
        r = read_description(buf_span(&outcome.body), &known, err);
    if (r == 0)
        r = read_ttl(service, known.table, err);
    if (r < 0) {
        table_free(known.table);
        return r;
    }
    *ret_known = known;
    return 0;
}

static bool is_recent(int64_t read_ns, int64_t ms)
{
    return read_ns && clock_steady_ns() - read_ns < ms * (NS_PER_S / 1000);
}

static bool is_fresh(struct service *service, struct span name, int64_t ms)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, name);
    return known && is_recent(known->read_ns, ms);
}

static int copy_known(struct service *service, struct span name, struct table **ret_table)
{
    scoped_lock(&service->lock);
    const struct known_table *known = known_tables_find(&service->known, name);
    if (!known) /* dropped meanwhile */
        return -ENOENT;
    *ret_table = table_copy(known->table);
    return *ret_table ? 0 : -ENOMEM;
}

/* One table, known anew or not there any more. */
static int refresh(struct service *service, struct span name, struct err *err)
{
    struct known_table known;
    int r = describe(service, name, &known, err);
    scoped_lock(&service->lock);

    if (r == -ENOENT)
        known_tables_remove(&service->known, name);
    return r < 0 ? r : known_tables_put(&service->known, &known);
}

int service_describe(struct backend *backend, struct span name, struct table **ret_table,
                     struct err *err)
{
    struct service *service = service_of(backend);
    int r = 0;

    if (!service_can_name(name) || !service_shows(service, name))
        return err_set(err, ENOENT, "there is no table %.*s", (int)name.len, name.data);
    if (!is_fresh(service, name, TABLE_FRESH_MS))
        r = refresh(service, name, err);
    return r < 0 ? r : copy_known(service, name, ret_table);
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

/* --- All of them --- */

static int add_listed(void *context, struct span raw)
{
    struct buf *names = context;

    if (raw.len >= 2)
        json_unescape(span_of(raw.data + 1, raw.len - 2), names);
    buf_add_char(names, '\0');
    return buf_error(names);
}

static int list_names(struct service *service, struct buf *names, struct err *err)
{
    cleanup(buf_release) struct buf last;
    int r = 0;

    buf_init(&last, 65536);
    do {
        cleanup(buf_release) struct buf body;
        cleanup(outcome_release) struct outcome outcome;
        struct span listed;
        buf_init(&body, 65536);
        buf_add_char(&body, '{');
        if (last.len)
            request_text(&body, "ExclusiveStartTableName", buf_span(&last));
        buf_add_char(&body, '}');
        r = service_call(service, "ListTables", &body, &outcome, err);
        if (r < 0)
            return r;
        if (reply_member(buf_span(&outcome.body), "TableNames", &listed))
            r = reply_each(listed, add_listed, names);
        buf_clear(&last);
        if (!reply_text(buf_span(&outcome.body), "LastEvaluatedTableName", &last))
            break;
    } while (r == 0);
    return r;
}

static int read_names(struct service *service, struct buf *names, struct err *err)
{
    if (!service->only_tables)
        return list_names(service, names, err);
    service_chosen(service, names);
    return 0;
}

static int read_tables(struct service *service, struct err *err)
{
    cleanup(buf_release) struct buf names;
    /* Where the list is given, only the descriptions tell whether a table is still there. */
    int64_t fresh_ms = service->only_tables ? TABLE_FRESH_MS : LISTED_FRESH_MS;

    buf_init(&names, 64u << 20);
    int64_t now_ns = clock_steady_ns();
    int r = read_names(service, &names, err);
    for (size_t at = 0; r == 0 && at < names.len; at += strlen(names.data + at) + 1) {
        struct span name = span_text(names.data + at);
        if (is_fresh(service, name, fresh_ms))
            continue;
        r = refresh(service, name, err);
        if (r == -ENOENT) { /* dropped just now, or chosen and not made yet */
            err_clear(err);
            r = 0;
        }
    }
    if (r < 0)
        return r;
    scoped_lock(&service->lock);
    known_tables_keep(&service->known, &names);
    service->known.listed_ns = now_ns;
    return 0;
}

static void tables_free(struct table **tables, size_t count)
{
    for (size_t i = 0; i < count; i++)
        table_free(tables[i]);
    free(tables);
}

/* Copies, so that nobody else's reading takes them away meanwhile. */
static int copy_all(struct service *service, struct table ***ret_tables, size_t *ret_count)
{
    scoped_lock(&service->lock);
    const struct known_tables *known = &service->known;
    struct table **tables = calloc(known->count + 1, sizeof(struct table *));

    for (size_t i = 0; tables && i < known->count; i++)
        if (!(tables[i] = table_copy(known->tables[i].table))) {
            tables_free(tables, i);
            return -ENOMEM;
        }
    *ret_tables = tables;
    *ret_count = known->count;
    return tables ? 0 : -ENOMEM;
}

static bool is_listed(struct service *service)
{
    scoped_lock(&service->lock);
    return is_recent(service->known.listed_ns, TABLE_FRESH_MS);
}

int service_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    struct service *service = service_of(backend);
    struct table **tables;
    size_t count;
    int r = is_listed(service) ? 0 : read_tables(service, err);

    if (r == 0)
        r = copy_all(service, &tables, &count);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = each(context, tables[i]);
    tables_free(tables, count);
    return r;
}
