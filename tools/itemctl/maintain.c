/* SPDX-License-Identifier: MIT */
/* maintain: what the tag store's own client offers for a whole schema, for any table. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/number.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/names.h"
#include "tools/itemctl/output.h"
#include "tools/itemctl/progress.h"
#include "tools/itemctl/replicas.h"
#include "upkeep/purge.h"

#define PAGE_ITEMS 1024

struct work {
    struct ctl *ctl;
    struct subject subject;
    const char *const *values; /* of the subcommand */
    bool dry;
    struct progress progress;
    uint64_t total; /* items that will be looked at, or deleted; 0: not known */
};

/* A subcommand: its name, the values behind it, then TABLE. */
struct maintenance {
    const char *name;
    int values;
    int (*run)(struct work *work);
};

/* ---- names ---- */

struct listing {
    struct names names;
    bool tagged;
    struct span tag;
};

static int list_record(void *context, const struct record *record)
{
    struct listing *listing = context;

    if (listing->tagged && !key_has_tag(record->key.partition, listing->tag))
        return 0;
    return names_add(&listing->names, record->key);
}

static int list(struct work *work, struct listing *listing)
{
    const struct scan_range range = {.bodies = false};
    struct backend *backend = work->subject.backend;
    const struct table *table = work->subject.table;
    struct err *err = &work->ctl->err;
    struct scan *scan = NULL;
    int r = backend_scan_open(backend, table, &range, &scan, err);

    if (r == 0)
        r = names_begin(&listing->names, work->ctl, table, backend_can(backend, BACKEND_ORDERED),
                        err);
    while (r == 0 && !scan->ended)
        r = backend_scan_next(scan, PAGE_ITEMS, list_record, listing, err);
    if (r == 0)
        r = names_end(&listing->names);
    names_release(&listing->names);
    backend_scan_close(scan);
    return r;
}

static int run_get_all(struct work *work)
{
    struct listing listing = {.tagged = false};

    return list(work, &listing);
}

static int take_tag(struct work *work, struct span *ret_tag)
{
    const struct table *table = work->subject.table;
    struct err reason = {""};

    *ret_tag = span_text(work->values[0]);
    if (table->keys != KEYS_TAGS)
        return ctl_fail(work->ctl, STATUS_FAILED, "the keys of table %s are not made of tags",
                        table->name);
    if (key_check_tag(*ret_tag, table->strict_tags, &reason) < 0)
        return ctl_usage(work->ctl, "%s", reason.text);
    return 0;
}

static int run_by_tag(struct work *work)
{
    struct listing listing = {.tagged = true};
    int r = take_tag(work, &listing.tag);

    return r ? r : list(work, &listing);
}

/* ---- counts ---- */

static int count_items(struct work *work, struct purge_count *ret_count)
{
    const struct purge_rule all = {.kind = PURGE_ALL};

    return purge(work->subject.backend, work->subject.table, &all, true, 0, NULL, NULL, ret_count,
                 &work->ctl->err);
}

static int print_line(struct work *work, struct buf *line)
{
    int r = buf_error(line);

    return r ? r : output_write(buf_span(line), &work->ctl->err);
}

static void begin_document(const struct work *work, struct buf *out)
{
    buf_add_text(out, "{\"TableName\": ");
    json_add_string(out, span_text(work->subject.table->name));
}

static int run_capacity(struct work *work)
{
    cleanup(buf_release) struct buf line;
    struct purge_count count;
    int r = count_items(work, &count);

    buf_init(&line, 8192);
    if (r < 0)
        return r;
    if (work->ctl->json) {
        begin_document(work, &line);
        buf_addf(&line, ", \"Capacity\": %" PRIu64 "}\n", count.items);
    } else {
        buf_addf(&line, "%" PRIu64 "\n", count.items);
    }
    return print_line(work, &line);
}

/* ---- deletions ---- */

static void show_progress(void *context, const struct purge_count *count)
{
    struct work *work = context;
    uint64_t done = count->wanted ? count->deleted + count->changed : count->items;

    progress_show(&work->progress, count->deleted, done,
                  count->wanted ? count->wanted : work->total);
}

