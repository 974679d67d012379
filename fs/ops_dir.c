/* SPDX-License-Identifier: MIT */
/* Requests about open directories, the filesystem, and extended attributes. */
#include "fs/ops.h"

#include <errno.h>

#include "base/cancel.h"
#include "fs/listing.h"

#define XATTR_MAX 65536

void op_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, node);
    if (!dir)
        return;
    struct err err = {0};
    struct listing *listing;
    int code = listing_open(mount, dir, &listing, &err);
    fi->cache_readdir = dir->kind != INODE_CONTROL;
    fi->keep_cache = listing_keep(mount, dir);
    int error = outcome_of(mount, OP_READDIR, dir, code, &err);
    inode_drop(mount, dir);
    if (error) {
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uint64_t)(uintptr_t)listing;
    if (fuse_reply_open(req, fi) == -ENOENT)
        listing_free(mount, listing);
}

/* Behind the reply: called off by whoever has no use for it. */
static void look_ahead(struct listing *listing)
{
    struct interrupt interrupt;
    interrupt_begin(&interrupt, NULL, listing->dir, true);
    listing_looks_ahead(listing, interrupt.flag);
    listing_look_ahead(listing);
    listing_looks_ahead(listing, NULL);
    interrupt_end(&interrupt);
}

static void read_directory(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                           struct fuse_file_info *fi, bool plus)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, node);
    if (!dir)
        return;
    struct err err = {0};
    cleanup(buf_release) struct buf out;
    buf_init(&out, SIZE_MAX / 2);
    struct listing *listing = (struct listing *)(uintptr_t)fi->fh;
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, dir, true);
    while (!listing_take_soon(listing)) /* it is looking ahead */
        if (is_cancelled())
            listing_call_off(listing);
    int code = listing_read(listing, req, offset, size, plus, &out, &err);
    interrupt_end(&interrupt);
    int error = outcome_of(mount, OP_READDIR, dir, code, &err);
    inode_drop(mount, dir);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_buf(req, out.data, out.len);
    if (!error && plus && out.len)
        look_ahead(listing);
    listing_leave(listing);
}

void op_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                struct fuse_file_info *fi)
{
    read_directory(req, node, size, offset, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    read_directory(req, node, size, offset, fi, true);
}

void op_releasedir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    struct listing *listing = (struct listing *)(uintptr_t)fi->fh;
    listing_call_off(listing);
    listing_free(mount_of(req), listing);
    fuse_reply_err(req, 0);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    (void)fi;
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, node);
    if (!dir)
        return;
    struct err err = {0};
    grace_run(mount, dir, true);
    int code = dir->volume ? backend_sync(dir->volume->backend, &err) : 0;
    int error = outcome_of(mount, OP_FSYNC, dir, code, &err);
    inode_drop(mount, dir);
    fuse_reply_err(req, error);
}

void op_statfs(fuse_req_t req, fuse_ino_t node)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    struct statvfs stat = {0};
    struct backend *backend = inode->volume ? inode->volume->backend : mount->source->backends[0];
    int code = backend_statfs(backend, &stat, &err);
    stat.f_namemax = 255;
    int error = outcome_of(mount, OP_GETATTR, inode, code, &err);
    inode_drop(mount, inode);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_statfs(req, &stat);
}

/* --- Extended attributes --- */

/* SIZE 0 asks for the length. */
static void reply_xattr(fuse_req_t req, size_t size, const struct buf *value, int error)
{
    if (!error && value->len > XATTR_MAX)
        error = E2BIG;
    if (!error && size != 0 && value->len > size)
        error = ERANGE;
    if (error)
        fuse_reply_err(req, error);
    else if (size == 0)
        fuse_reply_xattr(req, value->len);
    else
        fuse_reply_buf(req, value->data, value->len);
}

void op_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
    struct mount *mount = mount_of(req);
    if (strncmp(name, "user.", 5) != 0) { /* asked before every write: answered at once */
        mount_count(mount, OP_XATTR);
        fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    cleanup(buf_release) struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, true);
    int code = fs_xattr_get(mount, inode, span_text(name), &value, &err);
    interrupt_end(&interrupt);
    if (code == 0)
        code = buf_error(&value);
    int error = outcome_of(mount, OP_XATTR, inode, code, &err);
    inode_drop(mount, inode);
    reply_xattr(req, size, &value, error);
}

void op_listxattr(fuse_req_t req, fuse_ino_t node, size_t size)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    cleanup(buf_release) struct buf list;
    buf_init(&list, SIZE_MAX / 2);
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, true);
    int code = fs_xattr_list(mount, inode, &list, &err);
    interrupt_end(&interrupt);
    int error = outcome_of(mount, OP_XATTR, inode, code, &err);
    inode_drop(mount, inode);
    reply_xattr(req, size, &list, error);
}

/* Setting one holds the inode's lock, not a directory's: the lane of pages may be waited for. */
static void finish_xattr(fuse_req_t req, struct mount *mount, struct inode *inode, int code,
                         bool rewritten, const struct err *err)
{
    int error = outcome_of(mount, OP_XATTR, inode, code, err);
    if (rewritten)
        notify_content(mount, inode);
    inode_drop(mount, inode);
    if (rewritten)
        notify_pages_then_reply(mount, req, -error);
    else
        fuse_reply_err(req, error);
}

void op_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
                 int flags)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    bool rewritten = false;
    int code =
        fs_xattr_set(mount, inode, span_text(name), span_of(value, size), flags, &rewritten, &err);
    finish_xattr(req, mount, inode, code, rewritten, &err);
}

void op_removexattr(fuse_req_t req, fuse_ino_t node, const char *name)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    bool rewritten = false;
    int code = fs_xattr_remove(mount, inode, span_text(name), &rewritten, &err);
    finish_xattr(req, mount, inode, code, rewritten, &err);
}
