/* SPDX-License-Identifier: MIT */
/* A role of IAM Identity Center (once AWS SSO): the token of who is logged in is exchanged for the
 * role's credentials. A profile says whose and which, itself or by way of an sso-session. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/json.h"

#define TRIES 3
#define PAUSE_MS 100
#define QUERY_MAX 4096

struct sso_provider {
    struct provider provider; /* first */
    struct sso sso;
    char *url; /* with role and account */
};

static const struct credential_names names_sso = {"accessKeyId", "secretAccessKey", "sessionToken",
                                                  NULL};

void sso_release(struct sso *sso)
{
    free(sso->session);
    free(sso->start_url);
    free(sso->region);
    free(sso->oidc_endpoint);
    *sso = (struct sso){0};
}

/* ---- fetching ---- */

static int read_role(struct span role, struct credentials *found, struct err *err)
{
    struct span expiration;
    int r = credentials_from_json(role, &names_sso, found, err);
    if (r == 0)
        r = member_raw(role, "expiration", &expiration, err);
    if (r < 0)
        return r;
    if (r > 0 && expiration.len <= 18)
        found->expires_s = strtoll(expiration.data, NULL, 10) / 1000;
    return found->expires_s ? 0 : err_set(err, EIO, "expiration in the answer is no time");
}

/* {"roleCredentials": {..., "expiration": MILLISECONDS}} */
static int read_answer(struct span answer, struct credentials *ret_credentials, struct err *err)
{
    struct credentials found = {0};
    struct err reason = {""};
    struct span role;
    int r = json_check(answer, NULL, &reason);
    if (r < 0)
        return err_set(err, r == -ENOMEM ? ENOMEM : EIO, "the answer is no JSON: %s", reason.text);
    r = member_raw(answer, "roleCredentials", &role, err);
    if (r == 0)
        r = err_set(err, EIO, "there are no roleCredentials in the answer");
    if (r > 0)
        r = read_role(role, &found, err);
    if (r < 0)
        credentials_release(&found);
    else
        *ret_credentials = found;
    return r;
}

static int read_refusal(const struct http_response *response, struct err *err)
{
    cleanup_free char *message = NULL;
    struct span answer = buf_span(&response->body);
    if (response->status == 401)
        return err_set(err, EACCES, "the login is not valid any more: run aws sso login");
    if (json_check(answer, NULL, NULL) == 0)
        member_text(answer, "message", &message, NULL);
    return err_set(err, response->status >= 500 ? EIO : EACCES, "SSO gives HTTP %ld%s%s",
                   response->status, message ? ": " : "", message ? message : "");
}

static int fetch_sso(struct provider *provider, struct credentials *ret_credentials,
                     struct err *err)
{
    const struct sso_provider *self = (const struct sso_provider *)provider;
    cleanup(secret_response_release) struct http_response response;
    cleanup_secret char *token = NULL;
    cleanup_secret char *line = NULL;
    http_response_init(&response);
    int r = sso_token(&self->sso, &token, err);
    if (r < 0)
        return r;
    line = text_format("x-amz-sso_bearer_token: %s", token);
    if (!line)
        return err_set(err, ENOMEM, "no memory");
    const char *const headers[] = {line, NULL};
    const struct http_request request = {.method = "GET", .url = self->url, .headers = headers};
    r = provider_ask(self->sso.http, &request, TRIES, PAUSE_MS, &response, err);
    if (r < 0)
        return r;
    return response.status == 200 ? read_answer(buf_span(&response.body), ret_credentials, err)
                                  : read_refusal(&response, err);
}

static void free_sso(struct provider *provider)
{
    struct sso_provider *self = (struct sso_provider *)provider;
    sso_release(&self->sso);
    free(self->url);
    provider_discard(provider);
}

static const struct provider_ops sso_ops = {.fetch = fetch_sso, .free = free_sso};

/* ---- settings ---- */

