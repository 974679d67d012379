/* SPDX-License-Identifier: MIT */
/*
 * The smallest edits of a body's text: another key, another time to live, another member
 * (item_update.c). Everything else stays byte for byte, so that comments of style (spacing, order,
 * escapes) survive `mv` and `setfattr`.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/item_body.h"
#include "base/text.h"

static int buf_result(const struct buf *out, struct err *err)
{
    return buf_error(out) ? err_set(err, -buf_error(out), "%s",
                                    buf_error(out) == -EFBIG ? "the item is too large"
                                                             : "out of memory for an item")
                          : 0;
}

static void add_range(struct buf *out, const char *from, const char *to)
{
    buf_add(out, from, (size_t)(to - from));
}

static void add_plain_part(enum value_type type, struct span part, struct buf *out)
{
    if (type == VALUE_S) {
        json_add_string(out, part);
    } else if (type == VALUE_N) {
        buf_add_span(out, part);
    } else {
        buf_add_text(out, "{\"$B\": \"");
        base64_encode(part, false, out);
        buf_add_text(out, "\"}");
    }
}

int item_fit_key(const struct table *table, struct key key, struct span body, struct buf *out,
                 struct err *err)
{
    if (body.len == 0)
        return 0;
    cleanup(body_close) struct body_reader reader;
    struct body_member member;
    const char *copied = body.data;
    int got = body_open(&reader, body, err);
    got = got ? got : body_next(&reader, &member);
    while (got > 0) {
        const struct key_attribute *attribute =
            reader.kind == BODY_OBJECT ? item_key_attribute(table, member.name) : NULL;
        struct span part = attribute ? item_key_part(table, key, attribute) : span_of(NULL, 0);
        int differs = attribute ? item_member_differs(table, attribute, part, &reader, &member) : 0;
        if (differs > 0) {
            add_range(out, copied, member.raw.data);
            add_plain_part(attribute->type, part, out);
            copied = member.raw.data + member.raw.len;
        }
        got = differs < 0 ? differs : body_next(&reader, &member);
    }
    if (got < 0)
        return got;
    add_range(out, copied, body.data + body.len);
    return buf_result(out, err);
}

int item_named_key(const struct table *table, struct key key, struct span body,
                   struct buf *partition, struct buf *sort, struct err *err)
{
    struct span raw[2] = {{NULL, 0}, {NULL, 0}};
    cleanup(body_close) struct body_reader reader;
    struct body_member member;
    int got = body_open(&reader, body, err);
    got = got ? got : body_next(&reader, &member);
    while (got > 0) {
        const struct key_attribute *attribute =
            reader.kind == BODY_OBJECT ? item_key_attribute(table, member.name) : NULL;
        if (attribute)
            raw[attribute == &table->sort] = member.raw;
        got = body_next(&reader, &member);
    }
    if (got == 0 && raw[0].data)
        got = item_index_part(table->partition.type, raw[0], partition);
    else
        buf_add_span(partition, key.partition);
    if (got == 0 && raw[1].data)
        got = item_index_part(table->sort.type, raw[1], sort);
    else
        buf_add_span(sort, key.sort);
    if (got > 0)
        return err_set(err, EINVAL, "a key of the wrong type");
    return got ? got : buf_result(partition, err) ? -ENOMEM : buf_result(sort, err);
}

/* A member's place in the text. */
struct place {
    const char *before; /* the end of the member before it, or of the "{" */
    const char *start;  /* its name's quote */
    const char *colon;  /* behind its name's other quote */
    const char *value;
    const char *end;
};

/* What an edit of a member needs to know of a body that is an object. */
struct layout {
    size_t count;
    struct place last, target; /* target.start NULL: no such member */
    const char *behind_target; /* the start of the member behind it, or NULL */
    bool dollar[2];            /* the first two names begin with "$" */
    bool target_first;
};

static bool begins_with_dollar(struct span name)
{
    return name.len > 0 && name.data[0] == '$';
}

static void note_member(struct span name, const struct body_reader *reader,
                        const struct body_member *member, struct layout *layout)
{
    const char *name_end = member->raw_name.data + member->raw_name.len;
    struct place place = {
        .before = layout->count ? layout->last.end : reader->open + 1,
        .start = member->raw_name.data - 1,
        .colon = name_end + 1,
        .value = member->raw.data,
        .end = member->raw.data + member->raw.len,
    };
    if (layout->target.start && !layout->behind_target)
        layout->behind_target = place.start;
    if (span_equal(member->name, name)) {
        layout->target = place;
        layout->target_first = layout->count == 0;
    }
    if (layout->count < 2)
        layout->dollar[layout->count] = begins_with_dollar(member->name);
    layout->last = place;
    layout->count++;
}

