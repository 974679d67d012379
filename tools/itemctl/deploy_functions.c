/* SPDX-License-Identifier: MIT */
/* Where a function that a stack names is called: mount.conf has to say it, since mounts deliver. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/rewrite.h"
#include "base/cleanup.h"
#include "tools/itemctl/deploy.h"
#include "tools/itemctl/transfer.h"

#define CONFIG_BYTES_MAX (16u << 20)

/* A function of a stack reads the types that Kernstack has, unless mount.conf says otherwise. */
static int find_function(struct deploy *deploy, struct plan *plan)
{
    const char *name = plan->subject.table->name;
    const struct table_config *settings = config_table(deploy->config, span_text(name));
    const struct function *configured =
        settings && settings->function.kind != FUNCTION_NONE ? &settings->function : NULL;
    const struct stack_function *declared =
        plan->function.url ? stack_function(deploy->stack, plan->function.name) : NULL;
    bool other = declared && !(configured && function_equal(configured, &declared->function));
    int r = 0;

    plan->function.call = configured;
    if (!declared || !deploy->ctl->config->path)
        return 0;
    plan->function.call = &declared->function;
    plan->function.edit = other || !(settings && settings->has_types);
    if (other)
        r = plan_add_difference(plan, "function", declared->function.shown,
                                configured ? configured->shown : "none", REMEDY_CHANGE);
    if (r == 0 && !(settings && settings->has_types))
        r = plan_add_difference(plan, "types", "kernstack", "dynamodb", REMEDY_CHANGE);
    return r;
}

int deploy_find_functions(struct deploy *deploy, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < deploy->count; i++)
        r = find_function(deploy, &deploy->plans[i]);
    return r < 0 ? err_set(err, -r, "no memory") : 0;
}

static int edit(const struct deploy *deploy, const char *path, struct buf *text, struct err *err)
{
    for (size_t i = 0; i < deploy->count; i++) {
        const struct plan *plan = &deploy->plans[i];
        struct buf edited;
        if (!plan->function.edit)
            continue;
        buf_init(&edited, CONFIG_BYTES_MAX);
        int r = config_edit_function(buf_span(text), path, plan->subject.table->name,
                                     plan->function.url, &edited, err);
        if (r < 0) {
            buf_release(&edited);
            return r;
        }
        buf_release(text);
        *text = edited;
    }
    return 0;
}

int deploy_edit_functions(struct deploy *deploy, struct err *err)
{
    const char *path = deploy->ctl->config->path;
    cleanup_free char *real = path ? realpath(path, NULL) : NULL;
    cleanup(buf_release) struct buf text;
    struct stat found;
    bool any = false;

    buf_init(&text, CONFIG_BYTES_MAX);
    for (size_t i = 0; i < deploy->count; i++)
        any = any || deploy->plans[i].function.edit;
    if (!any)
        return 0;
    if (!real)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    int r = rewrite_read(real, &text, &found, err);
    if (r == 0)
        r = edit(deploy, path, &text, err);
    if (r == 0)
        r = rewrite_replace(real, &found, buf_span(&text), err);
    deploy->edited = r == 0;
    return r;
}

void deploy_tell_functions(const struct deploy *deploy)
{
    if (deploy->edited)
        transfer_note("%s: functions were written into it; mounts deliver to them from their next "
                      "start on",
                      deploy->ctl->config->path);
    for (size_t i = 0; i < deploy->count; i++) {
        const struct plan *plan = &deploy->plans[i];
        const char *table = plan->subject.table->name;
        if (!plan->function.name || plan->function.call)
            continue;
        if (plan->function.url)
            transfer_note("table %s: its changes are recorded, and delivered to %s by a mount of a "
                          "mount.conf that says \"function = \" and its url in [table %s]; %s is "
                          "none",
                          table, plan->function.name, table, deploy->ctl->source_name);
        else
            transfer_note("table %s: its changes are recorded, and delivered to nobody: where %s "
                          "is called is said neither by \"url\" in resources.functions nor by "
                          "\"function =\" in [table %s] of a mount.conf",
                          table, plan->function.name, table);
    }
}
