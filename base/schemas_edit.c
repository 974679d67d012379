/* SPDX-License-Identifier: MIT */
/*
 * The list of schemas, changed in the text: a serializer would write all of it anew. The document
 * has been read, so it is well-formed and has no document type, and what stands between "<" and ">"
 * is told by its first bytes. What comes out is read again, and must say what it should.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/schemas.h"

#define DEPTH_MOST 256

struct element {
    struct span name;
    size_t begin, content; /* where its tag begins, and where it has ended */
};

struct edit {
    struct span text;
    const char *path, *environment;
    const char *remove;
    struct element open[DEPTH_MOST];
    size_t depth;
    bool store_done, environment_done, schemas_done; /* the first of each counts */
    size_t last_begin, last_end;                     /* of the last schema; equal: there is none */
    size_t gone_begin, gone_end;                     /* of the schema REMOVE; likewise */
};

/* ---- tags ---- */

/* What is between "<" at AT and its ">", whose place is returned, or the end. */
static size_t skip_to(struct span text, size_t at, const char *mark)
{
    const char *found = memmem(text.data + at, text.len - at, mark, strlen(mark));

    return found ? (size_t)(found - text.data) + strlen(mark) : text.len;
}

static size_t tag_end(struct span text, size_t at)
{
    char quote = 0;

    for (; at < text.len; at++) {
        char c = text.data[at];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '>')
            return at + 1;
    }
    return text.len;
}

static bool begins(struct span text, size_t at, const char *mark)
{
    size_t len = strlen(mark);

    return text.len - at >= len && memcmp(text.data + at, mark, len) == 0;
}

static struct span tag_name(struct span text, size_t at)
{
    size_t len = 0;

    while (at + len < text.len && !strchr(" \t\r\n/>", text.data[at + len]))
        len++;
    return span_of(text.data + at, len);
}

/* ---- where in the document ---- */

static bool is_named(const struct edit *edit, size_t depth, const char *name)
{
    return depth < edit->depth && span_equal(edit->open[depth].name, span_text(name));
}

/* The depth of lucinda_db on the way to what is open: 0, 1, or DEPTH_MOST where there is none. */
static size_t store_depth(const struct edit *edit)
{
    return is_named(edit, 0, "lucinda_db") ? 0 : is_named(edit, 1, "lucinda_db") ? 1 : DEPTH_MOST;
}

/* Whether what is open is a schema of the first list. */
static bool in_list(const struct edit *edit)
{
    size_t store = store_depth(edit);

    return store < DEPTH_MOST && edit->depth == store + 4 && !edit->store_done &&
           !edit->environment_done && !edit->schemas_done &&
           is_named(edit, store + 1, edit->environment) && is_named(edit, store + 2, "schemas") &&
           is_named(edit, store + 3, "schema");
}

/* The path that ELEMENT's content stands for, as far as it is plain: text with XML's own entities,
 * which a path seldom has. NULL: it is not plain, or no memory. */
static char *plain_path(const struct edit *edit, struct span content)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    cleanup(buf_release) struct buf plain;

    buf_init(&plain, SCHEMAS_BYTES_MAX);
    for (size_t at = 0; at < content.len;) {
        size_t i = 0;
        while (i < 5 && !begins(content, at, entities[i].name))
            i++;
        if (content.data[at] == '<' || (content.data[at] == '&' && i == 5))
            return NULL;
        buf_add_char(&plain, i < 5 ? entities[i].c : content.data[at]);
        at += i < 5 ? strlen(entities[i].name) : 1;
    }
    return buf_error(&plain) ? NULL : schemas_absolute(edit->path, buf_span(&plain));
}

static bool is_same_path(const char *written, const char *path)
{
    cleanup_free char *real = written ? realpath(written, NULL) : NULL;

    return written && (strcmp(written, path) == 0 || (real && strcmp(real, path) == 0));
}

static void schema_ended(struct edit *edit, size_t content_end, size_t end)
{
    const struct element *schema = &edit->open[edit->depth - 1];
    struct span content = span_of(edit->text.data + schema->content, content_end - schema->content);
    cleanup_free char *written = edit->remove ? plain_path(edit, content) : NULL;

    edit->last_begin = schema->begin;
    edit->last_end = end;
    if (edit->remove && is_same_path(written, edit->remove)) {
        edit->gone_begin = schema->begin;
        edit->gone_end = end;
    }
}

/* The innermost element, whose content ends at CONTENT_END, ends at END. */
static void element_ended(struct edit *edit, size_t content_end, size_t end)
{
    size_t store = store_depth(edit);

    if (in_list(edit))
        schema_ended(edit, content_end, end);
    if (store < DEPTH_MOST && !edit->store_done) {
        bool in_environment = is_named(edit, store + 1, edit->environment);
        edit->schemas_done |=
            edit->depth == store + 3 && in_environment && is_named(edit, store + 2, "schemas");
        edit->environment_done |= edit->depth == store + 2 && in_environment;
        edit->store_done |= edit->depth == store + 1;
    }
    edit->depth--;
}

