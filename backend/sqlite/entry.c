/* SPDX-License-Identifier: MIT */
/* Secondary indexes: a row of `entry` for each index that an item has the attributes of. */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

/* Where an item stands in each index; the bytes lie one after the other. */
struct places {
    struct {
        bool there;
        size_t partition, partition_len, sort_len;
    } at[TABLE_INDEXES_MAX];
    struct buf bytes;
};

static void places_release(struct places *places)
{
    buf_release(&places->bytes);
}

static int places_each(void *context, size_t index, struct span partition, struct span sort)
{
    struct places *places = context;

    places->at[index].there = true;
    places->at[index].partition = places->bytes.len;
    places->at[index].partition_len = partition.len;
    places->at[index].sort_len = sort.len;
    buf_add_span(&places->bytes, partition);
    buf_add_span(&places->bytes, sort);
    return buf_error(&places->bytes);
}

static int places_fill(struct places *places, const struct table *table, struct key key,
                       const struct item_state *item, struct err *err)
{
    memset(places->at, 0, sizeof places->at);
    buf_init(&places->bytes, TABLE_INDEXES_MAX * 2 * (size_t)(KEY_PART_MAX + 1));
    if (!item->body.data)
        return 0;
    int code = item_index_keys(table, key, item->body, item->ttl, places_each, places, err);
    return code ? err_set(err, -code, "out of memory") : 0;
}

static struct key place(const struct places *places, size_t i)
{
    const char *data = places->bytes.data + places->at[i].partition;
    size_t len = places->at[i].partition_len;
    return (struct key){span_of(data, len), span_of(data + len, places->at[i].sort_len)};
}

static int write_entry(struct store *store, enum statement id, const struct known_table *known,
                       size_t i, struct key at, struct key key, struct err *err)
{
    const struct index *index = &known->table->indexes[i];
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, id, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, known->index_ids[i]);
    code = bind_part(statement, 2, index->partition.type, at.partition);
    if (code == 0)
        code = bind_part(statement, 3, index->sort.type, at.sort);
    if (code == 0)
        code = bind_key(statement, 4, known->table, key);
    if (code)
        return err_set(err, ENOMEM, "out of memory");
    return conn_step(store->writer, statement, err);
}

int entries_move(struct store *store, const struct known_table *known, struct key key,
                 const struct item_state *old, const struct item_state *new, struct err *err)
{
    size_t count = known->table->index_count;
    cleanup(places_release) struct places before = {.bytes = {0}};
    cleanup(places_release) struct places after = {.bytes = {0}};
    int code = count ? places_fill(&before, known->table, key, old, err) : 0;

    if (code == 0 && count)
        code = places_fill(&after, known->table, key, new, err);
    for (size_t i = 0; i < count && code == 0; i++) {
        bool was = before.at[i].there, is = after.at[i].there;
        if (was && is && key_equal(place(&before, i), place(&after, i)))
            continue;
        if (was)
            code =
                write_entry(store, STATEMENT_ENTRY_DELETE, known, i, place(&before, i), key, err);
        if (code == 0 && is)
            code = write_entry(store, STATEMENT_ENTRY_INSERT, known, i, place(&after, i), key, err);
    }
    return code;
}
