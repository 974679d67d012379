/* SPDX-License-Identifier: MIT */
/*
 * Replicas compared. The lists of all of them are put together; then portions of files are read in
 * all replicas at once, and compared. No lock is held for that: what seems to differ is looked at
 * again by itself (verify_file.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/folder/private.h"

#define PORTION_FILES 512
#define PORTION_BYTES (UINT64_C(4) << 20) /* of each replica */
#define LOOKS 40                          /* at a file that is being written */
#define PAUSE_NS (NS_PER_S / 20)

struct listed {
    size_t name_at; /* in names */
    uint64_t size;
};

struct verifying {
    struct folder *folder;
    struct known *known;
    const struct verify_options *options;
    difference_fn each;
    struct verify_counts *counts;
    struct buf names; /* of the files, each with its NUL */
    struct buf files; /* a `listed` of each, by name */
    size_t count;     /* without those that several replicas have */
    struct buf doubtful;
    struct err *err;
};

/* ---- the lists ---- */

static int note_file(void *context, const struct file_entry *entry)
{
    struct verifying *verifying = context;
    const struct listed listed = {verifying->names.len, entry->stat.size};

    if (!name_is_item(span_text(entry->name)))
        return 0;
    buf_add(&verifying->names, entry->name, strlen(entry->name) + 1);
    buf_add(&verifying->files, &listed, sizeof listed);
    return buf_error(&verifying->names) ? buf_error(&verifying->names)
                                        : buf_error(&verifying->files);
}

static int list_replica(void *context, size_t number, const struct replica_info *info)
{
    struct verifying *verifying = context;
    struct err own = {""};

    verifying->counts->out += !info->in_use;
    verifying->counts->compared += info->in_use;
    if (!info->in_use)
        return 0;
    int r = replica_list(verifying->folder->replicas, number, verifying->known->folder, note_file,
                         verifying, &own);
    if (r == -ENOENT) /* all its files are missing */
        return 0;
    return r < 0 ? err_set(verifying->err, -r, "%s", err_text(&own, r)) : 0;
}

static int compare_names(const void *left, const void *right, void *names)
{
    const struct listed *a = left, *b = right;

    return strcmp((const char *)names + a->name_at, (const char *)names + b->name_at);
}

static struct listed *files_of(const struct verifying *verifying)
{
    return (struct listed *)(void *)verifying->files.data;
}

/* By name, each once. */
static int list_all(struct verifying *verifying)
{
    int r = replicas_each(verifying->folder->replicas, list_replica, verifying);
    size_t count = verifying->files.len / sizeof(struct listed), kept = 0;
    struct listed *files = files_of(verifying);
    const char *names = verifying->names.data;

    if (r < 0 || count == 0)
        return r;
    qsort_r(files, count, sizeof *files, compare_names, verifying->names.data);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names + files[i].name_at, names + files[kept].name_at) != 0)
            files[++kept] = files[i];
        else if (files[i].size > files[kept].size)
            files[kept].size = files[i].size;
    }
    verifying->count = kept + 1;
    return 0;
}

/* ---- portions ---- */

static int compare_copies(void *context, const char *name, const struct file_copy *copies,
                          size_t count)
{
    struct verifying *verifying = context;
    bool alike = true;

    for (size_t i = 0; i < count; i++)
        alike = alike && (copies[i].code == 0 || copies[i].code == -ENOENT) &&
                copies[i].code == copies[0].code && span_equal(copies[i].body, copies[0].body);
    verifying->counts->files++;
    if (!alike)
        buf_add(&verifying->doubtful, name, strlen(name) + 1);
    return buf_error(&verifying->doubtful);
}

static void tell_progress(const struct verifying *verifying)
{
    if (verifying->options->progress)
        verifying->options->progress(verifying->options->context, verifying->counts,
                                     verifying->count);
}

