/* SPDX-License-Identifier: MIT */
/*
 * What happens to one item within the writer's transaction. The order in each change is: find the
 * old row, check the condition, append to the change log (its number is the new version), write the
 * row, move index entries, count the partition.
 */
#include <errno.h>

#include "backend/check.h"
#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

/* The row as it is. The body is valid until the finding statement is reset. */
struct found {
    bool there;
    bool expired;
    struct item_meta meta;
    int64_t hidden_ttl;
    struct span body;
};

/* Whether a body examined with A needs no examination with B. */
static bool same_rules(const struct table *a, const struct table *b)
{
    if (!text_equal(a->ttl_attribute, b->ttl_attribute) || a->index_count != b->index_count ||
        !key_attribute_equal(&a->partition, &b->partition) ||
        !key_attribute_equal(&a->sort, &b->sort))
        return false;
    for (size_t i = 0; i < a->index_count; i++)
        if (!key_attribute_equal(&a->indexes[i].partition, &b->indexes[i].partition) ||
            !key_attribute_equal(&a->indexes[i].sort, &b->indexes[i].sort))
            return false;
    return true;
}

/* Without the writer: the long part of a save. */
int item_prepare(const struct table *table, const struct action *action, struct prepared *prepared,
                 struct err *err)
{
    prepared->body = action->body;
    buf_clear(&prepared->fitted);
    int code = item_examine(table, action->key, action->body, &prepared->facts, NULL, err);
    if (code || !prepared->facts.key_differs)
        return code;
    code = item_fit_key(table, action->key, action->body, &prepared->fitted, err);
    if (code == 0)
        code = buf_error(&prepared->fitted);
    if (code)
        return err_set(err, -code, "%s: the key does not fit into the body",
                       item_label(table, action->key).text);
    prepared->body = buf_span(&prepared->fitted);
    return 0;
}

/* STATEMENT stays with its row: to be reset by the caller. */
static int find(struct store *store, const struct table *table, struct key key, int64_t now_ns,
                sqlite3_stmt **ret_statement, struct found *ret_found, struct err *err)
{
    sqlite3_stmt *row;
    int code = conn_statement(store->writer, STATEMENT_ITEM_FIND, &row, err);

    if (code)
        return code;
    *ret_statement = row;
    *ret_found = (struct found){.there = false};
    if (bind_key(row, 2, table, key) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(row, 1, (int64_t)table->id);
    code = conn_step(store->writer, row, err);
    if (code <= 0)
        return code;
    column_meta(row, 0, &ret_found->meta);
    ret_found->hidden_ttl = sqlite3_column_int64(row, META_END);
    if (column_span(row, META_END + 1, &ret_found->body) < 0)
        return err_set(err, ENOMEM, "out of memory");
    ret_found->there = true;
    ret_found->expired = item_gone(table, ret_found->meta.ttl, now_ns / NS_PER_S);
    return 0;
}

static int delete_row(struct store *store, const struct table *table, struct key key,
                      struct err *err)
{
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_ITEM_DELETE, &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)table->id);
    if (bind_key(statement, 2, table, key) < 0)
        return err_set(err, ENOMEM, "out of memory");
    return conn_step(store->writer, statement, err);
}

/* Takes the found item out, as a REMOVE. */
static int remove_found(struct store *store, const struct known_table *known, struct key key,
                        const struct found *old, int64_t now_ns, struct err *err)
{
    const struct table *table = known->table;
    struct log_entry entry = {.kind = LOG_ITEM,
                              .table_id = table->id,
                              .key = key,
                              .change = CHANGE_REMOVE,
                              .streamed = table->stream,
                              .expired = old->expired,
                              .time_ns = now_ns,
                              .old_body = old->body,
                              .old_ttl = old->hidden_ttl};
    struct item_state was = {old->body, old->hidden_ttl}, gone = {{NULL, 0}, 0};
    uint64_t sequence;
    int code = log_append(store, table, &entry, &sequence, err);

    if (code == 0)
        code = entries_move(store, known, key, &was, &gone, err);
    if (code == 0)
        code = delete_row(store, table, key, err);
    return code ? code : partition_count(store, table, key.partition, -1, now_ns, err);
}

