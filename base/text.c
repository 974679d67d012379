/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

/* The one-call digest of OpenSSL 3 allocates, and so may fail; names of items must not depend on
 * that. The older calls cannot fail. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

size_t text_utf8_step(struct span text, bool surrogates)
{
    const unsigned char *at = (const unsigned char *)text.data;
    unsigned char lead = at[0];
    if (lead < 0x80)
        return 1;
    size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.len < len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (!is_continuation(at[i]))
            return 0;
    }
    if (lead == 0xE0 && at[1] < 0xA0)
        return 0;
    if (lead == 0xED && at[1] >= 0xA0 && !surrogates)
        return 0;
    if ((lead == 0xF0 && at[1] < 0x90) || (lead == 0xF4 && at[1] >= 0x90))
        return 0;
    return len;
}

bool text_is_utf8(struct span text, bool surrogates)
{
    bool after_high = false;
    size_t at = 0;
    while (at < text.len) {
        uint64_t word;
        if (text.len - at >= sizeof word) {
            memcpy(&word, text.data + at, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                at += sizeof word;
                after_high = false;
                continue;
            }
        }
        size_t step = text_utf8_step(span_of(text.data + at, text.len - at), surrogates);
        if (step == 0)
            return false;
        unsigned char second = step == 3 ? (unsigned char)text.data[at + 1] : 0;
        bool surrogate = (unsigned char)text.data[at] == 0xED && second >= 0xA0;
        if (surrogate && after_high && second >= 0xB0)
            return false;
        after_high = surrogate && second < 0xB0;
        at += step;
    }
    return true;
}

size_t text_visible_step(struct span text, char ret_shown[TEXT_VISIBLE_MAX], size_t *ret_len)
{
    const unsigned char *at = (const unsigned char *)text.data;
    size_t step = text_utf8_step(text, false);
    bool control = step == 0 || (step == 1 && (at[0] < 0x20 || at[0] == 0x7F)) ||
                   (step == 2 && at[0] == 0xC2 && at[1] < 0xA0);
    if (!control) {
        memcpy(ret_shown, text.data, step);
        *ret_len = step;
        return step;
    }
    snprintf(ret_shown, TEXT_VISIBLE_MAX, "\\x%02X", at[0]);
    *ret_len = 4;
    return 1;
}

void text_visible(struct span text, struct buf *out)
{
    while (text.len > 0) {
        char shown[TEXT_VISIBLE_MAX];
        size_t len;
        size_t used = text_visible_step(text, shown, &len);
        buf_add(out, shown, len);
        text = span_of(text.data + used, text.len - used);
    }
}

static const char alphabet_standard[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char alphabet_url[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64_encode(struct span data, bool url, struct buf *out)
{
    const char *alphabet = url ? alphabet_url : alphabet_standard;
    const unsigned char *from = (const unsigned char *)data.data;
    for (size_t at = 0; at < data.len; at += 3) {
        size_t left = data.len - at;
        unsigned group = (unsigned)from[at] << 16;
        group |= left > 1 ? (unsigned)from[at + 1] << 8 : 0;
        group |= left > 2 ? from[at + 2] : 0;
        char four[4];
        for (int i = 0; i < 4; i++)
            four[i] = alphabet[group >> (18 - 6 * i) & 63];
        size_t digits = left > 2 ? 4 : left + 1;
        for (size_t i = digits; i < 4; i++)
            four[i] = '=';
        buf_add(out, four, url ? digits : 4);
    }
}

/* The six bits of a digit, or -1. */
static int base64_digit(char c, bool url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (url ? '-' : '+'))
        return 62;
    if (c == (url ? '_' : '/'))
        return 63;
    return -1;
}

/* Decodes up to four digits into RET_BYTES; the count of bytes, or -1 for anything not strict. */
static int base64_group(const char *digits, size_t count, bool url, char ret_bytes[3])
{
    unsigned group = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = base64_digit(digits[i], url);
        if (digit < 0)
            return -1;
        group |= (unsigned)digit << (18 - 6 * i);
    }
    if (count < 2 || (count == 2 && (group & 0xFFFF)) || (count == 3 && (group & 0xFF)))
        return -1;
    for (int i = 0; i < 3; i++)
        ret_bytes[i] = (char)(group >> (16 - 8 * i) & 0xFF);
    return (int)count - 1;
}

