/* SPDX-License-Identifier: MIT */
/*
 * Batches of several files. Files are written before the state database's transaction, and several
 * files are no transaction: so what a batch is about to do is written into the journal, a table of
 * the state database, before. The transaction takes it out again. What is left there after a crash
 * is undone: the files become what their rows say, except where somebody else has written since.
 *
 * A row of the journal is a file: partition the batch's random number, sort the table's number,
 * what the batch gives the file (size and time, or that it deletes it), and the file's name. All of
 * it is in the key; the body is empty.
 *
 * Whoever undoes an entry takes the stripes of its items first, which a living batch holds until it
 * is done, and then looks whether the entry is still there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backend/folder/private.h"

static void add_sort(const struct plan *plan, struct buf *text)
{
    buf_addf(text, "%020" PRIu64 " %c %" PRIu64 " %" PRId64 " %s", plan->known->table->id,
             plan->put    ? 'p'
             : plan->gone ? 'd'
                          : 't',
             plan->size, plan->mtime_ns, plan->name);
}

static int make_actions(struct folder *folder, enum action_kind kind, const struct plan *plans,
                        size_t count, const char *id, struct buf *texts, struct action *actions,
                        struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        add_sort(&plans[i], texts);
        buf_add_char(texts, '\0');
    }
    if (buf_error(texts))
        return err_set(err, ENOMEM, "no memory");
    const char *at = texts->data;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        actions[i] = (struct action){.kind = kind,
                                     .table = folder->journal,
                                     .key = {span_text(id), span_text(at)},
                                     .body = span_of("", 0)};
    return 0;
}

static int make_id(char *ret_id, struct err *err)
{
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return err_set(err, EIO, "no random numbers from the system");
    snprintf(ret_id, JOURNAL_ID_LEN + 1, "%016" PRIx64, number);
    return 0;
}

int folder_journal_begin(struct folder *folder, const struct plan *plans, size_t count,
                         char *ret_id, bool durable, struct err *err)
{
    cleanup_free struct action *actions = calloc(count + 1, sizeof *actions);
    cleanup(buf_release) struct buf texts;
    int r = actions ? make_id(ret_id, err) : -ENOMEM;

    buf_init(&texts, SIZE_MAX / 2);
    if (r == 0)
        r = make_actions(folder, ACTION_PUT, plans, count, ret_id, &texts, actions, err);
    if (r < 0)
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    return backend_write(folder->store, actions, count, durable ? WRITE_DURABLE : 0, err);
}

int folder_journal_end(struct folder *folder, const struct plan *plans, size_t count,
                       const char *id, struct buf *texts, struct action *actions, struct err *err)
{
    return make_actions(folder, ACTION_DELETE, plans, count, id, texts, actions, err);
}

/* --- Undoing --- */

/* Whether FILE is what the batch made of it. */
static bool is_of_batch(const struct plan *plan, const struct file_stat *stat)
{
    if (plan->gone)
        return !stat->present;
    return file_stat_is(stat, plan->size, plan->mtime_ns);
}

static bool is_touched(const struct plan *plan, const struct file_stat *stat)
{
    return !plan->put && !plan->gone && file_stat_is(stat, stat->size, plan->mtime_ns);
}

static int undo_in(struct folder *folder, const struct plan *plan, size_t number, bool there,
                   const struct item_meta *meta, struct span body, struct err *err)
{
    struct file_op op = {.kind = there ? FILE_PUT : FILE_DELETE,
                         .folder = plan->known->folder,
                         .name = plan->name,
                         .body = body,
                         .mtime_ns = there ? meta->mtime_ns : 0};

    return replica_apply(folder->replicas, number, &op, 1, false, err);
}

/* Where somebody else has written it since, that counts: reconcile finds it. */
static int restore(struct folder *folder, const struct plan *plan, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct file_stats files;
    struct item_meta meta = {.size = 0};
    struct err own = {""};

    buf_init(&body, SIZE_MAX / 2);
    int r = mirror_get(folder, plan->known->table, plan->part, &meta, &body, &own);
    bool there = r == 0;
    if (r < 0 && r != -ENOENT)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = replicas_stat(folder->replicas, plan->known->folder, plan->name, &files, err);
    for (size_t i = 0; r == 0 && i < REPLICAS_MOST; i++) {
        const struct file_stat *stat = &files.stats[i];
        bool as_row = there ? same_file(stat, &meta) : !stat->present;
        if (files.in_use[i] && !as_row && (is_of_batch(plan, stat) || is_touched(plan, stat)))
            r = undo_in(folder, plan, i, there, &meta, buf_span(&body), err);
    }
    return r;
}

int files_restore(struct folder *folder, const struct plan *plans, size_t count, struct err *err)
{
    int r = 0;

    /* Deleted files first: at no time is a content without a name. */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            if (plans[i].gone != (pass == 0))
                continue;
            int code = restore(folder, &plans[i], err);
            r = r ? r : code;
        }
    return r;
}

/* --- What a crash has left --- */

struct left {
    char id[JOURNAL_ID_LEN + 1];
    struct buf sorts; /* of one entry, each with its NUL */
};

