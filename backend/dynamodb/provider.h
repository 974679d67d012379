/* SPDX-License-Identifier: MIT */
/*
 * The links of the credential chain. A link looks whether it is configured and makes a provider,
 * which fetches credentials, now and whenever they run out. Only the files of the chain include
 * this.
 */
#ifndef BACKEND_DYNAMODB_PROVIDER_H
#define BACKEND_DYNAMODB_PROVIDER_H

#include "backend/dynamodb/credentials.h"
#include "backend/dynamodb/profile.h"

#define SECRET_BYTES_MAX (64u << 10) /* of a token file, a process's output */

struct provider;
struct provider_ops {
    /* Fresh credentials, to be released. A message says what went wrong, not with whom. One thread
     * at a time. */
    int (*fetch)(struct provider *provider, struct credentials *ret_credentials, struct err *err);
    void (*free)(struct provider *provider); /* also half built */
    bool outlasts; /* what it gave is used on after its time, while it gives nothing */
    bool optional; /* that it gives nothing at first means that it is not there */
};
struct provider {
    const struct provider_ops *ops;
    char *name; /* for messages: "profile dev (process)" */
};

/* A zeroed SIZE bytes that begin with a provider, named as FORMAT says; NULL without memory. */
void *provider_new(size_t size, const struct provider_ops *ops, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For the end of a free operation. */
void provider_discard(struct provider *provider);
void provider_free(struct provider *provider); /* accepts NULL */

/* What tests may want otherwise. */
struct chain_hooks {
    int64_t (*now_s)(void); /* epoch seconds */
    int process_ms;         /* the time of a credential_process */
};

/* What links look at. */
struct chain {
    const struct credential_options *options;
    struct chain_hooks hooks;
    struct http *http;
    struct profiles *profiles;
    const char *profile;   /* its name, never NULL; it need not exist when nobody named it */
    bool explicit_profile; /* the option names it */
    char *region;          /* "" until somebody asked: chain_region */
};
/* Reads the files and settles the profile. -EINVAL, -ENOMEM. */
int chain_open(const struct credential_options *options, struct http *http, struct chain *ret_chain,
               struct err *err);
void chain_close(struct chain *chain);
/* The region, found out on the first call. -EINVAL where there is none. */
int chain_region(struct chain *chain, const char **ret_region, struct err *err);
/* A switch: the variable, else the setting of the profile, "true" without case. */
bool chain_switch(const struct chain *chain, const char *variable, const char *key);
/* The value of the variable, else the setting of the profile, else NULL. */
const char *chain_text(const struct chain *chain, const char *variable, const char *key);

/* Links: 1 with a provider, 0 where they are not configured, or an error that ends the search. */
int link_environment(struct chain *chain, struct provider **ret_provider, struct err *err);
int link_file(struct chain *chain, enum profile_file file, const char *profile,
              struct provider **ret_provider, struct err *err);
int link_role(struct chain *chain, struct provider **ret_provider, struct err *err);
/* VARIABLES: the environment's count, before the profile's settings. */
int link_web_identity(struct chain *chain, const char *profile, bool variables,
                      struct provider **ret_provider, struct err *err);
int link_sso(struct chain *chain, const char *profile, struct provider **ret_provider,
             struct err *err);
int link_process(struct chain *chain, const char *profile, struct provider **ret_provider,
                 struct err *err);
int link_container(struct chain *chain, struct provider **ret_provider, struct err *err);
int link_imds(struct chain *chain, struct provider **ret_provider, struct err *err);
/* All links that read a profile, but for roles, in their order. */
int link_profile(struct chain *chain, const char *profile, bool variables,
                 struct provider **ret_provider, struct err *err);

/* credential_source_open; HOOKS may be NULL. */
int credential_source_open_hooked(const struct credential_options *options, struct http *http,
                                  const struct chain_hooks *hooks,
                                  struct credential_source **ret_source, struct err *err);
/* A source over PROVIDER, which it owns, also on failure; without credentials so far. */
struct credential_source *credential_source_new(struct provider *provider, int64_t (*now_s)(void));

/* ---- endpoints ---- */

/* An AWS service's names where endpoints are made or set. */
struct aws_service {
    const char *variable;  /* AWS_ENDPOINT_URL_... */
    const char *section;   /* in a services section */
    const char *host;      /* begins the host's name */
    const char *dual_host; /* likewise, with dual stack */
};
extern const struct aws_service aws_dynamodb, aws_streams, aws_sts, aws_sso, aws_sso_oidc;
/* The Host header for an endpoint: its host, with the port where it is not the scheme's own. */
struct span endpoint_host(const char *endpoint);
/* The endpoint of a service, to be freed. */
int service_endpoint(const struct chain *chain, const struct aws_service *service,
                     const char *region, char **ret_endpoint, struct err *err);

/* ---- STS ---- */

struct sts {
    struct http *http;
    char *endpoint, *region;
    int64_t (*now_s)(void);
};
/* Finds out where it is. Release in any case. */
int sts_settle(struct chain *chain, struct sts *ret_sts, struct err *err);
void sts_release(struct sts *sts);
/* Begins a call's form with what all of them have. SESSION_NAME: NULL for one with the time in it.
 */
void sts_form(const struct sts *sts, const char *action, const char *role_arn,
              const char *session_name, struct buf *form);
/* Appends "&NAME=VALUE", the value percent-encoded. */
void form_add(struct buf *form, const char *name, struct span value);
/* Sends FORM, signed by SIGNER unless that is NULL. RET_EXPIRED (may be NULL) is set where it is
 * refused since the signer's credentials, or the token in it, have expired: -EACCES. */
int sts_call(const struct sts *sts, const struct buf *form, const struct credentials *signer,
             struct credentials *ret_credentials, bool *ret_expired, struct err *err);

/* ---- SSO ---- */

/* Whose token is used, and where it can be renewed. */
struct sso {
    struct http *http;
    int64_t (*now_s)(void);
    char *session; /* NULL: the old way, with nothing but a start URL; never renewed */
    char *start_url, *region, *oidc_endpoint;
};
void sso_release(struct sso *sso);
/* The token that "aws sso login" left in ~/.aws/sso/cache, to be freed; renewed there, where that
 * can be, when less than 15 minutes are left. -EACCES where nobody is logged in any more. */
int sso_token(const struct sso *sso, char **ret_token, struct err *err);

/* ---- IMDS ---- */

/* Where instance metadata are, as the environment and the profile say. */
struct imds {
    char *base; /* URL without a slash at its end */
    int timeout_ms, attempts;
};
/* 1, or 0 where AWS_EC2_METADATA_DISABLED says so. */
int imds_settle(const struct chain *chain, struct imds *ret_imds, struct err *err);
void imds_release(struct imds *imds);
/* The instance's region, to be freed. */
int imds_region(const struct imds *imds, struct http *http, char **ret_region, struct err *err);

/* ---- what all of them use ---- */

/* As asprintf makes it, to be freed; NULL without memory. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A variable's value; NULL where it is unset or empty. */
const char *environment(const char *name);
/* A copy of PATH with "~" at its beginning replaced by the home directory. NULL without memory. */
char *path_expand(const char *path);
/* Reads a file that may hold a secret; RET_TEXT is to be released (secret_buf_release) in any case.
 * The message is "PATH: REASON"; -EFBIG over MAX bytes, -EISDIR. */
int file_read(const char *path, size_t max, struct buf *ret_text, struct err *err);

/* Sends REQUEST up to TRIES times, while there is no answer, or a status of 429 or 5xx; PAUSE_MS,
 * doubled each time, apart. RET_RESPONSE is to be released (secret_response_release) in any case.
 */
int provider_ask(struct http *http, const struct http_request *request, int tries, int pause_ms,
                 struct http_response *ret_response, struct err *err);
void secret_response_release(struct http_response *response);

/* ISO 8601 as AWS writes it: "2024-01-05T12:00:00Z", perhaps with a fraction, or an offset. */
bool time_parse(struct span text, int64_t *ret_s);

/* A text member of OBJECT, which is JSON that was checked: a copy, to be freed (secret_free), or
 * NULL where it is absent or null. -EIO where it is no text. */
int member_text(struct span object, const char *name, char **ret_text, struct err *err);
/* 1 with a member as it stands there, 0 where it is absent or null. */
int member_raw(struct span object, const char *name, struct span *ret_raw, struct err *err);

/* How an object that holds credentials names them. */
struct credential_names {
    const char *access_key, *secret_key, *token, *expires;
};
extern const struct credential_names names_process, names_metadata;
/* Reads the JSON object TEXT, which is checked. Token and expiry may be absent, or null. */
int credentials_from_json(struct span text, const struct credential_names *names,
                          struct credentials *ret_credentials, struct err *err);
/* Whether they can be used: neither empty, nor with bytes that a header must not hold. -EACCES. */
int credentials_check(const struct credentials *credentials, struct err *err);

#endif
