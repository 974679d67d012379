/* SPDX-License-Identifier: MIT */
/*
 * The folders that hold the same files, and what is done with files in one and in all of them.
 *
 * A file has a FOLDER, the name of the table's folder below a replica's root ("" where the root is
 * the table's folder itself), and a NAME in it. Both are single path components (-EINVAL), and
 * neither is followed where it is a symbolic link. A file is written beside its name and renamed:
 * what its name shows is whole at any moment.
 *
 * A replica is in use or out of use. Where one fails in what another does, it goes out of use
 * before the call returns; where all fail, none does, and the first one's error is returned. What
 * is out of use is neither read nor written, but for replica_ functions that are given its number.
 *
 * One replica is used by the calling thread. Where there are more, each has threads, and nobody
 * waits for them longer than the timeout (-ETIMEDOUT). What they still do then, they do with what
 * is their own; nothing else is begun in that replica until they have ended, so that nothing comes
 * late and undoes what is newer.
 *
 * A root is remembered as it was when it was opened or put back. Another folder in its place, as
 * the empty one below a disk that was unmounted, is a failure of the replica (-ENODEV), and so is
 * none. No root is held open: its disk can be unmounted.
 *
 * All functions may be called from any thread. Batches on one file exclude each other elsewhere.
 * Errors beside those named: -EIO, -ENOSPC, -EDQUOT, -EROFS, -EACCES, -ENAMETOOLONG, -ENOMEM and
 * what else the system says, with a sentence that names the path.
 */
#ifndef BACKEND_FOLDER_REPLICA_H
#define BACKEND_FOLDER_REPLICA_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define REPLICAS_MOST 16
#define REPLICA_TIMEOUT_NS (5 * INT64_C(1000000000)) /* unless told otherwise */
#define FILE_LOCK_WAIT_NS INT64_C(1000000000)        /* for another program */
#define REPLICA_NOT_FILLED "not filled yet"          /* why a new one is out of use */
#define UPDATE_LOCK_WAIT_NS INT64_C(5000000000)      /* likewise, to change the file in place */
#define FILE_OPS_MOST 1024                           /* of one batch: its temporaries are open */

/* What temporaries are called: this and 16 hexadecimal digits. No listing shows them. */
#define FILE_TEMPORARY_PREFIX ".itemfs-"

struct replicas;
/* Whether NAME is that of a temporary of this object, and of no other one's. */
bool replicas_own(const struct replicas *replicas, const char *name);

/* --- The replicas --- */

struct replica_out {
    const char *reason; /* NULL: it is in use */
    int64_t since_ns;   /* epoch */
};

struct replica_options {
    const char *const *paths; /* absolute; the first one is where others' locks are */
    size_t count;             /* 1 to REPLICAS_MOST */
    /* Of each path: one that is out of use is not touched: it may hang. NULL: none is. */
    const struct replica_out *outs;
    int64_t timeout_ns; /* 0: REPLICA_TIMEOUT_NS */
    bool timed;         /* nobody waits longer, also where there is one */
    bool read_only;     /* nothing is written, not even to see whether it can be */
    mode_t mode;        /* of new files; 0: as their folder's, without execution and what
                           others may write: 0644 in 0755, 0664 in 0775. What exists keeps
                           its mode and, where we are root, its owner; what is new has its
                           folder's owner then */
    /* Records, durably, that the replica at PATH is out of use since SINCE_NS (epoch), with REASON,
     * a sentence, or, REASON being NULL, in use again. Called from any thread, under no lock, and
     * never for one replica twice at a time. May be NULL. */
    int (*record)(void *context, const char *path, const char *reason, int64_t since_ns,
                  struct err *err);
    void *context;
};

struct replica_info {
    char path[PATH_MAX];
    bool in_use;
    bool busy;                 /* a call that was given up has not ended yet */
    char reason[ERR_TEXT_MAX]; /* why it is out of use */
    int64_t since_ns;          /* likewise, epoch */
};

/* -EINVAL: a folder is named twice, be it by other paths. Those that cannot be opened (missing, not
 * a folder, not writable unless READ_ONLY) begin out of use, and that is recorded; where none can
 * be, the first one's error is returned. A full disk is no reason. */
int replicas_open(const struct replica_options *options, struct replicas **ret_replicas,
                  struct err *err);
/* Waits for what is under way, but not for what was given up: that is left to its thread. Accepts
 * NULL. */
void replicas_close(struct replicas *replicas);

/*
 * The replicas in their order. Each has a number below REPLICAS_MOST, its own until it is taken
 * from the list. Returns how many there are.
 */
