/* SPDX-License-Identifier: MIT */
/*
 * Handing the kernel what it will read: the bodies of items that it has just heard of in a listing
 * go into its page cache, and the first `grep -r` after `ls` reads next to nothing from here. A
 * thread of its own does it, so that the listing does not wait.
 *
 * Where walking costs next to nothing, the items are walked through once more when the directory
 * has been listed, and nothing is kept in memory meanwhile but where to begin. Elsewhere the bodies
 * are taken out of the cache, while the listing goes on and they are still there.
 *
 * A body is handed over only for an inode that has its name and that version, and that nobody
 * writes. `storing` marks it, and an open for writing waits until it is over: so a store never puts
 * old bytes over new ones. `filled` marks that it was done, since a listing that is read again has
 * the same items.
 */
#include "fs/mount.h"

#include <errno.h>
#include <string.h>

#include "fs/session.h"

#define BATCH 64
#define BATCH_BYTES (1u << 20)

/* Items of DIR behind AFTER, up to LAST; or INODES. */
struct fill {
    struct inode *dir;  /* a reference */
    struct buf inodes;  /* struct inode *[], with references */
    size_t at;          /* the next of them */
    struct buf after;   /* key part; moves on */
    struct buf last;    /* key part */
    uint64_t bytes_max; /* of kernel pages that may still be filled */
    bool ended;
    struct fill *next;
};

struct filler {
    struct mount *mount;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below; taken alone */
    pthread_cond_t wake;
    struct fill *first, **end;
    bool stopping, started;
};

/* One step of a fill: some items, copied out of the backend. */
struct batch {
    struct fill *fill;
    const struct table *table;
    bool sorted;
    struct buf bytes;
    size_t seen, count;
    struct batch_item {
        size_t part_at, part_len, body_at, body_len; /* in bytes */
        struct body *held;                           /* a reference: the body, instead */
        uint64_t version;
        struct inode *inode; /* a reference, marked as storing; NULL: not wanted */
    } items[BATCH];
};

static struct span part_of(const struct batch *batch, const struct batch_item *item)
{
    return span_of(batch->bytes.data + item->part_at, item->part_len);
}

static int collect(void *context, const struct record *record)
{
    struct batch *batch = context;
    struct fill *fill = batch->fill;
    struct span part = batch->sorted ? record->key.sort : record->key.partition;
    cleanup(buf_release) struct buf rendered;
    buf_init(&rendered, SIZE_MAX / 2);
    struct item_meta meta = record->meta;
    struct span shown;
    batch->seen++;
    fill->ended = span_equal(part, buf_span(&fill->last));
    buf_clear(&fill->after);
    buf_add_span(&fill->after, part);
    uint64_t cost = (meta.size + 4095) & ~UINT64_C(4095);
    if (meta.size == 0 || meta.unreadable || meta.size > FILL_SIZE_MAX || cost > fill->bytes_max ||
        content_show(batch->table, record->key, &meta, record->body, &rendered, &shown, NULL) < 0)
        return fill->ended;
    fill->bytes_max -= cost;
    struct batch_item *item = &batch->items[batch->count++];
    *item = (struct batch_item){
        .part_at = batch->bytes.len, .part_len = part.len, .version = meta.version};
    buf_add_span(&batch->bytes, part);
    item->body_at = batch->bytes.len;
    item->body_len = shown.len;
    buf_add_span(&batch->bytes, shown);
    return fill->ended || batch->bytes.len >= BATCH_BYTES;
}

static int read_batch(struct batch *batch)
{
    struct fill *fill = batch->fill;
    cleanup(buf_release) struct buf after; /* `collect` moves the other one */
    buf_init(&after, SIZE_MAX / 2);
    buf_add_span(&after, buf_span(&fill->after));
    struct walk walk = {.after = dir_key(fill->dir, buf_span(&after)),
                        .in_partition = fill->dir->kind == INODE_PARTITION,
                        .limit = BATCH,
                        .bodies = true};
    return backend_walk(fill->dir->volume->backend, batch->table, &walk, collect, batch, NULL);
}

