/* SPDX-License-Identifier: MIT */
/* What stat shows, and what chmod, chown, touch and truncate do. */
#include "fs/operations.h"

#include <errno.h>

#include "fs/changes.h"

static struct timespec time_of(int64_t ns)
{
    struct timespec time = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    if (time.tv_nsec < 0) {
        time.tv_sec--;
        time.tv_nsec += NS_PER_S;
    }
    return time;
}

static mode_t mode_of(const struct mount *mount, const struct inode *inode)
{
    mode_t mask = (mode_t)mount->config->umask;
    switch (inode_kind(inode)) {
    case INODE_FILE: return S_IFREG | inode->scratch->mode;
    case INODE_LINK: return S_IFLNK | 0777;
    case INODE_DIRECTORY: return S_IFDIR | inode->scratch->mode;
    case INODE_ITEM: return S_IFREG | (0666 & ~mask);
    case INODE_CONTROL:
        if (inode->meta.change == CONTROL_LINK)
            return S_IFLNK | 0777;
        return inode->meta.change == CONTROL_DIRECTORY ? S_IFDIR | (0755 & ~mask)
                                                       : S_IFREG | (0444 & ~mask);
    default: return S_IFDIR | (0777 & ~mask);
    }
}

/* The kernel counts timeouts in ticks and rounds them up: it is told this much less, in seconds. */
#define CLOCK_TICKS_S 0.02

/* Of what a backend without a log told, in seconds. */
static double service_timeout_of(const struct mount *mount, const struct inode *inode)
{
    double left = (double)told_by_stream_ns(inode) / (double)NS_PER_S - CLOCK_TICKS_S;
    return left > mount->config->cache_ttl ? left : mount->config->cache_ttl;
}

/* Kernel copies never outlive an item's expiry, nor show what is still being written. */
static double timeout_of(const struct mount *mount, const struct inode *inode)
{
    if (inode->kind == INODE_CONTROL || inode->state != INODE_ATTACHED)
        return 0;
    if (inode->edit && (inode->edit->dirty || inode->edit->fresh || inode->edit->saving))
        return 0;
    bool tells = !inode->volume || backend_can(inode->volume->backend, BACKEND_LOG);
    if (inode->kind == INODE_ITEM && inode->doubted)
        return 0;
    double most = tells ? CACHE_FOREVER : mount->config->cache_ttl;
    if (!tells && inode->kind == INODE_ITEM)
        most = service_timeout_of(mount, inode);
    if (inode->kind != INODE_ITEM || inode->meta.ttl <= 0)
        return most;
    double end_s = (double)inode->meta.ttl + (volume_table(inode->volume)->ttl_whole ? 1 : 0);
    double left = end_s - (double)clock_now_ns() / (double)NS_PER_S - CLOCK_TICKS_S;
    return left < 0 ? 0 : left < most ? left : most;
}

void attr_fill_locked(struct mount *mount, struct inode *inode, struct stat *stat,
                      double *ret_timeout)
{
    if (inode->locals) /* its times will move when they reach the backend */
        inode->shown_early = true;
    const struct edit *edit = inode->edit;
    bool edited = edit && edit->loaded;
    uint64_t size = edited ? edit->bytes.len : inode->meta.size;
    bool written = edited && (edit->dirty || edit->fresh);
    *stat = (struct stat){
        .st_ino = inode->number,
        .st_mode = mode_of(mount, inode),
        .st_nlink = 1,
        .st_uid = inode->scratch ? inode->scratch->uid : mount->uid,
        .st_gid = inode->scratch ? inode->scratch->gid : mount->gid,
        .st_size = (off_t)size,
        .st_blksize = 4096,
        .st_blocks = (blkcnt_t)((size + 511) / 512),
        .st_mtim = time_of(written ? edit->mtime_ns : inode->meta.mtime_ns),
        .st_ctim = time_of(written ? edit->mtime_ns : inode->meta.ctime_ns),
    };
    stat->st_atim = stat->st_mtim;
    *ret_timeout = timeout_of(mount, inode);
}

/* Of one that is being written, or in which something is: the name stays, whatever the attributes
 * do, unless what it stands for changes elsewhere. */
static double name_timeout_of(const struct mount *mount, const struct inode *inode)
{
    if (!inode->volume || backend_can(inode->volume->backend, BACKEND_LOG))
        return CACHE_FOREVER;
    if (inode->doubted)
        return 0;
    return service_timeout_of(mount, inode);
}

void entry_fill_locked(struct mount *mount, struct inode *inode, bool alias,
                       struct fuse_entry_param *ret_entry)
{
    *ret_entry = (struct fuse_entry_param){.ino = inode->node};
    attr_fill_locked(mount, inode, &ret_entry->attr, &ret_entry->attr_timeout);
    ret_entry->entry_timeout = alias ? 0 : ret_entry->attr_timeout;
    if (inode->edit || inode->locals)
        ret_entry->entry_timeout = alias ? 0 : name_timeout_of(mount, inode);
    inode->lookups++;
}