size_t replicas_numbers(struct replicas *replicas, size_t ret_numbers[REPLICAS_MOST]);
void replica_info(struct replicas *replicas, size_t number, struct replica_info *ret_info);
/* EACH of all of them, in their order, as long as it returns 0; the last it returned. */
typedef int (*replica_fn)(void *context, size_t number, const struct replica_info *info);
int replicas_each(struct replicas *replicas, replica_fn each, void *context);

/* Out of use: at the start, what was recorded; later, what others found. SINCE_NS 0: now. One that
 * is out already keeps its reason. -EINVAL: it is the last one in use. */
int replica_take_out(struct replicas *replicas, size_t number, const char *reason, int64_t since_ns,
                     struct err *err);
/* In use again. Nothing may be written meanwhile. -EBUSY: a call that was given up has not ended;
 * -ENODEV: the root is another one than replica_probe has found. */
int replica_put_back(struct replicas *replicas, size_t number, struct err *err);
/* The list is PATHS now. New ones begin out of use ("not filled yet"), which is recorded. The
 * numbers of those that go are nobody's for a while: what is asked of one is -ENODEV, and it is not
 * in use. -EINVAL: none that is in use would be left. */
int replicas_change(struct replicas *replicas, const char *const *paths, size_t count,
                    struct err *err);

/* --- Files in all replicas in use --- */

struct file_stat {
    bool present;
    bool regular; /* else it is something of that name which is no file: never followed */
    uint64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns; /* by the kernel's clock, which goes by ticks */
    uint64_t inode;
    int64_t grain_ns; /* times in this replica are multiples of it: 1 on most disks */
    bool written;     /* another program has it open for writing: told by file_lock_read alone */
    bool unsure;      /* nobody can tell whether one has: by replica_read alone */
};

/* Whether the file has this size and, as far as its disk can tell, this time. */
static inline bool file_stat_is(const struct file_stat *stat, uint64_t size, int64_t mtime_ns)
{
    int64_t grain = stat->grain_ns > 1 ? stat->grain_ns : 1;
    int64_t rest = ((mtime_ns % grain) + grain) % grain;

    return stat->present && stat->regular && stat->size == size &&
           stat->mtime_ns == mtime_ns - rest;
}

