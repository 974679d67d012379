/* SPDX-License-Identifier: MIT */
/*
 * Reading a table's stream, what the files stream*.c share. Each is over those below:
 *
 *   stream.c         the operations of backend/stream.h: which shards are read when
 *   stream_find.c    which of a table's streams is next
 *   stream_list.c    the shards of the one that is read
 *   stream_read.c    one page of one shard
 *   stream_record.c  one record
 *   place.h, shard.h what was read so far
 *
 * The service allows 10 DescribeStream and 5 ListStreams a second, and 5 GetRecords a second of
 * each shard. So shards are listed when one has ended, and a table that has no stream now is looked
 * at every STREAM_OFF_PAUSES. One that has is looked at, too, for the case that shards do not end
 * when they ought to (off_ns).
 */
#ifndef BACKEND_DYNAMODB_STREAM_H
#define BACKEND_DYNAMODB_STREAM_H

#include "backend/dynamodb/place.h"
#include "backend/dynamodb/service.h"
#include "backend/stream.h"

#define STREAM_OFF_PAUSES 10
#define STREAM_ON_PAUSES 120
#define STREAM_EMPTY_PAGES 5
#define STREAM_LIST_PAUSE_MAX_NS (60 * NS_PER_S)

/* A record and what it is made of. */
struct record_parts {
    struct buf id, sequence, partition, sort, old_item, new_item;
};
void record_parts_init(struct record_parts *parts);
void record_parts_release(struct record_parts *parts);

struct service_stream {
    struct stream stream; /* first */
    struct service *service;
    struct table *table;
    struct place place;
    bool gone;             /* the table is, or another has its name */
    bool ended;            /* nothing more comes into the stream that is read: it is switched off */
    int64_t born_ns;       /* when that was switched on, epoch */
    int64_t look_ns;       /* steady clock: when the table is looked at again */
    int64_t list_ns;       /* likewise its shards, where one has ended */
    int64_t list_pause_ns; /* doubled while that brings nothing */
    size_t turn;           /* the shard that comes first */
    int64_t begun_ns;      /* steady clock: since when what there is is read; 0: it was */
    int64_t begun_s;       /* the same by the service's clock, epoch; 0: it has told nothing yet */
    struct record_parts parts;
};

static inline struct service_stream *stream_of(struct stream *stream)
{
    return (struct service_stream *)stream;
}

/* Sleeps until UNTIL_NS (steady clock). -EINTR when that is called off. */
int stream_wait(int64_t until_ns, struct err *err);
/* A call of the service's part for streams, about OWN's table. Release the outcome, in any case. */
int stream_call(struct service_stream *own, const char *operation, const struct buf *body,
                struct outcome *ret_outcome, struct err *err);

/* --- stream_find.c --- */

/* What a table's description says. */
struct stream_look {
    bool on;
    struct buf arn, label; /* of the stream that was switched on last; len 0: there is none */
};
void stream_look_init(struct stream_look *look);
void stream_look_release(struct stream_look *look);
/* The description is FRESH_MS old at most. -ENOENT where the table is gone, or is another one. */
int stream_look(struct service_stream *own, int64_t fresh_ms, struct stream_look *ret_look,
                struct err *err);
/* Makes OWN's place, where it is between streams, the beginning of the next one, if there is one.
 */
int stream_advance(struct service_stream *own, struct err *err);
/* Makes it the end of the newest that is listed. */
int stream_pass_all(struct service_stream *own, struct err *err);
/* Whether the table has, or had a short while ago, the stream ARN. */
int stream_has(struct service_stream *own, const char *arn, const struct stream_look *look,
               bool *ret_found, struct err *err);

/* --- stream_list.c --- */

/* Brings the shards up to date. Where the stream is not there any more, what was not read of it is
 * lost, and the place is behind it. FIRST: as in shards_update. */
int stream_list(struct service_stream *own, bool first, struct err *err);
/* Whether the list has to be brought up to date: a shard has ended, or cannot be found. */
bool stream_needs_list(const struct service_stream *own);
/* Whether all of the stream was read, and nothing more comes into it. */
bool stream_is_finished(const struct service_stream *own);
/* Makes the place the end of the stream that it is in. */
void stream_leave(struct service_stream *own);

/* --- stream_read.c --- */

/* A call of backend_stream_next under way. */
struct stream_round {
    size_t limit, given; /* limit 0: none */
    change_fn each;
    void *context;
    int stopped; /* what EACH returned instead of 0 */
};
/* Whether all of it up to now was given. */
static inline bool shard_is_current(const struct shard *shard)
{
    return shard->empty >= STREAM_EMPTY_PAGES;
}
/* One page of SHARD; the records in it to EACH. */
int stream_read_page(struct service_stream *own, struct shard *shard, struct stream_round *round,
                     struct err *err);
/* Makes SHARD begin behind the records that it has now. */
int stream_begin_now(struct service_stream *own, struct shard *shard, struct err *err);

/* --- stream_record.c --- */

/* One of GetRecords, read into PARTS, to which RET_CHANGE leads. 1: a change. 0: nothing has
 * changed, or it cannot be told of which item, which is warned of: RET_LOST. Its sequence number is
 * in PARTS; len 0: it has none. -ENOMEM. */
int stream_record(const struct table *table, struct span raw, struct record_parts *parts,
                  struct change *ret_change, bool *ret_lost);
/* When it was made, epoch. */
int64_t stream_record_ns(struct span raw);

#endif
