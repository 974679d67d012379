/* SPDX-License-Identifier: MIT */
#include "base/update.h"

#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/item_body.h"
#include "base/number.h"
#include "base/text.h"

static bool is_name(struct span name, const char *text)
{
    return text && span_equal(name, span_text(text));
}

static int refuse_name(const struct update *update, const char *reason, struct err *err)
{
    return err_set(err, EINVAL, "\"%.*s\" %s", (int)update->attribute.len, update->attribute.data,
                   reason);
}

static int check_name(const struct table *table, const struct update *update, struct err *err)
{
    struct span name = update->attribute;
    if (name.len == 0)
        return err_set(err, EINVAL, "the attribute's name is empty");
    if (name.len > KEY_PART_MAX || !text_is_utf8(name, true))
        return err_set(err, EINVAL, "the attribute's name is too long, or not valid UTF-8");
    if (is_name(name, table->partition.name) || is_name(name, table->sort.name))
        return refuse_name(update, "is the key: that stays as it is", err);
    if (is_name(name, table->ttl_attribute))
        return refuse_name(update, "is the time to live: set that by its own name", err);
    return 0;
}

int update_check(const struct table *table, const struct update *update, struct err *err)
{
    cleanup(value_release) struct value value = {0};
    cleanup(buf_release) struct buf number;
    struct err own = {""};
    buf_init(&number, 512);
    int error = check_name(table, update, err);
    if (error)
        return error;
    if (update->kind == UPDATE_ADD)
        return number_canonical(update->value, &number, err);
    error = value_from_plain(update->value, &value, &own);
    return error ? err_set(err, -error, "the value to append: %s", err_text(&own, error)) : 0;
}

static int judge_absent(const struct update *update, bool has_value, struct err *err)
{
    if (is_name(update->attribute, ITEM_VALUE))
        return err_set(err, EINVAL,
                       "it is no bare value: name one of its attributes (itemctl: --attr NAME)");
    if (has_value)
        return refuse_name(update, "cannot be made beside a bare value", err);
    return 0;
}

static bool is_set(const struct value *value)
{
    return value->type == VALUE_SS || value->type == VALUE_NS || value->type == VALUE_BS;
}

static bool holds(const struct value *list, const struct value *value)
{
    for (size_t i = 0; i < list->list.count; i++)
        if (value_equal(&list->list.items[i], value))
            return true;
    return false;
}

static int refuse_held(const struct update *update, struct err *err)
{
    return err_set(err, EEXIST, "\"%.*s\" holds that value already", (int)update->attribute.len,
                   update->attribute.data);
}

/* Whether CURRENT holds what is to be appended once. */
static int judge_unique(const struct update *update, const struct value *current, struct err *err)
{
    cleanup(value_release) struct value value = {0};
    if (update->kind != UPDATE_APPEND_UNIQUE || (current->type != VALUE_L && !is_set(current)))
        return 0;
    int error = value_from_plain(update->value, &value, err);
    return error == 0 && holds(current, &value) ? refuse_held(update, err) : error;
}

int update_judge(const struct update *update, const struct value *current, bool has_value,
                 struct err *err)
{
    if (!current)
        return judge_absent(update, has_value, err);
    bool add = update->kind == UPDATE_ADD;
    bool good =
        add ? current->type == VALUE_N || current->type == VALUE_NULL : current->type == VALUE_L;
    int error = judge_unique(update, current, err);
    if (error || good)
        return error;
    return err_set(err, EINVAL, "\"%.*s\" is of type %s, and only %s be %s",
                   (int)update->attribute.len, update->attribute.data,
                   value_type_name(current->type), add ? "a number (N) can" : "a list (L) can",
                   add ? "added to" : "appended to");
}

/* --- Bodies --- */

/* What a body has of an attribute: RAW, its text; data NULL: nothing. */
struct place {
    enum body_kind kind;
    bool has_value;
    struct span raw;
};

static int find_place(struct span body, struct span name, struct place *place, struct err *err)
{
    cleanup(body_close) struct body_reader reader;
    struct body_member member;
    int got = body_open(&reader, body, err);
    got = got ? got : body_next(&reader, &member);
    while (got > 0) {
        place->has_value |= is_name(member.name, ITEM_VALUE);
        if (span_equal(member.name, name))
            place->raw = member.raw;
        got = body_next(&reader, &member);
    }
    place->kind = reader.kind;
    return got;
}

static int judge_place(const struct update *update, const struct place *place, struct err *err)
{
    cleanup(value_release) struct value current = {0};
    if (!place->raw.data)
        return update_judge(update, NULL, place->has_value, err);
    if (update->kind != UPDATE_ADD && place->raw.data[0] == '[')
        return 0; /* what is in it is seen where it is appended to */
    int error = value_from_plain(place->raw, &current, err);
    return error ? error : update_judge(update, &current, place->has_value, err);
}

static int add_number(struct span raw, struct span step, struct buf *out, struct err *err)
{
    bool zero = !raw.data || raw.data[0] == 'n';
    return number_add(zero ? span_text("0") : raw, step, out, err);
}

