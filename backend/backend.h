/* SPDX-License-Identifier: MIT */
/*
 * Where items live. A backend is a const table of operations and private state; callers go through
 * the wrappers below, which check preconditions and results, count and time. Every function may be
 * called from any thread, blocks until it is done, returns 0 or a negative errno and then has put
 * a sentence into ERR. Pointers given to a callback are valid during the call only. A callback
 * that returns non-zero ends the walk, and its value is what the function returns. Callbacks must
 * not call the same backend.
 *
 * All writing is one operation: a batch of actions, applied together or not at all; but what says
 * how an attribute changes, and not what it was, is an update (backend_update). An action's
 * condition that does not hold fails the batch with its errno and changes nothing:
 * -EEXIST (COND_ABSENT), -ENOENT (COND_EXISTS; an update of what is not there),
 * -ESTALE (COND_VERSION: another version, or gone).
 *
 * Expired items (TTL passed, not swept yet) are not there: reads and walks leave them out,
 * conditions count them as absent, and a write over one removes it first (its own REMOVE record).
 *
 * Further errors: -ENOSPC, -EROFS, -EACCES, -EIO as the medium says; -ENOMEM; -EFBIG (item over
 * max_item_size); -EINVAL (bad body or key); -EOPNOTSUPP (capability absent, message says which).
 * "Busy" is waited for and never returned by the embedded store.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/item.h"
#include "base/key.h"
#include "base/span.h"
#include "base/table.h"
#include "base/update.h"

enum change_type { CHANGE_NONE, CHANGE_INSERT, CHANGE_MODIFY, CHANGE_REMOVE };

/* What the backend knows of an item besides its body. */
struct item_meta {
    uint64_t version;  /* of the content; never used again for another content of any item */
    uint64_t size;     /* bytes of the body */
    int64_t mtime_ns;  /* epoch nanoseconds; settable */
    int64_t ctime_ns;  /* when content, TTL or mtime last changed */
    int64_t ttl;       /* epoch seconds, 0: never expires */
    int64_t change_ns; /* time of the last change of content */
    enum change_type change;
    bool unreadable; /* what is stored cannot be shown (profile/profile.h): why stands where the
                        body would; size is 0 */
    bool hidden;     /* of a put: no read gives it, as its profile says */
};

/* One item as a read or walk gives it. */
struct record {
    struct key key;
    struct item_meta meta;
    struct span body; /* data NULL when the walk was asked for no bodies */
};
typedef int (*record_fn)(void *context, const struct record *record);

enum condition_kind { COND_NONE, COND_ABSENT, COND_EXISTS, COND_VERSION };
struct condition {
    enum condition_kind kind;
    uint64_t version;
};

/*
 * Scratch: files, links and directories that are no items (editors' swap files, rsync's
 * temporaries, backups). They live in a table's directory, in a partition's directory, or in a
 * scratch directory; id 0 stands for "the table's or partition's directory itself".
 */
enum scratch_kind { SCRATCH_FILE, SCRATCH_LINK, SCRATCH_DIRECTORY };
struct scratch {
    uint64_t id;      /* given by the backend, never 0, stable */
    uint64_t version; /* greater after each change of the file, also of its place */
    uint64_t table_id;
    struct span partition; /* canonical part, len 0: the table's directory */
    uint64_t parent;       /* scratch directory it is in, or 0 */
    struct span name;
    enum scratch_kind kind;
    uint32_t mode; /* permission bits */
    uint32_t uid, gid;
    int64_t mtime_ns, ctime_ns;
    int64_t ttl;   /* set by name (xattr) on a temporary, for the item it becomes; 0: none */
    uint64_t size; /* bytes of a file's body or a link's target */
};
typedef int (*scratch_fn)(void *context, const struct scratch *scratch);

/* A save that was refused, kept with its reason. */
struct draft {
    uint64_t id;
    struct span table; /* name */
    struct span path;  /* below the table: "ada.json", "cust-7/2024.json" */
    int code;          /* positive errno of the refusal */
    struct span reason;
    int64_t time_ns;
    uint64_t size;
};
typedef int (*draft_fn)(void *context, const struct draft *draft);