/* Whether nothing has happened to a file between two looks at it. */
static inline bool file_stat_equal(const struct file_stat *a, const struct file_stat *b)
{
    if (!a->present || !b->present)
        return a->present == b->present;
    return a->regular == b->regular && a->inode == b->inode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

struct file_lock;

enum file_op_kind {
    FILE_PUT,    /* the file has this body and time; it keeps its mode and owner. What has its name
                    and is no regular file gets another one, NAME.aside-N: so does a DELETE */
    FILE_UPDATE, /* the same, but in the replica of LOCK in place, for who waits for that lock */
    FILE_DELETE, /* there is no such file, which may have been so before */
    FILE_TOUCH,  /* it has this time, if it is there */
};
struct file_op {
    enum file_op_kind kind;
    const char *folder, *name;
    struct span body;       /* PUT, UPDATE */
    int64_t mtime_ns;       /* PUT, UPDATE, TOUCH; epoch */
    struct file_lock *lock; /* UPDATE */
    /* PUT, DELETE, TOUCH: only of the file that was EXPECTED, or where none was. -EBUSY: there is
     * another one, or a program has it locked, or open for writing. UPDATE: in place only of the
     * file that was EXPECTED, if one was; -EBUSY. */
    bool conditional;
    struct file_stat expected;
};

/*
 * In every replica in use: all bodies into temporaries, then OPS in their order. 0: every replica
 * in use has all of it, where DURABLE also after a power failure. RET_CHANGED (also on failure):
 * files may have been changed. -ENOENT: the folder is missing.
 */
int replicas_apply(struct replicas *replicas, const struct file_op *ops, size_t count, bool durable,
                   bool *ret_changed, struct err *err);

/* The file in each replica, by number: what IN_USE does not have was not looked at, or failed. */
struct file_stats {
    bool in_use[REPLICAS_MOST];
    struct file_stat stats[REPLICAS_MOST];
};
int replicas_stat(struct replicas *replicas, const char *folder, const char *name,
                  struct file_stats *ret_stats, struct err *err);
/* In one of them, any; where that fails, in all. */
int replicas_look(struct replicas *replicas, const char *folder, const char *name,
                  struct file_stat *ret_stat, struct err *err);

/* Files NAMES of FOLDER as every replica in use has them, side by side: EACH is told of one after
 * another. Nobody goes out of use here; an answer that does not come at all is an error. */
struct file_copy {
    size_t number;
    int code; /* of reading it: -ENOENT; -EINVAL: no regular file */
    struct file_stat stat;
    struct span body;
};
typedef int (*file_copies_fn)(void *context, const char *name, const struct file_copy *copies,
                              size_t count);
int replicas_read_many(struct replicas *replicas, const char *folder, const char *const *names,
                       size_t count, file_copies_fn each, void *context, struct err *err);

/* -EEXIST: all have it. It has the mode and, where we are root, the owner of the root. */
int replicas_make_folder(struct replicas *replicas, const char *folder, struct err *err);
/* -ENOENT: none has it. -ENOTEMPTY (the message names what is in it), -EBUSY: all have it still.
 * Temporaries of nobody go with it. */
int replicas_remove_folder(struct replicas *replicas, const char *folder, struct err *err);
/* -ENOENT; -EEXIST: TO is there. */
int replicas_rename_folder(struct replicas *replicas, const char *from, const char *to,
                           struct err *err);

/* Everything that was written reaches the disks. It has ten times as long as other calls: it also
 * waits for what others wrote to them. */
int replicas_sync(struct replicas *replicas, struct err *err);
/* Of the one that has the least room. */
int replicas_statfs(struct replicas *replicas, struct statvfs *ret_stat, struct err *err);

/* --- Files in one replica, in use or not: it does not go out of use when it fails --- */

int replica_apply(struct replicas *replicas, size_t number, const struct file_op *ops, size_t count,
                  bool durable, struct err *err);
int replica_stat(struct replicas *replicas, size_t number, const char *folder, const char *name,
                 struct file_stat *ret_stat, struct err *err);

/*
 * Appends the file to BODY, whose maximum holds, and tells its stat, which was the same before and
 * after. -ENOENT: there is none (RET_STAT says so); -EINVAL: it is no regular file; -EFBIG: larger
 * than BODY may be (the stat is told); -ETXTBSY: another program has it open for writing; -EAGAIN:
 * it changes all the time.
 */
int replica_read(struct replicas *replicas, size_t number, const char *folder, const char *name,
                 struct file_stat *ret_stat, struct buf *body, struct err *err);

/* What a folder holds but for temporaries, in any order. EACH is called in the caller's thread;
 * when it returns something else than 0 the list ends with that. -ENOENT: the folder is missing. */
struct file_entry {
    const char *name;
    struct file_stat stat;
};
typedef int (*file_entry_fn)(void *context, const struct file_entry *entry);
int replica_list(struct replicas *replicas, size_t number, const char *folder, file_entry_fn each,
                 void *context, struct err *err);
/* The folders in the root that are not hidden. */
typedef int (*folder_fn)(void *context, const char *name);
int replica_folders(struct replicas *replicas, size_t number, folder_fn each, void *context,
                    struct err *err);
int replica_make_folder(struct replicas *replicas, size_t number, const char *folder,
                        struct err *err);
int replica_remove_folder(struct replicas *replicas, size_t number, const char *folder,
                          struct err *err);

/* Removes the temporaries that programs have left which are no more. */
int replica_tidy(struct replicas *replicas, size_t number, const char *folder, struct err *err);

/*
 * A probe file is written in the root, read back, and synced; RET_NS: how long the first two took.
 * -ENOENT: the root is missing; -EBUSY: a call that was given up has not ended; -EINVAL: it is the
 * folder of another replica. Of a replica that is out of use, the root that is there now is its
 * root from now on.
 */
int replica_probe(struct replicas *replicas, size_t number, int64_t *ret_ns, struct err *err);

/* --- Locks that other programs know: flock(LOCK_EX) on the file in the first replica in use --- */

/*
 * RET_LOCK: NULL where there is no such file. Nobody else has the lock, and the file had this name
 * when it was had. -EAGAIN: another program has it. A file that cannot be locked (its disk knows no
 * locks, it is no regular file) is as one that is not there, but for an update.
 */
enum file_lock_for {
    LOCK_TO_REPLACE, /* waits FILE_LOCK_WAIT_NS, also for who has the file open for writing; who has
                        it open for longer keeps it open */
    LOCK_TO_MEND,    /* the same without any wait: -EAGAIN also where somebody has it open so */
    LOCK_TO_UPDATE,  /* for FILE_UPDATE: waits UPDATE_LOCK_WAIT_NS */
};
int replicas_lock_file(struct replicas *replicas, const char *folder, const char *name,
                       enum file_lock_for purpose, struct file_lock **ret_lock, struct err *err);
/* The locked file, appended to BODY, as replica_read. */
int file_lock_read(struct file_lock *lock, struct file_stat *ret_stat, struct buf *body,
                   struct err *err);
/* The number of the replica that it is in. */
size_t file_lock_replica(const struct file_lock *lock);
void file_lock_release(struct file_lock *lock); /* accepts NULL */

#endif
