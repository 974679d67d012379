/* SPDX-License-Identifier: MIT */
/* Making, dropping and changing tables, each waited for until the service has done it. */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"

#define INDEXES_MOST 20
#define SETTLE_PAUSE_MS 100
#define SETTLE_TRIES 1200 /* two minutes */

static void add_definition(struct buf *out, const struct key_attribute *attribute)
{
    if (!attribute->name)
        return;
    if (out->len && out->data[out->len - 1] == '}')
        buf_add_char(out, ',');
    buf_add_char(out, '{');
    request_text(out, "AttributeName", span_text(attribute->name));
    request_text(out, "AttributeType", span_text(value_type_name(attribute->type)));
    buf_add_char(out, '}');
}

static bool is_defined(const struct table *table, size_t indexes, const char *name)
{
    if (text_equal(table->partition.name, name) || text_equal(table->sort.name, name))
        return true;
    for (size_t i = 0; i < indexes; i++)
        if (text_equal(table->indexes[i].partition.name, name) ||
            text_equal(table->indexes[i].sort.name, name))
            return true;
    return false;
}

/* Every key attribute once. */
static void add_definitions(struct buf *out, const struct table *table)
{
    buf_add_text(out, ",\"AttributeDefinitions\":[");
    add_definition(out, &table->partition);
    add_definition(out, &table->sort);
    for (size_t i = 0; i < table->index_count; i++) {
        const struct index *index = &table->indexes[i];
        if (!is_defined(table, i, index->partition.name))
            add_definition(out, &index->partition);
        if (index->sort.name && !is_defined(table, i, index->sort.name) &&
            !text_equal(index->sort.name, index->partition.name))
            add_definition(out, &index->sort);
    }
    buf_add_char(out, ']');
}

static void add_schema(struct buf *out, const struct key_attribute *partition,
                       const struct key_attribute *sort)
{
    buf_add_text(out, "\"KeySchema\":[{");
    request_text(out, "AttributeName", span_text(partition->name));
    buf_add_text(out, ",\"KeyType\":\"HASH\"}");
    if (sort->name) {
        buf_add_text(out, ",{");
        request_text(out, "AttributeName", span_text(sort->name));
        buf_add_text(out, ",\"KeyType\":\"RANGE\"}");
    }
    buf_add_char(out, ']');
}

/* An index of a table with units of its own has as many; else what is used is paid for. */
static void add_units(struct buf *out, const struct table *table)
{
    if (table->read_units)
        buf_addf(out,
                 ",\"ProvisionedThroughput\":{\"ReadCapacityUnits\":%" PRIu64
                 ",\"WriteCapacityUnits\":%" PRIu64 "}",
                 table->read_units, table->write_units);
}

static void add_index(struct buf *out, const struct table *table, const struct index *index)
{
    buf_add_char(out, '{');
    request_text(out, "IndexName", span_text(index->name));
    buf_add_char(out, ',');
    add_schema(out, &index->partition, &index->sort);
    buf_add_text(out, ",\"Projection\":{\"ProjectionType\":\"ALL\"}");
    add_units(out, table);
    buf_add_char(out, '}');
}

static void add_indexes(struct buf *out, const struct table *table)
{
    if (table->index_count == 0)
        return;
    buf_add_text(out, ",\"GlobalSecondaryIndexes\":[");
    for (size_t i = 0; i < table->index_count; i++) {
        if (i)
            buf_add_char(out, ',');
        add_index(out, table, &table->indexes[i]);
    }
    buf_add_char(out, ']');
}

static void add_stream(struct buf *out, const struct table *table)
{
    if (table->stream)
        buf_add_text(out, ",\"StreamSpecification\":{\"StreamEnabled\":true,"
                          "\"StreamViewType\":\"NEW_AND_OLD_IMAGES\"}");
    else
        buf_add_text(out, ",\"StreamSpecification\":{\"StreamEnabled\":false}");
}

/* Sends BODY, which is about TABLE; what is wrong is said of that. */
static int tell_about(struct service *service, const char *operation, const struct table *table,
                      const struct buf *body, struct err *err)
{
    struct err own = {""};
    int r = service_tell(service, operation, body, &own);

    return r < 0 ? err_set(err, -r, "table %s: %s", table->name, err_text(&own, r)) : 0;
}

