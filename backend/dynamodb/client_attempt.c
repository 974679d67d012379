/* SPDX-License-Identifier: MIT */
/* One signed request, and what its answer means. */
#include <errno.h>
#include <stdio.h>

#include "backend/dynamodb/client_private.h"
#include "backend/dynamodb/secret.h"
#include "base/clock.h"
#include "base/text.h"

#define HEADERS_MAX (64 << 10) /* bytes; session tokens have a few thousand at most */
#define HEADER_COUNT 6
#define MESSAGE_SHOWN 300 /* bytes of what the service said */

void attempt_init(struct attempt *attempt)
{
    *attempt = (struct attempt){.code = 0};
    http_response_init(&attempt->response);
    answer_error_init(&attempt->error);
}

void attempt_release(struct attempt *attempt)
{
    credentials_release(&attempt->credentials);
    http_response_release(&attempt->response);
    answer_error_release(&attempt->error);
}

/* Header lines as http_perform wants them; the texts stand one behind another, each with its NUL.
 */
struct headers {
    struct buf text;
    const char *lines[HEADER_COUNT + 1];
};

static void headers_release(struct headers *headers)
{
    secret_buf_release(&headers->text);
}

static void end_header(struct buf *text)
{
    buf_add_char(text, '\0');
}

static void add_headers(struct buf *text, const struct sign_input *input, const char *date)
{
    buf_addf(text, "Host: %.*s", (int)input->host.len, input->host.data);
    end_header(text);
    buf_add_text(text, "Content-Type: application/x-amz-json-1.0");
    end_header(text);
    buf_addf(text, "X-Amz-Target: %.*s", (int)input->target.len, input->target.data);
    end_header(text);
    buf_addf(text, "X-Amz-Date: %s", date);
    end_header(text);
    if (input->credentials->session_token) {
        buf_addf(text, "X-Amz-Security-Token: %s", input->credentials->session_token);
        end_header(text);
    }
}

static int make_headers(const struct sign_input *input, struct headers *headers)
{
    char date[17];
    struct buf *text = &headers->text;
    int code = secret_buf_init(text, HEADERS_MAX);
    buf_add_text(text, "Authorization: ");
    code = code ? code : sign_request(input, date, text);
    if (code)
        return code;
    end_header(text);
    add_headers(text, input, date);
    if (buf_error(text))
        return buf_error(text);
    size_t count = 0;
    for (size_t at = 0; at < text->len; at += strlen(text->data + at) + 1)
        headers->lines[count++] = text->data + at;
    headers->lines[count] = NULL;
    return 0;
}

static int send_signed(struct client *client, const struct call *call, int timeout_ms,
                       struct attempt *attempt)
{
    cleanup(headers_release) struct headers headers = {.lines = {NULL}};
    char target[128];
    const struct endpoint *endpoint = call->streams ? &client->streams : &client->items;
    snprintf(target, sizeof target, "%s%s", endpoint->prefix, call->operation);
    attempt->signed_s = clock_now_s() + atomic_load(&client->skew_s);
    struct sign_input input = {
        .credentials = &attempt->credentials,
        .region = span_text(client->region),
        .service = span_text("dynamodb"),
        .host = span_text(endpoint->host),
        .target = span_text(target),
        .body = call->body,
        .now_s = attempt->signed_s,
    };
    int code = make_headers(&input, &headers);
    if (code)
        return err_set(&attempt->err, -code, "the request cannot be signed");
    struct http_request request = {
        .method = "POST",
        .url = endpoint->url,
        .headers = headers.lines,
        .body = call->body,
        .timeout_ms = timeout_ms,
        .fresh = call->once,
        .cancelled = cancelled_by_flag,
        .cancelled_context = call->cancelled,
    };
    atomic_fetch_add(&client->attempts, 1);
    return http_perform(client->http, &request, &attempt->response, &attempt->sent, &attempt->err);
}

static void fail(struct attempt *attempt, int code, enum retry_kind kind, bool uncertain)
{
    attempt->code = code;
    attempt->kind = kind;
    attempt->uncertain = uncertain;
}

