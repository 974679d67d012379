/* SPDX-License-Identifier: MIT */
/* status: what each backend holds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/delivery.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define DOCUMENT_MAX (64u << 20)
#define COUNT_MAX 1000000u /* items of a table counted; "at least" beyond */

/* ---- collecting ---- */

struct table_status {
    struct table *table;
    uint64_t items;
    bool delivered; /* it has a function: */
    struct delivery delivery;
};

struct replica_status {
    char *path, *reason; /* reason NULL: it is in use */
    int64_t since_ns;
};

struct backend_status {
    struct source *source;
    const struct backend_config *config;
    struct backend *backend;
    struct table_status *tables;
    size_t count;
    uint64_t drafts, draft_bytes, position;
    uint64_t bytes, free_bytes;
    struct replica_status *replicas; /* of folders */
    size_t replica_count;
    uint64_t foreign;
};

static void table_status_release(struct table_status *table)
{
    table_free(table->table);
    if (table->delivered)
        delivery_release(&table->delivery);
}

static void status_release(struct backend_status *status)
{
    for (size_t i = 0; i < status->count; i++)
        table_status_release(&status->tables[i]);
    free(status->tables);
    for (size_t i = 0; i < status->replica_count; i++) {
        free(status->replicas[i].path);
        free(status->replicas[i].reason);
    }
    free(status->replicas);
}

static int add_table(void *context, const struct table *table)
{
    struct backend_status *status = context;
    struct table_status *more = reallocarray(status->tables, status->count + 1, sizeof *more);

    if (!more)
        return -ENOMEM;
    status->tables = more;
    more[status->count] = (struct table_status){.table = table_copy(table)};
    return more[status->count].table ? (status->count++, 0) : -ENOMEM;
}

static int add_replica(void *context, const struct replica_state *state)
{
    struct backend_status *status = context;
    struct replica_status *more =
        reallocarray(status->replicas, status->replica_count + 1, sizeof *more);

    if (!more)
        return -ENOMEM;
    status->replicas = more;
    more += status->replica_count++;
    *more = (struct replica_status){.path = strdup(state->path), .since_ns = state->since_ns};
    if (!state->in_use)
        more->reason = strdup(state->reason);
    return more->path && (state->in_use || more->reason) ? 0 : -ENOMEM;
}

static int count_item(void *context, const struct record *record)
{
    (void)record;
    ++*(uint64_t *)context;
    return 0;
}

static int count_draft(void *context, const struct draft *draft)
{
    struct backend_status *status = context;

    status->drafts++;
    status->draft_bytes += draft->size;
    return 0;
}

/* The store's file and its log. */
static uint64_t file_bytes(const char *path)
{
    static const char *const suffixes[] = {"", "-wal"};
    uint64_t bytes = 0;

    for (size_t i = 0; i < 2; i++) {
        cleanup_free char *name = NULL;
        struct stat file;

        if (asprintf(&name, "%s%s", path, suffixes[i]) >= 0 && stat(name, &file) == 0)
            bytes += (uint64_t)file.st_size;
    }
    return bytes;
}

/* Items are counted where that reads a file: on a service it would be a whole scan, to be paid. */
static bool is_counted(const struct backend *backend)
{
    return backend_can(backend, BACKEND_ORDERED);
}

/* Where two backends have a table of that name, it is one of them that has the function. */
static int collect_delivery(const struct backend_status *status, struct table_status *table,
                            struct err *err)
{
    struct span name = span_text(table->table->name);
    const struct table_config *settings = config_table(status->source->config, name);
    struct backend *backend = NULL;
    struct table *found = NULL;

    if (!settings || settings->function.kind == FUNCTION_NONE)
        return 0;
    int r = source_table(status->source, name, &backend, &found, err);
    if (r == 0 && backend == status->backend)
        r = delivery_look(backend, found, settings, &table->delivery, err);
    table->delivered = r == 0 && backend == status->backend;
    table_free(found);
    return r;
}

/* Of folders it is the room of the replica that has the least. */
static bool has_room(const struct backend_status *status)
{
    return status->config->path || backend_can(status->backend, BACKEND_FILES);
}

