/* SPDX-License-Identifier: MIT */
/* Calls of STS, the service that gives credentials for roles: a POSTed form, an answer in XML. Of
 * XML only what these answers consist of is understood: elements that hold text, five entities. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/answer.h"
#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"

#define FORM_TYPE "application/x-www-form-urlencoded; charset=utf-8"
#define VERSION "2011-06-15"
#define TRIES 3
#define PAUSE_MS 100
#define SKEW_S 300
#define AUTHORIZATION_MAX 4096
#define TEXT_MAX (16u << 10) /* of an element of an answer */

int sts_settle(struct chain *chain, struct sts *ret_sts, struct err *err)
{
    const char *region;
    *ret_sts = (struct sts){.http = chain->http, .now_s = chain->hooks.now_s};
    int r = chain_region(chain, &region, err);
    if (r == 0 && !(ret_sts->region = strdup(region)))
        r = err_set(err, ENOMEM, "no memory");
    if (r == 0)
        r = service_endpoint(chain, &aws_sts, region, &ret_sts->endpoint, err);
    return r;
}

void sts_release(struct sts *sts)
{
    free(sts->endpoint);
    free(sts->region);
    *sts = (struct sts){0};
}

/* ---- the form ---- */

void form_add(struct buf *form, const char *name, struct span value)
{
    buf_addf(form, "&%s=", name);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.data[i];
        if ((byte < 0x80 && isalnum(byte)) || memchr("-._~", byte, 4))
            buf_add_char(form, (char)byte);
        else
            buf_addf(form, "%%%02X", byte);
    }
}

void sts_form(const struct sts *sts, const char *action, const char *role_arn,
              const char *session_name, struct buf *form)
{
    char usual[40];
    snprintf(usual, sizeof usual, "itemfs-%lld", (long long)sts->now_s());
    buf_addf(form, "Action=%s&Version=%s", action, VERSION);
    form_add(form, "RoleArn", span_text(role_arn));
    form_add(form, "RoleSessionName", span_text(session_name ? session_name : usual));
}

/* ---- the answer ---- */

/* What stands between the first <NAME> and the </NAME> behind it; false where there is no such. */
static bool xml_element(struct span xml, const char *name, struct span *ret_inside)
{
    char begin_tag[64], end_tag[64];
    snprintf(begin_tag, sizeof begin_tag, "<%s>", name);
    snprintf(end_tag, sizeof end_tag, "</%s>", name);
    const char *begin = xml.len ? memmem(xml.data, xml.len, begin_tag, strlen(begin_tag)) : NULL;
    if (!begin)
        return false;
    begin += strlen(begin_tag);
    size_t left = xml.len - (size_t)(begin - xml.data);
    const char *end = memmem(begin, left, end_tag, strlen(end_tag));
    if (end)
        *ret_inside = span_of(begin, (size_t)(end - begin));
    return end != NULL;
}

/* Appends the character that the entity at the beginning of TEXT stands for; its length. What is
 * none of the five stays as it is. */
static size_t add_entity(struct span text, struct buf *out)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
        size_t len = strlen(entities[i].name);
        if (text.len >= len && memcmp(text.data, entities[i].name, len) == 0) {
            buf_add_char(out, entities[i].c);
            return len;
        }
    }
    buf_add_char(out, text.data[0]);
    return 1;
}

/* The text of the first element NAME of XML, to be freed; NULL where there is none. */
static int xml_text(struct span xml, const char *name, char **ret_text, struct err *err)
{
    cleanup(secret_buf_release) struct buf out = {0};
    struct span inside;
    *ret_text = NULL;
    if (!xml_element(xml, name, &inside))
        return 0;
    if (secret_buf_init(&out, TEXT_MAX) < 0)
        return err_set(err, ENOMEM, "no memory");
    while (inside.len)
        inside = span_from(inside, add_entity(inside, &out));
    if (buf_error(&out))
        return err_set(err, EIO, "%s in the answer is too long", name);
    *ret_text = strndup(out.data ? out.data : "", out.len);
    return *ret_text ? 0 : err_set(err, ENOMEM, "no memory");
}

static int read_expiration(struct span xml, int64_t *ret_s, struct err *err)
{
    cleanup_free char *text = NULL;
    int r = xml_text(xml, "Expiration", &text, err);
    if (r == 0 && (!text || !time_parse(span_text(text), ret_s)))
        r = err_set(err, EIO, "there is no Expiration in the answer");
    return r;
}

static int read_credentials(struct span answer, struct credentials *ret_credentials,
                            struct err *err)
{
    struct credentials found = {0};
    struct span xml;
    if (!xml_element(answer, "Credentials", &xml))
        return err_set(err, EIO, "there are no Credentials in the answer");
    int r = xml_text(xml, "AccessKeyId", &found.access_key, err);
    if (r == 0)
        r = xml_text(xml, "SecretAccessKey", &found.secret_key, err);
    if (r == 0)
        r = xml_text(xml, "SessionToken", &found.session_token, err);
    if (r == 0)
        r = read_expiration(xml, &found.expires_s, err);
    if (r == 0 && (!found.access_key || !found.secret_key || !found.session_token))
        r = err_set(err, EIO, "the Credentials in the answer are not complete");
    if (r < 0)
        credentials_release(&found);
    else
        *ret_credentials = found;
    return r;
}

