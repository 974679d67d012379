/* SPDX-License-Identifier: MIT */
/*
 * One mount: what its parts share. fs/ is the one place where cache and backends meet.
 *
 *   ops.c      FUSE requests in, exactly one reply out      save.c    from written bytes to an item
 *   resolve.c  names to inodes                              notify.c  the kernel's caches, told
 *   attr.c     stat, chmod, times, truncation               follow.c  changes made elsewhere
 *   dir.c      listings                                     grace.c   deletions that wait
 *   file.c     open files                                   control.c the .itemfs directory
 *   make.c, remove.c, rename.c                              report.c  refusals, drafts, messages
 *   scratch.c  what is no item                              fill.c    ... and filled
 *                                                           changes.c streams, as files
 *
 * Every function that can fail returns 0 or a negative errno with a message in its struct err. A
 * function whose name ends in _locked is called with cache->lock held, all others without it.
 */
#ifndef FS_MOUNT_H
#define FS_MOUNT_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/source.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "cache/inode.h"

/* Kernel caches that something will invalidate are kept this long, in seconds. */
#define CACHE_FOREVER 1e9

#define SCRATCH_SIZE_MAX (256u << 20) /* bytes of a scratch file */

/* A table of this mount. `table` is replaced when the table is altered; old ones are kept until
 * the end, so that whoever read the pointer may go on using it. */
struct volume {
    _Atomic(struct table *) table;
    struct backend *backend;
    bool dropped;
    int64_t told_ns; /* steady clock: when the backend last described it */
    /* Its stream (streams.c); cache->lock. */
    bool stream_found;    /* by who reads them */
    bool followed;        /* what was told of items counts until the stream tells of a change, */
    uint32_t followed_ms; /* if that was after this (cache_ms), */
    int64_t followed_until_ns; /* and it is heard of again before this (steady clock) */
    int64_t heard_ns;          /* steady clock: when it was last read to its end; 0: never */
    uint64_t changes_seen;
    char not_followed[160]; /* why; empty: there is no stream to follow, or it is followed */
    struct volume *next;
    struct retired_table {
        struct table *table;
        struct retired_table *next;
    } * retired;
};

static inline const struct table *volume_table(const struct volume *volume)
{
    return atomic_load_explicit(&volume->table, memory_order_acquire);
}

/* An open file. */
struct handle {
    struct inode *inode; /* a reference */
    bool write;
    unsigned wrote; /* the edit's round in which something last came by this handle; 0: never */
    pid_t opener;
    struct body *content;        /* of a control file, as it was when opened */
    struct reader *reader;       /* of a file of changes (feed.h) */
    struct handle *next, **link; /* the mount's open files */
};

/* An item renamed to a scratch name: deleted at `deadline` unless a new one takes its place. */
struct grace {
    struct inode *dir; /* a reference */
    char *name;        /* key part */
    size_t name_len;
    struct volume *volume;
    uint64_t version;
    int64_t ttl;         /* of the item, for the one that takes its place */
    int64_t deadline_ns; /* steady clock */
    bool shown;          /* called off: the item shows again, and nothing is deleted */
    bool ended;          /* deleted when `pid` has ended, instead of at a deadline */
    pid_t pid;           /* who took the name away */
    struct grace *next;
};

#define REPORT_RING 256
#define AUTHORED_RING 256

/* Drafts of programs that may try again. */
struct authored {
    pid_t author; /* 0: unused */
    uint64_t dir; /* node */
    char *name;   /* file name */
    uint64_t draft;
};

/* The last refusals, for user.itemfs.error. */
struct report {
    uint64_t dir; /* node of the directory; 0: unused */
    char *name;   /* file name; "" for the directory itself */
    char text[ERR_TEXT_MAX];
};

/* A draft that the backend could not take (full disk): held here until it can. */
struct held_draft {
    struct draft draft;
    struct body *body;
    struct backend *backend;
    struct held_draft *next;
    char strings[]; /* table, path, reason */
};

struct spelling;
struct spellings {
    struct spelling *entries;
    size_t size, count; /* size: a power of two, or 0 */
};

enum op_counter {
    OP_LOOKUP,
    OP_GETATTR,
    OP_SETATTR,
    OP_READDIR,
    OP_OPEN,
    OP_READ,
    OP_WRITE,
    OP_FLUSH,
    OP_FSYNC,
    OP_CREATE,
    OP_UNLINK,
    OP_RENAME,
    OP_XATTR,
    OP_COUNT
};

