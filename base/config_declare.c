/* SPDX-License-Identifier: MIT */
/* Tables that are declared in mount.conf: what [table NAME] says of keys and indexes. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/config_private.h"

static void free_profile_settings(struct table_config *table)
{
    for (size_t i = 0; i < table->profile_setting_count; i++) {
        free(table->profile_settings[i].name);
        free(table->profile_settings[i].value);
    }
    free(table->profile_settings);
}

void table_config_release(struct table_config *settings)
{
    free(settings->name);
    free(settings->backend);
    free(settings->ttl);
    free(settings->profile);
    free_profile_settings(settings);
    key_attribute_release(&settings->key);
    key_attribute_release(&settings->sort);
    for (size_t i = 0; i < settings->indexes.count; i++)
        index_release(&settings->indexes.indexes[i]);
    free(settings->indexes.indexes);
    free(settings->seed);
    function_release(&settings->function);
    free(settings->function_secret_file);
    free(settings->function_ca_file);
}

int config_shape(const struct config *config, struct table *table)
{
    const struct table_config *settings = config_table(config, span_text(table->name));

    if (!settings || !settings->key.name)
        return 0;
    const struct table declared = {.name = table->name,
                                   .partition = settings->key,
                                   .sort = settings->sort,
                                   .indexes = settings->indexes.indexes,
                                   .index_count = settings->indexes.count};
    int r = table_take_shape(table, &declared);
    if (r == 0) {
        table->keys = KEYS_PLAIN;
        table->show_keys = true;
    }
    return r;
}

static void free_table(struct table **table)
{
    table_free(*table);
}

int table_config_check(const struct config *config, const struct table_config *settings,
                       struct err *err)
{
    cleanup(free_table) struct table *table = NULL;

    if (!settings->key.name && (settings->sort.name || settings->indexes.count || settings->seed))
        return err_set(err, EINVAL, "sort, index and seed belong to a key");
    if (!settings->key.name)
        return 0;
    table = table_new_default(span_text(settings->name));
    int r = table ? config_shape(config, table) : -ENOMEM;
    if (r < 0)
        return r;
    config_apply(config, table);
    return table_check(table, err);
}
