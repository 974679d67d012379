/* SPDX-License-Identifier: MIT */
/* Keys of tables with a profile as paths and user.itemfs.key have them. */
#include <errno.h>

#include "backend/profile/profile.h"
#include "backend/profile/shown.h"
#include "base/cleanup.h"
#include "tools/itemctl/keys.h"

static int find_stored(struct backend *backend, const struct table *shown, const struct value *map,
                       struct key_bytes *ret_key, struct err *err)
{
    const struct key_attribute *attributes[] = {&shown->partition, &shown->sort};
    cleanup(key_bytes_release) struct key_bytes key;
    struct buf *parts[] = {&key.partition, &key.sort};
    size_t count = table_sorted(shown) ? 2 : 1;
    int r = 0;

    key_bytes_init(&key);
    if (map->map.count != count)
        return err_set(err, EINVAL, "it has %zu attributes, and the key that is shown %zu",
                       map->map.count, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct value *value = value_member(map, span_text(attributes[i]->name));

        r = value ? key_part_from_value(shown, i == 1, value, parts[i], err)
                  : err_set(err, EINVAL, "it has no attribute \"%s\"", attributes[i]->name);
    }
    return r ? r
             : shown_locate(backend, shown, key_bytes_key(&key), &ret_key->partition,
                            &ret_key->sort, err);
}

int key_from_shown(struct ctl *ctl, const struct table *table, const struct value *map,
                   struct key_bytes *ret_key, struct err *err)
{
    const struct profile_choice *choice = source_choice(ctl->source, span_text(table->name));
    struct source *source = NULL;
    struct backend *backend;
    struct table *shown = NULL;
    int r;

    if (!choice || !choice->profile->store_key)
        return 1;
    r = source_show(ctl->source, &source, err);
    if (r == 0)
        r = source_table(source, span_text(table->name), &backend, &shown, err);
    if (r == 0 && !value_member(map, span_text(shown->partition.name)))
        r = 1;
    if (r == 0)
        r = find_stored(backend, shown, map, ret_key, err);
    table_free(shown);
    source_close(source);
    return r;
}
