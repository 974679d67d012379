/* SPDX-License-Identifier: MIT */
/* maintain: how the replicas of folders are, and which there are. */
#include "tools/itemctl/replicas.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "backend/replicas.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/number.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/output.h"
#include "tools/itemctl/progress.h"

#define DOCUMENT_MAX (1u << 20)

/* ---- health ---- */

struct health_report {
    struct ctl *ctl;
    const struct backend_config *backend;
    struct grid grid;
    struct buf document;
    size_t replicas, bad;
};

static int add_health(void *context, const struct replica_health *health)
{
    struct health_report *report = context;
    double took_ms = (double)health->took_ns / 1e6;

    report->bad += health->health != HEALTH_ONLINE;
    if (report->ctl->json) {
        buf_add_text(&report->document, report->replicas ? ", " : "");
        buf_add_text(&report->document, "{\"Backend\": ");
        json_add_string(&report->document, span_text(report->backend->name));
        buf_add_text(&report->document, ", \"Path\": ");
        json_add_string(&report->document, span_text(health->path));
        buf_addf(&report->document, ", \"Health\": \"%s\"", health_name(health->health));
        if (health->took_ns)
            buf_addf(&report->document, ", \"Milliseconds\": %.3f", took_ms);
        if (health->reason[0]) {
            buf_add_text(&report->document, ", \"Reason\": ");
            json_add_string(&report->document, span_text(health->reason));
        }
        buf_add_char(&report->document, '}');
    } else {
        grid_add(&report->grid, span_text(health->path));
        grid_add(&report->grid, span_text(health_name(health->health)));
        if (health->took_ns)
            grid_addf(&report->grid, "%.3f", took_ms);
        else
            grid_add(&report->grid, span_text("-"));
        grid_add(&report->grid, span_text(health->reason));
    }
    report->replicas++;
    return buf_error(&report->document);
}

/* Milliseconds, as they may be written on a command line; 0: there is no limit. */
static int take_limit(struct ctl *ctl, int64_t *ret_most_ns)
{
    const char *text = arguments_value(ctl->arguments, "--max-write");
    char *end = NULL;

    *ret_most_ns = 0;
    if (!text)
        return 0;
    double ms = number_is_json(span_text(text)) ? strtod(text, &end) : 0;
    if (!(ms > 0) || ms > 1e9)
        return ctl_usage(ctl, "--max-write is a number of milliseconds, not \"%s\"", text);
    *ret_most_ns = (int64_t)(ms * 1e6);
    *ret_most_ns += *ret_most_ns == 0; /* less than a nanosecond is a limit, too */
    return 0;
}

static bool is_wanted(const struct ctl *ctl, const struct backend_config *backend)
{
    const char *name = arguments_value(ctl->arguments, "--backend");

    return backend->type == BACKEND_TYPE_FOLDER && (!name || strcmp(name, backend->name) == 0);
}

static int no_replicas(struct ctl *ctl)
{
    const char *name = arguments_value(ctl->arguments, "--backend");

    return ctl_fail(ctl, STATUS_FAILED, "%s%s%s has no replicas: %s", ctl->source_name,
                    name ? ": backend " : "", name ? name : "", "they are folders of files");
}

static int print_health(struct health_report *report)
{
    struct err *err = &report->ctl->err;

    if (!report->ctl->json)
        return grid_print(&report->grid, err);
    buf_add_text(&report->document, "]}\n");
    if (buf_error(&report->document))
        return err_set(err, ENOMEM, "no memory");
    return output_write(buf_span(&report->document), err);
}

static int report_health(struct health_report *report, int64_t most_ns)
{
    struct ctl *ctl = report->ctl;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ctl->config->backend_count; i++) {
        report->backend = &ctl->config->backends[i];
        if (is_wanted(ctl, report->backend))
            r = source_health(ctl->config, report->backend, most_ns, add_health, report, &ctl->err);
    }
    if (r == 0 && report->replicas == 0)
        return no_replicas(ctl);
    if (r == 0)
        r = print_health(report);
    if (r == 0 && report->bad)
        r = ctl_fail(ctl, STATUS_FAILED, "%zu of %zu replicas are not online", report->bad,
                     report->replicas);
    return r;
}