static int note_row(void *context, const struct record *record)
{
    struct left *left = context;

    if (record->key.partition.len != JOURNAL_ID_LEN)
        return 0;
    if (!left->id[0])
        memcpy(left->id, record->key.partition.data, JOURNAL_ID_LEN);
    if (memcmp(left->id, record->key.partition.data, JOURNAL_ID_LEN) != 0)
        return 1;
    buf_add_span(&left->sorts, record->key.sort);
    buf_add_char(&left->sorts, '\0');
    return buf_error(&left->sorts);
}

/* The plan behind a row's sort key, as far as it is needed here. 1: its table is gone. */
static int read_plan(struct folder *folder, const char *sort, struct buf *parts, struct plan *plan,
                     struct err *err)
{
    uint64_t id;
    char kind;
    int name_at = 0;
    struct err own = {""};

    *plan = (struct plan){.known = NULL};
    if (sscanf(sort, "%20" SCNu64 " %c %" SCNu64 " %" SCNd64 "%n", &id, &kind, &plan->size,
               &plan->mtime_ns, &name_at) < 4 ||
        sort[name_at++] != ' ' || strlen(sort + name_at) > NAME_MAX)
        return 1;
    plan->put = kind == 'p';
    plan->gone = kind == 'd';
    memcpy(plan->name, sort + name_at, strlen(sort + name_at) + 1);
    int r = known_by_id(folder, id, &plan->known, &own);
    size_t before = parts->len;
    if (r == 0)
        r = key_of_file_name(plan->known->table, plan->name, parts, &own);
    if (r != 0 && parts->len > before)
        buf_resize(parts, before);
    if (r == -ENOENT || r == 1 || r == -EINVAL)
        return 1;
    plan->part = (struct span){NULL, parts->len - before}; /* parts may still move */
    return r ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

struct entry {
    struct plan *plans;
    size_t count;
    struct buf parts;
};

static void entry_release(struct entry *entry)
{
    for (size_t i = 0; i < entry->count; i++)
        known_put(entry->plans[i].known);
    free(entry->plans);
    buf_release(&entry->parts);
}

static int read_entry(struct folder *folder, const struct left *left, struct entry *entry,
                      struct err *err)
{
    size_t rows = 0, at = 0;
    int r = 0;

    for (size_t i = 0; i < left->sorts.len; i++)
        rows += left->sorts.data[i] == '\0';
    entry->plans = calloc(rows + 1, sizeof *entry->plans);
    if (!entry->plans)
        return err_set(err, ENOMEM, "no memory");
    for (; r == 0 && at < left->sorts.len; at += strlen(left->sorts.data + at) + 1) {
        struct plan *plan = &entry->plans[entry->count];
        r = read_plan(folder, left->sorts.data + at, &entry->parts, plan, err);
        if (r == 0)
            entry->count++;
        else
            known_put(plan->known);
        r = r == 1 ? 0 : r;
    }
    size_t part_at = 0;
    for (size_t i = 0; i < entry->count; i++) {
        entry->plans[i].part.data = entry->parts.data + part_at;
        part_at += entry->plans[i].part.len;
    }
    return r;
}

static int forget_entry(struct folder *folder, const struct left *left, struct err *err)
{
    int r = 0;

    for (size_t at = 0; r == 0 && at < left->sorts.len; at += strlen(left->sorts.data + at) + 1) {
        struct action action = {.kind = ACTION_DELETE,
                                .table = folder->journal,
                                .key = {span_text(left->id), span_text(left->sorts.data + at)}};
        r = backend_write(folder->store, &action, 1, 0, err);
    }
    return r;
}

static int still_there(struct folder *folder, const struct left *left, bool *ret_there,
                       struct err *err)
{
    const struct key key = {span_text(left->id), span_text(left->sorts.data)};
    struct item_meta meta;
    struct err own = {""};
    int r = backend_get(folder->store, folder->journal, key, &meta, NULL, &own);

    *ret_there = r == 0;
    return r == 0 || r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
}

static int undo_entry(struct folder *folder, const struct left *left, struct err *err)
{
    cleanup(entry_release) struct entry entry = {.plans = NULL};
    uint64_t stripes = 0;
    bool there = false;

    buf_init(&entry.parts, SIZE_MAX / 2);
    int r = read_entry(folder, left, &entry, err);
    for (size_t i = 0; i < entry.count; i++)
        stripes |= lock_bit(entry.plans[i].known->table->id, entry.plans[i].part);
    if (r == 0)
        r = locks_take(folder, stripes, err);
    if (r < 0)
        return r;
    r = still_there(folder, left, &there, err);
    if (r == 0 && there)
        r = files_restore(folder, entry.plans, entry.count, err);
    if (r == 0 && there)
        r = forget_entry(folder, left, err);
    locks_give(folder, stripes);
    return r;
}

int folder_journal_recover(struct folder *folder, struct err *err)
{
    const struct walk walk = {.limit = 0};
    int r;

    do {
        struct left left = {.id = ""};
        buf_init(&left.sorts, SIZE_MAX / 2);
        r = backend_walk(folder->store, folder->journal, &walk, note_row, &left, err);
        bool found = r >= 0 && left.sorts.len;
        if (found)
            r = undo_entry(folder, &left, err);
        buf_release(&left.sorts);
        if (!found)
            return r < 0 ? r : 0;
    } while (r == 0);
    return r;
}
