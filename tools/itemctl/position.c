/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/position.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

#define RECORD_MAX (4u << 20) /* keys of all segments, in base64 */
#define SEGMENTS_MAX 1024

/* Whether PATH still names the open file: another process may have finished and removed it between
 * our opening and our lock. */
static bool still_there(int fd, const char *path)
{
    struct stat open_file, named;

    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

static int open_locked(const char *path, struct err *err)
{
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
            return err_set(err, errno, "%s: %s", path, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            int code = errno == EWOULDBLOCK ? EBUSY : errno;

            close(fd);
            return err_set(err, code, "%s: %s", path,
                           code == EBUSY ? "another itemctl is at work there" : strerror(code));
        }
        if (still_there(fd, path))
            return fd;
        close(fd);
    }
}

int position_open(const char *path, struct position *ret_position, struct err *err)
{
    char *copy = strdup(path);
    int fd = copy ? open_locked(path, err) : -ENOMEM;

    if (fd < 0) {
        free(copy);
        return fd;
    }
    *ret_position = (struct position){.fd = fd, .path = copy};
    return 0;
}

static void forget(struct position *position)
{
    for (unsigned i = 0; i < position->segments; i++)
        key_bytes_release(&position->keys[i]);
    free(position->keys);
    position->keys = NULL;
    position->segments = 0;
    position->offset = position->line = position->items = position->file = position->turn = 0;
}

static int make_segments(struct position *position, unsigned segments)
{
    position->keys = calloc(segments + 1, sizeof *position->keys);
    if (!position->keys)
        return -ENOMEM;
    position->segments = segments;
    for (unsigned i = 0; i < segments; i++)
        key_bytes_init(&position->keys[i]);
    return 0;
}

/* ---- reading ---- */

/* The next line of TEXT without its end; false when there is none. */
static bool next_line(struct span *text, struct span *ret_line)
{
    const char *newline = text->len ? memchr(text->data, '\n', text->len) : NULL;

    if (!newline)
        return false;
    *ret_line = span_of(text->data, (size_t)(newline - text->data));
    *text = span_of(newline + 1, text->len - ret_line->len - 1);
    return true;
}

static bool parse_numbers(struct position *position, struct span line)
{
    char room[160];
    unsigned segments;

    if (line.len >= sizeof room)
        return false;
    memcpy(room, line.data, line.len);
    room[line.len] = '\0';
    return sscanf(room, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %" SCNu64,
                  &position->offset, &position->line, &position->items, &position->file, &segments,
                  &position->turn) == 6 &&
           segments <= SEGMENTS_MAX && make_segments(position, segments) == 0;
}

static bool parse_key(struct span line, struct key_bytes *key)
{
    const char *space = line.len ? memchr(line.data, ' ', line.len) : NULL;

    if (!space)
        return false;
    size_t len = (size_t)(space - line.data);
    return base64_decode(span_of(line.data, len), false, &key->partition) == 0 &&
           base64_decode(span_from(line, len + 1), false, &key->sort) == 0;
}

static bool parse(struct position *position, struct span text)
{
    struct span whole = text, identity, line, sum;
    char digest[65];
    bool good = next_line(&text, &identity) && next_line(&text, &line) &&
                span_equal(identity, span_text(position->identity)) &&
                parse_numbers(position, line);

    for (unsigned i = 0; good && i < position->segments; i++)
        good = next_line(&text, &line) && parse_key(line, &position->keys[i]);
    if (!good)
        return false;
    sha256_hex(span_of(whole.data, whole.len - text.len), digest);
    return next_line(&text, &sum) && span_equal(sum, span_text(digest));
}

static bool load_record(const struct position *position, unsigned slot, struct position *ret_record)
{
    cleanup_free char *text = malloc(RECORD_MAX);
    ssize_t got = text ? pread(position->fd, text, RECORD_MAX, (off_t)slot * RECORD_MAX) : -1;

    *ret_record = (struct position){.fd = position->fd, .path = position->path};
    memcpy(ret_record->identity, position->identity, sizeof ret_record->identity);
    if (got > 0 && parse(ret_record, span_of(text, (size_t)got)))
        return true;
    forget(ret_record);
    return false;
}

bool position_load(struct position *position, const char *identity)
{
    struct position records[2];

    snprintf(position->identity, sizeof position->identity, "%s", identity);
    forget(position);
    bool first = load_record(position, 0, &records[0]);
    bool second = load_record(position, 1, &records[1]);
    if (!first && !second)
        return false;
    unsigned newer = !first || (second && records[1].turn > records[0].turn);
    *position = records[newer];
    forget(&records[!newer]);
    return true;
}

int position_begin(struct position *position, unsigned segments)
{
    forget(position);
    if (position->path && ftruncate(position->fd, 0) < 0)
        return -errno;
    return make_segments(position, segments);
}

/* ---- writing ---- */

static int add_record(const struct position *position, struct buf *text)
{
    char digest[65];

    buf_addf(text, "%s\n%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %" PRIu64 "\n",
             position->identity, position->offset, position->line, position->items, position->file,
             position->segments, position->turn);
    for (unsigned i = 0; i < position->segments; i++) {
        base64_encode(buf_span(&position->keys[i].partition), false, text);
        buf_add_char(text, ' ');
        base64_encode(buf_span(&position->keys[i].sort), false, text);
        buf_add_char(text, '\n');
    }
    if (buf_error(text))
        return buf_error(text);
    sha256_hex(buf_span(text), digest);
    buf_addf(text, "%s\n", digest);
    return buf_error(text);
}

int position_save(struct position *position, struct err *err)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, RECORD_MAX);
    position->turn++;
    int r = add_record(position, &text);
    if (r < 0)
        return r;
    off_t at = position->turn % 2 ? 0 : RECORD_MAX;
    ssize_t put = pwrite(position->fd, text.data, text.len, at);
    if (put != (ssize_t)text.len)
        return err_set(err, put < 0 ? errno : ENOSPC, "%s: %s", position->path,
                       strerror(put < 0 ? errno : ENOSPC));
    return 0;
}

void position_remove(struct position *position)
{
    unlink(position->path);
}

void position_close(struct position *position)
{
    if (!position->path)
        return;
    close(position->fd);
    forget(position);
    free(position->path);
    *position = (struct position){.fd = -1};
}