static int collect(struct backend_status *status, struct err *err)
{
    struct walk walk = {.limit = COUNT_MAX};
    struct statvfs filesystem;
    bool counts = is_counted(status->backend), logs = backend_can(status->backend, BACKEND_LOG);
    int r = backend_tables(status->backend, add_table, status, err);

    for (size_t i = 0; r == 0 && counts && i < status->count; i++)
        r = backend_walk(status->backend, status->tables[i].table, &walk, count_item,
                         &status->tables[i].items, err);
    for (size_t i = 0; r == 0 && i < status->count; i++)
        r = collect_delivery(status, &status->tables[i], err);
    if (r == 0)
        r = backend_draft_list(status->backend, span_of(NULL, 0), count_draft, status, err);
    if (r == 0 && logs)
        r = backend_log_position(status->backend, &status->position, err);
    if (r == 0 && has_room(status))
        r = backend_statfs(status->backend, &filesystem, err);
    if (r == 0) /* last: what was found out of use until now is told, too */
        r = backend_replicas(status->backend, add_replica, status, &status->foreign);
    if (r < 0)
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    if (has_room(status))
        status->free_bytes = (uint64_t)filesystem.f_bavail * filesystem.f_frsize;
    if (status->config->path)
        status->bytes = file_bytes(status->config->path);
    return 0;
}

/* ---- showing ---- */

static void add_text_json(struct buf *out, const char *name, const char *text)
{
    if (!text)
        return;
    buf_addf(out, ", \"%s\": ", name);
    json_add_string(out, span_text(text));
}

static void add_table_json(struct buf *out, const struct backend_status *status, size_t place)
{
    const struct table_status *table = &status->tables[place];

    buf_add_text(out, "{\"TableName\": ");
    json_add_string(out, span_text(table->table->name));
    if (is_counted(status->backend))
        buf_addf(out, ", \"%s\": %llu", table->items < COUNT_MAX ? "ItemCount" : "ItemCountAtLeast",
                 (unsigned long long)table->items);
    if (table->delivered) {
        buf_add_text(out, ", \"Delivery\": ");
        delivery_to_json(&table->delivery, out);
    }
    buf_add_char(out, '}');
}

static void add_replicas_json(struct buf *out, const struct backend_status *status)
{
    buf_add_text(out, ", \"Replicas\": [");
    for (size_t i = 0; i < status->replica_count; i++) {
        const struct replica_status *replica = &status->replicas[i];
        buf_add_text(out, i ? ", {\"Path\": " : "{\"Path\": ");
        json_add_string(out, span_text(replica->path));
        buf_addf(out, ", \"InUse\": %s", replica->reason ? "false" : "true");
        add_text_json(out, "Reason", replica->reason);
        if (replica->reason)
            buf_addf(out, ", \"Since\": %lld", (long long)(replica->since_ns / NS_PER_S));
        buf_add_char(out, '}');
    }
    buf_addf(out, "], \"ForeignFiles\": %llu", (unsigned long long)status->foreign);
}

static void add_backend_json(struct buf *out, const struct backend_status *status)
{
    const struct backend_config *config = status->config;

    buf_add_text(out, "{\"Name\": ");
    json_add_string(out, span_text(config->name));
    buf_addf(out, ", \"Kind\": \"%s\"", status->backend->ops->kind);
    add_text_json(out, "Path", config->path);
    add_text_json(out, "Region", config->region);
    add_text_json(out, "Endpoint", config->endpoint);
    if (config->path)
        buf_addf(out, ", \"Bytes\": %llu", (unsigned long long)status->bytes);
    if (has_room(status))
        buf_addf(out, ", \"FreeBytes\": %llu", (unsigned long long)status->free_bytes);
    if (status->replica_count)
        add_replicas_json(out, status);
    if (backend_can(status->backend, BACKEND_LOG))
        buf_addf(out, ", \"LogPosition\": %llu", (unsigned long long)status->position);
    buf_addf(out, ", \"DraftCount\": %llu, \"DraftBytes\": %llu, \"Tables\": [",
             (unsigned long long)status->drafts, (unsigned long long)status->draft_bytes);
    for (size_t i = 0; i < status->count; i++) {
        buf_add_text(out, i ? ", " : "");
        add_table_json(out, status, i);
    }
    buf_add_text(out, "]}");
}

static void add_row(struct grid *grid, const char *name, uint64_t value)
{
    grid_add(grid, span_text(name));
    grid_addf(grid, "%llu", (unsigned long long)value);
}

