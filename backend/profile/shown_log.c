/* SPDX-License-Identifier: MIT */
/*
 * What others have changed, told of what is shown. The shown key of a record stands in the items
 * that it carries, or follows from the stored key; else it is not told (shown.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/profile/shown_private.h"
#include "backend/stream.h"
#include "base/clock.h"

/* The item before or after a change, as far as it is told. */
struct side {
    bool told; /* it is there, and its attributes are known */
    bool shown;
    struct shown_item item;
};

struct change_view {
    struct side old, new;
    struct buf partition, sort; /* the shown key; empty: it is not told */
};

static void view_init(struct change_view *view)
{
    *view = (struct change_view){.old.told = false};
    shown_item_init(&view->old.item);
    shown_item_init(&view->new.item);
    buf_init(&view->partition, KEY_PART_MAX);
    buf_init(&view->sort, KEY_PART_MAX);
}

static void view_release(struct change_view *view)
{
    shown_item_release(&view->old.item);
    shown_item_release(&view->new.item);
    buf_release(&view->partition);
    buf_release(&view->sort);
}

/* One side, where BODY, of the stored table, is told. An expired item was shown until then: only
 * what its profile hides is hidden. */
static int look(const struct profile_table *table, struct key key, struct span body, int64_t ttl,
                struct side *side)
{
    const struct record record = {.key = key, .meta.ttl = ttl, .body = body};

    side->told = body.data != NULL;
    if (!side->told)
        return 0;
    int r = item_show(table, &record, &side->item);
    bool expired = item_gone(table->shown, side->item.meta.ttl, clock_now_s());
    side->shown = side->item.partition.len && (!side->item.hidden || expired);
    return r;
}

static void take_key(struct change_view *view, const struct shown_item *item)
{
    buf_clear(&view->partition);
    buf_clear(&view->sort);
    buf_add_span(&view->partition, buf_span(&item->partition));
    buf_add_span(&view->sort, buf_span(&item->sort));
}

static int find_key(const struct profile_table *table, struct key key, struct change_view *view)
{
    const struct profile *profile = table->profile;

    buf_clear(&view->partition);
    buf_clear(&view->sort);
    if (!profile->store_key) {
        buf_add_span(&view->partition, key.partition);
        buf_add_span(&view->sort, key.sort);
    } else if (view->new.told && view->new.item.partition.len) {
        take_key(view, &view->new.item);
    } else if (view->old.told && view->old.item.partition.len) {
        take_key(view, &view->old.item);
    } else if (profile->guess_key) {
        int r = profile->guess_key(table, key, &view->partition, &view->sort);
        if (r < 0)
            return r;
        if (r == 1) {
            buf_clear(&view->partition);
            buf_clear(&view->sort);
        }
    }
    return buf_error(&view->partition) ? buf_error(&view->partition) : buf_error(&view->sort);
}

/* What the change is to those who see no hidden items. */
static enum change_type shown_type(enum change_type type, const struct change_view *view)
{
    bool was = view->old.told ? view->old.shown : type != CHANGE_INSERT;
    bool is = view->new.told ? view->new.shown : type != CHANGE_REMOVE;

    if (type == CHANGE_NONE || was == is)
        return type;
    return is ? CHANGE_INSERT : CHANGE_REMOVE;
}

/* --- The change log --- */

struct log_walk {
    struct shown *shown;
    log_fn each;
    void *context;
    struct change_view view;
};

static struct span shown_text(const struct side *side)
{
    if (!side->told || side->item.meta.unreadable || !side->item.partition.len)
        return span_of(NULL, 0);
    return side->item.body.len ? buf_span(&side->item.body) : span_of("", 0);
}

static int log_entry_shown(struct log_walk *walk, const struct profile_table *table,
                           const struct log_entry *entry, struct log_entry *ret_entry)
{
    struct change_view *view = &walk->view;
    int r = look(table, entry->key, entry->old_body, entry->old_ttl, &view->old);

    if (r == 0)
        r = look(table, entry->key, entry->new_body, entry->new_ttl, &view->new);
    if (r == 0)
        r = find_key(table, entry->key, view);
    if (r < 0)
        return r;
    *ret_entry = *entry;
    ret_entry->key = (struct key){buf_span(&view->partition), buf_span(&view->sort)};
    ret_entry->change = shown_type(entry->change, view);
    ret_entry->old_body = shown_text(&view->old);
    ret_entry->new_body = shown_text(&view->new);
    ret_entry->old_ttl = view->old.told ? view->old.item.meta.ttl : 0;
    ret_entry->new_ttl = view->new.told ? view->new.item.meta.ttl : 0;
    return 0;
}

static int log_each(void *context, const struct log_entry *entry)
{
    struct log_walk *walk = context;
    bool of_item = entry->kind == LOG_ITEM || entry->kind == LOG_TOUCH;
    const struct profile_table *table = of_item ? shown_find(walk->shown, entry->table_id) : NULL;
    struct log_entry shown;

    if (!table)
        return walk->each(walk->context, entry);
    int r = log_entry_shown(walk, table, entry, &shown);
    return r < 0 ? r : walk->each(walk->context, &shown);
}

