/* SPDX-License-Identifier: MIT */
/* RENAME_EXCHANGE: two files change places, in one batch. */
#include "fs/rename.h"

#include <errno.h>
#include <stdio.h>

static int exchange_items(struct rename *rename, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *sides[2] = {rename->source, rename->target};
    struct body *bodies[2] = {NULL, NULL};
    struct key_copy keys[2];
    struct action actions[2] = {0};
    struct buf outs[2];
    int code = 0;
    for (int i = 0; i < 2; i++) {
        buf_init(&outs[i], SIZE_MAX / 2);
        pthread_mutex_lock(&mount->cache->lock);
        int copied = key_copy_locked(sides[i], &keys[i]);
        pthread_mutex_unlock(&mount->cache->lock);
        code = code ? code : copied;
    }
    for (int i = 0; i < 2 && code >= 0; i++) { /* side i gets the content of the other */
        struct inode *from = sides[1 - i];
        int64_t mtime_ns, ttl;
        code = current_content(mount, from, &bodies[i], &mtime_ns, err);
        const struct table *table = volume_table(sides[i]->volume);
        if (code == 0)
            code = content_store(table, keys[i].key, body_span(bodies[i]), from->meta.ttl, TTL_KEPT,
                                 &outs[i], &ttl, NULL, err);
        if (code >= 0)
            actions[i] = (struct action){.kind = ACTION_PUT,
                                         .table = table,
                                         .key = keys[i].key,
                                         .condition = {COND_VERSION, sides[i]->meta.version},
                                         .body = code ? buf_span(&outs[i]) : body_span(bodies[i]),
                                         .mtime_ns = mtime_ns,
                                         .ttl = ttl};
    }
    if (code >= 0)
        code = backend_write(rename->dir->volume->backend, actions, 2, 0, err);
    pthread_mutex_lock(&mount->cache->lock);
    /* Both are looked up anew: simpler than two inodes changing places, and as right. */
    for (int i = 0; i < 2 && code == 0; i++)
        outdate_locked(mount, sides[i]);
    pthread_mutex_unlock(&mount->cache->lock);
    for (int i = 0; i < 2; i++) {
        body_unref(bodies[i]);
        key_copy_release(&keys[i]);
        buf_release(&outs[i]);
    }
    return code;
}

static int exchange_scratch(struct rename *rename, struct err *err)
{
    struct mount *mount = rename->mount;
    struct inode *a = rename->source, *b = rename->target;
    cleanup(buf_release) struct buf name_a;
    buf_init(&name_a, SIZE_MAX / 2);
    struct action actions[3];
    char between[64];
    pthread_mutex_lock(&mount->cache->lock);
    struct inode *dir_a = inode_ref(a->parent);
    buf_add_span(&name_a, inode_name(a));
    bool stored = a->scratch->id && b->scratch->id;
    snprintf(between, sizeof between, ".itemfs-exchange-%016llx",
             (unsigned long long)clock_now_ns()); /* nobody sees it: it is one transaction */
    move_action_locked(a, dir_a, span_text(between), &actions[0]);
    move_action_locked(b, dir_a, buf_span(&name_a), &actions[1]);
    move_action_locked(a, rename->dir, rename->name, &actions[2]);
    actions[2].condition = (struct condition){COND_NONE, 0};
    pthread_mutex_unlock(&mount->cache->lock);
    int code = stored ? backend_write(rename->dir->volume->backend, actions, 3, 0, err)
                      : err_set(err, EBUSY, "a file that is still being made");
    if (code == -ESTALE) {
        scratch_recheck(mount, a);
        scratch_recheck(mount, b);
    }
    scoped_lock(&mount->cache->lock);
    if (code == 0) {
        scratch_written_locked(a, &actions[2]);
        scratch_written_locked(b, &actions[1]);
        inode_detach(mount->cache, b, INODE_OUTDATED);
        code = inode_move(mount->cache, a, rename->dir, a->kind, rename->name, rename->dir->volume);
        if (code == 0)
            code = inode_move(mount->cache, b, dir_a, b->kind, buf_span(&name_a), dir_a->volume);
    }
    inode_unref(mount->cache, dir_a);
    return code;
}

