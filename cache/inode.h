/* SPDX-License-Identifier: MIT */
/*
 * The inodes that this mount knows, and what is known of each. No I/O, no FUSE.
 *
 * An inode is one object of the mount's namespace, and for the kernel's sake it has one content
 * for life, as far as others are concerned: what happens elsewhere never changes an inode, it takes
 * its name away. A change made by this mount keeps the inode, as in any filesystem.
 *
 *   state      reachable by name   content
 *   ATTACHED   yes                 `meta` is what the backend has, as far as anybody has told
 *   REMOVED    no                  deleted or replaced by this mount: saves go nowhere, silently
 *   OUTDATED   no                  changed or deleted elsewhere, or its save was refused: a save is
 *                                  tried under the version it was based on, and so conflicts
 *
 * Invariants (inode_check asserts them): at most one ATTACHED inode a (parent, class, name); only
 * items and scratch files have an edit or a body; an inode with an edit that is dirty is alive even
 * when nobody refers to it; a body in the cache is of the version in `meta`.
 *
 * Two counts keep an inode alive: `lookups`, what the kernel holds, and `refs`, what this process
 * holds (children hold their parent). Node ids are never used twice.
 *
 * Lock: everything here (but `kind`, `node` and `volume`) is guarded by cache->lock, except what
 * says otherwise. It is held for short times only, never across I/O or a notification. It is the
 * only lock of cache/, and taken after no other.
 */
#ifndef CACHE_INODE_H
#define CACHE_INODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/key.h"
#include "base/span.h"
#include "cache/body.h"

struct volume; /* the table an inode belongs to, with its backend: fs/ knows what it is */

enum inode_kind {
    INODE_ROOT,
    INODE_TABLE,
    INODE_PARTITION,
    INODE_ITEM,
    INODE_FILE,      /* scratch */
    INODE_LINK,      /* scratch */
    INODE_DIRECTORY, /* scratch */
    INODE_CONTROL,
};

/* Names of different classes live beside each other: "ada" the key, "ada" the scratch file. */
enum inode_class { CLASS_TABLE, CLASS_PARTITION, CLASS_ITEM, CLASS_SCRATCH, CLASS_CONTROL };

enum inode_state { INODE_ATTACHED, INODE_REMOVED, INODE_OUTDATED };

/* What the backend said of an item or scratch object. */
struct inode_meta {
    uint64_t version; /* content version; 0: not in the backend yet */
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    int64_t ttl; /* epoch seconds, 0: never; of a directory: the earliest in it */
    int64_t change_ns;
    uint8_t change;  /* enum change_type */
    bool unreadable; /* what is stored cannot be shown: asking again tells why */
    bool hidden;     /* since it was saved: nobody else is shown it */
};

/* Content that is being written. Made by the first opener for writing. */
struct edit {
    struct buf bytes;
    bool loaded;  /* bytes is the content; else the committed body is */
    bool dirty;   /* bytes differs from what was last committed or refused */
    bool written; /* by more than a truncation */
    bool emptied; /* truncated by open(O_TRUNC): shells close early, so it is judged late */
    bool restart; /* emptying it was refused: what is written now begins with nothing */
    bool fresh;   /* the item is not in the backend yet */
    bool saving;  /* a commit is under way: writers wait for cache->changed */
    bool timed;   /* mtime_ns was set by name and not written since */
    bool ttl_set; /* the TTL in `meta` was set by name: it goes into what is saved */
    bool paged;   /* pages were written back: nobody knows by whose handle */
    int code;     /* what a write beyond the limit left: -EFBIG, else 0 */
    unsigned writers;
    unsigned round; /* from 1: one more with each commit and each refusal */
    uint64_t base;  /* version that the next commit replaces; 0: none */
    int64_t mtime_ns;
    int refused;  /* errno of the last refusal, until something else is written */
    pid_t author; /* process that opened it for writing last */
};

/* Scratch objects only. */
struct scratch_state {
    uint64_t id; /* 0: not in the backend yet */
    uint64_t version;
    uint32_t mode, uid, gid;
};

struct inode {
    uint64_t node;                 /* FUSE node id */
    uint64_t number;               /* st_ino */
    _Atomic(enum inode_kind) kind; /* read without the lock: it tells what the object is */
    enum inode_state state;
    uint32_t since_ms;    /* when it became OUTDATED or doubted, or the backend last told of it; low
                             bits of the steady clock */
    bool in_cache : 1;    /* on the list of bodies */
    bool storing : 1;     /* its body is being handed to the kernel */
    bool filled : 1;      /* it was; of a directory: it was listed to the end */
    bool listed : 1;      /* on its parent's list of local entries */
    bool conflicted : 1;  /* its last rename was refused, and the kernel will try it once more */
    bool frozen : 1;      /* a rename is under way: edits and saves wait for cache->changed */
    bool superseded : 1;  /* OUTDATED by this mount itself: no path may lead to it any more */
    bool shown_early : 1; /* a directory: its times were shown while something was being made in it
                           */
    bool replaced : 1; /* REMOVED by a rename over it: who comes too late still gets its content */
    bool linger : 1;   /* a partition that stays without items: made here, or emptied here */
    bool there : 1;    /* a partition: it held something when the backend last told of it */
    bool relist : 1;   /* a directory: something came or went that the kernel may not know yet */
    bool doubted : 1;  /* what the backend last told of it counts no more */
    uint64_t lookups;
    uint32_t refs;
    uint32_t name_len;
    char *name; /* key part, scratch or table name; NUL behind name_len */
    struct inode *parent;
    struct volume *volume; /* NULL for the root and control files; lives as long as the mount */
    struct inode_meta meta;
    struct body *body;
    struct edit *edit;
    struct scratch_state *scratch;
    struct inode *next_by_name, *next_by_node;
    struct inode *newer, *older;           /* bodies by use */
    struct inode *local_next, *local_prev; /* parent's local entries */
    struct inode *locals;                  /* entries that the backend does not list yet */
    char first_name[];                     /* the name it was made with, in the same block */
};

