/* SPDX-License-Identifier: MIT */
/*
 * A backend whose items are files in folders: `<key>.json`, bytes untouched. The files are what
 * counts. An embedded store, the state database, holds the same items once more, as an index, and
 * everything that is no file: the change log, streams, scratch files, drafts. So reads are those of
 * the embedded store, and without the state database no item is lost.
 */
#ifndef BACKEND_FOLDER_FOLDER_H
#define BACKEND_FOLDER_FOLDER_H

#include "backend/backend.h"
#include "backend/replicas.h"
#include "base/config.h"

/* Where the list of replicas comes from: it may be changed while the folders are open. */
struct folder_list {
    /* Whether it may be another one than READ has told last. Cheap; from any thread. */
    bool (*changed)(void *context);
    /* The paths, absolute. */
    int (*read)(void *context, struct path_list *ret_paths, struct err *err);
    /* From then on READ tells of ADD, too, or not of REMOVE (NULL: none), to whoever asks. -EAGAIN:
     * somebody else has changed it. -EOPNOTSUPP: it cannot be changed. DRY: only whether it can. */
    int (*edit)(void *context, const char *add, const char *remove, bool dry, struct err *err);
    void (*free)(void *context);
    void *context;
};

struct folder_options {
    const char *const *paths; /* of the replicas, absolute, as LIST told */
    size_t count;
    struct folder_list list;   /* is taken, also on failure */
    enum folder_layout layout; /* AUTO: as it was; at first, one table where there are its files */
    const char *lock_path; /* a file whose bytes are locks between processes; made where absent */
    bool read_only;        /* no file is written; the state database is */
    bool durable;          /* every batch is on stable storage before it is acknowledged */
    bool watch;            /* what others do to the files is watched for */
    int64_t scan_ns;       /* where watching cannot be had, how often all is looked through */
    int64_t timeout_ns;    /* how long one replica may keep the others waiting */
    /* Applies what the configuration says of TABLE; or NULL. */
    void (*configure)(const void *context, struct table *table);
    const void *configure_context;
};

/*
 * STORE and IMPORTS are two handles of the state database, which are taken, also on failure. What
 * is written through the backend goes through STORE; what others have written, through IMPORTS, so
 * that it is no `own` entry of the log. Both leave expired items; IMPORTS shows them.
 *
 * -ENOENT where the folder is missing, or is empty and should not be (its disk is not mounted).
 * -EINVAL where it is of another layout than it was.
 */
int folder_open(struct backend *store, struct backend *imports,
                const struct folder_options *options, struct backend **ret_backend,
                struct err *err);

/* A table as one found in a folder is described, before its configuration: tag keys under strict
 * rules, partition key "-key", no stream. NULL: no memory. */
struct table *folder_new_table(struct span name);

/* Tries each of PATHS, all at once, TIMEOUT_NS long; slower than MOST_NS (0: any) is overloaded. */
int folder_health(const char *const *paths, size_t count, int64_t timeout_ns, int64_t most_ns,
                  health_fn each, void *context, struct err *err);

#endif
