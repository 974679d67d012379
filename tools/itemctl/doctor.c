/* SPDX-License-Identifier: MIT */
/*
 * doctor: looks at a source, and says what it found. It changes no table and no item: settings of
 * mount.conf are not made while it looks, and whether something may be written is tried by deleting
 * an item that is not there, under the condition that it is.
 */
#include "tools/itemctl/doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "tools/itemctl/absent.h"
#include "tools/itemctl/settings.h"
#include "tools/itemctl/table_list.h"

/* ---- what is found ---- */

__attribute__((format(printf, 1, 0))) static char *make_text(const char *format, va_list values)
{
    char *text = NULL;

    return vasprintf(&text, format, values) < 0 ? NULL : text;
}

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *about,
                const char *format, ...)
{
    struct doctor_finding *more =
        reallocarray(doctor->findings, doctor->finding_count + 1, sizeof *more);
    va_list values;

    if (!more) {
        doctor->no_memory = true;
        return;
    }
    doctor->findings = more;
    more += doctor->finding_count++;
    va_start(values, format);
    *more = (struct doctor_finding){level, strdup(about), make_text(format, values)};
    va_end(values);
    doctor->no_memory = doctor->no_memory || !more->about || !more->text;
}

void doctor_propose(struct doctor *doctor, const char *kind, const char *name, const char *line,
                    const char *why)
{
    struct doctor_line *more = reallocarray(doctor->lines, doctor->line_count + 1, sizeof *more);

    if (!more) {
        doctor->no_memory = true;
        return;
    }
    doctor->lines = more;
    more += doctor->line_count++;
    *more = (struct doctor_line){.line = strdup(line), .why = strdup(why)};
    if (asprintf(&more->section, "[%s %s]", kind, name) < 0)
        more->section = NULL;
    doctor->no_memory = doctor->no_memory || !more->section || !more->line || !more->why;
}

size_t doctor_problems(const struct doctor *doctor)
{
    size_t count = 0;

    for (size_t i = 0; i < doctor->finding_count; i++)
        count += doctor->findings[i].level == DOCTOR_PROBLEM;
    return count;
}

static void doctor_release(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->finding_count; i++) {
        free(doctor->findings[i].about);
        free(doctor->findings[i].text);
    }
    for (size_t i = 0; i < doctor->line_count; i++) {
        free(doctor->lines[i].section);
        free(doctor->lines[i].line);
        free(doctor->lines[i].why);
    }
    free(doctor->findings);
    free(doctor->lines);
    config_free(doctor->config);
}

/* ---- the source ---- */

static void look_at_one(struct doctor *doctor, const char *name)
{
    struct backend *backend;
    struct table *table;
    char about[TABLE_NAME_MAX + 8];
    struct err reason = {""};
    int r = source_table(doctor->ctl->source, span_text(name), &backend, &table, &reason);

    snprintf(about, sizeof about, "table %s", name);
    if (r < 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, about, "%s.", err_text(&reason, r));
        return;
    }
    doctor_look_at_table(doctor, backend, table);
    table_free(table);
}

static int tell_forbidden(void *context, const char *table, const char *why)
{
    char about[TABLE_NAME_MAX + 8];

    snprintf(about, sizeof about, "table %s", table);
    doctor_say(context, DOCTOR_PROBLEM, about, "A right is missing: %s.", why);
    return 0;
}

static void look_at_tables(struct doctor *doctor)
{
    struct source *source = doctor->ctl->source;
    cleanup(table_list_release) struct table_list names = {NULL, 0};
    struct err reason = {""};
    int r = source_tables(source, table_list_add, &names, &reason);

    if (r < 0)
        doctor_say(doctor, DOCTOR_PROBLEM, "tables", "They cannot be listed: %s.%s",
                   err_text(&reason, r),
                   r == -EACCES ? " Tables that are named (tables = NAME, NAME in the backend's "
                                  "section) need no list."
                                : "");
    source_forbidden(source, tell_forbidden, doctor);
    if (r == 0 && names.count == 0)
        doctor_say(doctor, DOCTOR_NOTE, "tables",
                   "There are none yet: mkdir in a mount makes one, "
                   "and so do itemctl create and deploy.");
    for (size_t i = 0; r == 0 && i < names.count; i++)
        look_at_one(doctor, names.tables[i]->name);
}

