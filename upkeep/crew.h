/* SPDX-License-Identifier: MIT */
/* Deletions, several at a time. */
#ifndef UPKEEP_CREW_H
#define UPKEEP_CREW_H

#include "upkeep/oldest.h"
#include "upkeep/purge.h"

/* Deletes COUNT of LIST's items from FROM on, each as it was judged, and adds them to TOTAL: in one
 * batch where the backend is on this machine, else by as many calls side by side as it wants. */
int crew_delete(struct backend *backend, const struct table *table, const struct doomed_list *list,
                size_t from, size_t count, unsigned flags, struct purge_count *total,
                struct err *err);

#endif
