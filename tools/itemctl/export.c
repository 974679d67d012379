/* SPDX-License-Identifier: MIT */
/*
 * export TABLE FILE: typed items, one a line, in key order.
 *
 * Lines go to FILE.partial, and the position (FILE.partial-position) tells from time to time how
 * many of its bytes are on the disk and which item was the last. FILE appears only when all is
 * there, by rename. An export that was ended in between goes on where it was if nothing in the
 * store has changed since it began (the newest entry of the change log is part of the position's
 * identity), else it begins anew: so a file never mixes two states of a table further apart than
 * one run. A service that has no change log gives no state of one moment in any case: there, only
 * another table makes an export begin anew. What is no regular file (-, a pipe, a device) is
 * written directly.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/output.h"
#include "tools/itemctl/pages.h"
#include "tools/itemctl/position.h"
#include "tools/itemctl/progress.h"
#include "tools/itemctl/transfer.h"

#define STATUS_BROKEN_PIPE 141

struct export_job {
    struct ctl *ctl;
    const char *name; /* for messages */
    char *path;       /* the file to be; NULL: direct */
    char *partial;
    int fd;
    uint64_t offset; /* bytes written */
    uint64_t before; /* items of an earlier run */
    struct position position;
    int64_t save_ns; /* when to record the position next */
    struct item_output items;
    struct progress progress;
};

static int failed(struct export_job *job, const char *name)
{
    int code = errno;

    if (code == EPIPE)
        _exit(STATUS_BROKEN_PIPE);
    return err_set(&job->ctl->err, code, "%s: %s", name, strerror(code));
}

static int write_all(struct export_job *job, struct span text)
{
    while (text.len) {
        ssize_t put = write(job->fd, text.data, text.len);

        if (put < 0)
            return failed(job, job->name);
        text = span_of(text.data + put, text.len - (size_t)put);
        job->offset += (uint64_t)put;
    }
    return 0;
}

static int save_position(struct export_job *job, const struct pages *pages)
{
    struct position *position = &job->position;
    struct key last = key_bytes_key(&pages->last);

    if (!job->path || clock_steady_ns() < job->save_ns)
        return 0;
    if (fdatasync(job->fd) < 0)
        return failed(job, job->partial);
    position->offset = job->offset;
    position->items = job->before + pages->count;
    buf_clear(&position->partition);
    buf_clear(&position->sort);
    buf_add_span(&position->partition, last.partition);
    buf_add_span(&position->sort, last.sort);
    job->save_ns = clock_steady_ns() + TRANSFER_SAVE_NS;
    return position_save(position, &job->ctl->err);
}

static int export_record(void *context, const struct record *record)
{
    struct export_job *job = context;
    int r = item_output_add(&job->items, record);

    return r < 0 ? r : item_output_full(&job->items);
}

static int export_page(void *context, const struct pages *pages)
{
    struct export_job *job = context;
    int r = write_all(job, buf_span(&job->items.lines));

    buf_clear(&job->items.lines);
    progress_show(&job->progress, job->before + pages->count, 0, 0);
    return r < 0 ? r : save_position(job, pages);
}

/* ---- where it goes ---- */

