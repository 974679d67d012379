/* SPDX-License-Identifier: MIT */
/*
 * export TABLE FILE: typed items, one a line; in key order where the backend has one, else as they
 * come from segments that are read side by side.
 *
 * Going on. The position tells what of the export is safe on the disk, and for each segment the key
 * of the last item in it. An export that was ended goes on behind these keys: what stays the same
 * meanwhile is in it once. The position is that of a table, in so many segments, and where there is
 * a change log, of its newest entry: a store's export never mixes two states of a table further
 * apart than one run. A service gives no state of one moment in any case.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/progress.h"
#include "tools/itemctl/sink.h"
#include "tools/itemctl/transfer.h"

#define PAGE_RECORDS 512
#define LINES_FULL (1u << 20)

struct export_job {
    struct ctl *ctl;
    struct subject subject;
    struct sink *sink;
    struct position position; /* path NULL: none is kept */
    struct scan *scan;
    struct buf lines;
    uint64_t in_lines, items; /* of this page, in all */
    struct progress progress;
};

static int export_record(void *context, const struct record *record)
{
    struct export_job *job = context;
    const struct position *position = &job->position;

    job->sink->ops->add(&job->lines, record->body);
    job->in_lines++;
    if (position->path && key_bytes_set(&position->keys[job->scan->segment], record->key) < 0)
        return -ENOMEM;
    return buf_error(&job->lines) ? buf_error(&job->lines) : job->lines.len >= LINES_FULL;
}

/* Records the position if the sink has settled; with NOW it does. */
static int save(struct export_job *job, bool now, struct err *err)
{
    int r = job->sink->ops->settle(job->sink, &job->position, now, err);

    if (r <= 0 || !job->position.path)
        return r < 0 ? r : 0;
    job->position.items = job->items;
    return position_save(&job->position, err);
}

static int write_page(struct export_job *job, struct err *err)
{
    int r = 0;

    if (job->in_lines)
        r = job->sink->ops->write(job->sink, buf_span(&job->lines), job->in_lines, err);
    job->items += job->in_lines;
    job->in_lines = 0;
    buf_clear(&job->lines);
    progress_show(&job->progress, job->items, 0, 0);
    return r;
}

/* What came before a failure is kept for the next run. */
static int export_items(struct export_job *job)
{
    struct err *err = &job->ctl->err;

    while (!job->scan->ended) {
        int r = backend_scan_next(job->scan, PAGE_RECORDS, export_record, job, err);
        int written = write_page(job, r < 0 ? NULL : err);

        if (r < 0 && written == 0)
            save(job, true, NULL);
        if (r >= 0)
            r = written < 0 ? written : save(job, false, err);
        if (r < 0)
            return transfer_status(r);
    }
    return 0;
}

/* ---- the beginning ---- */

static int identify(struct export_job *job, char ret_identity[65])
{
    const struct subject *subject = &job->subject;
    cleanup(buf_release) struct buf text;
    uint64_t sequence = 0;
    int r = 0;

    if (backend_can(subject->backend, BACKEND_LOG))
        r = backend_log_position(subject->backend, &sequence, &job->ctl->err);
    buf_init(&text, 4096);
    if (r == 0)
        r = transfer_add_table(subject, sequence, &text, &job->ctl->err);
    if (r == 0)
        sha256_hex(buf_span(&text), ret_identity);
    return r;
}

static void tell_beginning(const struct export_job *job, int found)
{
    const struct position *position = &job->position;

    if (found == SINK_GOES_ON && position->segments > 1)
        transfer_note("going on behind the %llu items that an earlier export wrote, in %u segments",
                      (unsigned long long)position->items, position->segments);
    else if (found == SINK_GOES_ON)
        transfer_note("going on behind the %llu items that an earlier export wrote",
                      (unsigned long long)position->items);
    else if (found == SINK_OF_NO_USE)
        transfer_note("beginning anew: what an earlier export left is too little, or the table has "
                      "changed since");
}

