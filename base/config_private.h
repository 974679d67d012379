/* SPDX-License-Identifier: MIT */
/* What the configuration's own files share; private to them. */
#ifndef BASE_CONFIG_PRIVATE_H
#define BASE_CONFIG_PRIVATE_H

#include <stddef.h>

#include "base/config.h"
#include "base/err.h"
#include "base/span.h"

/* All defaults, and no backends or tables yet. */
struct config *config_new(void);
/* A new backend or table of that name at the end of the list; NULL when memory ran out. */
struct backend_config *config_add_backend(struct config *config, struct span name);
struct table_config *config_add_table(struct config *config, struct span name);
/* Adds a key that may be one of TABLE's profile. -ENOMEM. */
int config_add_profile_setting(struct table_config *table, const char *name, const char *value,
                               unsigned line);
const struct backend_config *config_backend(const struct config *config, struct span name);

/* NAME as it is where it is absolute, else below DIRECTORY; on the heap. */
char *path_below(const char *directory, const char *name);
/* The directory of PATH, absolute, on the heap. */
char *path_directory(const char *path);

/* What [table NAME] declares: keys and indexes; -EINVAL with a reason. And its release. */
int table_config_check(const struct config *config, const struct table_config *settings,
                       struct err *err);
void table_config_release(struct table_config *settings);

/* ---- the one list of what may be set ---- */

enum section { SECTION_NONE, SECTION_MOUNT, SECTION_BACKEND, SECTION_TABLE };

/* The section called NAME, or SECTION_NONE; and back. */
enum section section_from_name(struct span name);
const char *section_name(enum section section);

struct setting; /* opaque */

const struct setting *setting_find(enum section section, const char *name);
#define SETTINGS_MOST 96
/* A place below SETTINGS_MOST in the list: for sets of settings. */
unsigned setting_number(const struct setting *setting);
/* True for those that may stand several times in a section, each adding to the ones before. */
bool setting_repeats(const struct setting *setting);
/* True for switches, which a mount option may give without a value. */
bool setting_is_switch(const struct setting *setting);

/*
 * Sets it in TARGET (struct config, backend_config or table_config, as its section says) from TEXT;
 * relative paths are taken from DIRECTORY. -EINVAL with a reason that names the setting.
 */
int setting_apply(const struct setting *setting, void *target, const char *text,
                  const char *directory, struct err *err);

#endif
