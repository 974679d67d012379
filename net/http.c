/* SPDX-License-Identifier: MIT */
/*
 * A slot is one of libcurl's easy handles with a multi handle of its own, which keeps connections.
 * A thread takes a slot for the time of a request from a stack of idle ones, so there are as many
 * slots as there were requests at once, and those used last are used first. What has been idle for
 * so long that its connections are of no use is freed.
 *
 * A multi handle, because curl_easy_perform looks up only once a second while nothing comes; here
 * each wait is short enough for a cancelled call to return at once.
 *
 * Sending twice. Where a kept connection is closed without an answer, libcurl sends the request
 * again over a new one, and tells nobody. But it asks before each sending (before_sending), and
 * there the second one is refused. So what is sent is counted, and a retry is always the caller's.
 */
#include "net/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#define POLL_MS 100
#define CONNECTIONS_OF_SLOT 4 /* to different hosts: the service, its streams, credentials */
#define RECEIVE_BYTES (128 << 10)
#define SOON_NS (250 * 1000)

struct slot {
    CURL *easy;
    CURLM *multi;
    struct slot *next;
    int64_t idle_since_ns;
    char *url;        /* of the last request, which the handle is set to; or NULL */
    CURLcode set;     /* the first failure of a request's settings */
    unsigned sending; /* how often this request was about to be sent */
    bool cancelled;   /* this request */
    char problem[CURL_ERROR_SIZE];
};

struct http {
    char *ca_file;
    pthread_mutex_t lock;
    struct slot *idle; /* guarded by lock; last used first */
    atomic_uint_fast64_t connections;
    bool several_processors, direct;
    atomic_bool answers_soon, looking; /* see wait_for_answer */
};

static bool curl_ready;

