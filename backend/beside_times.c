/* SPDX-License-Identifier: MIT */
/* The times of items that a service keeps none of. */
#include "backend/beside_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define NOTES_MAX 256 /* times that are written together */

void version_body(uint64_t version, char ret_body[VERSION_TEXT])
{
    snprintf(ret_body, VERSION_TEXT, "\"%016" PRIx64 "\"", version);
}

/* Gives META the times that the state database has for that version. False: it has none. */
static bool known_times(struct beside *beside, const struct table *state, struct key key,
                        struct item_meta *meta)
{
    cleanup(buf_release) struct buf body;
    struct item_meta noted;
    char wanted[VERSION_TEXT];

    buf_init(&body, 64);
    version_body(meta->version, wanted);
    if (backend_get(beside->state, state, key, &noted, &body, NULL) < 0 ||
        !span_equal(buf_span(&body), span_text(wanted)))
        return false;
    meta->mtime_ns = noted.mtime_ns;
    meta->ctime_ns = noted.ctime_ns;
    return true;
}

struct action time_action(const struct table *state, struct key key, const char *body,
                          int64_t mtime_ns)
{
    return (struct action){.kind = ACTION_PUT,
                           .table = state,
                           .key = key,
                           .body = span_text(body),
                           .mtime_ns = mtime_ns};
}

void note_times(struct beside *beside, const struct table *state, struct key key,
                const struct item_meta *meta)
{
    char body[VERSION_TEXT];

    version_body(meta->version, body);
    struct action action = time_action(state, key, body, meta->mtime_ns);
    (void)backend_write(beside->state, &action, 1, 0, NULL);
}

static void give_times(struct beside *beside, const struct table *state, struct key key,
                       struct item_meta *meta)
{
    if (known_times(beside, state, key, meta))
        return;
    meta->mtime_ns = meta->ctime_ns = clock_now_ns();
    note_times(beside, state, key, meta);
}

int beside_get(struct backend *backend, const struct table *table, struct key key,
               struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *state;
    int r = beside_state(beside, table, &state, err);

    if (r == 0)
        r = backend_get(beside->items, table, key, ret_meta, body, err);
    if (r == 0)
        give_times(beside, state, key, ret_meta);
    return r;
}

/* A walk or query under way: times that were not known are noted together. */
struct timing {
    struct beside *beside;
    const struct table *state;
    record_fn each;
    void *context;
    struct action notes[NOTES_MAX];
    char bodies[NOTES_MAX][VERSION_TEXT];
    size_t places[NOTES_MAX][4]; /* of each key's parts in `keys`: start, length */
    struct buf keys;
    size_t count;
};

static void write_notes(struct timing *timing)
{
    for (size_t i = 0; i < timing->count; i++) {
        const size_t *place = timing->places[i];
        timing->notes[i].key = (struct key){span_of(timing->keys.data + place[0], place[1]),
                                            span_of(timing->keys.data + place[2], place[3])};
    }
    if (timing->count && !buf_error(&timing->keys))
        (void)backend_write(timing->beside->state, timing->notes, timing->count, 0, NULL);
    timing->count = 0;
    buf_clear(&timing->keys);
}

static void note_later(struct timing *timing, struct key key, const struct item_meta *meta)
{
    if (timing->count == NOTES_MAX)
        write_notes(timing);
    size_t at = timing->count++;
    size_t *place = timing->places[at];
    version_body(meta->version, timing->bodies[at]);
    timing->notes[at] =
        time_action(timing->state, (struct key){0}, timing->bodies[at], meta->mtime_ns);
    place[0] = timing->keys.len, place[1] = key.partition.len;
    buf_add_span(&timing->keys, key.partition);
    place[2] = timing->keys.len, place[3] = key.sort.len;
    buf_add_span(&timing->keys, key.sort);
}

static int time_record(void *context, const struct record *record)
{
    struct timing *timing = context;
    struct record timed = *record;

    if (!known_times(timing->beside, timing->state, record->key, &timed.meta)) {
        timed.meta.mtime_ns = timed.meta.ctime_ns = clock_now_ns();
        note_later(timing, record->key, &timed.meta);
    }
    return timing->each(timing->context, &timed);
}

static struct timing *timing_new(struct beside *beside, const struct table *table, record_fn each,
                                 void *context, struct err *err)
{
    struct timing *timing = calloc(1, sizeof *timing);

    if (!timing)
        return NULL;
    buf_init(&timing->keys, SIZE_MAX / 8);
    timing->beside = beside;
    timing->each = each;
    timing->context = context;
    if (beside_state(beside, table, &timing->state, err) < 0) {
        free(timing);
        return NULL;
    }
    return timing;
}

static void timing_end(struct timing *timing)
{
    write_notes(timing);
    buf_release(&timing->keys);
    free(timing);
}

int beside_walk(struct backend *backend, const struct table *table, const struct walk *walk,
                record_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct timing *timing = timing_new(beside, table, each, context, err);

    if (!timing)
        return err_set(err, EIO, "no state for table %s", table->name);
    int r = backend_walk(beside->items, table, walk, time_record, timing, err);
    timing_end(timing);
    return r;
}

int beside_query(struct backend *backend, const struct table *table, const struct query *query,
                 record_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct timing *timing = timing_new(beside, table, each, context, err);

    if (!timing)
        return err_set(err, EIO, "no state for table %s", table->name);
    int r = backend_query(beside->items, table, query, time_record, timing, err);
    timing_end(timing);
    return r;
}
