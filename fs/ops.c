/* SPDX-License-Identifier: MIT */
/* Requests about names and attributes, and the table of all requests. */
#include "fs/ops.h"

#include <errno.h>

struct mount *mount_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

/* The inode with a reference; NULL (and a reply) where the kernel names one that is not. */
struct inode *inode_hold(fuse_req_t req, fuse_ino_t node)
{
    struct mount *mount = mount_of(req);
    pthread_mutex_lock(&mount->cache->lock);
    struct inode *inode = inode_get(mount->cache, node);
    const struct volume *volume = inode ? inode->volume : NULL; /* a rename changes it */
    bool control = inode && inode->kind == INODE_CONTROL;
    if (inode)
        inode_ref(inode);
    pthread_mutex_unlock(&mount->cache->lock);
    if (!inode)
        fuse_reply_err(req, ESTALE);
    else if (!control)
        settle(mount, volume);
    return inode;
}

void inode_drop(struct mount *mount, struct inode *inode)
{
    scoped_lock(&mount->cache->lock);
    inode_unref(mount->cache, inode);
}

struct handle *handle_of(const struct fuse_file_info *fi)
{
    return fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
}

/* Counts, and tells what has a message; what goes to the kernel. */
int outcome(struct mount *mount, enum op_counter op, const struct inode *dir, const char *name,
            int code, const struct err *err)
{
    mount_count(mount, op);
    if (code == -EINTR) /* the caller's own wish */
        return EINTR;
    if (code < 0 && code != -ENOENT && code != -EOPNOTSUPP && code != -ENODATA)
        atomic_fetch_add_explicit(&mount->op_errors, 1, memory_order_relaxed);
    if (code < 0 && code != -ENOENT && err && err->text[0])
        report_failure(mount, dir, span_text(name), "refused", code, err);
    return -code;
}

/* The same for an operation on an inode: told under its directory and name. */
int outcome_of(struct mount *mount, enum op_counter op, const struct inode *inode, int code,
               const struct err *err)
{
    if (code >= 0 || !err->text[0])
        return outcome(mount, op, inode, "", code, NULL);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    pthread_mutex_lock(&mount->cache->lock);
    struct inode *dir = inode->parent;
    if (dir) {
        inode_ref(dir);
        inode_file_name(inode, &name);
    }
    buf_add_char(&name, '\0');
    pthread_mutex_unlock(&mount->cache->lock);
    int error = outcome(mount, op, dir ? dir : inode, name.data ? name.data : "", code, err);
    if (dir)
        inode_drop(mount, dir);
    return error;
}

/* The kernel has taken no entry: its lookup is undone. */
void reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
{
    struct mount *mount = mount_of(req);
    if (fuse_reply_entry(req, entry) != -ENOENT || !entry->ino)
        return;
    scoped_lock(&mount->cache->lock);
    inode_forget(mount->cache, inode_get(mount->cache, entry->ino), 1);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    (void)userdata;
    conn->want |=
        conn->capable & (FUSE_CAP_READDIRPLUS | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_AUTO_INVAL_DATA |
                         FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ);
    conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_WRITEBACK_CACHE |
                              FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_POSIX_ACL);
    conn->time_gran = 1;
}

/* The kernel is not to remember that a name is absent where another spelling can make it appear,
 * where nobody may tell of it, nor in the few places where asking again costs nothing. */
