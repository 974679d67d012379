/* SPDX-License-Identifier: MIT */
/*
 * What the files of folder.h share.
 *
 * Locks, in this order: a stripe (locks.c), which excludes every process from the items whose keys
 * fall on it; outs_lock; tables_lock. The watcher's and the repairs' locks stand alone. A stripe is
 * held while files are read and written: that is what it is for. Whoever holds one waits for no
 * other than in ascending order, and never for the watcher. All stripes together exclude everybody:
 * tables are made, renamed and dropped so.
 */
#ifndef BACKEND_FOLDER_PRIVATE_H
#define BACKEND_FOLDER_PRIVATE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/folder/folder.h"
#include "backend/folder/replica.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define STRIPES 32 /* ThreadSanitizer lets a thread hold 64 locks */
#define ALL_STRIPES ((UINT64_C(1) << STRIPES) - 1)
#define GRACE_NS NS_PER_S /* that another program has to write the other replicas itself */
#define CLOCK_TICK_NS (NS_PER_S / 50) /* longer than the kernel's own clock stands still */
#define JOURNAL_TABLE "itemfs journal"
#define FOREIGN_TABLE "itemfs foreign"
#define REPLICAS_TABLE "itemfs replicas"

/* A table as it was described when it was last looked for. */
struct known {
    _Atomic unsigned references;
    struct table *table;
    char folder[NAME_MAX + 1];  /* below each root; "" where the root is the table */
    _Atomic int64_t scanned_ns; /* steady clock; 0: it has to be */
    _Atomic int64_t due_ns;     /* what was scanned before was another folder; steady clock */
    _Atomic int64_t missing_ns; /* since when no replica has it (find.c); 0: it is there */
    _Atomic bool watched;       /* its folders are (places.c) */
};

struct watch;
struct folder {
    struct backend backend; /* first */
    struct backend *store, *imports;
    struct replicas *replicas;
    struct folder_list list;
    bool one_table, read_only, durable;
    bool strange;   /* a replica in use was another folder when it was in use last */
    char *one_name; /* of the one table */
    char *place;    /* the first replica's path, for messages */
    void (*configure)(const void *context, struct table *table);
    const void *configure_context;
    struct table *journal, *foreign, *outs; /* of the state database */

    int lock_fd;
    pthread_mutex_t stripes[STRIPES];

    pthread_mutex_t tables_lock; /* guards known, known_count, generation */
    struct known **known;
    size_t known_count;
    uint64_t generation; /* of the tables, as the lock file tells it; 0: never looked */

    struct watch *watch;       /* NULL: nobody watches */
    struct heal *heal;         /* NULL: nobody heals */
    _Atomic bool opened;       /* what goes out of use is recorded */
    _Atomic uint64_t stamp;    /* of the replicas' state, as the lock file told it */
    _Atomic size_t missing;    /* tables whose folders are */
    _Atomic int64_t listed_ns; /* when the tables were last looked for, steady clock */
    _Atomic uint64_t imported; /* changes of others' that were read */
    _Atomic uint64_t foreign_count;

    pthread_mutex_t own_lock; /* guards own, own_at */
    struct own_write {
        uint64_t item;
        int64_t mtime_ns, noted_ns; /* noted before it was written */
    } own[256];                     /* this object's latest writes */
    unsigned own_at;

    pthread_mutex_t outs_lock;   /* held while what others have found of replicas is read */
    pthread_mutex_t record_lock; /* held while what was found here is recorded; the innermost */

    _Atomic bool rewatch;         /* a replica is in use again, whose folders may be others */
    _Atomic bool rescan;          /* more is to be repaired than is remembered */
    pthread_mutex_t repairs_lock; /* guards what follows */
    struct repair *repairs, **repairs_end;
    void *repairs_by_name; /* tsearch's */
    size_t repair_count;
};

static inline struct folder *folder_of(struct backend *backend)
{
    return (struct folder *)backend;
}

/* --- folder.c --- */

extern const struct backend_ops folder_ops;
void folder_close(struct backend *); /* also of a half-built one */

/* --- names.c: files and keys --- */

/* The name of the file of KEY. -ENAMETOOLONG, -EINVAL where a name would not lead back to it. */
int file_name_of_key(const struct table *table, struct key key, char ret_name[NAME_MAX + 1],
                     struct err *err);
/* The key's part behind a file's name, appended. 1: such a file is no item's, whatever is in it;
 * -EINVAL: it would be, but for the reason. */
int key_of_file_name(const struct table *table, const char *name, struct buf *part,
                     struct err *err);

/* --- locks.c --- */

