/* SPDX-License-Identifier: MIT */
/*
 * Stands between itemfs_stopping and what a batch of files does, and kills the daemon at a place in
 * it. The file that ITEMFS_STOPS names says where, once it is there: lines "ACTOR STEPS WAITS". An
 * actor is a folder, whose steps are the times set, renames and removals in it, or "store", whose
 * steps are the batches of the state database. The daemon is killed when each has done as many
 * steps, and is about to do another one where WAITS is 1; none goes further.
 *
 * Likewise ITEMFS_CUT names a file "FILE BYTES": it is killed when it has written so many bytes of
 * that file at once.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"

#define ACTORS_MOST 4

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __real_futimens(int fd, const struct timespec times[2]);
int __wrap_futimens(int fd, const struct timespec times[2]);
ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at);
int __real_backend_write(struct backend *backend, struct action *actions, size_t count,
                         unsigned flags, struct err *err);
int __wrap_backend_write(struct backend *backend, struct action *actions, size_t count,
                         unsigned flags, struct err *err);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct actor {
    char name[512];
    int steps, waits;  /* where it is to be */
    int done, waiting; /* where it is */
} actors[ACTORS_MOST];
static int actor_count;

static void read_actors(void)
{
    const char *path = getenv("ITEMFS_STOPS");
    FILE *file = actor_count == 0 && path ? fopen(path, "re") : NULL;
    struct actor *actor = actors;

    while (file && actor_count < ACTORS_MOST &&
           fscanf(file, "%511s %d %d", actor->name, &actor->steps, &actor->waits) == 3)
        actor = &actors[++actor_count];
    if (file)
        fclose(file);
}

static struct actor *find_actor(const char *name)
{
    read_actors();
    for (int i = 0; i < actor_count; i++)
        if (strncmp(actors[i].name, name, strlen(actors[i].name)) == 0)
            return &actors[i];
    return NULL;
}

static void kill_where_all_are(void)
{
    for (int i = 0; i < actor_count; i++)
        if (actors[i].done != actors[i].steps || actors[i].waiting != actors[i].waits)
            return;
    kill(getpid(), SIGKILL);
}

/* Before a step. */
static struct actor *begin(const char *name)
{
    pthread_mutex_lock(&lock);
    struct actor *actor = find_actor(name);
    bool stops = actor && actor->done == actor->steps;
    if (stops) {
        actor->waiting = 1;
        kill_where_all_are();
    }
    pthread_mutex_unlock(&lock);
    if (stops)
        for (;;)
            pause();
    return actor;
}

/* After it. */
static void end(struct actor *actor)
{
    if (!actor)
        return;
    pthread_mutex_lock(&lock);
    actor->done++;
    kill_where_all_are();
    pthread_mutex_unlock(&lock);
}

static struct actor *begin_in(int fd)
{
    char link[64], path[512] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 ? begin(path) : NULL;
}

/* How many bytes of the file that FD is it is to write; -1: all. */
static long read_cut(int fd)
{
    const char *path = getenv("ITEMFS_CUT");
    FILE *file = path ? fopen(path, "re") : NULL;
    char link[64], found[512] = "", wanted[512] = "";
    long bytes = -1;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (file && (fscanf(file, "%511s %ld", wanted, &bytes) != 2 ||
                 readlink(link, found, sizeof found - 1) < 0 || strcmp(found, wanted) != 0))
        bytes = -1;
    if (file)
        fclose(file);
    return bytes;
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at)
{
    long cut = read_cut(fd);

    if (cut < 0 || (size_t)cut > size)
        return __real_pwrite(fd, data, size, at);
    __real_pwrite(fd, data, (size_t)cut, at);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    struct actor *actor = begin_in(from_fd);
    int code = __real_renameat(from_fd, from, to_fd, to);
    end(actor);
    return code;
}

int __wrap_unlinkat(int fd, const char *name, int flags)
{
    struct actor *actor = begin_in(fd);
    int code = __real_unlinkat(fd, name, flags);
    end(actor);
    return code;
}

int __wrap_futimens(int fd, const struct timespec times[2])
{
    struct actor *actor = begin_in(fd);
    int code = __real_futimens(fd, times);
    end(actor);
    return code;
}

int __wrap_backend_write(struct backend *backend, struct action *actions, size_t count,
                         unsigned flags, struct err *err)
{
    /* a try changes nothing, and the folders' backend is none of these */
    bool counts = !(flags & WRITE_TRY) && strcmp(backend->ops->kind, "folder") != 0;
    struct actor *actor = counts ? begin("store") : NULL;
    int code = __real_backend_write(backend, actions, count, flags, err);
    end(actor);
    return code;
}
