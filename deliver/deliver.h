/* SPDX-License-Identifier: MIT */
/*
 * Delivery: the changes of a table's stream to the function that mount.conf names for it, at least
 * once, those of each item in their order.
 *
 *   deliver.c   all tables of a daemon, how they stand      batch.c      the body of a call
 *   worker.c    one table: reads, calls, tries again        call.c       a URL, or a program
 *   tenure.c    which daemon it is: the lease               program.c    ... run
 *   backoff.c   when it is tried again                      signature.c, reply.c
 *
 * A worker is a thread that has at most one batch at a time. It reads the stream behind the
 * position that stands with the lease, calls the function until it has taken the batch (or refused
 * it, or all of it has become too old), and writes the position behind it. So what was delivered
 * twice is what was under way when a daemon died or lost the lease.
 */
#ifndef DELIVER_DELIVER_H
#define DELIVER_DELIVER_H

#include "backend/mark.h"
#include "backend/source.h"

struct deliver;

/* Starts to deliver for all tables that have a function in CONFIG, those that are not there yet
 * too; nothing where it is read-only. PLACE is where it is mounted, for people. CONFIG and SOURCE
 * must outlive it. It logs. Programs that it starts get umask 077, which becomes the process's. */
int deliver_start(const struct config *config, struct source *source, const char *place,
                  struct deliver **ret_deliver, struct err *err);
/* Begins to stop, without waiting: no further call is made. Accepts NULL. */
void deliver_leave(struct deliver *deliver);
/* Calls that are under way have five seconds to end; then they are broken off, and their batches
 * will be delivered again. Accepts NULL. */
void deliver_stop(struct deliver *deliver);

enum delivery_state {
    DELIVERY_OFF,     /* nothing to deliver: no such table, its stream is off, read-only */
    DELIVERY_STANDBY, /* another daemon does */
    DELIVERY_IDLE,    /* all is delivered */
    DELIVERY_CALLING,
    DELIVERY_WAITING, /* for the next try */
};
const char *delivery_state_name(enum delivery_state state);

/* How it stands with one table. Counts are those of this daemon. */
struct delivery {
    const char *table;
    const char *function; /* without what may be secret */
    enum delivery_state state;
    char reason[ERR_TEXT_MAX]; /* of OFF, STANDBY and WAITING */
    bool has_position;
    struct buf position;
    bool has_done;   /* something was done with: */
    int64_t done_ns; /* when the last of it was changed */
    bool has_behind; /* it is known how many records are to be delivered */
    uint64_t behind;
    bool has_lag; /* it is known how old the oldest of them is */
    int64_t lag_ns;
    struct tally tally;
    uint64_t batches;         /* delivered */
    char error[ERR_TEXT_MAX]; /* the last one */
    int64_t error_ns;         /* epoch; 0: there was none */
};
typedef int (*delivery_fn)(void *context, const struct delivery *delivery);
/* In the configuration's order; DELIVER NULL: none. */
int deliver_each(struct deliver *deliver, delivery_fn each, void *context);

#endif
