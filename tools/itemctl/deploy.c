/* SPDX-License-Identifier: MIT */
/*
 * deploy [FILE], seed TABLE FILE: tables made as they are declared, and filled with their seeds.
 *
 * Everything that can be wrong with the declarations, the seed files and the tables that are there
 * is found before anything is done. Then tables are made and changed, then functions are written
 * into mount.conf, and only when all of that has succeeded seeds are put. Each step that was done
 * is found done by the next deploy, so one that was interrupted is just given again.
 */
#include "tools/itemctl/deploy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/absent.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/output.h"
#include "tools/itemctl/settings.h"
#include "tools/itemctl/transfer.h"

#define STACK_FILE "stack.json"
#define STACK_BYTES_MAX (64u << 20)

static bool is_configuration(const char *file)
{
    size_t length = strlen(file);

    return length >= 5 && strcmp(file + length - 5, ".conf") == 0;
}

/* ---- the file, and the source ---- */

/* A mount.conf that declares is also the source. */
static const char *choose_source(const struct arguments *arguments)
{
    bool configured = arguments->rest_count > 0 && is_configuration(arguments->rest[0]);

    return configured && !arguments->source ? arguments->rest[0] : NULL;
}

static bool is_same_path(const char *a, const char *b)
{
    cleanup_free char *left = realpath(a, NULL), *right = realpath(b, NULL);

    return left && right && strcmp(left, right) == 0;
}

/* What FILE names beside itself is where FILE was named, also where that is a link. */
static int take_file(struct deploy *deploy, const char *file)
{
    const char *slash = strrchr(file, '/');

    deploy->file = file;
    deploy->prefix = strndup(file, slash ? (size_t)(slash + 1 - file) : 0);
    return deploy->prefix ? 0 : -ENOMEM;
}

static int choose_file(struct deploy *deploy)
{
    const struct ctl *ctl = deploy->ctl;
    const char *file = ctl->arguments->rest_count ? ctl->arguments->rest[0] : NULL;

    if (!file && access(STACK_FILE, F_OK) == 0)
        file = STACK_FILE;
    else if (!file)
        file = ctl->config->path;
    if (!file)
        return ctl_usage(deploy->ctl,
                         "deploy FILE: there is no " STACK_FILE " here, and %s is no mount.conf",
                         ctl->source_name);
    if (is_configuration(file) && !is_same_path(file, ctl->source_name))
        return ctl_usage(deploy->ctl, "%s declares tables of its own backends: leave -s %s out",
                         file, ctl->source_name);
    return take_file(deploy, file);
}

/* Opening a source makes absent stores, and changes its tables as mount.conf says: both are a part
 * of the plan here, and nothing is done until all of that is checked. */
static int prepare(struct ctl *ctl)
{
    settings_put_aside(ctl->config);
    return absent_stand_in(ctl);
}

/* ---- declarations ---- */

static struct plan *add_plan(struct deploy *deploy, const char *name)
{
    struct plan *more = reallocarray(deploy->plans, deploy->count + 1, sizeof *more);

    if (!more)
        return NULL;
    deploy->plans = more;
    more += deploy->count++;
    plan_init(more);
    more->subject.backend = source_backend_for(deploy->ctl->source, span_text(name));
    return more;
}

/* What [table NAME] says would be changed again by whoever opens the source next. */
static int check_settings(const struct deploy *deploy, const struct stack_table *entry,
                          struct err *err)
{
    const struct table_config *settings =
        config_table(deploy->config, span_text(entry->table->name));
    struct table *configured = settings ? table_copy(entry->table) : NULL;

    if (!settings)
        return 0;
    if (!configured || config_shape(deploy->config, configured) < 0) {
        table_free(configured);
        return -ENOMEM;
    }
    config_apply(deploy->config, configured);
    bool same = table_shape_equal(configured, entry->table) &&
                configured->keys == entry->table->keys &&
                text_equal(configured->ttl_attribute, entry->table->ttl_attribute) &&
                (configured->stream || !entry->table->stream);
    table_free(configured);
    return same ? 0
                : err_set(err, EINVAL,
                          "%s: [table %s] says otherwise of keys, indexes, ttl or stream than %s",
                          deploy->ctl->source_name, settings->name, deploy->file);
}

