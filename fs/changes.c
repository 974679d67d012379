/* SPDX-License-Identifier: MIT */
/*
 * The change streams as files that can be followed: .itemfs/changes/TABLE.jsonl, a record a line.
 *
 * A stream can only be read onwards; a file is read from any place, by many, at any speed. So while
 * somebody has a table's file open, its changes are kept in a spool (spool.h), which a thread fills
 * (feed.c) and all openers share. It begins with what the backend keeps, 24 hours. When the last
 * one closes the file, the spool goes, after some seconds, and the file is empty again.
 *
 * The size of a file that is open grows, and nothing of it is in the kernel's caches: its
 * attributes have no timeout, and reads come here (direct_io). So a program that looks at the size
 * now and then, as `tail -f` does, sees it grow, and one that polls is told.
 *
 * What a file has shown stays at its place for as long as it is open. But who opens it later wants
 * the last 24 hours: so he gets another edition of it, another inode, which begins later in the
 * same spool. The number that stat shows is the same, so that `tail -F` does not begin anew with
 * it. The spool gives up its beginning when no edition can still be handed out that begins there.
 *
 * Where no more can come, or something is missing, an edition ends in an error. Its size is then
 * larger by one byte, which nobody can read: a program that only reads when the size has changed is
 * told too.
 */
#include "fs/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "fs/feed.h"
#include "fs/ops.h"

static bool cut_suffix(struct span name, struct span *ret_table)
{
    size_t len = strlen(CHANGES_SUFFIX);
    if (name.len <= len || memcmp(name.data + name.len - len, CHANGES_SUFFIX, len) != 0)
        return false;
    *ret_table = span_of(name.data, name.len - len);
    return true;
}

static bool table_of(struct span path, struct span *ret_table)
{
    size_t len = strlen(CHANGES_NAME "/");
    return path.len > len && memcmp(path.data, CHANGES_NAME "/", len) == 0 &&
           cut_suffix(span_from(path, len), ret_table);
}

bool changes_is_file(struct span path)
{
    struct span table;
    return table_of(path, &table);
}

static struct volume *volume_of_locked(struct mount *mount, const struct inode *inode)
{
    struct span table;
    return table_of(inode_name(inode), &table) ? volume_find_locked(mount, table) : NULL;
}

int changes_find(struct mount *mount, struct span name, struct err *err)
{
    struct span table;
    if (!cut_suffix(name, &table) || table_check_name(table, NULL) < 0)
        return -ENOENT;
    pthread_mutex_lock(&mount->cache->lock);
    bool found = volume_find_locked(mount, table) != NULL;
    pthread_mutex_unlock(&mount->cache->lock);
    return found ? 0 : volume_load(mount, table, err);
}

/* --- Editions --- */

static struct edition *edition_find(const struct changes *changes, const struct inode *inode)
{
    struct edition *edition = changes->editions;
    while (edition && edition->inode != inode)
        edition = edition->next;
    return edition;
}

/* Whether who opens the file of VOLUME now may get it. */
static bool is_current(const struct edition *edition, const struct volume *volume)
{
    const struct feed *feed = edition->feed;
    return !feed->end && feed->volume == volume &&
           !(feed->spool && spool_is_older(feed->spool, edition->base,
                                           clock_now_ns() - CHANGES_KEPT_NS - CHANGES_SLACK_NS));
}

struct inode *changes_current_locked(struct mount *mount, struct inode *inode)
{
    if (!inode || !changes_is_file(inode_name(inode)))
        return inode;
    pthread_mutex_lock(&mount->changes->lock);
    const struct edition *edition = edition_find(mount->changes, inode);
    bool current = !edition || is_current(edition, volume_of_locked(mount, inode));
    pthread_mutex_unlock(&mount->changes->lock);
    if (current)
        return inode;
    inode_ref(inode);
    inode_detach(mount->cache, inode, INODE_OUTDATED);
    inode_unref(mount->cache, inode);
    return NULL;
}

static uint64_t edition_size(const struct edition *edition)
{
    const struct feed *feed = edition->feed;
    uint64_t size = feed->spool ? spool_size(feed->spool) - edition->base : 0;
    return feed->end ? size + 1 : size;
}