enum action_kind {
    ACTION_PUT,            /* table, key, condition, body, mtime_ns, ttl -> meta, change; a body
                              that names another key is stored rewritten (item_fit_key) */
    ACTION_DELETE,         /* table, key, condition, mtime_ns -> change (NONE when nothing was
                              there); under COND_VERSION with an mtime, the item must have that
                              one, too: a save of the same bytes leaves the version as it is */
    ACTION_TOUCH,          /* table, key, mtime_ns -> meta; -ENOENT; no record in the stream */
    ACTION_SCRATCH_PUT,    /* scratch (id 0: a new one, its place must be free), condition (NONE or
                              VERSION), body or NULL data to keep the body -> made_id, meta's
                              version and times */
    ACTION_SCRATCH_DELETE, /* scratch.id, condition (NONE or VERSION); -ENOTEMPTY for a directory
                              that holds something */
    ACTION_DRAFT_PUT,      /* draft (id 0: a new one), body -> draft_id */
    ACTION_DRAFT_DELETE,   /* draft.id */
};

struct action {
    enum action_kind kind;
    const struct table *table;
    struct key key;
    struct condition condition;
    struct span body;
    int64_t mtime_ns; /* 0: now; of a DELETE: any */
    int64_t ttl;      /* PUT: TTL of a body that is no object; ignored for objects */
    double units;     /* loose PUT: as packed */
    struct scratch scratch;
    struct draft draft;

    /* Results, set when the batch was applied. */
    struct item_meta meta;
    enum change_type change; /* PUT of equal bytes and TTL: NONE; the version stays */
    uint64_t made_id;        /* of the scratch or draft that was put */
};

#define WRITE_DURABLE 1u /* on stable storage before it returns, with all earlier batches */
#define WRITE_LOOSE                                                                                \
    2u /* unconditional puts of what backend_pack made, and deletes, each applied by itself: what  \
          a bulk load wants. Of several with one key the last stands. Results are not set, and     \
          where it fails, some may have been applied. */
#define WRITE_TRY                                                                                  \
    4u /* of the embedded store: nothing is written; the result tells whether it could be */
#define WRITE_TOLD                                                                                 \
    8u /* who follows the log through this backend object is told of it as of a change made        \
          elsewhere: its entries are not `own` */

/* One entry of the change log. Items are delivered in the order of their changes. */
enum log_kind {
    LOG_ITEM,    /* table_id, key, change */
    LOG_TOUCH,   /* an item's times only */
    LOG_SCRATCH, /* table_id, key.partition, scratch parent, name; time_ns is the version that it
                    made, or, of what went, greater than all versions that it had */
    LOG_SCHEMA,  /* tables were created, dropped, renamed or changed: table_id */
    LOG_DRAFT,
};
struct log_entry {
    uint64_t sequence; /* grows; also the version of the item it made */
    enum log_kind kind;
    uint64_t table_id;
    struct key key;
    enum change_type change;
    bool streamed; /* the table's stream was on: bodies are there */
    bool expired;  /* a REMOVE made by the TTL */
    bool own;      /* written through this very backend object */
    int64_t time_ns;
    struct span old_body, new_body; /* data NULL: absent */
    int64_t old_ttl, new_ttl;       /* beside bodies that are no objects */
    uint64_t scratch_parent;
    struct span scratch_name;
};
typedef int (*log_fn)(void *context, const struct log_entry *entry);

struct walk {
    struct key after;  /* start behind this key; len 0: at the beginning */
    bool in_partition; /* only the partition of AFTER.partition (sort may be empty) */
    size_t limit;      /* records at most; 0: all */
    bool bodies;       /* records carry bodies */
};

/* Every item of a table, or of one partition, taken in portions (backend_scan). A backend that
 * reads ahead embeds it in its own struct as the first member; for the others it is backed by
 * walks. */
struct backend;
/* What the caller wants to know again of the moment before a record was asked for: it may have been
 * read a while ahead, and have been overtaken. */
