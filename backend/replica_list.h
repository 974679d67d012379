/* SPDX-License-Identifier: MIT */
/*
 * Where the replicas of a backend of folders are named: in mount.conf, in the tag store's own XML,
 * or, where a folder alone was given, nowhere. That file may be changed at any time, by plug-in and
 * plug-out, by an editor, by PHP programs.
 */
#ifndef BACKEND_REPLICA_LIST_H
#define BACKEND_REPLICA_LIST_H

#include "base/config.h"

struct replica_list;

/* CONFIG and SETTINGS, one of its backends, must outlive it. NULL: no memory. */
struct replica_list *replica_list_new(const struct config *config,
                                      const struct backend_config *settings);
void replica_list_free(struct replica_list *list); /* accepts NULL */

/* Whether the file has been changed since it was read last. Cheap; from any thread. */
bool replica_list_changed(struct replica_list *list);
/* The replicas as the file system calls them, so that a folder has one name however it was
 * written, also where its disk is not mounted. -EINVAL with file and line. */
int replica_list_read(struct replica_list *list, struct path_list *ret_paths, struct err *err);
/*
 * The file's name gets a file with ADD besides the others, or without REMOVE (NULL: none): whoever
 * reads it sees the list before or the list after. It is on the disk, has the old one's mode and
 * owner, and the same bytes but for the list. -EAGAIN: somebody else has changed it since it was
 * read; -EOPNOTSUPP: there is no file. DRY: only whether it can be done.
 */
int replica_list_edit(struct replica_list *list, const char *add, const char *remove, bool dry,
                      struct err *err);

#endif
