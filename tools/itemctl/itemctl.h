/* SPDX-License-Identifier: MIT */
/*
 * What the parts of itemctl share. A command returns 0, a negative errno with its sentence in
 * `ctl->err`, or one of the exit statuses below, again with the sentence where it is no success;
 * main turns errnos into exit statuses: -ENOENT is "nothing there", -EEXIST, -ESTALE and
 * -ENOTEMPTY are "condition not met", -EBUSY is "locked", all others are "failed".
 */
#ifndef ITEMCTL_ITEMCTL_H
#define ITEMCTL_ITEMCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/source.h"
#include "base/config.h"
#include "base/err.h"

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_ABSENT = 3,
    STATUS_CONDITION = 4,
    STATUS_LOCKED = 5,
};

enum command_access {
    COMMAND_READS,
    COMMAND_WRITES,
    COMMAND_CREATES, /* also the store */
    COMMAND_OPENS,   /* reads, and opens the source itself (ctl_open), if at all */
};

struct option_spec {
    const char *name; /* "--limit"; "-k" */
    int values;       /* how many follow it: 0, 1 or 2 */
    bool repeats;
};

struct ctl;
struct arguments; /* arguments.h */
struct command {
    const char *name;
    const char *usage; /* behind "itemctl NAME " */
    const char *summary;
    const struct option_spec *options; /* ended by a NULL name; NULL: none */
    int least, most;                   /* arguments that are no options */
    enum command_access access;
    /* The source that the arguments imply, where none is given; or NULL. NULL: never one. */
    const char *(*source)(const struct arguments *arguments);
    int (*prepare)(struct ctl *ctl); /* before the source is opened; NULL: nothing to do */
    int (*run)(struct ctl *ctl);
};

extern const struct command command_tables, command_describe, command_create, command_drop;
extern const struct command command_put, command_get, command_delete, command_ttl;
extern const struct command command_incr, command_decr, command_append;
extern const struct command command_query, command_scan, command_export, command_import;
extern const struct command command_deploy, command_seed, command_doctor;
extern const struct command command_changes, command_drafts, command_status, command_estimate;
extern const struct command command_maintain, command_verify, command_akka;

struct ctl {
    const struct arguments *arguments;
    const struct command *command;
    const char *source_name; /* as it was given or found */
    struct config *config;
    struct source *source;
    bool json;      /* else for people, on a terminal */
    bool stands_in; /* for absent stores others are made (absent.h) */
    struct err err;
};

/* Sets the sentence and returns the status, so that a command can `return` it. */
int ctl_usage(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
int ctl_fail(struct ctl *ctl, enum exit_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens the source, which is read already; see main.c. A status, or 0. */
int ctl_open(struct ctl *ctl);

/* Says on stderr which tables a walk over all of them (source_tables) has left out, and why. */
void ctl_tell_forbidden(const struct ctl *ctl);

/* An opened table: what nearly every command begins with. */
struct subject {
    struct backend *backend;
    struct table *table;
};
/* The table that the first argument names. -ENOENT. */
int subject_open(struct ctl *ctl, struct subject *ret_subject);
void subject_release(struct subject *subject);

#endif
