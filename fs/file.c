/* SPDX-License-Identifier: MIT */
/*
 * Open files. What is written goes to the inode's edit, which all openers share, as they share the
 * kernel's pages. When it is committed follows from what programs do (docs/FUSE.md):
 *
 *   flush, nothing written          nothing; shells close a descriptor right after opening
 *   flush after a write             commit
 *   flush of a file just truncated  nothing while its opener or a child of it has it open still (a
 *                                   shell has duplicated it); else emptying an item is refused
 *   flush of a new, empty file      likewise; else an item without attributes is saved
 *   flush by who wrote nothing      nothing, while somebody else has the file open for writing
 *   truncation by somebody else     commit what is there, if it can be; the writer's own flush has
 *                                   nothing to do then
 *   fsync                           commit what there is, durably
 *   release of the last writer      what no flush has seen: late pages of mmap, no flush at all
 */
#include "fs/operations.h"

#include <errno.h>
#include <fcntl.h>

#include "fs/changes.h"

struct handle *handle_new_locked(struct mount *mount, struct inode *inode, fuse_req_t req,
                                 bool write)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    handle->inode = inode_ref(inode);
    handle->write = write;
    handle->opener = fuse_req_ctx(req)->pid;
    handle->next = mount->handles;
    handle->link = &mount->handles;
    if (handle->next)
        handle->next->link = &handle->next;
    mount->handles = handle;
    return handle;
}

static void handle_free_locked(struct mount *mount, struct handle *handle)
{
    *handle->link = handle->next;
    if (handle->next)
        handle->next->link = handle->link;
    body_unref(handle->content);
    inode_unref(mount->cache, handle->inode);
    free(handle);
}

void handles_free(struct mount *mount)
{
    scoped_lock(&mount->cache->lock);
    while (mount->handles)
        handle_free_locked(mount, mount->handles);
}

static void handle_to_info(struct handle *handle, struct fuse_file_info *fi)
{
    fi->fh = (uint64_t)(uintptr_t)handle;
    fi->keep_cache = 1; /* an inode's pages are right as long as it has its name (inode.h) */
    fi->noflush = !handle->write;
}

static int open_control(struct mount *mount, fuse_req_t req, struct inode *inode,
                        struct fuse_file_info *fi, struct err *err)
{
    if ((fi->flags & O_ACCMODE) != O_RDONLY)
        return err_set(err, EACCES, "control files cannot be written");
    cleanup(buf_release) struct buf content;
    buf_init(&content, SIZE_MAX / 2);
    int code = control_read(mount, inode_name(inode), &content, err);
    struct body *body = code == 0 ? body_new(buf_span(&content)) : NULL;
    if (!body)
        return code ? code : -ENOMEM;
    scoped_lock(&mount->cache->lock);
    struct handle *handle = handle_new_locked(mount, inode, req, false);
    if (!handle) {
        body_unref(body);
        return -ENOMEM;
    }
    handle->content = body;
    fi->fh = (uint64_t)(uintptr_t)handle;
    fi->direct_io = 1;
    fi->noflush = 1;
    return 0;
}

/* Whether something came by HANDLE that was neither saved nor refused yet. */
static bool wrote_locked(const struct handle *handle)
{
    return handle && handle->inode->edit && handle->wrote == handle->inode->edit->round;
}

/* From here on the inode has a writer; the kernel's pages are not filled behind its back. */
static int begin_writing_locked(struct mount *mount, struct inode *inode, pid_t author)
{
    while (inode->storing)
        pthread_cond_wait(&mount->cache->changed, &mount->cache->lock);
    size_t max = inode->kind == INODE_ITEM ? mount->config->max_item_size : SCRATCH_SIZE_MAX;
    struct edit *edit = inode_edit(inode, max);
    if (!edit)
        return -ENOMEM;
    edit->writers++;
    edit->author = author;
    return 0;
}

/*
 * What others have written to an item and not closed yet is saved before HANDLE (NULL: nobody's)
 * truncates it. Programs that take turns under a lock unlock before they close: the next one
 * truncates what has its say in the store only then.
 */
static void save_of_others(struct mount *mount, struct inode *inode, const struct handle *handle)
{
    pthread_mutex_lock(&mount->cache->lock);
    const struct edit *edit = inode->kind == INODE_ITEM ? inode->edit : NULL;
    bool others = edit && edit->dirty && edit->written && !wrote_locked(handle);
    pthread_mutex_unlock(&mount->cache->lock);
    struct err err = {0};
    if (others)
        (void)save(mount, inode, SAVE_TRY, NULL, &err);
}

