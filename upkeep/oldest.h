/* SPDX-License-Identifier: MIT */
/* Items that are to be deleted, with what they were judged by; and the oldest of many. */
#ifndef UPKEEP_OLDEST_H
#define UPKEEP_OLDEST_H

#include "backend/backend.h"

#define DOOMED_MOST 65536        /* items that are kept at a time, */
#define DOOMED_BYTES (64u << 20) /* and bytes of their keys, but for one */

struct doomed {
    uint64_t version;
    int64_t mtime_ns;
    size_t partition_len, sort_len;
    char *key; /* both parts */
};

static inline struct key doomed_key(const struct doomed *doomed)
{
    return (struct key){span_of(doomed->key, doomed->partition_len),
                        span_of(doomed->key + doomed->partition_len, doomed->sort_len)};
}

/* A list, or a heap whose first is the newest: by mtime, then by key. */
struct doomed_list {
    struct doomed *items;
    size_t count, room;
    size_t bytes;          /* of keys */
    struct doomed ceiling; /* of a heap: the oldest that it had no room for; key NULL: none */
};

void doomed_release(struct doomed_list *list);
/* Frees the items. */
void doomed_clear(struct doomed_list *list);
/* Appends a copy of RECORD's. -ENOMEM. */
int doomed_add(struct doomed_list *list, const struct record *record);
static inline bool doomed_full(const struct doomed_list *list, size_t most)
{
    return list->count >= most || list->bytes >= DOOMED_BYTES;
}

/* Keeps RECORD's in a heap of the MOST oldest that were given, fewer where their keys are too
 * large. -ENOMEM. */
int oldest_add(struct doomed_list *heap, const struct record *record, size_t most);
/* Makes the heap a list, oldest first. */
void oldest_sort(struct doomed_list *heap);

#endif
