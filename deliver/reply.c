/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "deliver/outcome.h"

#define SHOWN_BYTES_MAX 200
#define WAIT_S_MAX 86400

static bool is_error_name(const struct json_token *token)
{
    cleanup(buf_release) struct buf name;

    buf_init(&name, REPLY_BYTES_MAX);
    if (token->kind != JSON_NAME || token->depth != 1)
        return false;
    json_unescape(token->raw, &name);
    return span_equal(buf_span(&name), span_text("error"));
}

/* Reads the document to its end, or to where it is none any more. ret_error is the value of its
 * member "error" that was begun last, empty where it has none. */
static int find_error(struct json_reader *reader, struct span *ret_error)
{
    struct json_token token;
    int code = json_next(reader, &token, NULL);

    if (code == 0 && token.kind != JSON_OBJECT)
        return -EINVAL;
    while (code == 0 && token.kind != JSON_END) {
        code = json_next(reader, &token, NULL);
        if (code == 0 && is_error_name(&token)) {
            *ret_error = span_text("...");
            code = json_skip(reader, ret_error, NULL);
        }
    }
    return code;
}

/* The handler's error in BODY; empty: it tells of none. What is no JSON object tells of nothing,
 * but of one that is too large to be looked at to its end counts what was seen. */
static int error_of(struct span body, struct span *ret_error)
{
    struct json_reader *reader = json_reader_new(body);
    struct span error = span_of(NULL, 0);
    int code = reader ? find_error(reader, &error) : -ENOMEM;

    json_reader_free(reader);
    if (code && body.len < REPLY_BYTES_MAX)
        error = span_of(NULL, 0);
    if (span_equal(error, span_text("null")) || span_equal(error, span_text("false")))
        error = span_of(NULL, 0);
    *ret_error = error;
    return code == -ENOMEM ? code : 0;
}

/* Of a status that says that all is well. */
static void judge_body(struct span body, struct outcome *outcome)
{
    struct span error = span_of(NULL, 0);
    int code = body.len ? error_of(body, &error) : 0;

    if (code == 0 && error.len == 0)
        return;
    outcome->verdict = VERDICT_FAILED;
    if (code)
        err_set(&outcome->why, -code, "no memory to read the reply");
    else
        err_set(&outcome->why, 0, "the handler's error: %.*s%s",
                (int)(error.len < SHOWN_BYTES_MAX ? error.len : SHOWN_BYTES_MAX), error.data,
                error.len <= SHOWN_BYTES_MAX ? "" : "...");
}

void reply_judge(long status, int64_t retry_after_s, struct span body, struct outcome *ret_outcome)
{
    struct outcome outcome = {.verdict = VERDICT_TAKEN};

    if (retry_after_s > 0)
        outcome.wait_ns = (retry_after_s < WAIT_S_MAX ? retry_after_s : WAIT_S_MAX) * NS_PER_S;
    if (status >= 200 && status < 300) {
        judge_body(body, &outcome);
    } else {
        bool refused = status >= 300 && status < 500 && status != 429;
        outcome.verdict = refused ? VERDICT_REFUSED : VERDICT_FAILED;
        err_set(&outcome.why, 0, "HTTP status %ld", status);
    }
    *ret_outcome = outcome;
}