static int read_layout(struct span name, struct body_reader *reader, struct layout *layout)
{
    struct body_member member;
    int got = body_next(reader, &member);
    while (got > 0) {
        note_member(name, reader, &member, layout);
        got = body_next(reader, &member);
    }
    return got;
}

/* The text between FROM and TO of the body is to become `text`. */
struct edit {
    const char *from, *to;
    struct buf text;
    bool leaves_dollar; /* one member is left, and its name begins with "$" */
};

static void edit_release(struct edit *edit)
{
    buf_release(&edit->text);
}

static void plan_removal(const struct body_reader *reader, const struct layout *layout,
                         struct edit *edit)
{
    const struct place *target = &layout->target;
    edit->from = layout->target_first ? target->start : target->before;
    edit->to = target->end;
    if (layout->behind_target) {
        edit->from = target->start;
        edit->to = layout->behind_target;
    } else if (layout->target_first) {
        edit->from = reader->open + 1;
        edit->to = reader->close;
    }
    edit->leaves_dollar = layout->count == 2 && layout->dollar[layout->target_first ? 1 : 0];
}

/* A new member at the end, spaced as the last one is. */
static void plan_addition(const struct body_reader *reader, const struct layout *layout,
                          struct span name, struct span text, struct edit *edit)
{
    const struct place *last = &layout->last;
    edit->from = edit->to = layout->count ? last->end : reader->open + 1;
    if (layout->count > 0) {
        const char *lead = last->before;
        if (layout->count > 1)
            lead = (const char *)memchr(lead, ',', (size_t)(last->start - lead)) + 1;
        buf_add_char(&edit->text, ',');
        add_range(&edit->text, lead, last->start);
        /* {"a": 1} does not tell how its commas are spaced, but its colon does. */
        if (layout->count == 1 && lead == last->start && last->value[-1] == ' ')
            buf_add_char(&edit->text, ' ');
    }
    json_add_string(&edit->text, name);
    if (layout->count > 0)
        add_range(&edit->text, last->colon, last->value);
    else
        buf_add_text(&edit->text, ": ");
    buf_add_span(&edit->text, text);
    edit->leaves_dollar = layout->count == 0 && begins_with_dollar(name);
}

/* Appends the edited body; wraps the object in "$M" where it would be read as a form now. */
static void apply(const struct body_reader *reader, const struct edit *edit, struct buf *out)
{
    struct span body = reader->body;
    bool wrap = edit->leaves_dollar && !reader->wrapped;
    add_range(out, body.data, reader->open);
    buf_add_text(out, wrap ? "{\"$M\": " : "");
    add_range(out, reader->open, edit->from);
    buf_add_span(out, buf_span(&edit->text));
    add_range(out, edit->to, reader->close + 1);
    buf_add_text(out, wrap ? "}" : "");
    add_range(out, reader->close + 1, body.data + body.len);
}

int body_set_member(struct body_reader *reader, struct span name, struct span text, struct buf *out)
{
    struct layout layout = {0};
    int error = read_layout(name, reader, &layout);
    if (error)
        return error;
    cleanup(edit_release) struct edit edit = {.from = reader->close, .to = reader->close};
    buf_init(&edit.text, SIZE_MAX / 8);
    if (layout.target.start && text.data) {
        edit.from = layout.target.value;
        edit.to = layout.target.end;
        buf_add_span(&edit.text, text);
    } else if (layout.target.start) {
        plan_removal(reader, &layout, &edit);
    } else if (text.data) {
        plan_addition(reader, &layout, name, text, &edit);
    }
    error = buf_result(&edit.text, reader->err);
    if (error)
        return error;
    apply(reader, &edit, out);
    return buf_result(out, reader->err);
}

int item_set_ttl(const struct table *table, struct span body, int64_t seconds, struct buf *out,
                 struct err *err)
{
    if (!table->ttl_attribute)
        return err_set(err, EINVAL, "the table \"%s\" has no time to live attribute", table->name);
    if (body.len == 0 && seconds == 0)
        return 0;
    if (body.len == 0)
        body = span_text("{}\n");
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)seconds);
    cleanup(body_close) struct body_reader reader;
    int error = body_open(&reader, body, err);
    if (error)
        return error;
    if (reader.kind == BODY_BARE)
        return err_set(err, EINVAL, "the body is no object: its time to live stands beside it");
    return body_set_member(&reader, span_text(table->ttl_attribute),
                           seconds ? span_text(text) : span_of(NULL, 0), out);
}