struct scan_mark {
    uint64_t stamp;
    uint32_t ms;
};
struct scan_range {
    struct span partition; /* data NULL: the whole table */
    bool bodies;
    bool typed; /* bodies are typed items on one line, values as the backend has them, in an order
                   that is always the same; of what else a record tells, key and TTL are set */
    unsigned segments;       /* read side by side; 0: as many as are worth it; of a partition: 1 */
    const struct key *after; /* for each of the segments, where a scan of so many had come to: the
                                last key it gave of it, or len 0. NULL: it begins */
    struct scan_mark (*mark)(void *context); /* called from any thread, also during NEXT; or NULL */
    void *mark_context;
};
struct scan {
    struct backend *backend;
    unsigned segments;     /* how many there are */
    unsigned segment;      /* of the record that is being given, from 0 */
    struct scan_mark mark; /* likewise */
    bool ended;
    int code;       /* negative once it has failed: it stays failed */
    struct err err; /* why */
};

/* An item on its way into a table in bulk, as the backend wants it; the buffers are the caller's.
 */
struct packed {
    struct buf partition, sort; /* canonical */
    struct buf body;            /* for an action's body */
    int64_t ttl;                /* for an action's ttl */
    double units;               /* for an action's units */
    bool typed;                 /* the body is the typed item on one line, else what files show */
};

/* How bulk loads are best given to a backend. */
struct backend_bulk {
    unsigned calls; /* of backend_write that go on side by side */
    unsigned items; /* in each of them */
    double units;   /* likewise, where it has several items: a budget that is small; 0: any */
};

/* A query on the table's own keys or an index; parts canonical. */
struct query {
    const struct index *index; /* NULL: the table */
    struct span partition;
    bool has_from, has_to; /* inclusive bounds on the sort attribute */
    struct span from, to;
    bool reverse;
    size_t limit; /* 0: all */
};

struct partition_info {
    struct span partition;
    uint64_t items;
    int64_t changed_ns;
};
typedef int (*partition_fn)(void *context, const struct partition_info *info);
typedef int (*value_fn)(void *context, struct span part);
typedef int (*table_fn)(void *context, const struct table *table);
typedef int (*expired_fn)(void *context, const struct table *table, struct key key);
typedef int (*forbidden_fn)(void *context, const char *table, const char *why);

/* What requests of one operation on one table have consumed, where a service counts in units. */
struct usage {
    const char *table, *operation;
    uint64_t requests;
    bool tells_reads, tells_writes; /* the service says what is consumed: else it is not known */
    double read_units, write_units;
    bool limited;     /* there is a budget that they are held to */
    unsigned waiting; /* for it, now */
    int64_t waited_ns;
};
typedef int (*usage_fn)(void *context, const struct usage *usage);

/* What a put consumes: units of the table and of its indexes. */
struct put_cost {
    double table, indexes;
};

/* A table as a service that counts in units describes it, to tell beforehand what will be consumed.
 * On the heap: measure_free. */
struct measure {
    uint64_t items, bytes; /* as the service has counted them last, which may be hours ago */
    double read_limit, write_limit;   /* units a second that are provisioned; 0: on demand */
    double read_budget, write_budget; /* units a second, of this source; 0: none */
    double scan_units;                /* all items once, consistently: one more a request at most */
    uint64_t scan_requests;           /* where pages are full */
    unsigned bulk_items;              /* that one request of a bulk load puts at most */
    double bulk_units; /* that one should consume at most, where it puts several; 0: any */
    /* A put of ITEM, which is canonical, where it replaces nothing that is larger. -EFBIG. */
    int (*put)(const struct measure *measure, const struct value *item, struct put_cost *ret_cost,
               struct err *err);
    void (*free)(struct measure *measure);
};

/* A folder that holds a copy of the files. */
struct replica_state {
    const char *path;
    bool in_use;
    const char *reason; /* why it is out of use */
    int64_t since_ns;   /* likewise, epoch */
};
typedef int (*replica_state_fn)(void *context, const struct replica_state *state);

