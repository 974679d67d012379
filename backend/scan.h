/* SPDX-License-Identifier: MIT */
/* Scans of backends that have none of their own: walks, each behind the last key that was given. */
#ifndef BACKEND_SCAN_H
#define BACKEND_SCAN_H

#include "backend/backend.h"

int walk_scan_open(const struct table *, const struct scan_range *, struct scan **ret_scan);
int walk_scan_next(struct scan *, size_t limit, record_fn, void *, struct err *);
void walk_scan_close(struct scan *);

/* backend_index_values out of a scan. (index_values.c) */
int scan_index_values(struct backend *backend, const struct table *table, const struct index *index,
                      value_fn each, void *context, struct err *err);

#endif