static int compare_all(struct verifying *verifying)
{
    const struct listed *files = files_of(verifying);
    int r = 0;

    for (size_t at = 0; r == 0 && at < verifying->count;) {
        const char *names[PORTION_FILES];
        uint64_t bytes = 0;
        size_t count = 0;
        while (at < verifying->count && count < PORTION_FILES &&
               (count == 0 || bytes + files[at].size <= PORTION_BYTES)) {
            bytes += files[at].size;
            names[count++] = verifying->names.data + files[at++].name_at;
        }
        r = replicas_read_many(verifying->folder->replicas, verifying->known->folder, names, count,
                               compare_copies, verifying, verifying->err);
        tell_progress(verifying);
    }
    return r;
}

/* ---- what differs ---- */

static bool is_young(const struct file_view *view)
{
    return view->busy || view->since_ns > clock_now_ns() - GRACE_NS;
}

/* Looks at it until it is certain: a program may be writing the replicas one after another. 1: it
 * differs. */
static int look_at(struct verifying *verifying, const char *name, struct file_view *view)
{
    int r = verify_file(verifying->folder, verifying->known, name, false, view, verifying->err);

    for (int i = 0; r == 1 && is_young(view) && i < LOOKS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        r = verify_file(verifying->folder, verifying->known, name, false, view, verifying->err);
    }
    return r;
}

static int take_difference(struct verifying *verifying, const char *name, struct file_view *view)
{
    struct difference difference = {
        .name = name, .since_ns = view->since_ns, .copies = view->copies, .count = view->count};
    cleanup_free struct file_view *after = NULL;

    if (verifying->options->repair) {
        after = calloc(1, sizeof *after);
        if (!after)
            return err_set(verifying->err, ENOMEM, "no memory");
        int r = verify_file(verifying->folder, verifying->known, name, true, after, verifying->err);
        if (r < 0)
            return r;
        difference.repaired = r == 0 || !(after->busy || after->failed);
        if (!difference.repaired) { /* they say why */
            difference.copies = after->copies;
            difference.count = after->count;
        }
    }
    verifying->counts->differ++;
    verifying->counts->repaired += difference.repaired;
    return verifying->each(verifying->options->context, &difference);
}

static int look_at_doubtful(struct verifying *verifying)
{
    cleanup_free struct file_view *view = calloc(1, sizeof *view);
    int r = 0;

    if (!view)
        return err_set(verifying->err, ENOMEM, "no memory");
    for (size_t at = 0; r == 0 && at < verifying->doubtful.len;
         at += strlen(verifying->doubtful.data + at) + 1) {
        r = look_at(verifying, verifying->doubtful.data + at, view);
        if (r == 1)
            r = take_difference(verifying, verifying->doubtful.data + at, view);
    }
    return r;
}

static int verify(struct verifying *verifying)
{
    int r = list_all(verifying);

    if (r == 0 && verifying->counts->compared > 1)
        r = compare_all(verifying);
    else if (r == 0)
        verifying->counts->files = verifying->count;
    return r ? r : look_at_doubtful(verifying);
}

int folder_verify(struct backend *backend, const struct table *table,
                  const struct verify_options *options, difference_fn each,
                  struct verify_counts *ret_counts, struct err *err)
{
    struct folder *folder = folder_of(backend);
    cleanup(known_release) struct known *known = NULL;
    struct verifying verifying = {
        .folder = folder, .options = options, .each = each, .counts = ret_counts, .err = err};

    if (options->repair && folder->read_only)
        return err_set(err, EROFS, "%s is open for reading only", folder->place);
    int r = known_by_id(folder, table->id, &known, err);
    if (r < 0)
        return r;
    verifying.known = known;
    buf_init(&verifying.names, SIZE_MAX / 2);
    buf_init(&verifying.files, SIZE_MAX / 2);
    buf_init(&verifying.doubtful, SIZE_MAX / 2);
    r = verify(&verifying);
    buf_release(&verifying.names);
    buf_release(&verifying.files);
    buf_release(&verifying.doubtful);
    return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
}
