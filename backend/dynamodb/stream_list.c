/* SPDX-License-Identifier: MIT */
/* Which shards a stream has. */
#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/stream.h"
#include "base/cleanup.h"
#include "base/clock.h"

struct listing {
    struct service_stream *own;
    struct shards shards;
    bool ended;
    int64_t born_ns;
    struct err *err;
};

static void listing_release(struct listing *listing)
{
    shards_release(&listing->shards);
}

static int add_listed(void *context, struct span raw)
{
    struct listing *listing = context;
    cleanup(buf_release) struct buf id, parent;
    struct shard *shard;

    buf_init(&id, SHARD_TEXT_MAX + 1);
    buf_init(&parent, SHARD_TEXT_MAX + 1);
    (void)reply_text(raw, "ShardId", &id);
    (void)reply_text(raw, "ParentShardId", &parent);
    int r = shards_add(&listing->shards, buf_span(&id), buf_span(&parent), &shard);
    if (r == -EINVAL)
        return err_set(listing->err, EIO, "its stream has a shard with a name that is none");
    return r == -EFBIG
               ? err_set(listing->err, EFBIG, "its stream has more than %d shards", SHARDS_MAX)
               : r;
}

/* One page, behind the shard LAST, which becomes the last of the page, or empty. */
static int list_page(struct listing *listing, struct buf *last)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct span description, shards;

    buf_init(&body, 65536);
    buf_add_char(&body, '{');
    request_text(&body, "StreamArn", span_text(listing->own->place.arn));
    if (last->len)
        request_text(&body, "ExclusiveStartShardId", buf_span(last));
    buf_add_char(&body, '}');
    int r = stream_call(listing->own, "DescribeStream", &body, &outcome, listing->err);
    buf_clear(last);
    if (r < 0)
        return r;
    if (!reply_member(buf_span(&outcome.body), "StreamDescription", &description))
        return err_set(listing->err, EIO, "its stream has no description");
    listing->ended = reply_text_is(description, "StreamStatus", "DISABLED");
    listing->born_ns = time_ns_of_s(reply_number(description, "CreationRequestDateTime"));
    if (reply_member(description, "Shards", &shards))
        r = reply_each(shards, add_listed, listing);
    (void)reply_text(description, "LastEvaluatedShardId", last);
    return r;
}

static int list_all(struct listing *listing)
{
    cleanup(buf_release) struct buf last;
    int r = 0;

    buf_init(&last, 65536);
    do
        r = list_page(listing, &last);
    while (r == 0 && last.len);
    return r;
}

void stream_leave(struct service_stream *own)
{
    shards_release(&own->place.shards);
    free(own->place.arn);
    own->place.arn = NULL;
    own->look_ns = 0;
}

static bool all_done(const struct shards *shards)
{
    for (size_t i = 0; i < shards->count; i++)
        if (!shards->list[i].done)
            return false;
    return true;
}

bool stream_needs_list(const struct service_stream *own)
{
    const struct shards *shards = &own->place.shards;

    for (size_t i = 0; i < shards->count; i++)
        if (shards->list[i].missing ||
            (!own->ended && shards->list[i].done && !shards->list[i].divided))
            return true;
    return shards->count == 0 && !own->ended;
}

bool stream_is_finished(const struct service_stream *own)
{
    return own->ended && all_done(&own->place.shards);
}

/* The list is asked for again at once where a shard has ended, then less and less often. */
static void set_pause(struct service_stream *own, bool news)
{
    int64_t pause_ns = news ? own->stream.pause_ns : 2 * own->list_pause_ns;

    own->list_pause_ns = pause_ns < STREAM_LIST_PAUSE_MAX_NS ? pause_ns : STREAM_LIST_PAUSE_MAX_NS;
    own->list_ns = clock_steady_ns() + own->list_pause_ns;
}

int stream_list(struct service_stream *own, bool first, struct err *err)
{
    struct err said = {""};
    cleanup(listing_release) struct listing listing = {.own = own, .err = &said};
    size_t count = own->place.shards.count;
    int r = list_all(&listing);

    if (r == -ENOENT) {
        own->stream.lost |= count == 0 || !all_done(&own->place.shards);
        stream_leave(own);
        return 0;
    }
    if (r == 0)
        r = shards_update(&own->place.shards, &listing.shards, first, &own->stream.lost);
    if (r < 0)
        return err_set(err, -r, "table %s: %s", own->table->name, err_text(&said, r));
    own->ended = listing.ended;
    own->born_ns = listing.born_ns;
    set_pause(own, own->place.shards.count != count);
    return 0;
}