int locks_open(struct folder *, const char *path, struct err *err);
void locks_close(struct folder *);
uint64_t lock_bit(uint64_t table_id, struct span partition);
int locks_take(struct folder *, uint64_t stripes, struct err *err);
void locks_give(struct folder *, uint64_t stripes);
/* Counted up whenever tables were made, changed or dropped; the latter under all stripes. */
int locks_generation(struct folder *, uint64_t *ret_generation, struct err *err);
int locks_next_generation(struct folder *, struct err *err);
/* Of the REPLICA that is being filled, hashes of what was written there: WRITTEN begins with those
 * of a try that was cut short. Who heals calls it. */
int locks_filled_begin(struct folder *, uint64_t replica, struct buf *written, struct err *err);
int locks_filled_add(struct folder *, uint64_t hash, struct buf *written, struct err *err);
void locks_filled_end(struct folder *);
/* The list of replicas (list.c) that all have agreed upon. */
int locks_list(struct folder *, uint64_t *ret_number, struct err *err);
int locks_set_list(struct folder *, uint64_t number, struct err *err);

/* --- list.c: the list of replicas, which may be changed --- */

bool list_changed(struct folder *);
/* Takes over the list as it is now; what cannot be taken over is logged. All stripes are held. */
void list_reload(struct folder *);
/* Whether others had agreed upon another one. */
bool list_is_other(struct folder *, const char *const *paths, size_t count);
/* All stripes are held, and which replicas are out of use is recorded: PATHS are agreed upon. */
int list_agree(struct folder *, const char *const *paths, size_t count, struct err *err);

/* A random number, another one whenever a replica has gone out of use or come back. */
int locks_stamp(struct folder *, uint64_t *ret_stamp, struct err *err);
int locks_next_stamp(struct folder *, struct err *err);
/* Of all objects one heals. -EBUSY: another one does. */
int locks_take_healing(struct folder *, struct err *err);
void locks_give_healing(struct folder *);
/* Of all objects one records what is out of use. */
int locks_take_outs(struct folder *, struct err *err);
void locks_give_outs(struct folder *);

/* --- known.c: tables as they are described --- */

/* -ENOENT also where its folder is missing. */
int known_by_id(struct folder *, uint64_t id, struct known **ret_known, struct err *err);
int known_by_folder(struct folder *, const char *name, struct known **ret_known, struct err *err);
/* All, as an array to be freed with known_free_all. */
int known_all(struct folder *, struct known ***ret_all, size_t *ret_count, struct err *err);
void known_free_all(struct known **all, size_t count);
void known_put(struct known *known); /* accepts NULL */
static inline void known_release(struct known **known)
{
    known_put(*known);
}
void known_close(struct folder *);
/* The folder NAME may be another one from now on: its table has to be looked through. */
void known_set_due(struct folder *, const char *name);
/* Its folder is missing (find.c), or is there again. */
void known_set_missing(struct folder *, uint64_t id, bool missing);
static inline bool known_is_due(const struct known *known)
{
    return known->scanned_ns <= known->due_ns;
}
bool is_internal_name(const char *name);

/* --- layout.c --- */

/* Whether the folders are one table. Replicas that are not what they were are out of use. */
int layout_decide(struct folder *, enum folder_layout wanted, struct err *err);

/* --- find.c: folders that are tables --- */

/* Folders that have appeared become tables; tables whose folders are gone everywhere, go: at once
 * for all who ask, a grace later for good. */
int tables_find(struct folder *, struct err *err);
/* One that was missing may be there again, or be gone for good. */
bool tables_are_due(const struct folder *);
/* A table of that name whose folder is missing, if there is one, is dropped. All stripes are held.
 */
int tables_forget(struct folder *, const char *name, struct err *err);

/* --- tables.c: making, changing, dropping them --- */

int folder_tables(struct backend *, table_fn each, void *context, struct err *err);
int folder_describe(struct backend *, struct span name, struct table **ret_table, struct err *err);
int folder_create_table(struct backend *, const struct table *table, struct err *err);
int folder_drop_table(struct backend *, const struct table *table, bool force, struct err *err);
int folder_check_table(struct backend *, const struct table *table, struct err *err);
int folder_alter_table(struct backend *, const struct table *table, struct err *err);
int folder_alter_indexes(struct backend *, const struct table *table, struct err *err);

/* --- reconcile.c: an item's files and its row --- */

