/* SPDX-License-Identifier: MIT */
/*
 * Pages of a shard. An iterator leads to each, and each but the last of a closed shard has one to
 * the next. It ends after 15 minutes; then, and where only a part of a page was given, another one
 * is asked for: behind the last record that was given, or at the beginning.
 *
 * An empty page does not mean that there is nothing: records may stand further on. So a shard is
 * current, read up to now, after a few of them, or after one behind a record that was made just
 * now. Of a shard that is written to all the time no page is empty, and one that is not full says
 * little, since it ends at a megabyte, too: it is current when it has given a record that was made
 * in a later second than that in which the reading was begun.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/stream.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define PAGE_RECORDS 1000            /* at most */
#define PAGE_PAUSE_NS (NS_PER_S / 4) /* between two pages of a shard */
#define JUST_NOW_S 2
/* The service's clocks, and ours where it does not tell the time. */
#define CLOCKS_DIFFER_S 10
#define OUR_CLOCK_DIFFERS_S 300

/* --- Iterators --- */

static bool is_trimmed(const struct outcome *outcome)
{
    return strcmp(outcome->type, "TrimmedDataAccessException") == 0;
}

static bool is_expired(const struct outcome *outcome)
{
    return strcmp(outcome->type, "ExpiredIteratorException") == 0;
}

static int ask_iterator(struct service_stream *own, const struct shard *shard, const char *kind,
                        struct outcome *ret_outcome, struct err *err)
{
    cleanup(buf_release) struct buf body;

    buf_init(&body, 65536);
    buf_add_char(&body, '{');
    request_text(&body, "StreamArn", span_text(own->place.arn));
    request_text(&body, "ShardId", span_text(shard->id));
    request_text(&body, "ShardIteratorType", span_text(kind));
    if (strcmp(kind, "AFTER_SEQUENCE_NUMBER") == 0)
        request_text(&body, "SequenceNumber", span_text(shard->after));
    buf_add_char(&body, '}');
    return stream_call(own, "GetShardIterator", &body, ret_outcome, err);
}

static int take_iterator(struct service_stream *own, struct shard *shard, struct span answer,
                         const char *name, struct err *err)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 65536);
    if (!reply_text(answer, name, &text) || text.len == 0)
        return err_set(err, EIO, "table %s: GetShardIterator: the answer has no iterator",
                       own->table->name);
    return shard_set(&shard->iterator, buf_span(&text));
}

/* What was not given of SHARD so far is gone, or some of it: on with what there is. */
static void lose(struct service_stream *own, struct shard *shard)
{
    own->stream.lost = true;
    free(shard->after);
    free(shard->iterator);
    shard->after = shard->iterator = NULL;
    shard->since_s = 0;
}

/* An iterator to where SHARD was read to. A position that the service refuses cannot be found any
 * more: then it is the oldest. -ENOENT where not even that can be found. */
static int get_iterator(struct service_stream *own, struct shard *shard, struct err *err)
{
    for (int tries = 0;; tries++) {
        cleanup(outcome_release) struct outcome outcome;
        struct err said = {""};
        const char *kind = shard->after ? "AFTER_SEQUENCE_NUMBER" : "TRIM_HORIZON";
        int r = ask_iterator(own, shard, kind, &outcome, &said);
        if (r == 0) {
            shard->sifted = !shard->after && shard->since_s;
            return take_iterator(own, shard, buf_span(&outcome.body), "ShardIterator", err);
        }
        bool refused = is_trimmed(&outcome) || (r == -EINVAL && shard->after);
        if (tries || !refused)
            return err_set(err, refused ? ENOENT : -r, "%s", err_text(&said, r));
        lose(own, shard);
    }
}

int stream_begin_now(struct service_stream *own, struct shard *shard, struct err *err)
{
    cleanup(outcome_release) struct outcome outcome;
    struct err said = {""};
    int r = ask_iterator(own, shard, "LATEST", &outcome, &said);

    if (r == -ENOENT || (r < 0 && is_trimmed(&outcome))) { /* it went just now */
        shard->done = true;
        return 0;
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&said, r));
    shard->since_s =
        outcome.date_s ? outcome.date_s - CLOCKS_DIFFER_S : clock_now_s() - OUR_CLOCK_DIFFERS_S;
    shard->empty = STREAM_EMPTY_PAGES;
    return take_iterator(own, shard, buf_span(&outcome.body), "ShardIterator", err);
}

/* --- Pages --- */

struct page {
    struct service_stream *own;
    struct shard *shard;
    struct stream_round *round;
    size_t records;    /* that it has, given or not */
    int64_t newest_ns; /* when the last of them was made */
};

/* The shard was read to the record in PARTS, and is not begun any more. */
static int move_on(struct shard *shard, const struct record_parts *parts)
{
    shard->sifted = false;
    return shard_set(&shard->after, buf_span(&parts->sequence));
}

