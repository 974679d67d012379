/* SPDX-License-Identifier: MIT */
/*
 * Files that have the suffix of items and are none. They are left alone. A table of the state
 * database has them, with size and time, so that each is looked at, told of and kept as a draft
 * once: the draft has the bytes that the file has now. Its rows: partition the table's number, sort
 * the file's name, mtime the file's; the body says the size, the rule that names and bodies go by,
 * the draft's id (0: none) and the reason.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/drafts.h"
#include "backend/folder/private.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

struct foreign_key {
    char table[24];
    struct key key;
};

static void make_key(const struct known *known, const char *name, struct foreign_key *key)
{
    snprintf(key->table, sizeof key->table, "%" PRIu64, known->table->id);
    key->key = (struct key){span_text(key->table), span_text(name)};
}

/* What makes a file an item, or none, may be set otherwise later. */
static uint64_t rule_of(const struct folder *folder, const struct table *table)
{
    return hash64(span_text(table->partition.name), folder->backend.max_item_size * 4 +
                                                        (table->keys == KEYS_TAGS ? 2 : 0) +
                                                        (table->strict_tags ? 1 : 0));
}

/* The beginning of a row's body: another one where the file, or the rule, is another. */
static void add_size(struct buf *body, const struct folder *folder, const struct known *known,
                     const struct file_stat *stat)
{
    buf_addf(body, "{\"size\":%" PRIu64 ",\"rule\":%" PRIu64 ",", stat->size,
             rule_of(folder, known->table));
}

bool foreign_is_noted(struct folder *folder, const struct known *known, const char *name)
{
    struct foreign_key key;
    struct item_meta meta;

    if (folder->foreign_count == 0)
        return false;
    make_key(known, name, &key);
    return backend_get(folder->store, folder->foreign, key.key, &meta, NULL, NULL) != -ENOENT;
}

int foreign_known(struct folder *folder, const struct known *known, const char *name,
                  const struct file_stat *stat, struct err *err)
{
    cleanup(buf_release) struct buf body, wanted;
    struct foreign_key key;
    struct item_meta meta;
    struct err own = {""};

    buf_init(&body, 4096);
    buf_init(&wanted, 128);
    make_key(known, name, &key);
    int r = backend_get(folder->store, folder->foreign, key.key, &meta, &body, &own);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    add_size(&wanted, folder, known, stat);
    return meta.mtime_ns == stat_mtime(stat) && body.len > wanted.len &&
           memcmp(body.data, wanted.data, wanted.len) == 0;
}

/* RET_ID: of the draft that was made; 0: one is there that says the same. */
static int draft_add(struct folder *folder, const struct known *known, const char *name,
                     struct span body, const char *reason, uint64_t *ret_id, struct err *err)
{
    cleanup(buf_release) struct buf path;
    struct action action = {.kind = ACTION_DRAFT_PUT,
                            .body = span_of(body.len ? body.data : "", body.len),
                            .draft = {.table = span_text(known->table->name),
                                      .code = EINVAL,
                                      .reason = span_text(reason),
                                      .time_ns = clock_now_ns()}};

    *ret_id = 0;
    buf_init(&path, NAME_MAX + 32);
    buf_add_text(&path, name);
    int r = draft_name(folder->store, &action.draft, &path, action.body, NULL, NULL, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = backend_write(folder->imports, &action, 1, 0, err);
    *ret_id = action.made_id;
    return r;
}

int folder_draft(struct folder *folder, const struct known *known, const char *name,
                 struct span body, const char *reason, struct err *err)
{
    uint64_t id;

    return draft_add(folder, known, name, body, reason, &id, err);
}

/* --- The draft of a file that is none, which goes with the file's bytes --- */

struct draft_search {
    uint64_t id;
    struct draft found;
    struct buf path;
};

static int find_draft(void *context, const struct draft *draft)
{
    struct draft_search *search = context;

    if (draft->id != search->id)
        return 0;
    search->found = *draft;
    buf_add_span(&search->path, draft->path);
    return 1;
}

/* Other bytes, and another reason, for the draft ID. 1: there is no such draft any more. */
static int draft_change(struct folder *folder, const struct known *known, uint64_t id,
                        struct span body, const char *reason, struct err *err)
{
    struct draft_search search = {.id = id};