#define LOOK_RACY 1u  /* files of equal size and time may have been written at the same moment */
#define LOOK_TOLD 2u  /* it was written to its end just now */
#define LOOK_MEND 4u  /* no repair is asked for: this is one */
#define LOOK_CLAIM 8u /* it is to be overwritten: that it cannot be read is a failure */
struct found {
    bool busy;   /* a program is just writing it: what it has written is not in the row */
    bool differ; /* files were there that were not as the row */
    struct file_stats files; /* as they were when the row was made of them */
};
/* What somebody else has done to the file NAME is in the state database afterwards. The stripe of
 * its key is held. RET_FOUND may be NULL. */
int reconcile_locked(struct folder *, struct known *, const char *name, struct span part,
                     unsigned flags, struct found *ret_found, struct err *err);
/* The same of any name, with the lock. 1: LOOK_TOLD of what this object itself has written. */
int reconcile(struct folder *, struct known *, const char *name, unsigned flags, struct err *err);
/* The item's row, expired or not. -ENOENT. */
int mirror_get(struct folder *, const struct table *table, struct span part,
               struct item_meta *ret_meta, struct buf *body, struct err *err);
bool same_file(const struct file_stat *stat, const struct item_meta *meta);
/* Whether it was changed less than GRACE_NS ago, whatever its time says. */
bool file_is_young(const struct file_stat *stat);
/* A power failure has left the row's file without its bytes: a rename reaches some disks before
 * what was written. */
bool file_is_lost(const struct file_stat *stat, const struct item_meta *meta);
/* Whether the file in replica LEFT was written after that in RIGHT. */
bool file_is_newer(const struct file_stats *files, size_t left, size_t right);
/* Whether a replica has the row's file, and it is newer than that in replica NUMBER. */
bool file_is_overtaken(const struct file_stats *files, const struct item_meta *meta, size_t number);
static inline int64_t stat_mtime(const struct file_stat *stat)
{
    return stat->mtime_ns ? stat->mtime_ns : 1; /* 0 stands for "now" in an action */
}
/* Remembers what this object has written itself. */
void own_write_note(struct folder *, uint64_t table_id, struct span part, int64_t mtime_ns);
bool own_write_is(struct folder *, uint64_t table_id, struct span part, int64_t mtime_ns);
/* Whether the file is one that this object has written, and nobody has replaced it since by one of
 * the same time. */
bool own_file_is(struct folder *, uint64_t table_id, struct span part,
                 const struct file_stat *stat);

/* --- foreign.c: files that are no items --- */

/* Records it, unless it is recorded as it is now; BODY (data NULL: not kept) becomes a draft. */
int foreign_note(struct folder *, const struct known *, const char *name,
                 const struct file_stat *stat, struct span body, const char *reason,
                 struct err *err);
int foreign_forget(struct folder *, const struct known *, const char *name, struct err *err);
/* It is recorded, as it is now or was. */
bool foreign_is_noted(struct folder *, const struct known *, const char *name);
/* 1: it is recorded as it is now. */
int foreign_known(struct folder *, const struct known *, const char *name,
                  const struct file_stat *stat, struct err *err);
int folder_draft(struct folder *, const struct known *, const char *name, struct span body,
                 const char *reason, struct err *err);

/* --- scan.c: whole tables --- */

int scan_table(struct folder *, struct known *, bool at_start, struct err *err);
/* Those that have not been looked through for PAUSE_NS. */
int scan_all(struct folder *, int64_t pause_ns, bool at_start, struct err *err);

/* Appends to NAMES, each with its NUL, the files that are not as the rows say in replica NUMBER,
 * which need not be in use. -ENOENT: it has no such folder. */
int scan_replica(struct folder *, struct known *, size_t number, struct buf *names,
                 struct err *err);

/* --- import.c: many files at once --- */

/* A file that is not as its row says, or has none, as the lists of the replicas have shown it. */
struct finding {
    size_t name_at;        /* among the names */
    size_t number;         /* of a replica that has it; REPLICAS_MOST: none has */
    struct file_stat stat; /* there */
    bool plain;            /* all have it, with one size and time, or none; and the row, if any, has
                              no time to live beside it */
    uint64_t version;      /* of the row; 0: there is none */
};
/* Sorts FINDINGS. */
int import_files(struct folder *, struct known *, const char *names, struct finding *findings,
                 size_t count, struct err *err);

/* --- claim.c: files that are about to be changed --- */

enum claim {
    CLAIM_WAIT,  /* FILE_LOCK_WAIT_NS at most */
    CLAIM_LOOSE, /* the same, but no lock is waited for, nor had */
    CLAIM_MEND,  /* waits for nothing; LOOK_MEND */
};
/* Nobody else is at work on the file NAME: it is locked for those who know such locks, its row says
 * what others have done, and no program is in the middle of writing it. -EBUSY: one is. RET_DIFFER:
 * a replica may hold something else than the row, for repair_keep. The stripe of its key is held.
 */