int base64_decode(struct span text, bool url, struct buf *out)
{
    size_t len = text.len;
    if (!url && len % 4 != 0)
        return -EINVAL;
    for (int padding = 0; !url && padding < 2 && len > 0 && text.data[len - 1] == '='; padding++)
        len--;
    size_t before = out->len;
    for (size_t at = 0; at < len; at += 4) {
        char bytes[3];
        size_t count = len - at < 4 ? len - at : 4;
        int got = base64_group(text.data + at, count, url, bytes);
        if (got < 0) {
            if (!buf_error(out) && out->len > before)
                buf_resize(out, before);
            return -EINVAL;
        }
        buf_add(out, bytes, (size_t)got);
    }
    return 0;
}

static void hex_of(const unsigned char *bytes, size_t len, char *ret_hex)
{
    for (size_t i = 0; i < len; i++) {
        ret_hex[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        ret_hex[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    ret_hex[2 * len] = '\0';
}

void sha256_hex(struct span data, char ret_hex[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, data.data, data.len);
    SHA256_Final(digest, &context);
    hex_of(digest, sizeof digest, ret_hex);
}

void sha1_hex(struct span data, char ret_hex[41])
{
    unsigned char digest[SHA_DIGEST_LENGTH];
    SHA_CTX context;
    SHA1_Init(&context);
    SHA1_Update(&context, data.data, data.len);
    SHA1_Final(digest, &context);
    hex_of(digest, sizeof digest, ret_hex);
}

/* SHA-256 of a block of the key, combined with MASK, and DATA. */
static void hmac_half(const unsigned char key[SHA256_CBLOCK], unsigned char mask, struct span data,
                      unsigned char ret_digest[SHA256_DIGEST_LENGTH])
{
    unsigned char block[SHA256_CBLOCK];
    SHA256_CTX context;
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ mask;
    SHA256_Init(&context);
    SHA256_Update(&context, block, sizeof block);
    SHA256_Update(&context, data.data, data.len);
    SHA256_Final(ret_digest, &context);
    explicit_bzero(block, sizeof block);
    explicit_bzero(&context, sizeof context);
}

void hmac_sha256(struct span key, struct span data, unsigned char ret_mac[32])
{
    unsigned char block[SHA256_CBLOCK] = {0}, inner[SHA256_DIGEST_LENGTH];
    if (key.len > sizeof block) {
        SHA256_CTX context;
        SHA256_Init(&context);
        SHA256_Update(&context, key.data, key.len);
        SHA256_Final(block, &context);
        explicit_bzero(&context, sizeof context);
    } else if (key.len > 0) {
        memcpy(block, key.data, key.len);
    }
    hmac_half(block, 0x36, data, inner);
    hmac_half(block, 0x5C, span_of((const char *)inner, sizeof inner), ret_mac);
    explicit_bzero(block, sizeof block);
    explicit_bzero(inner, sizeof inner);
}

static void add_time(struct buf *out, int64_t seconds, const char *fraction)
{
    time_t time = (time_t)seconds;
    struct tm utc;
    char text[64];

    if (!gmtime_r(&time, &utc) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc))
        snprintf(text, sizeof text, "@%lld", (long long)seconds);
    buf_addf(out, "%s%sZ", text, fraction);
}

void text_time_ns(int64_t time_ns, struct buf *out)
{
    int64_t part = time_ns % NS_PER_S;
    char fraction[32];

    part += part < 0 ? NS_PER_S : 0;
    snprintf(fraction, sizeof fraction, ".%09lld", (long long)part);
    add_time(out, (time_ns - part) / NS_PER_S, fraction);
}

void text_time_s(int64_t seconds, struct buf *out)
{
    add_time(out, seconds, "");
}

uint64_t hash64(struct span data, uint64_t seed)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ seed;
    for (size_t i = 0; i < data.len; i++) {
        hash ^= (unsigned char)data.data[i];
        hash *= UINT64_C(0x100000001B3);
    }
    hash ^= hash >> 33;
    hash *= UINT64_C(0xFF51AFD7ED558CCD);
    hash ^= hash >> 33;
    hash *= UINT64_C(0xC4CEB9FE1A85EC53);
    return hash ^ hash >> 33;
}
