/* SPDX-License-Identifier: MIT */
/*
 * The thread of a followed table. It works in rounds: each reads the stream until there is no more
 * for now, and between them it sleeps as long as the stream says. An open waits for the first round
 * that was begun after it, so that its file has everything that was there. (A service that was
 * asked just now is not asked again in a round: then that must begin so much later.)
 *
 * A failure to read is told to whoever waits in open, and logged; the thread goes on trying, since
 * those who follow have missed nothing yet. What makes a gap, or a future without changes, ends the
 * feed for good: its readers read up to there, and then an error, not the end of a file.
 */
#include "fs/feed.h"

#include <errno.h>

#include "base/cancel.h"
#include "base/log.h"
#include "fs/ops.h"

#define PAGE_RECORDS 256
#define LINE_KEPT (4u << 20) /* memory of a line that is kept for the next */
#define LINGER_NS (5 * NS_PER_S)
#define RETRY_FIRST_NS NS_PER_S
#define RETRY_DOUBLINGS 5
#define TRIM_EVERY_NS (10 * NS_PER_S)
#define CHECK_EVERY_NS (10 * NS_PER_S)
#define ASK_PAUSE_NS (NS_PER_S / 4) /* between two questions to a service (stream.h) */

static pthread_mutex_t *lock_of(const struct feed *feed)
{
    return &feed->mount->changes->lock;
}

static const char *name_of(const struct feed *feed)
{
    return volume_table(feed->volume)->name;
}

static bool is_wanted_locked(const struct feed *feed)
{
    return !atomic_load(&feed->cancelled) &&
           (feed->editions || clock_steady_ns() < feed->linger_ns);
}

static void end_locked(struct feed *feed, int code)
{
    if (!feed->end)
        feed->end = code;
}

/* For a reason that its readers are told. */
static void end(struct feed *feed, int code, const struct err *err)
{
    scoped_lock(lock_of(feed));
    if (feed->end)
        return;
    feed->end = code;
    feed->end_err = *err;
    log_write(code == -ESTALE ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "changes",
              "table %s: nothing more can be read by who has its changes open: %s", name_of(feed),
              err_text(err, code));
}

/* --- Those who wait --- */

void waiter_answer(struct waiter *waiter, int code, const struct err *err, bool by_caller)
{
    struct mount *mount = waiter->mount;
    fuse_req_t req = waiter->req;
    if (!by_caller)
        fuse_req_interrupt_func(req, NULL, NULL); /* waits for one that is running */
    int error = outcome_of(mount, OP_OPEN, waiter->inode, code, err);
    inode_drop(mount, waiter->inode);
    if (error && waiter->handle)
        fs_release(mount, waiter->handle);
    if (error)
        fuse_reply_err(req, error);
    else if (fuse_reply_open(req, &waiter->info) == -ENOENT) /* interrupted: nobody releases it */
        fs_release(mount, waiter->handle);
    free(waiter);
}

/* The first for whom a round, which is over, began late enough; taken off the list. */
static struct waiter *take_waiter(struct feed *feed, int64_t began_ns)
{
    scoped_lock(lock_of(feed));
    for (struct waiter **link = &feed->waiters; *link; link = &(*link)->next) {
        struct waiter *waiter = *link;
        if (waiter->after_ns >= began_ns)
            continue;
        *link = waiter->next;
        waiter->listed = false;
        return waiter;
    }
    return NULL;
}

/* Whether there were any. */
static bool answer_waiters(struct feed *feed, int64_t began_ns, int code, const struct err *err)
{
    struct waiter *waiter;
    bool any = false;
    for (; (waiter = take_waiter(feed, began_ns)); any = true)
        waiter_answer(waiter, code, err, false);
    return any;
}

static struct fuse_pollhandle *take_poll(struct feed *feed)
{
    scoped_lock(lock_of(feed));
    struct reader *reader = feed->polled;
    if (!reader)
        return NULL;
    struct fuse_pollhandle *poll = reader->poll;
    feed_unlist_reader_locked(feed, reader);
    return poll;
}

