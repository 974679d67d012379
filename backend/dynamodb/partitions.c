/* SPDX-License-Identifier: MIT */
/*
 * The partitions of a table with a sort key. The service has no list of them: the whole table is
 * scanned for its keys, which costs as much as reading it. So the list is kept for a moment, and
 * the pages of one listing come out of one scan.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Partition keys, sorted: places in BYTES. Shared by who walks through it and the service. */
struct part_list {
    unsigned references; /* service->lock */
    uint64_t table_id;
    struct buf bytes;
    struct buf places; /* struct part_place[] */
};

struct part_place {
    size_t at, len;
};

static void part_list_free(struct part_list *list)
{
    buf_release(&list->bytes);
    buf_release(&list->places);
    free(list);
}

void service_drop_partitions(struct service *service, struct part_list *list)
{
    pthread_mutex_lock(&service->lock);
    bool last = list && --list->references == 0;
    pthread_mutex_unlock(&service->lock);
    if (last)
        part_list_free(list);
}

static int note_partition(void *context, const struct record *record)
{
    struct part_list *list = context;
    struct part_place place = {list->bytes.len, record->key.partition.len};
    const struct part_place *places = (const struct part_place *)(const void *)list->places.data;
    size_t count = list->places.len / sizeof place;

    /* Items of one partition come together: most repetitions end here. */
    if (count && span_equal(span_of(list->bytes.data + places[count - 1].at, places[count - 1].len),
                            record->key.partition))
        return 0;
    buf_add_span(&list->bytes, record->key.partition);
    buf_add(&list->places, &place, sizeof place);
    return buf_error(&list->bytes) ? buf_error(&list->bytes) : buf_error(&list->places);
}

static int compare_places(const void *a, const void *b, void *bytes)
{
    const struct part_place *left = a, *right = b;
    const char *data = bytes;

    return span_compare(span_of(data + left->at, left->len), span_of(data + right->at, right->len));
}

static int each_partition(const struct part_list *list, const struct table *table,
                          struct span after, size_t limit, partition_fn each, void *context)
{
    const struct part_place *places = (const struct part_place *)(const void *)list->places.data;
    size_t count = list->places.len / sizeof *places, given = 0;
    struct span before = after;
    int r = 0;

    for (size_t i = 0; i < count && r == 0 && (limit == 0 || given < limit); i++) {
        struct span part = span_of(list->bytes.data + places[i].at, places[i].len);
        if (span_compare(part, before) <= 0)
            continue;
        before = part;
        const struct partition_info info = {part, 1, table->changed_ns};
        given++;
        r = each(context, &info);
    }
    return r;
}

static int scan_partitions(struct service *service, const struct table *table,
                           struct part_list **ret_list, struct err *err)
{
    const struct walk all = {.bodies = false};
    struct part_list *list = calloc(1, sizeof *list);

    if (!list)
        return -ENOMEM;
    list->references = 2; /* the caller's, and the service's */
    list->table_id = table->id;
    buf_init(&list->bytes, SIZE_MAX / 8);
    buf_init(&list->places, SIZE_MAX / 8);
    int r = service_walk(&service->backend, table, &all, note_partition, list, err);
    if (r < 0) {
        part_list_free(list);
        return r;
    }
    if (list->places.len)
        qsort_r(list->places.data, list->places.len / sizeof(struct part_place),
                sizeof(struct part_place), compare_places, list->bytes.data);
    pthread_mutex_lock(&service->lock);
    struct part_list *old = service->partitions;
    service->partitions = list;
    pthread_mutex_unlock(&service->lock);
    service_drop_partitions(service, old);
    *ret_list = list;
    return 0;
}

/* The list that the first page of a listing was taken from. */
static struct part_list *kept_partitions(struct service *service, const struct table *table)
{
    scoped_lock(&service->lock);
    struct part_list *list = service->partitions;
    if (!list || list->table_id != table->id)
        return NULL;
    list->references++;
    return list;
}

int service_partitions(struct backend *backend, const struct table *table, struct span after,
                       size_t limit, partition_fn each, void *context, struct err *err)
{
    struct service *service = service_of(backend);
    struct part_list *list = after.len ? kept_partitions(service, table) : NULL;
    int r = list ? 0 : scan_partitions(service, table, &list, err);

    if (r < 0)
        return r;
    r = each_partition(list, table, after, limit, each, context);
    service_drop_partitions(service, list);
    return r;
}

static int count_one(void *context, const struct record *record)
{
    (void)record;
    ++*(uint64_t *)context;
    return 0;
}

int service_partition(struct backend *backend, const struct table *table, struct span partition,
                      uint64_t *ret_items, int64_t *ret_changed_ns, struct err *err)
{
    const struct query first = {.partition = partition, .limit = 1};
    uint64_t items = 0;
    int r = service_query(backend, table, &first, count_one, &items, err);

    if (r < 0)
        return r;
    if (items == 0)
        return err_set(err, ENOENT, "table %s has no such partition", table->name);
    *ret_items = items;
    *ret_changed_ns = table->changed_ns;
    return 0;
}