    buf_init(&search.path, NAME_MAX + 32);
    int r =
        backend_draft_list(folder->store, span_text(known->table->name), find_draft, &search, err);
    struct action action = {.kind = ACTION_DRAFT_PUT,
                            .body = span_of(body.len ? body.data : "", body.len),
                            .draft = {.id = id,
                                      .table = span_text(known->table->name),
                                      .path = buf_span(&search.path),
                                      .code = EINVAL,
                                      .reason = span_text(reason),
                                      .time_ns = clock_now_ns()}};
    if (r == 1)
        r = buf_error(&search.path);
    else if (r == 0)
        r = 1;
    if (r == 0)
        r = backend_write(folder->imports, &action, 1, 0, err);
    buf_release(&search.path);
    return r == -ENOENT ? 1 : r;
}

/* The one that was noted with the file NAME; 0: none was. */
static uint64_t noted_draft(struct folder *folder, const struct known *known, const char *name)
{
    cleanup(buf_release) struct buf body;
    struct foreign_key key;
    struct item_meta meta;
    uint64_t id = 0;

    buf_init(&body, 4096);
    make_key(known, name, &key);
    if (backend_get(folder->store, folder->foreign, key.key, &meta, &body, NULL) < 0)
        return 0;
    buf_add_char(&body, '\0');
    return !buf_error(&body) &&
                   sscanf(body.data, "{\"size\":%*u,\"rule\":%*u,\"draft\":%" SCNu64, &id) == 1
               ? id
               : 0;
}

static int keep_bytes(struct folder *folder, const struct known *known, const char *name,
                      struct span body, const char *reason, uint64_t *ret_id, struct err *err)
{
    *ret_id = noted_draft(folder, known, name);
    int r = *ret_id ? draft_change(folder, known, *ret_id, body, reason, err) : 1;

    return r == 1 ? draft_add(folder, known, name, body, reason, ret_id, err) : r;
}

int foreign_note(struct folder *folder, const struct known *known, const char *name,
                 const struct file_stat *stat, struct span body, const char *reason,
                 struct err *err)
{
    cleanup(buf_release) struct buf text;
    struct foreign_key key;

    buf_init(&text, 4096);
    int r = foreign_known(folder, known, name, stat, err);
    if (r != 0)
        return r < 0 ? r : 0;
    uint64_t draft = 0;
    if (body.data)
        r = keep_bytes(folder, known, name, body, reason, &draft, err);
    if (r < 0)
        return r;
    add_size(&text, folder, known, stat);
    buf_addf(&text, "\"draft\":%" PRIu64 ",\"reason\":", draft);
    json_add_string(&text, span_text(reason));
    buf_add_char(&text, '}');
    make_key(known, name, &key);
    struct action action = {.kind = ACTION_PUT,
                            .table = folder->foreign,
                            .key = key.key,
                            .body = buf_span(&text),
                            .mtime_ns = stat_mtime(stat)};
    r = backend_write(folder->imports, &action, 1, 0, err);
    if (r < 0)
        return r;
    if (action.change == CHANGE_INSERT)
        folder->foreign_count++;
    log_warning("folder", "%s/%s%s%s is no item: %s", folder->place, known->folder,
                known->folder[0] ? "/" : "", name, reason);
    return 0;
}

int foreign_forget(struct folder *folder, const struct known *known, const char *name,
                   struct err *err)
{
    struct foreign_key key;

    if (folder->foreign_count == 0)
        return 0;
    make_key(known, name, &key);
    struct action action = {.kind = ACTION_DELETE, .table = folder->foreign, .key = key.key};
    int r = backend_write(folder->imports, &action, 1, 0, err);
    if (r == 0 && action.change == CHANGE_REMOVE)
        folder->foreign_count--;
    return r;
}
