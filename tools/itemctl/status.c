/* SPDX-License-Identifier: MIT */
/* status: what each backend holds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/json.h"
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

struct backend_status {
    struct source *source;
    const struct backend_config *config;
    struct backend *backend;
    struct table_status *tables;
    size_t count;
    uint64_t drafts, draft_bytes, position;
    uint64_t bytes, free_bytes;
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
    if (r == 0 && status->config->path)
        r = backend_statfs(status->backend, &filesystem, err);
    if (r < 0)
        return r;
    if (status->config->path) {
        status->free_bytes = (uint64_t)filesystem.f_bavail * filesystem.f_frsize;
        status->bytes = file_bytes(status->config->path);
    }
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
        buf_addf(out, ", \"Bytes\": %llu, \"FreeBytes\": %llu", (unsigned long long)status->bytes,
                 (unsigned long long)status->free_bytes);
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

static int show_backend(const struct backend_status *status, struct err *err)
{
    cleanup(grid_release) struct grid grid;

    grid_init(&grid, NULL, 2);
    grid_addf(&grid, "Backend");
    grid_addf(&grid, "%s (%s)", status->config->name, status->backend->ops->kind);
    add_text_row(&grid, "Path", status->config->path);
    add_text_row(&grid, "Region", status->config->region);
    add_text_row(&grid, "Endpoint", status->config->endpoint);
    if (status->config->path) {
        add_row(&grid, "Bytes", status->bytes);
        add_row(&grid, "Bytes free", status->free_bytes);
    }
    if (backend_can(status->backend, BACKEND_LOG))
        add_row(&grid, "Log position", status->position);
    add_row(&grid, "Drafts", status->drafts);
    for (size_t i = 0; i < status->count; i++)
        add_table_row(&grid, status, i);
    return grid_print(&grid, err);
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
    if (!ctl->json)
        return show_backend(&status, &ctl->err);
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