int file_claim(struct folder *, struct known *, const char *name, struct span part, enum claim how,
               struct file_lock **ret_lock, bool *ret_differ, struct err *err);
static inline void file_lock_give(struct file_lock **lock)
{
    file_lock_release(*lock);
}

/* --- batch.c, journal.c --- */

int folder_write(struct backend *, struct action *actions, size_t count, unsigned flags,
                 struct err *err);
/* Undoes what was cut short by the death of its process. */
int folder_journal_recover(struct folder *, struct err *err);

/* A file that a batch writes or deletes. */
struct plan {
    struct known *known;
    char name[NAME_MAX + 1];
    struct span part;
    size_t action; /* the last action on it */
    bool exists;   /* its row is there and has not expired */
    bool differ;   /* a replica may hold something else than the row */
    struct item_meta before;
    bool put, gone; /* else it is touched or left */
    int64_t mtime_ns;
    uint64_t size;
};
/* The journal's rows for PLANS; ID (of JOURNAL_ID_LEN + 1 bytes) tells them. */
#define JOURNAL_ID_LEN 16
int folder_journal_begin(struct folder *, const struct plan *plans, size_t count, char *ret_id,
                         bool durable, struct err *err);
/* The actions that take them out: COUNT of them, into ACTIONS; TEXTS keeps what they point to. */
int folder_journal_end(struct folder *, const struct plan *plans, size_t count, const char *id,
                       struct buf *texts, struct action *actions, struct err *err);
/* The files of PLANS become what the rows say, unless somebody else has written them. */
int files_restore(struct folder *, const struct plan *plans, size_t count, struct err *err);

/* --- update.c, update_undo.c --- */

int folder_update(struct backend *, const struct table *table, struct key key,
                  const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                  struct err *err);
/* The file of PLAN, with the text BEFORE, is about to be written in place. Where that may be cut
 * short (RET_NOTED) it is written down, until update_commit, which makes the row (PUT). */
int update_begin(struct folder *, const struct plan *plan, struct span before, struct span after,
                 bool *ret_noted, struct err *err);
int update_commit(struct folder *, const struct plan *plan, struct action *put, bool noted,
                  struct err *err);
/* 1: NAME was left half written by a process that died, and is what its row says again. -EBUSY:
 * another program keeps its lock. The stripe of its key is held. */
int update_undo(struct folder *, struct known *, const char *name, struct span part,
                struct err *err);
/* All of them, as far as they can be had. */
int updates_recover(struct folder *, struct err *err);

/* --- repair.c: replicas that differ --- */

/* After the grace, NAME is looked at again, and replicas that differ from the row get its bytes;
 * what they hold instead becomes a draft, unless it is BEFORE, the row until now (NULL: none). NAME
 * "": the table's folder is made where it is missing. */
int repair_later(struct folder *, const struct known *, const char *name,
                 const struct item_meta *before, struct err *err);
int repairs_run(struct folder *, bool now, struct err *err);
/* The table's folder is there in replica NUMBER afterwards. */
int repair_make_folder(struct folder *, const struct known *, size_t number, struct err *err);
/* What replicas hold instead of the row of NAME, and a repair would keep, becomes a draft: it is
 * about to be overwritten. -EBUSY: a program is just writing it. The stripe is held. */
int repair_keep(struct folder *, struct known *, const char *name, struct span part,
                struct err *err);
void repairs_open(struct folder *);
void repairs_close(struct folder *);

/* --- moves.c --- */

#define OWN_MOVES 8 /* under way at once; of what is forgotten the files are looked at */
struct own_moves {
    uint32_t cookies[OWN_MOVES]; /* 0: none */
    unsigned at;
};
struct inotify_event;
/* Whether EVENT, of those of a table's folder in their order, tells of a rename of this object. */
bool own_moves_has(struct own_moves *moves, const struct replicas *replicas,
                   const struct inotify_event *event);

/* --- watch.c --- */

int watch_open(struct folder *, int64_t scan_ns, struct err *err);
void watch_close(struct folder *);
int watch_start(struct folder *, struct err *err);
/* Watches the folders of all tables that are known, and the roots. */
int watch_all(struct folder *, struct err *err);
/* Watches what has become a table's folder. */
int watch_table(struct folder *, const char *folder_name, struct err *err);
/* The list of replicas has changed: others are watched. */
int watch_change(struct folder *, struct err *err);
/* What has happened before the call is read. Nobody who holds a stripe may call it. */
int watch_drain(struct folder *, struct err *err);
/* The same, but where programs write faster than can be read, for a fifth of a second at most. */
int watch_settle(struct folder *, struct err *err);
void folder_listen(struct backend *, told_fn told, void *context);

