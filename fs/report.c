/* SPDX-License-Identifier: MIT */
/* Telling why: the log, user.itemfs.error, and the drafts of refused saves. */
#include "backend/drafts.h"
#include "fs/mount.h"

#include <errno.h>
#include <stdio.h>

#include "backend/check.h"
#include "base/log.h"
#include "base/text.h"

#define HELD_BYTES_MAX (64u << 20)

/* "users/ada.json", safe to show. */
static void show_path(const struct inode *dir, struct span name, struct buf *out)
{
    if (dir->parent && dir->kind != INODE_CONTROL) {
        cleanup(buf_release) struct buf own;
        buf_init(&own, SIZE_MAX / 2);
        inode_file_name(dir, &own);
        show_path(dir->parent, buf_span(&own), out);
    }
    if (out->len && name.len)
        buf_add_char(out, '/');
    text_visible(name, out);
}

static struct report *find_locked(struct mount *mount, uint64_t dir, struct span name)
{
    for (size_t i = 0; i < REPORT_RING; i++) {
        struct report *report = &mount->reports[i];
        if (report->dir == dir && span_equal(span_text(report->name), name))
            return report;
    }
    return NULL;
}

static void remember_locked(struct mount *mount, uint64_t dir, struct span name, const char *text)
{
    struct report *report = find_locked(mount, dir, name);
    if (!report) {
        char *copy = strndup(name.len ? name.data : "", name.len);
        if (!copy)
            return;
        report = &mount->reports[mount->report_next++ % REPORT_RING];
        free(report->name);
        report->name = copy;
        report->dir = dir;
    }
    snprintf(report->text, sizeof report->text, "%s", text);
}

void report_failure(struct mount *mount, const struct inode *dir, struct span name,
                    const char *site, int code, const struct err *err)
{
    cleanup(buf_release) struct buf path;
    buf_init(&path, 1 << 16);
    pthread_mutex_lock(&mount->cache->lock);
    show_path(dir, name, &path);
    remember_locked(mount, dir->node, name, err_text(err, code));
    if (name.len)
        remember_locked(mount, dir->node, span_text(""), err_text(err, code));
    pthread_mutex_unlock(&mount->cache->lock);
    log_warning(site, "%s: %s", path.len ? path.data : "/", err_text(err, code));
}

bool report_find(struct mount *mount, const struct inode *dir, struct span name, struct buf *out)
{
    scoped_lock(&mount->cache->lock);
    const struct report *report = find_locked(mount, dir->node, name);
    if (report)
        buf_add_text(out, report->text);
    return report != NULL;
}

/* --- Drafts --- */

/* The path of NAME in DIR below its table, e.g. "cust-7/a.json". */
static void draft_place(struct mount *mount, const struct inode *dir, struct span name,
                        struct buf *path)
{
    if (dir->kind != INODE_TABLE) {
        scoped_lock(&mount->cache->lock);
        inode_file_name(dir, path);
        buf_add_char(path, '/');
    }
    buf_add_span(path, name);
}

/* Those that wait for the backend. */
struct held_search {
    struct mount *mount;
    struct span table;
};

static void note_held(void *context, struct draft_naming *naming)
{
    const struct held_search *search = context;
    scoped_lock(&search->mount->cache->lock);
    for (struct held_draft *held = search->mount->held; held; held = held->next)
        if (span_equal(held->draft.table, search->table))
            draft_naming_note(naming, &held->draft);
}

static int draft_write(struct backend *backend, const struct draft *draft, struct span bytes,
                       uint64_t *ret_id, struct err *err)
{
    struct action action = {.kind = ACTION_DRAFT_PUT, .draft = *draft, .body = bytes};
    int code = backend_write(backend, &action, 1, 0, err);
    if (code == 0)
        *ret_id = draft->id ? draft->id : action.made_id;
    return code;
}

/* The backend is full or broken: in memory until it is not. */
static void draft_hold(struct mount *mount, struct backend *backend, const struct draft *draft,
                       struct span bytes)
{
    struct held_draft *held =
        malloc(sizeof *held + draft->table.len + draft->path.len + draft->reason.len);
    struct body *body = body_new(bytes);
    if (!held || !body) {
        free(held);
        body_unref(body);
        log_error("draft", "out of memory: a draft of table %.*s is lost", (int)draft->table.len,
                  draft->table.data);
        return;
    }
    *held = (struct held_draft){.draft = *draft, .body = body, .backend = backend};
    char *at = held->strings;
    struct span *strings[] = {&held->draft.table, &held->draft.path, &held->draft.reason};
    for (size_t i = 0; i < 3; i++) {
        memcpy(at, strings[i]->data, strings[i]->len);
        strings[i]->data = at;
        at += strings[i]->len;
    }
    scoped_lock(&mount->cache->lock);
    uint64_t total = bytes.len;
    for (struct held_draft *other = mount->held; other; other = other->next)
        total += other->body->len;
    if (total > HELD_BYTES_MAX) {
        log_error("draft", "too many drafts wait for the backend of table %.*s: one is lost",
                  (int)draft->table.len, draft->table.data);
        body_unref(held->body);
        free(held);
        return;
    }
    held->next = mount->held;
    mount->held = held;
}

