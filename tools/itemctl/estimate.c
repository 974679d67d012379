/* SPDX-License-Identifier: MIT */
/* estimate: what a listing, a backup and an import will consume, before they run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/item.h"
#include "base/json.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/input.h"
#include "tools/itemctl/output.h"

#define DOCUMENT_MAX (64u << 20)
#define LINE_PER_ITEM 16 /* a typed line may be that much longer than the body */

/* ---- collecting ---- */

/* What an import of a file comes to. */
struct load {
    const char *file; /* NULL: none is asked about */
    uint64_t items, requests;
    struct put_cost cost;
    size_t gathered; /* items of the request that is being filled, and their units */
    double units;
};

struct estimate {
    const char *backend, *kind;
    const struct table *table;
    struct measure *measure; /* NULL: nothing is consumed */
    double cache_ttl;        /* of the configuration, seconds */
    uint64_t cache_size;     /* likewise, bytes */
    struct load load;
};

/* As the backend fills its requests. */
static void add_cost(struct load *load, const struct measure *measure, const struct put_cost *cost)
{
    double units = cost->table + cost->indexes;
    bool dear = measure->bulk_units > 0 && load->units + units > measure->bulk_units;

    if (load->gathered == 0 || load->gathered == measure->bulk_items || dear) {
        load->requests++;
        load->gathered = 0;
        load->units = 0;
    }
    load->gathered++;
    load->units += units;
    load->items++;
    load->cost.table += cost->table;
    load->cost.indexes += cost->indexes;
}

static int add_item(struct estimate *estimate, struct span typed, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf partition = {0}, sort = {0};
    struct put_cost cost;

    buf_init(&partition, KEY_PART_MAX + 1);
    buf_init(&sort, KEY_PART_MAX + 1);
    int r = item_from_typed(estimate->table, typed, &item, &partition, &sort, err);
    if (r == 0)
        r = value_canonical(&item, err);
    if (r == 0)
        r = estimate->measure->put(estimate->measure, &item, &cost, err);
    if (r == 0)
        add_cost(&estimate->load, estimate->measure, &cost);
    return r;
}

static int add_items(struct estimate *estimate, struct input *input, struct err *err)
{
    for (;;) {
        struct err reason = {""};
        struct span item;
        int r = input_next(input, &item, &reason);

        if (r == 0)
            return 0;
        if (r > 0)
            r = add_item(estimate, item, &reason);
        if (r < 0 && input->broken)
            return err_set(err, -r, "%s", err_text(&reason, r));
        if (r < 0)
            return document_fail(input_name(input, &input->place), input->place.line + 1, r,
                                 &reason, err);
    }
}

static int read_load(struct ctl *ctl, struct estimate *estimate)
{
    cleanup(input_close) struct input input;
    uint64_t longest = LINE_PER_ITEM * ctl->config->max_item_size + (1u << 20);
    int r = input_open(&input, estimate->load.file, longest, &ctl->err);

    if (r == 0)
        r = input_verify(&input, &ctl->err);
    if (r == 0)
        r = add_items(estimate, &input, &ctl->err);
    return r < 0 ? STATUS_FAILED : 0;
}

/* ---- what it comes to ---- */

/* Seconds that UNITS take at the less of two rates, of which 0 is none; 0: at no rate. */
static double seconds_at(double units, double limit, double budget)
{
    double rate = limit > 0 && (limit < budget || !(budget > 0)) ? limit : budget;

    return rate > 0 ? units / rate : 0;
}

static double read_seconds(const struct measure *measure, double units)
{
    return seconds_at(units, measure->read_limit, measure->read_budget);
}

static double scan_seconds(const struct measure *measure)
{
    return read_seconds(measure, measure->scan_units);
}

/*
 * What rsync, or another program that lists a table and then reads each file, consumes.
 *
 * Within cache_ttl and cache_size, what the listing brought is not asked for again: all is read
 * once, and where the table has a sort key once more, to find the partitions. Each of those is a
 * request of its own, whose units are rounded up, and there may be as many as items.
 *
 * Beyond them each item is got once more by itself; and rsync asks three times more whether a
 * partition is there: when it looks at it, when it lists it, and when it reads a file in it.
 */
#define PARTITION_LOOKS 3

struct span_units {
    double least, most;
};

