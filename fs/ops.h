/* SPDX-License-Identifier: MIT */
/* Requests of the kernel: each op_ function finds the inodes, calls the operation, and sends
 * exactly one reply. What they share. */
#ifndef FS_OPS_H
#define FS_OPS_H

#include "fs/operations.h"

struct mount *mount_of(fuse_req_t req);
/* The inode with a reference; NULL, and a reply sent, where the kernel names one that is not. */
struct inode *inode_hold(fuse_req_t req, fuse_ino_t node);
void inode_drop(struct mount *, struct inode *inode);
struct handle *handle_of(const struct fuse_file_info *fi);
void forget_one(struct mount *, fuse_ino_t node, uint64_t lookups);
/* Sends ENTRY; its lookup is undone where the kernel did not take it. */
void reply_entry(fuse_req_t req, const struct fuse_entry_param *entry);

/* Counts, reports what has a message as NAME in DIR, and gives the positive errno to answer. */
int outcome(struct mount *, enum op_counter op, const struct inode *dir, const char *name, int code,
            const struct err *);
/* The same for an operation on an inode: reported under its directory and name. */
int outcome_of(struct mount *, enum op_counter op, const struct inode *inode, int code,
               const struct err *);

/* A request that may wait for a service: given up when its caller is (interrupt.c). Ended before
 * the reply. READING: it changes nothing, and is given up also where the mount ends; any other only
 * as long as nothing was sent. REQ NULL: what is done behind a reply; nobody waits for that. */
struct interrupt {
    fuse_req_t req;
    atomic_bool *flag; /* NULL: it cannot take long */
    atomic_bool own;
    bool reading;
};
void interrupt_begin(struct interrupt *, fuse_req_t req, const struct inode *inode, bool reading);
void interrupt_end(struct interrupt *);
/* Whether the caller of REQ, which was interrupted, is about to end or was asked to. */
bool interrupt_is_meant(fuse_req_t req, bool reading);

void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t node, const char *data, size_t size, off_t offset,
              struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi);
void op_poll(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll);
void op_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                    struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi);
void op_statfs(fuse_req_t req, fuse_ino_t node);
void op_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t node, size_t size);
void op_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
                 int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t node, const char *name);

#endif