struct notifier;
struct filler;
struct streams;
struct changes;
struct deliver;
struct upkeep;

struct mount {
    struct config *config;
    struct source *stored; /* tables as they are stored: for streams, functions, upkeep, counts */
    struct source *source; /* as they are shown */
    struct cache *cache;
    struct fuse_session *session;
    struct notifier *notifier;
    struct filler *filler;
    struct streams *streams; /* NULL: none are followed */
    struct changes *changes;
    struct deliver *deliver;
    struct upkeep *upkeep;
    const char *mountpoint;
    int64_t mounted_ns;
    uid_t uid;
    gid_t gid;
    uint64_t prefill_budget; /* bytes of kernel pages a listing may fill */

    /* Guarded by cache->lock. */
    struct volume *volumes;
    int64_t volumes_told_ns; /* steady clock: when all were last read */
    struct handle *handles;
    struct listing *listings;
    struct grace *graces;
    struct report reports[REPORT_RING];
    size_t report_next;
    struct authored authored[AUTHORED_RING];
    size_t authored_next, authored_count;
    struct held_draft *held;
    struct spellings spellings;

    /* Threads that wait for time to pass. */
    pthread_mutex_t timer_lock;
    pthread_cond_t timer_wake;  /* steady clock */
    pthread_cond_t follow_wake; /* likewise, of the follower alone */
    bool told;                  /* of a change that the follower has not looked for yet */
    bool stopping;
    pthread_t follower, keeper;
    _Atomic bool serving; /* SERVER waits for the end */
    pthread_t server;
    pid_t reaper;   /* process; 0: none */
    int connection; /* its number in the kernel; -1: not known */
    bool follower_started, keeper_started;
    struct follower *followers; /* of each backend */

    _Atomic uint64_t ops[OP_COUNT], op_errors;
    _Atomic uint64_t saves, refusals, conflicts, foreign_changes, prefilled;
};

static inline void mount_count(struct mount *mount, enum op_counter op)
{
    atomic_fetch_add_explicit(&mount->ops[op], 1, memory_order_relaxed);
}

/* --- volumes (resolve.c) --- */

/* Reads the tables of all backends; tells the kernel what came and went when NOTIFY. */
int volumes_load(struct mount *, bool notify, struct err *);
/* The same for the one table of that name; -ENOENT, and then it is no volume any more. */
int volume_load(struct mount *, struct span name, struct err *);
/* Whether what is known of the table NAME (len 0: of which tables there are) still counts without
 * asking: where a backend tells of changes, or told a moment ago. */
bool volumes_current(struct mount *, struct span name);
/* Whether others may change files of VOLUME (NULL: of any table) behind it. */
bool may_change_behind(const struct mount *, const struct volume *volume);
/* Whether all backends tell of changes. */
bool all_tell(const struct mount *);
void volumes_free(struct mount *);
struct volume *volume_find_locked(struct mount *, struct span name);
struct volume *volume_by_id_locked(struct mount *, const struct backend *, uint64_t table_id);
/* The table as it is stored, as streams and functions tell of it; good as long as the mount. */
void volume_stored(const struct mount *, struct volume *volume, struct backend **ret_backend,
                   const struct table **ret_table);

/* --- names to inodes (resolve.c) --- */

enum place_kind {
    PLACE_TABLE,
    PLACE_PARTITION,
    PLACE_ITEM,
    PLACE_SCRATCH,
    PLACE_CONTROL,
};

/* What a name stands for in a directory. */
struct place {
    enum place_kind kind;
    bool alias;      /* another spelling of the name that listings show */
    bool hashed;     /* `part` is only the beginning of the key part */
    struct buf part; /* key part; table, scratch or control name */
};
/* -EINVAL with a reason for a name that nothing can have. Release `part`, also on failure. */
int place_parse(const struct inode *dir, struct span name, struct place *ret_place, struct err *);
/* The same, and looks for the item or partition that a hashed name stands for: its whole part. */
int place_find(struct mount *, struct inode *dir, struct span name, struct place *ret_place,
               struct err *);
/* Whether NAME looks like an editor's, rsync's or sed's temporary file or backup. */
bool name_is_temporary(struct span name);

/* --- items with several names (spelling.c) --- */

