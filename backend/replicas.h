/* SPDX-License-Identifier: MIT */
/*
 * What is done with the replicas of a backend whose items are files in several folders: they are
 * tried, compared, added and taken away, all of it while others use them. -EOPNOTSUPP where a
 * backend has none.
 */
#ifndef BACKEND_REPLICAS_H
#define BACKEND_REPLICAS_H

#include "backend/backend.h"

/* --- How they are --- */

enum health {
    HEALTH_ONLINE,
    HEALTH_OVERLOADED,   /* a file is written and read back, but not in the time allowed */
    HEALTH_UNRESPONSIVE, /* it is not */
    HEALTH_OFFLINE,      /* the folder is missing */
};
const char *health_name(enum health health); /* "ONLINE" */

struct replica_health {
    const char *path;
    enum health health;
    int64_t took_ns;    /* to write a file and read it; 0 where that failed */
    const char *reason; /* why it is not online; else "" */
};
typedef int (*health_fn)(void *context, const struct replica_health *health);

/* --- Whether they are alike --- */

struct replica_copy {
    const char *path; /* of the replica */
    bool there, newest;
    uint64_t size;
    int64_t mtime_ns;
    const char *reason; /* why it cannot be read; else "" */
};
/* A file that is not the same everywhere. */
struct difference {
    const char *name;
    int64_t since_ns; /* the newest copy's time */
    const struct replica_copy *copies;
    size_t count;
    bool repaired;
};

struct verify_counts {
    uint64_t files; /* that were compared */
    uint64_t differ, repaired;
    size_t compared, out; /* replicas; those out of use are not looked at */
};
struct verify_options {
    bool repair;
    void (*progress)(void *context, const struct verify_counts *, uint64_t total); /* or NULL */
    void *context; /* of both functions */
};

/*
 * All files of TABLE that are, or might be, items, compared byte for byte among the replicas in
 * use, while others go on writing: what differs is looked at again with its lock, and after a
 * moment in which a program that writes one replica after another may have written the others.
 * Times alone are no difference.
 *
 * With REPAIR what differs is made alike: the newest file counts, is copied to where another one
 * or none is, and each other one is kept as a draft. Where sizes and times are equal, and bytes
 * are not, those count that the state database has.
 */
int backend_verify(struct backend *backend, const struct table *table,
                   const struct verify_options *options, difference_fn each,
                   struct verify_counts *ret_counts, struct err *err);

/* --- Which there are --- */

struct plug_counts {
    uint64_t files; /* copied, or deleted */
    uint64_t total; /* items there are */
    uint64_t left;  /* files that are no items, and stay */
};
struct plug_options {
    bool dry;                                                    /* only checked, and counted */
    void (*progress)(void *context, const struct plug_counts *); /* or NULL */
    void *context;
};

/*
 * The folder PATH becomes one more replica, while others go on using them: all items are copied
 * with their times, then, with nobody writing, what was changed meanwhile, and it is added to the
 * configuration. From then on all that is saved is saved there, too.
 *
 * -EEXIST: it is one already. -ENOTEMPTY: it holds files of items that are not these. -EINVAL: it
 * is in a replica, or holds one, or there are too many. -EOPNOTSUPP: no configuration names
 * replicas. -EBUSY: another replica is being filled all the time. After a failure, or when it was
 * killed, it may be called again.
 */
int backend_plug_in(struct backend *backend, const char *path, const struct plug_options *options,
                    struct plug_counts *ret_counts, struct err *err);
/*
 * The replica PATH is taken out of the configuration, and then its items' files are deleted.
 * -EINVAL: it is none, or the last one in use. When it was killed in between, it may be called
 * again, and deletes the rest.
 */
int backend_plug_out(struct backend *backend, const char *path, const struct plug_options *options,
                     struct plug_counts *ret_counts, struct err *err);

#endif
