/* SPDX-License-Identifier: MIT */
/*
 * Change streams: what was changed in a table while its stream was on, kept 24 hours. And leases,
 * by which several programs agree on who passes a stream on.
 *
 * A stream gives the changes of each item in the order in which they were made; of different items
 * in any order. It is read from a position, a text that only the backend understands. What was read
 * up to a position was read once; who goes on from an older one is given the same records again,
 * with the same ids. As with backend.h, functions may be called from any thread, but one at a time
 * of each stream.
 */
#ifndef BACKEND_STREAM_H
#define BACKEND_STREAM_H

#include "backend/backend.h"

struct change {
    const char *id; /* opaque, unique to the change, and always the same */
    enum change_type type;
    struct key key;
    struct span old_item, new_item; /* typed, on one line; data NULL: absent, or not told: a
                                       service's stream may be made to tell one, or keys only */
    int64_t time_ns;                /* when it was made; of a service, in whole seconds */
    bool expired;                   /* a REMOVE that a time to live made */
    uint64_t version; /* of the new item, as in its item_meta; of a REMOVE, or not told: 0 */
};

/* A backend embeds it in its own struct, as the first member. */
struct stream {
    struct backend *backend;
    int64_t pause_ns; /* how long to wait before there may be more, once all was given */
    bool lost;        /* records were gone before they could be given, or cannot be told; the
                         caller clears it */
    bool off;         /* it is switched off, or was since the caller cleared this: there are no
                         records of what was changed meanwhile. Not told with BACKEND_LOG */
    int64_t off_ns;   /* a service that does not end a stream is asked, so that `off` is so late at
                         most; the caller may make it less, for two requests in that time */
};

#define STREAM_OLDEST "oldest" /* everything that is kept */
#define STREAM_NOW "now"       /* what is changed from now on */

/* Opens the stream of TABLE, which is copied: from POSITION, which backend_stream_position gave of
 * a stream of this table, or STREAM_OLDEST, STREAM_NOW. A stream that is off gives nothing until it
 * is on. A position that cannot be found any more, or is of another stream, becomes the oldest, and
 * `lost`. -EINVAL for what is no position, -EOPNOTSUPP where there are no streams. With STREAM_NOW
 * nothing that is changed after this function has returned is missed. */
int backend_stream_open(struct backend *, const struct table *, const char *position,
                        struct stream **ret_stream, struct err *);
/* The next records, LIMIT at most, without waiting for any, though for a quarter of a second where
 * a service wants to be asked no more often. 1: there may be more. 0: that is all for now: what was
 * there at the first call after one that has not returned 1 (of a service: a quarter of a second
 * before). So who reads until 0 gets there, however much is written meanwhile. A record for which
 * EACH returns something else than 0 counts as given. With an error there may have been records,
 * too, and the next call goes on behind them. -ENOENT of a service: the table is gone, and all that
 * it left was given. */
int backend_stream_next(struct stream *, size_t limit, change_fn each, void *context, struct err *);
/* Behind the records that were given: appended to OUT, printable ASCII. */
int backend_stream_position(struct stream *, struct buf *out);
/* How many records there are behind the position. -EOPNOTSUPP where nobody can tell. */
int backend_stream_behind(struct stream *, uint64_t *ret_records, struct err *);
void backend_stream_close(struct stream *); /* accepts NULL */

/* How far behind somebody is who goes on from POSITION. */
struct stream_lag {
    uint64_t records;
    int64_t first_ns; /* when the first of them was made; 0: there are none */
};
/* -EOPNOTSUPP where nobody can tell. */
int backend_stream_lag(struct backend *, const struct table *, const char *position,
                       struct stream_lag *ret_lag, struct err *);

/*
 * A lease: who has it says so again and again, which counts it up. Who has seen it stand at the
 * same count for long enough, by a clock of his own, may take it. With it goes a position, which
 * whoever takes it goes on from.
 */
#define LEASE_TEXT_MAX (64u << 10)
struct lease {
    uint64_t count;      /* 0: nobody has ever had it */
    struct buf holder;   /* a text that the holder chose, unlike all others; empty: given back */
    struct buf position; /* a text */
};
void lease_init(struct lease *lease);
void lease_release(struct lease *lease);
/* As it is, by consistent reading; what RET_LEASE held is replaced. NAME is the table's. */
int backend_lease_read(struct backend *, struct span name, struct lease *ret_lease, struct err *);
/* Takes it, keeps it or, with HOLDER empty, gives it back: it becomes count COUNT + 1. -ESTALE
 * where it does not stand at COUNT any more. What has returned 0 survives the end of the program.
 * Where it is called off (base/cancel.h), nobody knows whether it was written. */
int backend_lease_write(struct backend *, struct span name, uint64_t count, struct span holder,
                        struct span position, struct err *);

/* The record as one line of JSON without its end:
 *   {"change_type":"MODIFY","keys":{..},"old_item":{..},"new_item":{..},"change_id":"..",
 *    "time":"2024-01-05T10:00:00.123456789Z"}
 * with typed items, whose types are called as TABLE says; an item that is absent is absent here,
 * and "expired":true stands at the end of a REMOVE that a time to live made. */
void change_to_json(const struct table *table, const struct change *change, struct buf *out);
const char *change_type_name(enum change_type type);

#endif