/* Where a bar is to be shown: how many items there are, as far as that costs nothing. */
static void find_total(struct work *work)
{
    struct backend *backend = work->subject.backend;
    struct purge_count count = {0};
    struct measure *measure = NULL;

    if (!work->progress.on)
        return;
    if (backend_can(backend, BACKEND_ORDERED)) {
        count_items(work, &count);
    } else if (backend_measure(backend, work->subject.table, &measure, NULL) == 0 && measure) {
        count.items = measure->items;
        measure_free(measure);
    }
    err_clear(&work->ctl->err);
    work->total = count.items;
}

static int print_count(struct work *work, const struct purge_count *count)
{
    cleanup(buf_release) struct buf line;

    buf_init(&line, 8192);
    if (work->ctl->json) {
        begin_document(work, &line);
        buf_addf(&line,
                 ", \"DryRun\": %s, \"Items\": %" PRIu64 ", \"Deleted\": %" PRIu64
                 ", \"Changed\": %" PRIu64 "}\n",
                 work->dry ? "true" : "false", count->items, count->deleted, count->changed);
    } else {
        buf_addf(&line, "%" PRIu64 " of %" PRIu64 " items %s\n", count->deleted, count->items,
                 work->dry ? "would be deleted" : "deleted");
        if (count->changed)
            buf_addf(&line, "%" PRIu64 " were changed meanwhile and are left as they are\n",
                     count->changed);
    }
    return print_line(work, &line);
}

static int delete_by(struct work *work, const struct purge_rule *rule)
{
    struct purge_count count;

    progress_begin(&work->progress, "deleted");
    find_total(work);
    int r = purge(work->subject.backend, work->subject.table, rule, work->dry, 0, show_progress,
                  work, &count, &work->ctl->err);
    progress_end(&work->progress);
    return r < 0 ? r : print_count(work, &count);
}

static int run_delete_all(struct work *work)
{
    const struct purge_rule rule = {.kind = PURGE_ALL};

    return delete_by(work, &rule);
}

static int run_delete_by_tag(struct work *work)
{
    struct purge_rule rule = {.kind = PURGE_TAG};
    int r = take_tag(work, &rule.tag);

    return r ? r : delete_by(work, &rule);
}

static int take_count(struct work *work, int at, const char *what, int64_t *ret_count)
{
    struct span text = span_text(work->values[at]);

    if (number_is_json(text) && number_to_int64(text, ret_count) && *ret_count >= 0 &&
        *ret_count <= (int64_t)CONFIG_KEEP_MOST)
        return 0;
    return ctl_usage(work->ctl, "%s is a whole number from 0, not \"%s\"", what, work->values[at]);
}

static int run_delete_until(struct work *work)
{
    struct purge_rule rule = {.kind = PURGE_UNTIL};
    int64_t seconds;
    int r = take_count(work, 0, "SECONDS", &seconds);

    rule.before_ns = r ? 0 : (clock_now_s() - seconds) * NS_PER_S;
    return r ? r : delete_by(work, &rule);
}

static int run_delete_by_capacity(struct work *work)
{
    struct purge_rule rule = {.kind = PURGE_CAPACITY};
    int64_t min, max;
    int r = take_count(work, 0, "MIN", &min);

    if (r == 0)
        r = take_count(work, 1, "MAX", &max);
    if (r == 0 && min > max)
        r = ctl_usage(work->ctl, "MIN is more than MAX");
    if (r)
        return r;
    rule.min = (uint64_t)min;
    rule.max = (uint64_t)max;
    return delete_by(work, &rule);
}

static int run_drop(struct work *work)
{
    cleanup(buf_release) struct buf line;
    struct purge_count count;
    int r = work->dry ? count_items(work, &count)
                      : backend_drop_table(work->subject.backend, work->subject.table, true,
                                           &work->ctl->err);

    buf_init(&line, 8192);
    if (r < 0)
        return r;
    if (work->ctl->json) {
        begin_document(work, &line);
        buf_addf(&line, ", \"DryRun\": %s", work->dry ? "true" : "false");
        if (work->dry)
            buf_addf(&line, ", \"Items\": %" PRIu64, count.items);
        buf_add_text(&line, "}\n");
    } else if (work->dry) {
        buf_addf(&line, "the table would be dropped, with %" PRIu64 " items\n", count.items);
    }
    return print_line(work, &line);
}