struct sso_settings {
    const char *session; /* NULL: none */
    const char *account, *role, *start_url, *region;
};

/* A setting of the session, if there is one, or the profile; both may have it when they agree. */
static int setting(const struct chain *chain, const char *profile, const char *session,
                   const char *key, const char **ret_value, struct err *err)
{
    const char *own = profile_get(chain->profiles, profile, key);
    const char *shared =
        session ? profiles_get(chain->profiles, PROFILE_SSO, session, key, NULL) : NULL;
    if (own && shared && strcmp(own, shared) != 0)
        return err_set(err, EINVAL, "%s differs between the profile \"%s\" and its sso-session",
                       key, profile);
    *ret_value = shared ? shared : own;
    if (*ret_value)
        return 0;
    return err_set(err, EINVAL, "the profile \"%s\" is one of SSO, but has no %s", profile, key);
}

static int read_settings(const struct chain *chain, const char *profile,
                         struct sso_settings *settings, struct err *err)
{
    const char *session = profile_get(chain->profiles, profile, "sso_session");
    if (session && !profiles_have(chain->profiles, PROFILE_SSO, session))
        return err_set(err, EINVAL,
                       "the profile \"%s\" has the sso_session \"%s\", which is not there", profile,
                       session);
    settings->session = session;
    int r = setting(chain, profile, session, "sso_role_name", &settings->role, err);
    if (r == 0)
        r = setting(chain, profile, session, "sso_account_id", &settings->account, err);
    if (r == 0)
        r = setting(chain, profile, session, "sso_start_url", &settings->start_url, err);
    if (r == 0)
        r = setting(chain, profile, session, "sso_region", &settings->region, err);
    return r;
}

static int make_url(const struct chain *chain, const struct sso_settings *settings, char **ret_url,
                    struct err *err)
{
    cleanup(buf_release) struct buf query;
    cleanup_free char *endpoint = NULL;
    buf_init(&query, QUERY_MAX);
    form_add(&query, "role_name", span_text(settings->role));
    form_add(&query, "account_id", span_text(settings->account));
    int r = service_endpoint(chain, &aws_sso, settings->region, &endpoint, err);
    if (r < 0)
        return r;
    if (buf_error(&query))
        return err_set(err, -buf_error(&query), "the request cannot be made");
    *ret_url = text_format("%s/federation/credentials?%s", endpoint, query.data + 1);
    return *ret_url ? 0 : err_set(err, ENOMEM, "no memory");
}

static int fill(const struct chain *chain, const struct sso_settings *settings,
                struct sso_provider *self, struct err *err)
{
    struct sso *sso = &self->sso;
    sso->http = chain->http;
    sso->now_s = chain->hooks.now_s;
    sso->session = settings->session ? strdup(settings->session) : NULL;
    sso->start_url = strdup(settings->start_url);
    sso->region = strdup(settings->region);
    if ((settings->session && !sso->session) || !sso->start_url || !sso->region)
        return err_set(err, ENOMEM, "no memory");
    int r = service_endpoint(chain, &aws_sso_oidc, settings->region, &sso->oidc_endpoint, err);
    return r < 0 ? r : make_url(chain, settings, &self->url, err);
}

int link_sso(struct chain *chain, const char *profile, struct provider **ret_provider,
             struct err *err)
{
    struct sso_settings settings;
    if (!profile_get(chain->profiles, profile, "sso_role_name") &&
        !profile_get(chain->profiles, profile, "sso_account_id"))
        return 0;
    int r = read_settings(chain, profile, &settings, err);
    if (r < 0)
        return r;
    struct sso_provider *self = provider_new(sizeof *self, &sso_ops, "profile %s (SSO)", profile);
    if (!self)
        return err_set(err, ENOMEM, "no memory");
    r = fill(chain, &settings, self, err);
    if (r < 0) {
        provider_free(&self->provider);
        return r;
    }
    *ret_provider = &self->provider;
    return 1;
}
