/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/crc32.h"
#include "base/json.h"

void answer_error_init(struct answer_error *error)
{
    error->type[0] = '\0';
    buf_init(&error->message, ANSWER_MESSAGE_MAX);
}

void answer_error_release(struct answer_error *error)
{
    buf_release(&error->message);
}

/* Names of the protocol are plain words: one with escapes is none that we know. */
static void take_type(struct span raw, char type[ANSWER_TYPE_MAX])
{
    const char *colon = raw.len ? memchr(raw.data, ':', raw.len) : NULL;
    if (colon)
        raw.len = (size_t)(colon - raw.data);
    const char *hash = raw.len ? memrchr(raw.data, '#', raw.len) : NULL;
    if (hash)
        raw = span_from(raw, (size_t)(hash + 1 - raw.data));
    snprintf(type, ANSWER_TYPE_MAX, "%.*s", (int)raw.len, raw.len ? raw.data : "");
}

/* The member NAME with its value, which is next. */
static int take_member(struct json_reader *reader, struct span name, struct answer_error *error)
{
    bool type = span_equal(name, span_text("__type"));
    bool message = span_equal(name, span_text("message")) || span_equal(name, span_text("Message"));
    struct json_token value;
    struct span raw;

    int code = json_skip(reader, &raw, NULL);
    if (code || raw.data[0] != '"' || !(type || message))
        return code;
    value.raw = span_of(raw.data + 1, raw.len - 2);
    if (type) {
        take_type(value.raw, error->type);
        return 0;
    }
    buf_clear(&error->message);
    json_unescape(value.raw, &error->message);
    if (buf_error(&error->message) == -ENOMEM)
        return -ENOMEM;
    if (buf_error(&error->message))
        buf_clear(&error->message);
    return 0;
}

int answer_error_read(struct span body, struct answer_error *ret_error)
{
    struct json_token token;
    struct json_reader *reader = json_reader_new(body);
    if (!reader)
        return -ENOMEM;
    int code = json_next(reader, &token, NULL);
    if (code == 0 && token.kind == JSON_OBJECT)
        code = json_next(reader, &token, NULL);
    while (code == 0 && token.kind == JSON_NAME) {
        code = take_member(reader, token.raw, ret_error);
        if (code == 0)
            code = json_next(reader, &token, NULL);
    }
    json_reader_free(reader);
    return code == -ENOMEM ? code : 0;
}

static const struct {
    const char *type;
    int code;
} codes[] = {
    {"ResourceNotFoundException", ENOENT},
    {"TableNotFoundException", ENOENT},
    {"IndexNotFoundException", ENOENT},
    {"ConditionalCheckFailedException", EEXIST},
    {"TableAlreadyExistsException", EEXIST},
    {"TableInUseException", EBUSY},
    {"RequestEntityTooLarge", EFBIG},
    {"RequestEntityTooLargeException", EFBIG},
    {"SerializationException", EINVAL},
    {"ItemCollectionSizeLimitExceededException", ENOSPC},
    {"LimitExceededException", EDQUOT},
    {"Throttling", EBUSY},
    {"ThrottlingException", EBUSY},
    {"ThrottledException", EBUSY},
    {"RequestThrottled", EBUSY},
    {"RequestThrottledException", EBUSY},
    {"TooManyRequestsException", EBUSY},
    {"ProvisionedThroughputExceededException", EBUSY},
    {"RequestLimitExceeded", EBUSY},
    {"SlowDown", EBUSY},
    {"TransactionInProgressException", EBUSY},
    {"PriorRequestNotComplete", EBUSY},
    {"ReplicatedWriteConflictException", EBUSY},
    {"TransactionConflictException", EBUSY},
    {"TransactionCanceledException", ECANCELED},
    {"ExpiredIteratorException", ESTALE},
    {"TrimmedDataAccessException", ESTALE},
    {"AccessDenied", EACCES},
    {"AccessDeniedException", EACCES},
    {"AuthFailure", EACCES},
    {"ExpiredToken", EACCES},
    {"ExpiredTokenException", EACCES},
    {"IncompleteSignature", EACCES},
    {"IncompleteSignatureException", EACCES},
    {"InvalidClientTokenId", EACCES},
    {"InvalidSignature", EACCES},
    {"InvalidSignatureException", EACCES},
    {"MissingAuthenticationToken", EACCES},
    {"MissingAuthenticationTokenException", EACCES},
    {"NotAuthorized", EACCES},
    {"OptInRequired", EACCES},
    {"RequestExpired", EACCES},
    {"RequestInTheFuture", EACCES},
    {"RequestTimeTooSkewed", EACCES},
    {"SignatureDoesNotMatch", EACCES},
    {"UnrecognizedClientException", EACCES},
    {"UnknownOperationException", EOPNOTSUPP},
    {"UnknownOperation", EOPNOTSUPP},
    {"RequestTimeout", ETIMEDOUT},
    {"RequestTimeoutException", ETIMEDOUT},
};