static void add_text_row(struct grid *grid, const char *name, const char *text)
{
    if (!text)
        return;
    grid_add(grid, span_text(name));
    grid_add(grid, span_text(text));
}

static void add_table_row(struct grid *grid, const struct backend_status *status, size_t place)
{
    const struct table_status *table = &status->tables[place];

    grid_addf(grid, "Table %s", table->table->name);
    if (is_counted(status->backend))
        grid_addf(grid, "%llu item%s%s", (unsigned long long)table->items,
                  table->items == 1 ? "" : "s", table->items < COUNT_MAX ? "" : " or more");
    else
        grid_addf(grid, "not counted");
    if (table->delivered)
        delivery_add_rows(&table->delivery, grid);
}

static void add_replica_row(struct grid *grid, const struct replica_status *replica)
{
    cleanup(buf_release) struct buf time;

    buf_init(&time, 128);
    grid_addf(grid, "Replica");
    if (!replica->reason) {
        grid_addf(grid, "%s  in use", replica->path);
        return;
    }
    text_time_s(replica->since_ns / NS_PER_S, &time);
    grid_addf(grid, "%s  out of use since %.*s: %s", replica->path, (int)time.len, time.data,
              replica->reason);
}

static int show_backend(const struct backend_status *status, struct err *err)
{
    cleanup(grid_release) struct grid grid;

    grid_init(&grid, NULL, 2);
    grid_addf(&grid, "Backend");
    grid_addf(&grid, "%s (%s)", status->config->name, status->backend->ops->kind);
    add_text_row(&grid, "Path", status->config->path);
    add_text_row(&grid, "Region", status->config->region);
    add_text_row(&grid, "Endpoint", status->config->endpoint);
    if (status->config->path)
        add_row(&grid, "Bytes", status->bytes);
    if (has_room(status))
        add_row(&grid, "Bytes free", status->free_bytes);
    for (size_t i = 0; i < status->replica_count; i++)
        add_replica_row(&grid, &status->replicas[i]);
    if (status->replica_count)
        add_row(&grid, "Foreign files", status->foreign);
    if (backend_can(status->backend, BACKEND_LOG))
        add_row(&grid, "Log position", status->position);
    add_row(&grid, "Drafts", status->drafts);
    for (size_t i = 0; i < status->count; i++)
        add_table_row(&grid, status, i);
    return grid_print(&grid, err);
}

static int show_deliveries(const struct backend_status *status, struct err *err)
{
    cleanup(grid_release) struct grid grid;
    bool any = false;

    grid_init(&grid, delivery_heads, DELIVERY_COLUMNS);
    for (size_t i = 0; i < status->count; i++)
        if (status->tables[i].delivered) {
            any = true;
            delivery_add_numbers(&status->tables[i].delivery, status->tables[i].table->name, &grid);
        }
    int r = any ? output_text("\n", err) : 0;
    return r == 0 && any ? grid_print(&grid, err) : r;
}

static int add_backend(struct ctl *ctl, size_t place, struct buf *document)
{
    cleanup(status_release) struct backend_status status = {
        .source = ctl->source,
        .config = &ctl->config->backends[place],
        .backend = ctl->source->backends[place],
    };
    int r = collect(&status, &ctl->err);

    if (r < 0)
        return r;
    if (!ctl->json) {
        r = show_backend(&status, &ctl->err);
        return r == 0 ? show_deliveries(&status, &ctl->err) : r;
    }
    buf_add_text(document, place ? ", " : "");
    add_backend_json(document, &status);
    return buf_error(document);
}

static int run_status(struct ctl *ctl)
{
    cleanup(buf_release) struct buf document;
    int r = 0;

    buf_init(&document, DOCUMENT_MAX);
    buf_add_text(&document, "{\"Source\": ");
    json_add_string(&document, span_text(ctl->source_name));
    buf_add_text(&document, ", \"Backends\": [");
    for (size_t i = 0; r == 0 && i < ctl->source->count; i++)
        r = add_backend(ctl, i, &document);
    if (r == 0)
        ctl_tell_forbidden(ctl);
    buf_add_text(&document, "]}\n");
    if (r == 0)
        r = buf_error(&document);
    return r == 0 && ctl->json ? output_write(buf_span(&document), &ctl->err) : r;
}

const struct command command_status = {
    .name = "status",
    .usage = "",
    .summary = "Show what the backends hold and how large they are",
    .run = run_status,
};