static int run_health(struct ctl *ctl, const char *const *values, bool dry)
{
    static const char *const heads[] = {"Replica", "Health", "ms", "Reason"};
    struct health_report report = {.ctl = ctl};
    int64_t most_ns;
    int r = take_limit(ctl, &most_ns);

    (void)values;
    if (r != 0)
        return r;
    if (dry)
        return ctl_usage(ctl, "health changes nothing, and has no --dry-run");
    grid_init(&report.grid, heads, 4);
    buf_init(&report.document, DOCUMENT_MAX);
    buf_add_text(&report.document, "{\"Replicas\": [");
    r = report_health(&report, most_ns);
    grid_release(&report.grid);
    buf_release(&report.document);
    return r;
}

/* ---- one more, one less ---- */

static void show_progress(void *context, const struct plug_counts *counts)
{
    struct progress *progress = context;

    progress_show(progress, counts->files, counts->files, counts->total);
}

/* The backend that is meant: the one that is named, or the only one of folders. */
static int find_backend(struct ctl *ctl, struct backend **ret_backend)
{
    size_t found = 0;

    for (size_t i = 0; i < ctl->config->backend_count; i++)
        if (is_wanted(ctl, &ctl->config->backends[i])) {
            *ret_backend = ctl->source->backends[i];
            found++;
        }
    if (found == 0)
        return no_replicas(ctl);
    return found == 1 ? 0 : ctl_usage(ctl, "which backend? --backend NAME says it");
}

static int print_plug(struct ctl *ctl, const char *path, const char *verb, bool dry,
                      const struct plug_counts *counts)
{
    cleanup(buf_release) struct buf line;

    buf_init(&line, DOCUMENT_MAX);
    if (ctl->json) {
        buf_add_text(&line, "{\"Path\": ");
        json_add_string(&line, span_text(path));
        buf_addf(&line,
                 ", \"DryRun\": %s, \"Items\": %" PRIu64 ", \"Files\": %" PRIu64
                 ", \"Left\": %" PRIu64 "}\n",
                 dry ? "true" : "false", counts->total, counts->files, counts->left);
    } else if (dry) {
        buf_addf(&line, "%" PRIu64 " files would be %s\n", counts->total, verb);
    } else {
        buf_addf(&line, "%" PRIu64 " files %s\n", counts->files, verb);
        if (counts->left)
            buf_addf(&line, "%" PRIu64 " are no items, and are left\n", counts->left);
    }
    if (buf_error(&line))
        return err_set(&ctl->err, ENOMEM, "no memory");
    return output_write(buf_span(&line), &ctl->err);
}

static int plug(struct ctl *ctl, const char *path, bool dry, bool out)
{
    const char *verb = out ? "deleted" : "copied";
    struct progress progress;
    const struct plug_options options = {dry, show_progress, &progress};
    struct backend *backend = NULL;
    struct plug_counts counts;
    int r = ctl_open(ctl);

    if (r == 0)
        r = find_backend(ctl, &backend);
    if (r != 0)
        return r;
    if (arguments_option(ctl->arguments, "--max-write", 0))
        return ctl_usage(ctl, "--max-write is about health");
    progress_begin(&progress, verb);
    r = out ? backend_plug_out(backend, path, &options, &counts, &ctl->err)
            : backend_plug_in(backend, path, &options, &counts, &ctl->err);
    progress_end(&progress);
    return r ? r : print_plug(ctl, path, verb, dry, &counts);
}

static int run_plug_in(struct ctl *ctl, const char *const *values, bool dry)
{
    return plug(ctl, values[0], dry, false);
}

static int run_plug_out(struct ctl *ctl, const char *const *values, bool dry)
{
    return plug(ctl, values[0], dry, true);
}

/* ---- the command ---- */

static const struct {
    const char *name;
    int values;
    int (*run)(struct ctl *ctl, const char *const *values, bool dry);
} maintenances[] = {
    {"health", 0, run_health},
    {"plug-in", 1, run_plug_in},
    {"plug-out", 1, run_plug_out},
};
#define MAINTENANCES (sizeof maintenances / sizeof maintenances[0])

int replicas_maintain(struct ctl *ctl, bool *ret_is_one)
{
    const struct arguments *arguments = ctl->arguments;
    bool dry = arguments_option(arguments, "--dry-run", 0) != NULL;
    size_t i = 0;

    while (i < MAINTENANCES && strcmp(maintenances[i].name, arguments->rest[0]) != 0)
        i++;
    *ret_is_one = i < MAINTENANCES;
    if (i == MAINTENANCES)
        return 0;
    if (arguments->rest_count - 1 != maintenances[i].values)
        return ctl_usage(ctl, "maintain %s takes %s", maintenances[i].name,
                         maintenances[i].values ? "one folder" : "no values");
    return maintenances[i].run(ctl, arguments->rest + 1, dry);
}
