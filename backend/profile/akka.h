/* SPDX-License-Identifier: MIT */
/* What others than mounts must know of the profiles akka-journal, akka-snapshot and akka-state. */
#ifndef BACKEND_PROFILE_AKKA_H
#define BACKEND_PROFILE_AKKA_H

#include "backend/profile/profile.h"
#include "base/akka.h"

/* The names of the columns as OPTIONS, of PROFILE, say; those that the profile has no option for,
 * or that of a PROFILE which is none of akka's (or NULL), as the plugin has them. The strings are
 * those of OPTIONS. */
struct akka_columns akka_columns_of(const struct profile *profile,
                                    const struct profile_value *options);

#endif
