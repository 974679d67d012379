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
 * ago, the stream has lost records, or it is switched off. Then everything that counted because of
 * it becomes doubtful. Whether it is too long ago is asked whenever something is told by it, and
 * the kernel keeps nothing beyond that: so a mount that was stopped, or whose machine has slept,
 * does not go on with what it knew.
 */
#include "fs/streams.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#define SILENCE_LEAST_NS (10 * NS_PER_S)
#define SILENCE_PAUSES 5

/* --- What a record says --- */

static uint64_t place_of(const struct volume *volume, struct key key)
{
    return hash64(key.sort, hash64(key.partition, volume_table(volume)->id));
}

static void note_change_locked(struct streams *streams, const struct volume *volume,
                               const struct change *change)
{
    uint64_t place = place_of(volume, change->key);
    struct known_change *known = &streams->changes[place % CHANGES_KNOWN];
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
    const struct known_change *known = &mount->streams->changes[place % CHANGES_KNOWN];
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
    inode_doubt(dir);
    notify_name(mount, dir->parent, buf_span(&name));
}

/* Whether the kernel may know that DIR, a partition in which somebody stands, is not there. */
static bool seems_gone(const struct inode *dir)
{
    return !dir->linger && (dir->doubted || !dir->there);
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
    if (sorted && change->type != CHANGE_REMOVE && seems_gone(dir))
        partition_appeared_locked(mount, top, change->key.partition);
    struct inode *known = inode_find(mount->cache, dir, CLASS_ITEM, part);
    if (known && change->version && known->meta.version == change->version)
        return;
    atomic_fetch_add_explicit(&mount->foreign_changes, 1, memory_order_relaxed);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    key_part_to_name(volume_table(volume), sorted, part, KEY_ITEM_SUFFIX, &name);
    if (known)
        inode_doubt(known);
    cache_moved(mount->cache, dir, part);
    notify_name(mount, dir, buf_span(&name));
    if (known && change->type == CHANGE_MODIFY)
        return;
    dir->filled = false;
    notify_directory(mount, dir);
    if (sorted && change->type == CHANGE_REMOVE)
        doubt_partition_locked(mount, dir);
}

int stream_take(void *context, const struct change *change)
{
    const struct reading *reading = context;
    struct streams *streams = reading->streams;
    scoped_lock(&streams->mount->cache->lock);
    reading->volume->changes_seen++;
    if (change->key.partition.len == 0) { /* nobody can tell which item it was */
        volume_changed_locked(streams->mount, reading->volume, false);
    } else {
        note_change_locked(streams, reading->volume, change);
        change_seen_locked(streams->mount, reading->volume, change);
    }
    return atomic_load(&streams->stopping) ? -EINTR : 0;
}

/* --- Followed or not --- */

int64_t stream_silence_ns(const struct mount *mount)
{
    int64_t pauses_ns = (int64_t)(mount->config->stream_poll * SILENCE_PAUSES * (double)NS_PER_S);
    return pauses_ns > SILENCE_LEAST_NS ? pauses_ns : SILENCE_LEAST_NS;
}

void stream_unfollow_locked(struct mount *mount, struct volume *volume, const char *why)
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
            inode_doubt(inode);
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

void stream_heard_locked(const struct mount *mount, struct volume *volume, int64_t heard_ns)
{
    volume->heard_ns = heard_ns;
    volume->followed_until_ns = heard_ns + stream_silence_ns(mount);
    if (volume->followed || volume->followed_until_ns <= clock_steady_ns())
        return; /* or it took too long */
    volume->followed = true;
    volume->followed_ms = cache_ms();
    volume->not_followed[0] = '\0';
    log_info("stream", "table %s: changes are followed", volume_table(volume)->name);
}

void stream_silent_locked(struct mount *mount)
{
    int64_t now_ns = clock_steady_ns();
    for (struct volume *volume = mount->volumes; volume; volume = volume->next)
        if (volume->followed && volume->followed_until_ns < now_ns)
            stream_unfollow_locked(mount, volume,
                                   "the stream has not been read to its end for a while");
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
