/* SPDX-License-Identifier: MIT */
/*
 * Writing. A batch is the same batch of the backend below: other tables, keys and bodies, and the
 * results of its actions are those of the caller's, but for sizes and times to live, which are of
 * what is shown.
 *
 * What has expired by the profile's own rule may still be there by the backend's. It is in nobody's
 * way: a batch that was refused for it is made once more, over the version that it has. What is
 * hidden otherwise is in the way for good: -EPERM, which looks like nobody else's change, as
 * -EEXIST would.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/check.h"
#include "backend/profile/shown_private.h"
#include "base/clock.h"

#define UPDATE_TRIES 100

/* A batch on its way. */
struct batch {
    struct action *actions;
    struct shown_item *items; /* what each is made of, as it is stored; of puts */
    size_t count;
};

static void batch_release(struct batch *batch)
{
    for (size_t i = 0; batch->items && i < batch->count; i++)
        shown_item_release(&batch->items[i]);
    free(batch->items);
    free(batch->actions);
}

static bool is_profiled(const struct action *action)
{
    return action->table && action->table->profile;
}

static bool is_of_item(const struct action *action)
{
    return action->kind == ACTION_PUT || action->kind == ACTION_DELETE ||
           action->kind == ACTION_TOUCH;
}

/* ACTION becomes one of the stored table. */
static int translate(struct shown *shown, struct action *action, struct shown_item *item,
                     struct err *err)
{
    const struct profile_table *table = action->table->profile;
    int r = 0;

    if (action->kind == ACTION_PUT && action->condition.kind == COND_VERSION &&
        item_gone(action->table, action->ttl, clock_now_s()))
        return check_condition(action, false, 0, err); /* what it was made of is gone */
    if (is_of_item(action))
        r = item_locate(shown, table, action->key, item, err);
    if (r == 0 && action->kind == ACTION_PUT)
        r = item_store(table, action->key, action->body, action->ttl, item, err);
    if (r < 0)
        return r;
    action->table = table->stored;
    if (is_of_item(action))
        action->key = shown_item_key(item);
    if (action->kind == ACTION_PUT) {
        action->body = item->body.len ? buf_span(&item->body) : span_of("", 0);
        action->ttl = item->ttl;
    }
    return 0;
}

static int batch_make(struct shown *shown, const struct action *actions, size_t count,
                      struct batch *batch, struct err *err)
{
    int r = 0;

    *batch = (struct batch){calloc(count + 1, sizeof *batch->actions),
                            calloc(count + 1, sizeof *batch->items), count};
    if (!batch->actions || !batch->items) {
        batch->count = 0;
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        shown_item_init(&batch->items[i]);
    for (size_t i = 0; r == 0 && i < count; i++) {
        batch->actions[i] = actions[i];
        if (is_profiled(&actions[i]))
            r = translate(shown, &batch->actions[i], &batch->items[i], err);
    }
    return r;
}

/* --- Results --- */

/* What of the results of ACTION, a put, is another for what is shown. */
static int show_put(struct action *action, const struct action *stored)
{
    const struct profile_table *table = action->table->profile;
    cleanup(shown_item_release) struct shown_item item;
    const struct record record = {stored->key, stored->meta, stored->body};

    shown_item_init(&item);
    int r = item_show(table, &record, &item);
    if (r < 0)
        return r;
    action->meta.size = item.meta.size;
    action->meta.ttl = item.meta.ttl;
    action->meta.hidden = item.hidden;
    return 0;
}

static int take_results(struct action *actions, const struct batch *batch)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < batch->count; i++) {
        const struct action *stored = &batch->actions[i];
        actions[i].meta = stored->meta;
        actions[i].change = stored->change;
        actions[i].made_id = stored->made_id;
        if (!is_profiled(&actions[i]))
            continue;
        actions[i].meta.size = 0;
        if (actions[i].kind == ACTION_PUT)
            r = show_put(&actions[i], stored);
    }
    return r;
}

/* --- What is in the way --- */

/* The stored item of ACTION: 1 where it is there, and has expired by the profile's rule, with its
 * version. What else is not shown, or is another shown key's, is in the way for good: -EPERM. */
static int find_hidden(struct shown *shown, const struct action *action,
                       const struct action *stored, uint64_t *ret_version, struct err *err)
{
    cleanup(shown_item_release) struct shown_item item;
    cleanup(buf_release) struct buf body;
    struct record record = {.key = stored->key};

    shown_item_init(&item);
    buf_init(&body, SIZE_MAX / 8);
    int r = backend_get(shown->stored, stored->table, stored->key, &record.meta, &body, NULL);
    record.body = buf_span(&body);
    if (r == 0)
        r = item_show(action->table->profile, &record, &item);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (!item.partition.len || !key_equal(shown_item_key(&item), action->key))
        return err_set(err, EPERM, "%s: another item, %s, is stored under the same key",
                       item_label(action->table, action->key).text,
                       item.partition.len ? item_label(action->table, shown_item_key(&item)).text
                                          : "none of this profile");
    *ret_version = record.meta.version;
    if (!item.hidden)
        return 0;
    if (item_gone(action->table, item.meta.ttl, clock_now_s()))
        return 1;
    return err_set(err, EPERM, "%s: it is there already, and hidden by its profile",
                   item_label(action->table, action->key).text);
}

