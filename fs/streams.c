/* SPDX-License-Identifier: MIT */
/*
 * Tables of services whose streams are followed. While a stream is read to its end again and again,
 * what was told of an item counts until the stream tells of a change, and the kernel may keep it
 * for as long. Else it counts for cache_ttl.
 *
 * A record makes what is known of its item doubtful, and the kernel is told: the next look asks the
 * service, and takes another version for a change made elsewhere (resolve.c). So nothing depends on
 * when records come: one of a change that is known already says nothing new, and one of this
 * mount's own, overtaken by its next save, costs one request.
 *
 * A table is followed from when its stream was read to its end until that was last done SILENCE_NS
 * ago, or the stream has lost records. Then everything that counted because of it becomes doubtful.
 * The keeper looks at that, since this thread may be waiting for the service.
 */
#include "fs/mount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "backend/stream.h"
#include "base/cancel.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#define BATCH 1000
#define LOOK_NS (NS_PER_S / 10) /* for tables that are new */
#define SILENCE_LEAST_NS (5 * NS_PER_S)
#define SILENCE_PAUSES 5
#define RETRY_MOST_NS (60 * NS_PER_S)
#define CHANGES 4096 /* whose ids are remembered */
#define ID_MAX 64

/* Which change made an item what it is: by hash of its place, the last of each slot. */
struct known_change {
    uint64_t place, version;
    int64_t time_ns;
    enum change_type type;
    char id[ID_MAX];
};

/* A table's stream, of the thread alone. */
struct followed {
    struct volume *volume;
    struct stream *stream; /* NULL: it could not be opened yet */
    int64_t due_ns;        /* steady clock */
    int64_t retry_ns;      /* doubled while it fails; 0: it did not */
    struct followed *next;
};

struct streams {
    struct mount *mount;
    pthread_t thread;
    atomic_bool stopping;
    struct known_change changes[CHANGES]; /* cache->lock */
};

/* --- What a record says --- */

static uint64_t place_of(const struct volume *volume, struct key key)
{
    return hash64(key.sort, hash64(key.partition, volume_table(volume)->id));
}

static void note_change_locked(struct streams *streams, const struct volume *volume,
                               const struct change *change)
{
    uint64_t place = place_of(volume, change->key);
    struct known_change *known = &streams->changes[place % CHANGES];
    *known = (struct known_change){.place = place,
                                   .version = change->version,
                                   .time_ns = change->time_ns,
                                   .type = change->type};
    snprintf(known->id, sizeof known->id, "%s", change->id);
}

bool stream_change_of_locked(const struct mount *mount, const struct inode *inode,
                             struct item_change *ret_change)
{
    struct key_copy copy;
    if (!mount->streams || inode->meta.version == 0 || key_copy_locked(inode, &copy) < 0)
        return false;
    uint64_t place = place_of(inode->volume, copy.key);
    const struct known_change *known = &mount->streams->changes[place % CHANGES];
    key_copy_release(&copy);
    if (known->place != place || known->version != inode->meta.version)
        return false;
    *ret_change = (struct item_change){known->id, known->type, known->time_ns};
    return true;
}

/* Its last item may have gone: the next look asks. */
static void doubt_partition_locked(struct mount *mount, struct inode *dir)
{
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    inode_file_name(dir, &name);
    dir->doubted = true;
    notify_name(mount, dir->parent, buf_span(&name));
}

static void change_seen_locked(struct mount *mount, struct volume *volume,
                               const struct change *change)
{
    bool sorted = table_sorted(volume_table(volume));
    struct span part = sorted ? change->key.sort : change->key.partition;
    struct inode *top = directory_locked(mount, volume, span_of(NULL, 0));
    struct inode *dir = sorted ? directory_locked(mount, volume, change->key.partition) : top;
    if (!top)
        return; /* the kernel knows nothing of the table */
    if (!dir) {
        if (change->type != CHANGE_REMOVE)
            partition_appeared_locked(mount, top, change->key.partition);
        return;
    }
    struct inode *known = inode_find(mount->cache, dir, CLASS_ITEM, part);
    if (known && change->version && known->meta.version == change->version)
        return;
    atomic_fetch_add_explicit(&mount->foreign_changes, 1, memory_order_relaxed);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    const struct table *table = volume_table(volume);
    name_from_part(sorted ? table->sort.type : table->partition.type, part, KEY_ITEM_SUFFIX, &name);
    if (known)
        known->doubted = true;
    cache_moved(mount->cache, dir, part);
    notify_name(mount, dir, buf_span(&name));
    if (known && change->type == CHANGE_MODIFY)
        return;
    dir->filled = false;
    notify_directory(mount, dir);
    if (sorted && change->type == CHANGE_REMOVE)
        doubt_partition_locked(mount, dir);
}