static int truncate_on_open(struct mount *mount, struct inode *inode, struct handle *handle,
                            struct err *err)
{
    save_of_others(mount, inode, handle);
    struct edit *edit;
    int code = edit_empty(mount, inode, &edit, err);
    if (code < 0)
        return code;
    if (!edit->fresh) {
        edit->dirty = edit->emptied = true;
        edit->written = false;
    }
    edit->code = 0;
    edit->timed = false;
    edit->ttl_set = false;
    edit->mtime_ns = clock_now_ns();
    handle->wrote = edit->round;
    pthread_mutex_unlock(&mount->cache->lock);
    return 0;
}

#define OUTDATED_OPEN_MS 100 /* half of what a change made elsewhere may take to be seen */

/*
 * Whether an inode that a path led to may still be opened. What was replaced by a rename here, or
 * changed elsewhere a moment ago, is still whole: a reader gets it as it was. That matters where
 * somebody replaces an item all the time, since the kernel looks a path up only once more.
 */
static bool may_open_locked(const struct inode *inode, bool write)
{
    switch (inode->state) {
    case INODE_ATTACHED: return !inode_expired(inode);
    case INODE_REMOVED: return inode->refs > 1 || (inode->replaced && inode->body);
    case INODE_OUTDATED:
        return !write && !inode->superseded && !inode->edit && inode->body &&
               inode_told_ago(inode) < OUTDATED_OPEN_MS;
    }
    return false;
}

/* Reads of an item that cannot be shown would find a file of no bytes. */
static int check_readable(struct mount *mount, struct inode *inode, struct err *err)
{
    pthread_mutex_lock(&mount->cache->lock);
    bool unreadable = inode->meta.unreadable && !(inode->edit && inode->edit->loaded);
    pthread_mutex_unlock(&mount->cache->lock);
    struct body *body;
    if (!unreadable)
        return 0;
    int code = inode_load(mount, inode, &body, err);
    if (code == 0) /* it is not any more: the path leads elsewhere in a moment */
        body_unref(body);
    return code;
}

int fs_open(struct mount *mount, fuse_req_t req, struct inode *inode, struct fuse_file_info *fi,
            struct err *err)
{
    if (inode->kind == INODE_CONTROL)
        return open_control(mount, req, inode, fi, err);
    bool write = (fi->flags & O_ACCMODE) != O_RDONLY;
    struct handle *handle = NULL;
    int code = 0;
    pthread_mutex_lock(&mount->cache->lock);
    if (!may_open_locked(inode, write)) /* ESTALE makes the kernel look the path up once more */
        code = -ESTALE;
    else if (write)
        code = begin_writing_locked(mount, inode, fuse_req_ctx(req)->pid);
    if (code == 0) {
        handle = handle_new_locked(mount, inode, req, write);
        if (!handle && write)
            inode->edit->writers--;
    }
    pthread_mutex_unlock(&mount->cache->lock);
    if (!handle)
        return code ? code : -ENOMEM;
    if (!(fi->flags & O_TRUNC) || !write)
        code = check_readable(mount, inode, err);
    if (code == 0 && write && (fi->flags & O_TRUNC))
        code = truncate_on_open(mount, inode, handle, err);
    if (code == 0)
        handle_to_info(handle, fi);
    else
        fs_release(mount, handle);
    return code;
}

/* --- Creating --- */

static int new_item_locked(struct mount *mount, struct inode *dir, struct span part,
                           struct inode **ret_inode)
{
    if (inode_find(mount->cache, dir, CLASS_ITEM, part))
        return -EEXIST;
    struct inode *inode = inode_new(mount->cache, dir, INODE_ITEM, part, dir->volume);
    if (!inode)
        return -ENOMEM;
    struct edit *edit = inode_edit(inode, mount->config->max_item_size);
    if (!edit) {
        inode_unref(mount->cache, inode_ref(inode));
        return -ENOMEM;
    }
    struct grace *grace = grace_find_locked(mount, dir, part);
    edit->fresh = edit->loaded = true;
    edit->base = grace ? grace->version : 0;
    edit->mtime_ns = clock_now_ns();
    inode->meta.ttl = grace ? grace->ttl : 0;
    cache_moved(mount->cache, dir, part);
    inode_list_locally(inode);
    *ret_inode = inode;
    return 0;
}

static int new_scratch_locked(struct mount *mount, fuse_req_t req, struct inode *dir,
                              struct span name, mode_t mode, struct inode **ret_inode)
{
    if (inode_find(mount->cache, dir, CLASS_SCRATCH, name))
        return -EEXIST;
    struct scratch_state *state = calloc(1, sizeof *state);
    struct inode *inode =
        state ? inode_new(mount->cache, dir, INODE_FILE, name, dir->volume) : NULL;
    if (!inode) {
        free(state);
        return -ENOMEM;
    }
    const struct fuse_ctx *context = fuse_req_ctx(req);
    *state = (struct scratch_state){.mode = mode & 07777 & ~(context->umask | mount->config->umask),
                                    .uid = mount->config->allow_other ? context->uid : mount->uid,
                                    .gid = mount->config->allow_other ? context->gid : mount->gid};
    inode->scratch = state;
    struct edit *edit = inode_edit(inode, SCRATCH_SIZE_MAX);
    if (!edit) {
        inode_unref(mount->cache, inode_ref(inode));
        return -ENOMEM;
    }
    edit->fresh = edit->loaded = true;
    edit->mtime_ns = clock_now_ns();
    cache_moved(mount->cache, dir, name);
    inode_list_locally(inode);
    *ret_inode = inode;
    return 0;
}