bool changes_refresh(struct mount *mount, struct inode *inode)
{
    pthread_mutex_lock(&mount->cache->lock);
    pthread_mutex_lock(&mount->changes->lock);
    const struct edition *edition = edition_find(mount->changes, inode);
    if (edition) {
        struct spool *spool = edition->feed->spool;
        int64_t newest_ns = spool ? spool_newest(spool) : 0;
        inode->meta.size = edition_size(edition);
        inode->meta.mtime_ns = inode->meta.ctime_ns = newest_ns ? newest_ns : mount->mounted_ns;
    }
    pthread_mutex_unlock(&mount->changes->lock);
    pthread_mutex_unlock(&mount->cache->lock);
    return edition != NULL;
}

static int edition_new(struct mount *mount, struct volume *volume, const struct inode *inode,
                       struct edition **ret_edition, struct err *err)
{
    struct changes *changes = mount->changes;
    struct edition *edition = calloc(1, sizeof *edition);
    struct feed *feed = changes->feeds;
    int code = edition ? 0 : -ENOMEM;
    while (feed && (feed->volume != volume || feed->end))
        feed = feed->next;
    if (code == 0 && !feed)
        code = feed_start_locked(mount, volume, &feed, err);
    if (code < 0) {
        free(edition);
        return code;
    }
    *edition = (struct edition){.inode = inode, .feed = feed, .next = changes->editions};
    if (feed->spool)
        edition->base = spool_since(feed->spool, clock_now_ns() - CHANGES_KEPT_NS);
    feed->editions++;
    changes->editions = edition;
    *ret_edition = edition;
    return 0;
}

static void edition_free(struct changes *changes, struct edition *edition)
{
    struct edition **link = &changes->editions;
    while (*link != edition)
        link = &(*link)->next;
    *link = edition->next;
    if (--edition->feed->editions == 0)
        feed_linger_locked(edition->feed);
    free(edition);
}

/* --- Opening --- */

/* Its caller is about to end. The request is locked, so that it is still there. */
static void on_interrupt(fuse_req_t req, void *context)
{
    struct waiter *waiter = context;
    struct changes *changes = waiter->mount->changes;
    if (!interrupt_is_meant(req, true))
        return;
    pthread_mutex_lock(&changes->lock);
    bool listed = waiter->listed;
    if (listed) {
        struct waiter **link = &waiter->handle->reader->edition->feed->waiters;
        while (*link != waiter)
            link = &(*link)->next;
        *link = waiter->next;
    }
    waiter->given_up = true;
    pthread_mutex_unlock(&changes->lock);
    struct err none = {0};
    if (listed)
        waiter_answer(waiter, -EINTR, &none, true);
}

/* changes->lock is held, too. */
static int list_waiter(struct waiter *waiter, struct volume *volume, struct err *err)
{
    struct mount *mount = waiter->mount;
    struct changes *changes = mount->changes;
    struct edition *edition = edition_find(changes, waiter->inode);
    int code = changes->stopping || waiter->given_up ? -EINTR : 0;
    if (code == 0 && edition && !is_current(edition, volume))
        code = -ESTALE; /* makes the kernel look the path up once more */
    if (code == 0 && !edition)
        code = edition_new(mount, volume, waiter->inode, &edition, err);
    if (code < 0)
        return code;
    struct feed *feed = edition->feed;
    edition->readers++;
    waiter->handle->reader->edition = edition;
    waiter->after_ns = clock_steady_ns() + feed_delay_locked(feed);
    waiter->listed = true;
    waiter->next = feed->waiters;
    feed->waiters = waiter;
    pthread_cond_signal(&feed->wake);
    return 0;
}

static int wait_for_feed(struct waiter *waiter, struct err *err)
{
    struct mount *mount = waiter->mount;
    scoped_lock(&mount->cache->lock);
    struct volume *volume = volume_of_locked(mount, waiter->inode);
    if (!volume)
        return -ENOENT;
    if (waiter->inode->state != INODE_ATTACHED)
        return -ESTALE;
    struct reader *reader = calloc(1, sizeof *reader);
    waiter->handle = reader ? handle_new_locked(mount, waiter->inode, waiter->req, false) : NULL;
    if (!waiter->handle) {
        free(reader);
        return -ENOMEM;
    }
    waiter->handle->reader = reader;
    waiter->info.fh = (uint64_t)(uintptr_t)waiter->handle;
    waiter->info.direct_io = 1;
    waiter->info.noflush = 1;
    pthread_mutex_lock(&mount->changes->lock);
    int code = list_waiter(waiter, volume, err);
    pthread_mutex_unlock(&mount->changes->lock);
    return code;
}

