/* SPDX-License-Identifier: MIT */
/*
 * Telling the kernel what its caches may no longer hold, and filling them ahead of reads.
 *
 * A notification may wait inside the kernel: for a name, on the lock of its directory, which any
 * lookup, creation or listing under way holds; for pages, on the lock of a page that is being read
 * or written. So none is sent from a request's own thread (facts: fuse.md), and there are two
 * lanes, each a thread with a queue in order: names, which nobody waits for who holds a directory's
 * lock, and pages, which is waited for freely, since reads and writes wait for nobody.
 *
 * Stores have the lowest priority in the lane of pages. A store is sent only for an inode that
 * still has its name and that version, and that nobody writes; `storing` marks it, and an open for
 * writing waits until it is over. So a store never puts old bytes over new ones.
 */
#include "fs/mount.h"

#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "fs/session.h"

#define STOP_PATIENCE_S 2
#define STORE_BATCH 64

enum job_kind { JOB_NAME, JOB_DIRECTORY, JOB_TIMES, JOB_CONTENT, JOB_REPLY };

struct job {
    enum job_kind kind;
    uint64_t node;
    fuse_req_t req;
    int code;
    struct job *next;
    size_t name_len;
    char name[];
};

struct store {
    struct inode *inode; /* a reference */
    struct body *body;   /* a reference */
    uint64_t version;
    bool wanted;
    struct store *next;
};

struct lane {
    struct mount *mount;
    pthread_t thread;
    pthread_mutex_t lock; /* taken after cache->lock, or alone */
    pthread_cond_t wake;
    struct job *first, **last;
    struct store *first_store, **last_store;
    uint64_t store_bytes;
    bool stopping, started;
};

struct notifier {
    struct lane names, pages;
    uint64_t store_max; /* bytes of bodies that may wait to be stored */
};

static void job_run(struct mount *mount, const struct job *job)
{
    struct fuse_session *session = mount->session;
    switch (job->kind) {
    case JOB_NAME:
        fuse_lowlevel_notify_inval_entry(session, job->node, job->name, job->name_len);
        break;
    case JOB_TIMES: fuse_lowlevel_notify_inval_inode(session, job->node, -1, 0); break;
    case JOB_DIRECTORY:
    case JOB_CONTENT: fuse_lowlevel_notify_inval_inode(session, job->node, 0, 0); break;
    case JOB_REPLY: fuse_reply_err(job->req, -job->code); break;
    }
}

static bool store_wanted_locked(const struct store *store)
{
    const struct inode *inode = store->inode;
    return inode->state == INODE_ATTACHED && inode->meta.version == store->version &&
           !inode->edit && inode->lookups > 0 && !inode_expired(inode);
}

/* A batch of stores, oldest first: their marks are set and taken away under one lock each. */
static void stores_run(struct mount *mount, struct store *stores)
{
    struct cache *cache = mount->cache;
    pthread_mutex_lock(&cache->lock);
    for (struct store *store = stores; store; store = store->next) {
        store->wanted = store_wanted_locked(store);
        store->inode->storing |= store->wanted;
    }
    pthread_mutex_unlock(&cache->lock);
    for (struct store *store = stores; store; store = store->next) {
        struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(store->body->len);
        bytes.buf[0].mem = store->body->data;
        if (store->wanted &&
            fuse_lowlevel_notify_store(mount->session, store->inode->node, 0, &bytes, 0) == 0)
            atomic_fetch_add_explicit(&mount->prefilled, 1, memory_order_relaxed);
    }
    pthread_mutex_lock(&cache->lock);
    for (struct store *next, *store = stores; store; store = next) {
        next = store->next;
        if (store->wanted)
            store->inode->storing = false;
        inode_unref(cache, store->inode);
        body_unref(store->body);
        free(store);
    }
    pthread_cond_broadcast(&cache->changed);
    pthread_mutex_unlock(&cache->lock);
}

/* Takes the oldest stores off the queue, STORE_BATCH at most. The lane's lock is held. */
static struct store *take_stores(struct lane *lane)
{
    struct store *first = lane->first_store, *last = first;
    for (int count = 1; last; count++) {
        lane->store_bytes -= last->body->len;
        if (count == STORE_BATCH || !last->next)
            break;
        last = last->next;
    }
    if (last) {
        lane->first_store = last->next;
        last->next = NULL;
    }
    if (!lane->first_store)
        lane->last_store = &lane->first_store;
    return first;
}

/* The next thing to do, jobs first; false at the end, when only replies are still sent. The lane's
 * lock is held. */
static bool lane_next(struct lane *lane, struct job **ret_job, struct store **ret_store)
{
    while (!lane->first && !lane->first_store && !lane->stopping)
        pthread_cond_wait(&lane->wake, &lane->lock);
    *ret_job = lane->first;
    *ret_store = NULL;
    if (lane->first) {
        lane->first = lane->first->next;
        if (!lane->first)
            lane->last = &lane->first;
        return true;
    }
    *ret_store = take_stores(lane);
    return *ret_store != NULL;
}