static bool may_appear(const struct inode *dir, const char *name)
{
    if (!dir->volume || volume_table(dir->volume)->untold)
        return true;
    return volume_table(dir->volume)->keys == KEYS_TAGS && dir->kind == INODE_TABLE &&
           name_is_item(span_text(name)) && strchr(name, '_');
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, parent), *inode;
    if (!dir)
        return;
    struct err err = {0};
    bool alias = false;
    struct fuse_entry_param entry = {0};
    uint32_t since_ms = cache_ms();
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, dir, true);
    int code = resolve(mount, dir, span_text(name), &inode, &alias, &err);
    if (code == 0 && inode->kind != INODE_ITEM && inode->kind != INODE_FILE &&
        inode->kind != INODE_LINK)
        code = attr_refresh_directory(mount, inode, since_ms, &err);
    interrupt_end(&interrupt);
    if (code == 0) {
        pthread_mutex_lock(&mount->cache->lock);
        entry_fill_locked(mount, inode, alias, &entry);
        spelling_note_locked(mount, inode, alias, fuse_req_ctx(req)->pid);
        inode_unref(mount->cache, inode);
        pthread_mutex_unlock(&mount->cache->lock);
    } else if (code == -ENOENT && !may_appear(dir, name)) {
        entry.entry_timeout = dir->volume && !backend_can(dir->volume->backend, BACKEND_LOG)
                                  ? mount->config->cache_ttl
                                  : NEGATIVE_S;
    }
    int error = outcome(mount, OP_LOOKUP, dir, name, code, &err);
    inode_drop(mount, dir);
    if (error == 0 || (error == ENOENT && entry.entry_timeout > 0))
        reply_entry(req, &entry);
    else
        fuse_reply_err(req, error);
}

void forget_one(struct mount *mount, fuse_ino_t node, uint64_t lookups)
{
    scoped_lock(&mount->cache->lock);
    struct inode *inode = inode_get(mount->cache, node);
    if (inode && inode->parent)
        inode_forget(mount->cache, inode, lookups);
}

static void op_forget(fuse_req_t req, fuse_ino_t node, uint64_t lookups)
{
    forget_one(mount_of(req), node, lookups);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        forget_one(mount_of(req), forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, struct mount *mount, struct inode *inode, int error)
{
    struct stat stat;
    double timeout;
    pthread_mutex_lock(&mount->cache->lock);
    attr_fill_locked(mount, inode, &stat, &timeout);
    inode_unref(mount->cache, inode);
    pthread_mutex_unlock(&mount->cache->lock);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_attr(req, &stat, timeout);
}

/* A path led here that leads nowhere any more, and nobody has it open: ESTALE makes the kernel look
 * the path up once more. */
static bool is_gone(struct mount *mount, const struct inode *inode)
{
    scoped_lock(&mount->cache->lock);
    if (inode->superseded)
        return inode->refs <= 1;
    const struct edit *edit = inode->edit;
    if (inode->state == INODE_ATTACHED && edit) /* written, and its release is still to come */
        return inode_expired(inode) && !edit->dirty && !edit->fresh;
    if (edit || inode->refs > 1 || inode->replaced)
        return false;
    return inode->state == INODE_REMOVED ||
           (inode->state == INODE_ATTACHED && inode_expired(inode));
}

static void op_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)fi;
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    int code = 0;
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, true);
    if (inode->kind == INODE_ITEM || inode->kind == INODE_FILE || inode->kind == INODE_LINK)
        code = is_gone(mount, inode) ? -ESTALE : 0;
    else
        code = attr_refresh_directory(mount, inode, cache_ms() + 1, &err);
    interrupt_end(&interrupt);
    reply_attr(req, mount, inode, outcome_of(mount, OP_GETATTR, inode, code, &err));
}

static void op_setattr(fuse_req_t req, fuse_ino_t node, struct stat *attr, int which,
                       struct fuse_file_info *fi)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, false);
    int code = fs_setattr(mount, inode, attr, which, handle_of(fi), &err);
    interrupt_end(&interrupt);
    reply_attr(req, mount, inode, outcome_of(mount, OP_SETATTR, inode, code, &err));
}

static void op_readlink(fuse_req_t req, fuse_ino_t node)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct err err = {0};
    cleanup(buf_release) struct buf target;
    buf_init(&target, 1 << 16);
    int code = -EINVAL;
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, inode, true);
    if (inode->kind == INODE_LINK)
        code = backend_scratch_read(inode->volume->backend, inode->scratch->id, &target, &err);
    else if (inode->kind == INODE_CONTROL)
        code = control_read(mount, inode_name(inode), &target, &err);
    interrupt_end(&interrupt);
    buf_add_char(&target, '\0');
    if (code == 0)
        code = buf_error(&target);
    int error = outcome_of(mount, OP_READ, inode, code, &err);
    inode_drop(mount, inode);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_readlink(req, target.data);
}