static struct authored *authored_find_locked(struct mount *mount, const struct inode *dir,
                                             struct span name, pid_t author)
{
    for (size_t i = 0; author != 0 && mount->authored_count && i < AUTHORED_RING; i++) {
        struct authored *authored = &mount->authored[i];
        if (authored->author == author && authored->dir == dir->node &&
            span_equal(span_text(authored->name), name))
            return authored;
    }
    return NULL;
}

static void authored_clear_locked(struct mount *mount, struct authored *authored)
{
    if (!authored->author)
        return;
    free(authored->name);
    *authored = (struct authored){0};
    mount->authored_count--;
}

/* The draft that AUTHOR has for the file; 0: none. */
static uint64_t authored_draft(struct mount *mount, const struct inode *dir, struct span name,
                               pid_t author)
{
    scoped_lock(&mount->cache->lock);
    const struct authored *authored = authored_find_locked(mount, dir, name, author);
    return authored ? authored->draft : 0;
}

static void authored_add(struct mount *mount, const struct inode *dir, struct span name,
                         pid_t author, uint64_t draft)
{
    char *copy = strndup(name.data, name.len);
    scoped_lock(&mount->cache->lock);
    if (!copy || author == 0 || authored_find_locked(mount, dir, name, author)) {
        free(copy);
        return;
    }
    struct authored *authored = &mount->authored[mount->authored_next++ % AUTHORED_RING];
    authored_clear_locked(mount, authored);
    *authored = (struct authored){author, dir->node, copy, draft};
    mount->authored_count++;
}

void draft_settle(struct mount *mount, const struct inode *item, pid_t author)
{
    struct action action = {.kind = ACTION_DRAFT_DELETE};
    pthread_mutex_lock(&mount->cache->lock);
    if (mount->authored_count) {
        cleanup(buf_release) struct buf name;
        buf_init(&name, SIZE_MAX / 2);
        inode_file_name(item, &name);
        struct authored *authored =
            authored_find_locked(mount, item->parent, buf_span(&name), author);
        if (authored) {
            action.draft.id = authored->draft;
            authored_clear_locked(mount, authored);
        }
    }
    pthread_mutex_unlock(&mount->cache->lock);
    if (action.draft.id)
        (void)backend_write(item->volume->backend, &action, 1, 0, NULL);
}

void draft_keep(struct mount *mount, const struct inode *dir, struct span name, struct span bytes,
                int code, const struct err *err, pid_t author)
{
    cleanup(buf_release) struct buf path;
    buf_init(&path, 1 << 16);
    struct backend *backend = dir->volume->backend;
    struct span table = span_text(volume_table(dir->volume)->name);
    draft_place(mount, dir, name, &path);
    uint64_t id = authored_draft(mount, dir, name, author);
    struct draft draft = {.id = id,
                          .table = table,
                          .path = buf_span(&path),
                          .code = -code,
                          .reason = span_text(err_text(err, code)),
                          .time_ns = clock_now_ns(),
                          .size = bytes.len};
    struct held_search search = {mount, table};
    if (!id && draft_name(backend, &draft, &path, bytes, note_held, &search, NULL) == 1)
        return;
    int written = draft_write(backend, &draft, bytes, &id, NULL);
    if (written == -ENOENT) { /* somebody has removed the earlier one */
        draft.id = 0;
        written = draft_write(backend, &draft, bytes, &id, NULL);
    }
    if (written == 0)
        authored_add(mount, dir, name, author, id);
    else
        draft_hold(mount, backend, &draft, bytes);
}

void draft_keep_rekeyed(struct mount *mount, const struct inode *dir, struct span name,
                        struct key key, struct span bytes)
{
    const struct table *table = volume_table(dir->volume);
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    struct item_meta meta;
    struct err err = {0};
    if (item_named_key(table, key, bytes, &partition, &sort, NULL) < 0)
        return;
    struct key named = {.partition = buf_span(&partition), .sort = buf_span(&sort)};
    if (backend_get(dir->volume->backend, table, named, &meta, NULL, NULL) == 0)
        return;
    err_set(&err, 0, "saved as %s: the file's name gives the key, and the text named %s",
            item_label(table, key).text, item_label(table, named).text);
    report_failure(mount, dir, name, "key", 0, &err);
    draft_keep(mount, dir, name, bytes, 0, &err, 0);
}

void drafts_retry(struct mount *mount)
{
    for (;;) {
        pthread_mutex_lock(&mount->cache->lock);
        struct held_draft *held = mount->held;
        if (held)
            mount->held = held->next;
        pthread_mutex_unlock(&mount->cache->lock);
        if (!held)
            return;
        uint64_t id;
        if (draft_write(held->backend, &held->draft, body_span(held->body), &id, NULL) < 0) {
            scoped_lock(&mount->cache->lock);
            held->next = mount->held;
            mount->held = held;
            return;
        }
        body_unref(held->body);
        free(held);
    }
}
