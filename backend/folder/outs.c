/* SPDX-License-Identifier: MIT */
/*
 * Which replicas are out of use: remembered in a table of the state database. A row that has a path
 * as its key is a replica that is out: the body is the reason, the mtime since when. Others say
 * which disk a replica's is (disks.c).
 *
 * All objects over the same folders must agree on who is out: what one of them writes to a replica
 * that another one has left would come back as something new there. So whoever takes a stripe looks
 * at a stamp in the lock file, and where it is another one, at this table. One that goes out is
 * recorded before the stripe is given back; one that comes back does so under all of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"
#include "base/json.h"
#include "base/log.h"

static _Thread_local bool following; /* nothing new is found here: others have recorded it */
static _Thread_local bool told;      /* likewise of what is out of use */

/* --- Rows --- */

int outs_put(struct folder *folder, const char *key, const char *text, int64_t mtime_ns,
             struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct action action = {.kind = text ? ACTION_PUT : ACTION_DELETE,
                            .table = folder->outs,
                            .key.partition = span_text(key),
                            .mtime_ns = mtime_ns};

    buf_init(&body, OUTS_ROW_MOST);
    if (text)
        json_add_string(&body, span_text(text));
    action.body = buf_span(&body);
    return backend_write(folder->store, &action, 1, WRITE_DURABLE, err);
}

int outs_get(struct folder *folder, const char *key, struct buf *text, int64_t *ret_mtime_ns,
             struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct item_meta meta;
    struct err own = {""};

    buf_init(&body, OUTS_ROW_MOST);
    int r = backend_get(folder->store, folder->outs, (struct key){.partition = span_text(key)},
                        &meta, &body, &own);
    if (r < 0)
        return r == -ENOENT ? r : err_set(err, -r, "%s", err_text(&own, r));
    if (body.len > 2)
        json_unescape(span_of(body.data + 1, body.len - 2), text);
    buf_add_char(text, '\0');
    *ret_mtime_ns = meta.mtime_ns;
    return buf_error(text);
}

/* Whether another replica would be left, as far as all objects know: where two objects each find
 * one of two at fault, the later of them is in the wrong. */
static int check_left(struct folder *folder, const char *path, struct err *err)
{
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    cleanup(buf_release) struct buf reason;
    struct replica_info info;
    int64_t since_ns;

    buf_init(&reason, REPLICAS_MOST * OUTS_ROW_MOST);
    for (size_t i = 0; i < count; i++) {
        replica_info(folder->replicas, numbers[i], &info);
        if (strcmp(info.path, path) == 0)
            continue;
        int r = outs_get(folder, info.path, &reason, &since_ns, err);
        if (r != 0)
            return r == -ENOENT ? 0 : r;
    }
    return err_set(err, EIO, "%s has failed, and all others are out of use", path);
}

static int record_locked(struct folder *folder, const char *path, const char *reason,
                         int64_t since_ns, struct err *err)
{
    int r = reason ? check_left(folder, path, err) : 0;

    if (r == 0)
        r = outs_put(folder, path, reason, since_ns, err);
    if (r == 0)
        r = locks_next_stamp(folder, err);
    if (r == 0 && reason)
        log_always(strcmp(reason, REPLICA_NOT_FILLED) ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
                   "replica", "%s is out of use: %s", path, reason);
    else if (r == 0)
        log_always(LOG_LEVEL_INFO, "replica", "%s is in use again", path);
    return r;
}

static int record(void *context, const char *path, const char *reason, int64_t since_ns,
                  struct err *err)
{
    struct folder *folder = context;

    if (!folder->opened || (following && !reason) || told)
        return 0;
    int r = locks_take_outs(folder, err);
    if (r < 0)
        return r;
    r = record_locked(folder, path, reason, since_ns, err);
    locks_give_outs(folder);
    return r;
}

/* --- What is remembered --- */

struct remembered {
    struct folder *folder;
    struct err *err;
};