/* Those who are there now: who has looked and polls again comes at the list's end. */
static void wake_pollers(struct feed *feed)
{
    pthread_mutex_lock(lock_of(feed));
    unsigned count = feed->polled_count;
    pthread_mutex_unlock(lock_of(feed));
    struct fuse_pollhandle *poll;
    while (count-- > 0 && (poll = take_poll(feed))) {
        fuse_lowlevel_notify_poll(poll);
        fuse_pollhandle_destroy(poll);
    }
}

/* --- A round --- */

static int take_change(void *context, const struct change *change)
{
    struct feed *feed = context;
    struct err err = {0};
    pthread_mutex_lock(lock_of(feed));
    if (!is_wanted_locked(feed)) /* the record counts as read: so this is the end */
        end_locked(feed, -EINTR);
    int code = feed->end;
    pthread_mutex_unlock(lock_of(feed));
    if (code == 0 && feed->stream->lost) /* what comes is from behind a gap */
        code = -ESTALE;
    if (code < 0)
        return code;
    buf_clear(&feed->line);
    struct backend *backend;
    const struct table *table;
    volume_stored(feed->mount, feed->volume, &backend, &table);
    change_to_json(table, change, &feed->line);
    buf_add_char(&feed->line, '\n');
    int64_t now_ns = clock_now_ns();
    code = buf_error(&feed->line);
    if (code == 0)
        code = spool_add(feed->spool, buf_span(&feed->line),
                         change->time_ns < now_ns ? change->time_ns : now_ns, &err);
    if (feed->line.capacity > LINE_KEPT)
        buf_release(&feed->line);
    if (code < 0)
        end(feed, code, &err);
    return code;
}

static int lost(struct feed *feed)
{
    struct err err = {0};
    int code = err_set(&err, EIO,
                       "changes were gone before they could be read; who opens the file anew "
                       "gets what is kept");
    end(feed, code, &err);
    return -ESTALE;
}

/* One part of the stream. 1: there may be more. */
static int read_part(struct feed *feed, struct err *err)
{
    struct stream *stream = feed->stream;
    uint64_t before = spool_size(feed->spool);
    struct err own = {0};
    if (!feed->started) /* the oldest record may have become too old since the stream was opened */
        stream->lost = false;
    int code = backend_stream_next(stream, PAGE_RECORDS, take_change, feed, err);
    int flushed = spool_flush(feed->spool, &own);
    if (flushed < 0) {
        end(feed, flushed, &own);
        err_clear(err);
        return err_set(err, -flushed, "%s", err_text(&own, flushed));
    }
    if (spool_size(feed->spool) != before)
        wake_pollers(feed);
    if (stream->lost && feed->started)
        return lost(feed);
    feed->started |= code >= 0;
    return code;
}

static int open_stream(struct feed *feed, struct err *err)
{
    struct stream *stream;
    struct backend *backend;
    const struct table *table;
    volume_stored(feed->mount, feed->volume, &backend, &table);
    int code = backend_stream_open(backend, table, STREAM_OLDEST, &stream, err);
    if (code < 0)
        return code;
    feed->stream = stream;
    scoped_lock(lock_of(feed));
    feed->asked = !backend_can(feed->volume->backend, BACKEND_LOG);
    return 0;
}

static int read_to_end(struct feed *feed, struct err *err)
{
    int code;
    do
        code = read_part(feed, err);
    while (code > 0);
    return code;
}

static int make_spool(struct feed *feed, struct err *err)
{
    struct mount *mount = feed->mount;
    struct spool *spool;
    int code = source_make_state(mount->config, err);
    if (code == 0)
        code = spool_new(mount->config->state_dir, &spool, err);
    if (code < 0)
        return code;
    scoped_lock(lock_of(feed));
    feed->spool = spool;
    return 0;
}