static bool is_wanted(const struct inode *inode)
{
    return !inode->edit && !inode->storing && !inode->filled && inode->lookups > 0 &&
           !inode_expired(inode);
}

static void choose_locked(struct batch_item *item, struct inode *inode)
{
    item->inode = inode_ref(inode);
    inode->storing = true;
}

static void choose_walked(struct mount *mount, struct batch *batch)
{
    scoped_lock(&mount->cache->lock);
    for (size_t i = 0; i < batch->count; i++) {
        struct batch_item *item = &batch->items[i];
        struct inode *inode =
            inode_find(mount->cache, batch->fill->dir, CLASS_ITEM, part_of(batch, item));
        if (inode && inode->meta.version == item->version && is_wanted(inode))
            choose_locked(item, inode);
    }
}

/* Those of the next inodes that have a name and a body in the cache. */
static void choose_cached(struct mount *mount, struct batch *batch)
{
    struct fill *fill = batch->fill;
    struct inode *const *inodes = (struct inode *const *)(const void *)fill->inodes.data;
    size_t end = fill->inodes.len / sizeof(struct inode *);
    scoped_lock(&mount->cache->lock);
    for (; batch->seen < BATCH && fill->at < end; batch->seen++) {
        struct inode *inode = inodes[fill->at++];
        struct body *body =
            inode->state == INODE_ATTACHED ? inode_use_body(mount->cache, inode) : NULL;
        uint64_t cost = (inode->meta.size + 4095) & ~UINT64_C(4095);
        if (!body || !is_wanted(inode) || inode->meta.size > FILL_SIZE_MAX ||
            cost > fill->bytes_max)
            continue;
        fill->bytes_max -= cost;
        struct batch_item *item = &batch->items[batch->count++];
        *item = (struct batch_item){.held = body_ref(body)};
        choose_locked(item, inode);
    }
    fill->ended = fill->at == end;
}

static void store_item(struct mount *mount, const struct batch *batch, struct batch_item *item)
{
    struct span bytes = item->held ? body_span(item->held)
                                   : span_of(batch->bytes.data + item->body_at, item->body_len);
    struct fuse_bufvec body = FUSE_BUFVEC_INIT(bytes.len);
    body.buf[0].mem = (void *)(uintptr_t)bytes.data;
    if (item->inode &&
        fuse_lowlevel_notify_store(mount->session, item->inode->node, 0, &body, 0) == 0)
        atomic_fetch_add_explicit(&mount->prefilled, 1, memory_order_relaxed);
    body_unref(item->held);
}

static void store_batch(struct mount *mount, struct batch *batch)
{
    struct cache *cache = mount->cache;
    for (size_t i = 0; i < batch->count; i++)
        store_item(mount, batch, &batch->items[i]);
    scoped_lock(&cache->lock);
    for (size_t i = 0; i < batch->count; i++) {
        struct inode *inode = batch->items[i].inode;
        if (!inode)
            continue;
        inode->storing = false;
        inode->filled = true;
        inode_unref(cache, inode);
    }
    pthread_cond_broadcast(&cache->changed);
}

/* False when it is done. */
static bool fill_step(struct mount *mount, struct fill *fill)
{
    struct batch batch = {.fill = fill,
                          .table = volume_table(fill->dir->volume),
                          .sorted = fill->dir->kind == INODE_PARTITION};
    buf_init(&batch.bytes, SIZE_MAX / 2);
    int code = 0;
    if (fill->inodes.len)
        choose_cached(mount, &batch);
    else
        code = read_batch(&batch);
    if (code >= 0 && !buf_error(&batch.bytes)) {
        if (!fill->inodes.len)
            choose_walked(mount, &batch);
        store_batch(mount, &batch);
    }
    buf_release(&batch.bytes);
    return code >= 0 && batch.seen && !fill->ended && fill->bytes_max >= 4096;
}