/* The item as a write meets it: an expired one is removed first, and then is not there. */
static int meet(struct store *store, const struct known_table *known, struct action *action,
                int64_t now_ns, sqlite3_stmt **ret_statement, struct found *ret_found,
                struct err *err)
{
    int code = find(store, action->table, action->key, now_ns, ret_statement, ret_found, err);

    if (code == 0 && ret_found->expired) {
        code = remove_found(store, known, action->key, ret_found, now_ns, err);
        ret_found->there = false;
    }
    if (code)
        return code;
    code = check_condition(action, ret_found->there, ret_found->meta.version, err);
    return code ? code : check_mtime(action, ret_found->meta.mtime_ns, err);
}

static int touch_row(struct store *store, const struct table *table, struct action *action,
                     const struct found *old, int64_t now_ns, struct err *err)
{
    struct log_entry entry = {
        .kind = LOG_TOUCH, .table_id = table->id, .key = action->key, .time_ns = now_ns};
    uint64_t sequence;
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, STATEMENT_ITEM_TOUCH, &statement, err);

    if (code)
        return code;
    action->meta = old->meta;
    action->meta.mtime_ns = action->mtime_ns ? action->mtime_ns : now_ns;
    action->meta.ctime_ns = now_ns;
    sqlite3_bind_int64(statement, 1, (int64_t)table->id);
    if (bind_key(statement, 2, table, action->key) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(statement, 4, action->meta.mtime_ns);
    sqlite3_bind_int64(statement, 5, action->meta.ctime_ns);
    code = conn_step(store->writer, statement, err);
    action->change = CHANGE_NONE;
    return code ? code : log_append(store, table, &entry, &sequence, err);
}

static int write_row(struct store *store, const struct table *table, const struct action *action,
                     bool update, int64_t hidden_ttl, struct span body, struct err *err)
{
    const struct item_meta *meta = &action->meta;
    sqlite3_stmt *statement;
    int code = conn_statement(store->writer, update ? STATEMENT_ITEM_UPDATE : STATEMENT_ITEM_INSERT,
                              &statement, err);

    if (code)
        return code;
    sqlite3_bind_int64(statement, 1, (int64_t)table->id);
    if (bind_key(statement, 2, table, action->key) < 0)
        return err_set(err, ENOMEM, "out of memory");
    sqlite3_bind_int64(statement, 4, (int64_t)meta->version);
    sqlite3_bind_int64(statement, 5, (int64_t)meta->size);
    sqlite3_bind_int64(statement, 6, meta->mtime_ns);
    sqlite3_bind_int64(statement, 7, meta->ctime_ns);
    bind_time(statement, 8, meta->ttl);
    sqlite3_bind_int64(statement, 9, meta->change_ns);
    sqlite3_bind_int(statement, 10, (int)meta->change);
    bind_time(statement, 11, hidden_ttl);
    bind_text(statement, 12, body);
    return conn_step(store->writer, statement, err);
}

/* The item's new content: log, row, entries, partition. */
static int replace(struct store *store, const struct known_table *known, struct action *action,
                   const struct prepared *prepared, const struct found *old, int64_t hidden_ttl,
                   int64_t now_ns, struct err *err)
{
    const struct table *table = known->table;
    bool update = old->there;
    struct span body = span_of(prepared->body.len ? prepared->body.data : "", prepared->body.len);
    struct log_entry entry = {.kind = LOG_ITEM,
                              .table_id = table->id,
                              .key = action->key,
                              .change = update ? CHANGE_MODIFY : CHANGE_INSERT,
                              .streamed = table->stream,
                              .time_ns = now_ns,
                              .new_body = body,
                              .new_ttl = hidden_ttl};
    struct item_state was = {{NULL, 0}, 0}, is = {body, hidden_ttl};

    if (update) {
        entry.old_body = old->body;
        entry.old_ttl = old->hidden_ttl;
        was = (struct item_state){old->body, old->hidden_ttl};
    }
    int code = log_append(store, table, &entry, &action->meta.version, err);
    action->meta.size = body.len;
    action->meta.mtime_ns = action->mtime_ns ? action->mtime_ns : now_ns;
    action->meta.ctime_ns = action->meta.change_ns = now_ns;
    action->meta.change = action->change = entry.change;
    if (code == 0)
        code = entries_move(store, known, action->key, &was, &is, err);
    if (code == 0)
        code = write_row(store, table, action, update, hidden_ttl, body, err);
    if (code == 0 && !update)
        code = partition_count(store, table, action->key.partition, 1, now_ns, err);
    return code;
}

