/* SPDX-License-Identifier: MIT */
/* The worker of one table; private to deliver/. */
#ifndef DELIVER_WORKER_H
#define DELIVER_WORKER_H

#include "deliver/backoff.h"
#include "deliver/batch.h"
#include "deliver/call.h"
#include "deliver/deliver.h"
#include "deliver/tenure.h"

struct worker {
    const struct table_config *config;
    struct source *source;
    struct caller *caller;
    struct tenure tenure;
    pthread_t thread;
    bool started;

    /* The thread's own. */
    struct table *table; /* NULL: there is none */
    struct stream *stream;
    struct batch batch;
    struct buf position;    /* where the stream is opened; with a NUL */
    struct buf behind;      /* the batch */
    struct backoff trouble; /* with the backend */
    int64_t checked_ns;     /* when the table was last looked at */

    pthread_mutex_t lock; /* of what follows; never held with the tenure's */
    pthread_cond_t end;
    bool ended;              /* the thread has come to its end */
    struct backend *backend; /* where the table is; NULL: nowhere */
    struct delivery now;     /* without position, behind and lag */
    int64_t oldest_ns;       /* of what is being delivered; 0: nothing */
};

/* CONFIG has a function. -ENOMEM. */
int worker_new(const struct table_config *config, struct source *source, const char *holder,
               struct worker **ret_worker, struct err *err);
int worker_start(struct worker *worker, struct err *err);
/* Waits until its thread has ended, to UNTIL_NS of the steady clock at most: whether it has. */
bool worker_await(struct worker *worker, int64_t until_ns);
/* The thread has been joined, or was never started. */
void worker_free(struct worker *worker);

/* Delivers what the batch holds: 0 when all of it was taken or given up. -EINTR, -ESTALE: it is to
 * be delivered by whoever has the next tenure. (worker_batch.c) */
int worker_deliver(struct worker *worker, uint64_t number);

/* Whether that is news. */
bool worker_set_state(struct worker *worker, enum delivery_state state, const char *reason);
void worker_note_error(struct worker *worker, const char *text);
/* OLDEST_NS: when what is being delivered was changed; 0: there is nothing. */
void worker_note_oldest(struct worker *worker, int64_t oldest_ns);
void worker_count(struct worker *worker, enum tally_kind kind, uint64_t more);
/* From 0 to 1. */
double worker_chance(void);

#endif
