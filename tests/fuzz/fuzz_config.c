/* SPDX-License-Identifier: MIT */
/* Any text is either a configuration that can be used or an error that says where. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct config *config)
{
    for (size_t i = 0; i < config->table_count; i++) {
        struct table *table = table_new_default(span_text(config->tables[i].name));

        if (table)
            config_apply(config, table);
        table_free(table);
    }
    for (size_t i = 0; i < config->backend_count; i++)
        if (!config->backends[i].path || config->backends[i].path[0] != '/')
            abort();
    if (config->backend_count == 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config = NULL;
    struct err err = {""};
    int r = config_parse(span_of((const char *)data, size), "/f.conf", &config, &err);

    if (r == 0)
        use(config);
    else if (config || strncmp(err.text, "/f.conf:", 8) != 0)
        abort();
    config_free(config);
    return 0;
}