static void *lane_main(void *context)
{
    struct lane *lane = context;
    struct job *job;
    struct store *store;
    pthread_mutex_lock(&lane->lock);
    while (lane_next(lane, &job, &store)) {
        bool skip = job && lane->stopping && job->kind != JOB_REPLY;
        pthread_mutex_unlock(&lane->lock);
        if (job && !skip)
            job_run(lane->mount, job);
        else if (store)
            stores_run(lane->mount, store);
        free(job);
        pthread_mutex_lock(&lane->lock);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

static void lane_add(struct lane *lane, enum job_kind kind, uint64_t node, struct span name,
                     fuse_req_t req, int code)
{
    struct job *job = malloc(sizeof *job + name.len + 1);
    if (!job) { /* a kernel cache that stays wrong is worse than a daemon that stops */
        log_error("notify", "out of memory: the kernel's caches cannot be kept right");
        abort();
    }
    *job = (struct job){.kind = kind, .node = node, .req = req, .code = code, .name_len = name.len};
    if (name.len)
        memcpy(job->name, name.data, name.len);
    job->name[name.len] = '\0';
    scoped_lock(&lane->lock);
    *lane->last = job;
    lane->last = &job->next;
    pthread_cond_signal(&lane->wake);
}

void notify_name(struct mount *mount, const struct inode *dir, struct span file_name)
{
    lane_add(&mount->notifier->names, JOB_NAME, dir->node, file_name, NULL, 0);
}

void notify_directory(struct mount *mount, const struct inode *dir)
{
    lane_add(&mount->notifier->names, JOB_DIRECTORY, dir->node, span_of(NULL, 0), NULL, 0);
}

void notify_times(struct mount *mount, const struct inode *dir)
{
    lane_add(&mount->notifier->pages, JOB_TIMES, dir->node, span_of(NULL, 0), NULL, 0);
}

void notify_names_then_reply(struct mount *mount, fuse_req_t req, int code)
{
    lane_add(&mount->notifier->names, JOB_REPLY, 0, span_of(NULL, 0), req, code);
}

void notify_content(struct mount *mount, const struct inode *inode)
{
    lane_add(&mount->notifier->pages, JOB_CONTENT, inode->node, span_of(NULL, 0), NULL, 0);
}

void notify_pages_then_reply(struct mount *mount, fuse_req_t req, int code)
{
    lane_add(&mount->notifier->pages, JOB_REPLY, 0, span_of(NULL, 0), req, code);
}

void notify_store_locked(struct mount *mount, struct inode *inode, struct body *body)
{
    struct lane *lane = &mount->notifier->pages;
    struct store *store = malloc(sizeof *store);
    if (!store)
        return;
    *store = (struct store){inode_ref(inode), body_ref(body), inode->meta.version, false, NULL};
    pthread_mutex_lock(&lane->lock);
    bool fits = lane->store_bytes + body->len <= mount->notifier->store_max;
    if (fits) {
        *lane->last_store = store;
        lane->last_store = &store->next;
        lane->store_bytes += body->len;
        pthread_cond_signal(&lane->wake);
    }
    pthread_mutex_unlock(&lane->lock);
    if (!fits) { /* the reader will ask for it */
        inode->refs--;
        body_unref(body);
        free(store);
    }
}

static int lane_start(struct lane *lane, struct mount *mount, struct err *err)
{
    lane->mount = mount;
    lane->last = &lane->first;
    lane->last_store = &lane->first_store;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->wake, NULL);
    int code = pthread_create(&lane->thread, NULL, lane_main, lane);
    if (code)
        return err_set(err, code, "cannot start a thread: %s", strerror(code));
    lane->started = true;
    return 0;
}

/* A notification may wait for a request that nobody serves any more: then the connection is cut. */
static void lane_stop(struct lane *lane)
{
    if (!lane->started)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->stopping = true;
    pthread_cond_signal(&lane->wake);
    pthread_mutex_unlock(&lane->lock);
    struct timespec patience;
    clock_gettime(CLOCK_REALTIME, &patience);
    patience.tv_sec += STOP_PATIENCE_S;
    if (pthread_timedjoin_np(lane->thread, NULL, &patience) != 0) {
        reaper_abort(lane->mount);
        pthread_join(lane->thread, NULL);
    }
    pthread_cond_destroy(&lane->wake);
    pthread_mutex_destroy(&lane->lock);
}

int notifier_start(struct mount *mount, struct err *err)
{
    mount->notifier = calloc(1, sizeof *mount->notifier);
    if (!mount->notifier)
        return -ENOMEM;
    mount->notifier->store_max = mount->config->cache_size / 2;
    int code = lane_start(&mount->notifier->names, mount, err);
    return code < 0 ? code : lane_start(&mount->notifier->pages, mount, err);
}

void notifier_stop(struct mount *mount)
{
    if (!mount->notifier)
        return;
    lane_stop(&mount->notifier->names);
    lane_stop(&mount->notifier->pages);
    free(mount->notifier);
    mount->notifier = NULL;
}