/* Sets the message for a refusal. What the service says is not shown where it could repeat what was
 * signed: that holds the session token. */
static int read_refusal(const struct http_response *response, bool *ret_expired, struct err *err)
{
    cleanup_free char *code = NULL;
    cleanup_free char *message = NULL;
    struct span answer = buf_span(&response->body);
    int r = xml_text(answer, "Code", &code, err);
    if (r == 0)
        r = xml_text(answer, "Message", &message, err);
    if (r < 0)
        return r;
    int errno_of = response->status >= 500 ? EIO : EACCES;
    if (!code)
        return err_set(err, errno_of, "STS gives HTTP %ld", response->status);
    if (ret_expired)
        *ret_expired = strncmp(code, "ExpiredToken", 12) == 0;
    if (!message || strcmp(code, "SignatureDoesNotMatch") == 0)
        return err_set(err, errno_of, "STS refuses: %s", code);
    return err_set(err, errno_of, "STS refuses: %s: %s", code, message);
}

/* ---- the call ---- */

struct sts_headers {
    char *lines[5]; /* NULL at the end */
};

static void headers_release(struct sts_headers *headers)
{
    for (size_t i = 0; i < sizeof headers->lines / sizeof headers->lines[0]; i++)
        secret_free(headers->lines[i]);
}

static int add_line(struct sts_headers *headers, const char *name, const char *value)
{
    char **line = headers->lines;
    while (*line)
        line++;
    *line = text_format("%s: %s", name, value);
    return *line ? 0 : -ENOMEM;
}

static int sign_headers(const struct sts *sts, struct span form, const struct credentials *signer,
                        int64_t now_s, struct sts_headers *headers)
{
    cleanup(buf_release) struct buf authorization;
    char date[17];
    const struct sign_input input = {.credentials = signer,
                                     .region = span_text(sts->region),
                                     .service = span_text("sts"),
                                     .host = endpoint_host(sts->endpoint),
                                     .content_type = span_text(FORM_TYPE),
                                     .body = form,
                                     .now_s = now_s};
    buf_init(&authorization, AUTHORIZATION_MAX);
    int r = sign_request(&input, date, &authorization);
    if (r == 0)
        r = add_line(headers, "X-Amz-Date", date);
    if (r == 0 && signer->session_token)
        r = add_line(headers, "X-Amz-Security-Token", signer->session_token);
    return r ? r : add_line(headers, "Authorization", authorization.data);
}

static int post(const struct sts *sts, struct span form, const struct credentials *signer,
                int64_t now_s, struct http_response *ret_response, struct err *err)
{
    cleanup(headers_release) struct sts_headers headers = {{NULL}};
    cleanup_free char *url = text_format("%s/", sts->endpoint);
    int r = add_line(&headers, "Content-Type", FORM_TYPE);
    http_response_init(ret_response);
    if (r == 0 && signer)
        r = sign_headers(sts, form, signer, now_s, &headers);
    if (r < 0 || !url)
        return err_set(err, r < 0 ? -r : ENOMEM, "the request cannot be made");
    const struct http_request request = {
        .method = "POST", .url = url, .headers = (const char *const *)headers.lines, .body = form};
    return provider_ask(sts->http, &request, TRIES, PAUSE_MS, ret_response, err);
}

/* Whether a signature was refused since our clock is wrong: what the service's clock says. */
static bool is_skewed(const struct http_response *response, int64_t now_s, int64_t *ret_now_s)
{
    return (response->status == 400 || response->status == 403) &&
           answer_date(response->date, ret_now_s) == 0 && llabs(*ret_now_s - now_s) >= SKEW_S;
}

int sts_call(const struct sts *sts, const struct buf *form, const struct credentials *signer,
             struct credentials *ret_credentials, bool *ret_expired, struct err *err)
{
    cleanup(secret_response_release) struct http_response response;
    int64_t now_s = sts->now_s(), their_now_s;
    http_response_init(&response);
    if (buf_error(form))
        return err_set(err, -buf_error(form), "the request cannot be made");
    int r = post(sts, buf_span(form), signer, now_s, &response, err);
    if (r == 0 && signer && is_skewed(&response, now_s, &their_now_s)) {
        secret_response_release(&response);
        r = post(sts, buf_span(form), signer, their_now_s, &response, err);
    }
    if (r < 0)
        return r;
    return response.status == 200 ? read_credentials(buf_span(&response.body), ret_credentials, err)
                                  : read_refusal(&response, ret_expired, err);
}
