/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/answer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/check.h"

/* "TYPE|MESSAGE" */
static void read_error(struct span body, struct buf *out)
{
    struct answer_error error;
    answer_error_init(&error);
    check_int(answer_error_read(body, &error), 0);
    buf_addf(out, "%s|", error.type);
    buf_add_span(out, buf_span(&error.message));
    answer_error_release(&error);
}

static void check_error(const char *body, const char *want)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1 << 20);
    read_error(span_text(body), &out);
    check_text(buf_span(&out), want);
}

static void test_errors(void)
{
    check_error("{\"__type\":\"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException\","
                "\"message\":\"Requested resource not found\"}",
                "ResourceNotFoundException|Requested resource not found");
    check_error("{\"Message\":\"Rate \\u0065xceeded\\n\", \"__type\" : \"ThrottlingException\"}",
                "ThrottlingException|Rate exceeded\n");
    check_error("{\"__type\":\"a#b#Name:http://internal.example/#frag\"}", "Name|");
    check_error("{\"__type\":\"Name:ns#Other\"}", "Name|");
    check_error("{\"__type\":\"ns#\",\"message\":\"\"}", "|");
    check_error("{\"__type\":\"\"}", "|");
    check_error("{\"__type\":7,\"message\":{\"message\":\"inner\"}}", "|");
    check_error("{\"__type\":null,\"message\":null}", "|");
    check_error("{\"message\":\"no type\"}", "|no type");
    check_error("{\"CancellationReasons\":[{\"Code\":\"None\",\"__type\":\"x#Inner\"}],"
                "\"Item\":{\"message\":{\"S\":\"m\"}},\"__type\":\"x#Outer\"}",
                "Outer|");
    check_error("{\"Message\":\"first\",\"message\":\"second\"}", "|second");
}

static void test_odd_bodies(void)
{
    check_error("", "|");
    check_error(" \n", "|");
    check_error("null", "|");
    check_error("[]", "|");
    check_error("[\"__type\",\"message\"]", "|");
    check_error("\"__type\"", "|");
    check_error("12", "|");
    check_error("<html><body><h1>503 Service Unavailable</h1></body></html>", "|");
    check_error("{\"__type\":\"x#Cut\",\"message\":\"and then", "Cut|");
    check_error("{\"__type\":\"x#Cut\",", "Cut|");
    check_error("{\"__type\":", "|");
    check_error("{\"__type\":\"x#Twice\",\"__type\":\"x#Again\"}", "Twice|");
    check_error("{\"message\":\"\xff\"}", "|");
    check_error(
        "{\"__type\":\"a/name/that/is/longer/than/any/that/a/service/has/ever/had/till/now\"}",
        "a/name/that/is/longer/than/any/that/a/service/has/ever/had/till|");
}

static void test_huge_bodies(void)
{
    cleanup(buf_release) struct buf body;
    cleanup(buf_release) struct buf out;
    buf_init(&body, 8 << 20);
    buf_init(&out, 1 << 20);
    buf_add_text(&body, "{\"message\":\"");
    size_t at = body.len;
    buf_resize(&body, at + ANSWER_MESSAGE_MAX);
    memset(body.data + at, 'x', ANSWER_MESSAGE_MAX);
    buf_add_text(&body, "\",\"__type\":\"Name\"}");
    read_error(buf_span(&body), &out);
    check_int(out.len, 5 + ANSWER_MESSAGE_MAX);
    buf_splice(&body, at, 0, span_text("y"));
    buf_clear(&out);
    read_error(buf_span(&body), &out);
    check_text(buf_span(&out), "Name|");

    buf_clear(&body);
    buf_resize(&body, 4 << 20);
    memset(body.data, '[', body.len);
    buf_clear(&out);
    read_error(buf_span(&body), &out);
    check_text(buf_span(&out), "|");
}

static const struct {
    const char *type;
    int code;
} names[] = {
    {"ResourceNotFoundException", ENOENT},
    {"TableNotFoundException", ENOENT},
    {"IndexNotFoundException", ENOENT},
    {"ConditionalCheckFailedException", EEXIST},
    {"TableAlreadyExistsException", EEXIST},
    {"TableInUseException", EBUSY},
    {"RequestEntityTooLarge", EFBIG},
    {"SerializationException", EINVAL},
    {"ValidationException", EINVAL},
    {"IdempotentParameterMismatchException", EINVAL},
    {"SomethingNew", EINVAL},
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
    {"RequestTimeout", ETIMEDOUT},
    {"RequestTimeoutException", ETIMEDOUT},
};

static void test_names(void)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int code = answer_errno("PutItem", 400, names[i].type, span_of(NULL, 0));
        if (code != -names[i].code)
            check_fail("%s: %d, not %d", names[i].type, code, -names[i].code);
    }
    struct span none = span_of(NULL, 0);
    check_int(answer_errno("CreateTable", 400, "ResourceInUseException", none), -EEXIST);
    check_int(answer_errno("UpdateTable", 400, "ResourceInUseException", none), -EBUSY);
    check_int(answer_errno("DeleteTable", 400, "ResourceInUseException", none), -EBUSY);
    check_int(answer_errno("PutItem", 500, "InternalServerError", none), -EIO);
    check_int(answer_errno("PutItem", 500, "InternalFailure", none), -EIO);
    check_int(answer_errno("PutItem", 503, "ThrottlingException", none), -EBUSY);
    check_int(answer_errno("PutItem", 413, "SomethingNew", none), -EFBIG);
}