/* A control file's size and time are those of what it holds now. */
static int refresh_control(struct mount *mount, struct inode *inode, struct err *err)
{
    cleanup(buf_release) struct buf content;
    buf_init(&content, SIZE_MAX / 2);
    if (changes_refresh(mount, inode))
        return 0;
    enum control_kind kind;
    int code = control_stat(mount, inode_name(inode), &kind, err);
    if (code == 0 && kind != CONTROL_DIRECTORY)
        code = control_read(mount, inode_name(inode), &content, err);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    inode->meta.size = content.len;
    inode->meta.mtime_ns = inode->meta.ctime_ns =
        kind == CONTROL_FILE ? clock_now_ns() : mount->mounted_ns;
    return 0;
}

static int refresh_table(struct mount *mount, struct inode *inode, struct err *err)
{
    struct table *table;
    const struct table *known = volume_table(inode->volume);
    int code = backend_describe(inode->volume->backend, span_text(known->name), &table, err);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    inode->meta.mtime_ns = inode->meta.ctime_ns = table->changed_ns;
    table_free(table);
    return 0;
}

struct refresh {
    struct mount *mount;
    struct inode *dir;
};

static int take_times(void *context, const struct scratch *scratch)
{
    const struct refresh *refresh = context;
    scoped_lock(&refresh->mount->cache->lock);
    refresh->dir->meta.mtime_ns = scratch->mtime_ns;
    refresh->dir->meta.ctime_ns = scratch->ctime_ns;
    return 0;
}

static int refresh_scratch_directory(struct mount *mount, struct inode *dir, struct err *err)
{
    struct refresh refresh = {mount, dir};
    struct scratch place;
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    pthread_mutex_lock(&mount->cache->lock);
    scratch_place(dir->parent, &place);
    buf_add_span(&name, inode_name(dir));
    pthread_mutex_unlock(&mount->cache->lock);
    int code =
        backend_scratch_find(dir->volume->backend, volume_table(dir->volume), place.partition,
                             place.parent, buf_span(&name), take_times, &refresh, err);
    return code == -ENOENT ? 0 : code; /* removed, and still open somewhere */
}

/* What was listed of it counts from an earlier moment, and no longer than before. */
void partition_told_locked(struct mount *mount, struct inode *dir, uint32_t ms)
{
    dir->there = true;
    if (dir->filled && told_counts(mount, dir))
        return;
    dir->filled = false;
    inode_told_at(dir, ms);
}

/* Whether there is no need to ask if DIR, a partition, is there. */
static bool is_there(struct mount *mount, const struct inode *dir, uint32_t since_ms)
{
    scoped_lock(&mount->cache->lock);
    if (!dir->there || dir->doubted || dir->linger ||
        backend_can(dir->volume->backend, BACKEND_LOG))
        return false;
    int32_t later_ms = (int32_t)(cache_ms() - inode_told_ago(dir) - since_ms);
    return later_ms >= 0 || told_counts(mount, dir);
}

static int refresh_partition(struct mount *mount, struct inode *dir, uint32_t since_ms,
                             struct err *err)
{
    bool there = is_there(mount, dir, since_ms);
    uint32_t asked_ms = cache_ms();
    uint64_t items;
    int64_t changed_ns;
    int code = backend_partition(dir->volume->backend, volume_table(dir->volume), inode_name(dir),
                                 there ? NULL : &items, &changed_ns, err);
    if (code < 0 && code != -ENOENT)
        return code;
    scoped_lock(&mount->cache->lock);
    if (code < 0) {
        dir->there = false;
        return dir->linger ? 0 : code;
    }
    dir->meta.mtime_ns = dir->meta.ctime_ns = changed_ns;
    if (!there)
        partition_told_locked(mount, dir, asked_ms);
    return 0;
}

int attr_refresh_directory(struct mount *mount, struct inode *dir, uint32_t since_ms,
                           struct err *err)
{
    if (dir->kind == INODE_CONTROL)
        return refresh_control(mount, dir, err);
    if (dir->kind == INODE_ROOT) {
        scoped_lock(&mount->cache->lock);
        int64_t newest = 0;
        for (struct volume *volume = mount->volumes; volume; volume = volume->next)
            if (volume_table(volume)->created_ns > newest)
                newest = volume_table(volume)->created_ns;
        dir->meta.mtime_ns = dir->meta.ctime_ns = newest ? newest : mount->mounted_ns;
        return 0;
    }
    if (dir->kind == INODE_TABLE)
        return refresh_table(mount, dir, err);
    if (dir->kind == INODE_DIRECTORY)
        return refresh_scratch_directory(mount, dir, err);
    return dir->kind == INODE_PARTITION ? refresh_partition(mount, dir, since_ms, err) : 0;
}

