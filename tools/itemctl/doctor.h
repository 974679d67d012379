/* SPDX-License-Identifier: MIT */
/* What the files of `itemctl doctor` share: what was found, and which lines of mount.conf suit. */
#ifndef ITEMCTL_DOCTOR_H
#define ITEMCTL_DOCTOR_H

#include "tools/itemctl/itemctl.h"

enum doctor_level {
    DOCTOR_FINE,
    DOCTOR_NOTE,    /* worth knowing */
    DOCTOR_PROBLEM, /* wrong: the exit status says so */
};

#define DOCTOR_SKEW_S 5 /* clocks that differ by less are taken to agree */

struct doctor_finding {
    enum doctor_level level;
    char *about; /* "table users" */
    char *text;  /* a sentence or several */
};

struct doctor_line {
    char *section; /* "[table users]" */
    char *line;    /* "ttl = -ttl" */
    char *why;
};

struct doctor {
    struct ctl *ctl;
    struct config *config; /* of the source, with its settings; see settings_put_aside */
    struct doctor_finding *findings;
    size_t finding_count;
    struct doctor_line *lines;
    size_t line_count;
    bool no_memory;
};

/* What fails for want of memory is remembered. */
void doctor_say(struct doctor *doctor, enum doctor_level level, const char *about,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A line that would suit [KIND NAME]. WHY may be "". */
void doctor_propose(struct doctor *doctor, const char *kind, const char *name, const char *line,
                    const char *why);
size_t doctor_problems(const struct doctor *doctor);

/* A backend, by its place among those of the source. */
void doctor_look_at_backend(struct doctor *doctor, size_t place);
/* Each folder by itself, and then what the backend knows of them, when it has been used. */
void doctor_look_at_replicas(struct doctor *doctor, size_t place);
void doctor_look_at_folders(struct doctor *doctor, size_t place);
/* The section of a source that no mount.conf has named so far. */
void doctor_propose_backend(struct doctor *doctor, const struct backend_config *settings);
/* What mount.conf declares or sets for tables that are not there. */
void doctor_look_at_sections(struct doctor *doctor);
void doctor_look_at_table(struct doctor *doctor, struct backend *backend,
                          const struct table *table);

int doctor_print(const struct doctor *doctor, struct err *err);

#endif
