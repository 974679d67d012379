/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/sign.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/dynamodb/secret.h"
#include "base/text.h"

#define MAC_BYTES 32
#define CANONICAL_MAX (1u << 20) /* bytes of headers; the body goes in as a digest */

void credentials_release(struct credentials *credentials)
{
    free(credentials->access_key);
    secret_free(credentials->secret_key);
    secret_free(credentials->session_token);
    *credentials = (struct credentials){0};
}

int credentials_copy(const struct credentials *credentials, struct credentials *ret_copy)
{
    const char *token = credentials->session_token;
    struct credentials copy = {.access_key = strdup(credentials->access_key),
                               .secret_key = strdup(credentials->secret_key),
                               .session_token = token ? strdup(token) : NULL,
                               .expires_s = credentials->expires_s};
    if (!copy.access_key || !copy.secret_key || (token && !copy.session_token)) {
        credentials_release(&copy);
        return -ENOMEM;
    }
    *ret_copy = copy;
    return 0;
}

static void date_of(int64_t now_s, char ret_date[17])
{
    time_t when = (time_t)now_s;
    struct tm parts = {0};
    gmtime_r(&when, &parts);
    if (!strftime(ret_date, 17, "%Y%m%dT%H%M%SZ", &parts))
        memcpy(ret_date, "19700101T000000Z", 17); /* beyond the year 9999 */
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Appends "NAME:VALUE\n"; white space around the value goes, within it becomes one space. */
static void add_header(struct buf *out, const char *name, struct span value)
{
    bool gap = false, begun = false;
    buf_addf(out, "%s:", name);
    for (size_t i = 0; i < value.len; i++) {
        if (is_space(value.data[i])) {
            gap = begun;
            continue;
        }
        if (gap)
            buf_add_char(out, ' ');
        buf_add_char(out, value.data[i]);
        begun = true;
        gap = false;
    }
    buf_add_char(out, '\n');
}

static void add_sha256(struct buf *out, struct span data)
{
    char hex[65];
    sha256_hex(data, hex);
    buf_add_text(out, hex);
}

static const char *signed_headers(const struct sign_input *input)
{
    static const char *const names[2][2] = {
        {"content-type;host;x-amz-date", "content-type;host;x-amz-date;x-amz-target"},
        {"content-type;host;x-amz-date;x-amz-security-token",
         "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"}};
    return names[input->credentials->session_token != NULL][input->target.len > 0];
}

static void canonical_request(const struct sign_input *input, const char *date, struct buf *out)
{
    const char *token = input->credentials->session_token;
    struct span type = input->content_type;
    buf_add_text(out, "POST\n/\n\n");
    add_header(out, "content-type", type.len ? type : span_text(SIGN_CONTENT_TYPE));
    add_header(out, "host", input->host);
    add_header(out, "x-amz-date", span_text(date));
    if (token)
        add_header(out, "x-amz-security-token", span_text(token));
    if (input->target.len)
        add_header(out, "x-amz-target", input->target);
    buf_addf(out, "\n%s\n", signed_headers(input));
    add_sha256(out, input->body);
}

/* "20240105/eu-west-1/dynamodb/aws4_request" */
static void add_scope(const struct sign_input *input, const char *date, struct buf *out)
{
    buf_add(out, date, 8);
    buf_add_char(out, '/');
    buf_add_span(out, input->region);
    buf_add_char(out, '/');
    buf_add_span(out, input->service);
    buf_add_text(out, "/aws4_request");
}

static void derive(unsigned char key[MAC_BYTES], struct span data)
{
    unsigned char mac[MAC_BYTES];
    hmac_sha256(span_of((const char *)key, MAC_BYTES), data, mac);
    memcpy(key, mac, sizeof mac);
    explicit_bzero(mac, sizeof mac);
}

/* The key of one day, region and service. */
static int signing_key(const struct sign_input *input, const char *date,
                       unsigned char ret_key[MAC_BYTES])
{
    cleanup(secret_buf_release) struct buf secret;
    buf_init(&secret, CANONICAL_MAX);
    buf_add_text(&secret, "AWS4");
    buf_add_text(&secret, input->credentials->secret_key);
    if (buf_error(&secret))
        return buf_error(&secret);
    hmac_sha256(buf_span(&secret), span_of(date, 8), ret_key);
    derive(ret_key, input->region);
    derive(ret_key, input->service);
    derive(ret_key, span_text("aws4_request"));
    return 0;
}

static void add_signature(unsigned char key[MAC_BYTES], struct span text, struct buf *out)
{
    derive(key, text);
    for (size_t i = 0; i < MAC_BYTES; i++)
        buf_addf(out, "%02x", key[i]);
}

int sign_request(const struct sign_input *input, char ret_date[17], struct buf *authorization)
{
    cleanup(secret_buf_release) struct buf canonical;
    cleanup(buf_release) struct buf text;
    unsigned char key[MAC_BYTES];
    char date[17];
    buf_init(&canonical, CANONICAL_MAX);
    buf_init(&text, CANONICAL_MAX);
    date_of(input->now_s, date);
    canonical_request(input, date, &canonical);
    buf_addf(&text, "AWS4-HMAC-SHA256\n%s\n", date);
    add_scope(input, date, &text);
    buf_add_char(&text, '\n');
    add_sha256(&text, buf_span(&canonical));
    int r = signing_key(input, date, key);
    r = r ? r : buf_error(&canonical);
    r = r ? r : buf_error(&text);
    if (r) {
        explicit_bzero(key, sizeof key);
        return r;
    }
    buf_addf(authorization, "AWS4-HMAC-SHA256 Credential=%s/", input->credentials->access_key);
    add_scope(input, date, authorization);
    buf_addf(authorization, ", SignedHeaders=%s, Signature=", signed_headers(input));
    add_signature(key, buf_span(&text), authorization);
    explicit_bzero(key, sizeof key);
    memcpy(ret_date, date, sizeof date);
    return buf_error(authorization);
}
