/* SPDX-License-Identifier: MIT */
#include "deliver/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "deliver/program.h"
#include "deliver/signature.h"
#include "net/http.h"

#define HEADER_BYTES_MAX 256
#define MS_PER_S 1000
#define CONNECT_MS 10000
#define ENVIRONMENT_MOST 8

struct caller {
    const struct table_config *config;
    struct http *http;                       /* of a URL */
    char *environment[ENVIRONMENT_MOST + 1]; /* of a program; NULL behind the last */
};

/* ---- making one ---- */

static bool add_variable(struct caller *caller, const char *name, const char *value)
{
    size_t at = 0;

    while (caller->environment[at])
        at++;
    if (at < ENVIRONMENT_MOST && asprintf(&caller->environment[at], "%s=%s", name, value) >= 0)
        return true;
    caller->environment[at] = NULL;
    return false;
}

/* Nothing of the daemon's own, where credentials may be. */
static bool make_environment(struct caller *caller)
{
    const char *home = getenv("HOME");

    return add_variable(caller, "PATH",
                        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") &&
           add_variable(caller, "HOME", home ? home : "/") &&
           add_variable(caller, "LANG", "C.UTF-8") &&
           add_variable(caller, "ITEMFS_TABLE", caller->config->name) &&
           add_variable(caller, "ITEMFS_TRIGGER", "change_stream");
}

/* http:// goes to what is near, and what is sent must not leave that. */
static bool is_plain(const struct function *function)
{
    return function->url && strncasecmp(function->url, "http://", 7) == 0;
}

struct caller *caller_new(const struct table_config *config)
{
    struct caller *caller = calloc(1, sizeof *caller);
    struct http_options options = {.ca_file = config->function_ca_file,
                                   .direct = is_plain(&config->function)};
    bool made = false;

    if (!caller)
        return NULL;
    caller->config = config;
    if (config->function.kind == FUNCTION_HTTP)
        made = (caller->http = http_new(&options)) != NULL;
    else
        made = make_environment(caller);
    if (made)
        return caller;
    caller_free(caller);
    return NULL;
}

void caller_free(struct caller *caller)
{
    if (!caller)
        return;
    http_free(caller->http);
    for (char **variable = caller->environment; *variable; variable++)
        free(*variable);
    free(caller);
}

int caller_check(const struct caller *caller, struct err *err)
{
    const struct table_config *config = caller->config;
    cleanup(buf_release) struct buf header;

    buf_init(&header, HEADER_BYTES_MAX);
    if (config->function.kind == FUNCTION_PROGRAM && access(config->function.arguments[0], X_OK))
        return err_set(err, errno, "%s: %s", config->function.arguments[0], strerror(errno));
    if (config->function_secret_file)
        return signature_header(config->function_secret_file, 0, span_of("", 0), &header, err);
    return 0;
}

/* Of a call that came to no answer. */
static enum verdict verdict_of(int code)
{
    return code == -EINTR ? VERDICT_BROKEN_OFF : VERDICT_FAILED;
}

/* ---- a URL ---- */

static int make_signature(const struct caller *caller, struct span body, struct buf *header,
                          struct err *err)
{
    const char *secret_file = caller->config->function_secret_file;

    return secret_file ? signature_header(secret_file, clock_now_s(), body, header, err) : 0;
}

static int post(struct caller *caller, struct span body, cancelled_fn cancelled,
                const void *context, struct http_response *response, struct err *err)
{
    cleanup(buf_release) struct buf signature;
    int timeout_ms = (int)(caller->config->function_timeout * MS_PER_S) + 1;

    buf_init(&signature, HEADER_BYTES_MAX);
    int code = make_signature(caller, body, &signature, err);
    if (code < 0)
        return code;
    const char *const headers[] = {"Content-Type: application/json", signature.data, NULL};
    struct http_request request = {.method = "POST",
                                   .url = caller->config->function.url,
                                   .headers = headers,
                                   .body = body,
                                   .connect_ms = CONNECT_MS,
                                   .timeout_ms = timeout_ms,
                                   .keep = REPLY_BYTES_MAX,
                                   .cancelled = cancelled,
                                   .cancelled_context = context};
    return http_perform(caller->http, &request, response, NULL, err);
}

static void call_url(struct caller *caller, struct span body, cancelled_fn cancelled,
                     const void *context, struct outcome *outcome)
{
    cleanup(http_response_release) struct http_response response;
    struct err why = {""};

    http_response_init(&response);
    int code = post(caller, body, cancelled, context, &response, &why);
    if (code < 0)
        *outcome = (struct outcome){.verdict = verdict_of(code), .why = why};
    else
        reply_judge(response.status, response.retry_after_s, buf_span(&response.body), outcome);
}

/* ---- a program ---- */

static void log_complaint(void *context, const char *line)
{
    const struct caller *caller = context;

    log_always(LOG_LEVEL_INFO, "function", "table %s, %s: %s", caller->config->name,
               caller->config->function.shown, line);
}

static void call_program(struct caller *caller, struct span body, cancelled_fn cancelled,
                         const void *context, struct outcome *outcome)
{
    const struct table_config *config = caller->config;
    struct program program = {
        .arguments = config->function.arguments,
        .environment = caller->environment,
        .input = body,
        .timeout_ns = (int64_t)(config->function_timeout * (double)NS_PER_S),
        .cancelled = cancelled,
        .cancelled_context = context,
        .line = log_complaint,
        .context = caller,
    };

    *outcome = (struct outcome){.verdict = VERDICT_TAKEN};
    int code = program_run(&program, &outcome->why);
    if (code < 0)
        outcome->verdict = verdict_of(code);
}

void caller_call(struct caller *caller, struct span body, cancelled_fn cancelled,
                 const void *context, struct outcome *ret_outcome)
{
    if (caller->http)
        call_url(caller, body, cancelled, context, ret_outcome);
    else
        call_program(caller, body, cancelled, context, ret_outcome);
}
