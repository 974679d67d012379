/* SPDX-License-Identifier: MIT */
/* A line on standard error that tells how far a long command is; only where that is a terminal. */
#ifndef ITEMCTL_PROGRESS_H
#define ITEMCTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on, shown;
    const char *verb; /* "imported" */
    int64_t next_ns;  /* when to show it again, on the steady clock */
};

void progress_begin(struct progress *progress, const char *verb);
/* DONE of TOTAL bytes (TOTAL 0: unknown) and ITEMS so far. */
void progress_show(struct progress *progress, uint64_t items, uint64_t done, uint64_t total);
/* Takes the line away again. */
void progress_end(struct progress *progress);

#endif