static void fill_free(struct mount *mount, struct fill *fill)
{
    struct inode *const *inodes = (struct inode *const *)(const void *)fill->inodes.data;
    buf_release(&fill->after);
    buf_release(&fill->last);
    scoped_lock(&mount->cache->lock);
    for (size_t i = 0; i < fill->inodes.len / sizeof(struct inode *); i++)
        inode_unref(mount->cache, inodes[i]);
    inode_unref(mount->cache, fill->dir);
    buf_release(&fill->inodes);
    free(fill);
}

/* The oldest fill, off the queue; NULL at the end. */
static struct fill *next_fill(struct filler *filler)
{
    scoped_lock(&filler->lock);
    while (!filler->first && !filler->stopping)
        pthread_cond_wait(&filler->wake, &filler->lock);
    struct fill *fill = filler->first;
    if (!fill)
        return NULL;
    filler->first = fill->next;
    if (!filler->first)
        filler->end = &filler->first;
    return fill;
}

static bool is_stopping(struct filler *filler)
{
    scoped_lock(&filler->lock);
    return filler->stopping;
}

static void *filler_main(void *context)
{
    struct filler *filler = context;
    struct fill *fill;
    while ((fill = next_fill(filler))) {
        while (!is_stopping(filler) && fill_step(filler->mount, fill))
            ;
        fill_free(filler->mount, fill);
    }
    return NULL;
}

static struct fill *fill_new(struct mount *mount, struct inode *dir, uint64_t bytes_max)
{
    struct fill *fill = calloc(1, sizeof *fill);
    if (!fill) /* the reader will ask for it */
        return NULL;
    buf_init(&fill->inodes, SIZE_MAX / 2);
    buf_init(&fill->after, SIZE_MAX / 2);
    buf_init(&fill->last, SIZE_MAX / 2);
    fill->bytes_max = bytes_max;
    scoped_lock(&mount->cache->lock);
    fill->dir = inode_ref(dir);
    return fill;
}

static void fill_queue(struct mount *mount, struct fill *fill)
{
    struct filler *filler = mount->filler;
    if (buf_error(&fill->after) || buf_error(&fill->last)) {
        fill_free(mount, fill);
        return;
    }
    scoped_lock(&filler->lock);
    *filler->end = fill;
    filler->end = &fill->next;
    pthread_cond_signal(&filler->wake);
}

void fill_walk(struct mount *mount, struct inode *dir, struct span after, struct span last)
{
    struct fill *fill = fill_new(mount, dir, mount->prefill_budget);
    if (!fill)
        return;
    buf_add_span(&fill->after, after);
    buf_add_span(&fill->last, last);
    fill_queue(mount, fill);
}

void fill_cached(struct mount *mount, struct inode *dir, struct buf *inodes)
{
    struct fill *fill = fill_new(mount, dir, mount->prefill_budget);
    if (!fill)
        return;
    fill->inodes = *inodes;
    buf_init(inodes, SIZE_MAX / 2);
    fill_queue(mount, fill);
}

int filler_start(struct mount *mount, struct err *err)
{
    struct filler *filler = mount->filler = calloc(1, sizeof *filler);
    if (!filler)
        return -ENOMEM;
    filler->mount = mount;
    filler->end = &filler->first;
    pthread_mutex_init(&filler->lock, NULL);
    pthread_cond_init(&filler->wake, NULL);
    int code = pthread_create(&filler->thread, NULL, filler_main, filler);
    if (code)
        return err_set(err, code, "cannot start a thread: %s", strerror(code));
    filler->started = true;
    return 0;
}

void filler_stop(struct mount *mount)
{
    struct filler *filler = mount->filler;
    if (!filler)
        return;
    if (filler->started) {
        pthread_mutex_lock(&filler->lock);
        filler->stopping = true;
        pthread_cond_signal(&filler->wake);
        pthread_mutex_unlock(&filler->lock);
        thread_join(mount, filler->thread);
    }
    pthread_cond_destroy(&filler->wake);
    pthread_mutex_destroy(&filler->lock);
    free(filler);
    mount->filler = NULL;
}
