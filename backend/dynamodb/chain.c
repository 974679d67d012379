/* SPDX-License-Identifier: MIT */
/* The order of the links, and what all of them go by: files, profile, region. */
#include <errno.h>
#include <strings.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/clock.h"

#define PROCESS_MS 60000

/* botocore's order; the other variable is the one that is documented. */
static const char *profile_of_environment(void)
{
    const char *name = environment("AWS_DEFAULT_PROFILE");
    return name ? name : environment("AWS_PROFILE");
}

static int check_profile(const struct chain *chain, struct err *err)
{
    const char *unreadable = profiles_unreadable(chain->profiles);
    if (profiles_have(chain->profiles, PROFILE_SECTION, chain->profile))
        return 0;
    return err_set(err, EINVAL, "there is no profile \"%s\" in %s or %s%s%s%s", chain->profile,
                   profiles_path(chain->profiles, PROFILE_CONFIG_FILE),
                   profiles_path(chain->profiles, PROFILE_CREDENTIALS_FILE), unreadable ? " (" : "",
                   unreadable ? unreadable : "", unreadable ? ")" : "");
}

int chain_open(const struct credential_options *options, struct http *http, struct chain *ret_chain,
               struct err *err)
{
    const char *named = options->profile ? options->profile : profile_of_environment();
    struct chain chain = {.options = options,
                          .hooks = {clock_now_s, PROCESS_MS},
                          .http = http,
                          .profile = named ? named : "default",
                          .explicit_profile = options->profile != NULL};
    int r = profiles_load(&chain.profiles, err);
    if (r == 0 && named)
        r = check_profile(&chain, err);
    if (r < 0)
        chain_close(&chain);
    else
        *ret_chain = chain;
    return r;
}

void chain_close(struct chain *chain)
{
    profiles_free(chain->profiles);
    free(chain->region);
    *chain = (struct chain){0};
}

const char *chain_text(const struct chain *chain, const char *variable, const char *key)
{
    const char *value = environment(variable);
    return value ? value : profile_get(chain->profiles, chain->profile, key);
}

bool chain_switch(const struct chain *chain, const char *variable, const char *key)
{
    const char *value = chain_text(chain, variable, key);
    return value && strcasecmp(value, "true") == 0;
}

/* ---- region ---- */

static const char *region_set(const struct chain *chain)
{
    const char *region = chain->options->region;
    region = region ? region : environment("AWS_REGION");
    region = region ? region : environment("AWS_DEFAULT_REGION");
    return region ? region : profile_get(chain->profiles, chain->profile, "region");
}

static int region_of_instance(const struct chain *chain, char **ret_region, struct err *err)
{
    struct imds imds;
    struct err reason = {""};
    int r = imds_settle(chain, &imds, err);
    if (r > 0) {
        r = imds_region(&imds, chain->http, ret_region, &reason);
        imds_release(&imds);
        if (r == 0)
            return 0;
    }
    if (r == -EINVAL || r == -ENOMEM)
        return err_set(err, -r, "%s", err_text(&reason, r));
    return err_set(err, EINVAL,
                   "there is no region: set AWS_REGION, or region in the profile \"%s\"",
                   chain->profile);
}

/* A region is part of a host's name and of signatures: it must be able to be a label. */
static bool is_region(const char *region)
{
    static const char digits[] = "0123456789";
    static const char letters[] = "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(region);
    return len > 0 && len <= 63 && strspn(region, letters) == len && strspn(region, digits) < len &&
           region[0] != '-' && region[len - 1] != '-';
}

int chain_region(struct chain *chain, const char **ret_region, struct err *err)
{
    const char *set = region_set(chain);
    int r = 0;
    if (!chain->region && set && !(chain->region = strdup(set)))
        return err_set(err, ENOMEM, "no memory");
    if (!chain->region)
        r = region_of_instance(chain, &chain->region, err);
    if (!chain->region)
        return r;
    if (!is_region(chain->region))
        return err_set(err, EINVAL, "\"%s\" is no region", chain->region);
    *ret_region = chain->region;
    return 0;
}

