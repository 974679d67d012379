/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/recent.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

#define PLACES 512
#define ITEM_BYTES_MAX (16u << 10) /* 8 MB in all, at most */

struct place {
    uint64_t id; /* hash of table and key */
    uint64_t version;
    char *typed;
    size_t len;
};

struct recent {
    pthread_mutex_t lock;
    struct place places[PLACES];
};

struct recent *recent_new(void)
{
    struct recent *recent = calloc(1, sizeof *recent);

    if (recent)
        pthread_mutex_init(&recent->lock, NULL);
    return recent;
}

void recent_free(struct recent *recent)
{
    if (!recent)
        return;
    for (size_t i = 0; i < PLACES; i++)
        free(recent->places[i].typed);
    pthread_mutex_destroy(&recent->lock);
    free(recent);
}

static uint64_t id_of(uint64_t table_id, struct key key)
{
    return hash64(key.sort, hash64(key.partition, table_id));
}

void recent_put(struct recent *recent, uint64_t table_id, struct key key, uint64_t version,
                struct span typed)
{
    uint64_t id = id_of(table_id, key);
    char *copy = typed.len && typed.len <= ITEM_BYTES_MAX ? malloc(typed.len) : NULL;

    if (!copy)
        return;
    memcpy(copy, typed.data, typed.len);
    scoped_lock(&recent->lock);
    struct place *place = &recent->places[id % PLACES];
    free(place->typed);
    *place = (struct place){id, version, copy, typed.len};
}

bool recent_find(struct recent *recent, uint64_t table_id, struct key key, uint64_t version,
                 struct buf *typed)
{
    uint64_t id = id_of(table_id, key);
    scoped_lock(&recent->lock);
    const struct place *place = &recent->places[id % PLACES];

    if (!place->typed || place->id != id || place->version != version)
        return false;
    buf_add(typed, place->typed, place->len);
    return buf_error(typed) == 0;
}
