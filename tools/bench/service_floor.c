/* SPDX-License-Identifier: MIT */
/*
 * The floor of a DynamoDB-compatible service: signed requests in a bare libcurl loop, answers
 * thrown away, so that a benchmark can tell what the service and libcurl cost from what itemfs
 * costs.
 *
 * usage: service_floor get|put TABLE COUNT     items k0000000.. of the key "id", one after another
 *        service_floor scan TABLE SEGMENTS     the whole table, a thread for each segment
 * Prints seconds. Takes AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION.
 */
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/dynamodb/sign.h"
#include "base/clock.h"

#define BODY_MAX (64u << 20)
#define KEYS 100000

struct loop {
    CURL *easy;
    struct buf answer;
    const char *table;
    int number, total;
    pthread_t thread;
};

static size_t take(char *data, size_t size, size_t count, void *context)
{
    buf_add(context, data, size * count);
    return size * count;
}

__attribute__((noreturn)) static void die(const char *what)
{
    fprintf(stderr, "service_floor: %s\n", what);
    exit(1);
}

static char *setting(const char *name)
{
    char *value = getenv(name);
    if (!value)
        die(name);
    return value;
}

static void loop_init(struct loop *loop)
{
    loop->easy = curl_easy_init();
    buf_init(&loop->answer, BODY_MAX);
    curl_easy_setopt(loop->easy, CURLOPT_URL, setting("AWS_ENDPOINT_URL"));
    curl_easy_setopt(loop->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(loop->easy, CURLOPT_WRITEDATA, &loop->answer);
    curl_easy_setopt(loop->easy, CURLOPT_NOSIGNAL, 1L);
}

static struct curl_slist *headers_of(const char *target, const struct buf *body)
{
    const struct credentials credentials = {setting("AWS_ACCESS_KEY_ID"),
                                            setting("AWS_SECRET_ACCESS_KEY"), NULL, 0};
    struct buf text;
    char line[256], date[17];
    buf_init(&text, 4096);
    buf_add_text(&text, "Authorization: ");
    const struct sign_input input = {.credentials = &credentials,
                                     .region = span_text(setting("AWS_REGION")),
                                     .service = span_text("dynamodb"),
                                     .host =
                                         span_text(strstr(setting("AWS_ENDPOINT_URL"), "://") + 3),
                                     .target = span_text(target),
                                     .body = buf_span(body),
                                     .now_s = clock_now_s()};
    sign_request(&input, date, &text);
    buf_add_char(&text, '\0');
    struct curl_slist *headers = curl_slist_append(NULL, text.data);
    snprintf(line, sizeof line, "X-Amz-Date: %s", date);
    headers = curl_slist_append(headers, line);
    snprintf(line, sizeof line, "X-Amz-Target: %s", target);
    headers = curl_slist_append(headers, line);
    headers = curl_slist_append(headers, "Content-Type: " SIGN_CONTENT_TYPE);
    headers = curl_slist_append(headers, "Expect:");
    buf_release(&text);
    return headers;
}

static void call(struct loop *loop, const char *operation, const struct buf *body)
{
    char target[64];
    long status = 0;
    snprintf(target, sizeof target, "DynamoDB_20120810.%s", operation);
    struct curl_slist *headers = headers_of(target, body);
    buf_clear(&loop->answer);
    curl_easy_setopt(loop->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(loop->easy, CURLOPT_POSTFIELDS, body->data);
    curl_easy_setopt(loop->easy, CURLOPT_POSTFIELDSIZE, (long)body->len);
    if (curl_easy_perform(loop->easy) != CURLE_OK ||
        curl_easy_getinfo(loop->easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200)
        die(operation);
    curl_slist_free_all(headers);
}

static void run_items(struct loop *loop, bool put, int count)
{
    struct buf body;
    buf_init(&body, 1 << 20);
    for (int i = 0; i < count; i++) {
        int key = (int)((long long)i * 7919 % KEYS);
        buf_clear(&body);
        buf_addf(&body, "{\"TableName\":\"%s\",", loop->table);
        if (put)
            buf_addf(&body,
                     "\"Item\":{\"id\":{\"S\":\"k%07d\"},\"v\":{\"N\":\"%d\"},\"pad\":{\"S\":\"%"
                     "0250d\"}}}",
                     key, i, 0);
        else
            buf_addf(&body, "\"Key\":{\"id\":{\"S\":\"k%07d\"}},\"ConsistentRead\":true}", key);
        call(loop, put ? "PutItem" : "GetItem", &body);
    }
    buf_release(&body);
}

/* The key to go on behind: an object of one attribute. */
static bool last_key(const struct buf *answer, struct buf *after)
{
    static const char name[] = "\"LastEvaluatedKey\":";
    const char *at = memmem(answer->data, answer->len, name, strlen(name));
    if (!at)
        return false;
    at += strlen(name);
    const char *end = memmem(at, answer->len - (size_t)(at - answer->data), "}}", 2);
    buf_clear(after);
    buf_add(after, at, (size_t)(end - at) + 2);
    return true;
}

static void *run_segment(void *argument)
{
    struct loop *loop = argument;
    struct buf body, after;
    buf_init(&body, 1 << 20);
    buf_init(&after, 1 << 20);
    loop_init(loop);
    do {
        buf_clear(&body);
        buf_addf(&body, "{\"TableName\":\"%s\",\"ConsistentRead\":true", loop->table);
        if (loop->total > 1)
            buf_addf(&body, ",\"Segment\":%d,\"TotalSegments\":%d", loop->number, loop->total);
        if (after.len) {
            buf_add_text(&body, ",\"ExclusiveStartKey\":");
            buf_add_span(&body, buf_span(&after));
        }
        buf_add_char(&body, '}');
        call(loop, "Scan", &body);
    } while (last_key(&loop->answer, &after));
    buf_release(&body);
    buf_release(&after);
    buf_release(&loop->answer);
    curl_easy_cleanup(loop->easy);
    return NULL;
}

static void run_scan(const char *table, int segments)
{
    struct loop *loops = calloc((size_t)segments, sizeof *loops);
    for (int i = 0; i < segments; i++) {
        loops[i] = (struct loop){.table = table, .number = i, .total = segments};
        if (pthread_create(&loops[i].thread, NULL, run_segment, &loops[i]))
            die("no thread");
    }
    for (int i = 0; i < segments; i++)
        pthread_join(loops[i].thread, NULL);
    free(loops);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("see the head of service_floor.c");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int64_t begin = clock_steady_ns();
    if (strcmp(argv[1], "scan") == 0) {
        run_scan(argv[2], atoi(argv[3]));
    } else {
        struct loop loop = {.table = argv[2]};
        loop_init(&loop);
        run_items(&loop, strcmp(argv[1], "put") == 0, atoi(argv[3]));
        curl_easy_cleanup(loop.easy);
        buf_release(&loop.answer);
    }
    printf("%.6f\n", (double)(clock_steady_ns() - begin) / NS_PER_S);
    return 0;
}
