/* SPDX-License-Identifier: MIT */
/* The texts of an export's manifests. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/layout.h"

#define ACCOUNT "000000000000"
#define MS_PER_S 1000

int layout_make_id(char ret_id[LAYOUT_ID_TEXT])
{
    uint32_t bits;

    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return -EIO;
    uint64_t ms = (uint64_t)(clock_now_ns() / (NS_PER_S / MS_PER_S)) % UINT64_C(100000000000000);
    snprintf(ret_id, LAYOUT_ID_TEXT, "%014" PRIu64 "-%08" PRIx32, ms, bits);
    return 0;
}

bool layout_is_id(const char *name)
{
    size_t digits = strspn(name, "0123456789");

    return digits == 14 && name[digits] == '-' && strlen(name) == LAYOUT_ID_TEXT - 1 &&
           strspn(name + digits + 1, "0123456789abcdef") == 8;
}

static void add_base64(struct buf *out, const unsigned char digest[MD5_BYTES])
{
    base64_encode(span_of((const char *)digest, MD5_BYTES), false, out);
}

void layout_checksum(struct span text, char ret_md5[LAYOUT_MD5_TEXT])
{
    unsigned char digest[MD5_BYTES];
    struct buf encoded;

    buf_init(&encoded, LAYOUT_MD5_TEXT);
    md5_of(text, digest);
    add_base64(&encoded, digest);
    snprintf(ret_md5, LAYOUT_MD5_TEXT, "%s", encoded.data ? encoded.data : "");
    buf_release(&encoded);
}

void layout_add_file(struct buf *out, const char *id, const char *name, uint64_t items,
                     const unsigned char digest[MD5_BYTES])
{
    unsigned char of_digest[MD5_BYTES];

    md5_of(span_of((const char *)digest, MD5_BYTES), of_digest);
    buf_addf(out, "{\"itemCount\":%" PRIu64 ",\"md5Checksum\":\"", items);
    add_base64(out, digest);
    buf_add_text(out, "\",\"etag\":\"");
    for (size_t i = 0; i < MD5_BYTES; i++)
        buf_addf(out, "%02x", of_digest[i]);
    buf_addf(out, "-1\",\"dataFileS3Key\":\"" LAYOUT_TOP "/%s/data/%s\"}\n", id, name);
}

/* "NAME":"2020-11-04T07:28:34.028Z", */
static void add_time(struct buf *out, const char *name, int64_t ms)
{
    time_t seconds = (time_t)(ms / MS_PER_S);
    struct tm utc;
    char text[32] = "";

    if (gmtime_r(&seconds, &utc))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    buf_addf(out, "\"%s\":\"%s.%03dZ\",", name, text, (int)(ms % MS_PER_S));
}

/* A string; quotes and what else a table's name may hold are escaped. */
static void add_arn(struct buf *out, const char *name, const struct layout_summary *summary,
                    const char *suffix)
{
    struct buf arn;

    buf_init(&arn, 4096);
    buf_addf(&arn, "arn:aws:dynamodb:%s:" ACCOUNT ":table/%s%s", summary->region, summary->table,
             suffix);
    buf_addf(out, "\"%s\":", name);
    json_add_string(out, buf_span(&arn));
    buf_add_char(out, ',');
    buf_release(&arn);
}

void layout_add_summary(struct buf *out, const struct layout_summary *summary)
{
    int64_t begin_ms = strtoll(summary->id, NULL, 10);
    char suffix[LAYOUT_ID_TEXT + 16];

    snprintf(suffix, sizeof suffix, "/export/%s", summary->id);
    buf_add_text(out, "{\"version\":\"" LAYOUT_VERSION "\",");
    add_arn(out, "exportArn", summary, suffix);
    add_time(out, "startTime", begin_ms);
    add_time(out, "endTime", clock_now_ns() / (NS_PER_S / MS_PER_S));
    add_arn(out, "tableArn", summary, "");
    buf_add_text(out, "\"tableId\":null,");
    add_time(out, "exportTime", begin_ms);
    buf_add_text(out, "\"s3Bucket\":null,\"s3Prefix\":null,\"s3SseAlgorithm\":null,"
                      "\"s3SseKmsKeyId\":null,");
    buf_addf(out, "\"manifestFilesS3Key\":\"" LAYOUT_TOP "/%s/" LAYOUT_FILES ".json\",",
             summary->id);
    buf_addf(out,
             "\"billedSizeBytes\":0,\"itemCount\":%" PRIu64 ",\"outputFormat\":\"" LAYOUT_FORMAT
             "\"}",
             summary->items);
}