static void pause_a_moment(void)
{
    const struct timespec pause = {.tv_nsec = SETTLE_PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
}

/* A table whose index is being filled is ACTIVE. */
static int note_busy_index(void *context, struct span raw)
{
    struct span status;

    if (reply_member(raw, "IndexStatus", &status) && !reply_text_is(raw, "IndexStatus", "ACTIVE"))
        *(bool *)context = true;
    return 0;
}

static bool has_busy_index(struct span description)
{
    struct span indexes;
    bool busy = false;

    if (reply_member(description, "GlobalSecondaryIndexes", &indexes))
        reply_each(indexes, note_busy_index, &busy);
    return busy;
}

enum wanted { WANT_ACTIVE, WANT_INDEXES, WANT_GONE };

static bool is_as_wanted(struct span answer, enum wanted wanted)
{
    struct span description;

    return reply_member(answer, "Table", &description) &&
           reply_text_is(description, "TableStatus", "ACTIVE") &&
           (wanted != WANT_INDEXES || !has_busy_index(description));
}

/* Until the table is ACTIVE, or its indexes are, too, or there is none. */
static int settle(struct service *service, const struct table *table, enum wanted wanted,
                  struct err *err)
{
    for (int tries = 0; tries < SETTLE_TRIES; tries++) {
        cleanup(outcome_release) struct outcome outcome;
        cleanup(buf_release) struct buf body;
        struct err own = {""};
        buf_init(&body, 65536);
        request_begin(&body, table);
        buf_add_char(&body, '}');
        int r = service_call(service, "DescribeTable", &body, &outcome, &own);
        if (r == -ENOENT && wanted == WANT_GONE)
            return 0;
        if (r < 0 && r != -ENOENT) /* one that was just made may not be seen yet */
            return err_set(err, -r, "table %s: %s", table->name, err_text(&own, r));
        if (r == 0 && wanted != WANT_GONE && is_as_wanted(buf_span(&outcome.body), wanted))
            return 0;
        pause_a_moment();
    }
    return err_set(err, ETIMEDOUT, "table %s: the service is still busy with it", table->name);
}

int service_settle_table(struct service *service, const struct table *table, struct err *err)
{
    return settle(service, table, WANT_ACTIVE, err);
}

static int set_ttl(struct service *service, const struct table *table, const char *attribute,
                   bool on, struct err *err)
{
    cleanup(buf_release) struct buf body;

    buf_init(&body, 65536);
    request_begin(&body, table);
    buf_add_text(&body, ",\"TimeToLiveSpecification\":{");
    request_text(&body, "AttributeName", span_text(attribute));
    buf_add_text(&body, on ? ",\"Enabled\":true}}" : ",\"Enabled\":false}}");
    return tell_about(service, "UpdateTimeToLive", table, &body, err);
}

static void forget(struct service *service, const struct table *table)
{
    scoped_lock(&service->lock);
    known_tables_remove(&service->known, span_text(table->name));
    service->known.listed_ns = 0;
}

static int call_create(struct service *service, const struct table *table, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct err own = {""};

    buf_init(&body, 1 << 20);
    request_begin(&body, table);
    add_definitions(&body, table);
    buf_add_char(&body, ',');
    add_schema(&body, &table->partition, &table->sort);
    add_indexes(&body, table);
    request_text(&body, "BillingMode",
                 span_text(table->read_units ? "PROVISIONED" : "PAY_PER_REQUEST"));
    add_units(&body, table);
    if (table->stream)
        add_stream(&body, table);
    buf_add_char(&body, '}');
    int r = tell_about(service, "CreateTable", table, &body, &own);
    if (r == -EEXIST)
        return err_set(err, EEXIST, "table %s already exists", table->name);
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

/* What the service refuses after it was asked; a table that is to be replaced is gone by then. */
static int check_indexes(const struct table *table, struct err *err)
{
    if (table->index_count > INDEXES_MOST)
        return err_set(err, EINVAL, "table %s: the service's tables have %d indexes at most",
                       table->name, INDEXES_MOST);
    for (size_t i = 0; i < table->index_count; i++)
        if (!service_can_name(span_text(table->indexes[i].name)))
            return err_set(err, EINVAL,
                           "table %s: index %s: the service's indexes have names of 3 to 255 "
                           "letters, digits, _, - and .",
                           table->name, table->indexes[i].name);
    return 0;
}

int service_check_table(struct backend *backend, const struct table *table, struct err *err)
{
    const struct service *service = service_of(backend);

    if (!service_can_name(span_text(table->name)))
        return err_set(err, EINVAL,
                       "table %s: the service's tables have names of 3 to 255 letters, digits, "
                       "_, - and .",
                       table->name);
    if (!service_shows(service, span_text(table->name)))
        return err_set(err, EPERM, "table %s is not among those that were chosen: %s", table->name,
                       service->only_tables);
    return check_indexes(table, err);
}

int service_create_table(struct backend *backend, const struct table *table, struct err *err)
{
    return service_make_table(service_of(backend), table, err);
}

int service_make_table(struct service *service, const struct table *table, struct err *err)
{
    struct err own = {""};
    int r = call_create(service, table, err);
    if (r < 0)
        return r;
    r = settle(service, table, WANT_ACTIVE, err);
    if (r == 0 && table->ttl_attribute) {
        r = set_ttl(service, table, table->ttl_attribute, true, &own);
        if (r == -EOPNOTSUPP) /* expired items are hidden here all the same */
            r = 0;
        else if (r < 0)
            err_set(err, -r, "%s", err_text(&own, r));
    }
    forget(service, table);
    return r;
}

static int has_item(void *context, const struct record *record)
{
    (void)record;
    *(bool *)context = true;
    return 1;
}

int service_drop_table(struct backend *backend, const struct table *table, bool force,
                       struct err *err)
{
    struct service *service = service_of(backend);
    cleanup(buf_release) struct buf body;
    bool found = false;
    const struct walk first = {.limit = 1};
    buf_init(&body, 65536);
    int r = force ? 0 : service_walk(backend, table, &first, has_item, &found, err);

    if (r < 0)
        return r;
    if (found)
        return err_set(err, ENOTEMPTY, "table %s has items", table->name);
    request_begin(&body, table);
    buf_add_char(&body, '}');
    r = tell_about(service, "DeleteTable", table, &body, err);
    if (r == 0)
        r = settle(service, table, WANT_GONE, err);
    forget(service, table);
    return r;
}

static int alter_stream(struct service *service, const struct table *table, struct err *err)
{
    cleanup(buf_release) struct buf body;

    buf_init(&body, 65536);
    request_begin(&body, table);
    add_stream(&body, table);
    buf_add_char(&body, '}');
    int r = tell_about(service, "UpdateTable", table, &body, err);
    return r ? r : settle(service, table, WANT_ACTIVE, err);
}

/* The table that has TABLE's id, asked for anew: what it is now must be known for certain. */
static int describe_now(struct service *service, const struct table *table, struct table **ret_now,
                        struct err *err)
{
    struct table *now;

    forget(service, table);
    int r = service_describe(&service->backend, span_text(table->name), &now, err);
    if (r < 0)
        return r;
    if (now->id != table->id) {
        table_free(now);
        err_set(err, ENOENT, "table %s is gone", table->name);
        return -ENOENT;
    }
    *ret_now = now;
    return 0;
}

/* Whether TABLE, which has its id, is known by another name. */
static bool is_renamed(struct service *service, const struct table *table)
{
    scoped_lock(&service->lock);
    for (size_t i = 0; i < service->known.count; i++) {
        const struct table *known = service->known.tables[i].table;
        if (known->id == table->id)
            return !text_equal(known->name, table->name);
    }
    return false;
}

int service_alter_table(struct backend *backend, const struct table *table, struct err *err)
{
    struct service *service = service_of(backend);
    struct table *now = NULL;

    if (is_renamed(service, table))
        return err_set(err, EPERM, "the service cannot rename a table to %s", table->name);
    int r = describe_now(service, table, &now, err);
    if (r < 0)
        return r;
    if (now->stream != table->stream)
        r = alter_stream(service, table, err);
    if (r == 0 && !text_equal(now->ttl_attribute, table->ttl_attribute)) {
        if (now->ttl_attribute)
            r = set_ttl(service, table, now->ttl_attribute, false, err);
        if (r == 0 && table->ttl_attribute)
            r = set_ttl(service, table, table->ttl_attribute, true, err);
    }
    table_free(now);
    forget(service, table);
    return r;
}

/* One change: the service takes no more at a time. DEFINED has all key attributes. */
static int change_index(struct service *service, const struct table *defined,
                        const struct index *index, bool make, struct err *err)
{
    cleanup(buf_release) struct buf body;

    buf_init(&body, 1 << 20);
    request_begin(&body, defined);
    if (make)
        add_definitions(&body, defined);
    buf_add_text(&body, ",\"GlobalSecondaryIndexUpdates\":[");
    if (make) {
        buf_add_text(&body, "{\"Create\":");
        add_index(&body, defined, index);
    } else {
        buf_add_text(&body, "{\"Delete\":{");
        request_text(&body, "IndexName", span_text(index->name));
        buf_add_char(&body, '}');
    }
    buf_add_text(&body, "}]}");
    int r = tell_about(service, "UpdateTable", defined, &body, err);
    return r ? r : settle(service, defined, WANT_INDEXES, err);
}

static int drop_indexes(struct service *service, struct table *now, const struct table *wanted,
                        struct err *err)
{
    int r = 0;

    for (size_t i = now->index_count; r == 0 && i-- > 0;) {
        const struct index *index = table_index(wanted, span_text(now->indexes[i].name));
        if (index && index_equal(index, &now->indexes[i]))
            continue;
        r = change_index(service, now, &now->indexes[i], false, err);
        if (r == 0)
            table_remove_index(now, i);
    }
    return r;
}

static int make_indexes(struct service *service, struct table *now, const struct table *wanted,
                        struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < wanted->index_count; i++) {
        const struct index *index = &wanted->indexes[i];
        if (table_index(now, span_text(index->name)))
            continue;
        r = table_add_index(now, index) < 0 ? err_set(err, ENOMEM, "no memory")
                                            : change_index(service, now, index, true, err);
    }
    return r;
}

int service_alter_indexes(struct backend *backend, const struct table *table, struct err *err)
{
    struct service *service = service_of(backend);
    struct table *now = NULL;
    int r = check_indexes(table, err);

    if (r < 0)
        return r;
    r = describe_now(service, table, &now, err);
    if (r < 0)
        return r;
    r = drop_indexes(service, now, table, err);
    if (r == 0)
        r = make_indexes(service, now, table, err);
    table_free(now);
    forget(service, table);
    return r;
}