/* VALUE without the white space around it. */
static struct span trim(struct span value)
{
    static const char blanks[] = " \t\r\n";
    while (value.len && memchr(blanks, value.data[0], sizeof blanks - 1))
        value = span_from(value, 1);
    while (value.len && memchr(blanks, value.data[value.len - 1], sizeof blanks - 1))
        value.len--;
    return value;
}

static void add_range(struct buf *out, const char *from, const char *to)
{
    buf_add(out, from, (size_t)(to - from));
}

/* What makes two texts differ at their first bytes: numbers are spelled in many ways, but all else
 * has one beginning. */
static char kind_of(struct span raw)
{
    return raw.data[0] == '-' || (raw.data[0] >= '0' && raw.data[0] <= '9') ? '0' : raw.data[0];
}

/* Whether the value ELEMENT is VALUE: 1, 0. A tree is made only where the text does not tell. */
static int is_equal(struct span element, struct span value)
{
    cleanup(value_release) struct value a = {0};
    cleanup(value_release) struct value b = {0};
    char kind = kind_of(element);
    if (kind != kind_of(value))
        return 0;
    if (kind == '0')
        return number_compare(element, value) == 0;
    if (span_equal(element, value))
        return 1;
    if (kind == '"' && !memchr(element.data, '\\', element.len) &&
        !memchr(value.data, '\\', value.len))
        return 0;
    int error = value_from_plain(element, &a, NULL);
    error = error ? error : value_from_plain(value, &b, NULL);
    return error ? error : value_equal(&a, &b);
}

/* What a list's text tells: its last element, or the "[", and where the space before that begins.
 */
struct ending {
    struct span last;
    const char *lead;
};

/* -EEXIST where an element is SOUGHT, whose data may be NULL. */
static int find_ending(struct span raw, struct span sought, struct ending *ret_ending,
                       struct err *err)
{
    struct json_reader *reader = json_reader_new(raw);
    struct ending ending = {span_of(raw.data, 1), NULL};
    struct json_token token;
    struct span element;
    int error = reader ? json_next(reader, &token, err) : -ENOMEM;
    error = error ? error : json_skip(reader, &element, err);
    while (!error && element.data[0] != ']') {
        int equal = sought.data ? is_equal(element, sought) : 0;
        const char *lead = ending.last.data + ending.last.len;
        if (ending.lead)
            lead = (const char *)memchr(lead, ',', (size_t)(element.data - lead)) + 1;
        ending = (struct ending){element, lead};
        error = equal < 0 ? equal : equal ? -EEXIST : json_skip(reader, &element, err);
    }
    json_reader_free(reader);
    *ret_ending = ending;
    return error;
}

/* The list RAW with the value behind its last element, spaced as that is. */
static int append_value(const struct update *update, struct span raw, struct buf *out,
                        struct err *err)
{
    struct span value = trim(update->value);
    struct ending ending;
    bool unique = update->kind == UPDATE_APPEND_UNIQUE;
    int error = find_ending(raw, unique ? value : span_of(NULL, 0), &ending, err);
    if (error == -EEXIST)
        return refuse_held(update, err);
    if (error)
        return error;
    const char *end = ending.last.data + ending.last.len;
    add_range(out, raw.data, end);
    if (ending.lead) {
        buf_add_char(out, ',');
        add_range(out, ending.lead, ending.last.data);
    }
    buf_add_span(out, value);
    add_range(out, end, raw.data + raw.len);
    return buf_error(out);
}

static int new_text(const struct update *update, const struct place *place, struct buf *out,
                    struct err *err)
{
    if (update->kind == UPDATE_ADD)
        return add_number(place->raw, update->value, out, err);
    return append_value(update, place->raw.data ? place->raw : span_text("[]"), out, err);
}

static int put_text(struct span body, const struct update *update, const struct place *place,
                    struct span text, struct buf *out, struct err *err)
{
    cleanup(body_close) struct body_reader reader = {0};
    if (place->kind == BODY_BARE) {
        add_range(out, body.data, place->raw.data);
        buf_add_span(out, text);
        add_range(out, place->raw.data + place->raw.len, body.data + body.len);
        return buf_error(out);
    }
    int error = body_open(&reader, body.len ? body : span_text("{}\n"), err);
    return error ? error : body_set_member(&reader, update->attribute, text, out);
}

int item_update(struct span body, const struct update *update, struct buf *out,
                struct buf *ret_number, struct err *err)
{
    cleanup(buf_release) struct buf text;
    struct place place = {0};
    buf_init(&text, SIZE_MAX / 8);
    int error = find_place(body, update->attribute, &place, err);
    error = error ? error : judge_place(update, &place, err);
    error = error ? error : new_text(update, &place, &text, err);
    error = error ? error : put_text(body, update, &place, buf_span(&text), out, err);
    if (error)
        return err_set(err, -error, "%s", err_text(NULL, error));
    if (update->kind != UPDATE_ADD)
        return 0;
    buf_add_span(ret_number, buf_span(&text));
    return buf_error(ret_number);
}
