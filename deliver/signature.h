/* SPDX-License-Identifier: MIT */
/*
 * Who sent a request, and when: the header
 *   Itemfs-Signature: t=1704448800,v1=HEX
 * where HEX is the HMAC-SHA256, under the secret, of the time's digits, a point, and the body. The
 * secret is read from its file for each request, and is wiped when that is signed.
 */
#ifndef DELIVER_SIGNATURE_H
#define DELIVER_SIGNATURE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define SECRET_BYTES_MAX 4096

/* Appends the header. The secret is the file's bytes without line breaks at their end; PATH must be
 * a file that nobody but its owner may read or write (-EACCES otherwise). -ENOENT and others as
 * the file says; -EINVAL: it is empty, or larger than SECRET_BYTES_MAX. */
int signature_header(const char *path, int64_t time_s, struct span body, struct buf *out,
                     struct err *err);

#endif