static struct span_units cached_units(const struct estimate *estimate)
{
    double scan = estimate->measure->scan_units, items = (double)estimate->measure->items;

    return table_sorted(estimate->table) ? (struct span_units){2 * scan, 2 * scan + items}
                                         : (struct span_units){scan, scan};
}

static struct span_units uncached_units(const struct estimate *estimate)
{
    double scan = estimate->measure->scan_units, items = (double)estimate->measure->items;
    struct span_units units = cached_units(estimate);
    double looks = table_sorted(estimate->table) ? PARTITION_LOOKS : 0;

    units.least += fmax(scan, items);
    units.most += (1 + looks) * (scan + items);
    return units;
}

/* Global indexes have units of their own where they are provisioned; a budget is one for all. */
static double load_seconds(const struct measure *measure, const struct load *load)
{
    return fmax(seconds_at(load->cost.table, measure->write_limit, 0),
                seconds_at(load->cost.table + load->cost.indexes, 0, measure->write_budget));
}

/* ---- showing ---- */

static void add_seconds_json(struct buf *out, double seconds)
{
    if (seconds > 0)
        buf_addf(out, ", \"Seconds\": %.15g", seconds);
}

static void add_pair_json(struct buf *out, const char *name, const char *read_name, double reads,
                          const char *write_name, double writes)
{
    if (!(reads > 0) && !(writes > 0))
        return;
    buf_addf(out, ", \"%s\": {", name);
    if (reads > 0)
        buf_addf(out, "\"%s\": %.15g%s", read_name, reads, writes > 0 ? ", " : "");
    if (writes > 0)
        buf_addf(out, "\"%s\": %.15g", write_name, writes);
    buf_add_char(out, '}');
}

static void add_scan_json(struct buf *out, const char *name, const struct measure *measure)
{
    buf_addf(out,
             ", \"%s\": {\"ReadUnits\": %.15g, \"EventuallyConsistentReadUnits\": %.15g, "
             "\"Requests\": %llu",
             name, measure->scan_units, measure->scan_units / 2,
             (unsigned long long)measure->scan_requests);
    add_seconds_json(out, scan_seconds(measure));
    buf_add_char(out, '}');
}

static void add_span_json(struct buf *out, const char *name, const struct measure *measure,
                          struct span_units units)
{
    double seconds = read_seconds(measure, units.least);

    buf_addf(out, ", \"%s\": {\"ReadUnitsAtLeast\": %.15g, \"ReadUnitsUpTo\": %.15g", name,
             units.least, units.most);
    if (seconds > 0)
        buf_addf(out, ", \"SecondsAtLeast\": %.15g", seconds);
    buf_add_char(out, '}');
}

static void add_backup_json(struct buf *out, const struct estimate *estimate)
{
    const struct measure *measure = estimate->measure;

    if (table_sorted(estimate->table))
        add_span_json(out, "Backup", measure, cached_units(estimate));
    else
        add_scan_json(out, "Backup", measure);
    add_span_json(out, "BackupBeyondCache", measure, uncached_units(estimate));
    buf_addf(out, ", \"Cache\": {\"Seconds\": %.15g, \"Bytes\": %llu}", estimate->cache_ttl,
             (unsigned long long)estimate->cache_size);
}

static void add_load_json(struct buf *out, const struct estimate *estimate)
{
    const struct load *load = &estimate->load;

    buf_add_text(out, ", \"Import\": {\"File\": ");
    json_add_string(out, span_text(load->file));
    buf_addf(out, ", \"ItemCount\": %llu, \"WriteUnits\": %.15g, \"Requests\": %llu",
             (unsigned long long)load->items, load->cost.table + load->cost.indexes,
             (unsigned long long)load->requests);
    if (load->cost.indexes > 0)
        buf_addf(out, ", \"IndexWriteUnits\": %.15g", load->cost.indexes);
    add_seconds_json(out, load_seconds(estimate->measure, load));
    buf_add_char(out, '}');
}