void changes_open(struct mount *mount, fuse_req_t req, struct inode *inode,
                  const struct fuse_file_info *fi)
{
    struct err err = {0};
    struct waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter) {
        inode_drop(mount, inode);
        fuse_reply_err(req, ENOMEM);
        return;
    }
    *waiter = (struct waiter){.req = req, .info = *fi, .mount = mount, .inode = inode};
    feeds_reap(mount);
    fuse_req_interrupt_func(req, on_interrupt, waiter);
    int code = (fi->flags & O_ACCMODE) != O_RDONLY
                   ? err_set(&err, EACCES, "control files cannot be written")
                   : wait_for_feed(waiter, &err);
    if (code < 0) /* else it may have been answered already */
        waiter_answer(waiter, code, &err, false);
}

/* --- Open files --- */

int changes_read(struct mount *mount, struct handle *handle, off_t offset, size_t size,
                 struct buf *out, struct err *err)
{
    struct changes *changes = mount->changes;
    struct reader *reader = handle->reader;
    const struct edition *edition = reader->edition;
    struct err why = {0};
    pthread_mutex_lock(&changes->lock);
    struct spool *spool = edition->feed->spool;
    int end = edition->feed->end; /* before: then there is no more than what is found now */
    pthread_mutex_unlock(&changes->lock);
    int code = spool_read(spool, edition->base + (uint64_t)offset, size, out, &why);
    scoped_lock(&changes->lock);
    if (code == 0 && out->len == 0 && end) {
        code = end;
        why = edition->feed->end_err;
    }
    reader->read_to = (uint64_t)offset + (code < 0 ? 0 : out->len);
    if (code < 0 && !reader->told)
        *err = why;
    reader->told |= code < 0;
    return code;
}

static void list_reader(struct feed *feed, struct reader *reader, struct fuse_pollhandle *poll)
{
    reader->poll = poll;
    reader->next_polled = NULL;
    *feed->last_polled = reader;
    feed->last_polled = &reader->next_polled;
    feed->polled_count++;
}

unsigned changes_poll(struct mount *mount, struct handle *handle, struct fuse_pollhandle *poll)
{
    struct reader *reader = handle->reader;
    struct fuse_pollhandle *old = NULL;
    unsigned events = 0;
    pthread_mutex_lock(&mount->changes->lock);
    const struct edition *edition = reader->edition;
    struct feed *feed = edition->feed;
    if (poll) { /* listed before it is looked: nothing falls between */
        old = reader->poll;
        feed_unlist_reader_locked(feed, reader);
        list_reader(feed, reader, poll);
    }
    if (edition_size(edition) > reader->read_to)
        events = POLLIN | POLLRDNORM;
    if (feed->end)
        events |= POLLERR;
    pthread_mutex_unlock(&mount->changes->lock);
    if (old)
        fuse_pollhandle_destroy(old);
    return events;
}

void changes_close(struct mount *mount, struct handle *handle)
{
    struct changes *changes = mount->changes;
    struct reader *reader = handle->reader;
    struct edition *edition = reader->edition;
    struct spool *spool = NULL;
    struct fuse_pollhandle *poll = NULL;
    if (edition) {
        scoped_lock(&changes->lock);
        struct feed *feed = edition->feed;
        poll = reader->poll;
        feed_unlist_reader_locked(feed, reader);
        if (--edition->readers == 0)
            edition_free(changes, edition);
        feed_settle_locked(feed, &spool);
    }
    if (poll)
        fuse_pollhandle_destroy(poll);
    spool_free(spool);
    free(reader);
    handle->reader = NULL;
}

/* --- Start and end --- */

int changes_start(struct mount *mount, struct err *err)
{
    (void)err;
    mount->changes = calloc(1, sizeof *mount->changes);
    if (!mount->changes)
        return -ENOMEM;
    pthread_mutex_init(&mount->changes->lock, NULL);
    pthread_cond_init(&mount->changes->idle, NULL);
    return 0;
}

void changes_stop(struct mount *mount)
{
    struct changes *changes = mount->changes;
    if (!changes)
        return;
    pthread_mutex_lock(&changes->lock);
    changes->stopping = true;
    for (struct feed *feed = changes->feeds; feed; feed = feed->next)
        feed_cancel_locked(feed);
    while (changes->running)
        pthread_cond_wait(&changes->idle, &changes->lock);
    pthread_mutex_unlock(&changes->lock);
    for (struct handle *handle = mount->handles; handle; handle = handle->next)
        if (handle->reader) /* a program has it open still; no request comes any more */
            changes_close(mount, handle);
    feeds_reap(mount);
    pthread_cond_destroy(&changes->idle);
    pthread_mutex_destroy(&changes->lock);
    free(changes);
    mount->changes = NULL;
}