#define FRESHNESS_SLOTS 8192
#define ABSENT_SLOTS 256
#define ABSENT_MS 100 /* half of what a change made elsewhere may take to be seen */

/* A name that a fetch has just found absent. */
struct absent {
    uint64_t hash, stamp;
    int64_t until_ms; /* steady clock */
};

struct cache {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a saving or storing ended */
    struct inode **by_name, **by_node;
    size_t buckets, count;
    uint64_t last_node;
    struct inode *root;
    /* Bodies by use, and their bytes. */
    struct inode *newest, *oldest;
    uint64_t body_bytes, body_budget;
    /* Stamps: when something with that hash last moved. */
    uint64_t event;
    uint64_t slots[FRESHNESS_SLOTS];
    struct absent absent[ABSENT_SLOTS];
};

/* BUDGET is bytes of bodies. The root has node 1 and number 1. NULL when memory ran out. */
struct cache *cache_new(uint64_t budget);
void cache_free(struct cache *cache);

/* --- All below: cache->lock held --- */

/* The ATTACHED inode of that name, or NULL. No reference is taken. */
struct inode *inode_find(struct cache *, struct inode *parent, enum inode_class, struct span name);
/* By node id; NULL where there is none. */
struct inode *inode_get(struct cache *, uint64_t node);
/* A new ATTACHED inode without counts; the caller must ref or look it up before unlocking. */
struct inode *inode_new(struct cache *, struct inode *parent, enum inode_kind, struct span name,
                        struct volume *);
struct inode *inode_ref(struct inode *inode);
/* May free it. */
void inode_unref(struct cache *, struct inode *inode);
void inode_forget(struct cache *, struct inode *inode, uint64_t lookups);
/* Takes its name away; STATE is REMOVED or OUTDATED. Does nothing to one that has none. */
void inode_detach(struct cache *, struct inode *inode, enum inode_state state);
/* What the backend told of INODE was asked for at MS, as cache_ms has it. Where that is not after
 * inode_doubt, it counts for nothing. */
void inode_told_at(struct inode *inode, uint32_t ms);
/* What the backend was asked about INODE up to now counts no more. */
void inode_doubt(struct inode *inode);
/* How many milliseconds ago one of these was. */
uint32_t cache_ms(void);
uint32_t inode_told_ago(const struct inode *inode);
/* Gives an ATTACHED or detached inode another name (and kind); nothing may be attached there.
 * -ENOMEM leaves it as it was. */
int inode_move(struct cache *, struct inode *inode, struct inode *parent, enum inode_kind,
               struct span name, struct volume *);
enum inode_class inode_class(enum inode_kind kind);
/* The number that an inode of that kind and name in PARENT has. */
static inline uint64_t inode_number(const struct inode *parent, enum inode_kind kind,
                                    struct span name)
{
    return key_inode_number(parent->number * 8 + inode_class(kind), name);
}
static inline enum inode_kind inode_kind(const struct inode *inode)
{
    return atomic_load_explicit(&inode->kind, memory_order_relaxed);
}
static inline struct span inode_name(const struct inode *inode)
{
    return span_of(inode->name, inode->name_len);
}

/* The edit of INODE, made when absent, with MAX bytes at most; NULL when memory ran out. */
struct edit *inode_edit(struct inode *inode, size_t max);
void inode_edit_drop(struct inode *inode);

/* Keeps BODY (takes the reference) as INODE's, evicting others over the budget. */
void inode_set_body(struct cache *, struct inode *inode, struct body *body);
void inode_drop_body(struct cache *, struct inode *inode);
/* The cached body, marked as used, without a reference; or NULL. */
struct body *inode_use_body(struct cache *, struct inode *inode);

/* Local entries: children that a listing must show although the backend has none of them. */
void inode_list_locally(struct inode *inode);
void inode_unlist(struct inode *inode);

/* Freshness: a fetch takes a stamp first; what it brought is used only if that did not move. */
uint64_t cache_stamp(const struct cache *cache);
void cache_moved(struct cache *, const struct inode *parent, struct span name);
bool cache_has_moved(const struct cache *, const struct inode *parent, struct span name,
                     uint64_t stamp);

/* A fetch with STAMP found nothing under that name: known for a moment, since who asks for a name
 * that is absent mostly makes it next. */
void cache_note_absent(struct cache *, const struct inode *parent, enum inode_class,
                       struct span name, uint64_t stamp);
bool cache_is_absent(const struct cache *, const struct inode *parent, enum inode_class,
                     struct span name);

/* Asserts the invariants of one inode (debug builds). */
void inode_check(const struct inode *inode);

#endif
