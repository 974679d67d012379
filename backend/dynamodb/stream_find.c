/* SPDX-License-Identifier: MIT */
/* Which streams a table has: one for each time that it was switched on, kept 24 hours after it was
 * switched off. */
#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/stream.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define BORN_SLACK_NS NS_PER_S /* a table may be born a moment after its first stream */

/* --- The table --- */

void stream_look_init(struct stream_look *look)
{
    look->on = false;
    buf_init(&look->arn, PLACE_ARN_MAX + 1);
    buf_init(&look->label, PLACE_LABEL_MAX + 1);
}

void stream_look_release(struct stream_look *look)
{
    buf_release(&look->arn);
    buf_release(&look->label);
}

static int is_gone(const struct service_stream *own, struct err *err)
{
    return err_set(err, ENOENT, "table %s is gone", own->table->name);
}

static int copy_look(struct service_stream *own, struct stream_look *look, struct err *err)
{
    struct service *service = own->service;

    scoped_lock(&service->lock);
    const struct known_table *known =
        known_tables_find(&service->known, span_text(own->table->name));
    if (known && known->denied)
        return err_set(err, EACCES, "%s", known->denied);
    if (!known || known->table->id != own->table->id)
        return is_gone(own, err);
    look->on = known->table->stream;
    buf_add_text(&look->arn, known->stream_arn ? known->stream_arn : "");
    buf_add_text(&look->label, known->stream_label ? known->stream_label : "");
    return 0;
}

/* What the service calls its streams goes into positions. */
static int check_words(const struct service_stream *own, struct span arn, struct span label,
                       struct err *err)
{
    if (word_is_fit(arn, PLACE_ARN_MAX) && word_is_fit(label, PLACE_LABEL_MAX))
        return 0;
    return err_set(err, EIO, "table %s: its stream has a name that is none", own->table->name);
}

int stream_look(struct service_stream *own, int64_t fresh_ms, struct stream_look *ret_look,
                struct err *err)
{
    struct span name = span_text(own->table->name);
    struct err said = {""};
    int r = 0;

    buf_clear(&ret_look->arn);
    buf_clear(&ret_look->label);
    if (!service_is_fresh(own->service, name, fresh_ms))
        r = service_refresh(own->service, name, &said);
    if (r == -ENOENT)
        return is_gone(own, err);
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&said, r));
    r = copy_look(own, ret_look, err);
    if (r == 0 && (ret_look->label.len || ret_look->arn.len))
        r = check_words(own, buf_span(&ret_look->arn), buf_span(&ret_look->label), err);
    return r;
}

/* --- Its streams --- */

/* Among those of a table: the oldest of them that are newer than AFTER, or the newest, or ARN. */
struct stream_search {
    struct service_stream *own;
    const char *after;     /* NULL: the newest is wanted */
    const char *wanted;    /* an ARN; NULL: any */
    struct buf arn, label; /* found; len 0: none so far */
    struct err *err;
};

static void stream_search_release(struct stream_search *search)
{
    buf_release(&search->arn);
    buf_release(&search->label);
}

static int consider(struct stream_search *search, struct span arn, struct span label)
{
    int order = span_compare(label, buf_span(&search->label));
    bool better = search->label.len == 0 || (search->after ? order < 0 : order > 0);

    if (search->wanted && !span_equal(arn, span_text(search->wanted)))
        return 0;
    if (!better || (search->after && span_compare(label, span_text(search->after)) <= 0))
        return 0;
    buf_clear(&search->arn);
    buf_clear(&search->label);
    buf_add_span(&search->arn, arn);
    buf_add_span(&search->label, label);
    return buf_error(&search->arn) ? buf_error(&search->arn) : buf_error(&search->label);
}

static int consider_listed(void *context, struct span raw)
{
    struct stream_search *search = context;
    cleanup(buf_release) struct buf arn, label;

    buf_init(&arn, PLACE_ARN_MAX + 1);
    buf_init(&label, PLACE_LABEL_MAX + 1);
    if (!reply_text_is(raw, "TableName", search->own->table->name))
        return 0;
    (void)reply_text(raw, "StreamArn", &arn);
    (void)reply_text(raw, "StreamLabel", &label);
    int r = check_words(search->own, buf_span(&arn), buf_span(&label), search->err);
    return r < 0 ? r : consider(search, buf_span(&arn), buf_span(&label));
}