static void test_status(void)
{
    static const struct {
        long status;
        int code;
    } cases[] = {
        {400, EINVAL}, {401, EACCES}, {403, EACCES}, {404, EIO}, {408, ETIMEDOUT},
        {413, EFBIG},  {429, EBUSY},  {418, EIO},    {500, EIO}, {501, EIO},
        {502, EIO},    {503, EIO},    {504, EIO},    {301, EIO}, {204, EIO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (answer_errno("PutItem", cases[i].status, "", span_text("text")) != -cases[i].code)
            check_fail("status %ld", cases[i].status);
}

static void test_validation(void)
{
    static const struct {
        const char *message;
        int code;
    } cases[] = {
        {"Item size has exceeded the maximum allowed size", EFBIG},
        {"Item size to update has exceeded the maximum allowed size", EFBIG},
        {"One or more parameter values were invalid: Size of hashkey has exceeded the maximum size "
         "limit of2048 bytes",
         ENAMETOOLONG},
        {"One or more parameter values were invalid: Aggregated size of all range keys has "
         "exceeded the size limit of 1024 bytes",
         ENAMETOOLONG},
        {"One or more parameter values were invalid: Size of rangekey has exceeded", ENAMETOOLONG},
        {"TableName must be at least 3 characters long and at most 255 characters long",
         ENAMETOOLONG},
        {"Value 'xx' at 'tableName' failed to satisfy constraint: Member must have length less "
         "than or equal to 255",
         ENAMETOOLONG},
        {"Number overflow. Attempting to store a number with magnitude larger than supported range",
         ERANGE},
        {"Number underflow. Attempting to store a number with magnitude smaller", ERANGE},
        {"Attempting to store more than 38 significant digits in a Number", ERANGE},
        {"Resource cannot be deleted as it is currently protected against deletion. Disable "
         "deletion protection first.",
         EPERM},
        {"The provided key element does not match the schema", EINVAL},
        {"", EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct span message = span_text(cases[i].message);
        if (answer_errno("PutItem", 400, "ValidationException", message) != -cases[i].code)
            check_fail("%s", cases[i].message);
        check_int(answer_errno("PutItem", 400, "Other", message), -EINVAL);
    }
    check_int(answer_errno("PutItem", 400, "ValidationException", span_of("\0number OVERFLOW", 16)),
              -ERANGE);
}

static void test_checksum(void)
{
    struct span text = span_text("123456789");
    check(answer_intact("", text));
    check(answer_intact("3421780262", text));
    check(!answer_intact("3421780263", text));
    check(!answer_intact("cbf43926", text));
    check(!answer_intact("03421780262", text));
    check(!answer_intact("3421780262 ", text));
    check(!answer_intact("7716747558", text)); /* the same in 32 bits */
    check(answer_intact("0", span_of(NULL, 0)));
}

static void test_object(void)
{
    static const struct {
        const char *body;
        int code;
    } cases[] = {
        {"{}", 0},
        {"{\"Item\":{\"id\":{\"S\":\"\\ud800\\u0000\"}}}", 0},
        {" \r\n\t{ } \n", 0},
        {"", -EINVAL},
        {"  ", -EINVAL},
        {"[]", -EINVAL},
        {"null", -EINVAL},
        {"{", -EINVAL},
        {"{}}", -EINVAL},
        {"{}{}", -EINVAL},
        {"{\"a\":1,}", -EINVAL},
        {"<html>", -EINVAL},
        {"\xef\xbb\xbf{}", -EINVAL},
        {"\x1f\x8b\x08", -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (answer_check_object(span_text(cases[i].body)) != cases[i].code)
            check_fail("\"%s\" is misjudged", cases[i].body);
    check_int(answer_check_object(span_of("\0{}", 3)), -EINVAL);
}

static void test_dates(void)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } good[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Thu, 29 Feb 2024 23:59:59 GMT", 1709251199},
        {"Mon, 30 Nov 2026 14:39:43 GMT", 1796049583},
        {"Fri, 31 Dec 2100 23:59:59 GMT", 4133980799},
    };
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT+1",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nob 1994 08:49:37 GMT",
        "Sun, 06 anF 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 No 1994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t seconds = -1;
        check_int(answer_date(good[i].text, &seconds), 0);
        check_int(seconds, good[i].seconds);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t seconds = -1;
        if (answer_date(bad[i], &seconds) != -EINVAL || seconds != -1)
            check_fail("\"%s\" is taken for %lld", bad[i], (long long)seconds);
    }
}

CHECK_MAIN(CHECK_TEST(test_errors), CHECK_TEST(test_odd_bodies), CHECK_TEST(test_huge_bodies),
           CHECK_TEST(test_names), CHECK_TEST(test_status), CHECK_TEST(test_validation),
           CHECK_TEST(test_checksum), CHECK_TEST(test_object), CHECK_TEST(test_dates))
