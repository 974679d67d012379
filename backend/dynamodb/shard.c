/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool word_is_fit(struct span word, size_t most)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.data[i] <= ' ' || word.data[i] > '~' || word.data[i] == ',' || word.data[i] == '=')
            return false;
    return word.len > 0 && word.len <= most;
}

static void shard_release(struct shard *shard)
{
    free(shard->id);
    free(shard->parent);
    free(shard->after);
    free(shard->iterator);
}

void shards_release(struct shards *shards)
{
    for (size_t i = 0; i < shards->count; i++)
        shard_release(&shards->list[i]);
    free(shards->list);
    *shards = (struct shards){0};
}

int shard_set(char **field, struct span text)
{
    char *copy = strndup(text.data ? text.data : "", text.len);

    if (!copy)
        return -ENOMEM;
    free(*field);
    *field = copy;
    return 0;
}

static int reserve(struct shards *shards, size_t count)
{
    if (count <= shards->room)
        return 0;
    size_t room = count + shards->room;
    struct shard *list = reallocarray(shards->list, room, sizeof *list);
    if (!list)
        return -ENOMEM;
    shards->list = list;
    shards->room = room;
    return 0;
}

int shards_add(struct shards *shards, struct span id, struct span parent, struct shard **ret_shard)
{
    struct shard shard = {.id = NULL};

    if (!word_is_fit(id, SHARD_TEXT_MAX) || (parent.data && !word_is_fit(parent, SHARD_TEXT_MAX)))
        return -EINVAL;
    if (shards->count == SHARDS_MAX)
        return -EFBIG;
    int code = reserve(shards, shards->count + 1);
    if (code == 0)
        code = shard_set(&shard.id, id);
    if (code == 0 && parent.data)
        code = shard_set(&shard.parent, parent);
    if (code) {
        shard_release(&shard);
        return code;
    }
    *ret_shard = &shards->list[shards->count++];
    **ret_shard = shard;
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct shard *)a)->id, ((const struct shard *)b)->id);
}

void shards_sort(struct shards *shards)
{
    size_t kept = 0;

    if (shards->count)
        qsort(shards->list, shards->count, sizeof *shards->list, compare_ids);
    for (size_t i = 0; i < shards->count; i++) {
        if (kept && compare_ids(&shards->list[kept - 1], &shards->list[i]) == 0)
            shard_release(&shards->list[i]);
        else
            shards->list[kept++] = shards->list[i];
    }
    shards->count = kept;
}

struct shard *shards_find(const struct shards *shards, const char *id)
{
    const struct shard wanted = {.id = (char *)id};

    if (!id || !shards->count)
        return NULL;
    return bsearch(&wanted, shards->list, shards->count, sizeof wanted, compare_ids);
}

bool shard_is_ready(const struct shards *shards, const struct shard *shard)
{
    const struct shard *parent = shards_find(shards, shard->parent);

    return !shard->done && (!parent || parent->done);
}

/* --- Bringing up to date --- */

/* What is known of TO, but for its place in the list. */
static void take_progress(struct shard *to, struct shard *from)
{
    struct shard whole = *from;

    whole.id = to->id;
    whole.parent = to->parent;
    whole.doubted |= whole.missing;
    whole.missing = false;
    *from = (struct shard){.id = from->id, .parent = from->parent};
    *to = whole;
}

/* Sets `divided` of the shards of PARENTS that one of CHILDREN has for its parent. */
static void mark_divided(struct shards *parents, const struct shards *children)
{
    for (size_t i = 0; i < children->count; i++) {
        struct shard *parent = shards_find(parents, children->list[i].parent);
        if (parent)
            parent->divided = true;
    }
}

/* Those that are known speak for themselves. */
static void mark_ancestors(struct shards *listed, const struct shards *known)
{
    for (size_t i = 0; i < known->count; i++) {
        struct shard *shard = shards_find(listed, known->list[i].id);
        while (shard && (shard = shards_find(listed, shard->parent)) && !shard->done &&
               !shards_find(known, shard->id))
            shard->done = true;
    }
}

/* What becomes of a shard that is not listed: whether it stays. */
static bool stays(const struct shard *shard, bool first, bool *lost)
{
    if (!shard->done && !shard->missing)
        return true;
    if (!shard->done || (first && !shard->divided))
        *lost = true;
    return false;
}

int shards_update(struct shards *shards, struct shards *listed, bool first, bool *ret_lost)
{
    if (reserve(listed, listed->count + shards->count) < 0)
        return -ENOMEM;
    shards_sort(listed);
    mark_divided(shards, listed);
    size_t count = listed->count;
    for (size_t i = 0; i < shards->count; i++) {
        struct shard *same = shards_find(listed, shards->list[i].id);
        if (same)
            take_progress(same, &shards->list[i]);
    }
    if (first)
        mark_ancestors(listed, shards);
    for (size_t i = 0; i < shards->count; i++) {
        if (shards_find(listed, shards->list[i].id) || !stays(&shards->list[i], first, ret_lost))
            continue;
        listed->list[count++] = shards->list[i];
        shards->list[i] = (struct shard){.id = NULL};
    }
    listed->count = count;
    shards_release(shards);
    *shards = *listed;
    *listed = (struct shards){0};
    shards_sort(shards);
    for (size_t i = 0; i < shards->count; i++)
        shards->list[i].divided = false;
    mark_divided(shards, shards);
    return 0;
}

int sequence_compare(const char *a, const char *b)
{
    a += strspn(a, "0");
    b += strspn(b, "0");
    size_t a_len = strlen(a), b_len = strlen(b);
    return a_len == b_len ? strcmp(a, b) : (a_len > b_len) - (a_len < b_len);
}