/* ---- order ---- */

/* The place of "aws login" in the order. It would need keys of its own to prove who asks. */
static int link_login(const struct chain *chain, const char *profile, struct err *err)
{
    if (!profile_get(chain->profiles, profile, "login_session"))
        return 0;
    return err_set(err, EACCES,
                   "the profile \"%s\" is one of \"aws login\", which is not supported: "
                   "use credential_process with aws configure export-credentials",
                   profile);
}

int link_profile(struct chain *chain, const char *profile, bool variables,
                 struct provider **ret_provider, struct err *err)
{
    int r = link_web_identity(chain, profile, variables, ret_provider, err);
    if (r == 0)
        r = link_sso(chain, profile, ret_provider, err);
    if (r == 0)
        r = link_file(chain, PROFILE_CREDENTIALS_FILE, profile, ret_provider, err);
    if (r == 0)
        r = link_login(chain, profile, err);
    if (r == 0)
        r = link_process(chain, profile, ret_provider, err);
    if (r == 0)
        r = link_file(chain, PROFILE_CONFIG_FILE, profile, ret_provider, err);
    return r;
}

/* As links do: 1, 0 or an error. */
static int find_provider(struct chain *chain, struct provider **ret_provider, struct err *err)
{
    int r = chain->explicit_profile ? 0 : link_environment(chain, ret_provider, err);
    if (r == 0)
        r = link_role(chain, ret_provider, err);
    if (r == 0)
        r = link_profile(chain, chain->profile, !chain->explicit_profile, ret_provider, err);
    if (r == 0)
        r = link_container(chain, ret_provider, err);
    if (r == 0)
        r = link_imds(chain, ret_provider, err);
    return r;
}

static int nothing_found(const struct chain *chain, const char *last, struct err *err)
{
    const char *unreadable = profiles_unreadable(chain->profiles);
    return err_set(err, EACCES,
                   "there are no credentials: none in the environment, the profile \"%s\", a "
                   "container's or instance's metadata%s%s%s%s%s",
                   chain->profile, last ? " (" : "", last ? last : "", last ? ")" : "",
                   unreadable ? "; " : "", unreadable ? unreadable : "");
}

/* Gets the first credentials, so that a wrong set-up is known at once. */
static int open_source(struct chain *chain, struct provider *provider,
                       struct credential_source **ret_source, struct err *err)
{
    cleanup(credentials_release) struct credentials first = {0};
    struct err reason = {""};
    bool optional = provider->ops->optional;
    struct credential_source *source = credential_source_new(provider, chain->hooks.now_s);
    if (!source)
        return err_set(err, ENOMEM, "no memory");
    int r = credential_source_get(source, &first, &reason);
    if (r == 0) {
        *ret_source = source;
        return 0;
    }
    credential_source_close(source);
    if (optional && r != -ENOMEM)
        return nothing_found(chain, err_text(&reason, r), err);
    return err_set(err, -r, "%s", err_text(&reason, r));
}

int credential_source_open_hooked(const struct credential_options *options, struct http *http,
                                  const struct chain_hooks *hooks,
                                  struct credential_source **ret_source, struct err *err)
{
    struct chain chain;
    struct provider *provider = NULL;
    int r = chain_open(options, http, &chain, err);
    if (r < 0)
        return r;
    if (hooks)
        chain.hooks = *hooks;
    r = find_provider(&chain, &provider, err);
    if (r == 0)
        r = nothing_found(&chain, NULL, err);
    else if (r > 0)
        r = open_source(&chain, provider, ret_source, err);
    chain_close(&chain);
    return r;
}

int credential_source_open(const struct credential_options *options, struct http *http,
                           struct credential_source **ret_source, struct err *err)
{
    return credential_source_open_hooked(options, http, NULL, ret_source, err);
}
