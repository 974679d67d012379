/* SPDX-License-Identifier: MIT */
/* Credentials that a container's surroundings serve (ECS, EKS, Greengrass): a GET of the URL that
 * the environment names, with a token from a file or the environment. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"

#define CONTAINER_HOST "http://169.254.170.2"
#define CONTAINER_MS 2000
#define TRIES 3
#define PAUSE_MS 500

struct container_provider {
    struct provider provider; /* first */
    struct http *http;
    char *url;
    char *token_file, *token; /* one of them, or none */
};

/* ---- the URL ---- */

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The token goes to nobody but this machine, and the addresses that are the surroundings' own. */
static bool may_have_token(const char *host)
{
    static const char *const known[] = {"169.254.170.2", "169.254.170.23", "fd00:ec2::23",
                                        "localhost"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(host, known[i]) == 0)
            return true;
    return is_loopback(host);
}

/* Copies the host of http://HOST[:PORT][/...]; false for what is no such URL. */
static bool host_of(const char *url, char *host, size_t size)
{
    if (strncasecmp(url, "http://", 7) != 0)
        return false;
    const char *begin = url + 7;
    size_t len = strcspn(begin, "/?#");
    if (memchr(begin, '@', len) || memchr(begin, '\\', len))
        return false;
    if (begin[0] == '[') {
        begin++;
        len = strcspn(begin, "]");
        if (begin[len] != ']' || (begin[len + 1] && !strchr(":/?#", begin[len + 1])))
            return false;
    } else {
        len = strcspn(begin, ":/?#");
    }
    if (len == 0 || len >= size)
        return false;
    memcpy(host, begin, len);
    host[len] = '\0';
    return true;
}

static int check_url(const char *url, struct err *err)
{
    char host[256];
    for (const char *at = url; *at; at++)
        if (!isgraph((unsigned char)*at))
            return err_set(err, EINVAL, "AWS_CONTAINER_CREDENTIALS_FULL_URI is no URL");
    if (strncasecmp(url, "https://", 8) == 0)
        return 0;
    if (host_of(url, host, sizeof host) && may_have_token(host))
        return 0;
    return err_set(err, EINVAL,
                   "AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, or name this "
                   "machine, 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
}

static int container_url(char **ret_url, struct err *err)
{
    const char *path = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *url = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    int r = 0;
    if (path && path[0] != '/')
        return err_set(err, EINVAL, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with /");
    if (!path)
        r = check_url(url, err);
    if (r < 0)
        return r;
    *ret_url = text_format("%s%s", path ? CONTAINER_HOST : "", path ? path : url);
    return *ret_url ? 0 : err_set(err, ENOMEM, "no memory");
}

/* ---- the request ---- */

/* The line "Authorization: TOKEN", or NULL where there is no token. The file is read each time. */
static int authorization(const struct container_provider *self, char **ret_line, struct err *err)
{
    cleanup(secret_buf_release) struct buf text = {0};
    const char *token = self->token;
    int r = 0;
    if (self->token_file) {
        r = file_read(self->token_file, SECRET_BYTES_MAX, &text, err);
        while (r == 0 && text.len && isspace((unsigned char)text.data[text.len - 1]))
            buf_resize(&text, text.len - 1);
        token = text.len ? text.data : NULL;
    }
    if (r < 0)
        return err_set(err, r == -ENOMEM ? ENOMEM : EACCES, "no token");
    if (self->token_file && !token)
        return err_set(err, EACCES, "%s: is empty", self->token_file);
    for (const char *at = token; at && *at; at++)
        if (iscntrl((unsigned char)*at))
            return err_set(err, EACCES, "the authorization token has more than one line");
    *ret_line = token ? text_format("Authorization: %s", token) : NULL;
    return !token || *ret_line ? 0 : err_set(err, ENOMEM, "no memory");
}

static int fetch_container(struct provider *provider, struct credentials *ret_credentials,
                           struct err *err)
{
    const struct container_provider *self = (const struct container_provider *)provider;
    cleanup_secret char *line = NULL;
    int r = authorization(self, &line, err);
    if (r < 0)
        return r;
    cleanup(secret_response_release) struct http_response response;
    const char *const headers[] = {"Accept: application/json", line, NULL};
    const struct http_request request = {.method = "GET",
                                         .url = self->url,
                                         .headers = headers,
                                         .connect_ms = CONTAINER_MS,
                                         .timeout_ms = CONTAINER_MS};
    r = provider_ask(self->http, &request, TRIES, PAUSE_MS, &response, err);
    if (r < 0)
        return r;
    if (response.status != 200)
        return err_set(err, response.status >= 500 ? EIO : EACCES, "the answer is HTTP %ld",
                       response.status);
    return credentials_from_json(buf_span(&response.body), &names_metadata, ret_credentials, err);
}

static void free_container(struct provider *provider)
{
    struct container_provider *self = (struct container_provider *)provider;
    free(self->url);
    free(self->token_file);
    secret_free(self->token);
    provider_discard(provider);
}

static const struct provider_ops container_ops = {.fetch = fetch_container, .free = free_container};

/* A copy of TEXT, which may be NULL; false without memory. */
static bool copy_text(const char *text, char **copy)
{
    *copy = text ? strdup(text) : NULL;
    return !text || *copy;
}

int link_container(struct chain *chain, struct provider **ret_provider, struct err *err)
{
    const char *file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (!environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") &&
        !environment("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
        return 0;
    struct container_provider *self = provider_new(sizeof *self, &container_ops, "container");
    if (!self)
        return err_set(err, ENOMEM, "no memory");
    self->http = chain->http;
    int r = container_url(&self->url, err);
    if (r == 0 &&
        (!copy_text(file, &self->token_file) || !copy_text(file ? NULL : token, &self->token)))
        r = err_set(err, ENOMEM, "no memory");
    if (r < 0) {
        provider_free(&self->provider);
        return r;
    }
    *ret_provider = &self->provider;
    return 1;
}
