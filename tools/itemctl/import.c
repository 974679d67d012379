/* SPDX-License-Identifier: MIT */
/*
 * import TABLE FILE: typed items, one a line, each replacing what is there.
 *
 * Lines are dealt to a loader, which writes them side by side where the backend likes it. From time
 * to time the position is recorded: the place in FILE before which every line is in the table for
 * certain. It is kept in the state directory, since FILE may lie where nothing can be written,
 * under a name made of the store, the table and FILE; the identity in it is that of the table and
 * of the inode, size and times of FILE (or of each data file of an export), so that a file or table
 * that changed is imported from its beginning. Putting a line a second time changes nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/files.h"
#include "tools/itemctl/input.h"
#include "tools/itemctl/loader.h"
#include "tools/itemctl/position.h"
#include "tools/itemctl/progress.h"
#include "tools/itemctl/transfer.h"

#define FIRST_SAVE_NS (TRANSFER_SAVE_NS / 10)
#define LINE_PER_ITEM 16 /* a typed line may be that much longer than the body */

struct import_job {
    struct ctl *ctl;
    struct subject subject;
    struct input input;
    struct loader *loader;
    struct packed packed;     /* the item under way */
    struct position position; /* path NULL: none is kept */
    int64_t save_ns;          /* when to record it next */
    struct progress progress;
};

/* ---- the position ---- */

/* The store, or the service, by which an import is known again. */
static void add_store(const struct import_job *job, struct buf *out)
{
    const struct backend_config *config = transfer_config(job->ctl, job->subject.backend);

    if (config->path)
        buf_add_text(out, config->path);
    else
        buf_addf(out, "dynamodb:%s %s", config->region ? config->region : "",
                 config->endpoint ? config->endpoint : "");
}

