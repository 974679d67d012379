/* SPDX-License-Identifier: MIT */
/*
 * Telling the kernel what its caches may no longer hold.
 *
 * A notification may wait inside the kernel: for a name, on the lock of its directory, which any
 * lookup, creation or listing under way holds; for pages, on the lock of a page that is being read
 * or written. So none is sent from a request's own thread (docs/FUSE.md), and there are two
 * lanes, each a thread with a queue in order: names, which nobody waits for who holds a directory's
 * lock, and pages, which is waited for freely, since reads and writes wait for nobody.
 *
 * There is one exception, since waking a thread can cost more than what it has to do: who answers a
 * FLUSH, for which the kernel holds no lock, works off the names himself when nobody else does. One
 * worker at a time may wait there; the others go on serving those who hold the directory's lock.
 */
#include "fs/mount.h"

#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "fs/session.h"

#define STOP_PATIENCE_S 2

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

struct lane {
    struct mount *mount;
    pthread_t thread;
    pthread_mutex_t lock; /* taken after cache->lock, or alone */
    pthread_cond_t wake;
    struct job *first, **last;
    bool working; /* somebody runs a job */
    bool stopping, started;
};

struct notifier {
    struct lane names, pages;
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

/* Runs the next job. The lane's lock is held, and let go of meanwhile. */
static void lane_step(struct lane *lane)
{
    struct job *job = lane->first;
    bool skip = lane->stopping && job->kind != JOB_REPLY;
    lane->first = job->next;
    if (!lane->first)
        lane->last = &lane->first;
    lane->working = true;
    pthread_mutex_unlock(&lane->lock);
    if (!skip)
        job_run(lane->mount, job);
    free(job);
    pthread_mutex_lock(&lane->lock);
    lane->working = false;
    if (lane->stopping)
        pthread_cond_signal(&lane->wake);
}

static void *lane_main(void *context)
{
    struct lane *lane = context;
    pthread_mutex_lock(&lane->lock);
    while (lane->first || lane->working || !lane->stopping)
        if (lane->first && !lane->working)
            lane_step(lane);
        else
            pthread_cond_wait(&lane->wake, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

static _Thread_local bool works_off_names;

void notify_names_work_off(void)
{
    works_off_names = true;
}

void notify_names_leave(struct mount *mount)
{
    struct lane *lane = &mount->notifier->names;
    works_off_names = false;
    scoped_lock(&lane->lock);
    if (lane->first)
        pthread_cond_signal(&lane->wake);
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
    bool later = works_off_names && lane == &lane->mount->notifier->names;
    scoped_lock(&lane->lock);
    *lane->last = job;
    lane->last = &job->next;
    if (!later)
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
    struct lane *lane = &mount->notifier->names;
    lane_add(lane, JOB_REPLY, 0, span_of(NULL, 0), req, code);
    if (!works_off_names)
        return;
    works_off_names = false;
    scoped_lock(&lane->lock);
    while (lane->first && !lane->working)
        lane_step(lane);
}

void notify_content(struct mount *mount, const struct inode *inode)
{
    lane_add(&mount->notifier->pages, JOB_CONTENT, inode->node, span_of(NULL, 0), NULL, 0);
}

void notify_pages_then_reply(struct mount *mount, fuse_req_t req, int code)
{
    lane_add(&mount->notifier->pages, JOB_REPLY, 0, span_of(NULL, 0), req, code);
}

static int lane_start(struct lane *lane, struct mount *mount, struct err *err)
{
    lane->mount = mount;
    lane->last = &lane->first;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->wake, NULL);
    int code = pthread_create(&lane->thread, NULL, lane_main, lane);
    if (code)
        return err_set(err, code, "cannot start a thread: %s", strerror(code));
    lane->started = true;
    return 0;
}

void thread_join(struct mount *mount, pthread_t thread)
{
    struct timespec patience;
    clock_gettime(CLOCK_REALTIME, &patience);
    patience.tv_sec += STOP_PATIENCE_S;
    if (pthread_timedjoin_np(thread, NULL, &patience) != 0) {
        reaper_abort(mount);
        pthread_join(thread, NULL);
    }
}

static void lane_stop(struct lane *lane)
{
    if (!lane->started)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->stopping = true;
    pthread_cond_signal(&lane->wake);
    pthread_mutex_unlock(&lane->lock);
    thread_join(lane->mount, lane->thread);
    pthread_cond_destroy(&lane->wake);
    pthread_mutex_destroy(&lane->lock);
}

int notifier_start(struct mount *mount, struct err *err)
{
    mount->notifier = calloc(1, sizeof *mount->notifier);
    if (!mount->notifier)
        return -ENOMEM;
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
