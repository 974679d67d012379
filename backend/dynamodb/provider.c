/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/provider.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/dynamodb/secret.h"
#include "base/json.h"

void *provider_new(size_t size, const struct provider_ops *ops, const char *format, ...)
{
    struct provider *provider = calloc(1, size);
    va_list args;
    if (!provider)
        return NULL;
    provider->ops = ops;
    va_start(args, format);
    if (vasprintf(&provider->name, format, args) < 0) {
        free(provider);
        provider = NULL;
    }
    va_end(args);
    return provider;
}

void provider_discard(struct provider *provider)
{
    free(provider->name);
    free(provider);
}

void provider_free(struct provider *provider)
{
    if (provider)
        provider->ops->free(provider);
}

/* ---- environment and files ---- */

char *text_format(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    return len < 0 ? NULL : text;
}

const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

char *path_expand(const char *path)
{
    struct passwd entry, *found = NULL;
    char room[4096];
    if (path[0] != '~' || (path[1] && path[1] != '/'))
        return strdup(path);
    const char *home = environment("HOME");
    if (!home && getpwuid_r(getuid(), &entry, room, sizeof room, &found) == 0 && found)
        home = entry.pw_dir;
    return text_format("%s%s", home ? home : "", path + 1);
}

/* Reads FD to its end, or beyond the maximum of TEXT; 0 or a negative errno. */
static int read_all(int fd, struct buf *text)
{
    char chunk[4096];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) != 0 && !buf_error(text)) {
        if (got > 0)
            buf_add(text, chunk, (size_t)got);
        else if (errno != EINTR)
            break;
    }
    int r = got < 0 ? -errno : buf_error(text);
    explicit_bzero(chunk, sizeof chunk);
    return r;
}

int file_read(const char *path, size_t max, struct buf *ret_text, struct err *err)
{
    struct stat found;
    int r = secret_buf_init(ret_text, max);
    int fd = r < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (r == 0 && (fd < 0 || fstat(fd, &found) < 0))
        r = -errno;
    if (r == 0)
        r = S_ISDIR(found.st_mode) ? -EISDIR : read_all(fd, ret_text);
    if (fd >= 0)
        close(fd);
    if (r == -EFBIG)
        return err_set(err, EFBIG, "%s: larger than %zu bytes", path, max);
    return r < 0 ? err_set(err, -r, "%s: %s", path, strerror(-r)) : 0;
}

/* ---- HTTP ---- */

void secret_response_release(struct http_response *response)
{
    secret_buf_release(&response->body);
    http_response_release(response);
}

static bool is_trouble(int r, const struct http_response *response)
{
    if (r < 0)
        return r == -ETIMEDOUT || r == -EHOSTUNREACH || r == -EIO;
    return response->status == 429 || response->status >= 500;
}

static void pause_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

int provider_ask(struct http *http, const struct http_request *request, int tries,
                 int first_pause_ms, struct http_response *ret_response, struct err *err)
{
    struct err reason = {""};
    http_response_init(ret_response);
    for (int try = 1;; try++) {
        err_clear(&reason);
        int r = http_perform(http, request, ret_response, NULL, &reason);
        if (try >= tries || !is_trouble(r, ret_response))
            return r < 0 ? err_set(err, -r, "%s", err_text(&reason, r)) : 0;
        secret_response_release(ret_response);
        http_response_init(ret_response);
        pause_ms((int64_t)first_pause_ms << (try - 1));
    }
}

/* ---- what answers hold ---- */

/* "Z", "UTC", nothing, "+01:00", "+0100": RET_S is the seconds to take away. */
static bool offset_parse(const char *text, int64_t *ret_s)
{
    int hours, minutes, len = 0;
    *ret_s = 0;
    if (!*text || strcmp(text, "Z") == 0 || strcmp(text, "UTC") == 0)
        return true;
    if (*text != '+' && *text != '-')
        return false;
    if (!isdigit((unsigned char)text[1]) ||
        (sscanf(text + 1, "%2d:%2d%n", &hours, &minutes, &len) < 2 &&
         sscanf(text + 1, "%2d%2d%n", &hours, &minutes, &len) < 2))
        return false;
    *ret_s = (*text == '-' ? -1 : 1) * (INT64_C(3600) * hours + INT64_C(60) * minutes);
    return text[1 + len] == '\0';
}