static int plan_stack_table(struct deploy *deploy, const struct stack_table *entry, struct err *err)
{
    const struct table_config *settings =
        config_table(deploy->config, span_text(entry->table->name));
    const struct stack_function *function =
        entry->function ? stack_function(deploy->stack, entry->function) : NULL;
    int r = check_settings(deploy, entry, err);
    struct plan *plan = r < 0 ? NULL : add_plan(deploy, entry->table->name);

    if (r == 0 && !plan)
        r = -ENOMEM;
    if (r < 0)
        return r;
    plan->subject.table = table_copy(entry->table);
    plan->says_ttl = plan->says_keys = true;
    plan->says_stream = entry->function || (settings && settings->has_stream);
    if (plan->subject.table && settings && settings->has_stream)
        plan->subject.table->stream = settings->stream;
    plan->function.name = entry->function;
    plan->function.url = function ? function->url : NULL;
    if (!plan->subject.table)
        return -ENOMEM;
    return seeds_find(deploy->prefix, entry->table->name, entry->seed, &plan->seeds.file, err);
}

static int plan_configured_table(struct deploy *deploy, const struct table_config *settings,
                                 struct err *err)
{
    struct plan *plan = add_plan(deploy, settings->name);

    if (!plan)
        return -ENOMEM;
    plan->subject.table = source_new_table(deploy->ctl->source, span_text(settings->name));
    if (!plan->subject.table)
        return -ENOMEM;
    config_apply(deploy->config, plan->subject.table);
    plan->settled = true;
    plan->by_profile = settings->profile;
    plan->says_ttl = settings->has_ttl;
    plan->says_keys = settings->has_keys;
    plan->says_stream = settings->has_stream;
    if (!settings->has_stream && settings->function.kind != FUNCTION_NONE)
        plan->says_stream = plan->subject.table->stream = true; /* or nothing is delivered */
    return seeds_find(deploy->prefix, settings->name, settings->seed, &plan->seeds.file, err);
}

static int read_stack(struct deploy *deploy, struct err *err)
{
    cleanup(buf_release) struct buf text;
    struct err reason = {""};
    int r;

    buf_init(&text, STACK_BYTES_MAX);
    r = document_read(deploy->file, &text, err);
    if (r < 0)
        return r == -ENOENT ? -EINVAL : r;
    r = stack_parse(buf_span(&text), &deploy->stack, &reason);
    if (r < 0)
        return err_set(err, -r, "%s: %s", deploy->file, err_text(&reason, r));
    for (size_t i = 0; r == 0 && i < deploy->stack->count; i++)
        r = plan_stack_table(deploy, &deploy->stack->tables[i], err);
    return r;
}

static int read_declarations(struct deploy *deploy, struct err *err)
{
    int r = 0;

    if (!is_configuration(deploy->file))
        return read_stack(deploy, err);
    for (size_t i = 0; r == 0 && i < deploy->config->table_count; i++)
        if (deploy->config->tables[i].key.name || deploy->config->tables[i].profile)
            r = plan_configured_table(deploy, &deploy->config->tables[i], err);
    return r;
}

/* ---- the plan ---- */

static int read_seeds(struct plan *plan, struct err *err)
{
    cleanup_free char *file = plan->seeds.file ? strdup(plan->seeds.file) : NULL;

    if (!plan->seeds.file)
        return 0;
    return file ? seeds_read(&plan->seeds, &plan->subject, file, err) : -ENOMEM;
}

/* Other keys need another table; an index is made beside the items. */
static bool costs_items(const struct plan *plan, const struct plan_difference *difference)
{
    return plan->has_items &&
           (strcmp(difference->what, "key") == 0 || strcmp(difference->what, "sort key") == 0);
}

/* All that is refused is in the output; the message has the first. */
static int refuse(struct deploy *deploy)
{
    for (size_t i = 0; i < deploy->count; i++) {
        const struct plan *plan = &deploy->plans[i];
        const struct plan_difference *difference = plan_refused(plan);
        if (difference)
            return ctl_fail(
                deploy->ctl, STATUS_CONDITION,
                "table %s differs from its declaration: %s is %s, declared %s. Nothing "
                "was done; --force makes it so%s",
                plan->subject.table->name, difference->what, difference->there,
                difference->declared,
                costs_items(plan, difference) ? ", without its items: export them before" : "");
    }
    return 0;
}

static int apply(struct deploy *deploy, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < deploy->count; i++)
        r = plan_apply(&deploy->plans[i], deploy->ctl->source, err);
    if (r == 0)
        r = deploy_edit_functions(deploy, err);
    for (size_t i = 0; r == 0 && i < deploy->count; i++)
        if (deploy->plans[i].seeds.file)
            r = seeds_put(&deploy->plans[i].seeds, &deploy->plans[i].subject, err);
    return transfer_status(r);
}

