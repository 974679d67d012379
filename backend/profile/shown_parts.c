/* SPDX-License-Identifier: MIT */
/*
 * Partitions of tables whose shown keys are not the stored ones: those that the listing index has a
 * value for, or that the items of the whole table have, where there is no index. One is there as
 * long as an item of it is, shown or hidden: who has hidden all of them finds an empty directory.
 *
 * They are found all at once, and given out page by page: a listing's first page makes the list,
 * the others go on with the last one that was made, and the last page drops it.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/profile/shown_private.h"
#include "base/set.h"

#define PARTS_BYTES_MAX (64u << 20)

struct part_list {
    unsigned references; /* shown->lock */
    struct set set;
    struct span *sorted; /* in SET */
};

static void list_free(struct part_list *list)
{
    set_release(&list->set);
    free(list->sorted);
    free(list);
}

static void list_unref(struct shown *shown, struct part_list *list)
{
    bool last = false;

    if (!list)
        return;
    pthread_mutex_lock(&shown->lock);
    last = --list->references == 0;
    pthread_mutex_unlock(&shown->lock);
    if (last)
        list_free(list);
}

static struct part_list **list_of(const struct profile_table *table)
{
    return &((struct shown_table *)(uintptr_t)table)->parts; /* const for the others */
}

/* LIST, or NULL, becomes the one that further pages go on with. */
static void list_keep(struct shown *shown, const struct profile_table *table,
                      struct part_list *list)
{
    struct part_list *old;

    pthread_mutex_lock(&shown->lock);
    old = *list_of(table);
    *list_of(table) = list;
    if (list)
        list->references++;
    pthread_mutex_unlock(&shown->lock);
    list_unref(shown, old);
}

static struct part_list *list_kept(struct shown *shown, const struct profile_table *table)
{
    scoped_lock(&shown->lock);
    struct part_list *list = *list_of(table);
    if (list)
        list->references++;
    return list;
}

void parts_forget(struct shown_table *known)
{
    if (known->parts)
        list_free(known->parts);
}

/* --- Making one --- */

struct finding {
    const struct profile_table *table;
    struct shown_item item;
    struct set *set;
};

static int note_value(void *context, struct span part)
{
    int r = set_add(((struct finding *)context)->set, part);

    return r < 0 ? r : 0;
}

static int note_record(void *context, const struct record *record)
{
    struct finding *finding = context;
    int r = item_show(finding->table, record, &finding->item);

    return r < 0 || !finding->item.partition.len
               ? r
               : note_value(finding, buf_span(&finding->item.partition));
}

static int find_parts(struct shown *shown, const struct profile_table *table, struct set *set,
                      struct err *err)
{
    const struct walk walk = {.bodies = true};
    struct finding finding = {.table = table, .set = set};
    int r;

    if (table->listing)
        return backend_index_values(shown->stored, table->stored, table->listing, note_value,
                                    &finding, err);
    shown_item_init(&finding.item);
    r = backend_walk(shown->stored, table->stored, &walk, note_record, &finding, err);
    shown_item_release(&finding.item);
    return r;
}

static int compare_parts(const void *left, const void *right)
{
    return span_compare(*(const struct span *)left, *(const struct span *)right);
}

static int sort_parts(struct part_list *list)
{
    const char *at = list->set.bytes.data;

    list->sorted = calloc(list->set.count + 1, sizeof *list->sorted);
    if (!list->sorted)
        return -ENOMEM;
    for (size_t i = 0; i < list->set.count; i++) {
        size_t len;
        memcpy(&len, at, sizeof len);
        list->sorted[i] = span_of(at + sizeof len, len);
        at += sizeof len + len;
    }
    qsort(list->sorted, list->set.count, sizeof *list->sorted, compare_parts);
    return 0;
}

static int list_new(struct shown *shown, const struct profile_table *table,
                    struct part_list **ret_list, struct err *err)
{
    struct part_list *list = calloc(1, sizeof *list);
    int r;

