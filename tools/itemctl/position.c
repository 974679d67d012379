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

#define RECORD_MAX (1u << 19) /* two parts in base64 */

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
    buf_init(&ret_position->partition, KEY_PART_MAX + 1);
    buf_init(&ret_position->sort, KEY_PART_MAX + 1);
    return 0;
}

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

static bool parse(struct position *position, struct span text)
{
    const char *begin = text.data;
    struct span identity, numbers, partition, sort, sum;
    char digest[65], room[128];

    if (!next_line(&text, &identity) || !next_line(&text, &numbers) ||
        !next_line(&text, &partition) || !next_line(&text, &sort))
        return false;
    sha256_hex(span_of(begin, (size_t)(text.data - begin)), digest);
    if (!next_line(&text, &sum) || !span_equal(sum, span_text(digest)) ||
        !span_equal(identity, span_text(position->identity)) || numbers.len >= sizeof room)
        return false;
    memcpy(room, numbers.data, numbers.len);
    room[numbers.len] = '\0';
    return sscanf(room, "%" SCNu64 " %" SCNu64 " %" SCNu64, &position->offset, &position->line,
                  &position->items) == 3 &&
           base64_decode(partition, false, &position->partition) == 0 &&
           base64_decode(sort, false, &position->sort) == 0;
}

static void forget(struct position *position)
{
    position->offset = position->line = position->items = 0;
    buf_clear(&position->partition);
    buf_clear(&position->sort);
}

bool position_load(struct position *position, const char *identity)
{
    cleanup_free char *text = malloc(RECORD_MAX);
    ssize_t got = text ? pread(position->fd, text, RECORD_MAX, 0) : -1;

    snprintf(position->identity, sizeof position->identity, "%s", identity);
    forget(position);
    if (got > 0 && parse(position, span_of(text, (size_t)got)))
        return true;
    forget(position);
    return false;
}

int position_save(struct position *position, struct err *err)
{
    cleanup(buf_release) struct buf text;
    char digest[65];
    ssize_t put;

    buf_init(&text, RECORD_MAX);
    buf_addf(&text, "%s\n%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", position->identity,
             position->offset, position->line, position->items);
    base64_encode(buf_span(&position->partition), false, &text);
    buf_add_char(&text, '\n');
    base64_encode(buf_span(&position->sort), false, &text);
    buf_add_char(&text, '\n');
    if (buf_error(&text))
        return buf_error(&text);
    sha256_hex(buf_span(&text), digest);
    buf_addf(&text, "%s\n", digest);
    if (buf_error(&text))
        return buf_error(&text);
    put = pwrite(position->fd, text.data, text.len, 0);
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
    free(position->path);
    buf_release(&position->partition);
    buf_release(&position->sort);
    *position = (struct position){.fd = -1};
}
