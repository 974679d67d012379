/* SPDX-License-Identifier: MIT */
/* itemctl: tables and items from a command line. The manual is man/itemctl.1. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tools/itemctl/apart.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

static const struct command *const commands[] = {
    &command_tables,   &command_describe,
    &command_create,   &command_drop,
    &command_put,      &command_get,
    &command_delete,   &command_query,
    &command_scan,     &command_ttl,
    &command_incr,     &command_decr,
    &command_append,   &command_export,
    &command_import,   &command_changes,
    &command_drafts,   &command_status,
    &command_estimate, &command_maintain,
    &command_verify,   &command_akka,
    &command_deploy,   &command_seed,
    &command_doctor,   NULL,
};

__attribute__((format(printf, 2, 0))) static void set_sentence(struct ctl *ctl, const char *format,
                                                               va_list values)
{
    char text[ERR_TEXT_MAX];

    vsnprintf(text, sizeof text, format, values);
    err_set(&ctl->err, EINVAL, "%s", text);
}

int ctl_usage(struct ctl *ctl, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    set_sentence(ctl, format, values);
    va_end(values);
    return (int)STATUS_USAGE;
}

int ctl_fail(struct ctl *ctl, enum exit_status status, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    set_sentence(ctl, format, values);
    va_end(values);
    return (int)status;
}

static int tell_forbidden(void *context, const char *table, const char *why)
{
    (void)context;
    (void)table; /* named in WHY */
    fprintf(stderr, "itemctl: left out: %s\n", why);
    return 0;
}

void ctl_tell_forbidden(const struct ctl *ctl)
{
    source_forbidden(ctl->source, tell_forbidden, NULL);
}

int subject_open(struct ctl *ctl, struct subject *ret_subject)
{
    int r = source_table(ctl->source, span_text(ctl->arguments->rest[0]), &ret_subject->backend,
                         &ret_subject->table, &ctl->err);

    if (r == 0 && ctl->arguments->inspects)
        ret_subject->table->types = NAMES_KERNSTACK;
    return r;
}

void subject_release(struct subject *subject)
{
    table_free(subject->table);
}

static enum exit_status status_of(int r)
{
    switch (r) {
    case -ENOENT: return STATUS_ABSENT;
    case -EEXIST:
    case -ESTALE:
    case -ENOTEMPTY: return STATUS_CONDITION;
    case -EBUSY: return STATUS_LOCKED;
    default: return r < 0 ? STATUS_FAILED : (enum exit_status)r;
    }
}

static void print_usage(FILE *file, const struct command *command)
{
    fprintf(file, "usage: itemctl [-s SOURCE] [--json] %s%s%s\n", command->name,
            *command->usage ? " " : "", command->usage);
}