int creatable(const struct inode *dir, const struct place *place, struct span name, struct err *err)
{
    if (dir->kind == INODE_CONTROL || place->kind == PLACE_CONTROL)
        return err_set(err, EPERM, "nothing can be made in the control directory");
    if (dir->kind == INODE_ROOT)
        return err_set(err, EPERM, "a file lives in a table: mkdir makes one");
    if (place->hashed)
        return err_set(err, EINVAL,
                       "a name that ends in ~ and a hash stands for a long key: it "
                       "cannot be made by name (itemctl put takes any key)");
    if (place->kind == PLACE_SCRATCH && !backend_can(dir->volume->backend, BACKEND_KEEPS_BYTES) &&
        !name_is_temporary(name))
        return err_set(err, EINVAL,
                       "table %s holds items only, and their names end in .json; files of other "
                       "names stay on this machine, so only names of temporary files and backups "
                       "are taken",
                       volume_table(dir->volume)->name);
    if (dir->kind == INODE_TABLE && !dir_holds_items(dir) && name_is_item(name))
        return err_set(err, EINVAL,
                       "items of table %s live in partition directories: mkdir makes "
                       "one",
                       volume_table(dir->volume)->name);
    return 0;
}

int fs_create(struct mount *mount, fuse_req_t req, struct inode *dir, struct span name, mode_t mode,
              struct fuse_file_info *fi, struct fuse_entry_param *ret_entry, struct err *err)
{
    struct place place;
    int code = place_find(mount, dir, name, &place, err);
    cleanup(buf_release) struct buf part = place.part;
    if (code == 0)
        code = creatable(dir, &place, name, err);
    struct inode *existing = NULL;
    if (code == 0) {
        code = place.kind == PLACE_ITEM ? resolve_item(mount, dir, buf_span(&part), &existing, err)
                                        : resolve(mount, dir, name, &existing, NULL, err);
        if (code == -ENOENT) {
            err_clear(err);
            code = 0;
        }
    }
    if (code < 0)
        return code;
    struct inode *inode = NULL;
    struct handle *handle = NULL;
    if (existing) { /* made elsewhere since the kernel looked */
        code = (fi->flags & O_EXCL) ? -EEXIST : 0;
        if (code == 0 && existing->kind != INODE_ITEM && existing->kind != INODE_FILE)
            code = -EISDIR;
        if (code == 0)
            code = fs_open(mount, req, existing, fi, err);
        scoped_lock(&mount->cache->lock);
        if (code == 0)
            entry_fill_locked(mount, existing, place.alias, ret_entry);
        inode_unref(mount->cache, existing);
        return code;
    }
    scoped_lock(&mount->cache->lock);
    code = place.kind == PLACE_ITEM ? new_item_locked(mount, dir, buf_span(&part), &inode)
                                    : new_scratch_locked(mount, req, dir, name, mode, &inode);
    if (code < 0)
        return code;
    handle = handle_new_locked(mount, inode, req, true);
    if (!handle) {
        inode_detach(mount->cache, inode, INODE_REMOVED);
        inode_edit_drop(inode);
        inode_unref(mount->cache, inode_ref(inode));
        return -ENOMEM;
    }
    handle->wrote = inode->edit->round;
    inode->edit->writers++;
    inode->edit->author = handle->opener;
    spelling_note_locked(mount, inode, place.alias, handle->opener);
    entry_fill_locked(mount, inode, place.alias, ret_entry);
    handle_to_info(handle, fi);
    return 0;
}

/* --- Writing --- */

static void touched_locked(struct edit *edit, struct handle *handle)
{
    if (handle)
        handle->wrote = edit->round;
    else
        edit->paged = true;
    edit->dirty = edit->written = true;
    edit->emptied = edit->timed = false;
    edit->refused = 0;
    edit->mtime_ns = clock_now_ns();
}

