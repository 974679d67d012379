/* SPDX-License-Identifier: MIT */
/*
 * Streams of services that are followed: what streams.c, which knows what they say, and
 * stream_rounds.c, which reads them, share.
 */
#ifndef FS_STREAMS_H
#define FS_STREAMS_H

#include "backend/stream.h"
#include "fs/mount.h"

#define STREAM_READERS_MAX 16 /* threads: so many tables are read at a time */
#define CHANGES_KNOWN 4096    /* whose ids are remembered */
#define CHANGE_ID_MAX 64

/* Which change made an item what it is: by hash of its place, the last of each slot. */
struct known_change {
    uint64_t place, version;
    int64_t time_ns;
    enum change_type type;
    char id[CHANGE_ID_MAX];
};

struct streams {
    struct mount *mount;
    atomic_bool stopping;
    struct known_change changes[CHANGES_KNOWN]; /* cache->lock */

    pthread_mutex_t lock; /* taken after cache->lock, or alone; guards all below */
    pthread_cond_t work;
    struct followed *followed;
    pthread_t readers[STREAM_READERS_MAX];
    unsigned started, idle;
};

/* --- streams.c --- */

struct reading {
    struct streams *streams;
    struct volume *volume;
};
/* A record of the table of CONTEXT, a reading: a change_fn. -EINTR: the mount is stopping. */
int stream_take(void *context, const struct change *change);
/* How long a stream that is not heard of may count as followed. */
int64_t stream_silence_ns(const struct mount *);
/* VOLUME's stream was read to its end, which was begun at HEARD_NS (steady clock). */
void stream_heard_locked(const struct mount *, struct volume *volume, int64_t heard_ns);
/* What counted because VOLUME was followed counts no more. */
void stream_unfollow_locked(struct mount *, struct volume *volume, const char *why);
/* The same for all that were not heard of for too long. */
void stream_silent_locked(struct mount *);

#endif