static int give(void *context, struct span raw)
{
    struct page *page = context;
    struct service_stream *own = page->own;
    struct shard *shard = page->shard;
    struct change change;

    page->records++;
    page->newest_ns = stream_record_ns(raw);
    if (shard->sifted && page->newest_ns < shard->since_s * NS_PER_S)
        return 0;
    int r = stream_record(own->table, raw, &own->parts, &change, &own->stream.lost);
    if (r < 0 || own->parts.sequence.len == 0)
        return r;
    if (shard->after && sequence_compare(own->parts.sequence.data, shard->after) <= 0)
        return 0; /* it was given before */
    bool changed = r > 0;
    r = move_on(shard, &own->parts);
    if (r < 0 || !changed)
        return r;
    page->round->given++;
    page->round->stopped = page->round->each(page->round->context, &change);
    return page->round->stopped;
}

static size_t page_most(const struct stream_round *round)
{
    size_t left = round->limit - round->given;

    return round->limit && left < PAGE_RECORDS ? left : PAGE_RECORDS;
}

static int ask_page(struct service_stream *own, struct shard *shard, size_t most,
                    struct outcome *ret_outcome, struct err *err)
{
    cleanup(buf_release) struct buf body;
    char limit[32];

    buf_init(&body, 65536);
    snprintf(limit, sizeof limit, "%zu", most);
    buf_add_char(&body, '{');
    request_text(&body, "ShardIterator", span_text(shard->iterator));
    request_raw(&body, "Limit", span_text(limit));
    buf_add_char(&body, '}');
    shard->asked_ns = clock_steady_ns();
    shard->due_ns = shard->asked_ns + PAGE_PAUSE_NS;
    capacity_count(own->service->capacity, "GetRecords", own->table->name);
    return stream_call(own, "GetRecords", &body, ret_outcome, err);
}

/* What a page says of whether there is more behind it. DATE_S: the service's clock. */
static void note_page(struct shard *shard, const struct page *page, size_t most, int64_t date_s)
{
    struct service_stream *own = page->own;
    bool recent = date_s && page->newest_ns >= (date_s - JUST_NOW_S) * NS_PER_S;

    if (!own->begun_s)
        own->begun_s = date_s ? date_s : clock_now_s() + OUR_CLOCK_DIFFERS_S;
    if (page->newest_ns >= (own->begun_s + 1) * NS_PER_S)
        shard->empty = STREAM_EMPTY_PAGES;
    else if (page->records)
        shard->empty = page->records < most && recent ? STREAM_EMPTY_PAGES - 1 : 0;
    else if (!shard_is_current(shard))
        shard->empty++;
}

/* Where only a part of the page was given, the rest is asked for again. */
static int take_page(struct service_stream *own, struct shard *shard, struct stream_round *round,
                     const struct outcome *outcome, struct err *err)
{
    struct page page = {.own = own, .shard = shard, .round = round};
    size_t most = page_most(round);
    struct span answer = buf_span(&outcome->body), part;
    int r = 0;

    free(shard->iterator);
    shard->iterator = NULL;
    shard->doubted = false;
    if (reply_member(answer, "Records", &part))
        r = reply_each(part, give, &page);
    if (r) {
        shard->empty = 0;
        return round->stopped ? 0 : r;
    }
    note_page(shard, &page, most, outcome->date_s);
    if (reply_member(answer, "NextShardIterator", &part))
        return take_iterator(own, shard, answer, "NextShardIterator", err);
    shard->done = true;
    own->list_ns = 0;
    own->list_pause_ns = own->stream.pause_ns / 2;
    return 0;
}

/* A shard that is not there, or so it says: the list will tell, once. */
static int miss(struct service_stream *own, struct shard *shard, const struct err *said,
                struct err *err)
{
    if (shard->doubted)
        return err_set(err, EIO, "%s", err_text(said, -EIO));
    shard->missing = true;
    own->list_ns = 0;
    return 0;
}

int stream_read_page(struct service_stream *own, struct shard *shard, struct stream_round *round,
                     struct err *err)
{
    for (int tries = 0;; tries++) {
        cleanup(outcome_release) struct outcome outcome;
        struct err said = {""};
        int r = 0;
        outcome_init(&outcome);
        if (!shard->iterator)
            r = get_iterator(own, shard, &said);
        if (r == 0)
            r = ask_page(own, shard, page_most(round), &outcome, &said);
        if (r == 0)
            return take_page(own, shard, round, &outcome, err);
        if (r == -ENOENT || (tries && is_trimmed(&outcome)))
            return miss(own, shard, &said, err);
        if (tries || !(is_expired(&outcome) || is_trimmed(&outcome)))
            return err_set(err, -r, "%s", err_text(&said, r));
        if (is_trimmed(&outcome))
            lose(own, shard);
        free(shard->iterator);
        shard->iterator = NULL;
    }
}
