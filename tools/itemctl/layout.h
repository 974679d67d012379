/* SPDX-License-Identifier: MIT */
/*
 * The layout of a DynamoDB table's full export to S3, in a local folder (Amazon DynamoDB Developer
 * Guide, "DynamoDB table export output format"):
 *
 *   FOLDER/AWSDynamoDB/EXPORT-ID/manifest-summary.json     one object: table, times, counts
 *                                manifest-files.json       a line for each data file:
 *                                     {"itemCount", "md5Checksum", "etag", "dataFileS3Key"}
 *                                manifest-*.checksum       base64 of the MD5 of either
 *                                data/NAME.json.gz         a line for each item: {"Item": typed}
 *                                _started                  empty
 *
 * The guide calls the checksums of the manifests .checksum; exports that were seen have them as
 * .md5, with the same content. Both are written, and either is verified. md5Checksum is base64 of
 * the MD5 of the compressed file; etag is what S3 says of it, as uploaded in one part: the hash of
 * the hash, and "-1". It is not verified: encrypted objects have others.
 */
#ifndef ITEMCTL_LAYOUT_H
#define ITEMCTL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/md5.h"

#define LAYOUT_TOP "AWSDynamoDB"
#define LAYOUT_SUMMARY "manifest-summary"
#define LAYOUT_FILES "manifest-files"
#define LAYOUT_VERSION "2020-06-30"
#define LAYOUT_FORMAT "DYNAMODB_JSON"
#define LAYOUT_MD5_TEXT 25 /* 24 characters of base64, and a NUL */
#define LAYOUT_ID_TEXT 24  /* 14 digits of milliseconds, "-", 8 of hexadecimal, and a NUL */

/* ---- writing (layout_write.c) ---- */

/* A new id, of now. -EIO where the system has no random numbers. */
int layout_make_id(char ret_id[LAYOUT_ID_TEXT]);
bool layout_is_id(const char *name);
/* Base64 of the MD5 of TEXT. */
void layout_checksum(struct span text, char ret_md5[LAYOUT_MD5_TEXT]);

/* Appends a line of manifest-files.json; DIGEST is of the file NAME in data/. */
void layout_add_file(struct buf *out, const char *id, const char *name, uint64_t items,
                     const unsigned char digest[MD5_BYTES]);

/* Appends manifest-summary.json of an export that ends now and began with its id. What only the
 * service knows is zeros (the account in ARNs) or null. */
struct layout_summary {
    const char *id, *table, *region;
    uint64_t items;
};
void layout_add_summary(struct buf *out, const struct layout_summary *summary);

/* ---- reading (layout_read.c) ---- */

struct layout_file {
    char *path;
    uint64_t bytes;            /* compressed */
    int64_t items;             /* -1: the manifest does not say */
    char md5[LAYOUT_MD5_TEXT]; /* "": the manifest does not say */
};

/* An export as it lies in a folder. */
struct layout {
    char *directory; /* FOLDER/AWSDynamoDB/EXPORT-ID */
    struct layout_file *files;
    size_t count;
};

/* Reads the manifests of the export in FOLDER, which may be any of the three directories above the
 * files; of several exports there, none is chosen. The manifests' checksums are verified, that all
 * data files are there, each told of once and no others, and that items add up. -EINVAL, -ENOENT
 * with a sentence that names the file. */
int layout_open(const char *folder, struct layout *ret_layout, struct err *err);
void layout_release(struct layout *layout);
/* Whether a data file is the one that the manifest tells of; -EINVAL. */
int layout_verify(const struct layout_file *file, struct err *err);
/* The item in a line of a data file; -EINVAL. */
int layout_item(struct span line, struct span *ret_item, struct err *err);

#endif