struct difference;
typedef int (*difference_fn)(void *context, const struct difference *difference); /* replicas.h */
struct verify_options;
struct verify_counts;
struct plug_options;
struct plug_counts;
struct stream;
struct lease;
struct change;
typedef int (*change_fn)(void *context, const struct change *change); /* stream.h */

typedef void (*told_fn)(void *context);

enum backend_capability {
    BACKEND_KEEPS_BYTES = 1, /* bodies come back byte for byte */
    BACKEND_SCRATCH = 2,     /* scratch files of any name live in it */
    BACKEND_ORDERED = 4,     /* walks go in key order */
    BACKEND_LOG = 8,         /* backend_poll and backend_log tell of all changes */
    BACKEND_SETTINGS = 16,   /* tables have tag keys where wanted, and streams cost nothing */
    BACKEND_FILES = 32,      /* items are files, which others write, too: backend_settle */
};

struct backend_ops {
    const char *kind; /* "sqlite" */
    unsigned capabilities;
    void (*close)(struct backend *backend);
    int (*tables)(struct backend *, table_fn each, void *context, struct err *);
    /* NULL: looked for among all tables. */
    int (*describe)(struct backend *, struct span name, struct table **ret_table, struct err *);
    /* NULL: whoever has the backend may see all of it. */
    int (*forbidden)(struct backend *, forbidden_fn each, void *context);
    int (*create_table)(struct backend *, const struct table *, struct err *);
    int (*check_table)(struct backend *, const struct table *, struct err *); /* NULL: any can be */
    int (*drop_table)(struct backend *, const struct table *, bool force, struct err *);
    int (*alter_table)(struct backend *, const struct table *, struct err *);
    int (*alter_indexes)(struct backend *, const struct table *, struct err *);
    int (*get)(struct backend *, const struct table *, struct key, struct item_meta *ret_meta,
               struct buf *body, struct err *);
    int (*walk)(struct backend *, const struct table *, const struct walk *, record_fn, void *,
                struct err *);
    /* All three or none: then scans are walks. */
    int (*scan_open)(struct backend *, const struct table *, const struct scan_range *,
                     struct scan **ret_scan, struct err *);
    int (*scan_next)(struct scan *, size_t limit, record_fn, void *, struct err *);
    void (*scan_close)(struct scan *);
    int (*query)(struct backend *, const struct table *, const struct query *, record_fn, void *,
                 struct err *);
    int (*partitions)(struct backend *, const struct table *, struct span after, size_t limit,
                      partition_fn, void *, struct err *);
    int (*partition)(struct backend *, const struct table *, struct span partition,
                     uint64_t *ret_items, int64_t *ret_changed_ns, struct err *);
    /* NULL: bodies as files show them. */
    int (*pack)(struct backend *, const struct table *, struct span typed, struct packed *,
                struct err *);
    struct backend_bulk (*bulk)(struct backend *,
                                const struct table *); /* NULL: batches, in turn */
    int (*index_values)(struct backend *, const struct table *, const struct index *, value_fn,
                        void *, struct err *); /* NULL: all items are read */
    int (*write)(struct backend *, struct action *, size_t count, unsigned flags, struct err *);
    /* NULL: as it was written with BACKEND_KEEPS_BYTES, else rendered. */
    int (*body)(struct backend *, const struct action *, struct buf *out, struct err *);
    int (*update)(struct backend *, const struct table *, struct key, const struct update *,
                  struct item_meta *ret_meta, struct buf *ret_number, struct err *);
    int (*sync)(struct backend *, struct err *);
    int (*scratch_list)(struct backend *, const struct table *, struct span partition,
                        uint64_t parent, scratch_fn, void *, struct err *);
    int (*scratch_find)(struct backend *, const struct table *, struct span partition,
                        uint64_t parent, struct span name, scratch_fn, void *, struct err *);
    int (*scratch_read)(struct backend *, uint64_t id, struct buf *body, struct err *);
    int (*draft_list)(struct backend *, struct span table, draft_fn, void *, struct err *);
    int (*draft_read)(struct backend *, uint64_t id, struct buf *body, struct err *);
    int (*poll)(struct backend *, bool *ret_changed, struct err *);
    int (*log_position)(struct backend *, uint64_t *ret_sequence, struct err *);
    int (*log)(struct backend *, uint64_t after, size_t limit, log_fn, void *, struct err *);
    int (*change_id)(struct backend *, uint64_t sequence, int64_t time_ns, char ret_id[33]);
    /* Streams and leases: stream.h. All or none; stream_behind may be NULL. */
    int (*stream_open)(struct backend *, const struct table *, const char *position,
                       struct stream **ret_stream, struct err *);
    int (*stream_next)(struct stream *, size_t limit, change_fn, void *, struct err *);
    int (*stream_position)(struct stream *, struct buf *out);
    int (*stream_behind)(struct stream *, uint64_t *ret_records, struct err *);
    void (*stream_close)(struct stream *);
    int (*lease_read)(struct backend *, struct span name, struct lease *ret_lease, struct err *);
    int (*lease_write)(struct backend *, struct span name, uint64_t count, struct span holder,
                       struct span position, struct err *);
    int (*maintain)(struct backend *, int64_t *ret_next_ns, struct err *);
    int (*expired)(struct backend *, size_t limit, expired_fn each, void *context,
                   struct err *); /* of the embedded store */
    /* All with BACKEND_FILES. */
    int (*settle)(struct backend *, uint64_t *ret_count, struct err *);
    void (*listen)(struct backend *, told_fn told, void *context);
    int (*replicas)(struct backend *, replica_state_fn each, void *context, uint64_t *ret_foreign);
    /* replicas.h; NULL: there are none. */
    int (*verify)(struct backend *, const struct table *, const struct verify_options *,
                  difference_fn each, struct verify_counts *ret_counts, struct err *);
    int (*plug_in)(struct backend *, const char *path, const struct plug_options *,
                   struct plug_counts *ret_counts, struct err *);
    int (*plug_out)(struct backend *, const char *path, const struct plug_options *,
                    struct plug_counts *ret_counts, struct err *);
    int (*statfs)(struct backend *, struct statvfs *ret_stat, struct err *);
    /* Both or none: then nothing is counted in units. */
    int (*usage)(struct backend *, usage_fn each, void *context);
    int (*measure)(struct backend *, const struct table *, struct measure **ret_measure,
                   struct err *);
    bool (*skew)(struct backend *, int64_t *ret_seconds); /* NULL: its clock is this machine's */
};

