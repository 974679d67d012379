/* SPDX-License-Identifier: MIT */
/* Settings of mount.conf that are made in a table by opening its source. */
#ifndef ITEMCTL_SETTINGS_H
#define ITEMCTL_SETTINGS_H

#include "base/config.h"

/* CONFIG makes no settings when its source is opened: tables are seen as their backends have
 * them. */
static inline void settings_put_aside(struct config *config)
{
    for (size_t i = 0; i < config->table_count; i++) {
        struct table_config *settings = &config->tables[i];
        settings->has_keys = settings->has_ttl = settings->has_stream = false;
    }
}

#endif
