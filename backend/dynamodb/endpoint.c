/* SPDX-License-Identifier: MIT */
/* Where the services are: endpoints that somebody set, and those of AWS's partitions. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"

const struct aws_service aws_dynamodb = {"AWS_ENDPOINT_URL_DYNAMODB", "dynamodb", "dynamodb",
                                         "dynamodb"};
const struct aws_service aws_streams = {"AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "dynamodb_streams",
                                        "streams.dynamodb", "streams-dynamodb"};
const struct aws_service aws_sts = {"AWS_ENDPOINT_URL_STS", "sts", "sts", "sts"};
const struct aws_service aws_sso = {"AWS_ENDPOINT_URL_SSO", "sso", "portal.sso", "portal.sso"};
const struct aws_service aws_sso_oidc = {"AWS_ENDPOINT_URL_SSO_OIDC", "sso_oidc", "oidc", "oidc"};

/* ---- URLs ---- */

static size_t scheme_length(const char *url)
{
    if (strncasecmp(url, "https://", 8) == 0)
        return 8;
    return strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
}

/* What a host and port may consist of; more is libcurl's to refuse. */
static bool is_authority(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isalnum((unsigned char)text.data[i]) && !memchr("-._:[]", text.data[i], 6))
            return false;
    return text.len > 0 && text.data[0] != ':';
}

/* A copy of URL without a slash at its end, when it is SCHEME://HOST[:PORT]. The message names
 * WHERE only: a URL that is refused may be so for the password in it. */
static int endpoint_copy(const char *url, const char *where, char **ret_endpoint, struct err *err)
{
    size_t scheme = scheme_length(url), len = strlen(url);
    if (len && url[len - 1] == '/')
        len--;
    if (!scheme || len < scheme || !is_authority(span_of(url + scheme, len - scheme)))
        return err_set(err, EINVAL, "%s is no endpoint: that is http(s)://HOST[:PORT]", where);
    *ret_endpoint = strndup(url, len);
    return *ret_endpoint ? 0 : err_set(err, ENOMEM, "no memory");
}

struct span endpoint_host(const char *endpoint)
{
    size_t scheme = scheme_length(endpoint);
    struct span host = span_text(endpoint + scheme);
    const char *usual = scheme == 8 ? ":443" : ":80";
    size_t len = strlen(usual);
    if (host.len > len && memcmp(host.data + host.len - len, usual, len) == 0)
        host.len -= len;
    return host;
}

/* ---- endpoints that are set ---- */

/* The profile's services section, by service. */
static int set_in_services(const struct chain *chain, const struct aws_service *service,
                           const char **url, struct err *err)
{
    const char *services = profile_get(chain->profiles, chain->profile, "services");
    if (!services)
        return 0;
    if (!profiles_have(chain->profiles, PROFILE_SERVICES, services))
        return err_set(err, EINVAL, "there is no [services %s], which the profile \"%s\" names",
                       services, chain->profile);
    *url =
        profiles_get(chain->profiles, PROFILE_SERVICES, services, service->section, "endpoint_url");
    return 0;
}

/* RET_WHERE is what says so. */
static int endpoint_set(const struct chain *chain, const struct aws_service *service,
                        const char **ret_url, const char **ret_where, struct err *err)
{
    const char *url = environment(service->variable);
    int r = 0;
    *ret_where = url ? service->variable : "AWS_ENDPOINT_URL";
    url = url ? url : environment("AWS_ENDPOINT_URL");
    if (!url) {
        *ret_where = "the profile's endpoint_url";
        r = set_in_services(chain, service, &url, err);
        if (!url || !*url)
            url = profile_get(chain->profiles, chain->profile, "endpoint_url");
    }
    *ret_url = url && *url ? url : NULL;
    return r;
}

/* ---- AWS's own ---- */

struct partition {
    const char *regions; /* how their names begin */
    const char *suffix, *dual_suffix;
    bool plain_fips; /* hosts have no "-fips" in their names */
};

/* botocore's partitions; the last is for all others. */
static const struct partition partitions[] = {
    {"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", false},
    {"us-gov-", "amazonaws.com", "api.aws", true},
    {"us-iso-", "c2s.ic.gov", "api.aws.ic.gov", false},
    {"us-isob-", "sc2s.sgov.gov", "api.aws.scloud", false},
    {"us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov", false},
    {"eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk", false},
    {"eusc-", "amazonaws.eu", "api.amazonwebservices.eu", false},
    {"", "amazonaws.com", "api.aws", false},
};

static const struct partition *partition_of(const char *region)
{
    const struct partition *partition = partitions;
    while (strncmp(region, partition->regions, strlen(partition->regions)) != 0)
        partition++;
    return partition;
}

static int endpoint_usual(const struct chain *chain, const struct aws_service *service,
                          const char *region, char **ret_endpoint, struct err *err)
{
    const struct partition *partition = partition_of(region);
    bool fips = chain_switch(chain, "AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
    bool dual = chain_switch(chain, "AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
    if (fips && partition->plain_fips && !dual)
        fips = false;
    *ret_endpoint =
        text_format("https://%s%s.%s.%s", dual ? service->dual_host : service->host,
                    fips ? "-fips" : "", region, dual ? partition->dual_suffix : partition->suffix);
    return *ret_endpoint ? 0 : err_set(err, ENOMEM, "no memory");
}

int service_endpoint(const struct chain *chain, const struct aws_service *service,
                     const char *region, char **ret_endpoint, struct err *err)
{
    const char *url = NULL, *where = NULL;
    int r = 0;
    if (!chain_switch(chain, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                      "ignore_configured_endpoint_urls"))
        r = endpoint_set(chain, service, &url, &where, err);
    if (r < 0)
        return r;
    return url ? endpoint_copy(url, where, ret_endpoint, err)
               : endpoint_usual(chain, service, region, ret_endpoint, err);
}

/* That of the option, or the service's own. */
static int choose(const struct chain *chain, const struct aws_service *service, const char *region,
                  char **ret_endpoint, struct err *err)
{
    const char *given = chain->options->endpoint;

    return given ? endpoint_copy(given, "the endpoint", ret_endpoint, err)
                 : service_endpoint(chain, service, region, ret_endpoint, err);
}

static int resolve(struct chain *chain, char **ret_region, char **ret_items, char **ret_streams,
                   struct err *err)
{
    const char *region;
    char *items = NULL, *streams = NULL;
    int r = chain_region(chain, &region, err);
    if (r < 0)
        return r;
    r = choose(chain, &aws_dynamodb, region, &items, err);
    if (r == 0)
        r = choose(chain, &aws_streams, region, &streams, err);
    if (r < 0) {
        free(items);
        return r;
    }
    *ret_region = chain->region;
    chain->region = NULL;
    *ret_items = items;
    *ret_streams = streams;
    return 0;
}

int endpoint_resolve(const struct credential_options *options, struct http *http, char **ret_region,
                     char **ret_items, char **ret_streams, struct err *err)
{
    struct chain chain;
    int r = chain_open(options, http, &chain, err);
    if (r < 0)
        return r;
    r = resolve(&chain, ret_region, ret_items, ret_streams, err);
    chain_close(&chain);
    return r;
}