/* What ValidationException says, where it says one of these. */
static const struct {
    const char *words;
    int code;
} hints[] = {
    {"item size", EFBIG},
    {"size of hashkey", ENAMETOOLONG},
    {"size of rangekey", ENAMETOOLONG},
    {"size of all range keys", ENAMETOOLONG},
    {"attribute name is too large", ENAMETOOLONG},
    {"member must have length less than or equal to", ENAMETOOLONG},
    {"at most 255 characters", ENAMETOOLONG},
    {"number overflow", ERANGE},
    {"number underflow", ERANGE},
    {"38 significant digits", ERANGE},
    {"protected against deletion", EPERM},
    {"deletion protection", EPERM},
};

/* MESSAGE may hold NUL; the words do not. */
static bool says(struct span message, const char *words)
{
    size_t len = strlen(words);
    for (size_t at = 0; at + len <= message.len; at++)
        if (strncasecmp(message.data + at, words, len) == 0)
            return true;
    return false;
}

static int validation_errno(struct span message)
{
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (says(message, hints[i].words))
            return -hints[i].code;
    return -EINVAL;
}

static int status_errno(long status)
{
    switch (status) {
    case 400: return -EINVAL;
    case 401:
    case 403: return -EACCES;
    case 408: return -ETIMEDOUT;
    case 413: return -EFBIG;
    case 429: return -EBUSY;
    default: return -EIO;
    }
}

int answer_errno(const char *operation, long status, const char *type, struct span message)
{
    if (strcmp(type, "ValidationException") == 0)
        return validation_errno(message);
    if (strcmp(type, "ResourceInUseException") == 0)
        return strcmp(operation, "CreateTable") == 0 ? -EEXIST : -EBUSY;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(type, codes[i].type) == 0)
            return -codes[i].code;
    if (type[0] != '\0' && status >= 400 && status < 500)
        return status == 413 ? -EFBIG : -EINVAL;
    return status_errno(status);
}

bool answer_denies(const char *type)
{
    static const char *const types[] = {"AccessDeniedException", "AccessDenied", "NotAuthorized"};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

bool answer_intact(const char *header, struct span body)
{
    if (header[0] == '\0')
        return true;
    char text[16];
    snprintf(text, sizeof text, "%lu", (unsigned long)crc32_of(body));
    return strcmp(text, header) == 0;
}

int answer_check_object(struct span body)
{
    size_t at = 0;
    while (at < body.len && strchr(" \t\r\n", body.data[at]) && body.data[at] != '\0')
        at++;
    if (at == body.len || body.data[at] != '{')
        return -EINVAL;
    return json_check(body, NULL, NULL);
}

int answer_date(const char *header, int64_t *ret_s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    char month[4], zone[4];
    int end = 0;

    sscanf(header, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d %3[A-Z]%n", &tm.tm_mday, month,
           &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, zone, &end);
    if (end == 0 || header[end] != '\0' || strcmp(zone, "GMT") != 0)
        return -EINVAL;
    const char *found = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (!found || (found - months) % 3 != 0)
        return -EINVAL;
    if (tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
        tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60 || tm.tm_year < 1970)
        return -EINVAL;
    tm.tm_mon = (int)(found - months) / 3;
    tm.tm_year -= 1900;
    *ret_s = timegm(&tm);
    return 0;
}
