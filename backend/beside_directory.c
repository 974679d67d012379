/* SPDX-License-Identifier: MIT */
/*
 * Tables and partitions as directories. A service tells of neither when something in it last came
 * or went, so the state database notes it: for items with each write made here, in a table of its
 * own, one row a directory; for scratch files it knows by itself. What came or went elsewhere moves
 * no directory time: it would move while somebody only looks.
 *
 * A partition that holds scratch files alone is one, too.
 */
#include "backend/beside_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define TABLE_ITSELF "." /* no partition's name: those do not begin with a dot */

static void table_number(const struct table *table, char ret_number[17])
{
    snprintf(ret_number, 17, "%016" PRIx64, table->id);
}

static void directory_name(const struct table *table, struct span partition, struct buf *name)
{
    if (partition.len)
        key_part_to_name(table, false, partition, "", name);
    else
        buf_add_text(name, TABLE_ITSELF);
}

int directory_actions(struct beside *beside, const struct table *table, struct span partition,
                      int64_t now_ns, struct directory_note *note, struct action *actions,
                      size_t *ret_count)
{
    table_number(table, note->table);
    snprintf(note->body, sizeof note->body, "%" PRId64, now_ns);
    buf_init(&note->name, 4096);
    if (table_sorted(table))
        directory_name(table, partition, &note->name);
    const struct span names[] = {span_text(TABLE_ITSELF), buf_span(&note->name)};
    *ret_count = note->name.len ? 2 : 1;
    for (size_t i = 0; i < *ret_count; i++)
        actions[i] = (struct action){.kind = ACTION_PUT,
                                     .table = beside->directories,
                                     .key = {span_text(note->table), names[i]},
                                     .body = span_text(note->body)};
    return buf_error(&note->name);
}

/* Moves CHANGED_NS to what is noted, where that is later. */
static void see_noted(struct beside *beside, const struct table *table, struct span partition,
                      int64_t *changed_ns)
{
    cleanup(buf_release) struct buf name, body;
    struct item_meta meta;
    char number[17];

    buf_init(&name, 4096);
    buf_init(&body, 64);
    table_number(table, number);
    directory_name(table, partition, &name);
    const struct key key = {span_text(number), buf_span(&name)};
    if (buf_error(&name) ||
        backend_get(beside->state, beside->directories, key, &meta, &body, NULL) < 0 || !body.len)
        return;
    int64_t noted_ns = strtoll(body.data, NULL, 10);
    if (noted_ns > *changed_ns)
        *changed_ns = noted_ns;
}

void directory_see(struct beside *beside, struct table *table)
{
    see_noted(beside, table, span_of(NULL, 0), &table->changed_ns);
}

struct forgotten {
    struct action *actions;
    struct buf names; /* one behind another, each with its NUL */
    size_t count;
};

static int note_name(void *context, const struct record *record)
{
    struct forgotten *forgotten = context;

    buf_add_span(&forgotten->names, record->key.sort);
    buf_add_char(&forgotten->names, '\0');
    forgotten->count++;
    return buf_error(&forgotten->names);
}

int directory_forget(struct beside *beside, const struct table *table, struct err *err)
{
    struct forgotten forgotten = {.count = 0};
    char number[17];

    table_number(table, number);
    buf_init(&forgotten.names, SIZE_MAX / 8);
    const struct walk all = {.after.partition = span_text(number), .in_partition = true};
    int r = backend_walk(beside->state, beside->directories, &all, note_name, &forgotten, err);
    if (r == 0)
        forgotten.actions = calloc(forgotten.count + 1, sizeof *forgotten.actions);
    if (r == 0 && !forgotten.actions)
        r = -ENOMEM;
    const char *name = forgotten.names.data;
    for (size_t i = 0; r == 0 && i < forgotten.count; i++, name += strlen(name) + 1)
        forgotten.actions[i] = (struct action){.kind = ACTION_DELETE,
                                               .table = beside->directories,
                                               .key = {span_text(number), span_text(name)}};
    if (r == 0)
        r = backend_write(beside->state, forgotten.actions, forgotten.count, 0, err);
    free(forgotten.actions);
    buf_release(&forgotten.names);
    return r;
}

/* --- Tables --- */

struct tables_walk {
    struct beside *beside;
    struct known {
        char *name;
        int64_t changed_ns;
    } * files; /* of the state database */
    size_t count;
    table_fn each;
    void *context;
};

/* One that has just been made has not changed. */
static int note_files(void *context, const struct table *table)
{
    struct tables_walk *walk = context;
    struct known *files = reallocarray(walk->files, walk->count + 1, sizeof *files);

    if (!files)
        return -ENOMEM;
    walk->files = files;
    files[walk->count] = (struct known){
        strdup(table->name), table->changed_ns == table->created_ns ? 0 : table->changed_ns};
    return files[walk->count++].name ? 0 : -ENOMEM;
}

static int tell_table(void *context, const struct table *table)
{
    const struct tables_walk *walk = context;
    struct table told = *table;

    for (size_t i = 0; i < walk->count; i++)
        if (strcmp(walk->files[i].name, told.name) == 0 &&
            walk->files[i].changed_ns > told.changed_ns)
            told.changed_ns = walk->files[i].changed_ns;
    see_noted(walk->beside, table, span_of(NULL, 0), &told.changed_ns);
    return walk->each(walk->context, &told);
}

