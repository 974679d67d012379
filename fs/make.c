/* SPDX-License-Identifier: MIT */
/* mkdir, mknod, symlink, link. */
#include "fs/operations.h"

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"

static void answer(struct mount *mount, struct inode *inode, struct fuse_entry_param *ret_entry)
{
    scoped_lock(&mount->cache->lock);
    entry_fill_locked(mount, inode, false, ret_entry);
}

static int make_table(struct mount *mount, struct span name, struct fuse_entry_param *ret_entry,
                      struct err *err)
{
    if (name.data[0] == '.')
        return err_set(err, EPERM, "a hidden name is no table");
    int code = table_check_name(name, err);
    if (code < 0)
        return code;
    struct table *table = source_new_table(mount->source, name);
    if (!table)
        return -ENOMEM;
    config_apply(mount->config, table);
    code = backend_create_table(source_backend_for(mount->source, name), table, err);
    table_free(table);
    if (code == 0)
        code = volume_load(mount, name, err);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    struct volume *volume = volume_find_locked(mount, name);
    struct inode *inode = volume ? adopt_table_locked(mount, volume) : NULL;
    if (!inode)
        return err_set(err, ENOENT, "the table was dropped again");
    entry_fill_locked(mount, inode, false, ret_entry);
    return 0;
}

/* A partition has no existence of its own: until it holds an item, this mount alone knows it. */
static int make_partition(struct mount *mount, struct inode *dir, struct span name,
                          struct span part, struct fuse_entry_param *ret_entry, struct err *err)
{
    struct inode *existing;
    int code = resolve(mount, dir, name, &existing, NULL, err);
    if (code != -ENOENT) {
        if (code == 0) {
            scoped_lock(&mount->cache->lock);
            inode_unref(mount->cache, existing);
        }
        return code < 0 ? code : err_set(err, EEXIST, "it is there already");
    }
    scoped_lock(&mount->cache->lock);
    struct inode *inode = adopt_partition_locked(mount, dir, part, clock_now_ns());
    if (!inode)
        return -ENOMEM;
    inode->linger = true;
    inode_list_locally(inode);
    cache_moved(mount->cache, dir, part);
    entry_fill_locked(mount, inode, false, ret_entry);
    return 0;
}

/* A new scratch object that is stored at once, as WANTED (kind, mode, mtime_ns, ttl) says. */
static int make_scratch(struct mount *mount, fuse_req_t req, struct inode *dir, struct span name,
                        const struct scratch *wanted, struct span body, struct inode **ret_inode,
                        struct err *err)
{
    const struct fuse_ctx *context = fuse_req_ctx(req);
    struct action action = {
        .kind = ACTION_SCRATCH_PUT, .table = volume_table(dir->volume), .body = body};
    struct scratch *scratch = &action.scratch;
    scratch_place(dir, scratch);
    scratch->name = name;
    scratch->kind = wanted->kind;
    scratch->mode =
        wanted->mode & 07777 & ~(wanted->kind == SCRATCH_LINK ? 0 : mount->config->umask);
    scratch->uid = mount->config->allow_other ? context->uid : mount->uid;
    scratch->gid = mount->config->allow_other ? context->gid : mount->gid;
    scratch->mtime_ns = wanted->mtime_ns ? wanted->mtime_ns : clock_now_ns();
    scratch->ttl = wanted->ttl;
    scratch->size = body.len;
    int code = backend_write(dir->volume->backend, &action, 1, 0, err);
    if (code < 0)
        return code;
    scratch->id = action.made_id;
    scratch->version = action.meta.version;
    scratch->ctime_ns = action.meta.ctime_ns;
    scoped_lock(&mount->cache->lock);
    cache_moved(mount->cache, dir, name);
    struct inode *inode = adopt_scratch_locked(mount, dir, scratch, cache_stamp(mount->cache));
    if (!inode)
        return -ENOMEM;
    *ret_inode = inode_ref(inode);
    return 0;
}

static int finish(struct mount *mount, struct inode *inode, struct fuse_entry_param *ret_entry)
{
    answer(mount, inode, ret_entry);
    scoped_lock(&mount->cache->lock);
    inode_unref(mount->cache, inode);
    return 0;
}

