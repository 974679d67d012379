/* SPDX-License-Identifier: MIT */
/* The set of replicas: who is in use, and what follows from how calls went. */
#ifndef BACKEND_FOLDER_REPLICA_SET_H
#define BACKEND_FOLDER_REPLICA_SET_H

#include "backend/folder/replica_call.h"

struct replicas {
    int64_t timeout_ns;
    bool read_only;
    mode_t mode;
    uint32_t tag; /* random, in the names of temporaries */
    int (*record)(void *context, const char *path, const char *reason, int64_t since_ns,
                  struct err *err);
    void *context;
    atomic_uint turn; /* for replicas_look */

    pthread_mutex_t lock; /* never held while anything is waited for; taken before a replica's */
    pthread_cond_t recorded;
    /* guarded by lock */
    struct replica *slots[REPLICAS_MOST]; /* by number; NULL: none */
    size_t order[REPLICAS_MOST];          /* numbers, as they were given */
    size_t count;
    size_t next; /* the number that the next new one gets, if it is free */
    bool timed;  /* also where there is one replica, nobody waits for it longer than the timeout */
};

/* A call of RUN with OPS in all replicas in use, not done yet; RET_ALONE is for call_do. NULL: no
 * memory. */
struct call *set_call(struct replicas *set, task_fn run, const struct file_op *ops, size_t count,
                      bool *ret_alone);
/* The same in replica NUMBER; without a task where it is gone. */
struct call *set_call_one(struct replicas *set, size_t number, task_fn run,
                          const struct file_op *ops, size_t count, bool *ret_alone);
/* The same in the first one in use. */
struct call *set_call_first(struct replicas *set, task_fn run, const struct file_op *ops,
                            size_t count, bool *ret_alone);
/* Does it, and judges: who failed in what others did is out of use. ALLOWED (or 0) is an answer,
 * not a failure; it is the result where no replica has another. RET_CHANGED may be NULL. */
int set_do(struct replicas *set, struct call *call, bool alone, int allowed, int64_t timeout_ns,
           bool *ret_changed, struct err *err);
/* Does a call in one replica. */
int set_do_one(struct replicas *set, struct call *call, bool alone, struct err *err);
/* The same of a call that reads a file, which is appended to BODY. */
int set_read(struct replicas *set, struct call *call, bool alone, struct file_stat *ret_stat,
             struct buf *body, struct err *err);
/* Records who has left. Until that is done, nothing is answered. */
int set_settle(struct replicas *set, struct err *err);
/* -EINVAL: the root of replica NUMBER is that of one that is in use. */
int set_check_twin(struct replicas *set, size_t number, struct err *err);
/* Marks REPLICA as out of use, unless it is. */
void set_leave_locked(struct replica *replica, const char *reason, int64_t since_ns);
size_t set_in_use_locked(const struct replicas *set);

/* Whether FOLDER (which may be "") and NAME (or NULL) are names of what is in a folder. */
int names_check(const char *folder, const char *name, struct err *err);

#endif