bool time_parse(struct span text, int64_t *ret_s)
{
    char copy[64];
    struct tm parts = {0};
    int64_t offset;
    if (text.len < 19 || text.len >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (copy[10] == ' ')
        copy[10] = 'T';
    const char *rest = strptime(copy, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!rest)
        return false;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (!offset_parse(rest, &offset))
        return false;
    *ret_s = (int64_t)timegm(&parts) - offset;
    return true;
}

const struct credential_names names_process = {"AccessKeyId", "SecretAccessKey", "SessionToken",
                                               "Expiration"};
const struct credential_names names_metadata = {"AccessKeyId", "SecretAccessKey", "Token",
                                                "Expiration"};

static void reader_release(struct json_reader **reader)
{
    json_reader_free(*reader);
}

/* Unlike reply_member, which finds nothing without memory: keys without their token must not pass
 * for keys that have none. */
int member_raw(struct span object, const char *name, struct span *ret_raw, struct err *err)
{
    cleanup(reader_release) struct json_reader *reader = json_reader_new(object);
    struct json_token token = {.kind = JSON_END};
    struct span raw;
    int r = reader ? json_next(reader, &token, NULL) : -ENOMEM;
    if (r == 0 && token.kind != JSON_OBJECT)
        return 0;
    while (r == 0 && (r = json_next(reader, &token, NULL)) == 0 && token.kind == JSON_NAME) {
        r = json_skip(reader, &raw, NULL);
        if (r == 0 && span_equal(token.raw, span_text(name))) {
            *ret_raw = raw;
            return !span_equal(raw, span_text("null"));
        }
    }
    return r == 0 ? 0
                  : err_set(err, -r, "%s", r == -ENOMEM ? "no memory" : "the answer is no JSON");
}

int member_text(struct span object, const char *name, char **ret_text, struct err *err)
{
    cleanup(secret_buf_release) struct buf value = {0};
    struct span raw;
    *ret_text = NULL;
    int r = member_raw(object, name, &raw, err);
    if (r <= 0)
        return r;
    if (raw.len < 2 || raw.data[0] != '"')
        return err_set(err, EIO, "%s in the answer is no text", name);
    if (secret_buf_init(&value, raw.len) < 0)
        return err_set(err, ENOMEM, "no memory");
    json_unescape(span_of(raw.data + 1, raw.len - 2), &value);
    if (value.len && memchr(value.data, '\0', value.len))
        return err_set(err, EIO, "%s in the answer is no text", name);
    *ret_text = strndup(value.data, value.len);
    return *ret_text ? 0 : err_set(err, ENOMEM, "no memory");
}

/* NAME may be NULL: it is told in another way. */
static int read_expiry(struct span object, const char *name, int64_t *expires_s, struct err *err)
{
    cleanup_free char *text = NULL;
    int r = name ? member_text(object, name, &text, err) : 0;
    if (r < 0 || !text || time_parse(span_text(text), expires_s))
        return r;
    return err_set(err, EIO, "%s in the answer is no time (2024-01-05T12:00:00Z)", name);
}

int credentials_from_json(struct span text, const struct credential_names *names,
                          struct credentials *ret_credentials, struct err *err)
{
    struct credentials found = {0};
    struct err reason = {""};
    int r = json_check(text, NULL, &reason);
    if (r < 0)
        return err_set(err, r == -ENOMEM ? ENOMEM : EIO, "the answer is no JSON: %s", reason.text);
    r = member_text(text, names->access_key, &found.access_key, err);
    if (r == 0)
        r = member_text(text, names->secret_key, &found.secret_key, err);
    if (r == 0)
        r = member_text(text, names->token, &found.session_token, err);
    if (r == 0)
        r = read_expiry(text, names->expires, &found.expires_s, err);
    if (r == 0 && (!found.access_key || !found.secret_key))
        r = err_set(err, EIO, "there is no %s in the answer",
                    found.access_key ? names->secret_key : names->access_key);
    if (r < 0)
        credentials_release(&found);
    else
        *ret_credentials = found;
    return r;
}

/* What may stand in a header's value: one word of printable ASCII. */
static bool is_word(const char *text)
{
    for (const char *at = text; *at; at++)
        if (!isgraph((unsigned char)*at) || (unsigned char)*at > 0x7E)
            return false;
    return *text != '\0';
}

int credentials_check(const struct credentials *credentials, struct err *err)
{
    if (!is_word(credentials->access_key))
        return err_set(err, EACCES, "the access key ID is empty, or holds what no ID can");
    if (!*credentials->secret_key)
        return err_set(err, EACCES, "the secret access key is empty");
    if (credentials->session_token && !is_word(credentials->session_token))
        return err_set(err, EACCES, "the session token is empty, or holds what no token can");
    return 0;
}
