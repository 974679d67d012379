/* SPDX-License-Identifier: MIT */
/*
 * A table's stream out of the service's.
 *
 * Shards are read in turn, a page of each, as soon as their parents have been read to the end. One
 * that cannot be read holds up neither the others nor what is said of it.
 */
#include "backend/dynamodb/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define SLICE_NS (NS_PER_S / 10) /* after which a wait looks whether it was called off */

/* --- Calls --- */

int stream_wait(int64_t until_ns, struct err *err)
{
    for (int64_t left_ns; (left_ns = until_ns - clock_steady_ns()) > 0;) {
        struct timespec slice = {.tv_nsec = (long)(left_ns < SLICE_NS ? left_ns : SLICE_NS)};
        if (is_cancelled())
            return err_set(err, EINTR, "interrupted");
        nanosleep(&slice, NULL);
    }
    return 0;
}

/* When a call of that kind may be made, as the service limits them for all that an account does. */
static int64_t take_slot(struct service *service, const char *operation)
{
    static const struct {
        const char *operation;
        int64_t apart_ns;
    } limits[PACES] = {{"DescribeStream", NS_PER_S / 10}, {"ListStreams", NS_PER_S / 5}};
    int64_t slot_ns = clock_steady_ns();
    size_t kind = 0;

    while (kind < PACES && strcmp(limits[kind].operation, operation) != 0)
        kind++;
    if (kind == PACES)
        return slot_ns;
    scoped_lock(&service->lock);
    if (slot_ns < service->paced_ns[kind])
        slot_ns = service->paced_ns[kind];
    service->paced_ns[kind] = slot_ns + limits[kind].apart_ns;
    return slot_ns;
}

int stream_call(struct service_stream *own, const char *operation, const struct buf *body,
                struct outcome *ret_outcome, struct err *err)
{
    struct err said = {""};

    outcome_init(ret_outcome);
    int r = stream_wait(take_slot(own->service, operation), &said);
    if (r == 0)
        r = service_call_streams(own->service, operation, body, ret_outcome, &said);
    return r < 0 ? err_set(err, -r, "table %s: %s", own->table->name, err_text(&said, r)) : 0;
}

/* --- Opening --- */

static int begin_oldest(struct service_stream *own, struct err *err)
{
    place_release(&own->place);
    int r = place_init(&own->place, own->table->id);
    return r ? r : stream_advance(own, err);
}

/* Shards that have children are passed over; of the others, what they have now is. A shard whose
 * children are not listed yet ends soon, and then these are read from their beginnings. */
static int begin_shards_now(struct service_stream *own, struct err *err)
{
    struct shards *shards = &own->place.shards;
    int r = 0;

    for (size_t i = 0; r == 0 && i < shards->count; i++) {
        if (shards->list[i].divided)
            shards->list[i].done = true;
        else
            r = stream_begin_now(own, &shards->list[i], err);
    }
    return r;
}

/* A stream that is switched on meanwhile is read from its beginning: so whether there is one is
 * looked at once more behind the list. */
static int begin_now(struct service_stream *own, struct err *err)
{
    cleanup(stream_look_release) struct stream_look look = {.on = false};
    struct place *place = &own->place;

    stream_look_init(&look);
    int r = place_init(place, own->table->id);
    if (r == 0)
        r = stream_look(own, TABLE_FRESH_MS, &look, err);
    if (r == 0 && !look.on && look.label.len == 0) {
        r = stream_pass_all(own, err);
        if (r == 0)
            r = stream_look(own, 0, &look, err);
    }
    if (r == 0 && look.label.len)
        r = shard_set(&place->label, buf_span(&look.label));
    if (r < 0 || !look.on)
        return r;
    r = shard_set(&place->arn, buf_span(&look.arn));
    if (r == 0)
        r = stream_list(own, true, err);
    own->stream.lost = false; /* it ended just now, and nothing of it was wanted */
    return r ? r : begin_shards_now(own, err);
}

/* POSITION was given by a stream of this table, or of another one. */
static int begin_at(struct service_stream *own, const char *position, struct err *err)
{
    cleanup(stream_look_release) struct stream_look look = {.on = false};
    struct place *place = &own->place;
    bool found = true;

    stream_look_init(&look);
    int r = place_from_text(position, place);
    if (r == -EINVAL)
        return err_set(err, EINVAL, "table %s: \"%.80s\" is no position of its stream",
                       own->table->name, position);
    found = place->table_id == own->table->id;
    if (r == 0 && found && place->arn) {
        r = stream_look(own, TABLE_FRESH_MS, &look, err);
        if (r == 0)
            r = stream_has(own, place->arn, &look, &found, err);
        if (r == 0 && found)
            r = stream_list(own, true, err);
    }
    if (r == 0 && !found) {
        own->stream.lost = true;
        r = begin_oldest(own, err);
    }
    return r;
}

int service_stream_open(struct backend *backend, const struct table *table, const char *position,
                        struct stream **ret_stream, struct err *err)
{
    struct service_stream *own = calloc(1, sizeof *own);
    int r = 0;

    if (!own)
        return -ENOMEM;
    own->service = service_of(backend);
    own->stream.pause_ns = own->service->stream_poll_ns;
    own->stream.off_ns = STREAM_ON_PAUSES * own->stream.pause_ns;
    record_parts_init(&own->parts);
    own->table = table_copy(table);
    if (!own->table)
        r = -ENOMEM;
    else if (strcmp(position, STREAM_OLDEST) == 0)
        r = begin_oldest(own, err);
    else if (strcmp(position, STREAM_NOW) == 0)
        r = begin_now(own, err);
    else
        r = begin_at(own, position, err);
    if (r < 0) {
        service_stream_close(&own->stream);
        return r;
    }
    *ret_stream = &own->stream;
    return 0;
}

