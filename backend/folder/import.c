/* SPDX-License-Identifier: MIT */
/*
 * Many files at once: a folder that is mounted for the first time, or that others have changed
 * while nobody watched. What is new, changed or gone in the same way in all replicas goes into the
 * state database some hundred files a transaction; the files are read in the order in which they
 * lie on the disk. Whatever is less simple is left to reconcile.c, file by file.
 *
 * All stripes are held from before a file is looked at until its row is there. What was listed
 * before may have changed meanwhile; so each row is written only as it was then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/check.h"
#include "backend/folder/private.h"

#define FEW 16 /* as many are looked at one by one */
#define BATCH_FILES 512
#define BATCH_BYTES (4u << 20)

/* An action's key and body, as places in `bytes`. */
struct piece {
    size_t part_at, part_len, body_len;
};

struct importing {
    struct folder *folder;
    struct known *known;
    const char *names;
    struct buf bytes; /* of the batch */
    struct buf body;  /* of one file */
    struct piece pieces[BATCH_FILES];
    struct action actions[BATCH_FILES];
    size_t count;
    bool single[BATCH_FILES]; /* of the findings that the batch begins with */
};

static int compare_inodes(const void *left, const void *right)
{
    const struct finding *a = left, *b = right;

    return (a->stat.inode > b->stat.inode) - (a->stat.inode < b->stat.inode);
}

/* --- One file: 1 where it is not as simple as that --- */

/* Nobody else has a say: the file is in all replicas, and an item. */
static int read_item(struct importing *importing, const struct finding *finding, struct span part,
                     struct file_stat *ret_stat)
{
    struct folder *folder = importing->folder;
    struct item_facts facts;

    buf_clear(&importing->body);
    int r = replica_read(folder->replicas, finding->number, importing->known->folder,
                         importing->names + finding->name_at, ret_stat, &importing->body, NULL);
    if (r == 0 &&
        (ret_stat->size != finding->stat.size || ret_stat->mtime_ns != finding->stat.mtime_ns ||
         (ret_stat->unsure && file_is_young(ret_stat))))
        return 1;
    if (r == 0)
        r = item_examine(importing->known->table, (struct key){.partition = part},
                         buf_span(&importing->body), &facts, NULL, NULL);
    return r == 0 && !facts.key_differs ? 0 : 1;
}

static bool is_gone(const struct importing *importing, const struct finding *finding)
{
    struct folder *folder = importing->folder;
    struct file_stats files;

    if (replicas_stat(folder->replicas, importing->known->folder,
                      importing->names + finding->name_at, &files, NULL) < 0)
        return false;
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        if (files.in_use[i] && files.stats[i].present)
            return false;
    return true;
}

static int decide(struct importing *importing, const struct finding *finding, struct span part,
                  struct action *action)
{
    struct file_stat stat;

    *action = (struct action){
        .kind = ACTION_DELETE,
        .table = importing->known->table,
        .condition = {finding->version ? COND_VERSION : COND_ABSENT, finding->version}};
    if (finding->number == REPLICAS_MOST)
        return is_gone(importing, finding) ? 0 : 1;
    int r = read_item(importing, finding, part, &stat);
    if (r != 0)
        return r;
    action->kind = ACTION_PUT;
    action->mtime_ns = stat_mtime(&stat);
    return 0;
}

/* -ENOMEM. */
static int gather(struct importing *importing, const struct finding *finding)
{
    struct folder *folder = importing->folder;
    const char *name = importing->names + finding->name_at;
    struct buf *bytes = &importing->bytes;
    size_t before = bytes->len;

    if (!finding->plain || foreign_is_noted(folder, importing->known, name))
        return 1;
    buf_clear(&importing->body);
    int r = key_of_file_name(importing->known->table, name, bytes, NULL);
    struct piece piece = {before, bytes->len - before, 0};
    if (r == 0)
        r = decide(importing, finding, span_of(bytes->data + before, piece.part_len),
                   &importing->actions[importing->count]);
    if (r != 0) {
        buf_resize(bytes, before);
        return buf_error(bytes) ? -ENOMEM : 1;
    }
    buf_add_span(bytes, buf_span(&importing->body));
    piece.body_len = importing->body.len;
    importing->pieces[importing->count++] = piece;
    return buf_error(bytes) ? -ENOMEM : 0;
}

/* --- A batch --- */

/* As many of the COUNT as make one: how many. */
static int gather_all(struct importing *importing, const struct finding *findings, size_t count,
                      size_t *ret_taken)
{
    size_t i = 0;
    int r = 0;

    importing->count = 0;
    buf_clear(&importing->bytes);
    for (; r >= 0 && i < count && i < BATCH_FILES && importing->bytes.len < BATCH_BYTES; i++) {
        r = gather(importing, &findings[i]);
        importing->single[i] = r == 1;
    }
    *ret_taken = i;
    return r < 0 ? r : 0;
}

/* Where one is refused none is written: then each is looked at by itself. */
static int commit(struct importing *importing, size_t taken)
{
    for (size_t i = 0; i < importing->count; i++) {
        const struct piece *piece = &importing->pieces[i];
        const char *at = importing->bytes.data + piece->part_at;
        importing->actions[i].key.partition = span_of(at, piece->part_len);
        importing->actions[i].body = span_of(at + piece->part_len, piece->body_len);
    }
    if (importing->count == 0)
        return 0;
    int r =
        backend_write(importing->folder->imports, importing->actions, importing->count, 0, NULL);
    if (r == 0)
        importing->folder->imported += importing->count;
    for (size_t i = 0; r < 0 && i < taken; i++)
        importing->single[i] = true;
    return r;
}

static int import_batch(struct importing *importing, const struct finding *findings, size_t count,
                        size_t *ret_taken, struct err *err)
{
    struct folder *folder = importing->folder;
    int r = locks_take(folder, ALL_STRIPES, err);

    if (r < 0)
        return r;
    r = gather_all(importing, findings, count, ret_taken);
    if (r == 0)
        (void)commit(importing, *ret_taken);
    locks_give(folder, ALL_STRIPES);
    if (r < 0)
        return err_set(err, ENOMEM, "no memory");
    for (size_t i = 0; r == 0 && i < *ret_taken; i++)
        if (importing->single[i])
            r = reconcile(folder, importing->known, importing->names + findings[i].name_at, 0, err);
    return r;
}

static int import_many(struct folder *folder, struct known *known, const char *names,
                       struct finding *findings, size_t count, struct err *err)
{
    struct importing *importing = calloc(1, sizeof *importing);
    size_t taken = 0;
    int r = 0;

    if (!importing)
        return err_set(err, ENOMEM, "no memory");
    importing->folder = folder;
    importing->known = known;
    importing->names = names;
    buf_init(&importing->bytes, SIZE_MAX / 2);
    buf_init(&importing->body, folder->backend.max_item_size);
    qsort(findings, count, sizeof *findings, compare_inodes);
    for (size_t at = 0; r == 0 && at < count; at += taken)
        r = import_batch(importing, findings + at, count - at, &taken, err);
    buf_release(&importing->bytes);
    buf_release(&importing->body);
    free(importing);
    return r;
}

int import_files(struct folder *folder, struct known *known, const char *names,
                 struct finding *findings, size_t count, struct err *err)
{
    int r = 0;

    if (count > FEW)
        return import_many(folder, known, names, findings, count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = reconcile(folder, known, names + findings[i].name_at, 0, err);
    return r;
}