int fs_write(struct mount *mount, struct inode *inode, struct handle *handle, struct span data,
             off_t offset, struct err *err)
{
    struct edit *edit;
    int code = edit_load(mount, inode, &edit, err);
    if (code < 0)
        return code;
    size_t end = (size_t)offset + data.len;
    if (end > edit->bytes.max) {
        edit->code = -EFBIG; /* what was written before is no whole text any more */
        code = err_set(err, EFBIG, "larger than the limit of %zu bytes%s", edit->bytes.max,
                       inode->kind == INODE_ITEM ? " (max_item_size)" : "");
    } else {
        if (end > edit->bytes.len)
            buf_resize(&edit->bytes, end);
        code = buf_error(&edit->bytes);
        if (code == 0) {
            memcpy(edit->bytes.data + offset, data.data, data.len);
            touched_locked(edit, handle);
        }
    }
    pthread_mutex_unlock(&mount->cache->lock);
    return code;
}

static void truncation_done(struct mount *mount, struct inode *inode)
{
    scoped_lock(&mount->cache->lock);
    if (--inode->edit->writers == 0 && !inode->edit->saving)
        inode_edit_drop(inode);
}

int fs_truncate(struct mount *mount, struct inode *inode, off_t size, struct handle *handle,
                struct err *err)
{
    bool by_handle = handle != NULL;
    if (inode->kind != INODE_ITEM && inode->kind != INODE_FILE)
        return err_set(err, EISDIR, "not a file");
    struct edit *edit;
    int code = 0;
    if (!by_handle) { /* no open came before: wait for the kernel's pages to be left alone */
        scoped_lock(&mount->cache->lock);
        while (inode->storing)
            pthread_cond_wait(&mount->cache->changed, &mount->cache->lock);
        size_t max = inode->kind == INODE_ITEM ? mount->config->max_item_size : SCRATCH_SIZE_MAX;
        if (!inode_edit(inode, max))
            return -ENOMEM;
        inode->edit->writers++; /* nobody drops the edit meanwhile */
    }
    save_of_others(mount, inode, handle);
    code = size == 0 ? edit_empty(mount, inode, &edit, err) : edit_load(mount, inode, &edit, err);
    if (code < 0) {
        if (!by_handle)
            truncation_done(mount, inode);
        return code;
    }
    if ((size_t)size > edit->bytes.max) {
        code = err_set(err, EFBIG, "larger than the limit of %zu bytes", edit->bytes.max);
    } else if (!(edit->fresh && size == 0)) {
        edit->code = 0;
        buf_resize(&edit->bytes, (size_t)size);
        code = buf_error(&edit->bytes);
        touched_locked(edit, handle);
        edit->written = size != 0 || inode->kind == INODE_FILE;
    }
    bool alone = !by_handle && edit->writers == 1;
    pthread_mutex_unlock(&mount->cache->lock);
    if (code == 0 && alone) {
        code = save(mount, inode, 0, NULL, err);
        err_clear(err); /* save has reported it */
    }
    if (!by_handle)
        truncation_done(mount, inode);
    return code;
}

int fs_flush(struct mount *mount, fuse_req_t req, struct handle *handle, bool *ret_rewritten,
             struct err *err)
{
    *ret_rewritten = false;
    if (!handle->write)
        return 0;
    struct inode *inode = handle->inode;
    pid_t pid = fuse_req_ctx(req)->pid;
    pthread_mutex_lock(&mount->cache->lock);
    const struct edit *edit = inode->edit;
    bool pending = edit && (edit->dirty || edit->fresh);
    bool untouched = pending && !edit->written && (edit->fresh || edit->emptied);
    int refused = edit && !pending ? edit->refused : 0;
    bool bystander = pending && !wrote_locked(handle) && !edit->paged && edit->writers > 1;
    unsigned round = edit ? edit->round : 0;
    pthread_mutex_unlock(&mount->cache->lock);
    if (!pending) /* what fsync refused is not saved by closing either */
        return refused;
    if (bystander) /* `touch`, while another one is in the middle of writing */
        return 0;
    if (opener_goes_on(handle->opener, inode, pid, !untouched))
        return 0;
    return save_round(mount, inode, round, untouched ? SAVE_FRESH : 0, ret_rewritten, err);
}

void fs_release(struct mount *mount, struct handle *handle)
{
    struct inode *inode = handle->inode;
    if (handle->reader)
        changes_close(mount, handle);
    if (handle->write) {
        pthread_mutex_lock(&mount->cache->lock);
        bool last = --inode->edit->writers == 0;
        pthread_mutex_unlock(&mount->cache->lock);
        struct err err = {0};
        if (last) /* nobody hears the error: it is in the log, the draft and the xattr */
            (void)save(mount, inode, SAVE_FRESH | SAVE_LAST, NULL, &err);
        scoped_lock(&mount->cache->lock);
        struct edit *edit = inode->edit;
        if (last && edit && edit->writers == 0 && !edit->saving) {
            inode_unlist(inode);
            inode_edit_drop(inode);
        }
    }
    scoped_lock(&mount->cache->lock);
    handle_free_locked(mount, handle);
}
