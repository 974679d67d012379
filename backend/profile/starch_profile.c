/* SPDX-License-Identifier: MIT */
/*
 * The profile "starch": sessions of Starch (Perl) in its DynamoDB store. The key is
 * NAMESPACE:ID; beside the session's own fields an item has the key and the second until which it
 * is good, both of which the mount keeps out of the text: they are the name and the time to live.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/profile/profile.h"
#include "backend/profile/starch_codec.h"
#include "base/item.h"
#include "base/number.h"

#define UNITS 10 /* of reads and of writes, as the store makes its table */
#define NO_STORE "__STARCH_NO_STORE__"
#define FIRST_READ "starch-store-dynamodb-initialization"

enum { KEY_FIELD, EXPIRATION_FIELD, CONSISTENT_READ, CONNECT_ON_CREATE };

static const struct profile_option options[] = {
    [KEY_FIELD] = {"key_field", OPTION_TEXT, "__STARCH_KEY__", NULL, 0, 0},
    [EXPIRATION_FIELD] = {"expiration_field", OPTION_TEXT, "__STARCH_EXPIRATION__", NULL, 0, 0},
    [CONSISTENT_READ] = {"consistent_read", OPTION_SWITCH, "yes", NULL, 0, 0},
    [CONNECT_ON_CREATE] = {"connect_on_create", OPTION_SWITCH, "yes", NULL, 0, 0},
    {NULL, OPTION_TEXT, NULL, NULL, 0, 0},
};

static int starch_check(const struct profile_value *values, struct err *err)
{
    if (strcmp(values[KEY_FIELD].text, values[EXPIRATION_FIELD].text) == 0)
        return err_set(err, EINVAL, "key_field and expiration_field are the same");
    return 0;
}

/* --- Tables --- */

static int starch_make(const struct profile_value *values, struct table *table, struct err *err)
{
    (void)err;
    table->partition = (struct key_attribute){strdup(values[KEY_FIELD].text), VALUE_S};
    table->read_units = table->write_units = UNITS;
    return table->partition.name ? 0 : -ENOMEM;
}

static int starch_fit(const struct profile_value *values, struct table *table, struct err *err)
{
    const char *key = values[KEY_FIELD].text;

    if (table_sorted(table))
        return err_set(err, EINVAL, "profile = starch: the table has a sort key, \"%s\"",
                       table->sort.name);
    if (strcmp(table->partition.name, key) != 0)
        return err_set(err, EINVAL,
                       "profile = starch: the table's key is \"%s\", not \"%s\" (key_field)",
                       table->partition.name, key);
    if (table->partition.type != VALUE_S)
        return err_set(err, EINVAL, "profile = starch: the key \"%s\" is no string", key);
    char *attribute = strdup(values[EXPIRATION_FIELD].text);
    if (!attribute)
        return -ENOMEM;
    free(table->ttl_attribute);
    table->ttl_attribute = attribute;
    table->keys = KEYS_PLAIN;
    table->ttl_whole = true;
    table->eventual = !values[CONSISTENT_READ].on;
    return 0;
}

static const char *starch_first_read(const struct profile_value *values)
{
    return values[CONNECT_ON_CREATE].on ? FIRST_READ : NULL;
}

/* --- Items --- */

/* A field's name before what is said of it; long ones cut. */
static int refuse_field(const struct member *member, int code, const struct err *why,
                        struct err *err)
{
    const size_t most = 100;
    size_t len = member->name_len < most ? member->name_len : most;

    return err_set(err, -code, "\"%.*s\": %s", (int)len, member->name, err_text(why, code));
}

/* The key is not a field of the session, and any text is one. */
static bool is_key(const struct profile_table *table, const struct member *member)
{
    return span_equal(span_of(member->name, member->name_len),
                      span_text(table->stored->partition.name));
}

static bool is_digits(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.len > 0;
}

/* The last second of the session, of VALUE as Perl compares it with the clock: a number or the text
 * of one, of which a fraction makes no difference; 0: for ever. What is no number says nothing. */