int shown_log(struct backend *backend, uint64_t after, size_t limit, log_fn each, void *context,
              struct err *err)
{
    struct log_walk walk = {.shown = shown_of(backend), .each = each, .context = context};

    view_init(&walk.view);
    int r = backend_log(walk.shown->stored, after, limit, log_each, &walk, err);
    view_release(&walk.view);
    return r;
}

/* --- Streams --- */

struct shown_stream {
    struct stream stream;              /* first */
    const struct profile_table *table; /* NULL: records are handed on */
    struct stream *stored;
    struct change_view view;
    struct buf old_body, new_body;
    change_fn each; /* of the call */
    void *context;
};

static struct shown_stream *stream_of(struct stream *stream)
{
    return (struct shown_stream *)stream;
}

void shown_stream_close(struct stream *stream)
{
    struct shown_stream *shown = stream_of(stream);

    backend_stream_close(shown->stored);
    view_release(&shown->view);
    buf_release(&shown->old_body);
    buf_release(&shown->new_body);
    free(shown);
}

/* What the one below tells besides records, and what the caller tells it, is in both. */
static void hand_up(struct shown_stream *shown)
{
    shown->stream.pause_ns = shown->stored->pause_ns;
    shown->stream.lost = shown->stored->lost;
    shown->stream.off = shown->stored->off;
    shown->stream.off_ns = shown->stored->off_ns;
}

static void hand_down(struct shown_stream *shown)
{
    shown->stored->lost = shown->stream.lost;
    shown->stored->off = shown->stream.off;
    shown->stored->off_ns = shown->stream.off_ns;
}

int shown_stream_open(struct backend *backend, const struct table *table, const char *position,
                      struct stream **ret_stream, struct err *err)
{
    struct shown_stream *shown = calloc(1, sizeof *shown);

    if (!shown)
        return -ENOMEM;
    shown->table = table->profile;
    view_init(&shown->view);
    buf_init(&shown->old_body, SIZE_MAX / 8);
    buf_init(&shown->new_body, SIZE_MAX / 8);
    int r = backend_stream_open(shown_of(backend)->stored,
                                table->profile ? table->profile->stored : table, position,
                                &shown->stored, err);
    if (r < 0) {
        shown_stream_close(&shown->stream);
        return r;
    }
    hand_up(shown);
    *ret_stream = &shown->stream;
    return 0;
}

/* A typed item of the stored table as a body of it. One that is none of the table's is not told. */
static int body_of(const struct table *table, struct span typed, struct buf *body, int64_t *ret_ttl)
{
    cleanup(buf_release) struct buf partition, sort;
    cleanup(value_release) struct value item = {0};

    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    buf_clear(body);
    *ret_ttl = 0;
    if (!typed.data)
        return 0;
    int r = item_from_typed(table, typed, &item, &partition, &sort, NULL);
    if (r == 0)
        r = item_to_body(table, &item, body, ret_ttl, NULL);
    return r == -EINVAL ? 0 : r < 0 ? r : buf_error(body);
}

static int stream_each(void *context, const struct change *change)
{
    struct shown_stream *shown = context;
    const struct profile_table *table = shown->table;
    struct change_view *view = &shown->view;
    struct change told = *change;
    int64_t ttl;

    hand_up(shown);
    if (!table)
        return shown->each(shown->context, change);
    int r = body_of(table->stored, change->old_item, &shown->old_body, &ttl);
    if (r == 0)
        r = look(table, change->key, buf_span(&shown->old_body), ttl, &view->old);
    if (r == 0)
        r = body_of(table->stored, change->new_item, &shown->new_body, &ttl);
    if (r == 0)
        r = look(table, change->key, buf_span(&shown->new_body), ttl, &view->new);
    if (r == 0)
        r = find_key(table, change->key, view);
    if (r < 0)
        return r;
    told.key = (struct key){buf_span(&view->partition), buf_span(&view->sort)};
    told.type = shown_type(change->type, view);
    return shown->each(shown->context, &told);
}

int shown_stream_next(struct stream *stream, size_t limit, change_fn each, void *context,
                      struct err *err)
{
    struct shown_stream *shown = stream_of(stream);

    shown->each = each;
    shown->context = context;
    hand_down(shown);
    int r = backend_stream_next(shown->stored, limit, stream_each, shown, err);
    hand_up(shown);
    return r;
}

int shown_stream_position(struct stream *stream, struct buf *out)
{
    return backend_stream_position(stream_of(stream)->stored, out);
}

int shown_stream_behind(struct stream *stream, uint64_t *ret_records, struct err *err)
{
    return backend_stream_behind(stream_of(stream)->stored, ret_records, err);
}
