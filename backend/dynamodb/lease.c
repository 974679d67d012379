/* SPDX-License-Identifier: MIT */
/*
 * Leases: items of a table of their own, which is made when the first of them is taken.
 *
 *   {"table": {"S": ..}, "count": {"N": ..}, "holder": {"S": ..}, "position": {"S": ..}}
 *
 * Each write is a put under the condition that the count is what the writer has seen. An answer may
 * be lost, and then the write be sent again, which its own first sending makes fail: so where that
 * may be, what is there now decides. Nobody else writes the same holder, count and position.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "backend/dynamodb/service.h"
#include "backend/dynamodb/units.h"
#include "backend/stream.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/json.h"

#define REQUEST_MAX (1u << 20)

static void table_release(struct table **table)
{
    table_free(*table);
}

/* Its description, to free. */
static int describe_leases(struct table **ret_table)
{
    struct table *table = table_new(span_text(LEASES_TABLE));
    int r = table ? key_attribute_parse(span_text("table"), &table->partition, NULL) : -ENOMEM;

    if (r < 0)
        table_free(table);
    else
        *ret_table = table;
    return r;
}

static void lease_key(const struct table *leases, struct span name, struct buf *out)
{
    const struct key key = {.partition = name};

    request_key(out, "Key", leases, key);
}

/* A text in an item: {"holder": {"S": ..}} */
static bool read_text(struct span item, const char *name, struct buf *out)
{
    struct span value;

    return reply_member(item, name, &value) && reply_text(value, "S", out);
}

static int read_item(struct span item, struct lease *lease)
{
    cleanup(buf_release) struct buf count;
    struct span value;

    buf_init(&count, 64);
    if (!reply_member(item, "count", &value) || !reply_text(value, "N", &count) || !count.len ||
        strspn(count.data, "0123456789") != count.len)
        return -EIO;
    if (!read_text(item, "holder", &lease->holder) ||
        !read_text(item, "position", &lease->position))
        return -EIO;
    lease->count = strtoull(count.data, NULL, 10);
    return buf_error(&lease->holder) ? buf_error(&lease->holder) : buf_error(&lease->position);
}

int service_lease_read(struct backend *backend, struct span name, struct lease *ret_lease,
                       struct err *err)
{
    cleanup(table_release) struct table *leases = NULL;
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct demand demand = {LEASES_TABLE, CAPACITY_READ, 1};
    struct err said = {""};
    struct span item;
    int r = describe_leases(&leases);

    outcome_init(&outcome);
    buf_init(&body, REQUEST_MAX);
    if (r < 0)
        return r;
    request_begin(&body, leases);
    lease_key(leases, name, &body);
    request_raw(&body, "ConsistentRead", span_text("true"));
    r = service_spend(service_of(backend), "GetItem", &demand, 1, &body, cancel_flag(), &outcome,
                      &said);
    if (r == -ENOENT || (r == 0 && !reply_member(buf_span(&outcome.body), "Item", &item)))
        return 0;
    if (r == 0)
        r = read_item(item, ret_lease);
    return r < 0 ? err_set(err, -r, "the lease of %.*s: %s", (int)name.len, name.data,
                           said.text[0] ? said.text : "the item is no lease")
                 : 0;
}

/* --- Writing --- */

struct lease_write {
    struct service *service;
    const struct table *leases;
    struct span name, holder, position;
    uint64_t count;
};

static void add_text(struct buf *out, const char *name, struct span text)
{
    buf_addf(out, ",\"%s\":{\"S\":", name);
    json_add_string(out, text);
    buf_add_char(out, '}');
}

static void put_request(const struct lease_write *write, struct buf *out)
{
    request_begin(out, write->leases);
    buf_add_text(out, ",\"Item\":{\"table\":");
    add_part(out, VALUE_S, write->name);
    buf_addf(out, ",\"count\":{\"N\":\"%" PRIu64 "\"}", write->count + 1);
    add_text(out, "holder", write->holder);
    add_text(out, "position", write->position);
    buf_add_char(out, '}');
    if (write->count) {
        buf_addf(out,
                 ",\"ConditionExpression\":\"#c = :c\","
                 "\"ExpressionAttributeNames\":{\"#c\":\"count\"},"
                 "\"ExpressionAttributeValues\":{\":c\":{\"N\":\"%" PRIu64 "\"}}",
                 write->count);
    } else {
        buf_add_text(out, ",\"ConditionExpression\":\"attribute_not_exists(#t)\","
                          "\"ExpressionAttributeNames\":{\"#t\":\"table\"}");
    }
}

static int send(const struct lease_write *write, struct outcome *ret_outcome, struct err *err)
{
    cleanup(buf_release) struct buf body;
    size_t bytes = write->name.len + write->holder.len + write->position.len;
    struct demand demand = {LEASES_TABLE, CAPACITY_WRITE, write_units(bytes)};

    buf_init(&body, REQUEST_MAX);
    put_request(write, &body);
    return service_spend(write->service, "PutItem", &demand, 1, &body, NULL, ret_outcome, err);
}

static int make_leases(const struct lease_write *write, struct err *err)
{
    int r = service_make_table(write->service, write->leases, err);

    if (r != -EEXIST)
        return r;
    err_clear(err); /* another program was quicker */
    return service_settle_table(write->service, write->leases, err);
}

static int has_moved_on(const struct lease_write *write, struct err *err)
{
    return err_set(err, ESTALE, "the lease of %.*s has moved on", (int)write->name.len,
                   write->name.data);
}

/* After a write that may have been applied, with CODE: 0 where it was. */
static int look_back(const struct lease_write *write, int code, const struct err *said,
                     struct err *err)
{
    struct lease now;
    struct err own = {""};

    lease_init(&now);
    int r = backend_lease_read(&write->service->backend, write->name, &now, &own);
    bool ours = r == 0 && now.count == write->count + 1 &&
                span_equal(buf_span(&now.holder), write->holder) &&
                span_equal(buf_span(&now.position), write->position);
    bool same = r == 0 && now.count == write->count;
    lease_release(&now);
    if (ours)
        return 0;
    if (r == 0 && !same)
        return has_moved_on(write, err);
    return err_set(err, -code, "%s", err_text(said, code));
}

int service_lease_write(struct backend *backend, struct span name, uint64_t count,
                        struct span holder, struct span position, struct err *err)
{
    cleanup(table_release) struct table *leases = NULL;
    cleanup(outcome_release) struct outcome outcome;
    struct service *service = service_of(backend);
    struct err said = {""};
    int r = describe_leases(&leases);
    const struct lease_write write = {service, leases, name, holder, position, count};

    outcome_init(&outcome);
    if (r < 0)
        return r;
    if (service->read_only)
        return err_set(err, EROFS, "the tables are open for reading only");
    r = send(&write, &outcome, &said);
    if (r == -ENOENT && count == 0) {
        outcome_release(&outcome);
        err_clear(&said);
        r = make_leases(&write, &said);
        if (r == 0)
            r = send(&write, &outcome, &said);
    }
    if (r == 0)
        return 0;
    if ((r == -EEXIST && !outcome.repeated) || (r == -ENOENT && count))
        return has_moved_on(&write, err);
    if (r == -EEXIST || outcome.repeated || outcome.uncertain)
        return look_back(&write, r == -EEXIST ? -ESTALE : r, &said, err);
    return err_set(err, -r, "the lease of %.*s: %s", (int)name.len, name.data, err_text(&said, r));
}