/* The tag at AT, which is no comment or the like; where it ends. */
static size_t take_tag(struct edit *edit, size_t at)
{
    struct span text = edit->text;
    size_t end = tag_end(text, at);

    if (begins(text, at, "</")) {
        if (edit->depth)
            element_ended(edit, at, end);
        return end;
    }
    if (edit->depth == DEPTH_MOST)
        return text.len; /* nothing is found: it is refused */
    edit->open[edit->depth++] = (struct element){tag_name(text, at + 1), at, end};
    if (end - at >= 2 && text.data[end - 2] == '/')
        element_ended(edit, end, end);
    return end;
}

static void find_list(struct edit *edit)
{
    struct span text = edit->text;
    const char *next;

    for (size_t at = 0; at < text.len && (next = memchr(text.data + at, '<', text.len - at));) {
        at = (size_t)(next - text.data);
        if (begins(text, at, "<!--"))
            at = skip_to(text, at + 4, "-->");
        else if (begins(text, at, "<![CDATA["))
            at = skip_to(text, at, "]]>");
        else if (begins(text, at, "<?"))
            at = skip_to(text, at, "?>");
        else
            at = take_tag(edit, at);
    }
}

/* ---- the new text ---- */

/* The white space in front of AT, back to and with the end of the line before. */
static struct span indent_before(struct span text, size_t at)
{
    size_t from = at;

    while (from > 0 && strchr(" \t", text.data[from - 1]))
        from--;
    if (from == 0 || text.data[from - 1] != '\n')
        return span_of(NULL, 0);
    from--;
    if (from > 0 && text.data[from - 1] == '\r')
        from--;
    return span_of(text.data + from, at - from);
}

static void add_escaped(struct buf *out, const char *path)
{
    for (; *path; path++) {
        const char *entity = *path == '&'   ? "&amp;"
                             : *path == '<' ? "&lt;"
                             : *path == '>' ? "&gt;"
                                            : NULL;
        if (entity)
            buf_add_text(out, entity);
        else
            buf_add_char(out, *path);
    }
}

/* Behind the last schema, in a line of its own where that one has. */
static int add_schema(const struct edit *edit, const char *add, struct buf *out)
{
    struct span text = edit->text;

    if (edit->last_begin == edit->last_end)
        return -EINVAL;
    buf_add_span(out, span_of(text.data, edit->last_end));
    buf_add_span(out, indent_before(text, edit->last_begin));
    buf_add_text(out, "<schema>");
    add_escaped(out, add);
    buf_add_text(out, "</schema>");
    buf_add_span(out, span_from(text, edit->last_end));
    return 0;
}

/* With its line, where nothing else is in it. */
static int remove_schema(const struct edit *edit, struct buf *out)
{
    struct span text = edit->text, indent = indent_before(text, edit->gone_begin);
    size_t begin = edit->gone_begin, end = edit->gone_end;

    if (begin == end)
        return -EINVAL;
    if (indent.len && (end == text.len || strchr("\r\n", text.data[end])))
        begin -= indent.len;
    buf_add_span(out, span_of(text.data, begin));
    buf_add_span(out, span_from(text, end));
    return 0;
}

/* Whether TEXT names what BEFORE did, with ADD and without REMOVE. */
static bool is_right(struct span text, const struct edit *edit, const struct path_list *before,
                     const char *add)
{
    struct path_list after = {NULL, 0};
    size_t kept = 0;
    bool right = schemas_read(text, edit->path, edit->environment, &after, NULL) == 0;

    for (size_t i = 0; i < before->count; i++) {
        bool gone = edit->remove && is_same_path(before->paths[i], edit->remove);
        right = right && path_list_has(&after, before->paths[i]) == !gone;
        kept += !gone;
    }
    right = right && after.count == kept + (add != NULL) && (!add || path_list_has(&after, add)) &&
            (!edit->remove || kept < before->count);
    path_list_release(&after);
    return right;
}

int schemas_edit(struct span text, const char *path, const char *environment, const char *add,
                 const char *remove, struct buf *out, struct err *err)
{
    struct edit edit = {.text = text, .path = path, .environment = environment, .remove = remove};
    struct path_list before = {NULL, 0};
    size_t from = out->len;
    int r = schemas_read(text, path, environment, &before, err);

    if (r < 0)
        return r;
    find_list(&edit);
    r = add ? add_schema(&edit, add, out) : remove_schema(&edit, out);
    if (buf_error(out))
        r = err_set(err, -buf_error(out), "%s: too large", path);
    else if (r < 0 || !is_right(buf_from(out, from), &edit, &before, add))
        r = err_set(err, EINVAL, "%s: the list of schemas cannot be changed in its place: %s it",
                    path, add ? "add the path to" : "take the path out of");
    path_list_release(&before);
    return r;
}
