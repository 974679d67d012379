/* SPDX-License-Identifier: MIT */
/*
 * Group commit. Everything that writes is a job. Whoever comes while nobody leads is the leader: it
 * takes all jobs queued so far into one transaction, commits, and hands the lead to the first that
 * came meanwhile. So a lone caller runs in its own thread without waiting for anybody, and many
 * callers share one commit.
 *
 * A lone job that fails rolls the transaction back. Among several, each has a savepoint, and only
 * what fails is undone. Where SQLite itself gave up the whole transaction (disk full, I/O error),
 * or the commit fails, all jobs of the group fail with that reason.
 *
 * Durability. COMMIT with synchronous=NORMAL leaves the log (-wal) to the page cache; store_sync
 * writes it to the disk through a descriptor of its own. What a checkpoint has moved to the main
 * file meanwhile was synced by SQLite before the log may be overwritten, so log and file together
 * always hold every synced commit. Syncs that wait at the same time share one fdatasync. Once it
 * has failed, nobody can tell what the disk has: the kernel reports such a loss once and then takes
 * the pages for written. So every later sync of this object fails, too.
 */
#include <errno.h>
#include <unistd.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

#define ROLL_EVERY 64 /* entries of the log that a reading of `tables` may have to look at */

static void fail_all(struct job *jobs, int code, const char *text)
{
    for (struct job *job = jobs; job; job = job->next)
        if (job->result == 0)
            job->result = err_set(job->err, -code, "%s", text);
}

/* The transaction is over one way or another afterwards. */
static void undo(struct store *store)
{
    schema_undo(store);
    if (!sqlite3_get_autocommit(store->writer->db))
        conn_run(store->writer, STATEMENT_ROLLBACK, NULL);
}

/* One of several. Fails only when the whole transaction is lost. */
static int apply_saved(struct store *store, struct job *job, struct err *err)
{
    struct conn *writer = store->writer;
    int code = conn_run(writer, STATEMENT_SAVEPOINT, err);

    if (code)
        return code;
    job->result = job->apply(store, job, job->err);
    if (job->result == 0)
        return conn_run(writer, STATEMENT_RELEASE, err);
    schema_undo(store);
    if (sqlite3_get_autocommit(writer->db))
        return err_set(err, -job->result, "%s", err_text(job->err, job->result));
    code = conn_run(writer, STATEMENT_ROLLBACK_TO, err);
    return code ? code : conn_run(writer, STATEMENT_RELEASE, err);
}

static int apply_all(struct store *store, struct job *jobs, struct err *err)
{
    if (!jobs->next)
        return jobs->result = jobs->apply(store, jobs, jobs->err);
    for (struct job *job = jobs; job; job = job->next) {
        int code = apply_saved(store, job, err);
        if (code)
            return code;
    }
    return 0;
}

static int group(struct store *store, struct job *jobs, struct err *err)
{
    int code = store_check_file(store, err);

    if (code == 0)
        code = conn_run(store->writer, STATEMENT_BEGIN_WRITE, err);
    if (code == 0)
        code = schema_refresh(store, err);
    if (code == 0)
        code = apply_all(store, jobs, err);
    if (code == 0 && store->unrolled >= ROLL_EVERY)
        code = tables_roll(store, err);
    return code ? code : conn_run(store->writer, STATEMENT_COMMIT, err);
}

static void run_group(struct store *store, struct job *jobs)
{
    struct err err = {""};
    int code = group(store, jobs, &err);

    if (code) {
        undo(store);
        fail_all(jobs, code, err_text(&err, code));
        return;
    }
    store->schema.changed = false;
    store->written++;
    checkpoint_bound(store);
}

/* Wakes the others of the group, and the next leader. The jobs are gone once they are told. */
static void finish(struct store *store, struct job *jobs, struct job *own)
{
    scoped_lock(&store->queue_lock);
    for (struct job *job = jobs, *next; job; job = next) {
        next = job->next;
        job->done = true;
        if (job != own)
            pthread_cond_signal(&job->wake);
    }
    store->writing = store->queue != NULL;
    if (store->queue) {
        store->queue->lead = true;
        pthread_cond_signal(&store->queue->wake);
    }
}

/* Until JOB is done, or is to lead. */
static struct job *enqueue(struct store *store, struct job *job)
{
    scoped_lock(&store->queue_lock);
    *store->queue_end = job;
    store->queue_end = &job->next;
    if (store->writing) {
        pthread_cond_init(&job->wake, NULL);
        while (!job->done && !job->lead)
            pthread_cond_wait(&job->wake, &store->queue_lock);
        pthread_cond_destroy(&job->wake);
    }
    if (job->done)
        return NULL;
    store->writing = true;
    struct job *jobs = store->queue;
    store->queue = NULL;
    store->queue_end = &store->queue;
    return jobs;
}

int store_commit(struct store *store, struct job *job, struct err *err)
{
    if (store->read_only)
        return err_set(err, EROFS, "%s is open for reading only", store->path);
    job->err = err;
    struct job *jobs = enqueue(store, job);
    if (jobs) {
        run_group(store, jobs);
        finish(store, jobs, job);
    }
    return job->result;
}

/* Called with sync_lock held, which is let go meanwhile. */
static int sync_now(struct store *store)
{
    uint64_t written = store->written;
    int code = 0;

    store->syncing = true;
    pthread_mutex_unlock(&store->sync_lock);
    if (fdatasync(store->wal_fd) < 0)
        code = -errno;
    pthread_mutex_lock(&store->sync_lock);
    store->syncing = false;
    if (code)
        store->sync_failure = code;
    else if (store->synced < written)
        store->synced = written;
    pthread_cond_broadcast(&store->sync_done);
    return code;
}

int store_sync(struct backend *backend, struct err *err)
{
    struct store *store = store_of(backend);
    uint64_t wanted = store->written;

    int code = store_check_file(store, err);
    if (code)
        return code;
    scoped_lock(&store->sync_lock);
    code = store->sync_failure;
    while (code == 0 && store->synced < wanted)
        if (store->syncing) {
            pthread_cond_wait(&store->sync_done, &store->sync_lock);
            code = store->sync_failure;
        } else
            code = sync_now(store);
    if (code)
        return err_set(err, -code, "%s-wal did not reach the disk: %s", store->path,
                       strerror(-code));
    return 0;
}
