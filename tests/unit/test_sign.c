/* SPDX-License-Identifier: MIT */
/* Signatures against those that botocore makes (vectors/make_sigv4.py). */
#include "backend/dynamodb/sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/reply.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "tests/check.h"

static int cases_seen;

/* A text member of CASE, in a buffer to be released. */
static struct buf member(struct span text, const char *name)
{
    struct buf value;
    buf_init(&value, 1 << 20);
    reply_text(text, name, &value);
    return value;
}

static void check_case(struct span text, const struct sign_input *input)
{
    cleanup(buf_release) struct buf name = member(text, "name");
    cleanup(buf_release) struct buf want_date = member(text, "date");
    cleanup(buf_release) struct buf want = member(text, "authorization");
    cleanup(buf_release) struct buf got;
    char date[17] = "";
    buf_init(&got, 1 << 20);
    check_int(sign_request(input, date, &got), 0);
    if (!span_equal(buf_span(&got), buf_span(&want)))
        check_fail("%s", name.data);
    check_span(buf_span(&got), buf_span(&want));
    check_span(span_text(date), buf_span(&want_date));
}

static int run_case(void *context, struct span text)
{
    cleanup(buf_release) struct buf access_key = member(text, "access_key");
    cleanup(buf_release) struct buf secret_key = member(text, "secret_key");
    cleanup(buf_release) struct buf token = member(text, "session_token");
    cleanup(buf_release) struct buf region = member(text, "region");
    cleanup(buf_release) struct buf service = member(text, "service");
    cleanup(buf_release) struct buf host = member(text, "host");
    cleanup(buf_release) struct buf type = member(text, "content_type");
    cleanup(buf_release) struct buf target = member(text, "target");
    cleanup(buf_release) struct buf body = member(text, "body");
    const struct credentials keys = {access_key.data, secret_key.data, token.data, 0};
    struct sign_input input = {.credentials = &keys,
                               .region = buf_span(&region),
                               .service = buf_span(&service),
                               .host = buf_span(&host),
                               .content_type = buf_span(&type),
                               .target = buf_span(&target),
                               .body = buf_span(&body),
                               .now_s = (int64_t)reply_number(text, "now")};
    (void)context;
    cases_seen++;
    check_case(text, &input);
    if (span_equal(input.content_type, span_text(SIGN_CONTENT_TYPE))) {
        input.content_type = span_of(NULL, 0);
        check_case(text, &input);
    }
    return 0;
}

static void test_vectors(void)
{
    cleanup(buf_release) struct buf text;
    FILE *file = fopen(TEST_DATA "/vectors/sigv4.json", "rb");
    char chunk[4096];
    size_t got;
    buf_init(&text, 1 << 20);
    check(file != NULL);
    while (file && (got = fread(chunk, 1, sizeof chunk, file)) > 0)
        buf_add(&text, chunk, got);
    if (file)
        fclose(file);
    check_int(json_check(buf_span(&text), NULL, NULL), 0);
    reply_each(buf_span(&text), run_case, NULL);
    check_int(cases_seen, 24);
}

static const struct credentials keys = {(char *)"AK", (char *)"secret", (char *)"token", 17};

/* What is there already stays; where there is no room, nothing is told. */
static void test_append(void)
{
    cleanup(buf_release) struct buf out;
    cleanup(buf_release) struct buf small;
    const struct sign_input input = {.credentials = &keys,
                                     .region = span_text("eu-west-1"),
                                     .service = span_text("dynamodb"),
                                     .host = span_text("localhost"),
                                     .target = span_text("T")};
    char date[17];
    buf_init(&out, 1000);
    buf_add_text(&out, "Authorization: ");
    check_int(sign_request(&input, date, &out), 0);
    check_text(span_of(out.data, 37), "Authorization: AWS4-HMAC-SHA256 Crede");
    buf_init(&small, 60);
    check_int(sign_request(&input, date, &small), -EFBIG);
}

static void test_far_dates(void)
{
    cleanup(buf_release) struct buf out;
    struct sign_input input = {.credentials = &keys, .now_s = INT64_C(1) << 40};
    char date[17];
    buf_init(&out, 1000);
    check_int(sign_request(&input, date, &out), 0);
    check_text(span_text(date), "19700101T000000Z");
    input.now_s = INT64_MAX;
    check_int(sign_request(&input, date, &out), 0);
    check_int(strlen(date), 16);
}

static void test_copy(void)
{
    struct credentials copy = {0};
    check_int(credentials_copy(&keys, &copy), 0);
    check(copy.access_key != keys.access_key && copy.secret_key != keys.secret_key &&
          copy.session_token != keys.session_token);
    check_text(span_text(copy.access_key), "AK");
    check_text(span_text(copy.secret_key), "secret");
    check_text(span_text(copy.session_token), "token");
    check_int(copy.expires_s, 17);
    credentials_release(&copy);
    check(!copy.access_key && !copy.secret_key && !copy.session_token && !copy.expires_s);
    const struct credentials plain = {(char *)"AK", (char *)"secret", NULL, 0};
    check_int(credentials_copy(&plain, &copy), 0);
    check(!copy.session_token);
    credentials_release(&copy);
    credentials_release(&copy);
}

CHECK_MAIN(CHECK_TEST(test_vectors), CHECK_TEST(test_append), CHECK_TEST(test_far_dates),
           CHECK_TEST(test_copy))
