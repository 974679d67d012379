/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/client_private.h"

#include <errno.h>
#include <stdlib.h>

#define ITEMS_PREFIX "DynamoDB_20120810."
#define STREAMS_PREFIX "DynamoDBStreams_20120810."

void outcome_init(struct outcome *outcome)
{
    *outcome = (struct outcome){.attempts = 0};
    buf_init(&outcome->body, HTTP_BODY_MAX);
}

void outcome_release(struct outcome *outcome)
{
    buf_release(&outcome->body);
}

/* The URL is SCHEME://HOST[:PORT]. HTTP, and so the signature, names the host without the port
 * where that is the scheme's own. */
static int endpoint_init(struct endpoint *endpoint, struct err *err)
{
    bool https = strncasecmp(endpoint->url, "https:", 6) == 0;
    struct span host = span_text(strstr(endpoint->url, "://") + 3);
    struct span port = span_text(https ? ":443" : ":80");
    if (host.len > port.len && span_equal(span_from(host, host.len - port.len), port))
        host.len -= port.len;
    endpoint->host = strndup(host.data, host.len);
    return endpoint->host ? 0 : err_set(err, ENOMEM, "out of memory");
}

static void endpoint_release(struct endpoint *endpoint)
{
    free(endpoint->url);
    free(endpoint->host);
}

static int client_init(struct client *client, const struct client_options *options, struct err *err)
{
    int code = endpoint_resolve(&options->credentials, client->http, &client->region,
                                &client->items.url, &client->streams.url, err);
    if (code == 0)
        code = endpoint_init(&client->items, err);
    if (code == 0)
        code = endpoint_init(&client->streams, err);
    if (code == 0)
        code =
            credential_source_open(&options->credentials, client->http, &client->credentials, err);
    return code;
}

int client_open(const struct client_options *options, struct client **ret_client, struct err *err)
{
    struct http_options http = {.ca_file = options->ca_file};
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        return err_set(err, ENOMEM, "out of memory");
    pthread_mutex_init(&client->lock, NULL);
    retry_bucket_init(&client->bucket);
    client->told_s = CLIENT_UNTOLD;
    client->items.prefix = ITEMS_PREFIX;
    client->streams.prefix = STREAMS_PREFIX;
    client->deadline_ms = options->deadline_ms ? options->deadline_ms : CLIENT_DEADLINE_MS;
    client->request_ms = options->request_ms ? options->request_ms : HTTP_REQUEST_MS;
    client->http = http_new(&http);
    int code =
        client->http ? client_init(client, options, err) : err_set(err, ENOMEM, "out of memory");
    if (code) {
        client_close(client);
        return code;
    }
    *ret_client = client;
    return 0;
}

void client_close(struct client *client)
{
    if (!client)
        return;
    credential_source_close(client->credentials);
    http_free(client->http);
    free(client->region);
    endpoint_release(&client->items);
    endpoint_release(&client->streams);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

const char *client_region(const struct client *client)
{
    return client->region;
}

const char *client_endpoint(const struct client *client)
{
    return client->items.url;
}

int64_t client_deadline_ns(const struct client *client)
{
    return client->deadline_ms * INT64_C(1000000);
}

bool client_skew(const struct client *client, int64_t *ret_seconds)
{
    *ret_seconds = atomic_load(&client->told_s);
    return *ret_seconds != CLIENT_UNTOLD;
}

void client_counts(const struct client *client, struct client_counts *ret_counts)
{
    *ret_counts = (struct client_counts){
        .calls = atomic_load(&client->calls),
        .attempts = atomic_load(&client->attempts),
        .throttled = atomic_load(&client->throttled),
        .failed = atomic_load(&client->failed),
        .connections = http_connections(client->http),
    };
}