static int64_t expiration(const struct value *value)
{
    int64_t seconds = 0;

    if (!value || (value->type != VALUE_N && value->type != VALUE_S))
        return 0;
    struct span text = value_text(value);
    if (!number_is_json(text))
        return 0;
    if (number_to_int64(text, &seconds))
        return seconds < 0 ? 1 : seconds;
    if (text.data[0] == '-')
        return 1;
    const char *point = memchr(text.data, '.', text.len);
    struct span whole = span_of(text.data, point ? (size_t)(point - text.data) : 0);
    if (!is_digits(whole) || memchr(text.data, 'e', text.len) || memchr(text.data, 'E', text.len))
        return 0; /* beyond all clocks, or nothing that anybody writes */
    if (!number_to_int64(whole, &seconds))
        return 0;
    return seconds ? seconds : 1;
}

static int starch_show_item(const struct profile_table *table, struct value *item,
                            struct profile_facts *ret_facts, struct err *err)
{
    struct span expiration_field = span_text(table->options[EXPIRATION_FIELD].text);
    struct err why = {""};
    int r = 0;

    ret_facts->ttl = expiration(value_member(item, expiration_field));
    value_member_remove(item, expiration_field);
    for (size_t i = 0; r == 0 && i < item->map.count; i++) {
        struct member *member = &item->map.members[i];
        r = is_key(table, member) ? 0 : starch_show(&member->value, &why);
        if (r < 0)
            r = refuse_field(member, r, &why, err);
    }
    return r;
}

/* Whether Perl takes VALUE for true. */
static bool is_true(const struct value *value)
{
    switch (value->type) {
    case VALUE_NULL: return false;
    case VALUE_BOOL: return value->boolean;
    case VALUE_S: return value->text.len > 0 && !span_equal(value_text(value), span_text("0"));
    case VALUE_N: return number_compare(value_text(value), span_text("0")) != 0;
    default: return true;
    }
}

/* What Starch would do something else with than store it. */
static int check_session(const struct profile_table *table, const struct value *item,
                         struct err *err)
{
    const char *field = table->options[EXPIRATION_FIELD].text;
    const struct value *no_store = value_member(item, span_text(NO_STORE));

    if (value_member(item, span_text(ITEM_VALUE)))
        return err_set(err, EINVAL, "a session is a JSON object");
    if (value_member(item, span_text(field)))
        return err_set(err, EINVAL,
                       "\"%s\" is the store's own field: the time to live is set by its name "
                       "(setfattr -n user.itemfs.ttl)",
                       field);
    if (no_store && is_true(no_store))
        return err_set(err, EINVAL,
                       "\"" NO_STORE "\" is set: a session with it is not to be stored");
    return 0;
}

static int set_expiration(const struct profile_table *table, int64_t ttl, struct value *item)
{
    char digits[24];
    struct value value;

    snprintf(digits, sizeof digits, "%lld", (long long)ttl);
    int r = value_new_text(VALUE_N, span_text(digits), &value);
    return r ? r : value_member_set(item, span_text(table->options[EXPIRATION_FIELD].text), value);
}

static int starch_store_item(const struct profile_table *table, struct key key, struct value *item,
                             int64_t ttl, struct err *err)
{
    struct err why = {""};
    int r = check_session(table, item, err);

    (void)key;
    for (size_t i = 0; r == 0 && i < item->map.count; i++) {
        struct member *member = &item->map.members[i];
        if (!starch_can_name(member))
            r = err_set(&why, EINVAL, "its name has half of a surrogate pair");
        else
            r = is_key(table, member) ? 0 : starch_store(&member->value, &why);
        if (r < 0)
            r = refuse_field(member, r, &why, err);
    }
    return r ? r : set_expiration(table, ttl, item);
}

static const struct profile starch = {
    .name = "starch",
    .options = options,
    .check = starch_check,
    .make = starch_make,
    .fit = starch_fit,
    .show = starch_show_item,
    .store = starch_store_item,
    .removes_expired = true,
    .first_read = starch_first_read,
};

const struct profile *const profiles_of_starch[] = {&starch, NULL};
