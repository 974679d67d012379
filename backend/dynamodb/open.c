/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/dynamodb.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/answer.h"
#include "backend/dynamodb/service.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

static int send_call(struct service *service, struct call call, const struct buf *body,
                     struct outcome *ret_outcome, struct err *err)
{
    call.body = buf_span(body);
    outcome_init(ret_outcome);
    if (buf_error(body))
        return err_set(err, -buf_error(body), "%s: the request is too large", call.operation);
    return client_call(service->client, &call, ret_outcome, err);
}

int service_call(struct service *service, const char *operation, const struct buf *body,
                 struct outcome *ret_outcome, struct err *err)
{
    const struct call call = {.operation = operation, .cancelled = cancel_flag()};

    return send_call(service, call, body, ret_outcome, err);
}

int service_call_streams(struct service *service, const char *operation, const struct buf *body,
                         struct outcome *ret_outcome, struct err *err)
{
    const struct call call = {.operation = operation, .streams = true, .cancelled = cancel_flag()};

    return send_call(service, call, body, ret_outcome, err);
}

int service_tell(struct service *service, const char *operation, const struct buf *body,
                 struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    const struct call call = {.operation = operation};

    return send_call(service, call, body, &outcome, err);
}

static void service_close(struct backend *backend)
{
    struct service *service = service_of(backend);

    client_close(service->client);
    recent_free(service->recent);
    capacity_free(service->capacity);
    service_drop_partitions(service);
    known_tables_release(&service->known);
    pthread_mutex_destroy(&service->lock);
    free(service->only_tables);
    free(service);
}

/* What the service acknowledges is durable. */
static int service_sync(struct backend *backend, struct err *err)
{
    (void)backend;
    (void)err;
    return 0;
}

static const struct backend_ops service_ops = {
    .kind = "dynamodb",
    .capabilities = 0,
    .close = service_close,
    .tables = service_tables,
    .describe = service_describe,
    .forbidden = service_forbidden,
    .create_table = service_create_table,
    .check_table = service_check_table,
    .drop_table = service_drop_table,
    .alter_table = service_alter_table,
    .alter_indexes = service_alter_indexes,
    .get = service_get,
    .walk = service_walk,
    .scan_open = service_scan_open,
    .scan_next = service_scan_next,
    .scan_close = service_scan_close,
    .query = service_query,
    .partitions = service_partitions,
    .partition = service_partition,
    .pack = service_pack,
    .bulk = service_bulk,
    .write = service_write,
    .update = service_update,
    .sync = service_sync,
    .stream_open = service_stream_open,
    .stream_next = service_stream_next,
    .stream_position = service_stream_position,
    .stream_close = service_stream_close,
    .lease_read = service_lease_read,
    .lease_write = service_lease_write,
    .usage = service_usage,
    .measure = service_measure,
    .skew = service_skew,
};

/* Of those that were chosen one must be there, and to be had: else the names, the region or the
 * account are wrong. */
static int try_chosen(struct service *service, struct err *err)
{
    cleanup(buf_release) struct buf names;
    struct err denied = {""};
    size_t found = 0;

    buf_init(&names, 1u << 20);
    service_chosen(service, &names);
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1) {
        struct table *table;
        struct err own = {""};
        int r = service_describe(&service->backend, span_text(names.data + at), &table, &own);
        if (r < 0 && r != -ENOENT && !service_is_forbidden(service, span_text(names.data + at)))
            return err_set(err, -r, "%s", err_text(&own, r));
        if (r == -EACCES)
            err_set(&denied, EACCES, "%s", own.text);
        else if (r < 0)
            log_warning("tables", "there is no table %s", names.data + at);
        else
            table_free(table);
        found += r == 0;
    }
    if (!found && denied.text[0])
        return err_set(err, EACCES, "%s", denied.text);
    return found ? 0 : err_set(err, ENOENT, "there is no table %s", service->only_tables);
}

/* Whether address and credentials are right. Who may not list tables may use those he can name. */
static int try_service(struct service *service, struct err *err)
{
    cleanup(buf_release) struct buf body = {0};
    cleanup(outcome_release) struct outcome outcome;
    struct err own = {""};

    outcome_init(&outcome);
    if (service->only_tables)
        return try_chosen(service, err);
    buf_init(&body, 256);
    buf_add_text(&body, "{\"Limit\":1}");
    int r = service_call(service, "ListTables", &body, &outcome, &own);
    if (r == 0 || answer_denies(outcome.type))
        return 0;
    return err_set(err, -r, "%s", err_text(&own, r));
}

int dynamodb_open(const struct dynamodb_options *options, struct backend **ret_backend,
                  struct err *err)
{
    struct service *service = calloc(1, sizeof *service);
    const struct client_options client = {
        .credentials = {options->profile, options->region, options->endpoint},
        .ca_file = options->ca_file,
    };
    int r = 0;

    if (!service)
        return -ENOMEM;
    service->backend.ops = &service_ops;
    service->backend.max_item_size = options->max_item_size;
    service->read_only = options->read_only;
    service->stream_poll_ns =
        (options->stream_poll_ms ? options->stream_poll_ms : DYNAMODB_STREAM_POLL_MS) *
        (NS_PER_S / 1000);
    service->segments = options->segments ? options->segments : DYNAMODB_SEGMENTS;
    pthread_mutex_init(&service->lock, NULL);
    service->recent = recent_new();
    if (!service->recent)
        r = -ENOMEM;
    if (options->tables)
        service->only_tables = strdup(options->tables);
    if (options->tables && !service->only_tables)
        r = -ENOMEM;
    if (r == 0)
        r = capacity_new(options->budgets, options->budget_count, &service->capacity);
    if (r == 0)
        r = client_open(&client, &service->client, err);
    if (r == 0)
        r = try_service(service, err);
    if (r < 0) {
        service_close(&service->backend);
        return r;
    }
    *ret_backend = &service->backend;
    return 0;
}

const char *dynamodb_endpoint(struct backend *backend)
{
    return client_endpoint(service_of(backend)->client);
}

bool service_skew(struct backend *backend, int64_t *ret_seconds)
{
    return client_skew(service_of(backend)->client, ret_seconds);
}

const char *dynamodb_region(struct backend *backend)
{
    return client_region(service_of(backend)->client);
}