/* What this object has left out and others use again. Where that cannot be, they must not. */
static int join(struct folder *folder, size_t number, const struct replica_info *info,
                struct err *err)
{
    struct err why = {""};
    int64_t took_ns;
    int r = replica_probe(folder->replicas, number, &took_ns, &why);

    following = true;
    if (r == 0)
        r = replica_put_back(folder->replicas, number, &why);
    following = false;
    folder->rewatch |= r == 0;
    return r == 0 ? 0 : record(folder, info->path, err_text(&why, r), clock_now_ns(), err);
}

static int compare(void *context, size_t number, const struct replica_info *info)
{
    const struct remembered *remembered = context;
    struct folder *folder = remembered->folder;
    cleanup(buf_release) struct buf reason;
    int64_t since_ns;

    buf_init(&reason, OUTS_ROW_MOST);
    int r = outs_get(folder, info->path, &reason, &since_ns, remembered->err);
    if (r == -ENOENT && !info->in_use && !folder->read_only)
        return join(folder, number, info, remembered->err);
    if (r == 0 && info->in_use)
        return replica_take_out(folder->replicas, number, reason.data, since_ns, remembered->err);
    return r == -ENOENT ? 0 : r;
}

int outs_follow(struct folder *folder, struct err *err)
{
    struct remembered remembered = {folder, err};
    uint64_t stamp;
    int r = locks_stamp(folder, &stamp, err);

    if (r < 0 || stamp == folder->stamp)
        return r;
    scoped_lock(&folder->outs_lock);
    r = replicas_each(folder->replicas, compare, &remembered);
    if (r == 0)
        folder->stamp = stamp;
    return r;
}

/* --- Another list --- */

struct listed {
    struct folder *folder;
    const char *const *paths;
    size_t count;
    struct err *err;
};

int outs_forget(struct folder *folder, const char *path, struct err *err)
{
    int r = outs_put(folder, path, NULL, 0, err);

    return r ? r : disk_forget(folder, path, err);
}

static int forget_gone(void *context, size_t number, const struct replica_info *info)
{
    const struct listed *listed = context;

    (void)number;
    for (size_t i = 0; i < listed->count; i++)
        if (strcmp(listed->paths[i], info->path) == 0)
            return 0;
    return outs_forget(listed->folder, info->path, listed->err);
}

int outs_change(struct folder *folder, const char *const *paths, size_t count, bool agreed,
                struct err *err)
{
    struct remembered remembered = {folder, err};

    int r =
        replicas_each(folder->replicas, forget_gone, &(struct listed){folder, paths, count, err});

    told = agreed;
    if (r == 0)
        r = replicas_change(folder->replicas, paths, count, err);
    told = false;
    if (r < 0 || !agreed)
        return r;
    scoped_lock(&folder->outs_lock);
    return replicas_each(folder->replicas, compare, &remembered);
}

/* --- Opening --- */

/* One whose disk is not mounted, while what lies below it is. */
static int check_disk(void *context, size_t number, const struct replica_info *info)
{
    const struct remembered *remembered = context;
    struct folder *folder = remembered->folder;
    struct err why = {""};
    size_t numbers[REPLICAS_MOST];
    enum disk_is is = DISK_SAME;
    int r = info->in_use ? disk_check(folder, info->path, &is, &why) : 0;

    folder->strange |= is == DISK_OTHER;
    if (r == 0)
        return 0;
    if (r != -ENOENT)
        return err_set(remembered->err, -r, "%s", err_text(&why, r));
    if (replicas_numbers(folder->replicas, numbers) == 1)
        return err_set(remembered->err, ENOENT,
                       "%s (if what is there is to be used instead, delete its state database)",
                       why.text);
    r = replica_take_out(folder->replicas, number, why.text, 0, NULL);
    return r < 0 ? err_set(remembered->err, ENOENT, "%s", why.text) : 0;
}

