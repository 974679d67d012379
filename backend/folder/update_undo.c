/* SPDX-License-Identifier: MIT */
/*
 * Updates in place that were cut short. A process that is killed while it writes a file of several
 * pages leaves the beginning of the new text, and the end of the old one behind it. So what is
 * about to be done is written into the journal before, and the transaction that makes the new row
 * takes it out again. What is found there by somebody who has the item's stripe is of a dead
 * process: a file that is a mixture of both texts gets the row's, which is the old one. One that is
 * something else has been written by another program since; if it is no item, the old text becomes
 * a draft.
 *
 * The journal's row: partition "update", sort the table's number and the file's name. The body is a
 * string: the lengths of the old and of the new text, and hashes of their pages, of the new one as
 * it is before it is cut off, and then of its last page.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/check.h"
#include "backend/folder/private.h"
#include "base/text.h"

#define PAGE 4096u     /* what is written of one, is written whole */
#define HASH_DIGITS 16 /* hexadecimal */
#define PARTITION "update"

/* --- What is written down --- */

struct update_key {
    char sort[NAME_MAX + 24];
    struct key key;
};

static void make_key(uint64_t table_id, const char *name, struct update_key *key)
{
    snprintf(key->sort, sizeof key->sort, "%020" PRIu64 " %s", table_id, name);
    key->key = (struct key){span_text(PARTITION), span_text(key->sort)};
}

static struct span page_of(struct span text, size_t number)
{
    struct span rest = span_from(text, number * PAGE);

    return span_of(rest.data, rest.len < PAGE ? rest.len : PAGE);
}

static size_t count_pages(size_t len)
{
    return (len + PAGE - 1) / PAGE;
}

static void add_pages(struct buf *out, struct span text)
{
    for (size_t i = 0; i < count_pages(text.len); i++)
        buf_addf(out, "%016" PRIx64, hash64(page_of(text, i), 0));
}

static int describe(struct span before, struct span after, struct buf *out)
{
    cleanup(buf_release) struct buf padded;

    buf_init(&padded, SIZE_MAX / 8);
    buf_add_span(&padded, after);
    while (padded.len < before.len && !buf_error(&padded))
        buf_add_char(&padded, ' ');
    buf_addf(out, "\"%zu %zu ", before.len, after.len);
    add_pages(out, before);
    add_pages(out, buf_span(&padded));
    buf_addf(out, "%016" PRIx64 "\"", hash64(page_of(after, after.len / PAGE), 0));
    return buf_error(&padded) ? buf_error(&padded) : buf_error(out);
}

int update_begin(struct folder *folder, const struct plan *plan, struct span before,
                 struct span after, bool *ret_noted, struct err *err)
{
    cleanup(buf_release) struct buf text;
    struct update_key key;

    buf_init(&text, SIZE_MAX / 8);
    *ret_noted = before.len > PAGE || after.len > PAGE;
    if (!*ret_noted)
        return 0;
    if (describe(before, after, &text) < 0)
        return err_set(err, ENOMEM, "no memory");
    make_key(plan->known->table->id, plan->name, &key);
    struct action action = {
        .kind = ACTION_PUT, .table = folder->journal, .key = key.key, .body = buf_span(&text)};
    return backend_write(folder->store, &action, 1, folder->durable ? WRITE_DURABLE : 0, err);
}

int update_commit(struct folder *folder, const struct plan *plan, struct action *put, bool noted,
                  struct err *err)
{
    struct update_key key;
    unsigned flags = folder->durable ? WRITE_DURABLE : 0;

    make_key(plan->known->table->id, plan->name, &key);
    struct action both[2] = {*put,
                             {.kind = ACTION_DELETE, .table = folder->journal, .key = key.key}};
    int r = backend_write(folder->store, both, noted ? 2 : 1, flags, err);
    if (r == 0)
        *put = both[0];
    return r;
}

/* --- What a file is --- */

struct traces {
    size_t old_len, new_len, longest;
    const char *old_pages, *new_pages, *last_page;
};

/* False: nobody has written such a text. */
static bool read_traces(const struct buf *text, struct traces *traces)
{
    int at = 0;

    if (text->len < 2 ||
        sscanf(text->data, "\"%zu %zu %n", &traces->old_len, &traces->new_len, &at) < 2 || at == 0)
        return false;
    traces->longest = traces->old_len > traces->new_len ? traces->old_len : traces->new_len;
    size_t old_digits = count_pages(traces->old_len) * HASH_DIGITS;
    size_t new_digits = count_pages(traces->longest) * HASH_DIGITS;
    traces->old_pages = text->data + at;
    traces->new_pages = traces->old_pages + old_digits;
    traces->last_page = traces->new_pages + new_digits;
    return text->len >= (size_t)at + old_digits + new_digits + HASH_DIGITS;
}

static bool is_hash(const char *digits, const char *hash)
{
    return memcmp(digits, hash, HASH_DIGITS) == 0;
}

/* Whether FILE consists of pages of both texts, and is neither. */
static bool is_mixture(const struct traces *traces, struct span file)
{
    bool is_old = file.len == traces->old_len, is_new = file.len == traces->new_len;

    if (file.len > traces->longest)
        return false;
    for (size_t i = 0; i < count_pages(file.len); i++) {
        char hash[HASH_DIGITS + 1];
        snprintf(hash, sizeof hash, "%016" PRIx64, hash64(page_of(file, i), 0));
        bool of_old =
            i < count_pages(traces->old_len) && is_hash(traces->old_pages + i * HASH_DIGITS, hash);
        bool of_new = is_hash(traces->new_pages + i * HASH_DIGITS, hash) ||
                      (i == traces->new_len / PAGE && is_hash(traces->last_page, hash));
        if (!of_old && !of_new)
            return false;
        is_old = is_old && of_old;
        is_new = is_new && of_new;
    }
    return !is_old && !is_new;
}

