/* SPDX-License-Identifier: MIT */
/*
 * The service's tables. ListTables and a DescribeTable and DescribeTimeToLive for each make the
 * descriptions; they are kept for a moment (TABLES_FRESH_MS), since one command or mount asks for
 * them several times in a row.
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

#define ACTIVE_WAIT_MS 100
#define ACTIVE_TRIES 600

void known_tables_release(struct known_tables *known)
{
    for (size_t i = 0; i < known->count; i++)
        table_free(known->tables[i]);
    free(known->tables);
    *known = (struct known_tables){0};
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

static int read_description(struct span answer, struct table *table, struct err *err)
{
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
    table->stream = reply_path(description, "StreamSpecification.StreamEnabled", &part) &&
                    span_equal(part, span_text("true"));
    return 0;
}

static int call_about(struct service *service, const char *operation, const struct table *table,
                      struct outcome *ret_outcome, struct err *err)
{
    cleanup(buf_release) struct buf body;

    buf_init(&body, 65536);
    request_begin(&body, table);
    buf_add_char(&body, '}');
    return service_call(service, operation, &body, ret_outcome, err);
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

static int describe(struct service *service, struct span name, struct table **ret_table,
                    struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct table *table = table_new(name);

    outcome_init(&outcome);
    if (!table)
        return -ENOMEM;
    int r = call_about(service, "DescribeTable", table, &outcome, err);
    if (r == 0)
        r = read_description(buf_span(&outcome.body), table, err);
    if (r == 0)
        r = read_ttl(service, table, err);
    if (r < 0) {
        table_free(table);
        return r;
    }
    *ret_table = table;
    return 0;
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

/* The names of a list with commas. */
static void add_chosen(const char *list, struct buf *names)
{
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

static int compare_tables(const void *a, const void *b)
{
    return strcmp((*(struct table *const *)a)->name, (*(struct table *const *)b)->name);
}

static int add_known(struct service *service, struct span name, struct known_tables *known,
                     struct err *err)
{
    struct table **tables = reallocarray(known->tables, known->count + 1, sizeof(struct table *));
    if (!tables)
        return -ENOMEM;
    known->tables = tables;
    int r = describe(service, name, &tables[known->count], err);
    known->count += r == 0;
    return r;
}

static int read_tables(struct service *service, struct known_tables *known, struct err *err)
{
    cleanup(buf_release) struct buf names;
    int r = 0;

    buf_init(&names, 64u << 20);
    if (service->only_tables)
        add_chosen(service->only_tables, &names);
    else
        r = list_names(service, &names, err);
    for (size_t at = 0; r == 0 && at < names.len; at += strlen(names.data + at) + 1) {
        r = add_known(service, span_text(names.data + at), known, err);
        if (r == -ENOENT && !service->only_tables) { /* dropped just now */
            err_clear(err);
            r = 0;
        }
    }
    if (known->count)
        qsort(known->tables, known->count, sizeof(struct table *), compare_tables);
    known->read_ns = clock_steady_ns();
    return r;
}

/* Copies, so that nobody else's reading takes them away meanwhile. */
static int copy_known(struct service *service, struct known_tables *ret_copy)
{
    struct known_tables copy = {0};
    scoped_lock(&service->lock);
    const struct known_tables *known = &service->known;
    int64_t age = clock_steady_ns() - known->read_ns;

    if (known->read_ns == 0 || age > TABLES_FRESH_MS * (NS_PER_S / 1000))
        return -EAGAIN;
    copy.tables = calloc(known->count + 1, sizeof(struct table *));
    while (copy.tables && copy.count < known->count) {
        copy.tables[copy.count] = table_copy(known->tables[copy.count]);
        if (!copy.tables[copy.count])
            break;
        copy.count++;
    }
    if (!copy.tables || copy.count < known->count) {
        known_tables_release(&copy);
        return -ENOMEM;
    }
    *ret_copy = copy;
    return 0;
}

static int fresh_tables(struct service *service, struct known_tables *ret_tables, struct err *err)
{
    struct known_tables known = {0};
    int r = copy_known(service, ret_tables);

    if (r != -EAGAIN)
        return r;
    r = read_tables(service, &known, err);
    if (r < 0) {
        known_tables_release(&known);
        return r;
    }
    pthread_mutex_lock(&service->lock);
    known_tables_release(&service->known);
    service->known = known;
    pthread_mutex_unlock(&service->lock);
    return copy_known(service, ret_tables);
}

int service_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    struct known_tables known;
    int r = fresh_tables(service_of(backend), &known, err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < known.count; i++)
        r = each(context, known.tables[i]);
    known_tables_release(&known);
    return r;
}