/* --- Making and removing: DIR held, one entry or status out --- */

static void finish_entry(fuse_req_t req, struct inode *dir, const char *name, int code,
                         const struct err *err, const struct fuse_entry_param *entry)
{
    struct mount *mount = mount_of(req);
    int error = outcome(mount, OP_CREATE, dir, name, code, err);
    inode_drop(mount, dir);
    if (error)
        fuse_reply_err(req, error);
    else
        reply_entry(req, entry);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    (void)rdev;
    struct inode *dir = inode_hold(req, parent);
    struct err err = {0};
    struct fuse_entry_param entry;
    if (dir)
        finish_entry(req, dir, name,
                     fs_mknod(mount_of(req), req, dir, span_text(name), mode, &entry, &err), &err,
                     &entry);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct inode *dir = inode_hold(req, parent);
    struct err err = {0};
    struct fuse_entry_param entry;
    if (dir)
        finish_entry(req, dir, name,
                     fs_mkdir(mount_of(req), req, dir, span_text(name), mode, &entry, &err), &err,
                     &entry);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    struct inode *dir = inode_hold(req, parent);
    struct err err = {0};
    struct fuse_entry_param entry;
    if (dir)
        finish_entry(req, dir, name,
                     fs_symlink(mount_of(req), req, target, dir, span_text(name), &entry, &err),
                     &err, &entry);
}

static void op_link(fuse_req_t req, fuse_ino_t node, fuse_ino_t parent, const char *name)
{
    struct mount *mount = mount_of(req);
    struct inode *inode = inode_hold(req, node);
    if (!inode)
        return;
    struct inode *dir = inode_hold(req, parent);
    struct err err = {0};
    struct fuse_entry_param entry;
    int code = dir ? fs_link(mount, req, inode, dir, span_text(name), &entry, &err) : 0;
    inode_drop(mount, inode);
    if (dir)
        finish_entry(req, dir, name, code, &err, &entry);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, parent);
    if (!dir)
        return;
    struct err err = {0};
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, dir, false);
    int code = fs_unlink(mount, req, dir, span_text(name), &err);
    interrupt_end(&interrupt);
    int error = outcome(mount, OP_UNLINK, dir, name, code, &err);
    inode_drop(mount, dir);
    fuse_reply_err(req, error);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, parent);
    if (!dir)
        return;
    struct err err = {0};
    int code = fs_rmdir(mount, dir, span_text(name), &err);
    int error = outcome(mount, OP_UNLINK, dir, name, code, &err);
    inode_drop(mount, dir);
    fuse_reply_err(req, error);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    struct mount *mount = mount_of(req);
    struct inode *dir = inode_hold(req, parent);
    if (!dir)
        return;
    struct inode *new_dir = inode_hold(req, new_parent);
    if (!new_dir) {
        inode_drop(mount, dir);
        return;
    }
    struct err err = {0};
    struct inode *rewritten = NULL;
    struct interrupt interrupt;
    interrupt_begin(&interrupt, req, dir, false);
    int code = fs_rename(mount, dir, span_text(name), new_dir, span_text(new_name), flags,
                         fuse_req_ctx(req)->pid, &rewritten, &err);
    interrupt_end(&interrupt);
    int error = outcome(mount, OP_RENAME, new_dir, new_name, code, &err);
    inode_drop(mount, dir);
    inode_drop(mount, new_dir);
    if (!rewritten) {
        fuse_reply_err(req, error);
        return;
    }
    notify_content(mount, rewritten); /* before anybody can read the old bytes */
    inode_drop(mount, rewritten);
    notify_pages_then_reply(mount, req, -error);
}

const struct fuse_lowlevel_ops itemfs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .open = op_open,
    .create = op_create,
    .read = op_read,
    .write = op_write,
    .flush = op_flush,
    .fsync = op_fsync,
    .release = op_release,
    .poll = op_poll,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .releasedir = op_releasedir,
    .fsyncdir = op_fsyncdir,
    .statfs = op_statfs,
    .setxattr = op_setxattr,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .removexattr = op_removexattr,
};
