/* SPDX-License-Identifier: MIT */
/* The change streams as files that can be followed: .itemfs/changes/TABLE.jsonl. (changes.c) */
#ifndef FS_CHANGES_H
#define FS_CHANGES_H

#include "fs/mount.h"

#define CHANGES_NAME "changes"
#define CHANGES_SUFFIX ".jsonl"

int changes_start(struct mount *, struct err *err);
/* Before the session ends: nobody waits in open any more, and all is freed. */
void changes_stop(struct mount *);

/* Whether PATH, below the control directory, is such a file's. */
bool changes_is_file(struct span path);
/* NAME is "TABLE.jsonl": -ENOENT. */
int changes_find(struct mount *, struct span name, struct err *err);
/* The inode that a lookup found (may be NULL), or NULL: it shows a table's changes to those who
 * have it open, and who comes now is to have another. */
struct inode *changes_current_locked(struct mount *, struct inode *inode);
/* Sets the size and times of INODE, if somebody has it open. */
bool changes_refresh(struct mount *, struct inode *inode);

/* Answers REQ, when everything is there that was there when it was called. */
void changes_open(struct mount *, fuse_req_t req, struct inode *inode,
                  const struct fuse_file_info *fi);
int changes_read(struct mount *, struct handle *handle, off_t offset, size_t size, struct buf *out,
                 struct err *err);
/* What poll tells; takes POLL (may be NULL), to tell when there is more. */
unsigned changes_poll(struct mount *, struct handle *handle, struct fuse_pollhandle *poll);
/* Of a handle that is being released. */
void changes_close(struct mount *, struct handle *handle);

#endif
