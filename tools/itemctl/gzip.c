/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/gzip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/itemctl/files.h"

#define CHUNK_BYTES (64u << 10)
#define GZIP_WINDOW (15 + 16) /* the largest, with gzip's header and trailer: zlib.h */
#define MEMORY_LEVEL 8        /* zlib's default */

struct file {
    int fd;
    char *path;
    z_stream stream;
    unsigned char chunk[CHUNK_BYTES]; /* compressed bytes on their way */
};

static void file_release(struct file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
}

static int file_open(struct file *file, const char *path, int flags, struct err *err)
{
    file->path = strdup(path);
    file->fd = file->path ? open(path, flags | O_CLOEXEC | O_NOCTTY, 0666) : -1;
    if (!file->path)
        return err_set(err, ENOMEM, "no memory");
    return file->fd < 0 ? file_failed(path, err) : 0;
}

/* ---- writing ---- */

struct gzip_writer {
    struct file file;
    struct md5 *md5;
    bool ready; /* the stream is to be ended */
};

int gzip_create(const char *path, struct gzip_writer **ret_writer, struct err *err)
{
    struct gzip_writer *writer = calloc(1, sizeof *writer);

    if (!writer)
        return err_set(err, ENOMEM, "no memory");
    writer->md5 = md5_new();
    int r = file_open(&writer->file, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, err);
    if (r == 0)
        writer->ready = deflateInit2(&writer->file.stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW,
                                     MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
    if (r == 0 && (!writer->md5 || !writer->ready))
        r = err_set(err, ENOMEM, "no memory");
    if (r < 0)
        gzip_writer_free(writer);
    else
        *ret_writer = writer;
    return r;
}

/* What the stream has to say to TEXT, until it has taken all of it, or with Z_FINISH, all is out.
 */
static int deflate_all(struct gzip_writer *writer, struct span text, int flush, struct err *err)
{
    struct file *file = &writer->file;
    int state;

    file->stream.next_in = (unsigned char *)(uintptr_t)text.data;
    file->stream.avail_in = (unsigned)text.len;
    do {
        file->stream.next_out = file->chunk;
        file->stream.avail_out = CHUNK_BYTES;
        state = deflate(&file->stream, flush);
        struct span out = span_of((char *)file->chunk, CHUNK_BYTES - file->stream.avail_out);
        md5_add(writer->md5, out);
        int r = file_write(file->fd, file->path, out, err);
        if (r < 0)
            return r;
    } while (flush == Z_FINISH ? state != Z_STREAM_END : file->stream.avail_out == 0);
    return 0;
}

int gzip_write(struct gzip_writer *writer, struct span text, struct err *err)
{
    int r = 0;

    while (r == 0 && text.len) {
        size_t len = text.len < UINT32_MAX / 2 ? text.len : UINT32_MAX / 2;
        r = deflate_all(writer, span_of(text.data, len), Z_NO_FLUSH, err);
        text = span_of(text.data + len, text.len - len);
    }
    return r;
}

int gzip_finish(struct gzip_writer *writer, unsigned char ret_digest[MD5_BYTES], struct err *err)
{
    int r = deflate_all(writer, span_of("", 0), Z_FINISH, err);

    if (r == 0 && fsync(writer->file.fd) < 0)
        r = file_failed(writer->file.path, err);
    if (r == 0)
        md5_end(writer->md5, ret_digest);
    return r;
}

void gzip_writer_free(struct gzip_writer *writer)
{
    if (!writer)
        return;
    if (writer->ready)
        deflateEnd(&writer->file.stream);
    file_release(&writer->file);
    md5_free(writer->md5);
    free(writer);
}

/* ---- reading ---- */

struct gzip_reader {
    struct file file;
    uint64_t taken;
    bool ready;
    bool within; /* a member has begun and not ended */
    int code;    /* of the failure behind what was given last; 0: none yet */
    struct err err;
    bool end; /* of the file */
};

int gzip_open(const char *path, struct gzip_reader **ret_reader, struct err *err)
{
    struct gzip_reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return err_set(err, ENOMEM, "no memory");
    int r = file_open(&reader->file, path, O_RDONLY, err);
    if (r == 0)
        reader->ready = inflateInit2(&reader->file.stream, GZIP_WINDOW) == Z_OK;
    if (r == 0 && !reader->ready)
        r = err_set(err, ENOMEM, "no memory");
    if (r < 0)
        gzip_reader_free(reader);
    else
        *ret_reader = reader;
    return r;
}

static int read_chunk(struct gzip_reader *reader, struct err *err)
{
    struct file *file = &reader->file;
    ssize_t got = read(file->fd, file->chunk, CHUNK_BYTES);

    if (got < 0)
        return file_failed(file->path, err);
    file->stream.next_in = file->chunk;
    file->stream.avail_in = (unsigned)got;
    reader->taken += (uint64_t)got;
    reader->end = got == 0;
    return 0;
}

/* One step; a file may hold several members, one behind the other. */
static int inflate_some(struct gzip_reader *reader, struct err *err)
{
    struct file *file = &reader->file;
    int state = inflate(&file->stream, Z_NO_FLUSH);

    reader->within = state != Z_STREAM_END;
    if (state == Z_STREAM_END)
        state = inflateReset(&file->stream);
    if (state == Z_OK || state == Z_BUF_ERROR)
        return 0;
    if (state == Z_MEM_ERROR)
        return err_set(err, ENOMEM, "no memory");
    return err_set(err, EINVAL, "the gzip data is damaged: %s",
                   file->stream.msg ? file->stream.msg : "bad data");
}

int gzip_read(struct gzip_reader *reader, char *out, size_t room, size_t *ret_len, struct err *err)
{
    struct file *file = &reader->file;
    unsigned wanted = room < UINT32_MAX / 2 ? (unsigned)room : UINT32_MAX / 2;

    file->stream.next_out = (unsigned char *)out;
    file->stream.avail_out = wanted;
    while (reader->code == 0 && file->stream.avail_out == wanted) {
        if (!file->stream.avail_in && !reader->end)
            reader->code = read_chunk(reader, &reader->err);
        if (reader->code == 0 && reader->end && reader->within)
            reader->code = err_set(&reader->err, EINVAL, "the gzip data is cut short");
        else if (reader->end)
            break;
        if (reader->code == 0)
            reader->code = inflate_some(reader, &reader->err);
    }
    *ret_len = wanted - file->stream.avail_out;
    if (*ret_len || reader->code == 0)
        return 0;
    return err_set(err, -reader->code, "%s", err_text(&reader->err, reader->code));
}

uint64_t gzip_taken(const struct gzip_reader *reader)
{
    return reader->taken;
}

void gzip_reader_free(struct gzip_reader *reader)
{
    if (!reader)
        return;
    if (reader->ready)
        inflateEnd(&reader->file.stream);
    file_release(&reader->file);
    free(reader);
}
