/* SPDX-License-Identifier: MIT */
/*
 * One file of all replicas, looked at with its lock, and made alike. What counts is the newest; the
 * state database has it then, if it is an item, and else the file itself is what the others get.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"

struct look {
    struct folder *folder;
    struct known *known;
    const char *name;
    struct file_view *view;
    struct buf bodies[REPLICAS_MOST]; /* of the view's copies */
    struct file_stat stats[REPLICAS_MOST];
    int codes[REPLICAS_MOST]; /* of reading them */
    struct err *err;
};

static int add_copy(void *context, size_t number, const struct replica_info *info)
{
    struct look *look = context;
    struct file_view *view = look->view;
    size_t at = view->count;

    if (!info->in_use)
        return 0;
    view->infos[at] = *info;
    view->numbers[at] = number;
    view->copies[at] = (struct replica_copy){.path = view->infos[at].path, .reason = ""};
    err_clear(&view->reasons[at]);
    buf_clear(&look->bodies[at]);
    int r = replica_read(look->folder->replicas, number, look->known->folder, look->name,
                         &look->stats[at], &look->bodies[at], &view->reasons[at]);
    if (r == -ENOMEM)
        return err_set(look->err, ENOMEM, "no memory");
    look->codes[at] = r;
    view->busy |= r == -ETXTBSY || r == -EAGAIN;
    view->copies[at].there = look->stats[at].present;
    view->copies[at].size = look->stats[at].size;
    view->copies[at].mtime_ns = look->stats[at].mtime_ns;
    if (r == -ENOENT)
        view->copies[at].there = false;
    else if (r < 0)
        view->copies[at].reason = view->reasons[at].text;
    view->count++;
    return 0;
}

static size_t find_newest(const struct file_view *view)
{
    size_t newest = view->count;

    for (size_t i = 0; i < view->count; i++)
        if (view->copies[i].there && !view->copies[i].reason[0] &&
            (newest == view->count || view->copies[i].mtime_ns > view->copies[newest].mtime_ns))
            newest = i;
    return newest;
}

static bool is_alike(const struct look *look, size_t a, size_t b)
{
    const struct replica_copy *copies = look->view->copies;

    if (copies[a].reason[0] || copies[b].reason[0])
        return false;
    return copies[a].there == copies[b].there &&
           span_equal(buf_span(&look->bodies[a]), buf_span(&look->bodies[b]));
}

/* 1: they differ. */
static int look_at_all(struct look *look)
{
    struct file_view *view = look->view;
    bool differ = false;

    view->count = 0;
    view->busy = view->failed = false;
    view->since_ns = 0;
    int r = replicas_each(look->folder->replicas, add_copy, look);
    if (r < 0)
        return r;
    for (size_t i = 0; i < view->count; i++) {
        differ |= !is_alike(look, 0, i);
        if (view->copies[i].there && view->copies[i].mtime_ns > view->since_ns)
            view->since_ns = view->copies[i].mtime_ns;
    }
    size_t newest = find_newest(view);
    if (differ && newest < view->count)
        view->copies[newest].newest = true;
    return differ;
}

/* ---- making them alike ---- */

/* What a replica holds instead is kept; what is no regular file is put aside. */
static int replace(struct look *look, size_t at, struct span body, int64_t mtime_ns,
                   struct err *err)
{
    struct folder *folder = look->folder;
    size_t number = look->view->numbers[at];
    const struct file_op op = {.kind = FILE_PUT,
                               .folder = look->known->folder,
                               .name = look->name,
                               .body = body.data ? body : span_of("", 0),
                               .mtime_ns = mtime_ns,
                               .conditional = true,
                               .expected = look->stats[at]};
    int r = 0;

    if (look->stats[at].present && look->stats[at].regular)
        r = folder_draft(folder, look->known, look->name, buf_span(&look->bodies[at]),
                         "replaced by the newer file of another replica", err);
    if (r == 0)
        r = repair_make_folder(folder, look->known, number, err);
    return r ? r : replica_apply(folder->replicas, number, &op, 1, false, err);
}

/* What cannot be done stands in the view. */
static int mend(struct look *look, size_t at, struct span body, int64_t mtime_ns)
{
    struct file_view *view = look->view;
    struct replica_copy *copy = &view->copies[at];
    struct span text = buf_span(&look->bodies[at]);
    int r = look->codes[at];

    assert(text.data || text.len == 0);
    if (r == 0 && span_equal(text, body))
        return 0;
    err_clear(&view->reasons[at]);
    if (r == 0 || r == -ENOENT || (r == -EINVAL && !look->stats[at].regular))
        r = replace(look, at, body, mtime_ns, &view->reasons[at]);
    if (r == -ENOMEM)
        return err_set(look->err, ENOMEM, "no memory");
    if (r == -EBUSY)
        view->busy = true;
    else if (r < 0)
        view->failed = true;
    if (r < 0)
        copy->reason = err_text(&view->reasons[at], r);
    return 0;
}

static int mend_all(struct look *look, struct span body, int64_t mtime_ns)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < look->view->count; i++)
        r = mend(look, i, body, mtime_ns);
    return r;
}

/* What somebody has written is in the state database first. */
static int make_alike(struct look *look, struct span part)
{
    struct folder *folder = look->folder;
    cleanup(buf_release) struct buf row;
    struct item_meta meta;
    struct found found = {.busy = false};
    struct err own = {""};

    buf_init(&row, SIZE_MAX / 2);
    int r = part.len ? reconcile_locked(folder, look->known, look->name, part, LOOK_MEND, &found,
                                        look->err)
                     : 0;
    if (r < 0)
        return r;
    if (found.busy) {
        look->view->busy = true;
        return 0;
    }
    r = part.len ? mirror_get(folder, look->known->table, part, &meta, &row, &own) : -ENOENT;
    if (r == 0)
        return mend_all(look, buf_span(&row), meta.mtime_ns);
    if (r != -ENOENT)
        return err_set(look->err, -r, "%s", err_text(&own, r));
    size_t newest = find_newest(look->view);
    if (newest < look->view->count)
        return mend_all(look, buf_span(&look->bodies[newest]), look->view->copies[newest].mtime_ns);
    look->view->failed = true; /* no replica has a file */
    return 0;
}

static int verify_locked(struct look *look, struct span part, bool repair)
{
    int r = look_at_all(look);

    if (r != 1 || !repair || look->view->busy)
        return r;
    r = make_alike(look, part);
    return r < 0 ? r : 1;
}

int verify_file(struct folder *folder, struct known *known, const char *name, bool repair,
                struct file_view *ret_view, struct err *err)
{
    cleanup_free struct look *look = calloc(1, sizeof *look);
    cleanup(buf_release) struct buf part;

    buf_init(&part, KEY_PART_MAX + 1);
    if (!look)
        return err_set(err, ENOMEM, "no memory");
    look->folder = folder;
    look->known = known;
    look->name = name;
    look->view = ret_view;
    look->err = err;
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        buf_init(&look->bodies[i], SIZE_MAX / 8);
    if (key_of_file_name(known->table, name, &part, NULL) != 0)
        buf_clear(&part); /* the name is no key: no row */
    uint64_t stripe = lock_bit(known->table->id, buf_span(&part));
    int r = locks_take(folder, stripe, err);
    if (r == 0) {
        r = verify_locked(look, buf_span(&part), repair);
        locks_give(folder, stripe);
    }
    for (size_t i = 0; i < REPLICAS_MOST; i++)
        buf_release(&look->bodies[i]);
    return r;
}