/* Counted per backend by the wrappers; read without a lock, for metrics. */
struct backend_counters {
    _Atomic uint64_t reads, read_errors; /* get, walk, query, partitions, scratch, drafts */
    _Atomic uint64_t writes, write_errors;
    _Atomic uint64_t read_ns, write_ns;
};

/* Embedded in every backend's own struct as its first member. */
struct backend {
    const struct backend_ops *ops;
    struct backend_counters counters;
    uint64_t max_item_size; /* bytes of a body */
};

void backend_close(struct backend *backend); /* accepts NULL */
bool backend_can(const struct backend *backend, enum backend_capability capability);

/* All tables, by name. The description passed is the backend's copy: table_copy to keep it. Those
 * that the caller may not see are left out. Where anything else is missing the walk fails, and also
 * where there may not even be a list (-EACCES). */
int backend_tables(struct backend *, table_fn each, void *context, struct err *);
/* What backend_tables left out when it was last called. */
int backend_forbidden(struct backend *, forbidden_fn each, void *context);
/* One table by name, as a copy to free, whatever the caller may know of others; -ENOENT, -EACCES.
 */
int backend_describe(struct backend *, struct span name, struct table **ret_table, struct err *);
/* Whether such a table could be made, as far as that can be told without making it: -EINVAL,
 * -EOPNOTSUPP, -EPERM, -EROFS. */
int backend_check_table(struct backend *, const struct table *, struct err *);
/* id, created_ns and changed_ns of TABLE are ignored. -EEXIST, and as backend_check_table. */
int backend_create_table(struct backend *, const struct table *, struct err *);
/* -ENOTEMPTY when it has items or scratch files; with FORCE they go with it, as one LOG_SCHEMA
 * entry without a REMOVE for each. */