/* Remembers that process PID used the item under another spelling, where ALIAS. */
void spelling_note_locked(struct mount *, const struct inode *item, bool alias, pid_t pid);
/* What PID means that takes the name of ITEM away: the item; that spelling alone; or that is seen
 * when PID has ended. */
enum spelling_fate { SPELLING_GOES, SPELLING_KEPT, SPELLING_WAITS };
enum spelling_fate spelling_fate_locked(struct mount *, const struct inode *item, bool alias,
                                        pid_t pid);

/* The inode of NAME in DIR with a reference; -ENOENT. ret_alias (may be NULL): as in place. */
int resolve(struct mount *, struct inode *dir, struct span name, struct inode **ret_inode,
            bool *ret_alias, struct err *);
/* The same for a key part whose place is known. */
int resolve_item(struct mount *, struct inode *dir, struct span part, struct inode **ret_inode,
                 struct err *);
int resolve_scratch(struct mount *, struct inode *dir, struct span name, struct inode **ret_inode,
                    struct err *);
/* The ATTACHED inode of an item for what a backend just gave; made when absent. A stamp that moved
 * gives NULL, as does a lack of memory. */
struct inode *adopt_item_locked(struct mount *, struct inode *dir, struct span part,
                                const struct item_meta *meta, struct span body,
                                struct scan_mark mark);
/* Of this moment: before something is asked for. */
struct scan_mark mark_now_locked(const struct mount *mount);
struct inode *adopt_scratch_locked(struct mount *, struct inode *dir, const struct scratch *scratch,
                                   uint64_t stamp);
struct inode *adopt_partition_locked(struct mount *, struct inode *dir, struct span part,
                                     int64_t changed_ns);
/* A partition that was emptied here stays visible here until rmdir, as a directory does. */
void partition_lingers_locked(struct inode *dir);
struct inode *adopt_table_locked(struct mount *, struct volume *);

/* The key of the item PART in DIR; spans point to PART and into DIR. */
struct key dir_key(const struct inode *dir, struct span part);
/* An item's key as a copy, since its inode may be renamed: release `bytes`. */
struct key_copy {
    struct buf bytes;
    struct key key;
};
int key_copy_locked(const struct inode *item, struct key_copy *ret_copy);
void key_copy_release(struct key_copy *copy);
/* The file name an inode has in its directory. */
void inode_file_name(const struct inode *inode, struct buf *out);
/* Where scratch of directory DIR is: partition, and id of the scratch directory. */
void scratch_place(const struct inode *dir, struct scratch *ret_scratch);
/* The volume's directory that holds DIR's items: DIR itself, or above a scratch directory. */
bool dir_holds_items(const struct inode *dir);
/* Whether the item is not shown any more: its time is over, or it is hidden since it was saved. */
bool inode_expired(const struct inode *inode);

/* The committed content of INODE (an item or scratch file), with a reference. Content of a version
 * that is nowhere any more is -ESTALE. */
int inode_load(struct mount *, struct inode *inode, struct body **ret_body, struct err *);
/* INODE (may be NULL) is about to lose its name: whoever else holds it open goes on reading, so its
 * content is kept with it. */
void inode_keep(struct mount *, struct inode *inode);

/* --- attributes (attr.c) --- */

/* For how long yet what was told of INODE counts because its table's stream is followed, and says
 * otherwise; 0: it does not. cache->lock. */
static inline int64_t told_by_stream_ns(const struct inode *inode)
{
    const struct volume *volume = inode->volume;
    if (!volume || !volume->followed || !volume_table(volume)->stream || inode->doubted ||
        inode->scratch || inode_told_ago(inode) > cache_ms() - volume->followed_ms)
        return 0;
    int64_t left_ns = volume->followed_until_ns - clock_steady_ns();
    return left_ns > 0 ? left_ns : 0;
}
/* Whether what a backend that has no log last told of INODE still counts; cache->lock. */
static inline bool told_counts(const struct mount *mount, const struct inode *inode)
{
    return !inode->doubted &&
           (inode_told_ago(inode) < mount->config->cache_ttl * 1000 || told_by_stream_ns(inode));
}
/* Fills STAT; ret_timeout is how long the kernel may keep it, in seconds. */
void attr_fill_locked(struct mount *, struct inode *inode, struct stat *stat, double *ret_timeout);
/* The backend says that DIR, a partition, holds something: asked at MS (cache_ms). */
void partition_told_locked(struct mount *, struct inode *dir, uint32_t ms);
/* Reads a directory's times from its backend. -ENOENT: it is gone. Whether a partition of a service
 * is there is asked only where nothing has told of it for cache_ttl, nor since SINCE_MS. */
