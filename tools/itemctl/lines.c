/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/lines.h"

#include <errno.h>
#include <unistd.h>

#define CHUNK_BYTES (256u << 10)

void lines_init(struct lines *lines, int fd, size_t longest)
{
    *lines = (struct lines){.fd = fd};
    buf_init(&lines->text, longest + CHUNK_BYTES);
}

void lines_release(struct lines *lines)
{
    buf_release(&lines->text);
}

/* Reads more behind what is there. */
static int read_more(struct lines *lines)
{
    struct buf *text = &lines->text;
    size_t before;
    ssize_t got;

    buf_splice(text, 0, lines->at, span_of(NULL, 0));
    lines->at = 0;
    before = text->len;
    buf_resize(text, before + CHUNK_BYTES);
    if (buf_error(text))
        return buf_error(text);
    got = read(lines->fd, text->data + before, CHUNK_BYTES);
    if (got < 0)
        return -errno;
    buf_resize(text, before + (size_t)got);
    lines->end = got == 0;
    return 0;
}

int lines_next(struct lines *lines, struct span *ret_line)
{
    size_t looked = 0; /* bytes of the line known to hold no newline */

    for (;;) {
        size_t left = lines->text.len - lines->at;
        const char *begin = left ? lines->text.data + lines->at : NULL;
        const char *newline = left > looked ? memchr(begin + looked, '\n', left - looked) : NULL;
        int r;

        if (newline || (lines->end && left)) {
            size_t length = newline ? (size_t)(newline - begin) : left;

            *ret_line = span_of(begin, length);
            lines->at += length + (newline != NULL);
            lines->offset += length + (newline != NULL);
            lines->line++;
            return 1;
        }
        if (lines->end)
            return 0;
        looked = left;
        r = read_more(lines);
        if (r < 0)
            return r;
    }
}