int backend_drop_table(struct backend *, const struct table *, bool force, struct err *);
/* Changes name (-EEXIST), ttl_attribute, keys, stream of the table with TABLE's id. Switching the
 * TTL attribute computes every item's expiry anew. */
int backend_alter_table(struct backend *, const struct table *, struct err *);
/* Gives the table with TABLE's id TABLE's indexes, filled from its items, which stay as they are;
 * indexes that it does not name are dropped. -EOPNOTSUPP. */
int backend_alter_indexes(struct backend *, const struct table *, struct err *);

/* One item; the body is appended to BODY (may be NULL). -ENOENT. */
int backend_get(struct backend *, const struct table *, struct key, struct item_meta *ret_meta,
                struct buf *body, struct err *);
/* Items in key order (BACKEND_ORDERED). Each call sees one moment; a long walk in several calls
 * goes on behind the last key: nothing that stays is left out or repeated. */
int backend_walk(struct backend *, const struct table *, const struct walk *, record_fn, void *,
                 struct err *);
/* A scan that is under way: begins with OPEN, by which nothing is read yet, and ends with CLOSE at
 * any time. NEXT gives LIMIT records at most, in key order where the backend is ordered; after the
 * last ones `ended` is set. It may read on meanwhile, in threads of its own. One thread at a time
 * uses a scan; the table's description and the range's keys are copied.
 *
 * Of each segment everything up to the last key given was given. So a later scan that goes on
 * behind these keys gives the rest: nothing that stayed is left out or given again. -EOPNOTSUPP for
 * several segments where the backend has one. */
int backend_scan_open(struct backend *, const struct table *, const struct scan_range *,
                      struct scan **ret_scan, struct err *);
int backend_scan_next(struct scan *, size_t limit, record_fn, void *, struct err *);
void backend_scan_close(struct scan *); /* accepts NULL */
/* Items of one partition of the table or of an index, in sort order. */
int backend_query(struct backend *, const struct table *, const struct query *, record_fn, void *,
                  struct err *);
/* Partitions of a sorted table that hold an item or scratch files, in key order (BACKEND_ORDERED)
 * or that of their bytes, LIMIT at most (0: all). `items` is a count, or 1 where nobody counts
 * them. */
int backend_partitions(struct backend *, const struct table *, struct span after, size_t limit,
                       partition_fn, void *, struct err *);
/* -ENOENT when it holds no item and no scratch file. RET_ITEMS NULL: only the time is wanted, of a
 * partition that is known to be there: a service is not asked for that. */
int backend_partition(struct backend *, const struct table *, struct span partition,
                      uint64_t *ret_items, int64_t *ret_changed_ns, struct err *);

/* The partition keys of INDEX, one of TABLE's, that an item has: each once, in their order where
 * the backend keeps a list of them. -EFBIG where it does not, and they are too many to be told
 * apart. */
int backend_index_values(struct backend *, const struct table *, const struct index *index,
                         value_fn, void *, struct err *);

/* A typed item, as an export's line has it, made ready for a loose put; RET_PACKED's buffers are
 * emptied first. Pure but for the backend's settings. -EINVAL, -EFBIG, -ERANGE for what a put would
 * be refused for as far as it can be known without asking. */
int backend_pack(struct backend *, const struct table *, struct span typed,
                 struct packed *ret_packed, struct err *);
void packed_init(struct packed *packed);
void packed_release(struct packed *packed);
struct backend_bulk backend_bulk(struct backend *, const struct table *);
/* See the head of the file. */
int backend_write(struct backend *, struct action *actions, size_t count, unsigned flags,
                  struct err *);
/* What reads will give of the item that ACTION, a PUT, has written: appended to OUT. Pure. */
int backend_body(struct backend *, const struct action *action, struct buf *out, struct err *);
/*
 * Changes one attribute of the item by what is there (update.h), at once: with several writers each
 * update is applied to what the one before it has left. RET_META is that of what was written, and
 * to RET_NUMBER (NULL but for UPDATE_ADD) the new number is appended. -ENOENT (creates nothing),
 * -EINVAL, -EEXIST, -ERANGE as update.h says; -EBUSY: others have it locked, or keep changing it;
 * -EIO "may have been applied" where a service's answer was lost: it is not sent again, since
 * nothing would tell one update from two.
 */