static void add_json(struct buf *out, const struct estimate *estimate)
{
    const struct measure *measure = estimate->measure;

    buf_add_text(out, "{\"TableName\": ");
    json_add_string(out, span_text(estimate->table->name));
    buf_add_text(out, ", \"Backend\": ");
    json_add_string(out, span_text(estimate->backend));
    buf_addf(out, ", \"Kind\": \"%s\", \"Consumes\": %s", estimate->kind,
             measure ? "true" : "false");
    if (measure) {
        buf_addf(out, ", \"ItemCount\": %llu, \"TableSizeBytes\": %llu",
                 (unsigned long long)measure->items, (unsigned long long)measure->bytes);
        add_pair_json(out, "ProvisionedThroughput", "ReadCapacityUnits", measure->read_limit,
                      "WriteCapacityUnits", measure->write_limit);
        add_pair_json(out, "Budget", "ReadUnits", measure->read_budget, "WriteUnits",
                      measure->write_budget);
        add_scan_json(out, "Listing", measure);
        add_backup_json(out, estimate);
        if (estimate->load.file)
            add_load_json(out, estimate);
    }
    buf_add_char(out, '}');
}

/* ", 2.5 s" where it takes a time that can be told. */
static void add_seconds(struct buf *out, double seconds)
{
    if (seconds >= 7200)
        buf_addf(out, ", %.1f h", seconds / 3600);
    else if (seconds >= 120)
        buf_addf(out, ", %.0f min", seconds / 60);
    else if (seconds > 0)
        buf_addf(out, ", %.1f s", seconds);
}

static void add_count(struct buf *out, uint64_t count, const char *what)
{
    buf_addf(out, "%llu %s%s", (unsigned long long)count, what, count == 1 ? "" : "s");
}

static void add_rates(struct grid *grid, const char *name, double reads, double writes,
                      const char *none)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 1024);
    if (reads > 0)
        buf_addf(&text, "%.15g read%s", reads, writes > 0 ? ", " : "");
    if (writes > 0)
        buf_addf(&text, "%.15g write", writes);
    buf_add_text(&text, text.len ? " units a second" : none);
    grid_addf(grid, "%s", name);
    grid_add(grid, buf_span(&text));
}

static void add_listing_row(struct grid *grid, const struct measure *measure)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 1024);
    buf_addf(&text, "%.15g read units (%.15g where they need not be consistent), ",
             measure->scan_units, measure->scan_units / 2);
    add_count(&text, measure->scan_requests, "request");
    add_seconds(&text, scan_seconds(measure));
    grid_addf(grid, "Listing");
    grid_add(grid, buf_span(&text));
}

static void add_span_text(struct buf *out, const struct measure *measure, struct span_units units)
{
    buf_addf(out, "%.15g to %.15g read units", units.least, units.most);
    add_seconds(out, read_seconds(measure, units.least));
    buf_add_text(out, read_seconds(measure, units.least) > 0 ? " at least" : "");
}

static void add_backup_rows(struct grid *grid, const struct estimate *estimate)
{
    const struct measure *measure = estimate->measure;
    cleanup(buf_release) struct buf text;

    buf_init(&text, 1024);
    if (table_sorted(estimate->table))
        add_span_text(&text, measure, cached_units(estimate));
    else
        buf_add_text(&text, "the same, once");
    buf_addf(&text, ", within cache_ttl (%.15g s) and cache_size (%llu bytes)", estimate->cache_ttl,
             (unsigned long long)estimate->cache_size);
    grid_addf(grid, "Backup");
    grid_add(grid, buf_span(&text));
    buf_clear(&text);
    add_span_text(&text, measure, uncached_units(estimate));
    grid_addf(grid, "Beyond them");
    grid_add(grid, buf_span(&text));
}

static void add_load_row(struct grid *grid, const struct estimate *estimate)
{
    const struct load *load = &estimate->load;
    cleanup(buf_release) struct buf text;

    buf_init(&text, 1024);
    buf_addf(&text, "%.15g write units ", load->cost.table + load->cost.indexes);
    if (load->cost.indexes > 0)
        buf_addf(&text, "(%.15g of them of indexes) ", load->cost.indexes);
    buf_add_text(&text, "for ");
    add_count(&text, load->items, "item");
    buf_add_text(&text, ", ");
    add_count(&text, load->requests, "request");
    add_seconds(&text, load_seconds(estimate->measure, load));
    grid_addf(grid, "Import");
    grid_add(grid, buf_span(&text));
}