static void look_at_state(struct doctor *doctor)
{
    const struct config *config = doctor->ctl->config;
    bool wanted = false;
    struct err reason = {""};

    for (size_t i = 0; i < config->backend_count; i++)
        wanted = wanted || config->backends[i].type != BACKEND_TYPE_SQLITE;
    if (!wanted || access(config->state_dir, W_OK | X_OK) == 0)
        return;
    err_set(&reason, errno, "%s", strerror(errno));
    doctor_say(
        doctor, DOCTOR_PROBLEM, "state_dir",
        "%s cannot be written: %s. Drafts, times and what belongs to no item are kept there; "
        "state_dir in [mount] names another place.",
        config->state_dir, reason.text);
}

static void look_at_clocks(struct doctor *doctor)
{
    const struct ctl *ctl = doctor->ctl;

    for (size_t i = 0; i < ctl->source->count; i++) {
        const char *name = ctl->config->backends[i].name;
        int64_t seconds;
        if (!backend_skew(ctl->source->backends[i], &seconds))
            continue;
        if (llabs(seconds) < DOCTOR_SKEW_S)
            doctor_say(doctor, DOCTOR_FINE, name, "Its clock and this machine's agree.");
        else
            doctor_say(doctor, DOCTOR_PROBLEM, name,
                       "This machine's clock is %lld seconds %s that of the service: items expire "
                       "here so much too %s, and from 300 seconds on requests have to be signed "
                       "again.",
                       llabs(seconds), seconds > 0 ? "behind" : "ahead of",
                       seconds > 0 ? "late" : "early");
    }
}

static void look(struct doctor *doctor)
{
    struct ctl *ctl = doctor->ctl;
    int r = ctl_open(ctl);

    if (r) {
        doctor_say(doctor, DOCTOR_PROBLEM, "source", "It cannot be opened: %s.", ctl->err.text);
        err_clear(&ctl->err);
        look_at_state(doctor);
        for (size_t i = 0; i < ctl->config->backend_count; i++)
            doctor_look_at_replicas(doctor, i);
        return;
    }
    for (size_t i = 0; i < ctl->source->count; i++)
        doctor_look_at_backend(doctor, i);
    look_at_state(doctor);
    look_at_tables(doctor);
    for (size_t i = 0; i < ctl->source->count; i++)
        doctor_look_at_folders(doctor, i);
    doctor_look_at_sections(doctor);
    if (doctor->line_count && !doctor->config->path)
        for (size_t i = 0; i < doctor->config->backend_count; i++)
            doctor_propose_backend(doctor, &doctor->config->backends[i]);
    look_at_clocks(doctor); /* last: requests were answered by now */
}

static int run_doctor(struct ctl *ctl)
{
    cleanup(doctor_release) struct doctor doctor = {.ctl = ctl};
    int r = config_from_source(ctl->source_name, &doctor.config, &ctl->err);

    if (r < 0)
        return r == -ENOENT ? STATUS_FAILED : r;
    settings_put_aside(ctl->config);
    r = absent_stand_in(ctl);
    if (r == 0)
        look(&doctor);
    absent_end(ctl, doctor.config);
    if (r < 0)
        return r;
    if (doctor.no_memory)
        return err_set(&ctl->err, ENOMEM, "no memory");
    r = doctor_print(&doctor, &ctl->err);
    size_t problems = doctor_problems(&doctor);
    if (r == 0 && problems)
        return ctl_fail(ctl, STATUS_FAILED,
                        problems == 1 ? "one thing is wrong" : "%zu things are wrong", problems);
    return r;
}

const struct command command_doctor = {
    .name = "doctor",
    .usage = "",
    .summary = "Look at the source, and say what is wrong and what mount.conf might say",
    .access = COMMAND_OPENS,
    .run = run_doctor,
};
