/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the next request: one worker reads, the others are parked.
 *
 * Programs send requests in trains: a lookup, an open, a read, each when the one before is
 * answered. Waking a sleeping thread for each of them can cost more than the request (on a virtual
 * machine an interrupt to a processor that the host has put to sleep: 20 microseconds and more).
 * So there are two rules:
 *
 * - Who has served a request looks for the next one for a moment (SPIN_NS) before it sleeps.
 * - Only one worker at a time reads. If several did, the kernel would wake another one with each
 *   request, although the first is just looking.
 *
 * Who serves a request does not read meanwhile; others take over
 *
 * - at once where requests come side by side: several are in work, or more than one was waiting
 *   STREAK times in a row;
 * - else when the request takes long. One of the parked workers watches: it looks every TICK_NS, as
 *   long as requests come, whether the same request was in work all the time.
 */
#include "fs/session.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#define SPIN_NS (50 * 1000) /* a bit over what being woken costs */
#define TICK_NS (1000 * 1000)
#define STREAK 4

static struct {
    pthread_mutex_t lock; /* guards all below; taken last */
    pthread_cond_t wake;  /* steady clock */
    bool reading;         /* one does */
    bool reader_wanted;   /* somebody parked is to read */
    bool watching;        /* one of the parked does */
    bool watcher_wanted;  /* somebody parked is to watch */
    unsigned parked;      /* workers that wait for `wake` */
    unsigned busy;        /* workers that serve a request */
    unsigned streak;      /* requests in a row that left another one waiting */
    uint64_t taken;       /* requests so far */
} workers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool several_processors;
static _Thread_local bool serving;

static bool is_waiting(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

static void spin(int fd)
{
    int64_t end = clock_steady_ns() + SPIN_NS;
    while (!is_waiting(fd) && clock_steady_ns() < end)
        ;
}

/* Waits for `wake`, as the one who watches for a tick at most. Whether a tick has passed in which
 * no request was taken. */
static bool tick_was_quiet_locked(bool watch)
{
    if (!watch) {
        pthread_cond_wait(&workers.wake, &workers.lock);
        return false;
    }
    uint64_t before = workers.taken;
    int64_t end_ns = clock_steady_ns() + TICK_NS;
    struct timespec end = {end_ns / NS_PER_S, end_ns % NS_PER_S};
    return pthread_cond_timedwait(&workers.wake, &workers.lock, &end) == ETIMEDOUT &&
           workers.taken == before;
}

/* Waits until this worker is to read: it is asked to, or watches and finds a request that takes
 * long. */
static void park_locked(void)
{
    bool watch = false;
    workers.parked++;
    while (!workers.reader_wanted || workers.reading) {
        if (workers.watcher_wanted && !workers.watching)
            watch = workers.watching = true;
        workers.watcher_wanted = false;
        if (!tick_was_quiet_locked(watch))
            continue;
        if (!workers.reading)
            break;
        watch = workers.watching = false;
    }
    workers.parked--;
    if (watch)
        workers.watching = false;
}

/* Until this worker is the one who reads. Workers are cancelled at the end, here or in read: this
 * file is compiled with -fexceptions, so that the lock is let go then. */
static void begin_reading(void)
{
    scoped_lock(&workers.lock);
    if (serving)
        workers.busy--;
    serving = false;
    if (workers.reading)
        park_locked();
    workers.reading = true;
    workers.reader_wanted = false;
}

/* This worker will serve what it has read, if TAKEN; MORE: another request is waiting. */
static void end_reading(bool taken, bool more)
{
    scoped_lock(&workers.lock);
    workers.reading = false;
    if (!taken)
        return;
    serving = true;
    workers.busy++;
    workers.taken++;
    workers.streak = more ? workers.streak + 1 : 0;
    if (workers.parked == 0)
        return;
    workers.reader_wanted = workers.busy > 1 || workers.streak >= STREAK;
    workers.watcher_wanted = !workers.watching;
    if (workers.reader_wanted || workers.watcher_wanted)
        pthread_cond_signal(&workers.wake);
}

static ssize_t wait_read(int fd, void *buf, size_t size, void *userdata)
{
    (void)userdata;
    begin_reading();
    if (several_processors)
        spin(fd);
    ssize_t len = read(fd, buf, size);
    int error = errno;
    if (len < 0 && error == ENODEV) /* unmounted: nobody waits for an answer */
        interrupt_all();
    end_reading(len > 0, len > 0 && is_waiting(fd));
    errno = error;
    return len;
}

/* The first answer is that to INIT. libfuse 3.14 forgets to pass FUSE_CAP_PARALLEL_DIROPS on in it,
 * and then the kernel asks for one name of a directory at a time, however many programs look. */
static void complete_init(const struct iovec *parts, int count)
{
    static bool done;
    if (done)
        return;
    done = true; /* before there are other requests */
    struct fuse_init_out *answer = count > 1 ? parts[1].iov_base : NULL;
    if (answer && parts[1].iov_len >= sizeof *answer)
        answer->flags |= FUSE_PARALLEL_DIROPS;
}

static ssize_t wait_writev(int fd, struct iovec *parts, int count, void *userdata)
{
    (void)userdata;
    complete_init(parts, count);
    return writev(fd, parts, count);
}

int session_workers(struct fuse_session *session)
{
    static const struct fuse_custom_io io = {.read = wait_read, .writev = wait_writev};
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&workers.wake, &steady);
    pthread_condattr_destroy(&steady);
    several_processors = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
