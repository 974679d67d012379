/* SPDX-License-Identifier: MIT */
/* MD5 of bytes that come in pieces: what S3 and the manifests of exports carry. It finds damage,
 * and is nothing for what must resist. */
#ifndef BASE_MD5_H
#define BASE_MD5_H

#include "base/span.h"

#define MD5_BYTES 16

struct md5;
struct md5 *md5_new(void); /* NULL when memory ran out */
void md5_free(struct md5 *md5);
void md5_add(struct md5 *md5, struct span data);
/* Once; nothing can be added behind it. */
void md5_end(struct md5 *md5, unsigned char ret_digest[MD5_BYTES]);
/* Of a whole text. */
void md5_of(struct span data, unsigned char ret_digest[MD5_BYTES]);

#endif