int beside_tables(struct backend *backend, table_fn each, void *context, struct err *err)
{
    struct tables_walk walk = {.beside = beside_of(backend), .each = each, .context = context};
    int r = backend_tables(walk.beside->state, note_files, &walk, err);

    if (r == 0)
        r = backend_tables(walk.beside->items, tell_table, &walk, err);
    for (size_t i = 0; i < walk.count; i++)
        free(walk.files[i].name);
    free(walk.files);
    return r;
}

/* --- Partitions --- */

/* When something in it last came or went, as far as that is known here. */
static int64_t partition_changed(struct beside *beside, const struct table *table,
                                 const struct table *files, struct span partition)
{
    uint64_t items;
    int64_t changed_ns = table->created_ns, files_ns;

    if (backend_partition(beside->state, files, partition, &items, &files_ns, NULL) == 0 &&
        files_ns > changed_ns)
        changed_ns = files_ns;
    see_noted(beside, table, partition, &changed_ns);
    return changed_ns;
}

int beside_partition(struct backend *backend, const struct table *table, struct span partition,
                     uint64_t *ret_items, int64_t *ret_changed_ns, struct err *err)
{
    struct beside *beside = beside_of(backend);
    const struct table *files;
    struct err own = {""};
    uint64_t none;
    int64_t files_ns;
    int r = beside_files(beside, table, &files, err);

    if (r == 0 && !ret_items) {
        *ret_changed_ns = partition_changed(beside, table, files, partition);
        return 0;
    }
    if (r < 0)
        return r;
    r = backend_partition(beside->items, table, partition, ret_items, ret_changed_ns, &own);
    if (r == -ENOENT &&
        backend_partition(beside->state, files, partition, &none, &files_ns, NULL) == 0) {
        *ret_items = 0;
        r = 0;
    }
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    *ret_changed_ns = partition_changed(beside, table, files, partition);
    return 0;
}

/* Partitions that hold scratch files, merged into those of the items in the order of bytes. */
struct partitions_walk {
    struct beside *beside;
    const struct table *table, *files;
    struct span *parts; /* in BYTES, sorted */
    size_t count, at;
    struct buf bytes, places;
    struct span after;
    size_t limit, given;
    partition_fn each;
    void *context;
};

static int note_part(void *context, const struct partition_info *info)
{
    struct partitions_walk *walk = context;
    const size_t place[2] = {walk->bytes.len, info->partition.len};

    if (span_compare(info->partition, walk->after) <= 0)
        return 0;
    buf_add_span(&walk->bytes, info->partition);
    buf_add(&walk->places, place, sizeof place);
    return buf_error(&walk->bytes) ? buf_error(&walk->bytes) : buf_error(&walk->places);
}

static int compare_parts(const void *a, const void *b)
{
    return span_compare(*(const struct span *)a, *(const struct span *)b);
}

static int sort_parts(struct partitions_walk *walk)
{
    size_t place[2];

    walk->count = walk->places.len / sizeof place;
    walk->parts = calloc(walk->count + 1, sizeof *walk->parts);
    if (!walk->parts)
        return -ENOMEM;
    for (size_t i = 0; i < walk->count; i++) {
        memcpy(place, walk->places.data + i * sizeof place, sizeof place);
        walk->parts[i] = span_of(walk->bytes.data + place[0], place[1]);
    }
    qsort(walk->parts, walk->count, sizeof *walk->parts, compare_parts);
    return 0;
}

/* 1: that was the last one wanted. */
static int tell_partition(struct partitions_walk *walk, struct span partition, uint64_t items)
{
    const struct partition_info info = {
        partition, items, partition_changed(walk->beside, walk->table, walk->files, partition)};

    walk->given++;
    int r = walk->each(walk->context, &info);
    return r ? r : walk->limit && walk->given >= walk->limit;
}

/* Those with scratch files that come before BEFORE (data NULL: all). */
static int tell_parts(struct partitions_walk *walk, struct span before)
{
    int r = 0;

    while (r == 0 && walk->at < walk->count &&
           (!before.data || span_compare(walk->parts[walk->at], before) < 0))
        r = tell_partition(walk, walk->parts[walk->at++], 0);
    return r;
}

static int merge_partition(void *context, const struct partition_info *info)
{
    struct partitions_walk *walk = context;
    int r = tell_parts(walk, info->partition);

    if (r == 0 && walk->at < walk->count &&
        span_equal(walk->parts[walk->at], info->partition)) /* has items, too */
        walk->at++;
    return r ? r : tell_partition(walk, info->partition, info->items);
}

int beside_partitions(struct backend *backend, const struct table *table, struct span after,
                      size_t limit, partition_fn each, void *context, struct err *err)
{
    struct beside *beside = beside_of(backend);
    struct partitions_walk walk = {.beside = beside,
                                   .table = table,
                                   .after = after,
                                   .limit = limit,
                                   .each = each,
                                   .context = context};
    const struct table *files;
    int r = beside_files(beside, table, &files, err);

    if (r < 0)
        return r;
    walk.files = files;
    buf_init(&walk.bytes, SIZE_MAX / 8);
    buf_init(&walk.places, SIZE_MAX / 8);
    r = backend_partitions(beside->state, files, span_of(NULL, 0), 0, note_part, &walk, err);
    if (r == 0)
        r = sort_parts(&walk);
    if (r == 0)
        r = backend_partitions(beside->items, table, after, limit, merge_partition, &walk, err);
    if (r == 0)
        r = tell_parts(&walk, span_of(NULL, 0));
    free(walk.parts);
    buf_release(&walk.bytes);
    buf_release(&walk.places);
    return r > 0 && limit && walk.given >= limit ? 0 : r;
}
