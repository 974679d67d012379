/* SPDX-License-Identifier: MIT */
/* A role for who has a token of an identity provider, in a file: STS takes the token in place of a
 * signature. The file is read each time, since others renew it (Kubernetes does). */
#include <ctype.h>
#include <errno.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"

#define FORM_MAX (256u << 10) /* a token of SECRET_BYTES_MAX, percent-encoded */

struct web_provider {
    struct provider provider; /* first */
    struct sts sts;
    char *token_file;
    char *role_arn, *session_name; /* the latter may be NULL */
};

static int add_token(const struct web_provider *self, struct buf *form, struct err *err)
{
    cleanup(secret_buf_release) struct buf token = {0};
    int r = file_read(self->token_file, SECRET_BYTES_MAX, &token, err);
    if (r < 0)
        return err_set(err, r == -ENOMEM ? ENOMEM : EACCES, "no token");
    struct span text = buf_span(&token);
    while (text.len && isspace((unsigned char)text.data[text.len - 1]))
        text.len--;
    if (!text.len)
        return err_set(err, EACCES, "%s: is empty", self->token_file);
    form_add(form, "WebIdentityToken", text);
    return 0;
}

static int fetch_web(struct provider *provider, struct credentials *ret_credentials,
                     struct err *err)
{
    const struct web_provider *self = (const struct web_provider *)provider;
    cleanup(secret_buf_release) struct buf form = {0};
    if (secret_buf_init(&form, FORM_MAX) < 0)
        return err_set(err, ENOMEM, "no memory");
    sts_form(&self->sts, "AssumeRoleWithWebIdentity", self->role_arn, self->session_name, &form);
    int r = add_token(self, &form, err);
    return r < 0 ? r : sts_call(&self->sts, &form, NULL, ret_credentials, NULL, err);
}

static void free_web(struct provider *provider)
{
    struct web_provider *self = (struct web_provider *)provider;
    sts_release(&self->sts);
    free(self->token_file);
    free(self->role_arn);
    free(self->session_name);
    provider_discard(provider);
}

static const struct provider_ops web_ops = {.fetch = fetch_web, .free = free_web};

static int fill(struct chain *chain, const char *token_file, const char *role_arn,
                const char *session_name, struct web_provider *self, struct err *err)
{
    self->token_file = strdup(token_file);
    self->role_arn = strdup(role_arn);
    self->session_name = session_name ? strdup(session_name) : NULL;
    if (!self->token_file || !self->role_arn || (session_name && !self->session_name))
        return err_set(err, ENOMEM, "no memory");
    return sts_settle(chain, &self->sts, err);
}

/* Each of the three may come from the variable or the profile. */
static const char *setting(const struct chain *chain, const char *profile, bool variables,
                           const char *variable, const char *key)
{
    const char *value = variables ? environment(variable) : NULL;
    return value ? value : profile_get(chain->profiles, profile, key);
}

int link_web_identity(struct chain *chain, const char *profile, bool variables,
                      struct provider **ret_provider, struct err *err)
{
    const char *file = setting(chain, profile, variables, "AWS_WEB_IDENTITY_TOKEN_FILE",
                               "web_identity_token_file");
    const char *role = setting(chain, profile, variables, "AWS_ROLE_ARN", "role_arn");
    const char *session =
        setting(chain, profile, variables, "AWS_ROLE_SESSION_NAME", "role_session_name");
    if (!file || !*file)
        return 0;
    if (!role || !*role)
        return err_set(err, EINVAL,
                       "there is a web identity token file, but no role: set AWS_ROLE_ARN, or "
                       "role_arn in the profile \"%s\"",
                       profile);
    bool variable = variables && environment("AWS_WEB_IDENTITY_TOKEN_FILE");
    struct web_provider *self =
        variable ? provider_new(sizeof *self, &web_ops, "web identity")
                 : provider_new(sizeof *self, &web_ops, "profile %s (web identity)", profile);
    if (!self)
        return err_set(err, ENOMEM, "no memory");
    int r = fill(chain, file, role, session, self, err);
    if (r < 0) {
        provider_free(&self->provider);
        return r;
    }
    *ret_provider = &self->provider;
    return 1;
}