struct reading {
    struct streams *streams;
    struct volume *volume;
};

static int take_change(void *context, const struct change *change)
{
    const struct reading *reading = context;
    struct streams *streams = reading->streams;
    scoped_lock(&streams->mount->cache->lock);
    reading->volume->changes_seen++;
    note_change_locked(streams, reading->volume, change);
    change_seen_locked(streams->mount, reading->volume, change);
    return atomic_load(&streams->stopping) ? -EINTR : 0;
}

/* --- Followed or not --- */

static int64_t silence_ns(const struct mount *mount)
{
    int64_t pauses_ns = (int64_t)(mount->config->stream_poll * SILENCE_PAUSES * (double)NS_PER_S);
    return pauses_ns > SILENCE_LEAST_NS ? pauses_ns : SILENCE_LEAST_NS;
}

/* What counted because the table was followed counts no more. */
static void unfollow_locked(struct mount *mount, struct volume *volume, const char *why)
{
    snprintf(volume->not_followed, sizeof volume->not_followed, "%s", why);
    if (!volume->followed)
        return;
    volume->followed = false;
    log_warning("stream", "table %s: changes are not followed for now: %s",
                volume_table(volume)->name, why);
    for (size_t i = 0; i < mount->cache->buckets; i++)
        for (struct inode *inode = mount->cache->by_node[i]; inode; inode = inode->next_by_node) {
            if (inode->volume != volume || inode->state != INODE_ATTACHED || inode->listed)
                continue;
            inode->doubted = true;
            if (inode->kind == INODE_TABLE || inode->kind == INODE_PARTITION) {
                inode->filled = false;
                notify_directory(mount, inode);
            } else if (inode->kind == INODE_ITEM) {
                cleanup(buf_release) struct buf name;
                buf_init(&name, SIZE_MAX / 2);
                inode_file_name(inode, &name);
                notify_name(mount, inode->parent, buf_span(&name));
            }
        }
}

static void heard_locked(struct mount *mount, struct volume *volume, int64_t heard_ns)
{
    volume->heard_ns = heard_ns;
    if (volume->followed)
        return;
    volume->followed = true;
    volume->followed_ms = cache_ms();
    volume->not_followed[0] = '\0';
    log_info("stream", "table %s: changes are followed", volume_table(volume)->name);
    (void)mount;
}

void streams_watch(struct mount *mount)
{
    scoped_lock(&mount->cache->lock);
    int64_t oldest_ns = clock_steady_ns() - silence_ns(mount);
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        if (volume->followed && volume->heard_ns < oldest_ns)
            unfollow_locked(mount, volume, "the stream has not been read to its end for a while");
}

/* --- Reading --- */

static int read_stream(struct streams *streams, struct followed *followed, struct err *err)
{
    struct reading reading = {streams, followed->volume};
    struct volume *volume = followed->volume;
    int code = 1;
    if (!followed->stream)
        code = backend_stream_open(volume->backend, volume_table(volume), STREAM_NOW,
                                   &followed->stream, err);
    int64_t begun_ns = clock_steady_ns();
    if (code >= 0)
        code = 1;
    while (code > 0)
        code = backend_stream_next(followed->stream, BATCH, take_change, &reading, err);
    if (code == -ENOENT)
        return code;
    scoped_lock(&streams->mount->cache->lock);
    if (followed->stream && followed->stream->lost) {
        followed->stream->lost = false;
        unfollow_locked(streams->mount, volume, "records were gone before they were read");
    }
    if (code == 0)
        heard_locked(streams->mount, volume, begun_ns);
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
    unfollow_locked(mount, followed->volume, "the table is gone");
    pthread_mutex_unlock(&mount->cache->lock);
    (void)volume_load(mount, buf_span(&name), &err); /* which says the same, or what there is now */
}

static void stream_failed(struct mount *mount, struct followed *followed, int code,
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
        unfollow_locked(mount, followed->volume, err_text(err, code));
}

static bool is_to_be_followed_locked(const struct volume *volume)
{
    return !volume->dropped && volume_table(volume)->stream;
}

