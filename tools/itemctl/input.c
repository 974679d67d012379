/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/files.h"

#define SKIP_BYTES (64u << 10)

static int read_plain(void *context, char *out, size_t room, size_t *ret_len, struct err *err)
{
    struct input *input = context;
    ssize_t got = read(input->fd, out, room);

    input->broken = got < 0;
    if (got < 0)
        return file_failed(input->name, err);
    *ret_len = (size_t)got;
    return 0;
}

static int read_packed(void *context, char *out, size_t room, size_t *ret_len, struct err *err)
{
    struct input *input = context;
    int r = gzip_read(input->gzip, out, room, ret_len, err);

    input->broken = r < 0 && r != -EINVAL;
    return r;
}

static const struct layout_file *file_of(const struct input *input)
{
    return &input->layout.files[input->place.file];
}

/* ---- opening ---- */

static int open_plain(struct input *input, const char *file, struct err *err)
{
    bool standard = strcmp(file, "-") == 0;
    struct stat found;

    input->name = standard ? "standard input" : file;
    input->fd = standard ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (input->fd < 0 || fstat(input->fd, &found) < 0)
        return file_failed(input->name, err);
    lines_begin(&input->lines, read_plain, input, 0, 0);
    if (standard || !S_ISREG(found.st_mode))
        return 0;
    input->bytes = (uint64_t)found.st_size;
    input->path = realpath(file, NULL);
    return input->path ? 0 : file_failed(input->name, err);
}

/* The file of `place`, from its beginning; none where all are done. */
static int open_packed(struct input *input, struct err *err)
{
    gzip_reader_free(input->gzip);
    input->gzip = NULL;
    input->file_items = 0;
    if (input->place.file == input->layout.count)
        return 0;
    lines_begin(&input->lines, read_packed, input, 0, 0);
    return gzip_open(file_of(input)->path, &input->gzip, err);
}

static int open_layout(struct input *input, const char *folder, struct err *err)
{
    int r = layout_open(folder, &input->layout, err);

    if (r < 0)
        return r;
    input->layered = true;
    for (size_t i = 0; i < input->layout.count; i++)
        input->bytes += input->layout.files[i].bytes;
    input->path = realpath(input->layout.directory, NULL);
    return input->path ? open_packed(input, err) : file_failed(input->layout.directory, err);
}

int input_open(struct input *input, const char *file, size_t longest, struct err *err)
{
    struct stat found;

    *input = (struct input){.fd = -1, .name = file};
    lines_init(&input->lines, longest);
    if (strcmp(file, "-") != 0 && stat(file, &found) == 0 && S_ISDIR(found.st_mode))
        return open_layout(input, file, err);
    return open_plain(input, file, err);
}

void input_close(struct input *input)
{
    if (input->fd > STDERR_FILENO)
        close(input->fd);
    gzip_reader_free(input->gzip);
    layout_release(&input->layout);
    lines_release(&input->lines);
    free(input->path);
}

/* ---- the same again ---- */

static int add_file(const char *path, struct buf *identity, struct err *err)
{
    struct stat file;

    if (stat(path, &file) < 0)
        return file_failed(path, err);
    buf_addf(identity, "%" PRIuMAX " %" PRIuMAX " %jd %jd.%09ld\n", (uintmax_t)file.st_dev,
             (uintmax_t)file.st_ino, (intmax_t)file.st_size, (intmax_t)file.st_mtim.tv_sec,
             file.st_mtim.tv_nsec);
    return buf_error(identity);
}

int input_identify(const struct input *input, struct buf *identity, struct err *err)
{
    int r = input->layered ? 0 : add_file(input->path, identity, err);

    for (size_t i = 0; r == 0 && i < input->layout.count; i++)
        r = add_file(input->layout.files[i].path, identity, err);
    return r;
}

