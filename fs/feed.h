/* SPDX-License-Identifier: MIT */
/*
 * One table's changes while somebody has them open: a thread that reads the table's stream into a
 * spool. What changes.c and feed.c share.
 */
#ifndef FS_FEED_H
#define FS_FEED_H

#include "backend/stream.h"
#include "fs/changes.h"
#include "fs/spool.h"

#define CHANGES_KEPT_NS (24 * 3600 * NS_PER_S) /* what who opens a file sees */
/* An edition of a file is given to new openers until it begins so much earlier; and what a spool
 * has given up is so much older again, so that who was given the edition has the time to read it.
 */
#define CHANGES_SLACK_NS (3600 * NS_PER_S)

/* All of a mount. */
struct changes {
    pthread_mutex_t lock; /* taken after cache->lock, or alone; guards all below and in it */
    pthread_cond_t idle;  /* none is running any more */
    bool stopping;
    unsigned running; /* threads */
    struct feed *feeds;
    struct feed *ended; /* their threads are to be joined */
    struct edition *editions;
};

/* What one inode shows: a spool from some place on. Its openers' handles hold the inode. */
struct edition {
    const struct inode *inode;
    struct feed *feed;
    uint64_t base; /* where in the spool it begins */
    unsigned readers;
    struct edition *next;
};

/* An opener of an edition. */
struct reader {
    struct edition *edition;
    uint64_t read_to;             /* end of what it has read last */
    bool told;                    /* why it can read no more */
    struct fuse_pollhandle *poll; /* on the feed's list where it is not NULL */
    struct reader *next_polled;
};

/* An open that is not answered yet. */
struct waiter {
    fuse_req_t req;
    struct fuse_file_info info;
    struct mount *mount;
    struct inode *inode;   /* a reference */
    struct handle *handle; /* NULL: there is none yet */
    int64_t after_ns;      /* steady clock: a round that begins later brings all that was there */
    bool listed;           /* by its feed */
    bool given_up;         /* by its caller, before it was listed */
    struct waiter *next;
};

struct feed {
    struct mount *mount;
    struct volume *volume;
    pthread_t thread;
    pthread_cond_t wake;   /* monotonic clock */
    atomic_bool cancelled; /* calls to a service are given up */

    /* The thread's. */
    struct stream *stream;
    struct buf line;
    bool started;       /* a first part of the stream was read */
    bool punch_failed;  /* and it was said */
    unsigned failures;  /* rounds in a row */
    int64_t trimmed_ns; /* steady clock: when that was last tried */
    int64_t checked_ns; /* steady clock: when the backend was last asked for the table */

    /* Guarded by changes->lock. */
    bool running;        /* the thread is */
    struct spool *spool; /* set once, before the first open is answered */
    bool asked;          /* a service was */
    unsigned editions;   /* that refer to it */
    int64_t linger_ns;   /* steady clock: how long it goes on without any */
    struct waiter *waiters;
    struct reader *polled, **last_polled;
    unsigned polled_count;
    int end;            /* negative once nothing more will come: what reading at the end gives */
    struct err end_err; /* why */
    struct feed *next;
};

/* --- _locked: changes->lock is held --- */

/* Starts one for VOLUME and lists it. */
int feed_start_locked(struct mount *, struct volume *volume, struct feed **ret_feed,
                      struct err *err);
/* The thread gives up what it does and ends. */
void feed_cancel_locked(struct feed *feed);
/* How much later than an open a round must begin to be enough for it. */
int64_t feed_delay_locked(const struct feed *feed);
/* Nobody has it open any more: it goes on for a moment, for who opens the file again. */
void feed_linger_locked(struct feed *feed);
/* READER, if it is on the list of those who poll, is no more; its handle is the caller's. */
void feed_unlist_reader_locked(struct feed *feed, struct reader *reader);
/* Where nobody needs FEED any more it is put with the ended ones, and the spool is the caller's to
 * free. */
void feed_settle_locked(struct feed *feed, struct spool **ret_spool);
/* Joins the threads that have ended, and frees their feeds. */
void feeds_reap(struct mount *);
/* Answers and frees WAITER, which is on no list. BY_CALLER: within its interrupt function. */
void waiter_answer(struct waiter *waiter, int code, const struct err *err, bool by_caller);

#endif
