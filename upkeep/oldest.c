/* SPDX-License-Identifier: MIT */
#include "upkeep/oldest.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM_FIRST 64

void doomed_clear(struct doomed_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].key);
    list->count = list->bytes = 0;
    free(list->ceiling.key);
    list->ceiling.key = NULL;
}

void doomed_release(struct doomed_list *list)
{
    doomed_clear(list);
    free(list->items);
    *list = (struct doomed_list){0};
}

static size_t bytes_of(const struct doomed *doomed)
{
    return doomed->partition_len + doomed->sort_len;
}

int doomed_add(struct doomed_list *list, const struct record *record)
{
    struct key key = record->key;

    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : ROOM_FIRST;
        struct doomed *more = reallocarray(list->items, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        list->items = more;
        list->room = room;
    }
    struct doomed *doomed = &list->items[list->count];
    *doomed = (struct doomed){.version = record->meta.version,
                              .mtime_ns = record->meta.mtime_ns,
                              .partition_len = key.partition.len,
                              .sort_len = key.sort.len,
                              .key = malloc(key.partition.len + key.sort.len + 1)};
    if (!doomed->key)
        return -ENOMEM;
    memcpy(doomed->key, key.partition.data, key.partition.len);
    if (key.sort.len)
        memcpy(doomed->key + key.partition.len, key.sort.data, key.sort.len);
    list->bytes += bytes_of(doomed);
    list->count++;
    return 0;
}

static int compare(int64_t mtime_ns, struct key key, const struct doomed *other)
{
    struct key theirs = doomed_key(other);

    if (mtime_ns != other->mtime_ns)
        return mtime_ns < other->mtime_ns ? -1 : 1;
    int order = span_compare(key.partition, theirs.partition);
    return order ? order : span_compare(key.sort, theirs.sort);
}

static int compare_items(const void *a, const void *b)
{
    const struct doomed *doomed = a;
    return compare(doomed->mtime_ns, doomed_key(doomed), b);
}

static void swap(struct doomed_list *heap, size_t a, size_t b)
{
    struct doomed other = heap->items[a];
    heap->items[a] = heap->items[b];
    heap->items[b] = other;
}

static void sift_up(struct doomed_list *heap, size_t at)
{
    while (at > 0 && compare_items(&heap->items[at], &heap->items[(at - 1) / 2]) > 0) {
        swap(heap, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static void sift_down(struct doomed_list *heap)
{
    for (size_t at = 0;;) {
        size_t newest = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap->count; child++)
            if (compare_items(&heap->items[child], &heap->items[newest]) > 0)
                newest = child;
        if (newest == at)
            return;
        swap(heap, at, newest);
        at = newest;
    }
}

static void drop_newest(struct doomed_list *heap)
{
    heap->bytes -= bytes_of(&heap->items[0]);
    free(heap->ceiling.key);
    heap->ceiling = heap->items[0];
    heap->items[0] = heap->items[--heap->count];
    sift_down(heap);
}

int oldest_add(struct doomed_list *heap, const struct record *record, size_t most)
{
    if (heap->ceiling.key && compare(record->meta.mtime_ns, record->key, &heap->ceiling) > 0)
        return 0;
    int code = doomed_add(heap, record);
    if (code < 0)
        return code;
    sift_up(heap, heap->count - 1);
    while (heap->count > most || (heap->bytes > DOOMED_BYTES && heap->count > 1))
        drop_newest(heap);
    return 0;
}

void oldest_sort(struct doomed_list *heap)
{
    if (heap->count)
        qsort(heap->items, heap->count, sizeof *heap->items, compare_items);
}