/* --- Undoing --- */

struct undoing {
    struct folder *folder;
    struct known *known;
    const char *name;
    struct span part;
    struct traces traces;
    struct item_meta meta; /* of the row */
    struct buf row;
    size_t mixed[REPLICAS_MOST], mixed_count; /* the replicas whose file is a mixture */
    bool other;                               /* one has something that is no item */
};

static int judge(void *context, const char *name, const struct file_copy *copies, size_t count)
{
    struct undoing *undoing = context;
    struct item_facts facts;

    (void)name;
    for (size_t i = 0; i < count; i++) {
        if (copies[i].code < 0)
            continue;
        if (is_mixture(&undoing->traces, copies[i].body))
            undoing->mixed[undoing->mixed_count++] = copies[i].number;
        else if (item_examine(undoing->known->table, (struct key){.partition = undoing->part},
                              copies[i].body, &facts, NULL, NULL) < 0)
            undoing->other = true;
    }
    return 0;
}

/* In place, under its lock, as it was written: another program may wait for that. */
static int restore(struct undoing *undoing, struct err *err)
{
    struct folder *folder = undoing->folder;
    cleanup(file_lock_give) struct file_lock *lock = NULL;
    struct err own = {""};
    int r = replicas_lock_file(folder->replicas, undoing->known->folder, undoing->name,
                               LOCK_TO_UPDATE, &lock, &own);

    for (size_t i = 0; r == 0 && i < undoing->mixed_count; i++) {
        const struct file_op op = {.kind = lock ? FILE_UPDATE : FILE_PUT,
                                   .folder = undoing->known->folder,
                                   .name = undoing->name,
                                   .body = buf_span(&undoing->row),
                                   .mtime_ns = undoing->meta.mtime_ns,
                                   .lock = lock};
        r = replica_apply(folder->replicas, undoing->mixed[i], &op, 1, folder->durable, &own);
    }
    if (r == -EAGAIN)
        return -EBUSY;
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

static int forget(struct folder *folder, const struct update_key *key, struct err *err)
{
    struct action action = {.kind = ACTION_DELETE, .table = folder->journal, .key = key->key};

    return backend_write(folder->store, &action, 1, 0, err);
}

static int undo(struct undoing *undoing, struct err *err)
{
    struct folder *folder = undoing->folder;
    const char *const names[] = {undoing->name};
    struct err own = {""};
    int r = mirror_get(folder, undoing->known->table, undoing->part, &undoing->meta, &undoing->row,
                       &own);

    if (r == -ENOENT)
        return 0; /* it has been deleted since */
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    r = replicas_read_many(folder->replicas, undoing->known->folder, names, 1, judge, undoing, err);
    if (r == 0 && undoing->other)
        r = folder_draft(folder, undoing->known, undoing->name, buf_span(&undoing->row),
                         "what the item was before an update that was cut short", err);
    return r == 0 && undoing->mixed_count ? restore(undoing, err) : r;
}

int update_undo(struct folder *folder, struct known *known, const char *name, struct span part,
                struct err *err)
{
    cleanup(buf_release) struct buf text;
    struct undoing undoing = {.folder = folder, .known = known, .name = name, .part = part};
    struct update_key key;
    struct item_meta meta;
    struct err own = {""};

    buf_init(&text, SIZE_MAX / 8);
    make_key(known->table->id, name, &key);
    int r = backend_get(folder->store, folder->journal, key.key, &meta, &text, &own);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (folder->read_only)
        return -EBUSY;
    buf_init(&undoing.row, SIZE_MAX / 2);
    buf_add_char(&text, '\0');
    if (read_traces(&text, &undoing.traces))
        r = undo(&undoing, err);
    buf_release(&undoing.row);
    if (r == 0)
        r = forget(folder, &key, err);
    return r ? r : undoing.mixed_count > 0;
}

/* --- At the start --- */

static int note_sort(void *context, const struct record *record)
{
    struct buf *sorts = context;

    if (!span_equal(record->key.partition, span_text(PARTITION)))
        return 0;
    buf_add_span(sorts, record->key.sort);
    buf_add_char(sorts, '\0');
    return buf_error(sorts);
}

static int undo_one(struct folder *folder, const char *sort, struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    cleanup(buf_release) struct buf part;
    struct err own = {""};
    uint64_t id;
    int name_at = 0;

    buf_init(&part, KEY_PART_MAX + 1);
    if (sscanf(sort, "%20" SCNu64 " %n", &id, &name_at) < 1 || name_at == 0)
        return 0;
    int r = known_by_id(folder, id, &known, &own);
    if (r == 0)
        r = key_of_file_name(known->table, sort + name_at, &part, &own);
    if (r == -ENOENT || r == 1 || r == -EINVAL)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    uint64_t stripe = lock_bit(id, buf_span(&part));
    r = locks_take(folder, stripe, err);
    if (r < 0)
        return r;
    r = update_undo(folder, known, sort + name_at, buf_span(&part), err);
    locks_give(folder, stripe);
    return r == -EBUSY || r > 0 ? 0 : r; /* who looks at it tries again */
}

int updates_recover(struct folder *folder, struct err *err)
{
    const struct walk walk = {.limit = 0};
    cleanup(buf_release) struct buf sorts;

    buf_init(&sorts, SIZE_MAX / 8);
    int r = backend_walk(folder->store, folder->journal, &walk, note_sort, &sorts, err);
    for (size_t at = 0; r >= 0 && at < sorts.len; at += strlen(sorts.data + at) + 1)
        r = undo_one(folder, sorts.data + at, err);
    return r < 0 ? r : 0;
}
