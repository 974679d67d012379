/* SPDX-License-Identifier: MIT */
/*
 * Whose credentials requests are signed with, and where they go: the chain of botocore.
 *
 * Order: environment keys; assume-role profile (role_arn with source_profile or credential_source);
 * web identity; SSO; shared credentials file; credential_process; config file; container endpoint;
 * IMDSv2. An explicit profile (option) skips environment keys and web identity's variables; one
 * that AWS_DEFAULT_PROFILE or AWS_PROFILE names does not. Empty variables count as unset; an ID
 * without its secret is an error; an unknown profile is an error.
 *
 * Beyond botocore: AWS_REGION; credentials files are read anew where the service refuses what they
 * said, since other programs renew the keys there; credential_process runs in a shell, as it does
 * for the AWS SDKs for Go and Java. Left out: IMDSv1, MFA codes (there is nobody to ask), "aws
 * login" sessions, boto's own old files.
 */
#ifndef BACKEND_DYNAMODB_CREDENTIALS_H
#define BACKEND_DYNAMODB_CREDENTIALS_H

#include "backend/dynamodb/sign.h"
#include "net/http.h"

struct credential_options {
    const char *profile;  /* NULL: AWS_DEFAULT_PROFILE, AWS_PROFILE, else "default" */
    const char *region;   /* NULL: AWS_REGION, AWS_DEFAULT_REGION, the profile, IMDS */
    const char *endpoint; /* URL; NULL: the environment, the profile, the region's own */
};

/* A chain that has found its provider; safe for any number of threads. */
struct credential_source;

/*
 * Chooses the provider and gets the first credentials. HTTP is used, not owned; the options are not
 * needed any more. -EACCES (nothing found, or what was found is refused: the message says which
 * link and why, never a secret), -EHOSTUNREACH, -ETIMEDOUT, -EIO (an answer that is none, 5xx to
 * the end), -EINVAL (files, settings), -ENOMEM.
 */
int credential_source_open(const struct credential_options *options, struct http *http,
                           struct credential_source **ret_source, struct err *err);
void credential_source_close(struct credential_source *source); /* accepts NULL */

/* A copy of what to sign with now, to be released. Refreshed when less than 15 minutes are left
 * (in the caller's thread, by one thread at a time; failure is tolerated until 10 are left, and
 * IMDS's expired ones are used on while it is out). Errors as above; one is given again, without
 * asking, for 5 seconds. */
int credential_source_get(struct credential_source *source, struct credentials *ret_credentials,
                          struct err *err);
/* The service has refused USED as expired: the next get refreshes, unless somebody has already. */
void credential_source_expired(struct credential_source *source, const struct credentials *used);
/* "environment", "profile dev (process)", ...: for messages. */
const char *credential_source_name(const struct credential_source *source);

/* Region and endpoints as the options, the environment and the profile say; all to be freed.
 * Endpoints: that of the option, which serves both; else AWS_ENDPOINT_URL_DYNAMODB (of streams:
 * AWS_ENDPOINT_URL_DYNAMODB_STREAMS), AWS_ENDPOINT_URL, the profile's services section, its
 * endpoint_url (AWS_IGNORE_CONFIGURED_ENDPOINT_URLS switches these off), else
 * https://[streams.]dynamodb[-fips].REGION.amazonaws.com[.cn], dual-stack where
 * AWS_USE_DUALSTACK_ENDPOINT or the profile's use_dualstack_endpoint says so. Each is
 * SCHEME://HOST[:PORT] without more. -EINVAL without a region, and for what is no region or no such
 * URL; any region goes where the endpoint is given. */
int endpoint_resolve(const struct credential_options *options, struct http *http, char **ret_region,
                     char **ret_items, char **ret_streams, struct err *err);

#endif
