/* SPDX-License-Identifier: MIT */
/*
 * Seeing at once what others write. The kernel queues an event before the system call that it tells
 * of returns; so whoever reads what is in the queue before an operation knows all that was done
 * before. Those are two system calls where nothing happened. A thread reads it when no operation
 * does, and where programs write faster than it can be read.
 *
 * Where events cannot be had, or tell only of this machine's programs (network disks), everything
 * is looked through again and again instead: so it is when the queue has run over, once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "backend/folder/watch.h"
#include "base/log.h"
#include "base/set.h"

#define EVENTS_MANY 4096 /* bytes: then some may be about the same file */
#define PATIENCE_NS (NS_PER_S / 5)
#define AHEAD 16 /* events among which that of a writer is looked for */

/* --- Events --- */

static int file_event(struct folder *folder, const struct place *place,
                      const struct inotify_event *event, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct err own = {""};
    unsigned flags = event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO) ? LOOK_TOLD : 0;
    int r = known_by_folder(folder, place->folder, &known, &own);

    if (event->mask & IN_MOVED_TO) /* another file, whatever its size and time */
        flags |= LOOK_RACY;
    if (r == -ENOENT) {
        folder->watch->tables_due = true;
        return 0;
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = reconcile(folder, known, event->name, flags, err);
    if (r == 1)
        return 0;
    folder->imported++; /* if not by this object, then by that of who has written it */
    return r;
}

/* Whether a file that has just been made, which may have got its name as another one's link, is one
 * whose writer has closed it since: then that event tells of it. */
static bool told_again(const struct inotify_event *event, const char *end)
{
    const struct inotify_event *later = event;

    for (int i = 0; i < AHEAD && (event->mask & IN_CREATE); i++) {
        const char *next = (const char *)(later + 1) + later->len;
        if (next == end)
            return false;
        later = (const void *)next;
        if (later->wd == event->wd && (later->mask & IN_CLOSE_WRITE) && later->len == event->len &&
            memcmp(later->name, event->name, event->len) == 0)
            return true;
    }
    return false;
}

/* Behind it there are others up to END. */
static int take_event(struct folder *folder, const struct inotify_event *event, const char *end,
                      struct err *err)
{
    struct watch *watch = folder->watch;
    struct place place = {.wd = -1};

    if (event->mask & IN_Q_OVERFLOW) {
        watch->all_due = true;
        return 0;
    }
    if (!place_of_event(watch, event, &place))
        return 0;
    if (event->mask & (IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF)) {
        watch->tables_due = true;
        watch->all_due |= place.root || folder->one_table;
        known_set_due(folder, place.folder);
        return 0;
    }
    if (place.root && (event->mask & IN_ISDIR) && event->len && event->name[0] != '.') {
        watch->tables_due = true;
        known_set_due(folder, event->name);
    }
    if (place.root || own_moves_has(&watch->own_moves, folder->replicas, event) ||
        told_again(event, end))
        return 0;
    if (!event->len || !name_is_item(span_text(event->name)))
        return 0;
    return file_event(folder, &place, event, err);
}

/* What file an event is about. False: it counts by itself. */
struct told {
    int wd;
    char name[NAME_MAX + 1];
};

static bool told_of(const struct inotify_event *event, struct told *told)
{
    if (event->cookie || event->mask & IN_ISDIR || event->len <= 1)
        return false;
    *told = (struct told){.wd = event->wd};
    snprintf(told->name, sizeof told->name, "%s", event->name);
    return true;
}

/* Of what is told of a file several times only the last counts, and that it was closed. */
static int drop_repeated(char *room, const size_t *at, size_t count)
{
    struct set closed, seen;
    struct told told;
    int r = 0;

    set_init(&closed, 8 * EVENTS_BYTES);
    set_init(&seen, 8 * EVENTS_BYTES);
    for (size_t i = 0; r >= 0 && i < count; i++) {
        const struct inotify_event *event = (const void *)(room + at[i]);
        if (event->mask & IN_CLOSE_WRITE && told_of(event, &told))
            r = set_add(&closed, span_of((const char *)&told, sizeof told));
    }
    for (size_t i = count; r >= 0 && i-- > 0;) {
        struct inotify_event *event = (void *)(room + at[i]);
        if (!told_of(event, &told))
            continue;
        r = set_add(&seen, span_of((const char *)&told, sizeof told));
        if (r == 0)
            event->mask = 0;
        else if (r > 0 && set_add(&closed, span_of((const char *)&told, sizeof told)) == 0)
            event->mask |= IN_CLOSE_WRITE;
    }
    set_release(&closed);
    set_release(&seen);
    return r < 0 ? r : 0;
}

