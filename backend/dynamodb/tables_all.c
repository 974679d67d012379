/* SPDX-License-Identifier: MIT */
/*
 * The tables that a service has: ListTables, and a description of each. All that is kept for a
 * while (known_tables), since an account may have many.
 *
 * Policies often allow one table and not the next. One that may not be described is known as such
 * for as long: it is no failure of all, and told of by itself (service_forbidden); who names it is
 * refused. Credentials that are wrong are no such thing: they fail the listing.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

#define LISTED_FRESH_MS 60000 /* of one that is among all: whoever uses a table asks for it */

struct listing {
    const struct service *service;
    struct buf *names;
};

static int add_listed(void *context, struct span raw)
{
    const struct listing *listing = context;
    struct buf *names = listing->names;
    size_t before = names->len;

    if (raw.len >= 2)
        json_unescape(span_of(raw.data + 1, raw.len - 2), names);
    if (service_hides(listing->service, buf_from(names, before)))
        buf_resize(names, before);
    else
        buf_add_char(names, '\0');
    return buf_error(names);
}

static int list_names(struct service *service, struct buf *names, struct err *err)
{
    cleanup(buf_release) struct buf last;
    struct listing listing = {service, names};
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
            r = reply_each(listed, add_listed, &listing);
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
        if (service_is_fresh(service, name, fresh_ms))
            continue;
        r = service_refresh(service, name, err);
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
    size_t count = 0;

    if (!tables)
        return -ENOMEM;
    for (size_t i = 0; i < known->count; i++) {
        const char *name = known->tables[i].table->name;
        if (known->tables[i].denied || service_hides(service, span_text(name)))
            continue;
        if (!(tables[count] = table_copy(known->tables[i].table))) {
            tables_free(tables, count);
            return -ENOMEM;
        }
        count++;
    }
    *ret_tables = tables;
    *ret_count = count;
    return 0;
}

int service_forbidden(struct backend *backend, forbidden_fn each, void *context)
{
    struct service *service = service_of(backend);
    cleanup(buf_release) struct buf told; /* name and reason, each with its NUL */
    int r = 0;

    buf_init(&told, 64u << 20);
    pthread_mutex_lock(&service->lock);
    for (size_t i = 0; i < service->known.count; i++) {
        const struct known_table *known = &service->known.tables[i];
        if (!known->denied || service_hides(service, span_text(known->table->name)))
            continue;
        buf_add(&told, known->table->name, strlen(known->table->name) + 1);
        buf_add(&told, known->denied, strlen(known->denied) + 1);
    }
    pthread_mutex_unlock(&service->lock);
    if (buf_error(&told))
        return buf_error(&told);
    for (const char *at = told.data; r == 0 && at && at < told.data + told.len;) {
        const char *why = at + strlen(at) + 1;
        r = each(context, at, why);
        at = why + strlen(why) + 1;
    }
    return r;
}

static bool is_listed(struct service *service)
{
    scoped_lock(&service->lock);
    return service_is_recent(service->known.listed_ns, TABLE_FRESH_MS);
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
