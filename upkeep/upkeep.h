/* SPDX-License-Identifier: MIT */
/*
 * What a daemon deletes by itself: items of tables for which mount.conf says how long, or how many
 * of them, are kept (keep_seconds, keep_min and keep_max). Each look at a table is a purge
 * (purge.h).
 *
 *   upkeep.c  the thread, and when it looks         crew.c    deletions, several at a time
 *   purge.c   one look, for itemctl too             oldest.c  the oldest of many
 *
 * A table of a store is looked at when its oldest item has become too old, when so much has been
 * changed that there may be too many, and a minute after anything else was; a table of a service,
 * where a look is a scan that costs, once an hour. Several daemons of a table do the same, and no
 * more comes of it than of one: each deletes only what is too old or too many when it is deleted.
 */
#ifndef UPKEEP_UPKEEP_H
#define UPKEEP_UPKEEP_H

#include "backend/source.h"

struct upkeep;

/* Starts to keep the tables that have such a rule in CONFIG, those that are not there yet too;
 * nothing where it is read-only. CONFIG and SOURCE must outlive it. It logs. */
int upkeep_start(const struct config *config, struct source *source, struct upkeep **ret_upkeep,
                 struct err *err);
void upkeep_stop(struct upkeep *upkeep); /* accepts NULL */

/* How it stands with one table. Counts are those of this daemon. */
struct upkeep_state {
    const struct table_config *rule;
    uint64_t looks;            /* that came to their end */
    uint64_t deleted, changed; /* as in purge_count */
    uint64_t items;            /* that the last look left */
    int64_t look_ns;           /* when it ended, epoch; 0: there was none */
    char error[ERR_TEXT_MAX];  /* of the last look; empty: it succeeded */
};
typedef int (*upkeep_fn)(void *context, const struct upkeep_state *state);
/* In the configuration's order; UPKEEP NULL: none. */
int upkeep_each(struct upkeep *upkeep, upkeep_fn each, void *context);

#endif
