/* SPDX-License-Identifier: MIT */
/*
 * AWS's two files, as botocore reads them: the config file with [default], [profile NAME],
 * [sso-session NAME] and [services NAME], and the credentials file, where [NAME] is a profile.
 *
 * A setting is KEY = VALUE or KEY : VALUE. Keys are told apart without case; quotes are part of a
 * value. A line that begins with "#" or ";" is a comment; nothing behind a value is one. A line
 * that is indented deeper than the setting above it goes on with its value; where the setting's own
 * line has no value, the lines below are settings of its own ("s3 =", "  addressing_style = path"),
 * one level deep. What [DEFAULT] sets holds in all sections of its file. A section or a setting
 * that stands there twice is an error, as is a line that is none of these.
 */
#ifndef BACKEND_DYNAMODB_PROFILE_H
#define BACKEND_DYNAMODB_PROFILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"

/* In the order in which they count. */
enum profile_file { PROFILE_CREDENTIALS_FILE, PROFILE_CONFIG_FILE, PROFILE_FILES };

enum profile_kind {
    PROFILE_SECTION,  /* a profile */
    PROFILE_SSO,      /* [sso-session NAME] */
    PROFILE_SERVICES, /* [services NAME] */
    PROFILE_DEFAULTS, /* [DEFAULT] */
    PROFILE_UNKNOWN,  /* anything else */
};

struct profiles;

struct profiles *profiles_new(void);           /* NULL without memory */
void profiles_free(struct profiles *profiles); /* wipes all values; accepts NULL */

/*
 * Reads the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, else ~/.aws/config and
 * ~/.aws/credentials. A file that does not exist, or cannot be read, counts as empty (botocore's
 * way: the keys may be in the environment); the latter is told by profiles_unreadable. -EINVAL with
 * file and line, never a value; -ENOMEM.
 */
int profiles_load(struct profiles **ret_profiles, struct err *err);
/* The same with the TEXT of one file; PATH is for messages. */
int profiles_parse(struct profiles *profiles, enum profile_file file, struct span text,
                   const char *path, struct err *err);

bool profiles_have(const struct profiles *profiles, enum profile_kind kind, const char *name);

/* A setting, or NULL. SUBKEY is the setting's within one that has some, else NULL. A profile's
 * setting in the credentials file counts before that in the config file. */
const char *profiles_get(const struct profiles *profiles, enum profile_kind kind, const char *name,
                         const char *key, const char *subkey);
static inline const char *profile_get(const struct profiles *profiles, const char *profile,
                                      const char *key)
{
    return profiles_get(profiles, PROFILE_SECTION, profile, key, NULL);
}
/* A profile's setting in one of the files. */
const char *profile_get_from(const struct profiles *profiles, enum profile_file file,
                             const char *profile, const char *key);

/* Where the file is or would be. */
const char *profiles_path(const struct profiles *profiles, enum profile_file file);
/* What went wrong with a file that is there but cannot be read: "PATH: REASON"; else NULL. */
const char *profiles_unreadable(const struct profiles *profiles);

#endif