static int open_direct(struct export_job *job, const char *file)
{
    job->fd = strcmp(file, "-") == 0 ? STDOUT_FILENO : open(file, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return job->fd < 0 ? failed(job, file) : 0;
}

static int identify(struct export_job *job, const struct subject *subject, char ret_identity[65])
{
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

/* Takes up what an earlier run left, or begins anew. */
static int take_up(struct export_job *job, const char *identity, struct pages *pages)
{
    struct position *position = &job->position;
    bool known = position_load(position, identity);
    struct stat partial;

    job->fd = open(job->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (job->fd < 0 || fstat(job->fd, &partial) < 0)
        return failed(job, job->partial);
    known = known && position->offset > 0 && (uint64_t)partial.st_size >= position->offset;
    if (known) {
        struct key last = {buf_span(&position->partition), buf_span(&position->sort)};

        transfer_note("going on behind the %llu items that an earlier export wrote",
                      (unsigned long long)position->items);
        job->offset = position->offset;
        job->before = position->items;
        if (key_bytes_set(&pages->last, last) < 0)
            return -ENOMEM;
    } else if (partial.st_size > 0) {
        transfer_note("the store has changed since an earlier export was ended: beginning anew");
    }
    if (ftruncate(job->fd, (off_t)job->offset) < 0 ||
        lseek(job->fd, (off_t)job->offset, SEEK_SET) < 0)
        return failed(job, job->partial);
    return 0;
}

static int open_file(struct export_job *job, const char *file, const struct subject *subject,
                     struct pages *pages)
{
    cleanup_free char *position = NULL;
    char identity[65];
    int r;

    job->path = realpath(file, NULL);
    if (!job->path)
        job->path = strdup(file);
    if (!job->path || asprintf(&job->partial, "%s.partial", job->path) < 0 ||
        asprintf(&position, "%s.partial-position", job->path) < 0)
        return -ENOMEM;
    r = position_open(position, &job->position, &job->ctl->err);
    if (r < 0)
        return r == -EBUSY ? r : STATUS_FAILED;
    r = identify(job, subject, identity);
    return r < 0 ? r : take_up(job, identity, pages);
}

static int open_target(struct export_job *job, const char *file, const struct subject *subject,
                       struct pages *pages)
{
    struct stat found;

    job->name = file;
    if (strcmp(file, "-") == 0 || (stat(file, &found) == 0 && !S_ISREG(found.st_mode)))
        return open_direct(job, file);
    return open_file(job, file, subject, pages);
}

static int sync_directory(struct export_job *job)
{
    cleanup_free char *directory = strdup(job->path);
    char *slash = directory ? strrchr(directory, '/') : NULL;
    int fd, r;

    if (slash)
        slash[slash == directory] = '\0';
    fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* not readable: the rename is as safe as can be */
    r = fsync(fd) < 0 && errno != EINVAL ? failed(job, job->name) : 0;
    close(fd);
    return r;
}

static int finish(struct export_job *job, const char *table, uint64_t count)
{
    int r;

    if (!job->path)
        return 0;
    if (fsync(job->fd) < 0)
        return failed(job, job->partial);
    if (rename(job->partial, job->path) < 0)
        return failed(job, job->name);
    position_remove(&job->position);
    r = sync_directory(job);
    return r < 0 ? r : transfer_report(job->ctl, table, job->before + count, "exported");
}

static void job_release(struct export_job *job)
{
    if (job->fd > STDERR_FILENO)
        close(job->fd);
    position_close(&job->position);
    item_output_release(&job->items);
    free(job->path);
    free(job->partial);
}

static int run_export(struct ctl *ctl)
{
    const char *file = ctl->arguments->rest[1];
    cleanup(subject_release) struct subject subject = {0};
    cleanup(job_release) struct export_job job = {.ctl = ctl, .fd = -1, .position.fd = -1};
    struct pages pages;
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    pages_init(&pages, &subject);
    item_output_init(&job.items, subject.table, true, &ctl->err);
    progress_begin(&job.progress, "exported");
    r = open_target(&job, file, &subject, &pages);
    pages.each = export_record;
    pages.page = export_page;
    pages.context = &job;
    if (r == 0)
        r = pages_walk(&pages, &ctl->err);
    progress_end(&job.progress);
    if (r == 0)
        r = finish(&job, subject.table->name, pages.count);
    pages_release(&pages);
    return r;
}

const struct command command_export = {
    .name = "export",
    .usage = "TABLE FILE",
    .summary = "Write all items of a table to a file, as typed JSON lines",
    .least = 2,
    .most = 2,
    .run = run_export,
};
