/* SPDX-License-Identifier: MIT */
/* What the files of watching share. */
#ifndef BACKEND_FOLDER_WATCH_H
#define BACKEND_FOLDER_WATCH_H

#include <sys/inotify.h>

#include "backend/folder/private.h"

#define EVENTS_BYTES (1 << 20)

struct place {
    int wd;
    bool root;
    size_t replica;
    dev_t device; /* of the folder when it was met */
    ino_t inode;
    char folder[NAME_MAX + 1]; /* of the table */
};

struct watch {
    int fd, stop_fd, mounts_fd;
    pthread_t thread;
    bool started;
    int64_t scan_ns; /* between two looks where one must look */

    pthread_mutex_t lock; /* guards begun, whole, draining; held while nothing else is done */
    pthread_cond_t drained;
    uint64_t begun, whole; /* the last that has begun; the last that was read without a failure */
    bool draining;         /* somebody is; he alone uses what follows */
    _Alignas(struct inotify_event) char room[EVENTS_BYTES];
    bool tables_due, all_due;
    int64_t looked_ns;
    struct own_moves own_moves;

    pthread_mutex_t places_lock; /* guards the rest */
    struct place *places;
    size_t count;
    bool must_look;

    pthread_mutex_t told_lock; /* guards the rest; held while TOLD is called */
    told_fn told;
    void *told_context;
};

/* --- places.c: the folders that are watched --- */

/* Of the tables those that are not watched yet, or are due, or all. */
int places_watch(struct folder *, bool all_tables, struct err *err);
/* The place of an event; a root's folder is "". False: nobody watches there any more. A folder that
 * was moved is another one's or nobody's from now on: it is watched anew where it is a table's. */
bool place_of_event(struct watch *, const struct inotify_event *event, struct place *ret_place);
/* Something was mounted or unmounted: tables whose folders are others by that are due. */
void places_check(struct folder *);

#endif