/* Conditions on what has expired by the profile's rule become those on what is there. 1: there was
 * one. */
static int step_over(struct shown *shown, const struct action *actions, struct batch *batch,
                     struct err *err)
{
    bool any = false;

    for (size_t i = 0; i < batch->count; i++) {
        struct action *stored = &batch->actions[i];
        uint64_t version = 0;
        if (!is_profiled(&actions[i]) || actions[i].kind != ACTION_PUT ||
            actions[i].condition.kind != COND_ABSENT || stored->condition.kind != COND_ABSENT)
            continue;
        int r = find_hidden(shown, &actions[i], stored, &version, err);
        if (r < 0)
            return r;
        if (r == 1)
            stored->condition = (struct condition){COND_VERSION, version};
        any |= r == 1;
    }
    return any;
}

static bool has_profiled(const struct action *actions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_profiled(&actions[i]))
            return true;
    return false;
}

int shown_write(struct backend *backend, struct action *actions, size_t count, unsigned flags,
                struct err *err)
{
    struct shown *shown = shown_of(backend);
    cleanup(batch_release) struct batch batch = {NULL, NULL, 0};
    struct err own = {""};

    if (!has_profiled(actions, count))
        return backend_write(shown->stored, actions, count, flags, err);
    int r = batch_make(shown, actions, count, &batch, err);
    if (r < 0)
        return r;
    r = backend_write(shown->stored, batch.actions, count, flags, &own);
    if (r == -EEXIST) {
        int stepped = step_over(shown, actions, &batch, err);
        if (stepped < 0)
            return stepped;
        if (stepped == 1) {
            err_clear(&own);
            r = backend_write(shown->stored, batch.actions, count, flags, &own);
            r = r == -ESTALE ? -EEXIST : r;
        }
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    return flags & (WRITE_TRY | WRITE_LOOSE) ? 0 : take_results(actions, &batch);
}

int shown_body(struct backend *backend, const struct action *action, struct buf *out,
               struct err *err)
{
    struct shown *shown = shown_of(backend);
    cleanup(shown_item_release) struct shown_item stored, item;

    shown_item_init(&stored);
    shown_item_init(&item);
    if (!is_profiled(action))
        return backend_body(shown->stored, action, out, err);
    const struct profile_table *table = action->table->profile;
    int r = item_locate(shown, table, action->key, &stored, err);
    if (r == 0)
        r = item_store(table, action->key, action->body, action->ttl, &stored, err);
    if (r == 0)
        r = item_shown_text(table, &stored, &item, err);
    if (r < 0)
        return r;
    buf_add_span(out, buf_span(&item.body));
    return buf_error(out);
}

/* --- Updates: of what is shown, where it has not moved meanwhile --- */

static int update_once(struct backend *backend, const struct table *table, struct key key,
                       const struct update *update, struct item_meta *ret_meta,
                       struct buf *ret_number, struct err *err)
{
    cleanup(buf_release) struct buf body, next;
    struct item_meta meta;
    struct err own = {""};

    buf_init(&body, SIZE_MAX / 8);
    buf_init(&next, SIZE_MAX / 8);
    int r = shown_get(backend, table, key, &meta, &body, err);
    if (r == -ENOENT)
        return err_set(err, ENOENT, "%s: does not exist", item_label(table, key).text);
    if (r < 0)
        return r;
    if (meta.unreadable)
        return err_set(err, EIO, "%.*s", (int)body.len, body.data);
    r = item_update(buf_span(&body), update, &next, ret_number, &own);
    if (r < 0)
        return err_set(err, -r, "%s: %s", item_label(table, key).text, err_text(&own, r));
    struct action put = {.kind = ACTION_PUT,
                         .table = table,
                         .key = key,
                         .condition = {COND_VERSION, meta.version},
                         .body = buf_span(&next),
                         .ttl = meta.ttl};
    r = check_action(backend, &put, 0, err);
    if (r == 0)
        r = shown_write(backend, &put, 1, 0, err);
    *ret_meta = put.meta;
    return r;
}

int shown_update(struct backend *backend, const struct table *table, struct key key,
                 const struct update *update, struct item_meta *ret_meta, struct buf *ret_number,
                 struct err *err)
{
    size_t before = ret_number ? ret_number->len : 0;

    if (!table->profile)
        return backend_update(shown_of(backend)->stored, table, key, update, ret_meta, ret_number,
                              err);
    for (int tries = 0; tries < UPDATE_TRIES; tries++) {
        struct err own = {""};
        if (ret_number && ret_number->len > before)
            buf_resize(ret_number, before);
        int r = update_once(backend, table, key, update, ret_meta, ret_number, &own);
        if (r != -ESTALE)
            return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : r;
    }
    return err_set(err, EBUSY, "%s: others keep changing it", item_label(table, key).text);
}
