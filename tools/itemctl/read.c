/* SPDX-License-Identifier: MIT */
/* query, scan */
#include <errno.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/keys.h"
#include "tools/itemctl/output.h"
#include "tools/itemctl/pages.h"

static int parse_limit(struct ctl *ctl, size_t *ret_limit)
{
    const char *text = arguments_value(ctl->arguments, "--limit");
    int64_t limit = 0;

    if (text && (!number_is_json(span_text(text)) || !number_to_int64(span_text(text), &limit) ||
                 limit <= 0))
        return ctl_usage(ctl, "--limit is a number from 1, not \"%s\"", text);
    *ret_limit = (size_t)limit;
    return 0;
}

/* ---- scan ---- */

static const struct option_spec scan_options[] = {{"--limit", 1, false}, {NULL, 0, false}};

static int scan_record(void *context, const struct record *record)
{
    struct item_output *output = context;
    int r = item_output_add(output, record);

    return r < 0 ? r : item_output_full(output);
}

static int scan_page(void *context, const struct pages *pages)
{
    (void)pages;
    return item_output_flush(context);
}

static int run_scan(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    struct item_output output;
    struct pages pages;
    size_t limit = 0;
    int r = parse_limit(ctl, &limit);

    if (r == 0)
        r = subject_open(ctl, &subject);
    if (r)
        return r;
    pages_init(&pages, &subject);
    item_output_init(&output, subject.table, ctl->json, &ctl->err);
    pages.limit = limit;
    pages.each = scan_record;
    pages.page = scan_page;
    pages.context = &output;
    r = pages_walk(&pages, &ctl->err);
    item_output_release(&output);
    pages_release(&pages);
    return r;
}

const struct command command_scan = {
    .name = "scan",
    .usage = "TABLE [--limit N]",
    .summary = "Print all items of a table",
    .options = scan_options,
    .least = 1,
    .most = 1,
    .run = run_scan,
};

/* ---- query ---- */

static const struct option_spec query_options[] = {
    {"--index", 1, false},   {"--key-name", 1, false},
    {"-k", 1, false},        {"--sort-between", 2, false},
    {"--reverse", 0, false}, {"--limit", 1, false},
    {NULL, 0, false},
};

/* A query being put together; `shape` stands in for the table or the index whose keys count. */
struct asked {
    struct subject subject;
    struct query query;
    struct table shape;
    struct buf partition, from, to;
};

static void asked_release(struct asked *asked)
{
    subject_release(&asked->subject);
    buf_release(&asked->partition);
    buf_release(&asked->from);
    buf_release(&asked->to);
}

static bool is_attribute(const struct key_attribute *attribute, const char *name)
{
    return strcmp(attribute->name, name) == 0;
}

/* The index that --key-name means where --index does not say: the one that has it as partition. */
static int guess_index(struct ctl *ctl, const struct table *table, const char *name,
                       const struct index **ret_index)
{
    const struct index *found = NULL;

    if (is_attribute(&table->partition, name)) {
        *ret_index = NULL;
        return 0;
    }
    for (size_t i = 0; i < table->index_count; i++) {
        if (!is_attribute(&table->indexes[i].partition, name))
            continue;
        if (found)
            return ctl_usage(ctl, "\"%s\" is the key of indexes %s and %s: say which with --index",
                             name, found->name, table->indexes[i].name);
        found = &table->indexes[i];
    }
    if (!found)
        return ctl_usage(ctl,
                         "\"%s\" is neither the partition key of %s, which is \"%s\", nor an "
                         "index's",
                         name, table->name, table->partition.name);
    *ret_index = found;
    return 0;
}

static int choose_index(struct ctl *ctl, const struct table *table, const struct index **ret_index)
{
    const char *wanted = arguments_value(ctl->arguments, "--index");
    const char *name = arguments_value(ctl->arguments, "--key-name");
    const struct index *index;

    if (!arguments_value(ctl->arguments, "-k"))
        return ctl_usage(ctl, "query needs -k KEY");
    if (!wanted)
        return guess_index(ctl, table, name ? name : table->partition.name, ret_index);
    index = table_index(table, span_text(wanted));
    if (!index)
        return ctl_fail(ctl, STATUS_ABSENT, "table %s has no index \"%s\"", table->name, wanted);
    if (name && !is_attribute(&index->partition, name))
        return ctl_usage(ctl, "the partition key of index %s is \"%s\", not \"%s\"", index->name,
                         index->partition.name, name);
    *ret_index = index;
    return 0;
}

/* Tags are sorted wherever the table's own key is asked for, also through an index. */
static void set_shape(struct asked *asked)
{
    const struct table *table = asked->subject.table;
    const struct index *index = asked->query.index;

    asked->shape = *table;
    if (!index)
        return;
    asked->shape.partition = index->partition;
    asked->shape.sort = index->sort;
    if (!is_attribute(&index->partition, table->partition.name))
        asked->shape.keys = KEYS_PLAIN;
}

static int set_bounds(struct ctl *ctl, struct asked *asked)
{
    const struct given_option *between = arguments_option(ctl->arguments, "--sort-between", 0);
    int r;

    if (!between)
        return 0;
    if (!table_sorted(&asked->shape))
        return ctl_usage(ctl, "--sort-between: there is no sort key");
    r = key_part_from_word(ctl, &asked->shape, true, between->values[0], &asked->from);
    if (r == 0)
        r = key_part_from_word(ctl, &asked->shape, true, between->values[1], &asked->to);
    asked->query.has_from = asked->query.has_to = true;
    asked->query.from = buf_span(&asked->from);
    asked->query.to = buf_span(&asked->to);
    return r;
}

static int ask(struct ctl *ctl, struct asked *asked)
{
    int r = subject_open(ctl, &asked->subject);

    buf_init(&asked->partition, KEY_PART_MAX + 1);
    buf_init(&asked->from, KEY_PART_MAX + 1);
    buf_init(&asked->to, KEY_PART_MAX + 1);
    if (r == 0)
        r = choose_index(ctl, asked->subject.table, &asked->query.index);
    if (r)
        return r;
    set_shape(asked);
    r = key_part_from_word(ctl, &asked->shape, false, arguments_value(ctl->arguments, "-k"),
                           &asked->partition);
    asked->query.partition = buf_span(&asked->partition);
    if (r == 0)
        r = set_bounds(ctl, asked);
    asked->query.reverse = arguments_option(ctl->arguments, "--reverse", 0) != NULL;
    return r ? r : parse_limit(ctl, &asked->query.limit);
}

/* The backend gives a query's answer in one go: it is written as it comes. */
static int query_record(void *context, const struct record *record)
{
    struct item_output *output = context;
    int r = item_output_add(output, record);

    return r == 0 && item_output_full(output) ? item_output_flush(output) : r;
}

static int run_query(struct ctl *ctl)
{
    cleanup(asked_release) struct asked asked = {0};
    struct item_output output;
    int r = ask(ctl, &asked);

    if (r)
        return r;
    item_output_init(&output, asked.subject.table, ctl->json, &ctl->err);
    r = backend_query(asked.subject.backend, asked.subject.table, &asked.query, query_record,
                      &output, &ctl->err);
    if (r == 0)
        r = item_output_flush(&output);
    item_output_release(&output);
    return r;
}

const struct command command_query = {
    .name = "query",
    .usage = "TABLE [--index NAME] [--key-name NAME] -k KEY [--sort-between A B]\n"
             "           [--reverse] [--limit N]",
    .summary = "Print the items of one partition of a table or index, in order",
    .options = query_options,
    .least = 1,
    .most = 1,
    .run = run_query,
};
