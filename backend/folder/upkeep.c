/* SPDX-License-Identifier: MIT */
/* Work in the background: what has expired is deleted, files and rows; replicas that differ are
 * made alike. */
#include <errno.h>
#include <stdlib.h>

#include "backend/folder/private.h"

#define SWEPT_MOST 1000 /* in one call */

struct expired {
    uint64_t table_id;
    size_t len; /* of the key's part */
};

struct sweep {
    struct buf found; /* each an `expired` and its part */
};

static int note_expired(void *context, const struct table *table, struct key key)
{
    struct sweep *sweep = context;
    struct expired expired = {table->id, key.partition.len};

    buf_add(&sweep->found, &expired, sizeof expired);
    buf_add_span(&sweep->found, key.partition);
    return buf_error(&sweep->found);
}

/* The stripe is held; the item's file may have been written anew. -EBUSY: or it just is. */
static int sweep_locked(struct folder *folder, struct known *known, struct span part,
                        struct err *err)
{
    const struct key key = {.partition = part};
    struct item_meta meta;
    struct err own = {""};
    char name[NAME_MAX + 1];
    cleanup(file_lock_give) struct file_lock *lock = NULL;
    bool changed, differ;

    if (file_name_of_key(known->table, key, name, NULL) < 0)
        return 0;
    int r = file_claim(folder, known, name, part, CLAIM_MEND, &lock, &differ, err);
    if (r < 0)
        return r;
    r = mirror_get(folder, known->table, part, &meta, NULL, &own);
    if (r == -ENOENT || (r == 0 && !item_expired(meta.ttl, clock_now_s())))
        return 0;
    const struct file_op op = {.kind = FILE_DELETE, .folder = known->folder, .name = name};
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (differ)
        r = repair_keep(folder, known, name, part, &own);
    if (r == 0)
        r = replicas_apply(folder->replicas, &op, 1, folder->durable, &changed, &own);
    struct action action = {.kind = ACTION_DELETE, .table = known->table, .key = key};
    if (r == 0)
        r = backend_write(folder->store, &action, 1, 0, &own);
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 1;
}

/* 1: it was deleted; 0: it is to stay, or another program is at work on it. */
static int sweep_one(struct folder *folder, uint64_t table_id, struct span part, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    uint64_t stripe = lock_bit(table_id, part);
    struct err own = {""};
    int r = locks_take(folder, stripe, err);

    if (r < 0)
        return r;
    r = known_by_id(folder, table_id, &known, &own);
    if (r == 0)
        r = sweep_locked(folder, known, part, err);
    else if (r != -ENOENT)
        err_set(err, -r, "%s", err_text(&own, r));
    locks_give(folder, stripe);
    if (r != -ENOENT && r != -EBUSY)
        return r;
    err_clear(err);
    return 0;
}

/* RET_MORE: there may be more to sweep at once. */
static int sweep(struct folder *folder, bool *ret_more, struct err *err)
{
    struct sweep found = {.found = {0}};
    size_t count = 0, swept = 0;

    buf_init(&found.found, SIZE_MAX / 2);
    int r = backend_expired(folder->imports, SWEPT_MOST, note_expired, &found, err);
    for (size_t at = 0; r >= 0 && at < found.found.len; count++) {
        struct expired expired;
        memcpy(&expired, found.found.data + at, sizeof expired);
        at += sizeof expired;
        r = sweep_one(folder, expired.table_id, span_of(found.found.data + at, expired.len), err);
        at += expired.len;
        swept += r == 1;
    }
    buf_release(&found.found);
    *ret_more = count == SWEPT_MOST && swept > 0;
    return r < 0 ? r : 0;
}

int folder_maintain(struct backend *backend, int64_t *ret_next_ns, struct err *err)
{
    struct folder *folder = folder_of(backend);
    bool more = false;
    int r = 0;

    if (list_changed(folder) && (r = locks_take(folder, ALL_STRIPES, err)) == 0)
        locks_give(folder, ALL_STRIPES);
    if (r == 0 && folder->watch)
        r = watch_drain(folder, err);
    do {
        more = false;
        if (r == 0 && !folder->read_only)
            r = sweep(folder, &more, err);
    } while (r == 0 && more);
    if (r == 0)
        r = repairs_run(folder, false, err);
    int kept = backend_maintain(folder->store, ret_next_ns, err);
    if (*ret_next_ns > NS_PER_S)
        *ret_next_ns = NS_PER_S;
    return r < 0 ? r : kept;
}
