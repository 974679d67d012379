/* SPDX-License-Identifier: MIT */
#include "base/md5.h"

#include <stdlib.h>

/* The older calls cannot fail (text.c). */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/md5.h>

struct md5 {
    MD5_CTX context;
};

struct md5 *md5_new(void)
{
    struct md5 *md5 = malloc(sizeof *md5);

    if (md5)
        MD5_Init(&md5->context);
    return md5;
}

void md5_free(struct md5 *md5)
{
    free(md5);
}

void md5_add(struct md5 *md5, struct span data)
{
    MD5_Update(&md5->context, data.data, data.len);
}

void md5_end(struct md5 *md5, unsigned char ret_digest[MD5_BYTES])
{
    MD5_Final(ret_digest, &md5->context);
}

void md5_of(struct span data, unsigned char ret_digest[MD5_BYTES])
{
    struct md5 md5;

    MD5_Init(&md5.context);
    md5_add(&md5, data);
    md5_end(&md5, ret_digest);
}
