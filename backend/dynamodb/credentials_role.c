/* SPDX-License-Identifier: MIT */
/*
 * A profile with a role_arn: credentials for the role, from STS, asked for with those of another
 * profile (source_profile) or of this machine (credential_source). The other profile may be of a
 * role, too; one that leads back to itself is refused.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/text.h"

#define FORM_MAX (64u << 10)

struct role_provider {
    struct provider provider; /* first */
    struct sts sts;
    struct buf form;
    struct credential_source *source; /* of the credentials that sign */
};

/* ---- fetching ---- */

/* The signer's credentials may have been revoked before their time: once, they are fetched anew. */
static int fetch_role(struct provider *provider, struct credentials *ret_credentials,
                      struct err *err)
{
    const struct role_provider *self = (const struct role_provider *)provider;
    for (int try = 0;; try++) {
        cleanup(credentials_release) struct credentials signer = {0};
        struct err reason = {""};
        bool expired = false;
        int r = credential_source_get(self->source, &signer, &reason);
        if (r == 0)
            r = sts_call(&self->sts, &self->form, &signer, ret_credentials, &expired, &reason);
        if (r == 0 || !expired || try > 0)
            return r == 0 ? 0 : err_set(err, -r, "%s", err_text(&reason, r));
        credential_source_expired(self->source, &signer);
    }
}

static void free_role(struct provider *provider)
{
    struct role_provider *self = (struct role_provider *)provider;
    sts_release(&self->sts);
    secret_buf_release(&self->form);
    credential_source_close(self->source);
    provider_discard(provider);
}

static const struct provider_ops role_ops = {.fetch = fetch_role, .free = free_role};

/* ---- whose credentials sign ---- */

/* A profile on the way from the one that was asked for. */
struct visit {
    const char *profile;
    const struct visit *above;
};

static int link_visited(struct chain *chain, const struct visit *here,
                        struct provider **ret_provider, struct err *err);

static bool is_role(const struct chain *chain, const char *profile)
{
    return profile_get(chain->profiles, profile, "role_arn") &&
           !profile_get(chain->profiles, profile, "web_identity_token_file");
}

static bool has_keys(const struct chain *chain, const char *profile)
{
    return profile_get(chain->profiles, profile, "aws_access_key_id") ||
           profile_get(chain->profiles, profile, "aws_secret_access_key");
}

/* A profile may name itself, to have its keys and its role in one. */
static int check_source(const struct chain *chain, const struct visit *here, const char *source,
                        struct err *err)
{
    const struct visit *seen = here;
    if (!profiles_have(chain->profiles, PROFILE_SECTION, source))
        return err_set(err, EINVAL,
                       "the profile \"%s\" has the source_profile \"%s\", which is not there",
                       here->profile, source);
    while (seen && strcmp(seen->profile, source) != 0)
        seen = seen->above;
    if (!seen || (seen == here && has_keys(chain, source)))
        return 0;
    return err_set(err, EINVAL,
                   "the profile \"%s\" has the source_profile \"%s\", which leads back to it",
                   here->profile, source);
}

static int link_source_profile(struct chain *chain, const struct visit *here, const char *source,
                               struct provider **ret_provider, struct err *err)
{
    const struct visit below = {source, here};
    int r = check_source(chain, here, source, err);
    if (r < 0)
        return r;
    if (is_role(chain, source) && !has_keys(chain, source))
        return link_visited(chain, &below, ret_provider, err);
    r = link_profile(chain, source, false, ret_provider, err);
    if (r == 0)
        r = err_set(err, EACCES, "the profile \"%s\", a source_profile, has no credentials",
                    source);
    return r;
}

