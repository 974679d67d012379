/* SPDX-License-Identifier: MIT */
/* Single lines of a configuration, changed where they stand. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config_private.h"

#define BLANK " \t"

/* What is replaced in a line: the key's name and the value. */
struct place {
    size_t key_at, key_len;
    size_t value_at, value_len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Line NUMBER of TEXT, from 1. */
static struct span find_line(struct span text, unsigned number)
{
    const char *end = NULL;

    for (;;) {
        end = memchr(text.data, '\n', text.len);
        if (--number == 0 || !end)
            break;
        text = span_from(text, (size_t)(end + 1 - text.data));
    }
    return end ? span_of(text.data, (size_t)(end - text.data)) : text;
}

/* As inih reads it: a comment begins with a ";" behind white space. */
static size_t value_end(struct span line, size_t at)
{
    size_t end = line.len;

    for (size_t i = at; i < line.len; i++)
        if (line.data[i] == ';' && i > 0 && is_blank(line.data[i - 1])) {
            end = i;
            break;
        }
    while (end > at && is_blank(line.data[end - 1]))
        end--;
    return end;
}

static int find_place(struct span text, unsigned number, struct place *place)
{
    struct span line = number ? find_line(text, number) : span_of(NULL, 0);
    size_t at = 0, delimiter = 0;

    while (at < line.len && is_blank(line.data[at]))
        at++;
    while (delimiter < line.len && line.data[delimiter] != '=' && line.data[delimiter] != ':')
        delimiter++;
    if (delimiter >= line.len || delimiter < at)
        return -EINVAL;
    place->key_at = (size_t)(line.data - text.data) + at;
    place->key_len = delimiter - at;
    while (place->key_len && is_blank(line.data[at + place->key_len - 1]))
        place->key_len--;
    at = delimiter + 1;
    while (at < line.len && is_blank(line.data[at]))
        at++;
    place->value_at = (size_t)(line.data - text.data) + at;
    place->value_len = value_end(line, at) - at;
    return 0;
}

/* ---- the value ---- */

static bool is_same(const char *directory, struct span name, const char *path)
{
    cleanup_free char *text = strndup(name.data, name.len);
    cleanup_free char *whole = text ? path_below(directory, text) : NULL;
    cleanup_free char *real = whole ? realpath(whole, NULL) : NULL;

    return whole && path && (strcmp(whole, path) == 0 || (real && strcmp(real, path) == 0));
}

/* VALUE's names as they are written, but for REMOVE, then ADD. */
static void write_value(struct span value, const char *directory, const char *add,
                        const char *remove, struct buf *out)
{
    size_t before = out->len;

    while (value.len) {
        const char *comma = memchr(value.data, ',', value.len);
        struct span part = comma ? span_of(value.data, (size_t)(comma - value.data)) : value;
        struct span name = part;
        value = comma ? span_from(value, part.len + 1) : span_of(NULL, 0);
        while (name.len && is_blank(name.data[0]))
            name = span_from(name, 1);
        while (name.len && is_blank(name.data[name.len - 1]))
            name.len--;
        if (is_same(directory, name, remove))
            continue;
        if (out->len > before)
            buf_add_char(out, ',');
        else
            part = span_from(part, (size_t)(name.data - part.data));
        buf_add_span(out, part);
    }
    if (add) {
        buf_add_text(out, out->len > before ? ", " : "");
        buf_add_text(out, add);
    }
}

/* A path that a list between commas cannot name as it is. */
static bool is_unwritable(const char *path)
{
    size_t len = strlen(path);

    return strpbrk(path, ",;#\n\r\"'") || is_blank(path[len - 1]);
}

int config_edit_replicas(struct span text, const char *path, const char *name, const char *add,
                         const char *remove, struct buf *out, struct err *err)
{
    cleanup_free char *directory = path_directory(path);
    struct config *config = NULL;
    struct place place = {.key_at = 0};
    int r = directory ? config_parse(text, path, &config, err) : -ENOMEM;

    if (r < 0)
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    const struct backend_config *backend = config_backend(config, span_text(name));
    if (add && is_unwritable(add))
        r = err_set(err, EINVAL, "%s: a list in mount.conf cannot name it", add);
    else if (!backend || find_place(text, backend->replicas_line, &place) < 0)
        r = err_set(err, EINVAL, "%s: [backend %s] has no list of replicas", path, name);
    config_free(config);
    if (r < 0)
        return r;
    buf_add_span(out, span_of(text.data, place.key_at));
    buf_add_text(out, add ? "replicas" : "");
    if (!add)
        buf_add_span(out, span_of(text.data + place.key_at, place.key_len));
    size_t key_end = place.key_at + place.key_len, value_end_at = place.value_at + place.value_len;
    buf_add_span(out, span_of(text.data + key_end, place.value_at - key_end));
    write_value(span_of(text.data + place.value_at, place.value_len), directory, add, remove, out);
    buf_add_span(out, span_from(text, value_end_at));
    return buf_error(out) ? err_set(err, -buf_error(out), "%s: too large", path) : 0;
}

/* ---- functions ---- */

/* Where the line behind line NUMBER begins. */
static size_t behind_line(struct span text, unsigned number)
{
    struct span line = find_line(text, number);
    size_t end = (size_t)(line.data - text.data) + line.len;

    return end < text.len ? end + 1 : end;
}

static void end_line(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_add_char(out, '\n');
}

static void write_function(struct span text, const struct table_config *table, const char *name,
                           const char *function, struct buf *out)
{
    struct place place;
    bool replaces = table && find_place(text, table->function_line, &place) == 0;
    size_t at = replaces ? behind_line(text, table->function_line)
                : table  ? behind_line(text, table->line)
                         : text.len;

    if (replaces) {
        size_t end = place.value_at + place.value_len;
        buf_add_span(out, span_of(text.data, place.value_at));
        buf_add_text(out, function);
        buf_add_span(out, span_of(text.data + end, at - end));
    } else {
        buf_add_span(out, span_of(text.data, at));
        end_line(out);
        if (!table)
            buf_addf(out, "%s[table %s]\n", out->len ? "\n" : "", name);
        buf_addf(out, "function = %s\n", function);
    }
    if (!table || !table->has_types) {
        end_line(out);
        buf_add_text(out, "types = kernstack\n");
    }
    buf_add_span(out, span_from(text, at));
}

/* What was written is read again: a line has no way to say everything. */
static int check_function(struct span text, const char *path, const char *name,
                          const char *function, struct err *err)
{
    struct config *config = NULL;
    struct function wanted = {.kind = FUNCTION_NONE};
    struct err reason = {""};
    int r = function_parse(function, &wanted, err);

    if (r < 0)
        return r;
    r = config_parse(text, path, &config, &reason);
    const struct table_config *table = r < 0 ? NULL : config_table(config, span_text(name));
    if (r != -ENOMEM && (!table || !function_equal(&table->function, &wanted)))
        r = err_set(err, EINVAL, "%s: a line cannot say that [table %s] has the function %s%s%s",
                    path, name, wanted.shown, reason.text[0] ? ": " : "", reason.text);
    config_free(config);
    function_release(&wanted);
    return r;
}

int config_edit_function(struct span text, const char *path, const char *name, const char *function,
                         struct buf *out, struct err *err)
{
    struct config *config = NULL;
    int r = config_parse(text, path, &config, err);

    if (r < 0)
        return r;
    write_function(text, config_table(config, span_text(name)), name, function, out);
    config_free(config);
    if (buf_error(out))
        return err_set(err, -buf_error(out), "%s: too large", path);
    return check_function(buf_span(out), path, name, function, err);
}
