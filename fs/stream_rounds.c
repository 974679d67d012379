/* SPDX-License-Identifier: MIT */
/*
 * Who reads the streams that are followed. Each is read in rounds, to its end; between them it
 * rests as long as the stream says, or longer where it cannot be read. A round waits for the
 * service, as long as that likes: so each is one reader's, and other tables have others. Readers
 * are started as they are needed.
 */
#include "fs/streams.h"

#include <errno.h>

#include "base/cancel.h"
#include "base/log.h"

#define BATCH 1000
#define RETRY_MOST_NS (60 * NS_PER_S)

/* A table's stream. */
struct followed {
    struct volume *volume;
    struct followed *next;

    /* streams->lock */
    bool busy;      /* a reader has it */
    bool due;       /* it waits for one */
    int64_t due_ns; /* steady clock */

    /* The reader's, while it is busy. */
    struct stream *stream; /* NULL: it could not be opened yet */
    int64_t retry_ns;      /* doubled while it fails; 0: it did not */
};

/* --- A round --- */

/* What the stream said beside its records. True: it is off. */
static bool heed(struct mount *mount, struct followed *followed)
{
    struct stream *stream = followed->stream;
    bool lost = stream->lost, off = stream->off;
    stream->lost = stream->off = false;
    scoped_lock(&mount->cache->lock);
    if (lost)
        stream_unfollow_locked(mount, followed->volume, "records were gone before they were read");
    if (off)
        stream_unfollow_locked(mount, followed->volume, "the stream is off");
    return off;
}

static int read_to_end(struct streams *streams, struct followed *followed, struct err *err)
{
    struct mount *mount = streams->mount;
    struct volume *volume = followed->volume;
    struct reading reading = {streams, volume};
    int64_t begun_ns = clock_steady_ns();
    bool off = false;
    int code = 1;
    followed->stream->off_ns = stream_silence_ns(mount);
    while (code > 0) {
        code = backend_stream_next(followed->stream, BATCH, stream_take, &reading, err);
        off |= heed(mount, followed);
    }
    scoped_lock(&mount->cache->lock);
    if (code == 0 && !off)
        stream_heard_locked(mount, volume, begun_ns);
    return code;
}

static void forget_stream(struct followed *followed)
{
    backend_stream_close(followed->stream);
    followed->stream = NULL;
}

/* The table is gone; or it was made anew, and that is another one. */
static void table_gone(struct mount *mount, struct followed *followed)
{
    cleanup(buf_release) struct buf name;
    struct err err = {0};
    forget_stream(followed);
    buf_init(&name, 1 << 10);
    pthread_mutex_lock(&mount->cache->lock);
    buf_add_text(&name, volume_table(followed->volume)->name);
    stream_unfollow_locked(mount, followed->volume, "the table is gone");
    pthread_mutex_unlock(&mount->cache->lock);
    (void)volume_load(mount, buf_span(&name), &err); /* which says the same, or what there is now */
}

static void round_failed(struct mount *mount, struct followed *followed, int code,
                         const struct err *err)
{
    if (code == -EINTR)
        return;
    followed->retry_ns = followed->retry_ns ? 2 * followed->retry_ns : NS_PER_S;
    if (followed->retry_ns > RETRY_MOST_NS || code == -EOPNOTSUPP)
        followed->retry_ns = RETRY_MOST_NS;
    if (code == -ENOENT) {
        table_gone(mount, followed);
        return;
    }
    log_warning("stream", "table %s: %s", volume_table(followed->volume)->name,
                err_text(err, code));
    scoped_lock(&mount->cache->lock);
    if (!followed->volume->followed) /* else it counts for a while yet */
        stream_unfollow_locked(mount, followed->volume, err_text(err, code));
}

/* How long FOLLOWED rests behind it. */
static int64_t read_round(struct streams *streams, struct followed *followed)
{
    struct volume *volume = followed->volume;
    struct err err = {0};
    int code = 0;
    if (!followed->stream)
        code = backend_stream_open(volume->backend, volume_table(volume), STREAM_NOW,
                                   &followed->stream, &err);
    if (code == 0)
        code = read_to_end(streams, followed, &err);
    if (code < 0)
        round_failed(streams->mount, followed, code, &err);
    else
        followed->retry_ns = 0;
    if (followed->retry_ns || !followed->stream)
        return followed->retry_ns;
    return followed->stream->pause_ns;
}

/* --- The readers --- */

/* The one that is due for longest; NULL: none is. */
static struct followed *find_due_locked(const struct streams *streams)
{
    struct followed *found = NULL;
    for (struct followed *followed = streams->followed; followed; followed = followed->next)
        if (followed->due && (!found || followed->due_ns < found->due_ns))
            found = followed;
    return found;
}

