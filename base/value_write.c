/* SPDX-License-Identifier: MIT */
/* Attribute values as JSON text. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "base/value_tree.h"

struct writer {
    struct buf *out;
    struct value_style style;
    int level;
};

static void write_plain(struct writer *writer, const struct value *value);

/* The line break before an element of the running level. */
static void write_break(struct writer *writer)
{
    if (writer->style.indent == 0)
        return;
    buf_add_char(writer->out, '\n');
    for (int i = 0; i < writer->level * writer->style.indent; i++)
        buf_add_char(writer->out, ' ');
}

static void write_open(struct writer *writer, char bracket)
{
    buf_add_char(writer->out, bracket);
    writer->level++;
}

static void write_close(struct writer *writer, char bracket)
{
    writer->level--;
    write_break(writer);
    buf_add_char(writer->out, bracket);
}

static void write_name(struct writer *writer, struct span name)
{
    json_add_string(writer->out, name);
    buf_add_text(writer->out, writer->style.indent ? ": " : ":");
}

static void add_base64(struct buf *out, struct span data)
{
    buf_add_char(out, '"');
    base64_encode(data, false, out);
    buf_add_char(out, '"');
}

static void write_list(struct writer *writer, const struct value *list)
{
    if (list->list.count == 0) {
        buf_add_text(writer->out, "[]");
        return;
    }
    write_open(writer, '[');
    for (size_t i = 0; i < list->list.count; i++) {
        if (i > 0)
            buf_add_char(writer->out, ',');
        write_break(writer);
        if (list->type == VALUE_BS)
            add_base64(writer->out, value_text(&list->list.items[i]));
        else
            write_plain(writer, &list->list.items[i]);
    }
    write_close(writer, ']');
}

/* The beginning of a form, {"$NAME": */
static void write_form(struct writer *writer, const char *name)
{
    write_open(writer, '{');
    write_break(writer);
    write_name(writer, span_text(name));
}

/* Moves the members that STYLE names first to the front of ORDER, which keeps the rest's order. */
static void move_first(const struct member **order, size_t count, const struct value_style *style)
{
    size_t front = 0;
    for (size_t i = 0; i < style->first_count; i++) {
        size_t at = front;
        while (at < count &&
               !span_equal(span_of(order[at]->name, order[at]->name_len), style->first[i]))
            at++;
        if (at == count)
            continue;
        const struct member *found = order[at];
        memmove(&order[front + 1], &order[front], (at - front) * sizeof *order);
        order[front++] = found;
    }
}

static void write_members(struct writer *writer, const struct value *map)
{
    struct value_style style = writer->style;
    writer->style.first_count = 0; /* is for the outermost map only */
    cleanup_free const struct member **order = NULL;
    if (style.sort || style.first_count > 0) {
        order = style.sort ? value_members_sorted(map) : value_members_listed(map);
        if (!order) {
            writer->out->error = writer->out->error ? writer->out->error : -ENOMEM;
            return;
        }
        move_first(order, map->map.count, &style);
    }
    write_open(writer, '{');
    for (size_t i = 0; i < map->map.count; i++) {
        const struct member *member = order ? order[i] : &map->map.members[i];
        if (i > 0)
            buf_add_char(writer->out, ',');
        write_break(writer);
        write_name(writer, span_of(member->name, member->name_len));
        write_plain(writer, &member->value);
    }
    write_close(writer, '}');
}

static void write_map(struct writer *writer, const struct value *map)
{
    bool wrap = !writer->style.json && value_needs_wrap(map);
    if (wrap)
        write_form(writer, "$M");
    if (map->map.count == 0)
        buf_add_text(writer->out, "{}");
    else
        write_members(writer, map);
    if (wrap)
        write_close(writer, '}');
}

static void write_plain(struct writer *writer, const struct value *value)
{
    static const char *const forms[] = {
        [VALUE_B] = "$B", [VALUE_SS] = "$SS", [VALUE_NS] = "$NS", [VALUE_BS] = "$BS"};
    switch (value->type) {
    case VALUE_S: json_add_string(writer->out, value_text(value)); return;
    case VALUE_N: buf_add_span(writer->out, value_text(value)); return;
    case VALUE_BOOL: buf_add_text(writer->out, value->boolean ? "true" : "false"); return;
    case VALUE_NULL: buf_add_text(writer->out, "null"); return;
    case VALUE_L: write_list(writer, value); return;
    case VALUE_M: write_map(writer, value); return;
    default: break;
    }
    write_form(writer, forms[value->type]);
    if (value->type == VALUE_B)
        add_base64(writer->out, value_text(value));
    else
        write_list(writer, value);
    write_close(writer, '}');
}

void value_to_plain(const struct value *value, struct value_style style, struct buf *out)
{
    if (!style.first || value->type != VALUE_M)
        style.first_count = 0;
    struct writer writer = {.out = out, .style = style};
    write_plain(&writer, value);
}

static void add_typed(const struct value *value, enum type_names names, struct buf *out);

static void add_typed_list(const struct value *list, enum type_names names, struct buf *out)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < list->list.count; i++) {
        const struct value *element = &list->list.items[i];
        if (i > 0)
            buf_add_char(out, ',');
        if (list->type == VALUE_L)
            add_typed(element, names, out);
        else if (list->type == VALUE_BS)
            add_base64(out, value_text(element));
        else
            json_add_string(out, value_text(element));
    }
    buf_add_char(out, ']');
}

static void add_typed_map(const struct value *map, enum type_names names, struct buf *out)
{
    cleanup_free const struct member **order = value_members_sorted(map);
    if (!order) {
        out->error = out->error ? out->error : -ENOMEM;
        return;
    }
    buf_add_char(out, '{');
    for (size_t i = 0; i < map->map.count; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        json_add_string(out, span_of(order[i]->name, order[i]->name_len));
        buf_add_char(out, ':');
        add_typed(&order[i]->value, names, out);
    }
    buf_add_char(out, '}');
}

static const char *shown_type(enum value_type type, enum type_names names)
{
    if (names == NAMES_KERNSTACK && type == VALUE_BOOL)
        return "B";
    if (names == NAMES_KERNSTACK && type == VALUE_B)
        return "BIN";
    return value_type_name(type);
}

static void add_typed(const struct value *value, enum type_names names, struct buf *out)
{
    buf_addf(out, "{\"%s\":", shown_type(value->type, names));
    switch (value->type) {
    case VALUE_S:
    case VALUE_N: json_add_string(out, value_text(value)); break;
    case VALUE_B: add_base64(out, value_text(value)); break;
    case VALUE_BOOL: buf_add_text(out, value->boolean ? "true" : "false"); break;
    case VALUE_NULL: buf_add_text(out, "true"); break;
    case VALUE_M: add_typed_map(value, names, out); break;
    default: add_typed_list(value, names, out); break;
    }
    buf_add_char(out, '}');
}

void value_to_typed(const struct value *value, struct buf *out)
{
    add_typed(value, NAMES_DYNAMODB, out);
}

void value_map_to_typed(const struct value *map, struct buf *out)
{
    add_typed_map(map, NAMES_DYNAMODB, out);
}

int value_map_rename(struct span typed, enum type_names names, struct buf *out, struct err *err)
{
    cleanup(value_release) struct value map = {0};
    int r = 0;

    if (names == NAMES_DYNAMODB) {
        buf_add_span(out, typed);
        return 0;
    }
    r = value_map_from_typed(typed, &map, err);
    if (r == 0)
        add_typed_map(&map, names, out);
    return r;
}
