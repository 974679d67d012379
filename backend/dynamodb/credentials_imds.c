/* SPDX-License-Identifier: MIT */
/*
 * The instance metadata service of EC2, version 2: a token by PUT, then everything by GET with it.
 *
 * Its credentials are used on where the service is late: those that it gives with little time left
 * are counted as good for a while (botocore's way), and where it gives none, those that are held
 * (`outlasts`). DynamoDB has the last word on whether they are good.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/json.h"

#define TOKEN_PATH "/latest/api/token"
#define ROLE_PATH "/latest/meta-data/iam/security-credentials/"
#define REGION_PATH "/latest/meta-data/placement/region"
#define TOKEN_TIME "X-aws-ec2-metadata-token-ttl-seconds: 21600"
#define PAUSE_MS 100
#define TOO_LITTLE_S (15 * 60) /* left: the credentials' time is stretched */

/* ---- where it is ---- */

static int number_of(const struct chain *chain, const char *variable, const char *key, int usual,
                     int *ret_number, struct err *err)
{
    const char *text = chain_text(chain, variable, key);
    char *end;
    long number = text ? strtol(text, &end, 10) : usual;
    if (text && (*end || end == text || number < 1 || number > 3600))
        return err_set(err, EINVAL, "%s (or %s in the profile) is no number from 1 on", variable,
                       key);
    *ret_number = (int)number;
    return 0;
}

static int base_url(const struct chain *chain, char **ret_base, struct err *err)
{
    const char *set =
        chain_text(chain, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint");
    const char *mode = chain_text(chain, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                                  "ec2_metadata_service_endpoint_mode");
    bool v6 = mode && strcasecmp(mode, "ipv6") == 0;
    const char *base = set ? set : v6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
    if (mode && !v6 && strcasecmp(mode, "ipv4") != 0)
        return err_set(err, EINVAL,
                       "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is neither IPv4 nor IPv6");
    size_t len = strlen(base);
    if (len && base[len - 1] == '/')
        len--;
    *ret_base = strndup(base, len);
    return *ret_base ? 0 : err_set(err, ENOMEM, "no memory");
}

int imds_settle(const struct chain *chain, struct imds *ret_imds, struct err *err)
{
    const char *disabled = environment("AWS_EC2_METADATA_DISABLED");
    struct imds imds = {0};
    int seconds = 0;
    if (disabled && strcasecmp(disabled, "true") == 0)
        return 0;
    int r = number_of(chain, "AWS_METADATA_SERVICE_TIMEOUT", "metadata_service_timeout", 1,
                      &seconds, err);
    if (r == 0)
        r = number_of(chain, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", "metadata_service_num_attempts",
                      1, &imds.attempts, err);
    if (r == 0)
        r = base_url(chain, &imds.base, err);
    if (r < 0)
        return r;
    imds.timeout_ms = seconds * 1000;
    *ret_imds = imds;
    return 1;
}

void imds_release(struct imds *imds)
{
    free(imds->base);
    *imds = (struct imds){0};
}

/* ---- requests ---- */

static int ask(const struct imds *imds, struct http *http, const char *method, const char *path,
               const char *header, struct http_response *ret_response, struct err *err)
{
    cleanup_free char *url = text_format("%s%s", imds->base, path);
    const char *const headers[] = {header, NULL};
    http_response_init(ret_response);
    if (!url)
        return err_set(err, ENOMEM, "no memory");
    const struct http_request request = {.method = method,
                                         .url = url,
                                         .headers = headers,
                                         .connect_ms = imds->timeout_ms,
                                         .timeout_ms = imds->timeout_ms};
    int r = provider_ask(http, &request, imds->attempts, PAUSE_MS, ret_response, err);
    if (r == 0 && ret_response->status != 200)
        r = err_set(err, ret_response->status >= 500 ? EIO : EACCES, "%s gives HTTP %ld", path,
                    ret_response->status);
    return r;
}

/* The answer as one word: a token, a role's name, a region. What is anything else is an error. */
static int ask_word(const struct imds *imds, struct http *http, const char *method,
                    const char *path, const char *header, char **ret_word, struct err *err)
{
    cleanup(secret_response_release) struct http_response response;
    int r = ask(imds, http, method, path, header, &response, err);
    if (r < 0)
        return r;
    struct span word = buf_span(&response.body);
    while (word.len && isspace((unsigned char)word.data[word.len - 1]))
        word.len--;
    for (size_t i = 0; i < word.len; i++)
        if (!isgraph((unsigned char)word.data[i]) || (unsigned char)word.data[i] > 0x7E)
            return err_set(err, EIO, "the answer to %s is not one word", path);
    if (!word.len)
        return err_set(err, EIO, "the answer to %s is empty", path);
    *ret_word = strndup(word.data, word.len);
    return *ret_word ? 0 : err_set(err, ENOMEM, "no memory");
}

/* The header that all but the first request need. */
static int begin_session(const struct imds *imds, struct http *http, char **ret_header,
                         struct err *err)
{
    cleanup_secret char *token = NULL;
    int r = ask_word(imds, http, "PUT", TOKEN_PATH, TOKEN_TIME, &token, err);
    if (r < 0)
        return r;
    *ret_header = text_format("X-aws-ec2-metadata-token: %s", token);
    return *ret_header ? 0 : err_set(err, ENOMEM, "no memory");
}

int imds_region(const struct imds *imds, struct http *http, char **ret_region, struct err *err)
{
    cleanup_secret char *session = NULL;
    int r = begin_session(imds, http, &session, err);
    return r < 0 ? r : ask_word(imds, http, "GET", REGION_PATH, session, ret_region, err);
}

/* ---- credentials ---- */

struct imds_provider {
    struct provider provider; /* first */
    struct http *http;
    struct imds imds;
    int64_t (*now_s)(void);
};

/* It says "Code": "Success", or what is wrong. */
static int check_code(struct span answer, struct err *err)
{
    cleanup_free char *code = NULL;
    int r = member_text(answer, "Code", &code, err);
    if (r < 0 || !code || strcmp(code, "Success") == 0)
        return r;
    return err_set(err, EACCES, "the role's credentials are not given: %s", code);
}

static int read_answer(struct span answer, struct credentials *ret_credentials, struct err *err)
{
    struct credentials found = {0};
    struct err reason = {""};
    int r = json_check(answer, NULL, &reason);
    if (r < 0)
        return err_set(err, r == -ENOMEM ? ENOMEM : EIO, "the answer is no JSON: %s", reason.text);
    r = check_code(answer, err);
    if (r == 0)
        r = credentials_from_json(answer, &names_metadata, &found, err);
    if (r == 0 && (!found.session_token || !found.expires_s))
        r = err_set(err, EIO, "there is no Token or Expiration in the answer");
    if (r < 0)
        credentials_release(&found);
    else
        *ret_credentials = found;
    return r;
}

/* The time added is by chance, so that many machines do not come back at once. */
static void stretch(struct credentials *credentials, int64_t now_s)
{
    unsigned chance = 0;
    if (credentials->expires_s - now_s > TOO_LITTLE_S)
        return;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0)
        chance = 0;
    credentials->expires_s = now_s + TOO_LITTLE_S + 120 + (int64_t)(chance % 481);
}