/* Of a backend that tells nothing by itself the table is asked for. */
static void look_at_table(struct feed *feed)
{
    if (backend_can(feed->volume->backend, BACKEND_LOG))
        return;
    feed->checked_ns = clock_steady_ns();
    (void)volume_load(feed->mount, span_text(name_of(feed)), NULL);
}

static bool is_dropped(struct feed *feed)
{
    if (clock_steady_ns() - feed->checked_ns >= CHECK_EVERY_NS)
        look_at_table(feed);
    scoped_lock(&feed->mount->cache->lock);
    return feed->volume->dropped;
}

static int dropped(struct feed *feed)
{
    struct err err = {0};
    int code = err_set(&err, ESTALE, "the table was dropped");
    look_at_table(feed); /* its stream may have told it first: nobody is to find it any more */
    end(feed, code, &err);
    return code;
}

static int read_round(struct feed *feed, struct err *err)
{
    bool gone = is_dropped(feed); /* before it is read for the last time */
    int code = feed->spool ? 0 : make_spool(feed, err);
    if (code < 0)
        return code;
    if (!feed->stream)
        code = open_stream(feed, err);
    if (code == 0)
        code = read_to_end(feed, err);
    return code == -ENOENT || (code == 0 && gone) ? dropped(feed) : code;
}

/* --- The thread --- */

static void trim(struct feed *feed)
{
    int64_t now_ns = clock_steady_ns();
    struct err err = {0};
    if (!feed->spool || now_ns - feed->trimmed_ns < TRIM_EVERY_NS)
        return;
    feed->trimmed_ns = now_ns;
    int code =
        spool_trim(feed->spool, clock_now_ns() - CHANGES_KEPT_NS - 2 * CHANGES_SLACK_NS, &err);
    if (code < 0 && !feed->punch_failed) {
        feed->punch_failed = true;
        log_warning("changes", "%s", err_text(&err, code));
    }
}

static bool has_ended(struct feed *feed)
{
    scoped_lock(lock_of(feed));
    return feed->end != 0;
}

static void tell_round(struct feed *feed, int code, bool told, const struct err *err)
{
    if (code == 0 && feed->failures)
        log_info("changes", "table %s: its changes can be read again", name_of(feed));
    if (code < 0 && code != -EINTR && !feed->failures && !told && !has_ended(feed))
        log_warning("changes", "table %s: its changes cannot be read: %s", name_of(feed),
                    err_text(err, code));
    feed->failures = code < 0 ? feed->failures + 1 : 0;
}

static int64_t pause_of(const struct feed *feed)
{
    if (!feed->failures)
        return feed->stream->pause_ns;
    unsigned doublings = feed->failures - 1;
    return RETRY_FIRST_NS << (doublings < RETRY_DOUBLINGS ? doublings : RETRY_DOUBLINGS);
}

/* How long until the next round, which is due at DUE_NS, or as soon as it is enough for somebody.
 */
static int64_t time_left_locked(const struct feed *feed, int64_t due_ns)
{
    for (const struct waiter *waiter = feed->waiters; waiter; waiter = waiter->next)
        if (waiter->after_ns < due_ns)
            due_ns = waiter->after_ns;
    return due_ns - clock_steady_ns();
}