/* One page of the list, from the stream LAST on, which becomes the last of the page, or empty. */
static int list_page(struct stream_search *search, struct buf *last)
{
    cleanup(outcome_release) struct outcome outcome;
    cleanup(buf_release) struct buf body;
    struct span listed;

    buf_init(&body, 65536);
    request_begin(&body, search->own->table);
    if (last->len)
        request_text(&body, "ExclusiveStartStreamArn", buf_span(last));
    buf_add_char(&body, '}');
    int r = stream_call(search->own, "ListStreams", &body, &outcome, search->err);
    if (r == 0 && reply_member(buf_span(&outcome.body), "Streams", &listed))
        r = reply_each(listed, consider_listed, search);
    buf_clear(last);
    if (r == 0)
        (void)reply_text(buf_span(&outcome.body), "LastEvaluatedStreamArn", last);
    return r;
}

/* LOOK: of the newest, which the list may not have yet; or NULL. */
static int search_list(struct stream_search *search, const struct stream_look *look)
{
    cleanup(buf_release) struct buf last;
    int r = 0;

    buf_init(&search->arn, PLACE_ARN_MAX + 1);
    buf_init(&search->label, PLACE_LABEL_MAX + 1);
    buf_init(&last, 65536);
    do
        r = list_page(search, &last);
    while (r == 0 && last.len);
    if (r == 0 && look && look->label.len)
        r = consider(search, buf_span(&look->arn), buf_span(&look->label));
    return r;
}

int stream_has(struct service_stream *own, const char *arn, const struct stream_look *look,
               bool *ret_found, struct err *err)
{
    cleanup(stream_search_release) struct stream_search search = {
        .own = own, .wanted = arn, .err = err};
    int r = 0;

    *ret_found = span_equal(buf_span(&look->arn), span_text(arn));
    if (*ret_found)
        return 0;
    r = search_list(&search, look);
    *ret_found = search.label.len > 0;
    return r;
}

int stream_pass_all(struct service_stream *own, struct err *err)
{
    cleanup(stream_search_release) struct stream_search search = {.own = own, .err = err};
    int r = search_list(&search, NULL);

    return r ? r : shard_set(&own->place.label, buf_span(&search.label));
}

/* --- From one to the next --- */

/* The oldest that is newer than the place; nothing where there is none. */
static int find_next(struct stream_search *search, const struct stream_look *look)
{
    const struct place *place = &search->own->place;

    search->after = place->label;
    /* Nothing can be newer than the newest. */
    if (place->label[0] && span_equal(buf_span(&look->label), span_text(place->label)))
        return 0;
    return search_list(search, look);
}

/* The stream that was found, as the place. One that an earlier table of the same name had is passed
 * over. */
static int begin(struct service_stream *own, const struct stream_search *found,
                 const struct stream_look *look, struct err *err)
{
    bool newest = span_equal(buf_span(&found->arn), buf_span(&look->arn));
    int r = shard_set(&own->place.arn, buf_span(&found->arn));

    if (r == 0)
        r = stream_list(own, true, err);
    if (r == 0)
        r = shard_set(&own->place.label, buf_span(&found->label));
    if (r < 0 || (!newest && own->born_ns < own->table->created_ns - BORN_SLACK_NS))
        stream_leave(own);
    return r;
}

int stream_advance(struct service_stream *own, struct err *err)
{
    cleanup(stream_look_release) struct stream_look look = {.on = false};

    stream_look_init(&look);
    int r = stream_look(own, own->stream.pause_ns / (NS_PER_S / 1000), &look, err);
    while (r == 0 && !own->place.arn) {
        cleanup(stream_search_release) struct stream_search search = {.own = own, .err = err};
        r = find_next(&search, &look);
        if (r == 0 && search.label.len == 0)
            break;
        if (r == 0)
            r = begin(own, &search, &look, err);
    }
    int64_t pause_ns =
        own->place.arn ? own->stream.off_ns / 2 : STREAM_OFF_PAUSES * own->stream.pause_ns;
    if (r == 0)
        own->look_ns = clock_steady_ns() + pause_ns;
    return r;
}