/* ---- the command ---- */

static const struct maintenance maintenances[] = {
    {"get-all", 0, run_get_all},           {"by-tag", 1, run_by_tag},
    {"capacity", 0, run_capacity},         {"delete-by-tag", 1, run_delete_by_tag},
    {"delete-until", 1, run_delete_until}, {"delete-by-capacity", 2, run_delete_by_capacity},
    {"delete-all", 0, run_delete_all},     {"drop", 0, run_drop},
};
#define MAINTENANCES (sizeof maintenances / sizeof maintenances[0])

static const struct maintenance *find_maintenance(const char *name)
{
    for (size_t i = 0; i < MAINTENANCES; i++)
        if (strcmp(maintenances[i].name, name) == 0)
            return &maintenances[i];
    return NULL;
}

struct only_table {
    char name[TABLE_NAME_MAX + 1];
    size_t count;
};

static int note_table(void *context, const struct table *table)
{
    struct only_table *only = context;

    snprintf(only->name, sizeof only->name, "%s", table->name);
    return ++only->count > 1;
}

/* The table NAME; NULL: the only one there is. */
static int open_table(struct work *work, const char *name)
{
    struct ctl *ctl = work->ctl;
    struct only_table only = {.count = 0};
    int r = name ? 0 : source_tables(ctl->source, note_table, &only, &ctl->err);

    if (r < 0)
        return r;
    if (!name && only.count != 1)
        return ctl_usage(ctl, "which table? %s has %s", ctl->source_name,
                         only.count ? "several" : "none");
    return source_table(ctl->source, span_text(name ? name : only.name), &work->subject.backend,
                        &work->subject.table, &ctl->err);
}

static int run_maintain(struct ctl *ctl)
{
    const struct arguments *arguments = ctl->arguments;
    const struct maintenance *maintenance = find_maintenance(arguments->rest[0]);
    bool replicas = false;
    int done = maintenance ? 0 : replicas_maintain(ctl, &replicas);

    if (replicas)
        return done;
    if (!maintenance)
        return ctl_usage(ctl, "there is no maintain %s", arguments->rest[0]);
    int values = arguments->rest_count - 1;
    if (values < maintenance->values || values > maintenance->values + 1)
        return ctl_usage(ctl, "maintain %s takes %d values and a table", maintenance->name,
                         maintenance->values);
    if (arguments_option(arguments, "--max-write", 0) ||
        arguments_option(arguments, "--backend", 0))
        return ctl_usage(ctl, "--max-write and --backend are about replicas");
    struct work work = {.ctl = ctl,
                        .values = arguments->rest + 1,
                        .dry = arguments_option(arguments, "--dry-run", 0) != NULL};
    bool named = values > maintenance->values;
    int r = ctl_open(ctl);

    if (r == 0)
        r = open_table(&work, named ? arguments->rest[1 + maintenance->values] : NULL);

    if (r == 0)
        r = maintenance->run(&work);
    subject_release(&work.subject);
    return r;
}

static const struct option_spec maintain_options[] = {
    {"--dry-run", 0, true}, {"--max-write", 1, false}, {"--backend", 1, false}, {NULL, 0, false}};

const struct command command_maintain = {
    .name = "maintain",
    .usage = "get-all|by-tag TAG|capacity|delete-by-tag TAG|delete-until SECONDS|\n"
             "           delete-by-capacity MIN MAX|delete-all|drop [TABLE] [--dry-run]\n"
             "       itemctl maintain health [--max-write MS]|plug-in DIR|plug-out DIR\n"
             "           [--backend NAME] [--dry-run]",
    .summary = "List, count or delete the items of a table by a rule; look after replicas",
    .options = maintain_options,
    .least = 1,
    .most = 4,
    .access = COMMAND_OPENS,
    .run = run_maintain,
};