int attr_refresh_directory(struct mount *, struct inode *dir, uint32_t since_ms, struct err *);
/* Why nothing can be made under this name here; 0 when something can. (file.c) */
int creatable(const struct inode *dir, const struct place *place, struct span name,
              struct err *err);
/* What a lookup of INODE answers, with one more lookup counted. */
void entry_fill_locked(struct mount *, struct inode *inode, bool alias,
                       struct fuse_entry_param *ret_entry);

/* --- content: what is stored, and what is shown (content.c) --- */

/* What a file of the item shows for the body the backend has: the bytes themselves, or a rendering
 * in OUT (format = typed). META's size becomes that of what is shown. */
int content_show(const struct table *, struct key key, struct item_meta *meta, struct span body,
                 struct buf *out, struct span *ret_shown, struct err *);

/* What becomes of an earlier item's TTL when new content does not say. */
enum ttl_rule {
    TTL_TEXT, /* an object's text rules; a body that is no object keeps it */
    TTL_KEPT, /* kept where the text has none: a rename over an item */
    TTL_SET,  /* replaces what the text says: set by name while it was written */
};

/* ACTION was applied: its body becomes what the backend will give back for it, in OUT where that is
 * not what was given. */
int content_stored(struct action *action, struct backend *, struct buf *out, struct err *);

/*
 * Checks FILE as the new content of the item KEY, and gives the body to store: 0 when that is FILE
 * itself, 1 when it is in OUT. ret_ttl: the TTL to keep beside a body that is no object.
 * ret_rekeyed (may be NULL): the text named another key. Errors as item_examine.
 */
int content_store(const struct table *, struct key key, struct span file, int64_t old_ttl,
                  enum ttl_rule rule, struct buf *out, int64_t *ret_ttl, bool *ret_rekeyed,
                  struct err *);

/* Whether more is to come, where thread PID closes a descriptor of INODE that OPENER has opened,
 * and INODE is WRITTEN, or was only made or emptied. (opener.c) */
bool opener_goes_on(pid_t opener, const struct inode *inode, pid_t pid, bool written);

/* --- saving (save.c) --- */

#define SAVE_DURABLE 1u
#define SAVE_FRESH 2u /* an item that was made and never written is saved too */
#define SAVE_LAST                                                                                  \
    4u              /* by the last release: nothing, if somebody has opened it for writing since   \
                     */
#define SAVE_TRY 8u /* of an item: what cannot be saved stays as it is, and is no refusal */

/*
 * Commits what was written to INODE, if anything was. On refusal the bytes are kept as a draft,
 * INODE loses its name, the refusal is reported, and the error says why. ret_rewritten (may be
 * NULL): what was committed differs from the pages that the kernel shows under its name.
 */
int save(struct mount *, struct inode *inode, unsigned flags, bool *ret_rewritten, struct err *);
/* The same, unless the edit's ROUND is over: then what was written in it was saved or refused. */
int save_round(struct mount *, struct inode *inode, unsigned round, unsigned flags,
               bool *ret_rewritten, struct err *);
/* Makes the edit of INODE hold its content. On success cache->lock is held. */
int edit_load(struct mount *, struct inode *inode, struct edit **ret_edit, struct err *);
/* The same without reading it, for content that will be replaced. */
int edit_empty(struct mount *, struct inode *inode, struct edit **ret_edit, struct err *);
/* Everything that is dirty, at the end. */
void save_all(struct mount *);
/* Records what a write of INODE's content has brought. */
void save_applied_locked(struct mount *, struct inode *inode, const struct item_meta *meta);
/* The inode of that name is out of date, and so is what the kernel has for it. */
void supersede_locked(struct mount *, struct inode *dir, struct span part);
/* The same for ITEM, by this mount's own doing: what has it open keeps it, paths lead elsewhere. */
void outdate_locked(struct mount *, struct inode *item);
/* Waits for commits of INODE to end and lets none begin until inode_thaw_locked. */
void inode_freeze_locked(struct mount *, struct inode *inode);
void inode_thaw_locked(struct mount *, struct inode *inode);
/* The action that writes INODE's scratch attributes, without body, and the one that deletes it:
 * under the condition that it is as this mount knows it. */
