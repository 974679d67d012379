/* SPDX-License-Identifier: MIT */
/* The backends that a configuration names, opened, and the tables in them. */
#ifndef BACKEND_SOURCE_H
#define BACKEND_SOURCE_H

#include "backend/backend.h"
#include "backend/profile/choice.h"
#include "backend/replicas.h"
#include "base/config.h"

struct source {
    const struct config *config; /* not owned */
    struct backend **backends;   /* in the order of config->backends */
    size_t count;
    struct profile_choice *choices; /* in the order of config->tables */
    struct source *stored;          /* of one that source_show made; not owned */
};

/*
 * Opens every backend; CREATE makes absent stores. CONFIG must outlive the source.
 *
 * What [table NAME] says of keys, ttl and stream is a setting of the backend: where a table has
 * another one it is changed (backend_alter_table), here for all tables that are there, below for
 * those made later. Others are not asked for. One that may not be seen or changed is warned of. A
 * read-only source changes nothing, and then the backend's setting stands. A setting that a table
 * cannot have (tag keys where the key is a number) is -EINVAL, except in source_tables, where that
 * table keeps its own.
 */
int source_open(const struct config *config, bool create, struct source **ret_source,
                struct err *err);
void source_close(struct source *source); /* accepts NULL */

/* -EINVAL: a mount on MOUNTPOINT, a real path, would hide what it is a mount of, or be in it. */
int source_check_mountpoint(const struct config *config, const char *mountpoint, struct err *err);

/*
 * The same source as a mount shows it: tables with a profile have their shown descriptions
 * (backend/profile/shown.h), and backends that may have such a table are other ones, over those of
 * STORED, which must outlive it. A source as it is opened has the tables as they are stored; for
 * those with a profile it, too, sets what the profile says of them (where they are, a service's
 * settings stay as they are). A table that does not fit its profile is -EINVAL.
 */
int source_show(struct source *stored, struct source **ret_source, struct err *err);
/* What [table NAME] says of a profile; NULL: it has none. */
const struct profile_choice *source_choice(const struct source *source, struct span name);
/* The read by which each profile that wants one has its connection made. STORED is as it was
 * opened. Where one fails, FAILED is called, and the others are made all the same. */
typedef void (*first_read_fn)(void *context, const char *table, const char *why);
void source_first_reads(struct source *stored, first_read_fn failed, void *context);

/* Makes the directory that state_dir names, for this user alone, where it is not there. */
int source_make_state(const struct config *config, struct err *err);

/* The table NAME with its configuration applied, as a copy to free, and its backend. -ENOENT; where
 * two backends have a table of that name, [table NAME] backend = decides, else the first has it.
 * -EACCES where one may not be asked for it, and no other has it. */
int source_table(struct source *source, struct span name, struct backend **ret_backend,
                 struct table **ret_table, struct err *err);
/* Where a new table of that name goes: its [table] section's backend, else the first. */
struct backend *source_backend_for(struct source *source, struct span name);
/* A table as mkdir makes it there, before its settings: of the profile that it has, if any; else
 * with the keys and indexes that it is declared with, or with the one key "key"; where the backend
 * keeps such settings, with a stream, and, unless it is declared, with tag keys. To free; NULL when
 * memory ran out. */
struct table *source_new_table(struct source *source, struct span name);
/* The same of a table as the application of that profile makes it. */
struct table *source_new_profile_table(struct source *source, struct span name,
                                       const struct profile_choice *choice);
/* All tables, by name, configuration applied, each name once; as backend_tables. */
int source_tables(struct source *source, table_fn each, void *context, struct err *err);
/* Those that source_tables left out when it was last called. */
int source_forbidden(struct source *source, forbidden_fn each, void *context);

/* EACH of the replicas that SETTINGS, one of CONFIG's backends, name, as a file written to it and
 * read back now tells; MOST_NS: how long that may take, 0: as long as it takes. Nothing is opened:
 * also where no replica can be used, this tells. */
int source_health(const struct config *config, const struct backend_config *settings,
                  int64_t most_ns, health_fn each, void *context, struct err *err);

#endif
