/* SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "tools/itemctl/deploy.h"
#include "tools/itemctl/output.h"

#define DOCUMENT_MAX (64u << 20)

static const char *const action_words[] = {[PLAN_NONE] = "none",
                                           [PLAN_MAKE] = "make",
                                           [PLAN_CHANGE] = "change",
                                           [PLAN_REPLACE] = "replace"};
static const char *const remedy_words[] = {[REMEDY_CHANGE] = "change",
                                           [REMEDY_INDEX] = "change",
                                           [REMEDY_REPLACE] = "replace",
                                           [REMEDY_LEAVE] = "leave",
                                           [REMEDY_REFUSE] = "refuse"};

/* A function in mount.conf is a change, too, though not of the table. */
static enum plan_action action_of(const struct plan *plan)
{
    return plan->action == PLAN_NONE && plan->function.edit ? PLAN_CHANGE : plan->action;
}

static const char *action_word(const struct plan *plan)
{
    return plan_refused(plan) ? "refuse" : action_words[action_of(plan)];
}

static void add_member(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, "\"%s\": ", name);
    if (text)
        json_add_string(out, span_text(text));
    else
        buf_add_text(out, "null");
}

static void add_differences(struct buf *out, const struct plan *plan)
{
    buf_add_text(out, ", \"Differences\": [");
    for (size_t i = 0; i < plan->difference_count; i++) {
        const struct plan_difference *difference = &plan->differences[i];
        buf_add_text(out, i ? ", {" : "{");
        add_member(out, "Setting", difference->what);
        buf_add_text(out, ", ");
        add_member(out, "Declared", difference->declared);
        buf_add_text(out, ", ");
        add_member(out, "Table", difference->there);
        buf_add_text(out, ", ");
        add_member(out, "Action", remedy_words[difference->remedy]);
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
}

static void add_plan(struct buf *out, const struct plan *plan)
{
    buf_add_char(out, '{');
    add_member(out, "TableName", plan->subject.table->name);
    buf_add_text(out, ", ");
    add_member(out, "Action", action_word(plan));
    add_differences(out, plan);
    if (plan->function.name) {
        buf_add_text(out, ", \"Function\": {");
        add_member(out, "Name", plan->function.name);
        buf_add_text(out, ", ");
        add_member(out, "Call", plan->function.call ? plan->function.call->shown : NULL);
        buf_add_char(out, '}');
    }
    if (plan->seeds.file && !plan_refused(plan)) {
        buf_add_text(out, ", \"Seed\": {");
        add_member(out, "File", plan->seeds.file);
        buf_addf(out, ", \"ItemCount\": %" PRIu64 ", \"PutCount\": %" PRIu64 "}", plan->seeds.items,
                 plan->seeds.put);
    }
    buf_add_char(out, '}');
}

static int print_json(const struct deploy *deploy, struct err *err)
{
    cleanup(buf_release) struct buf out;

    buf_init(&out, DOCUMENT_MAX);
    buf_add_char(&out, '{');
    add_member(&out, "File", deploy->file);
    buf_addf(&out, ", \"DryRun\": %s, \"Tables\": [", deploy->dry ? "true" : "false");
    for (size_t i = 0; i < deploy->count; i++) {
        buf_add_text(&out, i ? ", " : "");
        add_plan(&out, &deploy->plans[i]);
    }
    buf_add_text(&out, "]}\n");
    return buf_error(&out) ? buf_error(&out) : output_write(buf_span(&out), err);
}

/* ---- for people ---- */

/* What is, or in a dry run would be, done with a table. */
static const char *done_word(const struct deploy *deploy, const struct plan *plan)
{
    static const char *const done[] = {"as declared", "made", "changed", "dropped and made anew"};
    static const char *const planned[] = {"as declared", "to be made", "to be changed",
                                          "to be dropped and made anew"};

    if (plan_refused(plan))
        return "refused";
    return deploy->dry ? planned[action_of(plan)] : done[action_of(plan)];
}

static void add_difference_row(struct grid *grid, const struct plan *plan,
                               const struct plan_difference *difference)
{
    static const char *const said[] = {[REMEDY_CHANGE] = "",
                                       [REMEDY_INDEX] = "",
                                       [REMEDY_REPLACE] = ": needs the table made anew",
                                       [REMEDY_LEAVE] = ": left so, but with --force",
                                       [REMEDY_REFUSE] = ": with --force only"};

    grid_addf(grid, "  %s", plan->subject.table->name);
    grid_addf(grid, "%s: declared %s, is %s%s", difference->what, difference->declared,
              difference->there, said[difference->remedy]);
}

static void add_rows(struct grid *grid, const struct deploy *deploy, const struct plan *plan)
{
    const struct seeds *seeds = &plan->seeds;

    grid_addf(grid, "%s", plan->subject.table->name);
    grid_addf(grid, "%s", done_word(deploy, plan));
    for (size_t i = 0; i < plan->difference_count; i++)
        add_difference_row(grid, plan, &plan->differences[i]);
    if (plan->function.name) {
        grid_addf(grid, "  %s", plan->subject.table->name);
        grid_addf(grid, "changes go to %s: %s", plan->function.name,
                  plan->function.call  ? plan->function.call->shown
                  : plan->function.url ? "not yet, no mount.conf says so"
                                       : "not told where");
    }
    if (!seeds->file || plan_refused(plan))
        return;
    grid_addf(grid, "  %s", plan->subject.table->name);
    if (deploy->dry)
        grid_addf(grid, "%" PRIu64 " item%s in %s", seeds->items, seeds->items == 1 ? "" : "s",
                  seeds->file);
    else
        grid_addf(grid, "%" PRIu64 " item%s in %s, %" PRIu64 " put", seeds->items,
                  seeds->items == 1 ? "" : "s", seeds->file, seeds->put);
}

int deploy_print(const struct deploy *deploy, struct err *err)
{
    cleanup(grid_release) struct grid grid;

    grid_init(&grid, NULL, 2);
    if (deploy->ctl->json)
        return print_json(deploy, err);
    if (deploy->count == 0) {
        grid_addf(&grid, "%s", deploy->file);
        grid_addf(&grid, "declares no tables");
    }
    for (size_t i = 0; i < deploy->count; i++)
        add_rows(&grid, deploy, &deploy->plans[i]);
    return grid_print(&grid, err);
}