static void *reader_main(void *context)
{
    struct streams *streams = context;
    cancel_set(&streams->stopping);
    pthread_mutex_lock(&streams->lock);
    while (!atomic_load(&streams->stopping)) {
        struct followed *followed = find_due_locked(streams);
        if (!followed) {
            streams->idle++;
            pthread_cond_wait(&streams->work, &streams->lock);
            streams->idle--;
            continue;
        }
        followed->due = false;
        followed->busy = true;
        pthread_mutex_unlock(&streams->lock);
        int64_t rest_ns = read_round(streams, followed);
        pthread_mutex_lock(&streams->lock);
        followed->busy = false;
        followed->due_ns = clock_steady_ns() + rest_ns;
    }
    pthread_mutex_unlock(&streams->lock);
    return NULL;
}

static int start_reader_locked(struct streams *streams)
{
    int code = pthread_create(&streams->readers[streams->started], NULL, reader_main, streams);
    if (code == 0)
        streams->started++;
    return code;
}

/* --- What is read --- */

static bool is_to_be_followed_locked(const struct volume *volume)
{
    return !volume->dropped && volume_table(volume)->stream;
}

/* Volumes are never freed before the end, so that one is enough to know them by. */
static void find_new_locked(struct streams *streams)
{
    for (struct volume *volume = streams->mount->volumes; volume; volume = volume->next) {
        if (volume->stream_found || !is_to_be_followed_locked(volume) ||
            backend_can(volume->backend, BACKEND_LOG) || !volume->backend->ops->stream_open)
            continue;
        struct followed *followed = calloc(1, sizeof *followed);
        if (!followed)
            return; /* the next look finds it again */
        *followed = (struct followed){.volume = volume, .next = streams->followed};
        streams->followed = followed;
        volume->stream_found = true;
    }
}

/* Whether a reader is to take it up. A stream that is not wanted any more is closed. */
static bool is_due_locked(const struct streams *streams, struct followed *followed)
{
    bool wanted = is_to_be_followed_locked(followed->volume);
    if (followed->busy)
        return false;
    if (!wanted) {
        stream_unfollow_locked(streams->mount, followed->volume, "the stream is off");
        forget_stream(followed);
    }
    return wanted && followed->due_ns <= clock_steady_ns();
}

/* Has readers take up what is due. */
static void hand_out_locked(struct streams *streams)
{
    unsigned count = 0;
    scoped_lock(&streams->lock);
    find_new_locked(streams);
    for (struct followed *followed = streams->followed; followed; followed = followed->next) {
        followed->due = is_due_locked(streams, followed);
        count += followed->due;
    }
    if (count > streams->idle && streams->started < STREAM_READERS_MAX)
        (void)start_reader_locked(streams); /* where that fails, there is one at least */
    while (count-- > 0)
        pthread_cond_signal(&streams->work);
}

void streams_watch(struct mount *mount)
{
    struct streams *streams = mount->streams;
    if (!streams)
        return;
    scoped_lock(&mount->cache->lock);
    stream_silent_locked(mount);
    hand_out_locked(streams);
}

/* --- Start and end --- */

int streams_start(struct mount *mount, struct err *err)
{
    bool any = false;
    for (size_t i = 0; i < mount->source->count; i++)
        any |= !backend_can(mount->source->backends[i], BACKEND_LOG);
    if (!any || !mount->config->follow)
        return 0;
    struct streams *streams = calloc(1, sizeof *streams);
    if (!streams)
        return -ENOMEM;
    streams->mount = mount;
    pthread_mutex_init(&streams->lock, NULL);
    pthread_cond_init(&streams->work, NULL);
    mount->streams = streams;
    scoped_lock(&streams->lock);
    int code = start_reader_locked(streams);
    return code ? err_set(err, code, "cannot start a thread: %s", strerror(code)) : 0;
}

void streams_stop(struct mount *mount)
{
    struct streams *streams = mount->streams;
    if (!streams)
        return;
    atomic_store(&streams->stopping, true);
    pthread_mutex_lock(&streams->lock);
    pthread_cond_broadcast(&streams->work);
    pthread_mutex_unlock(&streams->lock);
    for (unsigned i = 0; i < streams->started; i++)
        pthread_join(streams->readers[i], NULL);
    while (streams->followed) {
        struct followed *followed = streams->followed;
        streams->followed = followed->next;
        forget_stream(followed);
        free(followed);
    }
    pthread_cond_destroy(&streams->work);
    pthread_mutex_destroy(&streams->lock);
    free(streams);
    mount->streams = NULL;
}
