/* SPDX-License-Identifier: MIT */
/* From a configuration to a running mount, and back. */
#ifndef FS_SESSION_H
#define FS_SESSION_H

#include "fs/mount.h"

/* Says what is in the way of a mount on PATH, clears away a dead mount of ours, and gives the
 * absolute path. -ENOENT, -ENOTDIR, -EBUSY (mounted already). */
int mountpoint_check(const char *path, char **ret_path, struct err *err);

/* In place: /proc/self/mountinfo writes space, tab, newline and backslash as octal escapes. */
void unescape_octal(char *text);
/* Opens the source, mounts, and reads what tables there are. ARGS are for libfuse. Takes CONFIG,
 * also on failure. */
int session_start(struct config *config, const char *mountpoint, struct fuse_args *args,
                  struct mount **ret_mount, struct err *err);
/* Starts the threads that may log at any time. On failure, session_stop. */
int session_begin(struct mount *mount, struct err *err);
/* Serves requests until unmounted or told to end by a signal. */
int session_run(struct mount *mount);
/* A signal that came in the moment before `session_run` went to sleep has not woken it: it is sent
 * again. */
void session_wake(struct mount *mount);
/* How workers wait for requests. (workers.c) */
int session_workers(struct fuse_session *session);
/* The mount ends: nobody waits any more for what is only read. May be called by a signal's handler.
 * (interrupt.c) */
void interrupt_all(void);
/* Finishes saves, unmounts, and frees everything. */
void session_stop(struct mount *mount);

/* Starts and ends the process that aborts the connection when this one is killed. Before any
 * thread is started. (reaper.c) */
void reaper_start(struct mount *mount);
void reaper_stop(struct mount *mount);
/* Whether the mount point is another mount's by now: ours was detached from it, and may live on
 * where somebody works in it. */
bool mount_is_covered(struct mount *mount);
/* Has it abort the connection now. */
void reaper_abort(struct mount *mount);

/* Waits for a thread that tells the kernel something. It may wait in turn for a request that nobody
 * serves any more: then the connection is cut. (notify.c) */
void thread_join(struct mount *mount, pthread_t thread);

#endif