/* An item and a scratch file: each gets the content of the other. */
static int exchange_mixed(struct rename *rename, struct inode *item, struct inode *scratch,
                          struct err *err)
{
    struct mount *mount = rename->mount;
    struct body *item_body = NULL, *scratch_body = NULL;
    int64_t item_mtime_ns = 0, scratch_mtime_ns = 0, ttl;
    struct key_copy copy;
    cleanup(buf_release) struct buf out;
    buf_init(&out, SIZE_MAX / 2);
    cleanup(buf_release) struct buf name;
    buf_init(&name, SIZE_MAX / 2);
    bool rekeyed = false;
    struct action actions[2] = {0};
    const struct table *table = volume_table(item->volume);
    pthread_mutex_lock(&mount->cache->lock);
    inode_file_name(item, &name);
    int code = key_copy_locked(item, &copy);
    scratch_action_locked(scratch, &actions[1]);
    pthread_mutex_unlock(&mount->cache->lock);
    if (code == 0)
        code = current_content(mount, item, &item_body, &item_mtime_ns, err);
    if (code == 0)
        code = current_content(mount, scratch, &scratch_body, &scratch_mtime_ns, err);
    if (code == 0 && scratch_body->len == 0)
        code = err_set(err, EINVAL, "table %s: an item cannot be emptied; it stays as it was",
                       table->name);
    if (code == 0)
        code = content_store(table, copy.key, body_span(scratch_body), item->meta.ttl, TTL_KEPT,
                             &out, &ttl, &rekeyed, err);
    if (code >= 0 && item_body && scratch_body) {
        actions[0] = (struct action){.kind = ACTION_PUT,
                                     .table = table,
                                     .key = copy.key,
                                     .condition = {COND_VERSION, item->meta.version},
                                     .body = code ? buf_span(&out) : body_span(scratch_body),
                                     .mtime_ns = scratch_mtime_ns,
                                     .ttl = ttl};
        actions[1].body = body_span(item_body);
        actions[1].scratch.mtime_ns = item_mtime_ns;
        code = backend_write(item->volume->backend, actions, 2, 0, err);
    }
    if (code == -ESTALE) {
        scratch_recheck(mount, scratch);
        scoped_lock(&mount->cache->lock);
        supersede_locked(mount, item->parent, inode_name(item));
    }
    if (code == 0 && rekeyed)
        draft_keep_rekeyed(mount, item->parent, buf_span(&name), copy.key, body_span(scratch_body));
    key_copy_release(&copy);
    body_unref(item_body);
    body_unref(scratch_body);
    if (code < 0)
        return code;
    scoped_lock(&mount->cache->lock);
    outdate_locked(mount, item);
    inode_detach(mount->cache, scratch, INODE_OUTDATED); /* a writer of it is told at its close */
    scratch->superseded = true;
    notify_name(mount, scratch->parent, inode_name(scratch));
    return 0;
}

int rename_exchange(struct rename *rename, struct err *err)
{
    struct inode *source = rename->source, *target = rename->target;
    if (!target)
        return -ENOENT;
    if (source->kind == INODE_ITEM && target->kind == INODE_FILE)
        return exchange_mixed(rename, source, target, err);
    if (source->kind == INODE_FILE && target->kind == INODE_ITEM)
        return exchange_mixed(rename, target, source, err);
    if (source->kind == INODE_ITEM && target->kind == INODE_ITEM)
        return exchange_items(rename, err);
    if (source->scratch && target->scratch && source->kind != INODE_DIRECTORY &&
        target->kind != INODE_DIRECTORY)
        return exchange_scratch(rename, err);
    return err_set(err, EINVAL, "only files change places");
}
