/* SPDX-License-Identifier: MIT */
/*
 * Shows what the credential chain finds, for test_credentials.py: a line of JSON a step.
 *
 * usage: show_credentials [--profile P] [--region R] [--endpoint URL] [--process-ms N] STEP...
 *   endpoint  region and endpoint
 *   open      finds the provider; the steps below need it
 *   get       credentials to sign with; of secret and token, the digests
 *   threads   gets of 8 threads at once: one line, with the number of different results
 *   expired   tells that those of the last get were refused as expired
 *   +N        the clock goes on by N seconds
 *   pause     waits for a line on standard input
 *   failing   finds the provider, gets credentials and the endpoint again and again, each time with
 *             another allocation that fails, and counts what comes of it
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/provider.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/credentials/failing.h"

#define THREADS 8

static int64_t added_s;

static int64_t now_s(void)
{
    return clock_now_s() + added_s;
}

struct show {
    struct credential_options options;
    struct chain_hooks hooks;
    struct http *http;
    struct credential_source *source;
    struct credentials last;
};

static void add_text(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, "%s\"%s\": ", out->len > 1 ? ", " : "", name);
    if (value)
        json_add_string(out, span_text(value));
    else
        buf_add_text(out, "null");
}

static void add_digest(struct buf *out, const char *name, const char *secret)
{
    char hex[65];
    sha256_hex(span_text(secret), hex);
    add_text(out, name, secret ? hex : NULL);
}

static void begin_line(struct buf *out)
{
    buf_init(out, 1 << 16);
    buf_add_char(out, '{');
}

static void end_line(struct buf *out)
{
    printf("%s}\n", out->data);
    fflush(stdout);
    buf_release(out);
}

static void say_error(int r, const struct err *err)
{
    struct buf out;
    begin_line(&out);
    add_text(&out, "error", strerrorname_np(-r));
    add_text(&out, "message", err->text);
    end_line(&out);
}

static void show_endpoint(struct show *show)
{
    struct err err = {""};
    char *region = NULL, *endpoint = NULL, *streams = NULL;
    struct buf out;
    int r = endpoint_resolve(&show->options, show->http, &region, &endpoint, &streams, &err);
    if (r < 0) {
        say_error(r, &err);
        return;
    }
    begin_line(&out);
    add_text(&out, "region", region);
    add_text(&out, "endpoint", endpoint);
    add_text(&out, "streams", streams);
    end_line(&out);
    free(region);
    free(endpoint);
    free(streams);
}

static void show_open(struct show *show)
{
    struct err err = {""};
    struct buf out;
    int r = credential_source_open_hooked(&show->options, show->http, &show->hooks, &show->source,
                                          &err);
    if (r < 0) {
        say_error(r, &err);
        return;
    }
    begin_line(&out);
    add_text(&out, "source", credential_source_name(show->source));
    end_line(&out);
}

static void show_get(struct show *show)
{
    struct credentials got = {0};
    struct err err = {""};
    struct buf out;
    int r = credential_source_get(show->source, &got, &err);
    if (r < 0) {
        say_error(r, &err);
        return;
    }
    begin_line(&out);
    add_text(&out, "access_key", got.access_key);
    add_digest(&out, "secret", got.secret_key);
    add_digest(&out, "token", got.session_token);
    buf_addf(&out, ", \"expires\": %lld", (long long)got.expires_s);
    end_line(&out);
    credentials_release(&show->last);
    show->last = got;
}

static void *get_in_thread(void *context)
{
    struct credentials got = {0};
    if (credential_source_get(context, &got, NULL) < 0)
        return NULL;
    char *key = strdup(got.access_key);
    credentials_release(&got);
    return key;
}

static void show_threads(struct show *show)
{
    pthread_t threads[THREADS];
    void *keys[THREADS];
    int different = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, get_in_thread, show->source);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &keys[i]);
    for (int i = 0; i < THREADS; i++) {
        int seen = 0;
        while (!text_equal(keys[seen], keys[i]))
            seen++;
        different += seen == i;
    }
    printf("{\"different\": %d, \"failed\": %s}\n", different, keys[0] ? "false" : "true");
    for (int i = 0; i < THREADS; i++)
        free(keys[i]);
}

/* All of it once. */
static int find_all(struct show *show, struct credentials *ret_got, struct err *err)
{
    struct credential_source *source = NULL;
    char *region = NULL, *endpoint = NULL, *streams = NULL;
    int r = credential_source_open_hooked(&show->options, show->http, &show->hooks, &source, err);
    if (r == 0)
        r = credential_source_get(source, ret_got, err);
    if (r == 0)
        r = endpoint_resolve(&show->options, show->http, &region, &endpoint, &streams, err);
    free(region);
    free(endpoint);
    free(streams);
    credential_source_close(source);
    return r;
}

