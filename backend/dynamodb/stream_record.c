/* SPDX-License-Identifier: MIT */
/*
 * A record of the service as a change.
 *
 * How much of the items it tells is a setting of the stream, which others may have made: keys only,
 * one of the images, or both. What it does not tell is absent. Some services write records for what
 * changed nothing: an equal put, a refused update; where both images are there and equal, there is
 * no change.
 */
#include <errno.h>

#include "backend/dynamodb/stream.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

void record_parts_init(struct record_parts *parts)
{
    buf_init(&parts->id, 4096);
    buf_init(&parts->sequence, SHARD_TEXT_MAX + 1);
    buf_init(&parts->partition, KEY_PART_MAX);
    buf_init(&parts->sort, KEY_PART_MAX);
    buf_init(&parts->old_item, DYNAMODB_BODY_MAX);
    buf_init(&parts->new_item, DYNAMODB_BODY_MAX);
}

void record_parts_release(struct record_parts *parts)
{
    buf_release(&parts->id);
    buf_release(&parts->sequence);
    buf_release(&parts->partition);
    buf_release(&parts->sort);
    buf_release(&parts->old_item);
    buf_release(&parts->new_item);
}

static void clear(struct record_parts *parts)
{
    buf_clear(&parts->id);
    buf_clear(&parts->sequence);
    buf_clear(&parts->partition);
    buf_clear(&parts->sort);
    buf_clear(&parts->old_item);
    buf_clear(&parts->new_item);
}

/* --- Images --- */

struct image {
    bool there; /* else ITEM is zeroed */
    struct value item;
};

static void image_release(struct image *image)
{
    value_release(&image->item);
}

/* The image NAME, its line into LINE. One that is no item of the table counts as not there. */
static int read_image(const struct table *table, struct span record, const char *name,
                      struct buf *line, struct image *ret_image)
{
    cleanup(buf_release) struct buf partition, sort;
    struct span raw;
    struct err own = {""};

    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    if (!reply_member(record, name, &raw))
        return 0;
    int r = item_from_typed(table, raw, &ret_image->item, &partition, &sort, &own);
    if (r < 0 && r != -ENOMEM) {
        log_warning("stream", "table %s: the %s of a change is not shown: %s", table->name, name,
                    err_text(&own, r));
        return 0;
    }
    if (r < 0)
        return r;
    value_sort_sets(&ret_image->item);
    value_map_to_typed(&ret_image->item, line);
    ret_image->there = true;
    return buf_error(line);
}

/* As service_get would say; 0 where it would refuse the item. */
static uint64_t version_of(struct image *image)
{
    return image->there && value_canonical(&image->item, NULL) == 0 ? item_version(&image->item)
                                                                    : 0;
}

/* --- The record --- */

static enum change_type type_of(struct span raw, struct span record)
{
    bool both = reply_text_is(record, "StreamViewType", "NEW_AND_OLD_IMAGES");
    struct span image;

    if (reply_text_is(raw, "eventName", "REMOVE"))
        return CHANGE_REMOVE;
    /* Some services say MODIFY of what is new. */
    if (reply_text_is(raw, "eventName", "INSERT") ||
        (both && !reply_member(record, "OldImage", &image)))
        return CHANGE_INSERT;
    return CHANGE_MODIFY;
}

static bool is_expiry(struct span raw)
{
    struct span identity;

    return reply_member(raw, "userIdentity", &identity) &&
           reply_text_is(identity, "Type", "Service") &&
           reply_text_is(identity, "PrincipalId", "dynamodb.amazonaws.com");
}

static int read_key(const struct table *table, struct span record, struct record_parts *parts,
                    struct err *err)
{
    cleanup(value_release) struct value key = {0};
    struct span raw;

    if (!reply_member(record, "Keys", &raw))
        return err_set(err, EIO, "it names no key");
    return item_from_typed(table, raw, &key, &parts->partition, &parts->sort, err);
}

static int read_images(const struct table *table, struct span record, struct record_parts *parts,
                       struct change *change)
{
    cleanup(image_release) struct image before = {false}, after = {false};
    int r = read_image(table, record, "OldImage", &parts->old_item, &before);

    if (r == 0)
        r = read_image(table, record, "NewImage", &parts->new_item, &after);
    if (r < 0)
        return r;
    if (before.there && after.there && value_equal(&before.item, &after.item))
        return 0;
    if (before.there)
        change->old_item = buf_span(&parts->old_item);
    if (after.there)
        change->new_item = buf_span(&parts->new_item);
    change->version = version_of(&after);
    return 1;
}

/* What positions and repeated reading rest on. */
static int read_sequence(struct span record, struct record_parts *parts, struct err *err)
{
    if (reply_text(record, "SequenceNumber", &parts->sequence) && parts->sequence.len &&
        strspn(parts->sequence.data, "0123456789") == parts->sequence.len)
        return 0;
    buf_clear(&parts->sequence);
    return err_set(err, EIO, "it has no sequence number");
}

int64_t stream_record_ns(struct span raw)
{
    struct span record;

    if (!reply_member(raw, "dynamodb", &record))
        return 0;
    return time_ns_of_s(reply_number(record, "ApproximateCreationDateTime"));
}

int stream_record(const struct table *table, struct span raw, struct record_parts *parts,
                  struct change *ret_change, bool *ret_lost)
{
    struct change change = {.id = NULL};
    struct span record = span_of("{}", 2);
    struct err own = {""};

    clear(parts);
    (void)reply_member(raw, "dynamodb", &record);
    int r = read_sequence(record, parts, &own);
    if (r == 0)
        r = read_key(table, record, parts, &own);
    if (r < 0 && r != -ENOMEM) {
        log_warning("stream", "table %s: a change is left out: %s", table->name, err_text(&own, r));
        *ret_lost = true;
        return 0;
    }
    if (r == 0)
        r = read_images(table, record, parts, &change);
    if (r <= 0)
        return r;
    if (!reply_text(raw, "eventID", &parts->id))
        buf_add_span(&parts->id, buf_span(&parts->sequence));
    change.id = parts->id.data;
    change.type = type_of(raw, record);
    change.key = (struct key){buf_span(&parts->partition), buf_span(&parts->sort)};
    change.time_ns = stream_record_ns(raw);
    change.expired = change.type == CHANGE_REMOVE && is_expiry(raw);
    *ret_change = change;
    return buf_error(&parts->id) ? buf_error(&parts->id) : 1;
}
