/* SPDX-License-Identifier: MIT */
#include "cache/inode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/key.h"
#include "base/text.h"

#define BUCKETS_FIRST 1024

static int64_t now_ms(void)
{
    return clock_steady_ns() / (NS_PER_S / 1000);
}

static uint64_t name_hash(const struct inode *parent, enum inode_class class, struct span name)
{
    return hash64(name, parent->node * 8 + class);
}

static size_t name_bucket(const struct cache *cache, const struct inode *parent,
                          enum inode_class class, struct span name)
{
    return name_hash(parent, class, name) & (cache->buckets - 1);
}

static size_t node_bucket(const struct cache *cache, uint64_t node)
{
    return node & (cache->buckets - 1); /* node ids are consecutive */
}

enum inode_class inode_class(enum inode_kind kind)
{
    switch (kind) {
    case INODE_TABLE: return CLASS_TABLE;
    case INODE_PARTITION: return CLASS_PARTITION;
    case INODE_ITEM: return CLASS_ITEM;
    case INODE_FILE:
    case INODE_LINK:
    case INODE_DIRECTORY: return CLASS_SCRATCH;
    case INODE_ROOT:
    case INODE_CONTROL: break;
    }
    return CLASS_CONTROL;
}

/* --- The two tables --- */

static void link_name(struct cache *cache, struct inode *inode)
{
    size_t at = name_bucket(cache, inode->parent, inode_class(inode->kind), inode_name(inode));
    inode->next_by_name = cache->by_name[at];
    cache->by_name[at] = inode;
}

static void unlink_name(struct cache *cache, struct inode *inode)
{
    size_t at = name_bucket(cache, inode->parent, inode_class(inode->kind), inode_name(inode));
    struct inode **link = &cache->by_name[at];
    while (*link != inode)
        link = &(*link)->next_by_name;
    *link = inode->next_by_name;
    inode->next_by_name = NULL;
}

static void link_node(struct cache *cache, struct inode *inode)
{
    size_t at = node_bucket(cache, inode->node);
    inode->next_by_node = cache->by_node[at];
    cache->by_node[at] = inode;
}

static void unlink_node(struct cache *cache, struct inode *inode)
{
    struct inode **link = &cache->by_node[node_bucket(cache, inode->node)];
    while (*link != inode)
        link = &(*link)->next_by_node;
    *link = inode->next_by_node;
}

/* Growing is an optimisation: without memory the chains just get longer. */
static void grow(struct cache *cache)
{
    size_t old_buckets = cache->buckets;
    struct inode **old_by_node = cache->by_node;
    struct inode **by_name = calloc(old_buckets * 2, sizeof *by_name);
    struct inode **by_node = calloc(old_buckets * 2, sizeof *by_node);
    if (!by_name || !by_node) {
        free(by_name);
        free(by_node);
        return;
    }
    free(cache->by_name);
    cache->by_name = by_name;
    cache->by_node = by_node;
    cache->buckets = old_buckets * 2;
    for (size_t i = 0; i < old_buckets; i++) {
        struct inode *next;
        for (struct inode *inode = old_by_node[i]; inode; inode = next) {
            next = inode->next_by_node;
            link_node(cache, inode);
            if (inode->state == INODE_ATTACHED && inode->parent)
                link_name(cache, inode);
        }
    }
    free(old_by_node);
}

struct cache *cache_new(uint64_t budget)
{
    struct cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    pthread_mutexattr_t adaptive; /* held for so short that waiting awake is cheaper */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&cache->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_cond_init(&cache->changed, NULL);
    cache->buckets = BUCKETS_FIRST;
    cache->body_budget = budget;
    cache->by_name = calloc(cache->buckets, sizeof(struct inode *));
    cache->by_node = calloc(cache->buckets, sizeof(struct inode *));
    if (cache->by_name && cache->by_node)
        cache->root = inode_new(cache, NULL, INODE_ROOT, span_text("/"), NULL);
    if (!cache->root) {
        cache_free(cache);
        return NULL;
    }
    cache->root->number = 1;
    inode_ref(cache->root);
    return cache;
}

static void free_name(struct inode *inode)
{
    if (inode->name != inode->first_name)
        free(inode->name);
}

static void inode_release(struct cache *cache, struct inode *inode)
{
    inode_drop_body(cache, inode);
    inode_edit_drop(inode);
    free(inode->scratch);
    free_name(inode);
    free(inode);
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; cache->by_node && i < cache->buckets; i++) {
        struct inode *next;
        for (struct inode *inode = cache->by_node[i]; inode; inode = next) {
            next = inode->next_by_node;
            inode_release(cache, inode);
        }
    }
    free(cache->by_name);
    free(cache->by_node);
    pthread_cond_destroy(&cache->changed);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