/* --- outs.c: replicas out of use --- */

int outs_open(struct folder *, const struct folder_options *options, struct err *err);
/* Remembers which disks those in use are on. */
int outs_note_disks(struct folder *, struct err *err);
/* What other objects and processes have found of replicas counts here, too. A stripe is held. */
int outs_follow(struct folder *, struct err *err);
/* PATHS are the replicas from now on. What is recorded counts, where it is AGREED that it is about
 * them; else new ones are out of use. All stripes are held. */
int outs_change(struct folder *, const char *const *paths, size_t count, bool agreed,
                struct err *err);
/* A row of the table of replicas: TEXT (NULL: none), and a time. */
int outs_put(struct folder *, const char *key, const char *text, int64_t mtime_ns, struct err *err);
/* Appends the text, with a NUL, to a buffer of OUTS_ROW_MOST bytes. -ENOENT. */
#define OUTS_ROW_MOST (8 * (PATH_MAX + ERR_TEXT_MAX))
int outs_get(struct folder *, const char *key, struct buf *text, int64_t *ret_mtime_ns,
             struct err *err);
/* Nothing is recorded of PATH any more. */
int outs_forget(struct folder *, const char *path, struct err *err);

/* --- disks.c: which disk a replica's is --- */

/* Remembers where the disk of the replica at PATH is mounted, and which folder it is: it is in use.
 */
int disk_note(struct folder *, const char *path, struct err *err);
int disk_forget(struct folder *, const char *path, struct err *err);
/* 1: it has been in use before. */
int disk_is_noted(struct folder *, const char *path, struct err *err);
enum disk_is {
    DISK_NEW,  /* it has never been in use */
    DISK_SAME, /* as it was when it was in use last, as far as can be told */
    DISK_OTHER /* a folder that is not the one that it was */
};
/* -ENOENT: what is there is not its disk, which is not mounted. */
int disk_check(struct folder *, const char *path, enum disk_is *ret_is, struct err *err);

/* --- heal.c: replicas come back --- */

/* A thread tries those that are out of use again and again. */
int heal_start(struct folder *, struct err *err);
void heal_close(struct folder *);
/* At once. */
void heal_wake(struct folder *);
/* Between the two nothing is healed, and the list of replicas may be changed. */
void heal_pause(struct folder *);
void heal_resume(struct folder *);
/* Replica NUMBER, which is out of use, holds what the others do, and is in use again. -EBUSY:
 * another object is healing. No stripe is held. */
int heal_replica(struct folder *, size_t number, struct err *err);

/* --- verify.c, verify_file.c --- */

int folder_verify(struct backend *, const struct table *table, const struct verify_options *options,
                  difference_fn each, struct verify_counts *ret_counts, struct err *err);

/* One file that seems to differ, looked at with its lock: 1, if it does; with REPAIR it is made
 * alike. RET_COPIES is of those in use, RET_COUNT of them. */
struct file_view {
    struct replica_copy copies[REPLICAS_MOST];
    size_t numbers[REPLICAS_MOST];
    struct replica_info infos[REPLICAS_MOST];
    struct err reasons[REPLICAS_MOST];
    size_t count;
    int64_t since_ns;
    bool busy;   /* a program is just writing one of them */
    bool failed; /* to make them alike: the copies say why */
};
int verify_file(struct folder *, struct known *, const char *name, bool repair,
                struct file_view *ret_view, struct err *err);

/* --- plug_in.c, plug_out.c --- */

int folder_plug_in(struct backend *, const char *path, const struct plug_options *options,
                   struct plug_counts *ret_counts, struct err *err);
int folder_plug_out(struct backend *, const char *path, const struct plug_options *options,
                    struct plug_counts *ret_counts, struct err *err);
/* Of all tables, how many items there are. */
int plug_count_items(struct folder *, uint64_t *ret_items, struct err *err);
/* One folder that is no replica (yet, or any more), as number 0 of a set of its own. */
int plug_open_alone(const char *path, bool read_only, struct replicas **ret_alone, struct err *err);
static inline void cleanup_replicas(struct replicas **replicas)
{
    replicas_close(*replicas);
}
/* The key of the row that says that PATH was plugged out, and has files yet. */
void plug_gone_key(const char *path, char ret_key[PATH_MAX + 8]);
/* What others have written to any replica is in all. */
int plug_settle(struct folder *, struct err *err);

/* --- upkeep.c --- */

int folder_maintain(struct backend *, int64_t *ret_next_ns, struct err *err);

#endif
