/* SPDX-License-Identifier: MIT */
/*
 * Who delivers a table's changes, where several daemons could. A tenure is the time for which this
 * one does: it holds the table's lease (backend/stream.h). A thread of its own, the keeper, takes
 * the lease when it is free or when its holder has not renewed it for a while, renews it, also
 * while a call of the function takes long, and writes with it what was delivered last. All that
 * writes the lease is this one thread.
 *
 * Another thread, the user, delivers. It waits here for everything: for a tenure to begin, for its
 * position to be written, for time to pass. Before each call it makes sure that the tenure is
 * certain (tenure_confirm): a daemon that was stopped for longer than others wait is not. A call
 * goes on while it is (tenure_is_uncertain), so it has come to its end before another daemon makes
 * the same one, though what was sent may be under way for longer.
 *
 * Times are those of this machine's steady clock. No clock of another machine counts.
 */
#ifndef DELIVER_TENURE_H
#define DELIVER_TENURE_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/mark.h"
#include "backend/stream.h"

struct tenure_times {
    int64_t renew_ns; /* between two renewals */
    int64_t fresh_ns; /* for so long after a renewal the tenure is certain */
    int64_t lapse_ns; /* a lease that stands still for so long is free: longer than fresh_ns, by
                         what a call takes to be broken off */
    int64_t look_ns;  /* between two looks at a lease that somebody else has */
};
extern const struct tenure_times tenure_times; /* the usual ones */

struct tenure {
    struct tenure_times times;
    struct backend *backend;
    char *name;         /* of the table */
    const char *holder; /* this daemon, unlike all others */
    pthread_t keeper;
    bool started;
    atomic_bool over;                 /* what goes on under the tenure is to be called off */
    _Atomic int64_t certain_until_ns; /* while it is not */
    atomic_bool called_off;           /* the user is to come to an end at once; set under `lock` */
    atomic_bool hopeless;             /* the keeper is to give up what it waits for */

    pthread_mutex_t lock;
    pthread_cond_t change; /* of anything below */
    bool leaving;          /* the user is to come to an end */
    bool ending, ended;    /* the keeper is to give the lease back and end; has done so */
    bool held;
    bool wanted;          /* somebody waits for a renewal */
    uint64_t number;      /* how many tenures there were */
    uint64_t count;       /* of the lease; 0: it was not looked at yet, or nobody ever had it */
    int64_t changed_ns;   /* held: when it was last renewed, at the latest; else: since when it is
                             known to stand at `count` */
    struct buf position;  /* to be written with it */
    struct tally tally;   /* the same */
    uint64_t asked, kept; /* positions that are to be written, and those that are */
    struct buf other;     /* who has it, where we have not */
    struct err trouble;   /* why the lease could not be read or written; "" when it could */
};

void tenure_init(struct tenure *tenure, const char *holder);
void tenure_release(struct tenure *tenure);

/* Starts to strive for the lease of the table NAME. HOLDER's text and BACKEND must outlive it. */
int tenure_start(struct tenure *tenure, struct backend *backend, const char *name, struct err *err);
/* Gives the lease back, with the last position, and ends the keeper. It can be started again. */
void tenure_stop(struct tenure *tenure);

/* For the user. -EINTR: it is to come to an end (tenure_leave, tenure_call_off); -ESTALE: the
 * tenure NUMBER is over. */

/* Waits for a tenure: its number, and the position to go on from. */
int tenure_begin(struct tenure *tenure, uint64_t *ret_number, struct buf *ret_position);
/* Waits until it is certain that no other daemon has the lease, which then holds for a while. */
int tenure_confirm(struct tenure *tenure, uint64_t number);
/* A cancelled_fn (base/cancel.h), of a struct tenure: that is not certain any more, or the tenure
 * is over. It may become certain again. */
bool tenure_is_uncertain(const void *tenure);
/* Waits until POSITION is written; does not heed tenure_leave. */
int tenure_keep(struct tenure *tenure, uint64_t number, struct span position);
/* The same without waiting: it is written with the next renewal. */
int tenure_note(struct tenure *tenure, uint64_t number, struct span position);
/* Counts what came of the delivery; it is written with the next renewal. */
void tenure_count(struct tenure *tenure, enum tally_kind kind, uint64_t more);
/* Sleeps. NUMBER 0: of no tenure. */
int tenure_pause(struct tenure *tenure, uint64_t number, int64_t time_ns);

/* From any thread: has the user end after what it is at; at once. For good. */
void tenure_leave(struct tenure *tenure);
void tenure_call_off(struct tenure *tenure);

#endif