static bool holds(struct span text, const char *secret)
{
    return secret && secret[0] != '\0' && text.len > 0 &&
           memmem(text.data, text.len, secret, strlen(secret)) != NULL;
}

/* A service that refuses a signature may say what it was made of. Then neither what it says nor the
 * body goes any further. */
static bool withhold(struct attempt *attempt)
{
    struct span text = buf_span(&attempt->error.message);
    if (!holds(text, attempt->credentials.secret_key) &&
        !holds(text, attempt->credentials.session_token))
        return false;
    secret_buf_release(&attempt->response.body);
    return true;
}

/* What is shown of a message: its first line, and not too much of it. */
static struct span shown_part(struct attempt *attempt)
{
    if (withhold(attempt))
        return span_text("what it says holds credentials, and is not shown");
    struct span text = buf_span(&attempt->error.message);
    const char *line_end = text.len ? memchr(text.data, '\n', text.len) : NULL;
    if (line_end)
        text.len = (size_t)(line_end - text.data);
    if (text.len <= MESSAGE_SHOWN)
        return text;
    text.len = MESSAGE_SHOWN;
    while (text.len > 0 && ((unsigned char)text.data[text.len] & 0xC0) == 0x80)
        text.len--;
    return text;
}

/* "ThrottlingException: Rate exceeded (request 4KBN...)", "HTTP 502" */
static void describe(struct attempt *attempt)
{
    const struct http_response *response = &attempt->response;
    struct span said = shown_part(attempt);
    char status[32];
    bool named = attempt->error.type[0] != '\0';
    bool identified = response->request_id[0] != '\0';

    snprintf(status, sizeof status, "HTTP %ld", response->status);
    err_set(&attempt->err, -attempt->code, "%s%s%.*s%s%s%s", named ? attempt->error.type : status,
            said.len ? ": " : "", (int)said.len, said.len ? said.data : "",
            identified ? " (request " : "", response->request_id, identified ? ")" : "");
}

/* An error of the service. Nothing of a request that was refused as wrong has been applied. */
static void judge_error(const struct call *call, struct attempt *attempt)
{
    long status = attempt->response.status;
    struct answer_error *error = &attempt->error;
    int code = answer_error_read(buf_span(&attempt->response.body), error);
    if (code) {
        fail(attempt, code, RETRY_NOT, true);
        return;
    }
    code = answer_errno(call->operation, status, error->type, buf_span(&error->message));
    fail(attempt, code, retry_kind_of(status, error->type), status < 400 || status >= 500);
    describe(attempt);
}

static void judge_object(struct attempt *attempt)
{
    int code = answer_check_object(buf_span(&attempt->response.body));
    if (code == 0)
        return;
    if (code == -EINVAL)
        code = err_set(&attempt->err, EIO, "the answer is not a JSON object");
    fail(attempt, code, RETRY_NOT, true);
}

static void judge_answer(const struct call *call, struct attempt *attempt)
{
    const struct http_response *response = &attempt->response;
    if (!answer_intact(response->crc32, buf_span(&response->body))) {
        fail(attempt, -EIO, RETRY_TRANSIENT, response->status < 400 || response->status >= 500);
        err_set(&attempt->err, EIO, "the answer's checksum is wrong");
    } else if (response->status == 200)
        judge_object(attempt);
    else
        judge_error(call, attempt);
}

/* No answer. */
static void judge_failure(int code, struct attempt *attempt)
{
    bool network = code == -EIO || code == -EHOSTUNREACH || code == -ETIMEDOUT;
    fail(attempt, code, network ? RETRY_TRANSIENT : RETRY_NOT, attempt->sent);
}

void attempt_run(struct client *client, const struct call *call, int timeout_ms,
                 struct attempt *attempt)
{
    int code = credential_source_get(client->credentials, &attempt->credentials, &attempt->err);
    if (code) {
        fail(attempt, code, RETRY_NOT, false);
        return;
    }
    code = send_signed(client, call, timeout_ms, attempt);
    if (code)
        judge_failure(code, attempt);
    else
        judge_answer(call, attempt);
    if (attempt->kind == RETRY_THROTTLED)
        atomic_fetch_add(&client->throttled, 1);
}
