/* SPDX-License-Identifier: MIT */
/* The backends that a configuration names, opened, and the tables in them. */
#ifndef BACKEND_SOURCE_H
#define BACKEND_SOURCE_H

#include "backend/backend.h"
#include "base/config.h"

struct source {
    const struct config *config; /* not owned */
    struct backend **backends;   /* in the order of config->backends */
    size_t count;
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

/* Makes the directory that state_dir names, for this user alone, where it is not there. */
int source_make_state(const struct config *config, struct err *err);

/* The table NAME with its configuration applied, as a copy to free, and its backend. -ENOENT; where
 * two backends have a table of that name, [table NAME] backend = decides, else the first has it.
 * -EACCES where one may not be asked for it, and no other has it. */
int source_table(struct source *source, struct span name, struct backend **ret_backend,
                 struct table **ret_table, struct err *err);
/* Where a new table of that name goes: its [table] section's backend, else the first. */
struct backend *source_backend_for(struct source *source, struct span name);
/* A table as mkdir makes it there, before its configuration: where the backend keeps such settings,
 * with tag keys and a stream. To free; NULL when memory ran out. */
struct table *source_new_table(struct source *source, struct span name);
/* All tables, by name, configuration applied, each name once; as backend_tables. */
int source_tables(struct source *source, table_fn each, void *context, struct err *err);
/* Those that source_tables left out when it was last called. */
int source_forbidden(struct source *source, forbidden_fn each, void *context);

#endif