static int fetch_role(const struct imds_provider *self, const char *session,
                      struct credentials *ret_credentials, struct err *err)
{
    cleanup(secret_response_release) struct http_response response;
    cleanup_free char *role = NULL;
    cleanup_free char *path = NULL;
    http_response_init(&response);
    int r = ask_word(&self->imds, self->http, "GET", ROLE_PATH, session, &role, err);
    if (r < 0)
        return r;
    path = text_format("%s%s", ROLE_PATH, role);
    if (!path)
        return err_set(err, ENOMEM, "no memory");
    r = ask(&self->imds, self->http, "GET", path, session, &response, err);
    return r < 0 ? r : read_answer(buf_span(&response.body), ret_credentials, err);
}

static int fetch_imds(struct provider *provider, struct credentials *ret_credentials,
                      struct err *err)
{
    const struct imds_provider *self = (const struct imds_provider *)provider;
    cleanup_secret char *session = NULL;
    int r = begin_session(&self->imds, self->http, &session, err);
    if (r == 0)
        r = fetch_role(self, session, ret_credentials, err);
    if (r == 0)
        stretch(ret_credentials, self->now_s());
    return r;
}

static void free_imds(struct provider *provider)
{
    imds_release(&((struct imds_provider *)provider)->imds);
    provider_discard(provider);
}

static const struct provider_ops imds_ops = {
    .fetch = fetch_imds, .free = free_imds, .outlasts = true, .optional = true};

int link_imds(struct chain *chain, struct provider **ret_provider, struct err *err)
{
    struct imds imds;
    int r = imds_settle(chain, &imds, err);
    if (r <= 0)
        return r;
    struct imds_provider *self = provider_new(sizeof *self, &imds_ops, "instance metadata");
    if (!self) {
        imds_release(&imds);
        return err_set(err, ENOMEM, "no memory");
    }
    self->http = chain->http;
    self->imds = imds;
    self->now_s = chain->hooks.now_s;
    *ret_provider = &self->provider;
    return 1;
}
