/* SPDX-License-Identifier: MIT */
/* Text encodings without I/O: UTF-8 as we accept it, base64, hexadecimal, SHA-256 and its HMAC. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/span.h"

/*
 * True when TEXT is UTF-8, shortest forms, at most U+10FFFF. Encoded surrogates (ED A0..BF xx) are
 * accepted where SURROGATES says so: DynamoDB strings may hold lone ones. An
 * encoded pair is refused there too: it has a form of its own, four bytes long.
 */
bool text_is_utf8(struct span text, bool surrogates);

/* The length of the UTF-8 character that TEXT (not empty) begins with, 0 where it is none. */
size_t text_utf8_step(struct span text, bool surrogates);

/* Appends TEXT with control characters (C0, DEL, C1) and invalid UTF-8 shown as \xNN: safe for a
 * terminal. */
void text_visible(struct span text, struct buf *out);

/* One step of it without heap: the shown form of the character that TEXT (not empty) begins with.
 * Returns the bytes of TEXT that it stands for. */
#define TEXT_VISIBLE_MAX 8
size_t text_visible_step(struct span text, char ret_shown[TEXT_VISIBLE_MAX], size_t *ret_len);

/* Whether two C strings are the same; NULL is the same as NULL only. */
static inline bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* RFC 4648: standard alphabet with padding, or url alphabet without. Decoding is strict: the
 * alphabet and padding must match and unused bits be zero; -EINVAL otherwise, OUT untouched. */
void base64_encode(struct span data, bool url, struct buf *out);
int base64_decode(struct span text, bool url, struct buf *out);

/* 64 lower-case hexadecimal digits and a NUL. The one place that uses OpenSSL in base/. */
void sha256_hex(struct span data, char ret_hex[65]);
/* 40 digits and a NUL: AWS names its cached tokens so. Not for anything that must resist. */
void sha1_hex(struct span data, char ret_hex[41]);
/* RFC 2104 over SHA-256. What it made of the key on the way is wiped. */
void hmac_sha256(struct span key, struct span data, unsigned char ret_mac[32]);

/* "2024-01-05T10:00:00.123456789Z" for nanoseconds since the epoch, "2024-01-05T10:00:00Z" for
 * seconds; "@SECONDS" stands for the date where no calendar has it. */
void text_time_ns(int64_t time_ns, struct buf *out);
void text_time_s(int64_t seconds, struct buf *out);

/* A quick 64-bit hash of bytes for tables and inode numbers: FNV-1a with a final mix. Stable over
 * versions of the program: inode numbers are made of it. */
uint64_t hash64(struct span data, uint64_t seed);

#endif
