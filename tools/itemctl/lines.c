/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/lines.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BYTES (256u << 10)

void lines_init(struct lines *lines, size_t longest)
{
    *lines = (struct lines){0};
    buf_init(&lines->text, longest + CHUNK_BYTES);
}

void lines_release(struct lines *lines)
{
    buf_release(&lines->text);
}

void lines_begin(struct lines *lines, lines_fn read, void *context, uint64_t offset, uint64_t line)
{
    lines->read = read;
    lines->context = context;
    buf_clear(&lines->text);
    lines->at = 0;
    lines->end = false;
    lines->begin = lines->offset = offset;
    lines->line = line;
}

/* Reads more behind what is there. */
static int read_more(struct lines *lines, struct err *err)
{
    struct buf *text = &lines->text;
    size_t got = 0;

    buf_splice(text, 0, lines->at, span_of(NULL, 0));
    lines->at = 0;
    size_t before = text->len;
    buf_resize(text, before + CHUNK_BYTES);
    if (buf_error(text) == -EFBIG)
        return err_set(err, EFBIG, "the line is too long");
    if (buf_error(text))
        return err_set(err, -buf_error(text), "no memory");
    int r = lines->read(lines->context, text->data + before, CHUNK_BYTES, &got, err);
    buf_resize(text, before + got);
    lines->end = got == 0;
    return r;
}

int lines_next(struct lines *lines, struct span *ret_line, struct err *err)
{
    size_t looked = 0; /* bytes of the line known to hold no newline */

    for (;;) {
        size_t left = lines->text.len - lines->at;
        const char *begin = left ? lines->text.data + lines->at : NULL;
        const char *newline = left > looked ? memchr(begin + looked, '\n', left - looked) : NULL;

        if (newline || (lines->end && left)) {
            size_t length = newline ? (size_t)(newline - begin) : left;

            *ret_line = span_of(begin, length);
            lines->begin = lines->offset;
            lines->at += length + (newline != NULL);
            lines->offset += length + (newline != NULL);
            lines->line++;
            return 1;
        }
        if (lines->end)
            return 0;
        looked = left;
        int r = read_more(lines, err);
        if (r < 0)
            return r;
    }
}