    if (!list)
        return -ENOMEM;
    list->references = 1;
    set_init(&list->set, PARTS_BYTES_MAX);
    r = find_parts(shown, table, &list->set, err);
    if (r == -EFBIG)
        err_set(err, EFBIG, "table %s has too many partitions to list them", table->shown->name);
    if (r == 0)
        r = sort_parts(list);
    if (r < 0) {
        list_free(list);
        return r;
    }
    list_keep(shown, table, list);
    *ret_list = list;
    return 0;
}

/* --- Operations --- */

/* The place of the first part behind AFTER. */
static size_t place_behind(const struct part_list *list, struct span after)
{
    size_t low = 0, high = after.len ? list->set.count : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (span_compare(list->sorted[middle], after) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int shown_partitions(struct backend *backend, const struct table *table, struct span after,
                     size_t limit, partition_fn each, void *context, struct err *err)
{
    struct shown *shown = shown_of(backend);
    const struct profile_table *profiled = table->profile;
    struct part_list *list;
    int r = 0;

    if (!profiled || !profiled->other_keys)
        return backend_partitions(shown->stored, profiled ? profiled->stored : table, after, limit,
                                  each, context, err);
    list = after.len ? list_kept(shown, profiled) : NULL;
    if (!list)
        r = list_new(shown, profiled, &list, err);
    if (r < 0)
        return r;
    size_t at = place_behind(list, after), given = 0;
    for (; r == 0 && at < list->set.count && (!limit || given < limit); at++, given++) {
        const struct partition_info info = {list->sorted[at], 1, table->changed_ns};
        r = each(context, &info);
    }
    if (r == 0 && at == list->set.count)
        list_keep(shown, profiled, NULL);
    list_unref(shown, list);
    return r;
}

/* Whether there is an item of a partition; TABLE NULL: nothing but its items is looked at. */
struct looking {
    const struct profile_table *table;
    struct span partition;
    struct shown_item item;
    bool found;
};

static int look(void *context, const struct record *record)
{
    struct looking *looking = context;
    int r = looking->table ? item_show(looking->table, record, &looking->item) : 0;

    looking->found = r == 0 && (!looking->table ||
                                span_equal(buf_span(&looking->item.partition), looking->partition));
    return r < 0 ? r : looking->found;
}

static int found_scratch(void *context, const struct scratch *scratch)
{
    (void)context;
    (void)scratch;
    return 1;
}

/* 1: there is one, hidden ones too. */
static int find_item(struct shown *shown, const struct profile_table *table, struct span partition,
                     struct err *err)
{
    const struct query query = {.index = table->listing, .partition = partition, .limit = 1};
    const struct walk walk = {.bodies = true};
    struct looking looking = {.table = table->listing ? NULL : table, .partition = partition};
    int r;

    shown_item_init(&looking.item);
    r = table->listing ? backend_query(shown->stored, table->stored, &query, look, &looking, err)
                       : backend_walk(shown->stored, table->stored, &walk, look, &looking, err);
    shown_item_release(&looking.item);
    return r < 0 ? r : looking.found;
}

int shown_partition(struct backend *backend, const struct table *table, struct span partition,
                    uint64_t *ret_items, int64_t *ret_changed_ns, struct err *err)
{
    struct shown *shown = shown_of(backend);
    const struct profile_table *profiled = table->profile;

    if (!profiled || !profiled->other_keys)
        return backend_partition(shown->stored, profiled ? profiled->stored : table, partition,
                                 ret_items, ret_changed_ns, err);
    int r = find_item(shown, profiled, partition, err);
    if (r == 0)
        r = backend_scratch_list(shown->stored, profiled->stored, partition, 0, found_scratch, NULL,
                                 err);
    if (r < 0)
        return r;
    if (ret_items)
        *ret_items = 1;
    *ret_changed_ns = table->changed_ns;
    return r == 1 ? 0 : -ENOENT;
}
