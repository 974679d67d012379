/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"

#define SPACE " \t\r\n"

static const char *shown_name(const char *file)
{
    return strcmp(file, "-") == 0 ? "standard input" : file;
}

static int read_all(int fd, struct buf *text)
{
    char chunk[65536];
    ssize_t got;

    while ((got = read(fd, chunk, sizeof chunk)) > 0)
        buf_add(text, chunk, (size_t)got);
    return got < 0 ? -errno : buf_error(text);
}

int document_read(const char *file, struct buf *text, struct err *err)
{
    bool standard = strcmp(file, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int r = fd < 0 ? -errno : read_all(fd, text);

    if (fd >= 0 && !standard)
        close(fd);
    if (r == -EFBIG)
        return err_set(err, EFBIG, "%s is too large to be checked as a whole; use import",
                       shown_name(file));
    return r < 0 ? err_set(err, -r, "%s: %s", shown_name(file), strerror(-r)) : 0;
}

bool text_is_blank(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!memchr(SPACE, text.data[i], sizeof SPACE - 1))
            return false;
    return true;
}

int document_fail(const char *file, size_t line, int code, const struct err *reason,
                  struct err *err)
{
    const char *text = err_text(reason, code);
    size_t inside = 1;
    int used = 0;

    if (sscanf(text, "line %zu, %n", &inside, &used) == 1 && used > 0)
        text += used;
    else
        inside = 1;
    return err_set(err, -code, "%s:%zu: %s", shown_name(file), line + inside - 1, text);
}

/* An item of the file, whose errors say where it is. */
static int tell(const char *file, size_t line, struct span item, document_fn each, void *context,
                struct err *err)
{
    struct err reason = {""};
    int r = each(context, item, &reason);

    return r < 0 ? document_fail(file, line, r, &reason, err) : 0;
}

static int each_line(const char *file, struct span text, document_fn each, void *context,
                     struct err *err)
{
    int r = 0;

    for (size_t line = 1; r == 0 && text.len; line++) {
        const char *newline = memchr(text.data, '\n', text.len);
        struct span item = span_of(text.data, newline ? (size_t)(newline - text.data) : text.len);

        text = span_of(text.data + item.len, text.len - item.len);
        if (newline)
            text = span_of(text.data + 1, text.len - 1);
        if (!text_is_blank(item))
            r = tell(file, line, item, each, context, err);
    }
    return r;
}

/* The rest of the element that TOKEN begins, up to its end. */
static int whole_element(struct json_reader *reader, const struct json_token *begin,
                         struct span *ret_element, struct err *err)
{
    struct json_token token = *begin;

    if (begin->kind != JSON_OBJECT)
        return err_set(err, EINVAL, "the array holds something that is no item");
    while (token.kind != JSON_OBJECT_END || token.depth != begin->depth) {
        int r = json_next(reader, &token, err);

        if (r < 0)
            return r;
    }
    *ret_element =
        span_of(begin->raw.data, (size_t)(token.raw.data + token.raw.len - begin->raw.data));
    return 0;
}

static size_t lines_between(const char *begin, const char *end)
{
    size_t lines = 0;

    while ((begin = memchr(begin, '\n', (size_t)(end - begin)))) {
        begin++;
        lines++;
    }
    return lines;
}

static int each_element(const char *file, struct span text, document_fn each, void *context,
                        struct err *err)
{
    struct json_reader *reader = json_reader_new(text);
    const char *counted = text.data;
    struct err reason = {""};
    struct json_token token;
    struct span element;
    size_t line = 1;
    int r = reader ? json_next(reader, &token, &reason) : -ENOMEM;

    while (r == 0) {
        r = json_next(reader, &token, &reason);
        if (r < 0 || token.kind == JSON_ARRAY_END)
            break;
        line += lines_between(counted, token.raw.data);
        counted = token.raw.data;
        r = whole_element(reader, &token, &element, &reason);
        if (r == 0) {
            r = tell(file, line, element, each, context, err);
            if (r < 0)
                goto out;
        }
    }
    if (r == 0)
        r = json_next(reader, &token, &reason);
    if (r < 0)
        err_set(err, -r, "%s: %s", shown_name(file), err_text(&reason, r));
out:
    json_reader_free(reader);
    return r;
}

int document_items(const char *file, struct span text, document_fn each, void *context,
                   struct err *err)
{
    size_t at = 0;

    while (at < text.len && memchr(SPACE, text.data[at], sizeof SPACE - 1))
        at++;
    if (at < text.len && text.data[at] == '[')
        return each_element(file, text, each, context, err);
    return each_line(file, text, each, context, err);
}