/* Takes up what an earlier run left, or begins anew; ASKED segments, 0: any. */
static int take_up(struct export_job *job, unsigned asked)
{
    struct position *position = &job->position;
    char identity[65];

    if (!job->sink->position)
        return 0;
    int r = position_open(job->sink->position, position, &job->ctl->err);
    if (r < 0)
        return r == -EBUSY ? r : STATUS_FAILED;
    r = identify(job, identity);
    if (r < 0)
        return r;
    bool known = position_load(position, identity) && (asked == 0 || position->segments == asked);
    r = job->sink->ops->take_up(job->sink, position, known, &job->ctl->err);
    if (r < 0)
        return r;
    tell_beginning(job, r);
    if (r == SINK_GOES_ON)
        job->items = position->items;
    else
        r = position_begin(position, 0);
    return r < 0 ? r : 0;
}

static int open_scan(struct export_job *job, unsigned asked)
{
    struct position *position = &job->position;
    struct scan_range range = {.typed = true, .segments = asked};
    cleanup_free struct key *keys = calloc(position->segments + 1, sizeof *keys);

    if (!keys)
        return -ENOMEM;
    for (unsigned i = 0; i < position->segments; i++)
        keys[i] = key_bytes_key(&position->keys[i]);
    if (position->segments) {
        range.segments = position->segments;
        range.after = keys;
    }
    int r = backend_scan_open(job->subject.backend, job->subject.table, &range, &job->scan,
                              &job->ctl->err);
    if (r == 0 && position->path && !position->segments)
        r = position_begin(position, job->scan->segments);
    return r;
}

/* What the backend refuses is said before anything is touched. */
static int try_segments(struct export_job *job, unsigned asked)
{
    const struct scan_range range = {.segments = asked};
    struct scan *scan = NULL;
    int r =
        backend_scan_open(job->subject.backend, job->subject.table, &range, &scan, &job->ctl->err);

    backend_scan_close(scan);
    return r;
}

static int open_sink(struct export_job *job)
{
    const char *name = job->ctl->arguments->rest[1];

    if (!arguments_option(job->ctl->arguments, "--s3-layout", 0))
        return sink_file_open(name, &job->sink, &job->ctl->err);
    if (strcmp(name, "-") == 0)
        return ctl_usage(job->ctl, "--s3-layout makes a directory: \"-\" is none");
    return sink_layout_open(job->ctl, &job->subject, name, &job->sink, &job->ctl->err);
}

static int run_job(struct export_job *job, unsigned asked)
{
    int r = try_segments(job, asked);

    if (r == 0)
        r = open_sink(job);
    if (r == 0)
        r = take_up(job, asked);
    if (r == 0)
        r = open_scan(job, asked);
    if (r == 0)
        r = export_items(job);
    progress_end(&job->progress);
    if (r == 0)
        r = job->sink->ops->finish(job->sink, job->items, &job->ctl->err);
    if (r || !job->position.path)
        return r;
    position_remove(&job->position);
    return transfer_report(job->ctl, job->subject.table->name, job->items, "exported");
}

static void job_release(struct export_job *job)
{
    backend_scan_close(job->scan);
    if (job->sink)
        job->sink->ops->close(job->sink);
    position_close(&job->position);
    buf_release(&job->lines);
    subject_release(&job->subject);
}

static const struct option_spec export_options[] = {
    {"--segments", 1, false}, {"--s3-layout", 0, false}, {NULL, 0, false}};

static int run_export(struct ctl *ctl)
{
    cleanup(job_release) struct export_job job = {.ctl = ctl, .position.fd = -1};
    unsigned asked = 0;
    int r = transfer_segments(ctl, &asked);

    if (r)
        return r;
    buf_init(&job.lines, SIZE_MAX / 8);
    r = subject_open(ctl, &job.subject);
    if (r < 0)
        return r;
    progress_begin(&job.progress, "exported");
    return run_job(&job, asked);
}

const struct command command_export = {
    .name = "export",
    .usage = "TABLE FILE [--segments N] [--s3-layout]",
    .summary = "Write all items of a table to a file, as typed JSON lines",
    .options = export_options,
    .least = 2,
    .most = 2,
    .run = run_export,
};