struct inode *inode_find(struct cache *cache, struct inode *parent, enum inode_class class,
                         struct span name)
{
    struct inode *inode = cache->by_name[name_bucket(cache, parent, class, name)];
    while (inode && (inode->parent != parent || inode_class(inode->kind) != class ||
                     !span_equal(inode_name(inode), name)))
        inode = inode->next_by_name;
    return inode;
}

struct inode *inode_get(struct cache *cache, uint64_t node)
{
    struct inode *inode = cache->by_node[node_bucket(cache, node)];
    while (inode && inode->node != node)
        inode = inode->next_by_node;
    return inode;
}

static char *name_copy(struct span name)
{
    char *copy = malloc(name.len + 1);
    if (copy) {
        if (name.len)
            memcpy(copy, name.data, name.len);
        copy[name.len] = '\0';
    }
    return copy;
}

struct inode *inode_new(struct cache *cache, struct inode *parent, enum inode_kind kind,
                        struct span name, struct volume *volume)
{
    struct inode *inode = calloc(1, sizeof *inode + name.len + 1);
    if (!inode)
        return NULL;
    if (cache->count >= cache->buckets)
        grow(cache);
    inode->node = ++cache->last_node;
    inode->kind = kind;
    inode->state = INODE_ATTACHED;
    inode->name = inode->first_name;
    inode->name_len = (uint32_t)name.len;
    if (name.len)
        memcpy(inode->name, name.data, name.len);
    inode->volume = volume;
    if (parent) {
        inode->parent = inode_ref(parent);
        inode->number = inode_number(parent, kind, name);
        link_name(cache, inode);
    }
    link_node(cache, inode);
    cache->count++;
    return inode;
}

struct inode *inode_ref(struct inode *inode)
{
    inode->refs++;
    return inode;
}

/* Nobody refers to it, and it holds nothing that is not in the backend. */
static bool is_idle(const struct inode *inode)
{
    return inode->refs == 0 && inode->lookups == 0 && !inode->listed && !inode->linger &&
           !(inode->edit && (inode->edit->dirty || inode->edit->saving));
}

static void drop_if_idle(struct cache *cache, struct inode *inode)
{
    while (inode && is_idle(inode)) {
        struct inode *parent = inode->parent;
        if (parent && inode->state == INODE_ATTACHED)
            unlink_name(cache, inode);
        unlink_node(cache, inode);
        cache->count--;
        inode_release(cache, inode);
        if (!parent)
            return;
        parent->refs--;
        inode = parent;
    }
}

void inode_unref(struct cache *cache, struct inode *inode)
{
    assert(inode->refs > 0);
    inode->refs--;
    drop_if_idle(cache, inode);
}

void inode_forget(struct cache *cache, struct inode *inode, uint64_t lookups)
{
    assert(inode->lookups >= lookups);
    inode->lookups -= lookups;
    drop_if_idle(cache, inode);
}

void inode_detach(struct cache *cache, struct inode *inode, enum inode_state state)
{
    if (inode->state != INODE_ATTACHED || !inode->parent)
        return;
    cache_moved(cache, inode->parent, inode_name(inode));
    unlink_name(cache, inode);
    inode->state = state;
    inode->since_ms = (uint32_t)now_ms();
    inode->linger = false;
    inode_unlist(inode);
    inode_check(inode);
}

uint32_t cache_ms(void)
{
    return (uint32_t)now_ms();
}

void inode_told_at(struct inode *inode, uint32_t ms)
{
    if (inode->doubted && (int32_t)(ms - inode->since_ms) <= 0)
        return;
    inode->since_ms = ms;
    inode->doubted = false;
}

void inode_doubt(struct inode *inode)
{
    inode->doubted = true;
    inode->since_ms = cache_ms();
}

uint32_t inode_told_ago(const struct inode *inode)
{
    return cache_ms() - inode->since_ms;
}

int inode_move(struct cache *cache, struct inode *inode, struct inode *parent, enum inode_kind kind,
               struct span name, struct volume *volume)
{
    char *copy = name_copy(name);
    if (!copy)
        return -ENOMEM;
    struct inode *old_parent = inode->parent;
    inode_unlist(inode);
    if (inode->state == INODE_ATTACHED) {
        cache_moved(cache, old_parent, inode_name(inode));
        unlink_name(cache, inode);
    }
    free_name(inode);
    inode->name = copy;
    inode->name_len = (uint32_t)name.len;
    inode->kind = kind;
    inode->volume = volume;
    inode->parent = inode_ref(parent);
    inode->number = inode_number(parent, kind, name);
    inode->state = INODE_ATTACHED;
    link_name(cache, inode);
    cache_moved(cache, parent, name);
    inode_check(inode);
    inode_unref(cache, old_parent);
    return 0;
}

/* --- Edits --- */