static void follow_one(struct streams *streams, struct followed *followed)
{
    struct mount *mount = streams->mount;
    struct err err = {0};
    pthread_mutex_lock(&mount->cache->lock);
    bool wanted = is_to_be_followed_locked(followed->volume);
    if (!wanted)
        unfollow_locked(mount, followed->volume, "the stream is off");
    pthread_mutex_unlock(&mount->cache->lock);
    if (!wanted) {
        forget_stream(followed);
        followed->due_ns = clock_steady_ns() + LOOK_NS;
        return;
    }
    int code = read_stream(streams, followed, &err);
    if (code < 0)
        stream_failed(mount, followed, code, &err);
    else
        followed->retry_ns = 0;
    int64_t pause_ns = followed->stream ? followed->stream->pause_ns : NS_PER_S;
    followed->due_ns = clock_steady_ns() + (followed->retry_ns ? followed->retry_ns : pause_ns);
}

/* Volumes are never freed before the end, so that one is enough to know them by. */
static struct followed *find_new(struct streams *streams, struct followed *first)
{
    struct mount *mount = streams->mount;
    scoped_lock(&mount->cache->lock);
    for (struct volume *volume = mount->volumes; volume; volume = volume->next) {
        struct followed *followed = first;
        while (followed && followed->volume != volume)
            followed = followed->next;
        if (followed || !is_to_be_followed_locked(volume) ||
            backend_can(volume->backend, BACKEND_LOG) || !volume->backend->ops->stream_open)
            continue;
        followed = calloc(1, sizeof *followed);
        if (followed)
            *followed = (struct followed){.volume = volume, .next = first};
        return followed;
    }
    return NULL;
}

static void *streams_main(void *context)
{
    struct streams *streams = context;
    struct followed *first = NULL;
    cancel_set(&streams->stopping);
    do {
        struct followed *made;
        while ((made = find_new(streams, first)))
            first = made;
        for (struct followed *followed = first; followed && !atomic_load(&streams->stopping);
             followed = followed->next)
            if (clock_steady_ns() >= followed->due_ns)
                follow_one(streams, followed);
    } while (timer_sleep(streams->mount, LOOK_NS));
    while (first) {
        struct followed *next = first->next;
        backend_stream_close(first->stream);
        free(first);
        first = next;
    }
    return NULL;
}

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
    int code = pthread_create(&streams->thread, NULL, streams_main, streams);
    if (code) {
        free(streams);
        return err_set(err, code, "cannot start a thread: %s", strerror(code));
    }
    mount->streams = streams;
    return 0;
}

void streams_stop(struct mount *mount)
{
    if (!mount->streams)
        return;
    atomic_store(&mount->streams->stopping, true);
    pthread_join(mount->streams->thread, NULL);
    free(mount->streams);
    mount->streams = NULL;
}

/* --- Told --- */

void streams_json(struct mount *mount, struct buf *out)
{
    scoped_lock(&mount->cache->lock);
    const char *comma = "";
    buf_add_text(out, "  \"streams\": [");
    for (struct volume *volume = mount->volumes; volume; volume = volume->next) {
        if (volume->dropped || (!volume->followed && !volume->not_followed[0]))
            continue;
        buf_addf(out, "%s\n    {\"table\": ", comma);
        json_add_string(out, span_text(volume_table(volume)->name));
        buf_addf(out, ", \"followed\": %s, \"changes\": %" PRIu64,
                 volume->followed ? "true" : "false", volume->changes_seen);
        if (volume->heard_ns)
            buf_addf(out, ", \"read_seconds_ago\": %.1f",
                     (double)(clock_steady_ns() - volume->heard_ns) / (double)NS_PER_S);
        if (!volume->followed) {
            buf_add_text(out, ", \"reason\": ");
            json_add_string(out, span_text(volume->not_followed));
        }
        buf_add_char(out, '}');
        comma = ",";
    }
    buf_addf(out, "%s],\n", *comma ? "\n  " : "");
}

void streams_metrics(struct mount *mount, struct buf *out)
{
    scoped_lock(&mount->cache->lock);
    buf_add_text(out, "# HELP itemfs_stream_followed Whether caches of a service's table count "
                      "until its stream tells of a change.\n"
                      "# TYPE itemfs_stream_followed gauge\n");
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        if (!volume->dropped && (volume->followed || volume->not_followed[0]))
            buf_addf(out, "itemfs_stream_followed{table=\"%s\"} %d\n", volume_table(volume)->name,
                     volume->followed);
    buf_add_text(out, "# HELP itemfs_stream_changes_total Records read of a service's stream.\n"
                      "# TYPE itemfs_stream_changes_total counter\n");
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        if (!volume->dropped && (volume->followed || volume->not_followed[0]))
            buf_addf(out, "itemfs_stream_changes_total{table=\"%s\"} %" PRIu64 "\n",
                     volume_table(volume)->name, volume->changes_seen);
}
