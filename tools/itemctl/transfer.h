/* SPDX-License-Identifier: MIT */
/* What export and import share. */
#ifndef ITEMCTL_TRANSFER_H
#define ITEMCTL_TRANSFER_H

#include "tools/itemctl/itemctl.h"

#define TRANSFER_SAVE_NS (INT64_C(250) * 1000 * 1000) /* between two records of the position */

/* Adds what tells this table from any other, of this store or another, now or later. */
int transfer_add_table(const struct subject *subject, uint64_t sequence, struct buf *identity,
                       struct err *err);
/* The configuration of an opened backend. */
const struct backend_config *transfer_config(const struct ctl *ctl, const struct backend *backend);
/* What --segments says; 0: it was not given. */
int transfer_segments(struct ctl *ctl, unsigned *ret_segments);
/* A service that is too busy has failed; "locked" is about other itemctls. */
int transfer_status(int code);
/* What was done, on standard output. */
int transfer_report(struct ctl *ctl, const char *table, uint64_t items, const char *verb);
/* A remark on standard error. */
void transfer_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
