/* SPDX-License-Identifier: MIT */
/* Keys that stand somewhere as they are: in the environment, in one of the two files. */
#include <errno.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"

/* ---- environment ---- */

struct environment_provider {
    struct provider provider; /* first */
    struct credentials keys;
};

static int fetch_environment(struct provider *provider, struct credentials *ret_credentials,
                             struct err *err)
{
    const struct environment_provider *self = (const struct environment_provider *)provider;
    int r = credentials_copy(&self->keys, ret_credentials);
    return r < 0 ? err_set(err, -r, "no memory") : 0;
}

static void free_environment(struct provider *provider)
{
    struct environment_provider *self = (struct environment_provider *)provider;
    credentials_release(&self->keys);
    provider_discard(provider);
}

static const struct provider_ops environment_ops = {.fetch = fetch_environment,
                                                    .free = free_environment};

static int read_environment(const char *access_key, struct credentials *ret_keys, struct err *err)
{
    const char *secret = environment("AWS_SECRET_ACCESS_KEY");
    const char *token = environment("AWS_SECURITY_TOKEN");
    const char *expires = environment("AWS_CREDENTIAL_EXPIRATION");
    int64_t expires_s = 0;
    if (!secret)
        return err_set(err, EACCES, "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
    if (expires && !time_parse(span_text(expires), &expires_s))
        return err_set(err, EINVAL, "AWS_CREDENTIAL_EXPIRATION is no time (2024-01-05T12:00:00Z)");
    const struct credentials keys = {.access_key = (char *)access_key,
                                     .secret_key = (char *)secret,
                                     .session_token =
                                         (char *)(token ? token : environment("AWS_SESSION_TOKEN")),
                                     .expires_s = expires_s};
    int r = credentials_copy(&keys, ret_keys);
    return r < 0 ? err_set(err, -r, "no memory") : 0;
}

int link_environment(struct chain *chain, struct provider **ret_provider, struct err *err)
{
    const char *access_key = environment("AWS_ACCESS_KEY_ID");
    struct environment_provider *self;
    struct credentials keys;
    (void)chain;
    if (!access_key)
        return 0;
    int r = read_environment(access_key, &keys, err);
    if (r < 0)
        return r;
    self = provider_new(sizeof *self, &environment_ops, "environment");
    if (!self) {
        credentials_release(&keys);
        return err_set(err, ENOMEM, "no memory");
    }
    self->keys = keys;
    *ret_provider = &self->provider;
    return 1;
}

/* ---- files ---- */

/* The file is read anew each time: other programs renew the keys in it. */
struct file_provider {
    struct provider provider; /* first */
    enum profile_file file;
    char *profile;
};

static int read_file_keys(const struct profiles *profiles, const struct file_provider *self,
                          struct credentials *ret_credentials, struct err *err)
{
    const char *access_key =
        profile_get_from(profiles, self->file, self->profile, "aws_access_key_id");
    const char *secret =
        profile_get_from(profiles, self->file, self->profile, "aws_secret_access_key");
    const char *token = profile_get_from(profiles, self->file, self->profile, "aws_security_token");
    if (!token)
        token = profile_get_from(profiles, self->file, self->profile, "aws_session_token");
    if (!access_key || !secret)
        return err_set(err, EACCES, "%s has no aws_%s for it", profiles_path(profiles, self->file),
                       access_key ? "secret_access_key" : "access_key_id");
    const struct credentials keys = {.access_key = (char *)access_key,
                                     .secret_key = (char *)secret,
                                     .session_token = (char *)token};
    int r = credentials_copy(&keys, ret_credentials);
    return r < 0 ? err_set(err, -r, "no memory") : 0;
}

static int fetch_file(struct provider *provider, struct credentials *ret_credentials,
                      struct err *err)
{
    struct profiles *profiles;
    int r = profiles_load(&profiles, err);
    if (r < 0)
        return r;
    r = read_file_keys(profiles, (const struct file_provider *)provider, ret_credentials, err);
    profiles_free(profiles);
    return r;
}

static void free_file(struct provider *provider)
{
    free(((struct file_provider *)provider)->profile);
    provider_discard(provider);
}

static const struct provider_ops file_ops = {.fetch = fetch_file, .free = free_file};

int link_file(struct chain *chain, enum profile_file file, const char *profile,
              struct provider **ret_provider, struct err *err)
{
    static const char *const names[] = {"credentials file", "config file"};
    if (!profile_get_from(chain->profiles, file, profile, "aws_access_key_id"))
        return 0;
    struct file_provider *self =
        provider_new(sizeof *self, &file_ops, "profile %s (%s)", profile, names[file]);
    if (self)
        self->profile = strdup(profile);
    if (!self || !self->profile) {
        provider_free(self ? &self->provider : NULL);
        return err_set(err, ENOMEM, "no memory");
    }
    self->file = file;
    *ret_provider = &self->provider;
    return 1;
}