int64_t store_ttl(const struct store *store, int64_t ttl, int64_t now_s)
{
    return store->leave_expired && ttl <= now_s - ITEM_LONG_GONE_S ? 0 : ttl;
}

int item_put(struct store *store, struct action *action, struct prepared *prepared, int64_t now_ns,
             struct err *err)
{
    const struct known_table *known;
    scoped_statement *row = NULL;
    struct found old;
    int code = schema_table(store, action->table, &known, err);

    if (code == 0 && !same_rules(known->table, action->table))
        code = item_prepare(known->table, action, prepared, err);
    if (code == 0)
        code = meet(store, known, action, now_ns, &row, &old, err);
    if (code)
        return code;
    const struct item_facts *facts = &prepared->facts;
    int64_t hidden_ttl = !facts->is_object && action->ttl > 0 ? action->ttl : 0;
    if (old.there && old.hidden_ttl == hidden_ttl && span_equal(old.body, prepared->body))
        return touch_row(store, known->table, action, &old, now_ns, err);
    int64_t ttl = facts->is_object ? facts->ttl : known->table->ttl_attribute ? hidden_ttl : 0;
    action->meta.ttl = store_ttl(store, ttl, now_ns / NS_PER_S);
    return replace(store, known, action, prepared, &old, hidden_ttl, now_ns, err);
}

int item_delete(struct store *store, struct action *action, int64_t now_ns, struct err *err)
{
    const struct known_table *known;
    scoped_statement *row = NULL;
    struct found old;
    int code = schema_table(store, action->table, &known, err);

    if (code == 0)
        code = meet(store, known, action, now_ns, &row, &old, err);
    if (code)
        return code;
    action->change = old.there ? CHANGE_REMOVE : CHANGE_NONE;
    if (!old.there)
        return 0;
    action->meta = old.meta;
    return remove_found(store, known, action->key, &old, now_ns, err);
}

int item_touch(struct store *store, struct action *action, int64_t now_ns, struct err *err)
{
    const struct known_table *known;
    scoped_statement *row = NULL;
    struct found old;
    int code = schema_table(store, action->table, &known, err);

    if (code == 0)
        code = meet(store, known, action, now_ns, &row, &old, err);
    if (code)
        return code;
    if (!old.there)
        return err_set(err, ENOENT, "%s: does not exist",
                       item_label(known->table, action->key).text);
    return touch_row(store, known->table, action, &old, now_ns, err);
}

/* The body that the item has after UPDATE, into BODY; ret_ttl: beside it. */
static int updated_body(struct store *store, const struct table *table, struct key key,
                        const struct update *update, int64_t now_ns, struct buf *body,
                        int64_t *ret_ttl, struct buf *ret_number, struct err *err)
{
    scoped_statement *row = NULL;
    struct found old;
    struct err own = {""};
    int code = find(store, table, key, now_ns, &row, &old, err);

    if (code)
        return code;
    if (!old.there || old.expired)
        return err_set(err, ENOENT, "%s: does not exist", item_label(table, key).text);
    code = item_update(old.body, update, body, ret_number, &own);
    *ret_ttl = old.hidden_ttl;
    return code ? err_set(err, -code, "%s: %s", item_label(table, key).text, own.text) : 0;
}

/* A put of the new body, within the transaction that has read the old one. */
int item_change(struct store *store, struct action *action, const struct update *update,
                struct prepared *prepared, struct buf *body, struct buf *ret_number, int64_t now_ns,
                struct err *err)
{
    const struct known_table *known;
    int code = schema_table(store, action->table, &known, err);

    if (code == 0)
        code = updated_body(store, action->table, action->key, update, now_ns, body, &action->ttl,
                            ret_number, err);
    action->body = buf_span(body);
    if (code == 0)
        code = check_action(&store->backend, action, 0, err);
    if (code == 0)
        code = item_prepare(known->table, action, prepared, err);
    return code ? code : item_put(store, action, prepared, now_ns, err);
}

int item_expire(struct store *store, const struct known_table *known, struct key key,
                int64_t now_ns, struct err *err)
{
    scoped_statement *row = NULL;
    struct found old;
    int code = find(store, known->table, key, now_ns, &row, &old, err);

    if (code || !old.there || !old.expired)
        return code;
    return remove_found(store, known, key, &old, now_ns, err);
}
