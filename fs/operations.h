/* SPDX-License-Identifier: MIT */
/* The operations behind the requests: called by ops*.c, which answer. */
#ifndef FS_OPERATIONS_H
#define FS_OPERATIONS_H

#include "fs/mount.h"

int fs_open(struct mount *, fuse_req_t req, struct inode *inode, struct fuse_file_info *fi,
            struct err *);
int fs_create(struct mount *, fuse_req_t req, struct inode *dir, struct span name, mode_t mode,
              struct fuse_file_info *fi, struct fuse_entry_param *ret_entry, struct err *);
/* Of INODE, on the mount's list; NULL when memory ran out. */
struct handle *handle_new_locked(struct mount *, struct inode *inode, fuse_req_t req, bool write);
/* HANDLE: by which it came; NULL where nobody knows (pages written back). */
int fs_write(struct mount *, struct inode *inode, struct handle *handle, struct span data,
             off_t offset, struct err *);
int fs_flush(struct mount *, fuse_req_t req, struct handle *handle, bool *ret_rewritten,
             struct err *);
void fs_release(struct mount *, struct handle *handle);
/* At the end: what programs still had open. */
void handles_free(struct mount *);
int fs_truncate(struct mount *, struct inode *inode, off_t size, struct handle *handle,
                struct err *);
int fs_setattr(struct mount *, struct inode *inode, const struct stat *attr, int which,
               struct handle *handle, struct err *);
int fs_mkdir(struct mount *, fuse_req_t req, struct inode *dir, struct span name, mode_t mode,
             struct fuse_entry_param *ret_entry, struct err *);
int fs_mknod(struct mount *, fuse_req_t req, struct inode *dir, struct span name, mode_t mode,
             struct fuse_entry_param *ret_entry, struct err *);
int fs_symlink(struct mount *, fuse_req_t req, const char *target, struct inode *dir,
               struct span name, struct fuse_entry_param *ret_entry, struct err *);
int fs_link(struct mount *, fuse_req_t req, struct inode *inode, struct inode *dir,
            struct span name, struct fuse_entry_param *ret_entry, struct err *);
int fs_unlink(struct mount *, fuse_req_t req, struct inode *dir, struct span name, struct err *);
int fs_rmdir(struct mount *, struct inode *dir, struct span name, struct err *);
int fs_rename(struct mount *, struct inode *dir, struct span name, struct inode *new_dir,
              struct span new_name, unsigned flags, pid_t pid, struct inode **ret_rewritten,
              struct err *);
int fs_xattr_get(struct mount *, struct inode *inode, struct span name, struct buf *out,
                 struct err *);
int fs_xattr_set(struct mount *, struct inode *inode, struct span name, struct span value,
                 int flags, bool *ret_rewritten, struct err *);
int fs_xattr_remove(struct mount *, struct inode *inode, struct span name, bool *ret_rewritten,
                    struct err *);
int fs_xattr_list(struct mount *, struct inode *inode, struct buf *out, struct err *);
/* Whether the attribute of ours NAME (what follows "user.itemfs.") asks for an update of an item,
 * "add.hits": then RET_UPDATE is that with VALUE, and points to both. (update.c) */
bool update_from_xattr(struct span name, struct span value, struct update *ret_update);
int fs_update(struct mount *, struct inode *inode, const struct update *, struct err *);

/* Listings (dir.c) answer for themselves. */
struct listing;
int listing_open(struct mount *, struct inode *dir, struct listing **ret_listing, struct err *);
void listing_free(struct mount *, struct listing *);
void listings_free(struct mount *); /* at the end: those that programs still had open */
/* One request at a time reads a listing. */
void listing_take(struct listing *);
void listing_leave(struct listing *);
/* Fills OUT with entries from OFFSET on, SIZE bytes at most; PLUS: with attributes. */
int listing_read(struct listing *, fuse_req_t req, off_t offset, size_t size, bool plus,
                 struct buf *out, struct err *);
/* Makes ready what the next read will give with attributes. */
void listing_look_ahead(struct listing *);
/* Whether the kernel may keep an earlier listing of the directory. */
bool listing_keep(struct mount *, struct inode *dir);

#endif