void scratch_action_locked(const struct inode *inode, struct action *ret_action);
void scratch_delete_action_locked(const struct inode *inode, struct action *ret_action);
/* The first of them was applied. */
void scratch_written_locked(struct inode *inode, const struct action *action);
/* Writes INODE's attributes; one that is not in the backend yet takes them with it. */
int scratch_write_attributes(struct mount *, struct inode *inode, struct err *);
/* A backend says that INODE is not as this mount knows it: the next lookup asks. */
void scratch_outdated_locked(struct mount *, struct inode *inode);
/* Asks the backend whether INODE, where it is scratch, is as this mount knows it; if not, the same.
 */
bool scratch_recheck(struct mount *, struct inode *inode);

/* --- refusals (report.c) --- */

/* Logs, and keeps for user.itemfs.error. */
void report_failure(struct mount *, const struct inode *dir, struct span name, const char *site,
                    int code, const struct err *);
bool report_find(struct mount *, const struct inode *dir, struct span name, struct buf *out);
/*
 * Keeps BYTES, which AUTHOR (a process) could not save as the file NAME in DIR, as a draft. A later
 * refusal of the same program for the same file replaces its draft, a later save of it (settle)
 * removes it; drafts of other programs stay until somebody removes them. The same bytes refused for
 * the same reason make no second one.
 */
void draft_keep(struct mount *, const struct inode *dir, struct span name, struct span bytes,
                int code, const struct err *, pid_t author);
/*
 * The file NAME in DIR was saved as the item KEY although its text, BYTES, named another key. Where
 * that is an item, the file is a copy of it; else nobody has that value any more, and the text is
 * kept as a draft.
 */
void draft_keep_rekeyed(struct mount *, const struct inode *dir, struct span name, struct key key,
                        struct span bytes);
void draft_settle(struct mount *, const struct inode *item, pid_t author);
/* Tries to give held drafts to their backends. */
void drafts_retry(struct mount *);

/* --- deletions that wait (grace.c) --- */

/* ITEM, whose name PID has taken away, is deleted after the time of grace, or when PID has ENDED.
 */
int grace_add(struct mount *, struct inode *item, pid_t pid, bool ended, struct err *);
struct grace *grace_find_locked(struct mount *, const struct inode *dir, struct span part);
/* PART is asked for under another spelling: a deletion that waits for a process is forgotten. */
void grace_respelled(struct mount *, const struct inode *dir, struct span part);
/* The place is taken again: forgets it. */
void grace_cancel(struct mount *, const struct inode *dir, struct span part);
/* Another mount has put something in its place: that shows, and nothing is deleted. */
void grace_overtaken_locked(struct mount *, const struct inode *dir, struct span part);
/* What was to take its place was refused: the item shows again. */
void grace_call_off(struct mount *, const struct inode *dir, struct span part);
/* ITEM is being deleted by PID. True when its deletion was called off a moment ago and PID is the
 * editor: it waits again, for the editor to put its backup back. */
bool grace_resume_locked(struct mount *, const struct inode *item, pid_t pid);
/* Carries out those that are due, in DIR (NULL: everywhere); ALL: also those that are not. */
void grace_run(struct mount *, const struct inode *dir, bool all);

/* --- the kernel's caches (notify.c) --- */

int notifier_start(struct mount *, struct err *);
void notifier_stop(struct mount *); /* drains what is queued, then frees it */
/* Lane of names: may block on a directory's lock, so nobody who holds one waits for it. */
void notify_name(struct mount *, const struct inode *dir, struct span file_name);
void notify_directory(struct mount *, const struct inode *dir);
/* Its attributes only. */
void notify_times(struct mount *, const struct inode *dir);
/* This thread, which serves a FLUSH, will work off the lane of names itself: nobody is woken for
 * what it puts there before it calls one of the two below. */
void notify_names_work_off(void);
void notify_names_leave(struct mount *);
/* Answers REQ with -CODE's errno once everything queued before is done. */
void notify_names_then_reply(struct mount *, fuse_req_t req, int code);
/* Lane of pages. */
void notify_content(struct mount *, const struct inode *inode);
void notify_pages_then_reply(struct mount *, fuse_req_t req, int code);

/* --- filling the kernel's pages ahead of reads (fill.c) --- */

#define FILL_SIZE_MAX (64u << 10) /* bytes of a body handed over */