/* One that has come into the list while nobody had it open, and was never used. */
static int check_new(void *context, size_t number, const struct replica_info *info)
{
    const struct remembered *remembered = context;
    int r = info->in_use ? disk_is_noted(remembered->folder, info->path, remembered->err) : 1;

    return r != 0 ? (r < 0 ? r : 0)
                  : replica_take_out(remembered->folder->replicas, number, REPLICA_NOT_FILLED, 0,
                                     remembered->err);
}

/* What has gone out while they were opened, once it is known that one is left. */
static int record_out(void *context, size_t number, const struct replica_info *info)
{
    const struct remembered *remembered = context;
    struct folder *folder = remembered->folder;
    cleanup(buf_release) struct buf reason;
    int64_t since_ns;

    (void)number;
    buf_init(&reason, OUTS_ROW_MOST);
    if (info->in_use)
        return 0;
    int r = outs_get(folder, info->path, &reason, &since_ns, remembered->err);
    return r == -ENOENT ? record(folder, info->path, info->reason, info->since_ns, remembered->err)
                        : r;
}

/* What is recorded of each path; TEXTS keeps the reasons. */
static int read_outs(struct folder *folder, const struct folder_options *options,
                     struct buf texts[REPLICAS_MOST], struct replica_out *outs, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < options->count && i < REPLICAS_MOST; i++) {
        r = outs_get(folder, options->paths[i], &texts[i], &outs[i].since_ns, err);
        if (r == 0)
            outs[i].reason = texts[i].data;
        r = r == -ENOENT ? 0 : r;
    }
    return r;
}

/* What is there may have been out of use: then it does not stand for what is not there. */
static int explain(const struct folder_options *options, const struct replica_out *outs, int code,
                   const struct err *own, struct err *err)
{
    for (size_t i = 0; i < options->count; i++)
        if (outs[i].reason)
            return err_set(err, -code, "%s; %s has been out of use, and what it holds is old (%s)",
                           err_text(own, code), options->paths[i], outs[i].reason);
    return err_set(err, -code, "%s", err_text(own, code));
}

static int open_those_in_use(struct folder *folder, const struct folder_options *options,
                             struct err *err)
{
    struct buf texts[REPLICAS_MOST];
    struct replica_out outs[REPLICAS_MOST] = {{NULL, 0}};
    const struct replica_options wanted = {.paths = options->paths,
                                           .count = options->count,
                                           .outs = outs,
                                           .timeout_ns = options->timeout_ns,
                                           .read_only = options->read_only,
                                           .record = record,
                                           .context = folder};
    struct err own = {""};

    for (size_t i = 0; i < REPLICAS_MOST; i++)
        buf_init(&texts[i], OUTS_ROW_MOST);
    int r = read_outs(folder, options, texts, outs, err);
    if (r == 0) {
        r = replicas_open(&wanted, &folder->replicas, &own);
        r = r < 0 ? explain(options, outs, r, &own, err) : 0;
    }
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        buf_release(&texts[i]);
    return r;
}

int outs_open(struct folder *folder, const struct folder_options *options, struct err *err)
{
    struct remembered remembered = {folder, err};
    uint64_t stamp;
    int r = locks_stamp(folder, &stamp, err);

    if (r == 0)
        r = open_those_in_use(folder, options, err);
    if (r < 0)
        return r;
    folder->stamp = stamp;
    r = replicas_each(folder->replicas, check_disk, &remembered);
    if (r == 0 && list_is_other(folder, options->paths, options->count))
        r = replicas_each(folder->replicas, check_new, &remembered);
    folder->opened = true;
    if (r == 0)
        r = replicas_each(folder->replicas, record_out, &remembered);
    return r;
}

static int note_disk(void *context, size_t number, const struct replica_info *info)
{
    const struct remembered *remembered = context;

    (void)number;
    return info->in_use ? disk_note(remembered->folder, info->path, remembered->err) : 0;
}

int outs_note_disks(struct folder *folder, struct err *err)
{
    struct remembered remembered = {folder, err};

    return replicas_each(folder->replicas, note_disk, &remembered);
}