int fs_mkdir(struct mount *mount, fuse_req_t req, struct inode *dir, struct span name, mode_t mode,
             struct fuse_entry_param *ret_entry, struct err *err)
{
    if (dir->kind == INODE_CONTROL)
        return err_set(err, EPERM, "nothing can be made in the control directory");
    if (dir->kind == INODE_ROOT)
        return make_table(mount, name, ret_entry, err);
    struct place place;
    int code = place_parse(dir, name, &place, err);
    cleanup(buf_release) struct buf part = place.part;
    if (code < 0)
        return code;
    if (place.kind == PLACE_PARTITION && !place.hashed)
        return make_partition(mount, dir, name, buf_span(&part), ret_entry, err);
    if (dir->kind != INODE_DIRECTORY && (name.data[0] != '.' || place.kind != PLACE_SCRATCH))
        return err_set(err, EPERM, "table %s has no directories%s", volume_table(dir->volume)->name,
                       dir->kind == INODE_PARTITION ? " in its partitions"
                                                    : ": it has no sort key");
    struct inode *inode;
    mode &= ~fuse_req_ctx(req)->umask;
    const struct scratch wanted = {.kind = SCRATCH_DIRECTORY, .mode = mode};
    code = make_scratch(mount, req, dir, name, &wanted, span_of("", 0), &inode, err);
    return code < 0 ? code : finish(mount, inode, ret_entry);
}

int fs_symlink(struct mount *mount, fuse_req_t req, const char *target, struct inode *dir,
               struct span name, struct fuse_entry_param *ret_entry, struct err *err)
{
    struct place place;
    int code = place_parse(dir, name, &place, err);
    if (code == 0)
        code = creatable(dir, &place, name, err);
    bool item = place.kind == PLACE_ITEM;
    buf_release(&place.part);
    if (code < 0)
        return code;
    if (item)
        return err_set(err, EPERM, "an item is a file, not a link");
    struct inode *inode;
    const struct scratch wanted = {.kind = SCRATCH_LINK, .mode = 0777};
    code = make_scratch(mount, req, dir, name, &wanted, span_text(target), &inode, err);
    return code < 0 ? code : finish(mount, inode, ret_entry);
}

int fs_mknod(struct mount *mount, fuse_req_t req, struct inode *dir, struct span name, mode_t mode,
             struct fuse_entry_param *ret_entry, struct err *err)
{
    if (!S_ISREG(mode))
        return err_set(err, EPERM, "only files can be made here");
    struct fuse_file_info fi = {.flags = O_CREAT | O_EXCL | O_WRONLY};
    int code = fs_create(mount, req, dir, name, mode, &fi, ret_entry, err);
    if (code == 0)
        fs_release(mount, (struct handle *)(uintptr_t)fi.fh); /* saves it, empty */
    return code;
}

/* Editors make backups by linking an item to a scratch name: that is a copy. */
int fs_link(struct mount *mount, fuse_req_t req, struct inode *inode, struct inode *dir,
            struct span name, struct fuse_entry_param *ret_entry, struct err *err)
{
    if (dir->kind == INODE_CONTROL || dir->kind == INODE_ROOT || inode->kind == INODE_CONTROL)
        return err_set(err, EPERM, "no links here");
    struct place place;
    int code = place_parse(dir, name, &place, err);
    if (code == 0)
        code = creatable(dir, &place, name, err);
    bool scratch = place.kind == PLACE_SCRATCH;
    buf_release(&place.part);
    if (code < 0)
        return code;
    if (!scratch || inode->kind != INODE_ITEM)
        return err_set(err, EPERM, "an item has one name: no hard links");
    code = save(mount, inode, 0, NULL, err);
    struct body *body = NULL;
    if (code == 0)
        code = inode_load(mount, inode, &body, err);
    if (!body)
        return code ? code : -ENOMEM;
    struct inode *copy;
    const struct scratch wanted = {.kind = SCRATCH_FILE,
                                   .mode = 0666 & ~mount->config->umask,
                                   .mtime_ns = inode->meta.mtime_ns,
                                   .ttl = inode->meta.ttl};
    code = make_scratch(mount, req, dir, name, &wanted, body_span(body), &copy, err);
    body_unref(body);
    return code < 0 ? code : finish(mount, copy, ret_entry);
}