/* Reads over the first LEN bytes of the file's text. */
static int skip(struct input *input, uint64_t len, struct err *err)
{
    cleanup_free char *room = malloc(SKIP_BYTES);
    struct err reason = {""};

    if (!room)
        return err_set(err, ENOMEM, "no memory");
    while (len) {
        size_t got;
        int r = gzip_read(input->gzip, room, len < SKIP_BYTES ? len : SKIP_BYTES, &got, &reason);
        if (r < 0)
            return err_set(err, -r, "%s: %s", file_of(input)->path, err_text(&reason, r));
        if (got == 0)
            return err_set(err, EINVAL, "%s: it has become shorter", file_of(input)->path);
        len -= got;
    }
    return 0;
}

static int seek_packed(struct input *input, const struct place *place, struct err *err)
{
    int64_t items = (int64_t)place->items; /* less those of the files before */

    if (place->file > input->layout.count)
        return err_set(err, EINVAL, "%s: it has fewer files than before", input->name);
    for (uint64_t i = 0; i < place->file; i++) {
        int64_t told = input->layout.files[i].items;
        items = items < 0 || told < 0 ? -1 : items - told;
        input->before += input->layout.files[i].bytes;
    }
    int r = open_packed(input, err);
    if (r == 0)
        r = skip(input, place->offset, err);
    input->file_items = items;
    lines_begin(&input->lines, read_packed, input, place->offset, place->line);
    return r;
}

int input_seek(struct input *input, const struct place *place, struct err *err)
{
    input->place = *place;
    input->given = place->items;
    if (input->layered)
        return seek_packed(input, place, err);
    if (lseek(input->fd, (off_t)place->offset, SEEK_SET) < 0)
        return file_failed(input->name, err);
    lines_begin(&input->lines, read_plain, input, place->offset, place->line);
    return 0;
}

int input_verify(const struct input *input, struct err *err)
{
    int r = 0;

    for (uint64_t i = input->place.file; r == 0 && i < input->layout.count; i++)
        r = layout_verify(&input->layout.files[i], err);
    return r;
}

/* ---- items ---- */

static int next_line(struct input *input, struct span *ret_line, struct err *err)
{
    struct lines *lines = &input->lines;
    int r;

    do {
        input->place.offset = lines->offset;
        input->place.line = lines->line;
        input->place.items = input->given;
        r = lines_next(lines, ret_line, err);
    } while (r > 0 && text_is_blank(*ret_line));
    return r;
}

/* The end of a data file: on to the next one. */
static int next_file(struct input *input, struct err *err)
{
    const struct layout_file *file = file_of(input);

    input->broken = true;
    if (file->items >= 0 && input->file_items >= 0 && file->items != input->file_items)
        return err_set(err, EINVAL,
                       "%s: it ends behind %" PRId64 " items, and has %" PRId64 " by " LAYOUT_FILES
                       ".json",
                       file->path, input->file_items, file->items);
    input->before += file->bytes;
    input->place = (struct place){.file = input->place.file + 1, .items = input->given};
    int r = open_packed(input, err);
    input->broken = r < 0;
    return r;
}

int input_next(struct input *input, struct span *ret_item, struct err *err)
{
    struct span line;
    int r = 0;

    if (!input->layered) {
        r = next_line(input, ret_item, err);
        input->given += r > 0;
        return r;
    }
    while (r == 0 && input->place.file < input->layout.count) {
        r = next_line(input, &line, err);
        if (r == 0)
            r = next_file(input, err);
    }
    if (r <= 0)
        return r;
    r = layout_item(line, ret_item, err);
    if (r < 0)
        return r;
    if (input->file_items >= 0)
        input->file_items++;
    input->given++;
    return 1;
}

const char *input_name(const struct input *input, const struct place *place)
{
    return input->layered ? input->layout.files[place->file].path : input->name;
}

uint64_t input_done(const struct input *input)
{
    if (!input->layered)
        return input->lines.offset;
    return input->before + (input->gzip ? gzip_taken(input->gzip) : 0);
}
