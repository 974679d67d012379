/* SPDX-License-Identifier: MIT */
/* What the files of the DynamoDB backend share. */
#ifndef BACKEND_DYNAMODB_SERVICE_H
#define BACKEND_DYNAMODB_SERVICE_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/dynamodb/capacity.h"
#include "backend/dynamodb/client.h"
#include "backend/dynamodb/known.h"
#include "backend/dynamodb/portion.h"
#include "backend/dynamodb/recent.h"
#include "backend/dynamodb/reply.h"

#define DYNAMODB_ITEM_MAX 409600 /* bytes of an item, names and values */
#define DYNAMODB_BODY_MAX (16u << 20)

#define PACES 2 /* kinds of calls that the service wants to have so and so far apart */

struct part_list;

struct service {
    struct backend backend; /* first */
    struct client *client;
    struct recent *recent;
    struct capacity *capacity;
    char *only_tables; /* separated by commas; NULL: all */
    bool read_only;
    unsigned segments;      /* of a scan, at most */
    int64_t stream_poll_ns; /* between looks at a stream */
    pthread_mutex_t lock;   /* guards all below; taken alone, never held over a call */
    struct known_tables known;
    struct portions portions;
    bool flat;                    /* the service cannot compare maps and lists */
    bool no_transactions;         /* it has said so */
    int64_t paced_ns[PACES];      /* steady clock: when the next call of a kind may be made */
    struct part_list *partitions; /* of tables that are being listed (partitions.c); references */
};

static inline struct service *service_of(struct backend *backend)
{
    return (struct service *)backend;
}

/* One call that only reads: given up with -EINTR when the thread's flag says so (base/cancel.h).
 * Release the outcome, also on failure. */
int service_call(struct service *service, const char *operation, const struct buf *body,
                 struct outcome *ret_outcome, struct err *err);
/* The same of DynamoDB Streams. */
int service_call_streams(struct service *service, const char *operation, const struct buf *body,
                         struct outcome *ret_outcome, struct err *err);
/* One that changes something: not given up. */
int service_tell(struct service *service, const char *operation, const struct buf *body,
                 struct err *err);

/* --- descriptions (tables.c) --- */

#define TABLE_FRESH_MS 1000 /* of one that is asked for by name, and of the list of names */
bool service_is_recent(int64_t read_ns, int64_t ms);
/* Whether NAME was asked for in the last so many milliseconds, and is there or forbidden. */
bool service_is_fresh(struct service *, struct span name, int64_t ms);
/* One table becomes known anew, also as one that may not be described; -ENOENT: it is gone. */
int service_refresh(struct service *, struct span name, struct err *);

/* --- capacity (spend.c, estimate.c) --- */

/*
 * A call that consumes capacity: held to the budgets, which it may wait for (-ETIMEDOUT), then
 * counted. BODY is an open object, without what asks for the capacity; it is left open. What
 * DEMANDS (of each table once) expect becomes what it was. Given up with -EINTR soon after
 * CANCELLED has become true; NULL: a write, which is given up by the thread's flag as long as it
 * waits. Once it is sent, nothing that the thread does is called off (cancel_set). Where an answer
 * shows that a description is out of date, that is forgotten. Release the outcome, also on failure.
 */
int service_spend(struct service *service, const char *operation, struct demand *demands,
                  size_t count, struct buf *body, const atomic_bool *cancelled,
                  struct outcome *ret_outcome, struct err *err);
/* The same where OWN_NS of what is waited for is a debt of the caller's own making: however long
 * that is, it does not count as waiting. */
struct spending {
    const char *operation;
    struct demand *demands;
    size_t count;
    struct buf *body;
    const atomic_bool *cancelled;
    int64_t own_ns;
    bool once; /* not idempotent: struct call has the same */
};
int service_spend_for(struct service *, const struct spending *, struct outcome *ret_outcome,
                      struct err *err);
/* How long reading UNITS of TABLE takes at its budget; 0: there is none. */
int64_t service_read_ns(struct service *, const struct table *, double units);
/* Units that a page or a bulk write of TABLE should cost at most, so that who waits behind it waits
 * for a second or so; 0: no budget is that small. */
double service_page_units(struct service *service, const struct table *table);
double service_batch_units(struct service *service, const struct table *table);
/* What reading an item of TABLE is believed to cost (portion.h); 0: nothing is known. */
double service_item_units(struct service *service, const struct table *table);
/* A page of ITEMS has cost UNITS. Returns what is believed now. */
double service_note_items(struct service *service, const struct table *table, double items,
                          double units);
/* Units that a write of ITEM consumes, where nothing larger was there and indexes have all of it.
 */
double item_write_units(const struct table *table, const struct value *item);
int service_usage(struct backend *, usage_fn each, void *context);
bool service_skew(struct backend *, int64_t *ret_seconds);
int service_measure(struct backend *, const struct table *, struct measure **ret_measure,
                    struct err *);

/* --- requests: appended to a JSON object that is open (request.c) --- */

/* , "NAME": "text" with a comma where one is needed. */
void request_text(struct buf *out, const char *name, struct span text);
void request_raw(struct buf *out, const char *name, struct span json);
void request_begin(struct buf *out, const struct table *table);
/* "NAME": {"id": {"S": ..}, ..} */
void request_key(struct buf *out, const char *name, const struct table *table, struct key key);
/* The typed value of a key part: {"S": ".."} */
void add_part(struct buf *out, enum value_type type, struct span part);

