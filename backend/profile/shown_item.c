/* SPDX-License-Identifier: MIT */
/* One item: from what is stored to what is shown, and back. */
#include <errno.h>

#include "backend/check.h"
#include "backend/profile/shown_private.h"
#include "base/clock.h"
#include "base/log.h"

#define BODY_MAX (SIZE_MAX / 8)

void shown_item_init(struct shown_item *item)
{
    *item = (struct shown_item){.ttl = 0};
    buf_init(&item->partition, KEY_PART_MAX);
    buf_init(&item->sort, KEY_PART_MAX);
    buf_init(&item->body, BODY_MAX);
    buf_init(&item->made_partition, KEY_PART_MAX);
    buf_init(&item->made_sort, KEY_PART_MAX);
}

void shown_item_release(struct shown_item *item)
{
    buf_release(&item->partition);
    buf_release(&item->sort);
    buf_release(&item->body);
    buf_release(&item->made_partition);
    buf_release(&item->made_sort);
}

static void clear(struct shown_item *item)
{
    buf_clear(&item->partition);
    buf_clear(&item->sort);
    buf_clear(&item->body);
    item->hidden = false;
}

static int item_error(const struct shown_item *item)
{
    if (buf_error(&item->partition))
        return buf_error(&item->partition);
    return buf_error(&item->sort) ? buf_error(&item->sort) : buf_error(&item->body);
}

/* Puts the parts of KEY into VALUE as the attributes that TABLE has for them. */
static int set_key(const struct table *table, struct key key, struct value *value)
{
    const struct key_attribute *attributes[] = {&table->partition, &table->sort};
    const struct span parts[] = {key.partition, key.sort};
    int r = 0;

    for (size_t i = 0; r == 0 && i < 2; i++) {
        struct value part;
        if (!attributes[i]->name)
            continue;
        r = key_part_to_value(attributes[i]->type, parts[i], &part);
        if (r == 0)
            r = value_member_set(value, span_text(attributes[i]->name), part);
    }
    return r;
}

/* Takes the key attributes of TABLE out of VALUE. */
static void remove_key(const struct table *table, struct value *value)
{
    value_member_remove(value, span_text(table->partition.name));
    if (table_sorted(table))
        value_member_remove(value, span_text(table->sort.name));
}

/* --- To what is shown --- */

static void note_left_out(const struct profile_table *table, struct key stored,
                          const struct err *why)
{
    if (!atomic_exchange(table->left_out, true))
        log_warning("profile", "%s is not shown, as are others like it: %s",
                    item_label(table->stored, stored).text, why->text);
}

/* The shown key, in ITEM; 1: the item has none. */
static int show_key(const struct profile_table *table, struct key stored, const struct value *value,
                    struct shown_item *item)
{
    if (table->profile->show_key) {
        struct err why = {""};
        int r = table->profile->show_key(table, value, &item->partition, &item->sort, &why);
        if (r == -EINVAL)
            note_left_out(table, stored, &why);
        return r == -EINVAL ? 1 : r;
    }
    buf_add_span(&item->partition, stored.partition);
    buf_add_span(&item->sort, stored.sort);
    return 0;
}

/* Why the item cannot be read, in place of its text. */
static int unreadable(const struct profile_table *table, struct shown_item *item,
                      const struct err *why)
{
    buf_clear(&item->body);
    buf_addf(&item->body, "%s: cannot be shown: %s",
             item_label(table->shown, shown_item_key(item)).text, why->text);
    item->meta.unreadable = true;
    item->meta.size = 0;
    return item_error(item);
}

static int show_value(const struct profile_table *table, struct value *value,
                      struct shown_item *item)
{
    struct profile_facts facts = {0, false};
    struct err why = {""};
    int64_t beside;
    int r = table->profile->show(table, value, &facts, &why);

    item->meta.ttl = facts.ttl;
    item->hidden = facts.hidden || item_gone(table->shown, facts.ttl, clock_now_s());
    if (r == 0) {
        if (table->other_keys && !table->profile->keeps_key)
            remove_key(table->stored, value);
        r = set_key(table->shown, shown_item_key(item), value);
    }
    if (r == 0)
        r = item_to_body(table->shown, value, &item->body, &beside, &why);
    if (r == -EINVAL)
        return unreadable(table, item, &why);
    item->meta.size = item->body.len;
    return r < 0 ? r : item_error(item);
}

