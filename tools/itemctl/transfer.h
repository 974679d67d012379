/* SPDX-License-Identifier: MIT */
/* What export and import share. */
#ifndef ITEMCTL_TRANSFER_H
#define ITEMCTL_TRANSFER_H

#include "tools/itemctl/itemctl.h"

#define TRANSFER_SAVE_NS (INT64_C(250) * 1000 * 1000) /* between two records of the position */

/* Adds what tells this table from any other, of this store or another, now or later. */
int transfer_add_table(const struct subject *subject, uint64_t sequence, struct buf *identity,
                       struct err *err);
/* What was done, on standard output. */
int transfer_report(struct ctl *ctl, const char *table, uint64_t items, const char *verb);
/* A remark on standard error. */
void transfer_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