static int make_directories(char *path)
{
    for (char *at = path + 1;; at++) {
        char end = *at;

        if (end && end != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return -errno;
        *at = end;
        if (!end)
            return 0;
    }
}

static int position_path(const struct import_job *job, char **ret_path)
{
    cleanup_free char *directory = path_make("%s/import", job->ctl->config->state_dir);
    cleanup(buf_release) struct buf name;
    char digest[65];

    buf_init(&name, 1u << 20);
    if (!directory)
        return -ENOMEM;
    add_store(job, &name);
    buf_addf(&name, "%c%s%c%s", 0, job->subject.table->name, 0, job->input.path);
    if (buf_error(&name))
        return buf_error(&name);
    sha256_hex(buf_span(&name), digest);
    int r = make_directories(directory);
    if (r < 0)
        return r;
    *ret_path = path_make("%s/%s", directory, digest);
    return *ret_path ? 0 : -ENOMEM;
}

static int identify(const struct import_job *job, char ret_identity[65])
{
    struct err *err = &job->ctl->err;
    cleanup(buf_release) struct buf text;

    buf_init(&text, SIZE_MAX / 8);
    int r = transfer_add_table(&job->subject, 0, &text, err);
    if (r == 0)
        r = input_identify(&job->input, &text, err);
    if (r == 0)
        r = buf_error(&text);
    if (r == 0)
        sha256_hex(buf_span(&text), ret_identity);
    return r;
}

static int take_up(struct import_job *job)
{
    const struct position *position = &job->position;
    const struct place place = {position->file, position->offset, position->line, position->items};

    if (job->input.layered)
        transfer_note("going on behind %" PRIu64 " items of %s; to begin anew, remove %s",
                      place.items, job->input.name, position->path);
    else
        transfer_note("going on at line %" PRIu64 " of %s; to begin anew, remove %s",
                      place.line + 1, job->input.name, position->path);
    return input_seek(&job->input, &place, &job->ctl->err);
}

/* Without a place for the position, the import works all the same, but cannot go on later. */
static int find_position(struct import_job *job)
{
    cleanup_free char *path = NULL;
    struct err reason = {""};
    char identity[65];

    if (!job->input.path)
        return 0;
    int r = position_path(job, &path);
    if (r == 0)
        r = position_open(path, &job->position, &reason);
    if (r == -EBUSY)
        return err_set(&job->ctl->err, EBUSY, "another itemctl is importing %s", job->input.name);
    if (r < 0) {
        transfer_note("%s: %s: if it is interrupted, this import will begin anew",
                      job->ctl->config->state_dir, err_text(&reason, r));
        return 0;
    }
    r = identify(job, identity);
    if (r < 0)
        return r;
    if (position_load(&job->position, identity))
        return take_up(job);
    return position_begin(&job->position, 0);
}

/* Records what is in the table for certain. */
static int save(struct import_job *job, struct err *err)
{
    struct position *position = &job->position;
    struct place place = loader_done(job->loader, &job->input.place);

    job->save_ns = clock_steady_ns() + TRANSFER_SAVE_NS;
    if (place.items == 0 || !position->path)
        return 0;
    int r = backend_sync(job->subject.backend, err);
    if (r < 0)
        return r;
    position->file = place.file;
    position->offset = place.offset;
    position->line = place.line;
    position->items = place.items;
    return position_save(position, err);
}

/* ---- the lines ---- */

/* What comes before a failure is in the table, and the next run goes on behind that. */
static int stop(struct import_job *job, int code)
{
    save(job, NULL);
    return transfer_status(code);
}

/* The line at PLACE cannot be put. MORE: what is behind it may have been. */
static int stop_at(struct import_job *job, const struct place *place, bool more, int code,
                   const struct err *reason)
{
    uint64_t count = job->input.layered ? place->items : place->line;

    save(job, NULL);
    if (count)
        transfer_note("%" PRIu64 " %s%s before the bad one %s in the table%s", count,
                      job->input.layered ? "item" : "line", count == 1 ? "" : "s",
                      count == 1 ? "is" : "are", more ? ", and perhaps some behind it" : "");
    return document_fail(input_name(&job->input, place), place->line + 1, code, reason,
                         &job->ctl->err);
}

/* The loader has failed, with CODE. */
static int stop_loading(struct import_job *job, int code)
{
    struct err reason = {""};
    struct place place;
    bool more = false;
    int r = loader_drain(job->loader, &reason);

    r = r < 0 ? r : code;
    if (loader_refused(job->loader, &place, &more))
        return stop_at(job, &place, more, r, &reason);
    return stop(job, err_set(&job->ctl->err, -r, "%s", err_text(&reason, r)));
}

/* No item can be read at the input's place. */
static int stop_reading(struct import_job *job, int code, const struct err *reason)
{
    struct place place = job->input.place;

    int r = loader_drain(job->loader, NULL);

    if (r < 0)
        return stop_loading(job, r);
    if (job->input.broken)
        return stop(job, err_set(&job->ctl->err, -code, "%s", err_text(reason, code)));
    return stop_at(job, &place, false, code, reason);
}

/* Records the position while it waits. */
static int add_item(struct import_job *job)
{
    struct err *err = &job->ctl->err;
    int r;

    do {
        if (clock_steady_ns() >= job->save_ns) {
            r = save(job, err);
            if (r < 0)
                return r;
        }
        r = loader_add(job->loader, &job->packed, &job->input.place, job->save_ns, NULL);
    } while (r > 0);
    return r < 0 ? stop_loading(job, r) : 0;
}

static int import_items(struct import_job *job)
{
    const struct subject *subject = &job->subject;
    struct err *err = &job->ctl->err;

    for (;;) {
        struct err reason = {""};
        struct span item;
        int r = input_next(&job->input, &item, &reason);

        if (r == 0)
            break;
        if (r > 0)
            r = backend_pack(subject->backend, subject->table, item, &job->packed, &reason);
        if (r < 0)
            return stop_reading(job, r, &reason);
        r = add_item(job);
        if (r)
            return r;
        progress_show(&job->progress, job->input.given, input_done(&job->input), job->input.bytes);
    }
    int r = loader_drain(job->loader, NULL);
    if (r < 0)
        return stop_loading(job, r);
    return backend_sync(subject->backend, err);
}

static int open_input(struct import_job *job)
{
    uint64_t longest = LINE_PER_ITEM * job->subject.backend->max_item_size + (1u << 20);
    int r = input_open(&job->input, job->ctl->arguments->rest[1], longest, &job->ctl->err);

    return r < 0 ? STATUS_FAILED : 0; /* "nothing there" is for tables and items only */
}

static int run_job(struct import_job *job)
{
    struct err *err = &job->ctl->err;
    int r = open_input(job);

    if (r == 0)
        r = find_position(job);
    if (r == 0)
        r = input_verify(&job->input, err);
    if (r == 0)
        r = loader_new(&job->subject, &job->loader, err);
    job->save_ns = clock_steady_ns() + FIRST_SAVE_NS;
    progress_begin(&job->progress, "imported");
    if (r == 0)
        r = import_items(job);
    progress_end(&job->progress);
    if (r == 0 && job->position.path)
        position_remove(&job->position);
    return r ? r
             : transfer_report(job->ctl, job->subject.table->name, job->input.given, "imported");
}

static void job_release(struct import_job *job)
{
    loader_free(job->loader);
    input_close(&job->input);
    position_close(&job->position);
    packed_release(&job->packed);
    subject_release(&job->subject);
}

static int run_import(struct ctl *ctl)
{
    struct import_job job = {.ctl = ctl, .position.fd = -1, .input.fd = -1};
    int r = subject_open(ctl, &job.subject);

    packed_init(&job.packed);
    if (r == 0)
        r = run_job(&job);
    job_release(&job);
    return r;
}

const struct command command_import = {
    .name = "import",
    .usage = "TABLE FILE",
    .summary = "Store the items of a file of typed JSON lines, or of an export to S3",
    .least = 2,
    .most = 2,
    .access = COMMAND_WRITES,
    .run = run_import,
};