static bool same(const struct credentials *a, const struct credentials *b)
{
    return text_equal(a->access_key, b->access_key) && text_equal(a->secret_key, b->secret_key) &&
           text_equal(a->session_token, b->session_token) && a->expires_s == b->expires_s;
}

static void show_failing(struct show *show)
{
    struct credentials right = {0};
    struct err other = {""};
    unsigned no_memory = 0, good = 0, wrong = 0;
    bool reached = true;
    if (find_all(show, &right, &other) < 0)
        reached = false;
    for (long count = 0; reached; count++) {
        struct credentials got = {0};
        struct err err = {""};
        failing_begin(count);
        int r = find_all(show, &got, &err);
        reached = failing_end();
        no_memory += r == -ENOMEM;
        good += r == 0 && same(&got, &right);
        wrong += r == 0 && !same(&got, &right);
        if (r < 0 && r != -ENOMEM)
            err_set(&other, -r, "%ld: %s", count, err.text);
        credentials_release(&got);
    }
    struct buf out;
    begin_line(&out);
    buf_addf(&out, "\"no_memory\": %u, \"good\": %u, \"wrong\": %u", no_memory, good, wrong);
    add_text(&out, "other", other.text);
    end_line(&out);
    credentials_release(&right);
}

static bool step(struct show *show, const char *name)
{
    char line[16];
    if (*name == '+')
        added_s += atol(name + 1);
    else if (strcmp(name, "endpoint") == 0)
        show_endpoint(show);
    else if (strcmp(name, "open") == 0)
        show_open(show);
    else if (strcmp(name, "failing") == 0)
        show_failing(show);
    else if (strcmp(name, "pause") == 0)
        return fgets(line, sizeof line, stdin) != NULL;
    else if (!show->source)
        return strcmp(name, "get") == 0; /* it could not be opened: that has been said */
    else if (strcmp(name, "get") == 0)
        show_get(show);
    else if (strcmp(name, "threads") == 0)
        show_threads(show);
    else if (strcmp(name, "expired") == 0)
        credential_source_expired(show->source, &show->last);
    else
        return false;
    return true;
}

static bool option(struct show *show, const char *name, const char *value)
{
    if (strcmp(name, "--profile") == 0)
        show->options.profile = value;
    else if (strcmp(name, "--region") == 0)
        show->options.region = value;
    else if (strcmp(name, "--endpoint") == 0)
        show->options.endpoint = value;
    else if (strcmp(name, "--process-ms") == 0)
        show->hooks.process_ms = atoi(value);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    const struct http_options http_options = {0};
    struct show show = {.hooks = {now_s, 60000}, .http = http_new(&http_options)};
    bool good = show.http != NULL;
    int i = 1;
    while (good && i + 1 < argc && argv[i][0] == '-' && argv[i][1] == '-') {
        good = option(&show, argv[i], argv[i + 1]);
        i += 2;
    }
    for (; good && i < argc; i++)
        good = step(&show, argv[i]);
    if (!good)
        fprintf(stderr, "show_credentials: it goes wrong at %s\n", i < argc ? argv[i] : "the end");
    credentials_release(&show.last);
    credential_source_close(show.source);
    http_free(show.http);
    return good ? 0 : 2;
}
