/* SPDX-License-Identifier: MIT */
/* AWS Signature Version 4 of a POST to "/" (AWS General Reference, "Signing AWS API requests").
 * Pure: no clock, no network. */
#ifndef BACKEND_DYNAMODB_SIGN_H
#define BACKEND_DYNAMODB_SIGN_H

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

struct credentials {
    char *access_key;
    char *secret_key;
    char *session_token; /* NULL: none */
    int64_t expires_s;   /* epoch seconds; 0: never */
};
void credentials_release(struct credentials *credentials); /* wipes the secrets */
/* A copy, to be released. -ENOMEM. */
int credentials_copy(const struct credentials *credentials, struct credentials *ret_copy);

struct sign_input {
    const struct credentials *credentials;
    struct span region;       /* "eu-west-1" */
    struct span service;      /* "dynamodb" */
    struct span host;         /* as in the Host header: with a port that is not the scheme's own */
    struct span content_type; /* empty: SIGN_CONTENT_TYPE */
    struct span target;       /* X-Amz-Target; empty: not sent, not signed */
    struct span body;
    int64_t now_s; /* epoch seconds, skew corrected */
};

#define SIGN_CONTENT_TYPE "application/x-amz-json-1.0"

/*
 * The values of the two headers that a signed POST to "/" needs beside Content-Type, X-Amz-Target
 * and, with a session token, X-Amz-Security-Token: ret_date "20240105T120000Z" (17 bytes with NUL),
 * and Authorization, appended. Signed are
 * content-type;host;x-amz-date[;x-amz-security-token][;x-amz-target]. -ENOMEM, -EFBIG where
 * AUTHORIZATION has too small a maximum.
 */
int sign_request(const struct sign_input *input, char ret_date[17], struct buf *authorization);

#endif
