/* SPDX-License-Identifier: MIT */
/* Files compressed with gzip (RFC 1952), written and read as they go; the one user of zlib. Errors
 * name the file. */
#ifndef ITEMCTL_GZIP_H
#define ITEMCTL_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/md5.h"
#include "base/span.h"

struct gzip_writer;
/* PATH is made, or emptied. */
int gzip_create(const char *path, struct gzip_writer **ret_writer, struct err *err);
int gzip_write(struct gzip_writer *writer, struct span text, struct err *err);
/* Ends the file; it is on the disk then. RET_DIGEST is of its compressed bytes. */
int gzip_finish(struct gzip_writer *writer, unsigned char ret_digest[MD5_BYTES], struct err *err);
void gzip_writer_free(struct gzip_writer *writer); /* accepts NULL */

struct gzip_reader;
int gzip_open(const char *path, struct gzip_reader **ret_reader, struct err *err);
/* Up to ROOM of what it unpacks to; 0 at its end. -EINVAL for what is no gzip, cut short or
 * damaged, with a sentence that does not name it: the caller knows the line. Lengths and checksums
 * within are verified. What comes before a damage is given first. */
int gzip_read(struct gzip_reader *reader, char *out, size_t room, size_t *ret_len, struct err *err);
/* Compressed bytes read so far. */
uint64_t gzip_taken(const struct gzip_reader *reader);
void gzip_reader_free(struct gzip_reader *reader); /* accepts NULL */

#endif