/* --- Changing --- */

static int not_settable(const struct mount *mount, const char *what, struct err *err)
{
    if (mount->config->quiet)
        return 0;
    return err_set(err, EPERM,
                   "%s of items comes from the mount's options and cannot be set "
                   "(-o quiet ignores it)",
                   what);
}

/* Owner and mode: scratch keeps its own, for all else a change to what is there already is fine. */
static int set_owner_and_mode(struct mount *mount, struct inode *inode, const struct stat *attr,
                              int which, bool *ret_scratch, struct err *err)
{
    struct stat now;
    double timeout;
    scoped_lock(&mount->cache->lock);
    attr_fill_locked(mount, inode, &now, &timeout);
    if (inode->scratch) {
        if (which & FUSE_SET_ATTR_MODE)
            inode->scratch->mode = attr->st_mode & 07777;
        if (which & FUSE_SET_ATTR_UID)
            inode->scratch->uid = attr->st_uid;
        if (which & FUSE_SET_ATTR_GID)
            inode->scratch->gid = attr->st_gid;
        *ret_scratch = true;
        return 0;
    }
    if ((which & FUSE_SET_ATTR_MODE) && (attr->st_mode & 07777) != (now.st_mode & 07777))
        return not_settable(mount, "the mode", err);
    if (((which & FUSE_SET_ATTR_UID) && attr->st_uid != now.st_uid) ||
        ((which & FUSE_SET_ATTR_GID) && attr->st_gid != now.st_gid))
        return not_settable(mount, "the owner", err);
    return 0;
}

static int touch_item(struct mount *mount, struct inode *inode, int64_t mtime_ns, struct err *err)
{
    struct key_copy copy;
    pthread_mutex_lock(&mount->cache->lock);
    int code = key_copy_locked(inode, &copy);
    bool gone = inode->state != INODE_ATTACHED;
    pthread_mutex_unlock(&mount->cache->lock);
    struct action action = {.kind = ACTION_TOUCH,
                            .table = volume_table(inode->volume),
                            .key = copy.key,
                            .mtime_ns = mtime_ns};
    if (code == 0 && !gone)
        code = backend_write(inode->volume->backend, &action, 1, 0, err);
    key_copy_release(&copy);
    if (code < 0 || gone)
        return code;
    scoped_lock(&mount->cache->lock);
    inode->meta.mtime_ns = action.meta.mtime_ns;
    inode->meta.ctime_ns = action.meta.ctime_ns;
    return 0;
}

static int set_mtime(struct mount *mount, struct inode *inode, const struct stat *attr, int which,
                     struct err *err)
{
    int64_t mtime_ns = which & FUSE_SET_ATTR_MTIME_NOW ? clock_now_ns() : time_ns_of(attr->st_mtim);
    if (mtime_ns == 0) /* 0 means "now" to a backend */
        mtime_ns = 1;
    bool pending = false;
    pthread_mutex_lock(&mount->cache->lock);
    inode_freeze_locked(mount, inode); /* a commit under way keeps its time */
    inode_thaw_locked(mount, inode);
    if (inode->edit && (inode->edit->dirty || inode->edit->fresh)) {
        inode->edit->mtime_ns = mtime_ns;
        inode->edit->timed = pending = true;
    } else if (inode->scratch) {
        inode->meta.mtime_ns = mtime_ns;
    }
    pthread_mutex_unlock(&mount->cache->lock);
    if (pending)
        return 0;
    if (inode->scratch)
        return scratch_write_attributes(mount, inode, err);
    if (inode->kind == INODE_ITEM)
        return touch_item(mount, inode, mtime_ns, err);
    return 0; /* directory times move with changes: rsync and cp set them, and that is accepted */
}

int fs_setattr(struct mount *mount, struct inode *inode, const struct stat *attr, int which,
               struct handle *handle, struct err *err)
{
    if (inode->kind == INODE_CONTROL)
        return err_set(err, EPERM, "control files cannot be changed");
    int code = 0;
    bool scratch = false;
    if (which & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
        code = set_owner_and_mode(mount, inode, attr, which, &scratch, err);
    if (code == 0 && scratch)
        code = scratch_write_attributes(mount, inode, err);
    if (code == 0 && (which & FUSE_SET_ATTR_SIZE))
        code = fs_truncate(mount, inode, attr->st_size, handle, err);
    if (code == 0 && (which & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)))
        code = set_mtime(mount, inode, attr, which, err);
    return code;
}