static bool is_refused(const struct deploy *deploy)
{
    for (size_t i = 0; i < deploy->count; i++)
        if (plan_refused(&deploy->plans[i]))
            return true;
    return false;
}

/* Makes the stores that others have stood in for. */
static int open_for_good(struct deploy *deploy)
{
    struct ctl *ctl = deploy->ctl;

    if (!absent_end(ctl, deploy->config))
        return 0;
    int r = ctl_open(ctl);
    for (size_t i = 0; r == 0 && i < deploy->count; i++) {
        struct subject *subject = &deploy->plans[i].subject;
        subject->backend = source_backend_for(ctl->source, span_text(subject->table->name));
    }
    return r;
}

static int run_plans(struct deploy *deploy)
{
    struct err *err = &deploy->ctl->err;
    int r = read_declarations(deploy, err);

    for (size_t i = 0; r == 0 && i < deploy->count; i++)
        r = plan_make(&deploy->plans[i], deploy->ctl->source, deploy->force, err);
    if (r == 0)
        r = deploy_find_functions(deploy, err);
    bool refused = r == 0 && is_refused(deploy);
    for (size_t i = 0; r == 0 && !refused && i < deploy->count; i++)
        r = read_seeds(&deploy->plans[i], err);
    if (r == 0 && !refused && !deploy->dry)
        r = open_for_good(deploy);
    if (r == 0 && !refused && !deploy->dry)
        r = apply(deploy, err);
    if (r == 0)
        r = deploy_print(deploy, err);
    if (r == 0 && refused)
        return refuse(deploy);
    if (r == 0)
        deploy_tell_functions(deploy);
    return r;
}

static void deploy_release(struct deploy *deploy)
{
    if (deploy->config)
        absent_end(deploy->ctl, deploy->config);
    for (size_t i = 0; i < deploy->count; i++)
        plan_release(&deploy->plans[i]);
    free(deploy->plans);
    stack_free(deploy->stack);
    config_free(deploy->config);
    free(deploy->prefix);
}

static int run_deploy(struct ctl *ctl)
{
    struct deploy deploy = {
        .ctl = ctl,
        .dry = arguments_option(ctl->arguments, "--dry-run", 0),
        .force = arguments_option(ctl->arguments, "--force", 0),
    };
    int r = config_from_source(ctl->source_name, &deploy.config, &ctl->err);

    if (r == 0)
        r = choose_file(&deploy);
    if (r == 0)
        r = run_plans(&deploy);
    deploy_release(&deploy);
    return r;
}

static const struct option_spec deploy_options[] = {
    {"--dry-run", 0, true}, {"--force", 0, true}, {NULL, 0, false}};

const struct command command_deploy = {
    .name = "deploy",
    .usage = "[stack.json|mount.conf] [--dry-run] [--force]",
    .summary = "Make the tables that a file declares, and put their seeds",
    .options = deploy_options,
    .least = 0,
    .most = 1,
    .access = COMMAND_CREATES,
    .source = choose_source,
    .prepare = prepare,
    .run = run_deploy,
};

/* ---- seed ---- */

static int print_seeds(const struct ctl *ctl, const struct subject *subject,
                       const struct seeds *seeds, struct err *err)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 65536);
    if (ctl->json) {
        buf_add_text(&text, "{\"TableName\": ");
        json_add_string(&text, span_text(subject->table->name));
        buf_addf(&text, ", \"ItemCount\": %llu, \"PutCount\": %llu}\n",
                 (unsigned long long)seeds->items, (unsigned long long)seeds->put);
    } else {
        buf_addf(&text, "%llu item%s, %llu put\n", (unsigned long long)seeds->items,
                 seeds->items == 1 ? "" : "s", (unsigned long long)seeds->put);
    }
    return buf_error(&text) ? buf_error(&text) : output_write(buf_span(&text), err);
}

static int run_seed(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    struct seeds seeds;
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    seeds_init(&seeds);
    r = seeds_read(&seeds, &subject, ctl->arguments->rest[1], &ctl->err);
    if (r == 0)
        r = transfer_status(seeds_put(&seeds, &subject, &ctl->err));
    if (r == 0)
        r = print_seeds(ctl, &subject, &seeds, &ctl->err);
    seeds_release(&seeds);
    return r;
}

const struct command command_seed = {
    .name = "seed",
    .usage = "TABLE FILE",
    .summary = "Put the items of a seed file, those that are not there just so",
    .least = 2,
    .most = 2,
    .access = COMMAND_WRITES,
    .run = run_seed,
};