struct edit *inode_edit(struct inode *inode, size_t max)
{
    if (!inode->edit) {
        inode->edit = calloc(1, sizeof *inode->edit);
        if (inode->edit) {
            buf_init(&inode->edit->bytes, max);
            inode->edit->base = inode->meta.version;
            inode->edit->round = 1;
        }
    }
    return inode->edit;
}

void inode_edit_drop(struct inode *inode)
{
    if (!inode->edit)
        return;
    buf_release(&inode->edit->bytes);
    free(inode->edit);
    inode->edit = NULL;
}

/* --- Bodies --- */

static void unlink_body(struct cache *cache, struct inode *inode)
{
    if (inode->newer)
        inode->newer->older = inode->older;
    else
        cache->newest = inode->older;
    if (inode->older)
        inode->older->newer = inode->newer;
    else
        cache->oldest = inode->newer;
    inode->newer = inode->older = NULL;
}

static void link_body(struct cache *cache, struct inode *inode)
{
    inode->older = cache->newest;
    if (cache->newest)
        cache->newest->newer = inode;
    else
        cache->oldest = inode;
    cache->newest = inode;
}

static uint64_t body_cost(const struct body *body)
{
    return sizeof *body + body->len;
}

void inode_drop_body(struct cache *cache, struct inode *inode)
{
    if (!inode->body)
        return;
    unlink_body(cache, inode);
    cache->body_bytes -= body_cost(inode->body);
    body_unref(inode->body);
    inode->body = NULL;
    inode->in_cache = false;
}

/* A body that exists nowhere else (its inode lost its name while it is held) stays. */
static bool is_evictable(const struct inode *inode)
{
    return inode->state == INODE_ATTACHED || inode->refs == 0;
}

void inode_set_body(struct cache *cache, struct inode *inode, struct body *body)
{
    inode_drop_body(cache, inode);
    inode->body = body;
    inode->in_cache = true;
    link_body(cache, inode);
    cache->body_bytes += body_cost(body);
    inode_check(inode);
    struct inode *victim = cache->oldest;
    while (cache->body_bytes > cache->body_budget && victim && victim != inode) {
        struct inode *next = victim->newer;
        if (is_evictable(victim))
            inode_drop_body(cache, victim);
        victim = next;
    }
}

struct body *inode_use_body(struct cache *cache, struct inode *inode)
{
    if (inode->body && cache->newest != inode) {
        unlink_body(cache, inode);
        link_body(cache, inode);
    }
    return inode->body;
}

/* --- Local entries --- */

void inode_list_locally(struct inode *inode)
{
    if (inode->listed)
        return;
    struct inode *parent = inode->parent;
    inode->local_next = parent->locals;
    inode->local_prev = NULL;
    if (parent->locals)
        parent->locals->local_prev = inode;
    parent->locals = inode;
    inode->listed = true;
}

void inode_unlist(struct inode *inode)
{
    if (!inode->listed)
        return;
    if (inode->local_prev)
        inode->local_prev->local_next = inode->local_next;
    else
        inode->parent->locals = inode->local_next;
    if (inode->local_next)
        inode->local_next->local_prev = inode->local_prev;
    inode->local_next = inode->local_prev = NULL;
    inode->listed = false;
}

/* --- Freshness --- */

static size_t slot_of(const struct inode *parent, struct span name)
{
    return hash64(name, parent->node) % FRESHNESS_SLOTS;
}

uint64_t cache_stamp(const struct cache *cache)
{
    return cache->event;
}

void cache_moved(struct cache *cache, const struct inode *parent, struct span name)
{
    cache->slots[slot_of(parent, name)] = ++cache->event;
}

bool cache_has_moved(const struct cache *cache, const struct inode *parent, struct span name,
                     uint64_t stamp)
{
    return cache->slots[slot_of(parent, name)] > stamp;
}

void cache_note_absent(struct cache *cache, const struct inode *parent, enum inode_class class,
                       struct span name, uint64_t stamp)
{
    uint64_t hash = name_hash(parent, class, name);
    cache->absent[hash % ABSENT_SLOTS] = (struct absent){hash, stamp, now_ms() + ABSENT_MS};
}

bool cache_is_absent(const struct cache *cache, const struct inode *parent, enum inode_class class,
                     struct span name)
{
    uint64_t hash = name_hash(parent, class, name);
    const struct absent *known = &cache->absent[hash % ABSENT_SLOTS];
    return known->hash == hash && !cache_has_moved(cache, parent, name, known->stamp) &&
           now_ms() < known->until_ms;
}

void inode_check(const struct inode *inode)
{
    assert(inode->state == INODE_ATTACHED || !inode->next_by_name);
    assert(!inode->edit || inode->kind == INODE_ITEM || inode->kind == INODE_FILE);
    assert(!inode->body || inode->kind == INODE_ITEM || inode->kind == INODE_FILE);
    assert(inode->in_cache == (inode->body != NULL));
    assert(!inode->listed || inode->parent);
    (void)inode;
}