void service_stream_close(struct stream *stream)
{
    struct service_stream *own = stream_of(stream);

    place_release(&own->place);
    record_parts_release(&own->parts);
    table_free(own->table);
    free(own);
}

int service_stream_position(struct stream *stream, struct buf *out)
{
    place_to_text(&stream_of(stream)->place, out);
    return buf_error(out);
}

/* --- Reading --- */

/* While a stream is read, its shards tell when it has ended. For the case that they do not. What a
 * table that is gone has left is read to its end, where its stream has one. */
static int look_now_and_then(struct service_stream *own, struct err *err)
{
    cleanup(stream_look_release) struct stream_look look = {.on = false};
    int64_t pause_ns = own->stream.off_ns / 2, now_ns = clock_steady_ns();
    struct err said = {""};

    if (now_ns < own->look_ns)
        return 0;
    stream_look_init(&look);
    int r = stream_look(own, pause_ns / (NS_PER_S / 1000), &look, &said);
    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&said, r));
    own->look_ns = now_ns + pause_ns;
    if (r == 0 && look.on && span_equal(buf_span(&look.arn), span_text(own->place.arn)))
        return 0;
    own->stream.off = true;
    if (r == 0)
        return stream_list(own, false, err);
    bool left = stream_list(own, false, NULL) == 0 && own->ended;
    return left ? 0 : err_set(err, ENOENT, "%s", said.text);
}

/* Finds out what there is to be read, as far as that is due. */
static int settle(struct service_stream *own, struct err *err)
{
    int r = 0;

    if (own->gone)
        return err_set(err, ENOENT, "table %s is gone", own->table->name);
    if (own->place.arn)
        r = look_now_and_then(own, err);
    if (r == 0 && own->place.arn && stream_needs_list(own) && clock_steady_ns() >= own->list_ns)
        r = stream_list(own, false, err);
    if (own->place.arn && stream_is_finished(own))
        stream_leave(own);
    own->stream.off |= !own->place.arn; /* also where another one follows at once */
    if (r == 0 && !own->place.arn && clock_steady_ns() >= own->look_ns)
        r = stream_advance(own, err);
    own->gone = r == -ENOENT;
    return r;
}

/* Whether there is no use in asking for another shard. */
static bool concerns_all(int code)
{
    return code == -EINTR || code == -ENOMEM || code == -EHOSTUNREACH || code == -ETIMEDOUT ||
           code == -EACCES || code == -ENOENT;
}

/* A page of each shard that is due. RET_ASKED: there was one. */
static int read_due(struct service_stream *own, struct stream_round *round, bool *ret_asked,
                    struct err *err)
{
    struct shards *shards = &own->place.shards;
    int64_t now_ns = clock_steady_ns();
    size_t first = own->turn;
    int r = 0;

    for (size_t i = 0; i < shards->count && !concerns_all(r) && !round->stopped; i++) {
        size_t place = (first + i) % shards->count;
        struct shard *shard = &shards->list[place];
        if (!shard_is_ready(shards, shard) || shard->due_ns > now_ns)
            continue;
        own->turn = place;
        if (round->limit && round->given == round->limit)
            break;
        *ret_asked = true;
        int own_code = stream_read_page(own, shard, round, err);
        r = r ? r : own_code;
    }
    return r;
}

/* When the first of the shards that are not read up to now is due; INT64_MAX: all are. */
static int64_t behind_due_ns(const struct service_stream *own)
{
    const struct shards *shards = &own->place.shards;
    int64_t due_ns = INT64_MAX;

    for (size_t i = 0; i < shards->count; i++)
        if (!shard_is_current(&shards->list[i]) && shard_is_ready(shards, &shards->list[i]) &&
            shards->list[i].due_ns < due_ns)
            due_ns = shards->list[i].due_ns;
    return due_ns;
}

/* Whether a shard was passed over since the reading was begun. */
static bool is_one_unasked(const struct service_stream *own)
{
    const struct shards *shards = &own->place.shards;
    int64_t now_ns = clock_steady_ns();

    for (size_t i = 0; i < shards->count; i++)
        if (shards->list[i].asked_ns < own->begun_ns && shards->list[i].due_ns <= now_ns &&
            shard_is_ready(shards, &shards->list[i]))
            return true;
    return false;
}

/* Whether there may be more now: also of another shard, or another stream. FULL: no more were
 * wanted. */
static bool has_more(const struct service_stream *own, bool full)
{
    if (!own->place.arn)
        return false;
    return behind_due_ns(own) < INT64_MAX || stream_is_finished(own) ||
           (stream_needs_list(own) && own->list_ns <= clock_steady_ns()) ||
           (full && is_one_unasked(own));
}

int service_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                        struct err *err)
{
    struct service_stream *own = stream_of(stream);
    struct stream_round round = {.limit = limit, .each = each, .context = context};
    bool asked = false;

    if (!own->begun_ns)
        own->begun_ns = clock_steady_ns();
    int r = settle(own, err);

    if (!concerns_all(r)) {
        int read = read_due(own, &round, &asked, err);
        r = r ? r : read;
    }
    int64_t due_ns = behind_due_ns(own);
    if (r == 0 && !asked && due_ns < INT64_MAX) {
        r = stream_wait(due_ns, err);
        if (r == 0)
            r = read_due(own, &round, &asked, err);
    }
    if (round.stopped)
        r = round.stopped;
    else if (r == 0)
        r = has_more(own, limit && round.given == limit);
    if (r != 1 || round.stopped)
        own->begun_ns = own->begun_s = 0;
    return r;
}