static int drop_all_repeated(char *room, size_t len)
{
    cleanup_free size_t *at = malloc((len / sizeof(struct inotify_event) + 1) * sizeof *at);
    size_t count = 0;

    for (size_t i = 0; at && i < len;) {
        at[count++] = i;
        i += sizeof(struct inotify_event) + ((const struct inotify_event *)(void *)(room + i))->len;
    }
    return at ? drop_repeated(room, at, count) : -ENOMEM;
}

/* Reads what is in the queue now: where programs write all the time it has no end. */
static int take_events(struct folder *folder, char *room, struct err *err)
{
    int there = 0, r = 0;

    if (ioctl(folder->watch->fd, FIONREAD, &there) < 0)
        return err_set(err, EIO, "the events of %s cannot be read", folder->place);
    while (r == 0 && there > 0) {
        ssize_t got = read(folder->watch->fd, room, EVENTS_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got <= 0)
            return err_set(err, EIO, "the events of %s cannot be read", folder->place);
        there -= (int)got;
        if (got > EVENTS_MANY && drop_all_repeated(room, (size_t)got) < 0)
            return err_set(err, ENOMEM, "no memory");
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(room + at);
            int code = event->mask ? take_event(folder, event, room + got, err) : 0;
            r = r ? r : code;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    return r;
}

static int look_through(struct folder *folder, struct err *err)
{
    struct watch *watch = folder->watch;
    bool all = watch->all_due, tables = all || watch->tables_due;

    watch->all_due = watch->tables_due = false;
    int r = tables ? tables_find(folder, err) : 0;
    if (r == 0 && tables)
        r = places_watch(folder, all, err);
    if (r == 0 && tables)
        r = scan_all(folder, all ? 0 : INT64_MAX, false, err);
    watch->all_due |= r < 0;
    return r;
}

static int drain(struct folder *folder, struct err *err)
{
    struct watch *watch = folder->watch;
    int64_t now_ns = clock_steady_ns();
    int r = take_events(folder, watch->room, err);

    if (r < 0 || atomic_exchange(&folder->rewatch, false))
        watch->all_due = true; /* what the events told, or would have, is found by looking */
    pthread_mutex_lock(&watch->places_lock);
    bool must_look = watch->must_look;
    pthread_mutex_unlock(&watch->places_lock);
    if (must_look && now_ns - watch->looked_ns >= watch->scan_ns) {
        watch->looked_ns = now_ns;
        watch->all_due = true;
    }
    watch->tables_due |= tables_are_due(folder);
    if (r == 0 && (watch->all_due || watch->tables_due))
        r = look_through(folder, err);
    return r;
}

/* Many events are left to the thread, which reads them anyhow. True: they have been read, or nobody
 * waits any longer. */
static bool wait_locked(struct watch *watch, uint64_t before, bool patient)
{
    int64_t until_ns = clock_steady_ns() + PATIENCE_NS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    int there = 0;

    if (!patient && (ioctl(watch->fd, FIONREAD, &there) < 0 || there <= EVENTS_MANY))
        there = 0;
    while ((watch->draining || there) && watch->whole <= before) {
        if (patient)
            pthread_cond_wait(&watch->drained, &watch->lock);
        else if (pthread_cond_timedwait(&watch->drained, &watch->lock, &until) != 0)
            return true;
    }
    return watch->whole > before; /* somebody has, and began later than this was called */
}

static int read_events(struct folder *folder, bool patient, struct err *err)
{
    struct watch *watch = folder->watch;
    struct err own = {""};

    pthread_mutex_lock(&watch->lock);
    uint64_t before = watch->begun;
    bool done = wait_locked(watch, before, patient);
    uint64_t number = done ? 0 : ++watch->begun;
    watch->draining |= !done;
    pthread_mutex_unlock(&watch->lock);
    if (done)
        return 0;
    int r = drain(folder, &own);
    pthread_mutex_lock(&watch->lock);
    watch->draining = false;
    if (r == 0)
        watch->whole = number;
    pthread_cond_broadcast(&watch->drained);
    pthread_mutex_unlock(&watch->lock);
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

int watch_drain(struct folder *folder, struct err *err)
{
    return read_events(folder, true, err);
}

int watch_settle(struct folder *folder, struct err *err)
{
    return read_events(folder, !folder->watch->started, err);
}

/* --- The thread --- */

void folder_listen(struct backend *backend, told_fn told, void *context)
{
    struct watch *watch = folder_of(backend)->watch;

    if (!watch)
        return;
    scoped_lock(&watch->told_lock);
    watch->told = told;
    watch->told_context = context;
}

static void tell(struct watch *watch)
{
    scoped_lock(&watch->told_lock);
    if (watch->told)
        watch->told(watch->told_context);
}

static void *watcher_main(void *context)
{
    struct folder *folder = context;
    struct watch *watch = folder->watch;
    uint64_t told = 0;
    struct pollfd ends[3] = {{.fd = watch->fd, .events = POLLIN},
                             {.fd = watch->stop_fd, .events = POLLIN},
                             {.fd = watch->mounts_fd, .events = POLLPRI}};

    while (!ends[1].revents) {
        struct err err = {""};
        if (poll(ends, 3, (int)(watch->scan_ns / 1000000)) < 0 && errno != EINTR)
            break;
        if (ends[2].revents) /* no event tells of what is mounted over a folder */
            places_check(folder);
        int r = watch_drain(folder, &err);
        uint64_t imported = folder->imported;
        if (imported != told)
            tell(watch);
        told = imported;
        if (r < 0) {
            log_warning("folder", "%s", err_text(&err, r));
            (void)poll(&ends[1], 1, 1000); /* what was told is not lost: all is looked through */
        }
    }
    return NULL;
}

int watch_open(struct folder *folder, int64_t scan_ns, struct err *err)
{
    struct watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return err_set(err, ENOMEM, "no memory");
    folder->watch = watch;
    watch->scan_ns = scan_ns > NS_PER_S / 10 ? scan_ns : NS_PER_S / 10;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_mutex_init(&watch->places_lock, NULL);
    pthread_mutex_init(&watch->told_lock, NULL);
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->drained, &steady);
    pthread_condattr_destroy(&steady);
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->stop_fd = eventfd(0, EFD_CLOEXEC);
    watch->mounts_fd = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC); /* or none */
    if (watch->fd < 0 || watch->stop_fd < 0)
        return err_set(err, errno, "changes cannot be watched for: %s", strerror(errno));
    return 0;
}

int watch_start(struct folder *folder, struct err *err)
{
    folder->watch->started =
        pthread_create(&folder->watch->thread, NULL, watcher_main, folder) == 0;
    return folder->watch->started ? 0 : err_set(err, EAGAIN, "cannot start a thread");
}

void watch_close(struct folder *folder)
{
    struct watch *watch = folder->watch;

    if (!watch)
        return;
    if (watch->started) {
        const uint64_t one = 1;
        (void)!write(watch->stop_fd, &one, sizeof one);
        pthread_join(watch->thread, NULL);
    }
    if (watch->fd >= 0)
        close(watch->fd);
    if (watch->stop_fd >= 0)
        close(watch->stop_fd);
    if (watch->mounts_fd >= 0)
        close(watch->mounts_fd);
    free(watch->places);
    pthread_cond_destroy(&watch->drained);
    pthread_mutex_destroy(&watch->lock);
    pthread_mutex_destroy(&watch->places_lock);
    pthread_mutex_destroy(&watch->told_lock);
    free(watch);
}
