/* SPDX-License-Identifier: MIT */
/*
 * The partitions of a table with a sort key. The service has no list of them: the whole table is
 * scanned for its keys, which costs as much as reading it. So a listing's first page scans, and the
 * list is kept for its other pages: one for each table that is being listed. Where a table is
 * listed twice at a time, the newer list serves both: a listing never shows less than what was
 * there when it began and has stayed.
 *
 * A list goes with the last of the listings that use it. One that is given up says nothing of it:
 * its list goes when it has not been used for long, when the next listing of that table ends, or
 * when others need its place.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define LISTS_MAX 16                      /* kept at a time */
#define IDLE_NS (INT64_C(600) * NS_PER_S) /* nobody lists so slowly */

/* Partition keys, sorted: places in BYTES. Shared by who walks through it and the service. */
struct part_list {
    struct part_list *next; /* used less recently; this and what follows: service->lock */
    unsigned references;
    unsigned listings; /* that have not come to their end */
    int64_t used_ns;   /* steady clock */
    uint64_t table_id;
    struct buf bytes;
    struct buf places; /* struct part_place[] */
};

struct part_place {
    size_t at, len;
};

/* --- Those that are kept --- */

static void unref_locked(struct part_list *list)
{
    if (--list->references)
        return;
    buf_release(&list->bytes);
    buf_release(&list->places);
    free(list);
}

static void remove_locked(struct part_list **link)
{
    struct part_list *list = *link;

    *link = list->next;
    unref_locked(list);
}

/* Where the list of TABLE_ID is; where a NULL is: there is none. */
static struct part_list **find_locked(struct service *service, uint64_t table_id)
{
    struct part_list **link = &service->partitions;

    while (*link && (*link)->table_id != table_id)
        link = &(*link)->next;
    return link;
}

static void use_locked(struct service *service, struct part_list *list)
{
    list->used_ns = clock_steady_ns();
    list->next = service->partitions;
    service->partitions = list;
}

/* Those from the COUNTth on, and those that nobody has used for long. */
static void trim_locked(struct service *service, size_t count)
{
    int64_t oldest_ns = clock_steady_ns() - IDLE_NS;
    struct part_list **link = &service->partitions;

    for (size_t at = 0; *link; at++)
        if (at >= count || (*link)->used_ns < oldest_ns)
            remove_locked(link);
        else
            link = &(*link)->next;
}

void service_drop_partitions(struct service *service)
{
    scoped_lock(&service->lock);
    trim_locked(service, 0);
}

/* LIST in the place of an older one, whose listings go on with it. */
static void keep(struct service *service, struct part_list *list)
{
    scoped_lock(&service->lock);
    trim_locked(service, LISTS_MAX);
    struct part_list **older = find_locked(service, list->table_id);
    list->references = 2; /* the caller's, and the service's */
    list->listings = 1;
    if (*older) {
        list->listings += (*older)->listings;
        remove_locked(older);
    }
    use_locked(service, list);
    trim_locked(service, LISTS_MAX);
}

/* The list that the first page of a listing was taken from. */
static struct part_list *kept(struct service *service, const struct table *table)
{
    scoped_lock(&service->lock);
    struct part_list **link = find_locked(service, table->id), *list = *link;
    if (!list)
        return NULL;
    *link = list->next;
    use_locked(service, list);
    list->references++;
    return list;
}

/* A page was taken from LIST, whose end it came to, where ENDED. */
static void leave(struct service *service, struct part_list *list, bool ended)
{
    scoped_lock(&service->lock);
    struct part_list **link = find_locked(service, list->table_id);
    if (ended && *link && --(*link)->listings == 0)
        remove_locked(link);
    unref_locked(list);
}

/* --- One of them --- */

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

/* RET_ENDED: no page is to follow. */
static int each_partition(const struct part_list *list, const struct table *table,
                          struct span after, size_t limit, partition_fn each, void *context,
                          bool *ret_ended)
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
    *ret_ended = limit == 0 || (r == 0 && given < limit);
    return r;
}

static int scan_partitions(struct service *service, const struct table *table,
                           struct part_list **ret_list, struct err *err)
{
    const struct walk all = {.bodies = false};
    struct part_list *list = calloc(1, sizeof *list);

    if (!list)
        return -ENOMEM;
    list->references = 1;
    list->table_id = table->id;
    buf_init(&list->bytes, SIZE_MAX / 8);
    buf_init(&list->places, SIZE_MAX / 8);
    int r = service_walk(&service->backend, table, &all, note_partition, list, err);
    if (r < 0) {
        unref_locked(list); /* nobody else has it */
        return r;
    }
    if (list->places.len)
        qsort_r(list->places.data, list->places.len / sizeof(struct part_place),
                sizeof(struct part_place), compare_places, list->bytes.data);
    keep(service, list);
    *ret_list = list;
    return 0;
}

int service_partitions(struct backend *backend, const struct table *table, struct span after,
                       size_t limit, partition_fn each, void *context, struct err *err)
{
    struct service *service = service_of(backend);
    struct part_list *list = after.len ? kept(service, table) : NULL;
    bool ended = false;
    int r = list ? 0 : scan_partitions(service, table, &list, err);

    if (r < 0)
        return r;
    r = each_partition(list, table, after, limit, each, context, &ended);
    leave(service, list, ended);
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
    int r = ret_items ? service_query(backend, table, &first, count_one, &items, err) : 0;

    if (r < 0)
        return r;
    if (ret_items && items == 0)
        return err_set(err, ENOENT, "table %s has no such partition", table->name);
    if (ret_items)
        *ret_items = items;
    *ret_changed_ns = table->changed_ns;
    return 0;
}