int backend_update(struct backend *, const struct table *, struct key, const struct update *,
                   struct item_meta *ret_meta, struct buf *ret_number, struct err *);
/* Everything that was acknowledged reaches stable storage. */
int backend_sync(struct backend *, struct err *);

int backend_scratch_list(struct backend *, const struct table *, struct span partition,
                         uint64_t parent, scratch_fn, void *, struct err *);
/* Calls EACH once; -ENOENT. */
int backend_scratch_find(struct backend *, const struct table *, struct span partition,
                         uint64_t parent, struct span name, scratch_fn, void *, struct err *);
int backend_scratch_read(struct backend *, uint64_t id, struct buf *body, struct err *);
/* TABLE len 0: of all tables. Oldest first. */
int backend_draft_list(struct backend *, struct span table, draft_fn, void *, struct err *);
int backend_draft_read(struct backend *, uint64_t id, struct buf *body, struct err *);

/* Whether anybody else may have changed something since the last call: cheap (no query). */
int backend_poll(struct backend *, bool *ret_changed, struct err *);
/* The newest sequence in the log. */
int backend_log_position(struct backend *, uint64_t *ret_sequence, struct err *);
/* Entries with a sequence above AFTER, oldest first, LIMIT at most. Streamed entries are kept 24
 * hours, the others 10 minutes: a reader that slept longer must start anew. */
int backend_log(struct backend *, uint64_t after, size_t limit, log_fn, void *, struct err *);
/* The opaque id of the change with that sequence, made at TIME_NS: 32 hex digits, unique over
 * stores, and over the further lives of one that an older copy was put in the place of: there the
 * sequences come again, the times do not. */
int backend_change_id(struct backend *, uint64_t sequence, int64_t time_ns, char ret_id[33]);

/* Work in the background: sweeps expired items (each as a normal delete), trims the log,
 * checkpoints. Called by one thread, in turns; ret_next_ns is how long it may sleep. */
int backend_maintain(struct backend *, int64_t *ret_next_ns, struct err *);
/* Items of any table that have expired and are not swept, first what expired first; LIMIT at most
 * (0: all). Of the embedded store; else -EOPNOTSUPP. */
int backend_expired(struct backend *, size_t limit, expired_fn each, void *context, struct err *);
/* What others have done to the files of a backend (BACKEND_FILES) before the call is read, and in
 * the log, when it returns. RET_COUNT grows with each change of others' that was ever read: as long
 * as it stands the log has nothing new of them. Cheap when there was nothing. */
int backend_settle(struct backend *, uint64_t *ret_count, struct err *);
/* From now on TOLD is called, by a thread of the backend's own, as soon as others have done what
 * backend_settle counts, whether or not anybody asks. NULL: no more, and no call is under way when
 * this returns. Nothing without BACKEND_FILES. */
void backend_listen(struct backend *, told_fn told, void *context);
/* EACH of the folders (BACKEND_FILES; else none). RET_FOREIGN: files in them that look like items
 * and are none. */
int backend_replicas(struct backend *, replica_state_fn each, void *context, uint64_t *ret_foreign);
int backend_statfs(struct backend *, struct statvfs *ret_stat, struct err *);

/* What this backend object has consumed, by table and operation; nothing where nothing is counted
 * in units. EACH is called under a lock of its own: briefly. */
int backend_usage(struct backend *, usage_fn each, void *context);
/* NULL where nothing is counted in units. */
int backend_measure(struct backend *, const struct table *, struct measure **ret_measure,
                    struct err *);
void measure_free(struct measure *measure); /* accepts NULL */
/* How many seconds the backend's clock is ahead of this machine's, as its last answer told. False:
 * it is the same one, or was not told. */
bool backend_skew(struct backend *, int64_t *ret_seconds);

#endif
