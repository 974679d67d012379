/* SPDX-License-Identifier: MIT */
/* Requests about open files. */
#include "fs/ops.h"

#include <errno.h>
#include <poll.h>

#include "fs/changes.h"

void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    if (mount->config->read_only) { /* from now on the kernel reads without asking */
        fuse_reply_err(req, ENOSYS);
        return;
    }
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    if (inode->kind == INODE_CONTROL && changes_is_file(inode_name(inode))) {
        changes_open(mount, req, inode, fi);
        return;
    }
    struct err err = {0};
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, true);
    int code = fs_open(mount, req, inode, fi, &err);
    interrupt_end(&interrupt);
    int error = outcome_of(mount, OP_OPEN, inode, code, &err);
    inode_drop(mount, inode);
    if (error)
        fuse_reply_err(req, error);
    else if (fuse_reply_open(req, fi) == -ENOENT) /* interrupted: nobody will release it */
        fs_release(mount, handle_of(fi));
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, parent);
    if (!dir)
        return;
    struct err err = {0};
    struct fuse_entry_param entry;
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, dir, false);
    int code = fs_create(mount, req, dir, span_text(name), mode, fi, &entry, &err);
    interrupt_end(&interrupt);
    int error = outcome(mount, OP_CREATE, dir, name, code, &err);
    inode_drop(mount, dir);
    if (error) {
        fuse_reply_err(req, error);
    } else if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
        forget_one(mount, entry.ino, 1);
        fs_release(mount, handle_of(fi));
    }
}

/* Bytes of CONTENT at OFFSET, SIZE at most. */
static struct span slice(struct span content, off_t offset, size_t size)
{
    size_t at = (size_t)offset;
    if (at >= content.len)
        return span_of("", 0);
    size_t left = content.len - at;
    return span_of(content.data + at, left < size ? left : size);
}

/* What is being written, if anything is: a copy. */
static bool read_edit(struct mount *mount, const struct inode *inode, off_t offset, size_t size,
                      struct buf *out)
{
    scoped_lock(&mount->cache->lock);
    if (!inode->edit || !inode->edit->loaded)
        return false;
    buf_add_span(out, slice(buf_span(&inode->edit->bytes), offset, size));
    return true;
}

static void reply_span(fuse_req_t req, struct span span)
{
    fuse_reply_buf(req, span.data, span.len);
}

static int read_control(struct mount *mount, const struct inode *inode, struct handle *handle,
                        off_t offset, size_t size, struct buf *out, struct err *err)
{
    if (handle && handle->reader)
        return changes_read(mount, handle, offset, size, out, err);
    if (handle) {
        buf_add_span(out, slice(body_span(handle->content), offset, size));
        return 0;
    }
    cleanup(buf_release) struct buf content; /* a read-only mount has no handles */
    buf_init(&content, SIZE_MAX / 2);
    int code = control_read(mount, inode_name(inode), &content, err);
    buf_add_span(out, slice(buf_span(&content), offset, size));
    return code;
}

static int load_to_read(struct mount *mount, fuse_req_t req, struct inode *inode,
                        struct body **ret_body, struct err *err)
{
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, true);
    int code = inode_load(mount, inode, ret_body, err);
    interrupt_end(&interrupt);
    return code;
}

void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    struct body *body = NULL;
    cleanup(buf_release) struct buf copy;
    buf_init(&copy, SIZE_MAX / 2);
    int code = 0;
    if (inode->kind == INODE_CONTROL)
        code = read_control(mount, inode, handle_of(fi), offset, size, &copy, &err);
    else if (!read_edit(mount, inode, offset, size, &copy))
        code = load_to_read(mount, req, inode, &body, &err);
    if (code == 0)
        code = buf_error(&copy);
    int error = outcome_of(mount, OP_READ, inode, code, &err);
    inode_drop(mount, inode);
    if (error)
        fuse_reply_err(req, error);
    else
        reply_span(req, body ? slice(body_span(body), offset, size) : buf_span(&copy));
    body_unref(body);
}

void op_write(fuse_req_t req, fuse_ino_t node, const char *data, size_t size, off_t offset,
              struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    struct handle *handle = fi->writepage ? NULL : handle_of(fi);
    int code = fs_write(mount, inode, handle, span_of(data, size), offset, &err);
    int error = outcome_of(mount, OP_WRITE, inode, code, &err);
    inode_drop(mount, inode);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_write(req, size);
}

/* After a save: the answer waits until the kernel's caches are right. */
static void finish_save(fuse_req_t req, struct mount *mount, struct inode *inode, int code,
                        bool rewritten)
{
    inode_drop(mount, inode);
    if (code < 0 || rewritten) {
        notify_names_then_reply(mount, req, code);
        return;
    }
    fuse_reply_err(req, 0);
    notify_names_leave(mount);
}

void op_flush(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    struct handle *handle = handle_of(fi);
    if (mount->config->read_only || !handle) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    bool rewritten = false;
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, false);
    notify_names_work_off();
    int code = fs_flush(mount, req, handle, &rewritten, &err);
    interrupt_end(&interrupt);
    outcome(mount, OP_FLUSH, inode, "", code, NULL); /* saving reports by itself */
    finish_save(req, mount, inode, code, rewritten);
}

void op_fsync(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    (void)fi;
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, false);
    int code = save(mount, inode, SAVE_DURABLE | SAVE_FRESH, NULL, &err);
    interrupt_end(&interrupt);
    outcome(mount, OP_FSYNC, inode, "", code, NULL);
    if (code == 0 && inode->volume) { /* also what was committed by closing */
        code = backend_sync(inode->volume->backend, &err);
        outcome_of(mount, OP_FSYNC, inode, code, &err);
    }
    /* The kernel holds the inode's lock over this, and who holds its directory's may wait for that:
     * so nothing is waited for that needs the directory's. */
    inode_drop(mount, inode);
    fuse_reply_err(req, -code);
}

void op_release(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    if (handle_of(fi))
        fs_release(mount_of(req), handle_of(fi));
    fuse_reply_err(req, 0);
}

void op_poll(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll)
{
    (void)node;
    struct handle *handle = handle_of(fi);
    unsigned events = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM; /* as of any file */
    if (handle && handle->reader)
        events = changes_poll(mount_of(req), handle, poll);
    else if (poll)
        fuse_pollhandle_destroy(poll);
    fuse_reply_poll(req, events);
}