static int show(const struct estimate *estimate, struct err *err)
{
    const struct measure *measure = estimate->measure;
    cleanup(grid_release) struct grid grid;

    grid_init(&grid, NULL, 2);
    grid_addf(&grid, "Table");
    grid_addf(&grid, "%s (%s)", estimate->table->name, estimate->backend);
    if (!measure) {
        grid_addf(&grid, "Consumes");
        grid_addf(&grid, "nothing: the embedded store does not count in units");
        return grid_print(&grid, err);
    }
    grid_addf(&grid, "Size");
    grid_addf(&grid, "%llu bytes in %llu item%s, as last counted",
              (unsigned long long)measure->bytes, (unsigned long long)measure->items,
              measure->items == 1 ? "" : "s");
    add_rates(&grid, "Throughput", measure->read_limit, measure->write_limit, "on demand");
    add_rates(&grid, "Budget", measure->read_budget, measure->write_budget, "none");
    add_listing_row(&grid, measure);
    add_backup_rows(&grid, estimate);
    if (estimate->load.file)
        add_load_row(&grid, estimate);
    return grid_print(&grid, err);
}

/* ---- the command ---- */

static const char *backend_name(const struct ctl *ctl, const struct backend *backend)
{
    size_t place = 0;

    while (ctl->source->backends[place] != backend)
        place++;
    return ctl->config->backends[place].name;
}

static int estimate_subject(struct ctl *ctl, const struct subject *subject, struct buf *document)
{
    struct estimate estimate = {.backend = backend_name(ctl, subject->backend),
                                .kind = subject->backend->ops->kind,
                                .table = subject->table,
                                .cache_ttl = ctl->config->cache_ttl,
                                .cache_size = ctl->config->cache_size,
                                .load.file = arguments_value(ctl->arguments, "--import")};
    int r = backend_measure(subject->backend, subject->table, &estimate.measure, &ctl->err);

    if (r == 0 && estimate.measure && estimate.load.file)
        r = read_load(ctl, &estimate);
    if (r == 0 && ctl->json)
        add_json(document, &estimate);
    else if (r == 0)
        r = show(&estimate, &ctl->err);
    measure_free(estimate.measure);
    return r ? r : buf_error(document);
}

static int add_name(void *context, const struct table *table)
{
    struct buf *names = context;

    buf_add(names, table->name, strlen(table->name) + 1);
    return buf_error(names);
}

static int estimate_all(struct ctl *ctl, struct buf *document)
{
    cleanup(buf_release) struct buf names;

    buf_init(&names, DOCUMENT_MAX);
    int r = source_tables(ctl->source, add_name, &names, &ctl->err);
    if (r == 0)
        ctl_tell_forbidden(ctl);
    buf_add_text(document, "{\"Tables\": [");
    for (size_t at = 0; r == 0 && at < names.len; at += strlen(names.data + at) + 1) {
        cleanup(subject_release) struct subject subject = {0};
        r = source_table(ctl->source, span_text(names.data + at), &subject.backend, &subject.table,
                         &ctl->err);
        buf_add_text(document, at ? ", " : "");
        if (r == 0)
            r = estimate_subject(ctl, &subject, document);
    }
    buf_add_text(document, "]}");
    return r;
}

static int run_estimate(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    cleanup(buf_release) struct buf document;
    int r = 0;

    buf_init(&document, DOCUMENT_MAX);
    if (ctl->arguments->rest_count == 0 && arguments_value(ctl->arguments, "--import"))
        return ctl_usage(ctl, "--import needs the table that FILE is for");
    if (ctl->arguments->rest_count) {
        r = subject_open(ctl, &subject);
        if (r == 0)
            r = estimate_subject(ctl, &subject, &document);
    } else {
        r = estimate_all(ctl, &document);
    }
    buf_add_char(&document, '\n');
    if (r == 0)
        r = buf_error(&document);
    return r == 0 && ctl->json ? output_write(buf_span(&document), &ctl->err) : r;
}

static const struct option_spec estimate_options[] = {{"--import", 1, false}, {NULL, 0, false}};

const struct command command_estimate = {
    .name = "estimate",
    .usage = "[TABLE [--import FILE]]",
    .summary = "Tell what reading a table, or an import, will consume of a service",
    .options = estimate_options,
    .most = 1,
    .run = run_estimate,
};