static void sleep_locked(struct feed *feed, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t at_ns = (int64_t)until.tv_sec * NS_PER_S + until.tv_nsec + ns;
    until = (struct timespec){.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    pthread_cond_timedwait(&feed->wake, lock_of(feed), &until);
}

/* False: there is no next round. */
static bool sleep_between(struct feed *feed, int64_t pause_ns)
{
    int64_t due_ns = clock_steady_ns() + pause_ns, left_ns;
    scoped_lock(lock_of(feed));
    while (!feed->end && !atomic_load(&feed->cancelled) &&
           (left_ns = time_left_locked(feed, due_ns)) > 0)
        sleep_locked(feed, left_ns);
    if (!is_wanted_locked(feed) || (feed->failures && !feed->editions))
        end_locked(feed, -EINTR);
    return !feed->end;
}

/* Nothing more comes. Whoever waits has seen nothing yet, and looks the path up once more, unless
 * that would not help either. */
static void leave(struct feed *feed)
{
    struct changes *changes = feed->mount->changes;
    struct spool *spool = NULL;
    bool again = feed->end == -EIO || feed->end == -ESTALE;
    answer_waiters(feed, INT64_MAX, again ? -ESTALE : feed->end, &feed->end_err);
    wake_pollers(feed);
    pthread_mutex_lock(&changes->lock);
    feed->running = false;
    if (--changes->running == 0)
        pthread_cond_signal(&changes->idle);
    feed_settle_locked(feed, &spool);
    pthread_mutex_unlock(&changes->lock);
    spool_free(spool);
}

static void *feed_main(void *context)
{
    struct feed *feed = context;
    cancel_set(&feed->cancelled);
    do {
        struct err err = {0};
        int64_t began_ns = clock_steady_ns();
        int code = read_round(feed, &err);
        bool told = answer_waiters(feed, began_ns, code, &err);
        tell_round(feed, code, told, &err);
        trim(feed);
    } while (sleep_between(feed, pause_of(feed)));
    backend_stream_close(feed->stream);
    buf_release(&feed->line);
    leave(feed);
    return NULL;
}

/* --- From outside --- */

int feed_start_locked(struct mount *mount, struct volume *volume, struct feed **ret_feed,
                      struct err *err)
{
    struct changes *changes = mount->changes;
    struct feed *feed = calloc(1, sizeof *feed);
    pthread_condattr_t steady;
    if (!feed)
        return -ENOMEM;
    feed->mount = mount;
    feed->volume = volume;
    feed->running = true;
    feed->trimmed_ns = feed->checked_ns = clock_steady_ns();
    feed->last_polled = &feed->polled;
    buf_init(&feed->line, SIZE_MAX / 2);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&feed->wake, &steady);
    pthread_condattr_destroy(&steady);
    int code = pthread_create(&feed->thread, NULL, feed_main, feed);
    if (code) {
        pthread_cond_destroy(&feed->wake);
        free(feed);
        return err_set(err, code, "cannot start a thread: %s", strerror(code));
    }
    changes->running++;
    feed->next = changes->feeds;
    changes->feeds = feed;
    *ret_feed = feed;
    return 0;
}

void feed_cancel_locked(struct feed *feed)
{
    atomic_store(&feed->cancelled, true);
    pthread_cond_signal(&feed->wake);
}

int64_t feed_delay_locked(const struct feed *feed)
{
    return feed->asked ? ASK_PAUSE_NS : 0;
}

void feed_linger_locked(struct feed *feed)
{
    feed->linger_ns = clock_steady_ns() + LINGER_NS;
}

void feed_unlist_reader_locked(struct feed *feed, struct reader *reader)
{
    if (!reader->poll)
        return;
    struct reader **link = &feed->polled;
    while (*link != reader)
        link = &(*link)->next_polled;
    *link = reader->next_polled;
    if (!*link)
        feed->last_polled = link;
    feed->polled_count--;
    reader->next_polled = NULL;
    reader->poll = NULL;
}

void feed_settle_locked(struct feed *feed, struct spool **ret_spool)
{
    struct changes *changes = feed->mount->changes;
    if (feed->running || feed->editions)
        return;
    struct feed **link = &changes->feeds;
    while (*link != feed)
        link = &(*link)->next;
    *link = feed->next;
    feed->next = changes->ended;
    changes->ended = feed;
    *ret_spool = feed->spool;
    feed->spool = NULL;
}

void feeds_reap(struct mount *mount)
{
    struct changes *changes = mount->changes;
    pthread_mutex_lock(&changes->lock);
    struct feed *ended = changes->ended;
    changes->ended = NULL;
    pthread_mutex_unlock(&changes->lock);
    while (ended) {
        struct feed *feed = ended;
        ended = feed->next;
        pthread_join(feed->thread, NULL);
        pthread_cond_destroy(&feed->wake);
        free(feed);
    }
}