/* --- tables (tables.c) --- */

/* The names that were chosen, where some were (only_tables), each with a NUL behind it. */
void service_chosen(const struct service *, struct buf *names);
/* Whether a table of that name is, or would be, among those shown. */
bool service_shows(const struct service *, struct span name);
/* Whether it is left out of the list of all, though it can be had by name. */
bool service_hides(const struct service *, struct span name);
/* Whether a table of the service can have that name. Others are not asked for: programs look for
 * all sorts of names in a directory. */
bool service_can_name(struct span name);
int service_tables(struct backend *, table_fn each, void *context, struct err *);
int service_create_table(struct backend *, const struct table *, struct err *);
/* The same whether or not that table is among those shown. */
int service_make_table(struct service *, const struct table *, struct err *);
/* Waits until one that was just made can be used. */
int service_settle_table(struct service *, const struct table *, struct err *);
int service_drop_table(struct backend *, const struct table *, bool force, struct err *);
int service_check_table(struct backend *, const struct table *, struct err *);
int service_alter_table(struct backend *, const struct table *, struct err *);
int service_alter_indexes(struct backend *, const struct table *, struct err *);
int service_describe(struct backend *, struct span name, struct table **ret_table, struct err *);
int service_forbidden(struct backend *, forbidden_fn each, void *context);
/* Whether the service refused to describe that table when it was last asked. */
bool service_is_forbidden(struct service *, struct span name);
/* What the service last counted, some hours ago; 0: it does not say. */
uint64_t service_table_bytes(struct service *, const struct table *);
double service_item_bytes(struct service *, const struct table *); /* on average */

/* --- items (item.c): what the service has, as this project's items --- */

/* What an answer's item says: parts appended to PARTITION and SORT, body to BODY (may be NULL). */
int item_from_reply(const struct table *table, struct span raw, struct buf *partition,
                    struct buf *sort, struct item_meta *ret_meta, struct buf *body,
                    struct err *err);
/* The same with the typed item on one line as BODY, and of the meta only the TTL. */
int item_line_from_reply(const struct table *table, struct span raw, struct buf *partition,
                         struct buf *sort, struct item_meta *ret_meta, struct buf *body,
                         struct err *err);
/* The version of an item in canonical form (value_canonical): a hash of what it holds. */
uint64_t item_version(const struct value *item);
/* Bytes that the service counts for an item, which is canonical. */
size_t item_bytes(const struct value *item);
size_t member_bytes(const struct member *member);
/* Whether an item with that time to live is there for the service, perhaps for days, but for nobody
 * here. */
bool item_hidden(const struct table *table, int64_t ttl);

/* --- reading (read.c) --- */

int service_get(struct backend *, const struct table *, struct key, struct item_meta *ret_meta,
                struct buf *body, struct err *);
/* The item as it is, expired or not, as typed JSON; -ENOENT. */
int service_get_typed(struct service *, const struct table *, struct key, struct buf *typed,
                      struct err *);
int service_walk(struct backend *, const struct table *, const struct walk *, record_fn, void *,
                 struct err *);
/* Scans in parallel segments (scan.c); how many TABLE is read in. */
unsigned service_segments(struct service *, const struct table *);
int service_scan_open(struct backend *, const struct table *, const struct scan_range *,
                      struct scan **ret_scan, struct err *);
int service_scan_next(struct scan *, size_t limit, record_fn, void *, struct err *);
void service_scan_close(struct scan *);
int service_query(struct backend *, const struct table *, const struct query *, record_fn, void *,
                  struct err *);
int service_partitions(struct backend *, const struct table *, struct span after, size_t limit,
                       partition_fn, void *, struct err *);
/* Those that are kept. */
void service_drop_partitions(struct service *);
int service_partition(struct backend *, const struct table *, struct span partition,
                      uint64_t *ret_items, int64_t *ret_changed_ns, struct err *);

/* --- writing (write.c) --- */

int service_write(struct backend *, struct action *, size_t count, unsigned flags, struct err *);

/* --- updates (attribute.c) --- */

int service_update(struct backend *, const struct table *, struct key, const struct update *,
                   struct item_meta *ret_meta, struct buf *ret_number, struct err *);

/* --- streams (stream.h) --- */

int service_stream_open(struct backend *, const struct table *, const char *position,
                        struct stream **ret_stream, struct err *);
int service_stream_next(struct stream *, size_t limit, change_fn, void *, struct err *);
int service_stream_position(struct stream *, struct buf *out);
void service_stream_close(struct stream *);

/* --- leases (lease.c) --- */

/* The table of the leases of all others. */
#define LEASES_TABLE "itemfs-leases"
int service_lease_read(struct backend *, struct span name, struct lease *ret_lease, struct err *);
int service_lease_write(struct backend *, struct span name, uint64_t count, struct span holder,
                        struct span position, struct err *);

/* --- bulk loads (batch.c): WRITE_LOOSE, whose bodies are typed items in canonical form --- */

#define BATCH_MAX 25 /* items of a BatchWriteItem */
int service_pack(struct backend *, const struct table *, struct span typed, struct packed *,
                 struct err *);
struct backend_bulk service_bulk(struct backend *, const struct table *);
int service_write_loose(struct service *, const struct action *actions, size_t count, struct err *);

#endif
