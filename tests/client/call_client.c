/* SPDX-License-Identifier: MIT */
/*
 * Makes calls for test_client.py.
 *
 * usage: call_client [--ca FILE] [--deadline MS] [--request MS] [--profile NAME] [--debug]
 *
 * Reads one job a line: {"operation": TEXT, "body": TEXT, "once": BOOL, "count": N, "threads": N,
 * "cancel": BOOL, "waited": MS}; N threads make N calls each, which count as begun MS ago, and
 * where "cancel" says so, the next line (an empty one) cancels them all. Answers one line a job:
 * how many calls came to which errno, sums, and the last call in full.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/client.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#define THREADS_MAX 64
#define CODES_MAX 200

struct job {
    struct client *client;
    struct buf operation, body;
    bool once, cancel;
    long count, threads, waited_ms;
    atomic_bool cancelled;
    pthread_mutex_t lock; /* guards what follows */
    unsigned codes[CODES_MAX];
    unsigned attempts, repeated, uncertain;
    struct buf last; /* members of a JSON object */
};

static void add_text(struct buf *out, const char *name, struct span text)
{
    buf_addf(out, ", \"%s\": ", name);
    json_add_string(out, text);
}

static void note(struct job *job, int code, const struct outcome *outcome, const struct err *err)
{
    scoped_lock(&job->lock);
    job->codes[-code]++;
    job->attempts += outcome->attempts;
    job->repeated += outcome->repeated;
    job->uncertain += outcome->uncertain;
    buf_clear(&job->last);
    add_text(&job->last, "body", buf_span(&outcome->body));
    add_text(&job->last, "type", span_text(outcome->type));
    add_text(&job->last, "request_id", span_text(outcome->request_id));
    add_text(&job->last, "message", span_text(err->text));
}

static void *make_calls(void *context)
{
    struct job *job = context;
    struct call call = {
        .operation = job->operation.data,
        .body = buf_span(&job->body),
        .once = job->once,
        .cancelled = &job->cancelled,
        .begun_ns = job->waited_ms ? clock_steady_ns() - job->waited_ms * INT64_C(1000000) : 0,
    };
    cleanup(outcome_release) struct outcome outcome;
    outcome_init(&outcome);
    for (long i = 0; i < job->count; i++) {
        struct err err = {""};
        int code = client_call(job->client, &call, &outcome, &err);
        note(job, code, &outcome, &err);
    }
    return NULL;
}

static void run(struct job *job)
{
    pthread_t threads[THREADS_MAX];
    for (long i = 0; i < job->threads; i++)
        if (pthread_create(&threads[i], NULL, make_calls, job))
            abort();
    if (job->cancel) {
        while (getchar() != '\n')
            continue;
        atomic_store(&job->cancelled, true);
    }
    for (long i = 0; i < job->threads; i++)
        pthread_join(threads[i], NULL);
}

static void print_counts(struct client *client)
{
    struct client_counts counts;
    client_counts(client, &counts);
    printf("\"counts\": {\"calls\": %llu, \"attempts\": %llu, \"throttled\": %llu, \"failed\": "
           "%llu, \"connections\": %llu}",
           (unsigned long long)counts.calls, (unsigned long long)counts.attempts,
           (unsigned long long)counts.throttled, (unsigned long long)counts.failed,
           (unsigned long long)counts.connections);
}

static void report(struct job *job)
{
    const char *comma = "";
    printf("{\"codes\": {");
    for (int code = 0; code < CODES_MAX; code++)
        if (job->codes[code] > 0) {
            printf("%s\"%s\": %u", comma, code ? strerrorname_np(code) : "0", job->codes[code]);
            comma = ", ";
        }
    printf("}, \"attempts\": %u, \"repeated\": %u, \"uncertain\": %u%s, ", job->attempts,
           job->repeated, job->uncertain, job->last.data);
    print_counts(job->client);
    printf("}\n");
    fflush(stdout);
}

/* The client could not be opened. */
static void report_refusal(int code, const struct err *err)
{
    cleanup(buf_release) struct buf text;
    buf_init(&text, 1 << 20);
    add_text(&text, "message", span_text(err->text));
    printf("{\"codes\": {\"%s\": 1}%s}\n", strerrorname_np(-code), text.data);
}

static void take_member(struct job *job, const char *name, const struct json_token *value)
{
    long number = value->kind == JSON_NUMBER ? strtol(value->raw.data, NULL, 10) : 0;
    if (strcmp(name, "operation") == 0)
        json_unescape(value->raw, &job->operation);
    else if (strcmp(name, "body") == 0)
        json_unescape(value->raw, &job->body);
    else if (strcmp(name, "once") == 0)
        job->once = value->kind == JSON_TRUE;
    else if (strcmp(name, "count") == 0)
        job->count = number;
    else if (strcmp(name, "waited") == 0)
        job->waited_ms = number;
    else if (strcmp(name, "threads") == 0)
        job->threads = number < THREADS_MAX ? number : THREADS_MAX;
    else if (strcmp(name, "cancel") == 0)
        job->cancel = value->kind == JSON_TRUE;
    else
        abort();
}

static void parse(struct job *job, struct span line)
{
    struct json_reader *reader = json_reader_new(line);
    struct json_token token;
    char name[32];
    if (!reader || json_next(reader, &token, NULL) || token.kind != JSON_OBJECT)
        abort();
    while (json_next(reader, &token, NULL) == 0 && token.kind == JSON_NAME) {
        snprintf(name, sizeof name, "%.*s", (int)token.raw.len, token.raw.data);
        if (json_next(reader, &token, NULL))
            abort();
        take_member(job, name, &token);
    }
    json_reader_free(reader);
}

static void do_line(struct client *client, struct span line)
{
    struct job job = {.client = client, .count = 1, .threads = 1};
    pthread_mutex_init(&job.lock, NULL);
    buf_init(&job.operation, 128);
    buf_init(&job.body, 64 << 20);
    buf_init(&job.last, 256 << 20);
    parse(&job, line);
    run(&job);
    report(&job);
    buf_release(&job.operation);
    buf_release(&job.body);
    buf_release(&job.last);
    pthread_mutex_destroy(&job.lock);
}

static void take_options(int argc, char **argv, struct client_options *options)
{
    static const struct option names[] = {
        {"ca", required_argument, NULL, 'c'},      {"deadline", required_argument, NULL, 'd'},
        {"request", required_argument, NULL, 'r'}, {"profile", required_argument, NULL, 'p'},
        {"debug", no_argument, NULL, 'v'},         {0},
    };
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;)
        switch (option) {
        case 'c': options->ca_file = optarg; break;
        case 'd': options->deadline_ms = strtol(optarg, NULL, 10); break;
        case 'r': options->request_ms = (int)strtol(optarg, NULL, 10); break;
        case 'p': options->credentials.profile = optarg; break;
        case 'v': log_open("call_client", stderr, LOG_LEVEL_DEBUG); break;
        default: exit(2);
        }
}

int main(int argc, char **argv)
{
    struct client_options options = {.ca_file = NULL};
    struct client *client;
    struct err err = {""};
    char *line = NULL;
    size_t size = 0;
    ssize_t len;

    take_options(argc, argv, &options);
    int code = client_open(&options, &client, &err);
    if (code) {
        report_refusal(code, &err);
        return 1;
    }
    while ((len = getline(&line, &size, stdin)) > 0)
        do_line(client, span_of(line, (size_t)len));
    free(line);
    client_close(client);
    return 0;
}
