/* SPDX-License-Identifier: MIT */
/* Which profile a table has, with its options, as mount.conf says. */
#ifndef BACKEND_PROFILE_CHOICE_H
#define BACKEND_PROFILE_CHOICE_H

#include "backend/profile/profile.h"
#include "base/config.h"

struct profile_choice {
    const struct profile *profile; /* NULL: none */
    struct profile_value *options; /* in the order of its options */
};

/* What [table NAME] of CONFIG says: none where SETTINGS has no profile. -EINVAL with "FILE:LINE:
 * reason" for a profile that is none, or options that it does not have or take. */
int profile_choose(const struct config *config, const struct table_config *settings,
                   struct profile_choice *ret_choice, struct err *err);
/* The profile NAME with the options that it has when nothing is said. -EINVAL. */
int profile_choose_named(const char *name, struct profile_choice *ret_choice, struct err *err);
void profile_choice_release(struct profile_choice *choice);

/* Makes of TABLE, which has a name only, one of the profile's. -ENOMEM. */
int profile_make_table(const struct profile_choice *choice, struct table *table, struct err *err);

#endif
