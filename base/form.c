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
    return FORM_NONE;
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

struct walk {
    struct json_reader *reader;
    const char *end; /* of the last token */
    struct err *err;
};

/* An object that should be a form and is none. */
struct suspect {
    const char *at; /* NULL: none */
    enum form form;
    struct span name;
};

/* What is wrong with a value, read as usual and read as what "$M" holds. Only objects of one member
 * differ in this. */
struct finding {
    struct suspect usual, literal;
};

static int walk_value(struct walk *walk, const struct json_token *first, struct finding *ret_found);

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

static int refuse(const struct walk *walk, const struct suspect *suspect)
{
    static const char *const wanted[] = {
        [FORM_B] = "a string of base64",
        [FORM_SS] = "an array of strings, at least one and no two equal",
        [FORM_NS] = "an array of numbers, at least one and no two equal",
        [FORM_BS] = "an array of base64 strings, at least one and no two equal",
        [FORM_M] = "an object",
    };
    struct span name = suspect->name;
    const int shown = (int)(name.len < 60 ? name.len : 60);
    return json_refuse(walk->reader, suspect->at, walk->err,
                       "\"%.*s\" needs %s (an object with just that name is written "
                       "{\"$M\": {\"%.*s\": ..}})",
                       shown, name.data, wanted[suspect->form], shown, name.data);
}

static int walk_array(struct walk *walk)
{
    struct json_token token;
    for (;;) {
        int error = walk_next(walk, &token);
        if (error || token.kind == JSON_ARRAY_END)
            return error;
        struct finding found = {0};
        error = walk_value(walk, &token, &found);
        if (!error && found.usual.at)
            error = refuse(walk, &found.usual);
        if (error)
            return error;
    }
}

/* Whether OBJECT, the text of one with a single member, is the form FORM: 1, 0, -ENOMEM. Forms are
 * rare and hold no containers besides a set's array, so the reader of values does the work. */
static int form_holds(struct span object, enum form form, enum json_kind content)
{
    if (form == FORM_M)
        return content == JSON_OBJECT;
    struct value value;
    int error = value_from_plain(object, &value, NULL);
    if (error)
        return error == -EINVAL ? 0 : error;
    value_release(&value);
    return 1;
}

/* Reads one member's value. What is wrong with it is left to be decided where it is the first one
 * of a name that FORM tells is "$M", and no other form holds a container besides its own. */
static int walk_member(struct walk *walk, enum form form, enum json_kind *ret_kind,
                       struct finding *ret_found)
{
    struct json_token token;
    struct finding found = {0};
    int error = walk_next(walk, &token);
    error = error ? error : walk_value(walk, &token, &found);
    if (!error && found.usual.at && form != FORM_M)
        error = refuse(walk, &found.usual);
    if (error)
        return error;
    *ret_kind = token.kind;
    *ret_found = found;
    return 0;
}

/* The object at START has the one member NAME, whose value is of KIND and was FOUND to be so. */
static int judge_form(struct walk *walk, const char *start, const struct json_token *name,
                      enum form form, enum json_kind kind, const struct finding *found,
                      struct finding *ret_found)
{
    struct span object = span_of(start, (size_t)(walk->end - start));
    int holds = form_holds(object, form, kind);
    if (holds < 0)
        return holds;
    if (holds == 0)
        ret_found->usual = (struct suspect){.at = start, .form = form, .name = name->raw};
    else if (form == FORM_M)
        ret_found->usual = found->literal;
    ret_found->literal = found->usual;
    return 0;
}

static int walk_object(struct walk *walk, const char *start, struct finding *ret_found)
{
    struct json_token first = {0}, token;
    enum form form = FORM_NONE;
    enum json_kind kind = JSON_NULL;
    struct finding found = {0};
    for (size_t count = 0;; count++) {
        int error = walk_next(walk, &token);
        if (error)
            return error;
        if (token.kind == JSON_OBJECT_END)
            break;
        if (count == 0) {
            first = token;
            error = form_of_token(&first, &form);
        } else {
            form = FORM_NONE;
            error = found.usual.at ? refuse(walk, &found.usual) : 0;
        }
        error = error ? error : walk_member(walk, form, &kind, &found);
        if (error)
            return error;
    }
    if (form == FORM_NONE)
        return 0;
    return judge_form(walk, start, &first, form, kind, &found, ret_found);
}

static int walk_value(struct walk *walk, const struct json_token *first, struct finding *ret_found)
{
    if (first->kind == JSON_OBJECT)
        return walk_object(walk, first->raw.data, ret_found);
    return first->kind == JSON_ARRAY ? walk_array(walk) : 0;
}

int form_skip(struct json_reader *reader, const struct json_token *first, struct span *ret_raw,
              struct err *err)
{
    struct walk walk = {.reader = reader, .err = err};
    walk.end = first->raw.data + first->raw.len + (first->kind == JSON_STRING);
    struct finding found = {0};
    int error = walk_value(&walk, first, &found);
    if (!error && found.usual.at)
        error = refuse(&walk, &found.usual);
    if (error)
        return error == -ENOMEM ? err_set(err, ENOMEM, "out of memory for JSON") : error;
    const char *start = token_start(first);
    *ret_raw = span_of(start, (size_t)(walk.end - start));
    return 0;
}