/* Whether the item with the shown key in ITEM is stored as STORED, where its profile would have
 * stored it. 1, 0 or a negative errno. */
static int is_in_place(const struct profile_table *table, struct key stored,
                       struct shown_item *item)
{
    int r;

    if (!table->profile->store_key)
        return 1;
    buf_clear(&item->made_partition);
    buf_clear(&item->made_sort);
    r = table->profile->store_key(table, shown_item_key(item), &item->made_partition,
                                  &item->made_sort, NULL);
    if (r < 0)
        return r == -EINVAL ? 0 : r;
    const struct key made = {buf_span(&item->made_partition), buf_span(&item->made_sort)};
    return key_equal(made, stored);
}

/* A stray is shown where it can be found again: nothing but an index leads to it. 1: it is not. */
static int note_stray(const struct profile_table *table, struct shown_item *item)
{
    if (!atomic_exchange(table->strays, true))
        log_warning("profile",
                    "%s is stored under another key than profile %s, as it is set up, gives it%s",
                    item_label(table->shown, shown_item_key(item)).text, table->profile->name,
                    table->listing ? "; a new one would get that"
                                   : ", and is not shown, as are others like it");
    if (table->listing)
        return 0;
    clear(item);
    return 1;
}

int item_show(const struct profile_table *table, const struct record *record,
              struct shown_item *item)
{
    cleanup(value_release) struct value value = {0};
    int r =
        item_from_body(table->stored, record->key, record->body, record->meta.ttl, &value, NULL);

    clear(item);
    item->meta = record->meta;
    if (r == 0)
        r = show_key(table, record->key, &value, item);
    if (r == 0) {
        r = is_in_place(table, record->key, item);
        r = r == 0 ? note_stray(table, item) : r < 0 ? r : 0;
    }
    if (r == 1) {
        item->hidden = true;
        return 0;
    }
    return r < 0 ? r : show_value(table, &value, item);
}

/* --- To what is stored --- */

int item_stored_key(const struct profile_table *table, struct key key, struct shown_item *item,
                    struct err *err)
{
    struct err why = {""};
    int r = 0;

    buf_clear(&item->partition);
    buf_clear(&item->sort);
    if (table->profile->store_key) {
        r = table->profile->store_key(table, key, &item->partition, &item->sort, &why);
    } else {
        buf_add_span(&item->partition, key.partition);
        buf_add_span(&item->sort, key.sort);
    }
    if (r == 0)
        return item_error(item);
    buf_clear(&item->partition);
    buf_clear(&item->sort);
    return err_set(err, -r, "%s: %s", item_label(table->shown, key).text, err_text(&why, r));
}

/* VALUE, a shown item, becomes the stored one, and ITEM its text. */
static int store_value(const struct profile_table *table, struct key key, int64_t ttl,
                       struct value *value, struct shown_item *item, struct err *why)
{
    int r = table->profile->store(table, key, value, ttl, why);

    if (r == 0)
        r = set_key(table->stored, shown_item_key(item), value);
    if (r == 0)
        r = value_canonical(value, why);
    if (r == 0)
        r = item_to_body(table->stored, value, &item->body, &item->ttl, why);
    return r < 0 ? r : item_error(item);
}

int item_store(const struct profile_table *table, struct key key, struct span body, int64_t ttl,
               struct shown_item *item, struct err *err)
{
    cleanup(value_release) struct value value = {0};
    struct item_facts facts;
    struct err why = {""};
    int r = item_examine(table->shown, key, body, &facts, NULL, err);

    buf_clear(&item->body);
    if (r == 0)
        r = item_from_body(table->shown, key, body, 0, &value, err);
    if (r < 0)
        return r;
    r = store_value(table, key, ttl, &value, item, &why);
    if (r == 0)
        return 0;
    return err_set(err, -r, "%s: %s", item_label(table->shown, key).text, err_text(&why, r));
}

int item_shown_text(const struct profile_table *table, const struct shown_item *item,
                    struct shown_item *shown, struct err *err)
{
    const struct record record = {
        .key = shown_item_key(item), .meta.ttl = item->ttl, .body = buf_span(&item->body)};
    int r = item_show(table, &record, shown);

    if (r == 0 && shown->meta.unreadable)
        return err_set(err, EINVAL, "%.*s", (int)shown->body.len, shown->body.data);
    return r;
}