static void curl_start(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

struct http *http_new(const struct http_options *options)
{
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    pthread_once(&started, curl_start);
    if (!curl_ready)
        return NULL;
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return NULL;
    pthread_mutex_init(&http->lock, NULL);
    http->several_processors = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    http->direct = options->direct;
    if (options->ca_file && !(http->ca_file = strdup(options->ca_file))) {
        http_free(http);
        return NULL;
    }
    return http;
}

/* The one that holds its connections goes last. */
static void slots_free(struct slot *slot)
{
    while (slot) {
        struct slot *next = slot->next;
        curl_easy_cleanup(slot->easy);
        curl_multi_cleanup(slot->multi);
        free(slot->url);
        free(slot);
        slot = next;
    }
}

void http_free(struct http *http)
{
    if (!http)
        return;
    slots_free(http->idle);
    pthread_mutex_destroy(&http->lock);
    free(http->ca_file);
    free(http);
}

uint64_t http_connections(const struct http *http)
{
    return atomic_load(&http->connections);
}

void http_response_init(struct http_response *response)
{
    *response = (struct http_response){.retry_after_ms = -1};
    buf_init(&response->body, HTTP_BODY_MAX);
}

void http_response_release(struct http_response *response)
{
    buf_release(&response->body);
}

static int before_sending(void *context, char *peer, char *own, int peer_port, int own_port)
{
    struct slot *slot = context;
    (void)peer, (void)own, (void)peer_port, (void)own_port;
    return slot->sending++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* A buffer that holds less than HTTP_BODY_MAX is for one who wants no more. */
static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct buf *body = context;
    size_t len = size * count, room = body->max - body->len;
    buf_add(body, data, body->max < HTTP_BODY_MAX && len > room ? room : len);
    return buf_error(body) ? 0 : len;
}

/* Programs that credential_process starts get none of our connections. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)context, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void set_long(struct slot *slot, CURLoption option, long value)
{
    CURLcode code = curl_easy_setopt(slot->easy, option, value);
    slot->set = slot->set ? slot->set : code;
}

static void set_pointer(struct slot *slot, CURLoption option, const void *value)
{
    CURLcode code = curl_easy_setopt(slot->easy, option, value);
    slot->set = slot->set ? slot->set : code;
}

/* What is the same for every request. */
static void set_constants(struct slot *slot, const char *ca_file)
{
    static const struct {
        CURLoption option;
        long value;
    } constants[] = {
        {CURLOPT_NOSIGNAL, 1},
        {CURLOPT_QUICK_EXIT, 1}, /* a cancelled call does not wait for the resolver's thread */
        {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
        {CURLOPT_FOLLOWLOCATION, 0},
        {CURLOPT_DISALLOW_USERNAME_IN_URL, 1},
        {CURLOPT_SSL_VERIFYPEER, 1},
        {CURLOPT_SSL_VERIFYHOST, 2},
        {CURLOPT_TCP_NODELAY, 1},
        {CURLOPT_MAXAGE_CONN, HTTP_IDLE_S},
        {CURLOPT_BUFFERSIZE, RECEIVE_BYTES},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        set_long(slot, constants[i].option, constants[i].value);
    set_pointer(slot, CURLOPT_PROTOCOLS_STR, "http,https");
    set_pointer(slot, CURLOPT_USERAGENT, "itemfs/" ITEMFS_VERSION);
    /* What comes compressed all the same is decoded: that goes with this option. */
    set_pointer(slot, CURLOPT_ACCEPT_ENCODING, "identity");
    set_pointer(slot, CURLOPT_ERRORBUFFER, slot->problem);
    set_pointer(slot, CURLOPT_PREREQDATA, slot);
    if (ca_file) {
        set_pointer(slot, CURLOPT_CAINFO, ca_file);
        set_pointer(slot, CURLOPT_CAPATH, NULL);
    }
    if (curl_easy_setopt(slot->easy, CURLOPT_PREREQFUNCTION, before_sending) ||
        curl_easy_setopt(slot->easy, CURLOPT_WRITEFUNCTION, take_body) ||
        curl_easy_setopt(slot->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket))
        slot->set = CURLE_FAILED_INIT;
}

static struct slot *slot_new(const struct http *http)
{
    struct slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        return NULL;
    slot->easy = curl_easy_init();
    slot->multi = curl_multi_init();
    if (slot->easy && slot->multi)
        set_constants(slot, http->ca_file);
    if (!slot->easy || !slot->multi || slot->set ||
        curl_multi_setopt(slot->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_OF_SLOT)) {
        slots_free(slot);
        return NULL;
    }
    return slot;
}

/* Pops the slot used last. Those below it have been idle for longer: RET_OLD are the ones to free.
 */
static struct slot *pop_idle(struct http *http, struct slot **ret_old)
{
    scoped_lock(&http->lock);
    struct slot *slot = http->idle;
    *ret_old = NULL;
    if (!slot)
        return NULL;
    http->idle = slot->next;
    slot->next = NULL;
    struct slot *below = http->idle;
    if (below && clock_steady_ns() - below->idle_since_ns > HTTP_IDLE_S * NS_PER_S) {
        *ret_old = below;
        http->idle = NULL;
    }
    return slot;
}

static struct slot *slot_take(struct http *http)
{
    struct slot *old;
    struct slot *slot = pop_idle(http, &old);
    slots_free(old);
    return slot ? slot : slot_new(http);
}

static void slot_give(struct http *http, struct slot *slot)
{
    scoped_lock(&http->lock);
    slot->idle_since_ns = clock_steady_ns();
    slot->next = http->idle;
    http->idle = slot;
}

/* Addresses of this machine, and those at which clouds serve credentials. */
static bool is_local(const char *host)
{
    static const char *const prefixes[] = {"127.", "169.254.", "[::1]", "[fd00:ec2:"};
    size_t len = strlen(host);
    const char *tail = len > 10 ? host + len - 10 : "";
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncasecmp(host, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return strcasecmp(host, "localhost") == 0 || strcasecmp(tail, ".localhost") == 0;
}

/* "": none; NULL: that of the environment. */
static const char *proxy_for(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL;
    bool local = false;
    if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        local = is_local(host);
    curl_free(host);
    curl_url_cleanup(parts);
    return local ? "" : NULL;
}

static void set_method(struct slot *slot, const struct http_request *request)
{
    bool get = strcmp(request->method, "GET") == 0;
    bool post = strcmp(request->method, "POST") == 0;
    set_long(slot, get ? CURLOPT_HTTPGET : CURLOPT_POST, 1);
    set_pointer(slot, CURLOPT_CUSTOMREQUEST, get || post ? NULL : request->method);
    if (get)
        return;
    curl_off_t len = (curl_off_t)request->body.len;
    CURLcode code = curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDSIZE_LARGE, len);
    slot->set = slot->set ? slot->set : code;
    set_pointer(slot, CURLOPT_POSTFIELDS, len ? request->body.data : "");
}

/* Most requests have the same. */
static void set_url(const struct http *http, struct slot *slot, const char *url)
{
    if (slot->url && strcmp(slot->url, url) == 0)
        return;
    free(slot->url);
    slot->url = strdup(url);
    if (!slot->url)
        slot->set = CURLE_OUT_OF_MEMORY;
    set_pointer(slot, CURLOPT_URL, url);
    set_pointer(slot, CURLOPT_PROXY, http->direct ? "" : proxy_for(url));
    if (slot->set) { /* what it is set to now, nobody knows */
        free(slot->url);
        slot->url = NULL;
    }
}

static void set_request(const struct http *http, struct slot *slot,
                        const struct http_request *request, const struct curl_slist *headers,
                        struct buf *body)
{
    slot->set = CURLE_OK;
    slot->problem[0] = '\0';
    set_url(http, slot, request->url);
    set_pointer(slot, CURLOPT_HTTPHEADER, headers);
    set_pointer(slot, CURLOPT_WRITEDATA, body);
    set_long(slot, CURLOPT_FRESH_CONNECT, request->fresh);
    set_long(slot, CURLOPT_FORBID_REUSE, request->fresh);
    set_long(slot, CURLOPT_CONNECTTIMEOUT_MS,
             request->connect_ms ? request->connect_ms : HTTP_CONNECT_MS);
    set_long(slot, CURLOPT_TIMEOUT_MS, request->timeout_ms ? request->timeout_ms : HTTP_REQUEST_MS);
    set_method(slot, request);
}

/* Nothing of the caller's is kept. */
static void unset_request(struct slot *slot)
{
    set_pointer(slot, CURLOPT_HTTPHEADER, NULL);
    set_pointer(slot, CURLOPT_POSTFIELDS, NULL);
    set_pointer(slot, CURLOPT_WRITEDATA, NULL);
}

/* Once it is, it stays so. */
static bool look_cancelled(struct slot *slot, const struct http_request *request)
{
    slot->cancelled =
        slot->cancelled || (request->cancelled && request->cancelled(request->cancelled_context));
    return slot->cancelled;
}

static CURLcode slot_result(struct slot *slot)
{
    int left;
    CURLMsg *message = curl_multi_info_read(slot->multi, &left);
    return message && message->msg == CURLMSG_DONE ? message->data.result
                                                   : CURLE_ABORTED_BY_CALLBACK;
}

static CURLMcode look_for_answer(struct slot *slot, int64_t end_ns, int *ret_ready)
{
    CURLMcode code = CURLM_OK;
    while (code == CURLM_OK && !*ret_ready && clock_steady_ns() < end_ns)
        code = curl_multi_poll(slot->multi, NULL, 0, 0, ret_ready);
    return code;
}

/* A server that is near answers before a thread that sleeps has been woken (20 to 40 us on a
 * virtual machine). So where the last answers came at once, the next one is looked for before this
 * thread sleeps; of several one does, since the others' processors have better things to do. */
static CURLMcode wait_for_answer(struct http *http, struct slot *slot)
{
    CURLMcode code = CURLM_OK;
    int64_t begin_ns = clock_steady_ns();
    int ready = 0;
    if (atomic_load(&http->answers_soon) && !atomic_exchange(&http->looking, true)) {
        code = look_for_answer(slot, begin_ns + SOON_NS, &ready);
        atomic_store(&http->looking, false);
    }
    if (code == CURLM_OK && !ready)
        code = curl_multi_poll(slot->multi, NULL, 0, POLL_MS, NULL);
    atomic_store(&http->answers_soon,
                 http->several_processors && clock_steady_ns() - begin_ns < SOON_NS);
    return code;
}

/* CURLE_ABORTED_BY_CALLBACK: cancelled, or it was to be sent a second time. */
static CURLcode slot_run(struct http *http, struct slot *slot, const struct http_request *request)
{
    int running = 1;
    bool waited = false;
    CURLMcode code = curl_multi_add_handle(slot->multi, slot->easy);
    while (code == CURLM_OK && running && !look_cancelled(slot, request)) {
        code = curl_multi_perform(slot->multi, &running);
        if (code != CURLM_OK || !running)
            break;
        code = waited ? curl_multi_poll(slot->multi, NULL, 0, POLL_MS, NULL)
                      : wait_for_answer(http, slot);
        waited = true;
    }
    CURLcode result = slot_result(slot);
    curl_multi_remove_handle(slot->multi, slot->easy);
    if (code == CURLM_OUT_OF_MEMORY)
        return CURLE_OUT_OF_MEMORY;
    return code == CURLM_OK ? result : CURLE_RECV_ERROR;
}

static void copy_header(struct slot *slot, const char *name, char *value, size_t size)
{
    struct curl_header *header;
    value[0] = '\0';
    if (curl_easy_header(slot->easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return;
    size_t len = strlen(header->value);
    if (len < size)
        memcpy(value, header->value, len + 1);
}

static int64_t retry_after(struct slot *slot)
{
    char text[16];
    char *end;
    copy_header(slot, "x-amz-retry-after", text, sizeof text);
    if (text[0] < '0' || text[0] > '9')
        return -1;
    int64_t asked = strtoll(text, &end, 10);
    return *end == '\0' ? asked : -1;
}

/* Takes the body over. */
static void fill_response(struct slot *slot, struct buf *body, struct http_response *response)
{
    http_response_release(response);
    http_response_init(response);
    response->body = *body;
    buf_init(body, HTTP_BODY_MAX);
    curl_easy_getinfo(slot->easy, CURLINFO_RESPONSE_CODE, &response->status);
    copy_header(slot, "x-amzn-requestid", response->request_id, sizeof response->request_id);
    copy_header(slot, "x-amz-crc32", response->crc32, sizeof response->crc32);
    copy_header(slot, "date", response->date, sizeof response->date);
    response->retry_after_ms = retry_after(slot);
    curl_off_t seconds = 0;
    curl_easy_getinfo(slot->easy, CURLINFO_RETRY_AFTER, &seconds);
    response->retry_after_s = seconds;
}

static int failure_code(const struct slot *slot, CURLcode code)
{
    if (code == CURLE_OUT_OF_MEMORY)
        return ENOMEM;
    if (slot->sending)
        return code == CURLE_OPERATION_TIMEDOUT ? ETIMEDOUT : EIO;
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_LOGIN_DENIED: return EINVAL;
    default: return EHOSTUNREACH;
    }
}

static int explain(const struct slot *slot, const struct buf *body, CURLcode code, struct err *err)
{
    if (slot->cancelled)
        return err_set(err, EINTR, "interrupted");
    if (buf_error(body) == -ENOMEM)
        return err_set(err, ENOMEM, "out of memory");
    if (buf_error(body))
        return err_set(err, EIO, "the answer is larger than %u bytes", HTTP_BODY_MAX);
    if (slot->sending > 1)
        return err_set(err, EIO, "a kept connection was closed before an answer came");
    return err_set(err, failure_code(slot, code), "%s",
                   slot->problem[0] ? slot->problem : curl_easy_strerror(code));
}

static bool add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);
    if (longer)
        *headers = longer;
    return longer != NULL;
}

static int make_headers(const struct http_request *request, struct curl_slist **ret_headers,
                        struct err *err)
{
    struct curl_slist *headers = NULL;
    bool made = add_header(&headers, "Expect:") && add_header(&headers, "Accept:");
    bool broken = false;
    for (const char *const *line = request->headers; line && *line && made && !broken; line++) {
        broken = strpbrk(*line, "\r\n") != NULL;
        made = add_header(&headers, *line);
    }
    if (made && !broken) {
        *ret_headers = headers;
        return 0;
    }
    curl_slist_free_all(headers);
    return broken ? err_set(err, EINVAL, "a header has a line break")
                  : err_set(err, ENOMEM, "out of memory");
}

/* Secrets among them do not stay in freed memory. */
static void wipe_headers(struct curl_slist *headers)
{
    for (struct curl_slist *line = headers; line; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(headers);
}

static int perform(struct http *http, struct slot *slot, const struct http_request *request,
                   struct http_response *response, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct curl_slist *headers = NULL;
    long connected = 0;

    buf_init(&body, request->keep ? request->keep : HTTP_BODY_MAX);
    slot->sending = 0;
    slot->cancelled = false;
    int error = make_headers(request, &headers, err);
    if (error)
        return error;
    set_request(http, slot, request, headers, &body);
    CURLcode code = slot->set ? slot->set : slot_run(http, slot, request);
    if (curl_easy_getinfo(slot->easy, CURLINFO_NUM_CONNECTS, &connected) == CURLE_OK)
        atomic_fetch_add(&http->connections, (uint64_t)connected);
    if (code == CURLE_OK)
        fill_response(slot, &body, response);
    else
        error = explain(slot, &body, code, err);
    unset_request(slot);
    wipe_headers(headers);
    return error;
}

int http_perform(struct http *http, const struct http_request *request,
                 struct http_response *ret_response, bool *ret_sent, struct err *err)
{
    struct slot *slot = slot_take(http);
    if (ret_sent)
        *ret_sent = false;
    if (!slot)
        return err_set(err, ENOMEM, "out of memory");
    int code = perform(http, slot, request, ret_response, err);
    if (ret_sent)
        *ret_sent = slot->sending > 0;
    slot_give(http, slot);
    return code;
}
