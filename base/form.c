/* SPDX-License-Identifier: MIT */
#include "base/form.h"

#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/value.h"

enum form form_of_name(struct span name)
{
    static const struct {
        const char *name;
        enum form form;
    } known[] = {
        {"$B", FORM_B}, {"$SS", FORM_SS}, {"$NS", FORM_NS}, {"$BS", FORM_BS}, {"$M", FORM_M}};
    if (name.len == 0 || name.data[0] != '$')
        return FORM_NONE;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (span_equal(name, span_text(known[i].name)))
            return known[i].form;
    }
    return FORM_UNKNOWN;
}

int form_of_token(const struct json_token *name, enum form *ret_form)
{
    if (!name->escaped) {
        *ret_form = form_of_name(name->raw);
        return 0;
    }
    cleanup(buf_release) struct buf text;
    buf_init(&text, SIZE_MAX / 8);
    json_unescape(name->raw, &text);
    *ret_form = form_of_name(buf_span(&text));
    return buf_error(&text);
}

int form_refuse(const struct json_reader *reader, const char *at, enum form form, struct span name,
                struct err *err)
{
    static const char *const wanted[] = {
        [FORM_B] = "a string of base64",
        [FORM_SS] = "an array of strings, at least one and no two equal",
        [FORM_NS] = "an array of numbers, at least one and no two equal",
        [FORM_BS] = "an array of base64 strings, at least one and no two equal",
        [FORM_M] = "an object",
    };
    const int shown = (int)(name.len < 60 ? name.len : 60);
    if (form != FORM_UNKNOWN)
        return json_refuse(reader, at, err, "\"%.*s\" needs %s", shown, name.data, wanted[form]);
    return json_refuse(reader, at, err,
                       "an object whose only name begins with \"$\" is written "
                       "{\"$M\": {\"%.*s\": ..}}",
                       shown, name.data);
}

struct walk {
    struct json_reader *reader;
    const char *end; /* of the last token */
    struct err *err;
};

/* An object that should be a form and is none, unless it is what "$M" holds. */
struct suspect {
    const char *at; /* NULL: none */
    enum form form;
    struct span name;
};

static int walk_value(struct walk *walk, const struct json_token *first, struct suspect *ret_found);

static const char *token_start(const struct json_token *token)
{
    return token->raw.data - (token->kind == JSON_STRING);
}

static int walk_next(struct walk *walk, struct json_token *token)
{
    int error = json_next(walk->reader, token, walk->err);
    if (!error)
        walk->end = token->raw.data + token->raw.len + (token->kind == JSON_STRING);
    return error;
}

static int refuse(struct walk *walk, const struct suspect *suspect)
{
    return form_refuse(walk->reader, suspect->at, suspect->form, suspect->name, walk->err);
}

static int walk_array(struct walk *walk)
{
    struct json_token token;
    for (;;) {
        int error = walk_next(walk, &token);
        if (error || token.kind == JSON_ARRAY_END)
            return error;
        struct suspect found = {0};
        error = walk_value(walk, &token, &found);
        if (!error && found.at)
            error = refuse(walk, &found);
        if (error)
            return error;
    }
}

/* Whether OBJECT, the text of one with a single member, is the form FORM: 1, 0, -ENOMEM. Forms are
 * rare and hold no containers besides a set's array, so the reader of values does the work. */
static int form_holds(struct span object, enum form form, enum json_kind content)
{
    if (form == FORM_UNKNOWN || form == FORM_M)
        return form == FORM_M && content == JSON_OBJECT;
    struct value value;
    int error = value_from_plain(object, &value, NULL);
    if (error)
        return error == -EINVAL ? 0 : error;
    value_release(&value);
    return 1;
}

/* Reads one member's value. FORM is what the object is a form of as long as this stays its only
 * member: then what "$M" holds may be a suspect. */
static int walk_member(struct walk *walk, enum form form, enum json_kind *ret_kind,
                       struct suspect *ret_found)
{
    struct json_token token;
    int error = walk_next(walk, &token);
    if (error)
        return error;
    *ret_kind = token.kind;
    struct suspect found = {0};
    error = walk_value(walk, &token, &found);
    if (!error && found.at && form != FORM_M)
        return refuse(walk, &found);
    *ret_found = found;
    return error;
}

static int walk_object(struct walk *walk, const char *start, struct suspect *ret_found)
{
    struct json_token name = {0}, token;
    enum form form = FORM_NONE;
    enum json_kind kind = JSON_NULL;
    struct suspect found = {0};
    for (size_t count = 0;; count++) {
        int error = walk_next(walk, &token);
        if (error)
            return error;
        if (token.kind == JSON_OBJECT_END)
            break;
        if (count == 0) {
            name = token;
            error = form_of_token(&name, &form);
        } else {
            form = FORM_NONE;
            error = found.at ? refuse(walk, &found) : 0;
        }
        error = error ? error : walk_member(walk, form, &kind, &found);
        if (error)
            return error;
    }
    if (form == FORM_NONE)
        return 0;
    struct span object = span_of(start, (size_t)(walk->end - start));
    int holds = form_holds(object, form, kind);
    if (holds == 0)
        *ret_found = (struct suspect){.at = start, .form = form, .name = name.raw};
    return holds < 0 ? holds : 0;
}

static int walk_value(struct walk *walk, const struct json_token *first, struct suspect *ret_found)
{
    if (first->kind == JSON_OBJECT)
        return walk_object(walk, first->raw.data, ret_found);
    if (first->kind == JSON_ARRAY)
        return walk_array(walk);
    return 0;
}

int form_skip(struct json_reader *reader, const struct json_token *first, struct span *ret_raw,
              struct err *err)
{
    struct walk walk = {.reader = reader, .err = err};
    walk.end = first->raw.data + first->raw.len + (first->kind == JSON_STRING);
    struct suspect found = {0};
    int error = walk_value(&walk, first, &found);
    if (!error && found.at)
        error = refuse(&walk, &found);
    if (error)
        return error == -ENOMEM ? err_set(err, ENOMEM, "out of memory for JSON") : error;
    const char *start = token_start(first);
    *ret_raw = span_of(start, (size_t)(walk.end - start));
    return 0;
}
