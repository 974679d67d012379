/* SPDX-License-Identifier: MIT */
/* HTTP/1.1 requests over kept connections. The one user of libcurl. */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/err.h"
#include "base/span.h"

#define HTTP_CONNECT_MS 3000
#define HTTP_REQUEST_MS 10000
#define HTTP_BODY_MAX (64u << 20) /* bytes of an answer; more is -EIO */
#define HTTP_IDLE_S 20            /* a connection idle for longer is not used again */

/* A pool of connections; safe for any number of threads, each of which gets one of its own. */
struct http;

struct http_options {
    const char *ca_file; /* the only certificates to trust; NULL: the system's. Certificates are
                            always verified. */
    bool direct;         /* never through a proxy */
};
/* NULL when memory ran out. */
struct http *http_new(const struct http_options *options);
void http_free(struct http *http); /* accepts NULL; no request may be under way */
/* Connections opened so far, those that failed included. */
uint64_t http_connections(const struct http *http);

struct http_request {
    const char *method; /* "GET", "POST", "PUT" */
    const char *url;
    const char *const *headers; /* "Name: value", NULL at the end; may be NULL */
    struct span body;
    int connect_ms, timeout_ms; /* 0: HTTP_CONNECT_MS, HTTP_REQUEST_MS */
    bool fresh;  /* over a new connection, which is closed afterwards: a kept one may turn out to be
                    closed only when the request has gone, and then nobody knows what became of it */
    size_t keep; /* bytes of the answer's body that are of interest: the rest is read and thrown
                    away, less than HTTP_BODY_MAX. 0: all, HTTP_BODY_MAX at most */
    cancelled_fn cancelled; /* may be NULL; asked at least every 200 ms: -EINTR */
    const void *cancelled_context;
};

/* What of an answer's headers matters here; "" or 0 where absent. */
struct http_response {
    long status;
    struct buf body;        /* without chunks or compression; none is asked for */
    char request_id[80];    /* x-amzn-requestid */
    char crc32[16];         /* x-amz-crc32 */
    char date[40];          /* Date */
    int64_t retry_after_ms; /* x-amz-retry-after; -1: absent */
    int64_t retry_after_s;  /* Retry-After, also where it is a date; 0: absent */
};
void http_response_init(struct http_response *response);
void http_response_release(struct http_response *response);

/*
 * One request, one answer: 0 with any HTTP status; what ret_response held before is released. Else
 * -EHOSTUNREACH (no name, no connection, also not in time; certificate refused), -ETIMEDOUT (no
 * answer, or not all of it), -EINTR (cancelled), -EIO (the connection broke, the answer is no HTTP
 * or too large), -EINVAL (no URL, a header with a line break), -ENOMEM.
 *
 * The request is sent at most once: libcurl's own second sending is refused, and the caller
 * decides. ret_sent (may be NULL), set in any case: the request may have reached the server.
 *
 * Redirects are not followed; unless `direct`, hosts that are not local are reached through the
 * proxy that the environment names (https_proxy, http_proxy, all_proxy, no_proxy); no "Expect:";
 * "Accept-Encoding: identity". Nothing of headers or bodies is logged or in a message.
 */
int http_perform(struct http *http, const struct http_request *request,
                 struct http_response *ret_response, bool *ret_sent, struct err *err);

#endif