int filler_start(struct mount *, struct err *);
void filler_stop(struct mount *);
/* Hands over the items of DIR behind the key part AFTER up to LAST, out of a walk. */
void fill_walk(struct mount *, struct inode *dir, struct span after, struct span last);
/* The same for INODES (struct inode *[], with references, all of it taken over), of what is cached.
 */
void fill_cached(struct mount *, struct inode *dir, struct buf *inodes);

/* --- threads (follow.c) ---
 * The follower reads what others did out of the backends' logs, FOLLOW_MS after the last look, or
 * as soon as a backend tells of it. The keeper does what time brings: deletions in grace, sweeping,
 * trimming, drafts held in memory. */

#define FOLLOW_MS 40
/* A kernel that remembers that a name is absent is told when it appears; but it cannot be told of
 * names nobody knows when the log was missed (a stopped daemon): so it asks again after this. */
#define NEGATIVE_S 300.0

/* Sleeps for so long at most; false once the mount is stopping. */
bool timer_sleep(struct mount *, int64_t ns);
/* The directory of VOLUME that the kernel knows, or its partition's; NULL: it knows none. */
/* Nobody knows what changed in it: every directory is read anew, every item looked at again.
 * RESHOWN: versions say nothing, since the same items are shown otherwise now. */
void volume_changed_locked(struct mount *, struct volume *volume, bool reshown);
struct inode *directory_locked(struct mount *, struct volume *, struct span partition);
/* A partition that this mount does not know may have come into being in DIR. */
void partition_appeared_locked(struct mount *, struct inode *dir, struct span partition);
/* Before an answer about what is in VOLUME (NULL: any): what others have written into folders by
 * now is known here. The kernel, which answers by itself what it knows, is told within
 * milliseconds. */
void settle(struct mount *, const struct volume *volume);
/* Reads what tables there are. */
int follow_prepare(struct mount *, struct err *);
/* Starts the threads; after `follow_prepare`. */
int follow_start(struct mount *, struct err *);
void follow_stop(struct mount *);

/* --- streams of services (streams.c, stream_rounds.c) --- */

int streams_start(struct mount *, struct err *);
void streams_stop(struct mount *);
/* To be called every FOLLOW_MS: finds tables that are new, has those read that are due, and ends
 * the following of those that were not heard of for too long. */
void streams_watch(struct mount *);
/* The change that made INODE, an item, what it is; false: its stream did not tell. ID is valid
 * under cache->lock. */
struct item_change {
    const char *id;
    enum change_type type;
    int64_t time_ns;
};
bool stream_change_of_locked(const struct mount *, const struct inode *inode,
                             struct item_change *ret_change);
/* For status.c. */
void streams_json(struct mount *, struct buf *out);
void streams_metrics(struct mount *, struct buf *out);

/* --- the control directory (control.c, view.c, status.c, usage.c, delivery.c, kept.c) --- */

#define CONTROL_NAME ".itemfs"
enum control_kind { CONTROL_FILE, CONTROL_DIRECTORY, CONTROL_LINK };
/* PATH is relative to the control directory; -ENOENT. */
int control_stat(struct mount *, struct span path, enum control_kind *ret_kind, struct err *);
/* A file's content; a link's target. */
int control_read(struct mount *, struct span path, struct buf *out, struct err *);
typedef int (*control_fn)(void *context, const char *name, enum control_kind kind);
int control_list(struct mount *, struct span path, control_fn each, void *context, struct err *);
int control_remove(struct mount *, struct span path, struct err *);
/* The reason of a draft; why another file was last refused. -ENODATA. */
int control_error(struct mount *, struct span path, struct buf *out, struct err *);
void status_json(struct mount *, struct buf *out);
void status_metrics(struct mount *, struct buf *out);
/* What a service's tables have consumed: a member of its backend's object, and as metrics. */
void usage_json(struct backend *, struct buf *out);
void usage_metrics(struct mount *, struct buf *out);
/* A label's value: what ends it, escaped. */
void metric_label(struct buf *out, const char *text);
/* How the delivery of changes stands: a member of the status, and as metrics. */
void delivery_json(struct mount *, struct buf *out);
void delivery_metrics(struct mount *, struct buf *out);
/* What was deleted as too old or too many: likewise. */
void kept_json(struct mount *, struct buf *out);
void kept_metrics(struct mount *, struct buf *out);

extern const struct fuse_lowlevel_ops itemfs_ops;

#endif