static int link_named(struct chain *chain, const struct visit *here, const char *source,
                      struct provider **ret_provider, struct err *err)
{
    int r;
    if (strcmp(source, "Environment") == 0)
        r = link_environment(chain, ret_provider, err);
    else if (strcmp(source, "EcsContainer") == 0)
        r = link_container(chain, ret_provider, err);
    else if (strcmp(source, "Ec2InstanceMetadata") == 0)
        r = link_imds(chain, ret_provider, err);
    else
        return err_set(
            err, EINVAL,
            "the profile \"%s\" has the credential_source \"%s\"; there are Environment, "
            "EcsContainer and Ec2InstanceMetadata",
            here->profile, source);
    if (r == 0)
        r = err_set(err, EACCES, "the profile \"%s\" has the credential_source %s, which has none",
                    here->profile, source);
    return r;
}

static int link_source(struct chain *chain, const struct visit *here,
                       struct provider **ret_provider, struct err *err)
{
    const char *source = profile_get(chain->profiles, here->profile, "source_profile");
    const char *named = profile_get(chain->profiles, here->profile, "credential_source");
    if (!source == !named)
        return err_set(err, EINVAL,
                       "the profile \"%s\" has a role_arn: it needs %s source_profile or "
                       "credential_source",
                       here->profile, source ? "only one of" : "a");
    return source ? link_source_profile(chain, here, source, ret_provider, err)
                  : link_named(chain, here, named, ret_provider, err);
}

/* ---- the role ---- */

static int add_duration(struct buf *form, const char *text, struct err *err)
{
    char *end;
    long seconds = strtol(text, &end, 10);
    if (end == text || *end || seconds < 1)
        return err_set(err, EINVAL, "duration_seconds is no number of seconds");
    buf_addf(form, "&DurationSeconds=%ld", seconds);
    return 0;
}

static int make_form(const struct chain *chain, const char *profile, struct role_provider *self,
                     struct err *err)
{
    const struct profiles *profiles = chain->profiles;
    const char *external = profile_get(profiles, profile, "external_id");
    const char *duration = profile_get(profiles, profile, "duration_seconds");
    int r = 0;
    if (profile_get(profiles, profile, "mfa_serial"))
        return err_set(err, EACCES,
                       "the profile \"%s\" needs an MFA code (mfa_serial), which cannot be asked "
                       "for: use credential_process",
                       profile);
    sts_form(&self->sts, "AssumeRole", profile_get(profiles, profile, "role_arn"),
             profile_get(profiles, profile, "role_session_name"), &self->form);
    if (external)
        form_add(&self->form, "ExternalId", span_text(external));
    if (duration)
        r = add_duration(&self->form, duration, err);
    if (r == 0 && buf_error(&self->form))
        r = err_set(err, -buf_error(&self->form), "the request cannot be made");
    return r;
}

static int fill(struct chain *chain, const struct visit *here, struct role_provider *self,
                struct err *err)
{
    struct provider *signer = NULL;
    int r = sts_settle(chain, &self->sts, err);
    if (r == 0)
        r = make_form(chain, here->profile, self, err);
    if (r == 0)
        r = link_source(chain, here, &signer, err);
    if (r < 0)
        return r;
    self->source = credential_source_new(signer, chain->hooks.now_s);
    return self->source ? 0 : err_set(err, ENOMEM, "no memory");
}

static int link_visited(struct chain *chain, const struct visit *here,
                        struct provider **ret_provider, struct err *err)
{
    struct role_provider *self =
        provider_new(sizeof *self, &role_ops, "profile %s (role)", here->profile);
    if (!self)
        return err_set(err, ENOMEM, "no memory");
    buf_init(&self->form, FORM_MAX);
    int r = fill(chain, here, self, err);
    if (r < 0) {
        provider_free(&self->provider);
        return r;
    }
    *ret_provider = &self->provider;
    return 1;
}

int link_role(struct chain *chain, struct provider **ret_provider, struct err *err)
{
    const struct visit here = {chain->profile, NULL};
    return is_role(chain, chain->profile) ? link_visited(chain, &here, ret_provider, err) : 0;
}