static void print_help(const struct command *command)
{
    if (command) {
        print_usage(stdout, command);
        printf("\n%s.\n", command->summary);
        return;
    }
    puts("usage: itemctl [-s SOURCE] [--json] COMMAND ...\n\n"
         "SOURCE is a mount.conf, a store's file, a folder of JSON files, or\n"
         "dynamodb:REGION[/TABLE]; else $ITEMFS_SOURCE, ./mount.conf or\n"
         "/etc/itemfs/mount.conf. Output is for people on a terminal, else JSON.\n");
    for (size_t i = 0; commands[i]; i++)
        printf("  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    puts("\nitemctl COMMAND --help shows its arguments; itemctl(1) has the rest.");
}

/* The first source that is there. */
static const char *find_source(const struct arguments *arguments)
{
    const char *implied = arguments->command->source ? arguments->command->source(arguments) : NULL;
    static const char *const places[] = {"mount.conf", "/etc/itemfs/mount.conf"};
    const char *named = getenv("ITEMFS_SOURCE");

    if (arguments->source || implied)
        return arguments->source ? arguments->source : implied;
    if (named && *named)
        return named;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (access(places[i], F_OK) == 0)
            return places[i];
    return NULL;
}

/* The store that keeps a command from writing; NULL: none, the reason is another one. */
static const char *read_only_store(const struct config *config)
{
    for (size_t i = 0; i < config->backend_count; i++) {
        const char *path = config->backends[i].path;

        if (path && access(path, R_OK) == 0 && access(path, W_OK) < 0)
            return path;
    }
    return NULL;
}

/* A source that cannot be opened is a failure whatever the reason: "nothing there" is for tables
 * and items only, so that a script never takes a missing store for a missing item. */
static int read_source(struct ctl *ctl)
{
    ctl->source_name = find_source(ctl->arguments);
    if (!ctl->source_name)
        return ctl_usage(ctl, "no source: use -s SOURCE or $ITEMFS_SOURCE; there is no mount.conf "
                              "here and no /etc/itemfs/mount.conf");
    if (config_from_source(ctl->source_name, &ctl->config, &ctl->err) < 0)
        return STATUS_FAILED;
    ctl->config->read_only = false; /* it is about mounts */
    return 0;
}

int ctl_open(struct ctl *ctl)
{
    bool create = ctl->command->access == COMMAND_CREATES || ctl->stands_in;
    bool reads = ctl->command->access == COMMAND_READS || ctl->command->access == COMMAND_OPENS;
    const char *read_only = NULL;
    int r = source_open(ctl->config, create, &ctl->source, &ctl->err);

    if ((r == -EACCES || r == -EROFS) && reads) {
        err_clear(&ctl->err);
        ctl->config->read_only = true;
        r = source_open(ctl->config, false, &ctl->source, &ctl->err);
    } else if (r == -EACCES || r == -EROFS) {
        read_only = read_only_store(ctl->config);
    }
    if (read_only) {
        err_clear(&ctl->err); /* the store's advice is for mounts */
        return ctl_fail(ctl, STATUS_FAILED, "%s can only be read", read_only);
    }
    return r < 0 ? ctl_fail(ctl, STATUS_FAILED, "%s", err_text(&ctl->err, r)) : 0;
}

/* Folders may lie on disks that do not answer. */
static bool has_folders(const struct config *config)
{
    for (size_t i = 0; i < config->backend_count; i++)
        if (config->backends[i].type == BACKEND_TYPE_FOLDER)
            return true;
    return false;
}

static int run(struct ctl *ctl)
{
    int r = read_source(ctl);

    if (r == 0 && has_folders(ctl->config))
        apart_begin();
    if (r == 0 && ctl->command->prepare)
        r = ctl->command->prepare(ctl);
    if (r == 0 && ctl->command->access != COMMAND_OPENS)
        r = ctl_open(ctl);
    if (r == 0)
        r = ctl->command->run(ctl);
    source_close(ctl->source);
    config_free(ctl->config);
    if (r == 0)
        r = output_finish(&ctl->err);
    if (r < 0)
        err_set(&ctl->err, -r, "%s", strerror(-r));
    return r;
}

static enum exit_status report(const struct ctl *ctl, const struct command *command, int r)
{
    if (r == 0)
        return STATUS_DONE;
    output_discard();
    fprintf(stderr, "itemctl: %s\n", ctl->err.text);
    if (r == STATUS_USAGE && command)
        print_usage(stderr, command);
    else if (r == STATUS_USAGE)
        fputs("usage: itemctl [-s SOURCE] [--json] COMMAND ..., see itemctl --help\n", stderr);
    return status_of(r);
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct ctl ctl = {.arguments = &arguments};
    log_open("itemctl", stderr, LOG_LEVEL_WARNING);
    int r = arguments_parse(argc, argv, commands, &arguments, &ctl.err);

    ctl.command = arguments.command;
    ctl.json = arguments.json || !isatty(STDOUT_FILENO);
    if (r < 0) {
        r = STATUS_USAGE;
    } else if (arguments.help) {
        print_help(arguments.command);
        r = output_finish(&ctl.err);
    } else if (arguments.version) {
        puts("itemctl " ITEMFS_VERSION);
        r = output_finish(&ctl.err);
    } else {
        r = run(&ctl);
    }
    r = (int)report(&ctl, arguments.command, r);
    arguments_release(&arguments);
    apart_end(r);
    return r;
}
