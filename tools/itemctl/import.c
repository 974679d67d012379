/* SPDX-License-Identifier: MIT */
/*
 * import TABLE FILE: typed items, one a line, each replacing what is there.
 *
 * Lines are put in batches. From time to time a batch is made durable and then the position is
 * recorded: the bytes and lines of FILE that are in the table for certain. It is kept in the state
 * directory, since FILE may lie where nothing can be written, under a name made of the store, the
 * table and FILE; the identity in it is that of the table and of FILE's inode, size and times, so
 * that a file or table that changed is imported from its beginning. Putting a line a second time
 * changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/batch.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/lines.h"
#include "tools/itemctl/position.h"
#include "tools/itemctl/progress.h"
#include "tools/itemctl/transfer.h"

#define LINE_PER_ITEM 16 /* a typed line may be that much longer than the body */

struct import_job {
    struct ctl *ctl;
    const char *name; /* for messages */
    struct stat file;
    struct lines lines;
    struct batch *batch;
    struct position position; /* path NULL: none is kept */
    uint64_t items;           /* put */
    int64_t save_ns;
    struct progress progress;
};

/* ---- the position ---- */

/* The store, or the service, by which an import is known again. */
static void add_store(const struct ctl *ctl, const struct backend *backend, struct buf *out)
{
    for (size_t i = 0; i < ctl->source->count; i++) {
        const struct backend_config *config = &ctl->config->backends[i];
        if (ctl->source->backends[i] != backend)
            continue;
        if (config->path)
            buf_add_text(out, config->path);
        else
            buf_addf(out, "dynamodb:%s %s", config->region ? config->region : "",
                     config->endpoint ? config->endpoint : "");
    }
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

static int position_path(struct import_job *job, const struct subject *subject, const char *file,
                         char **ret_path)
{
    cleanup_free char *directory = NULL, *whole = realpath(file, NULL);
    cleanup(buf_release) struct buf name;
    char digest[65];
    int r;

    buf_init(&name, 1u << 20);
    if (!whole)
        return -errno;
    if (asprintf(&directory, "%s/import", job->ctl->config->state_dir) < 0)
        return -ENOMEM;
    add_store(job->ctl, subject->backend, &name);
    buf_addf(&name, "%c%s%c%s", 0, subject->table->name, 0, whole);
    if (buf_error(&name))
        return buf_error(&name);
    sha256_hex(buf_span(&name), digest);
    r = make_directories(directory);
    if (r < 0)
        return r;
    return asprintf(ret_path, "%s/%s", directory, digest) < 0 ? -ENOMEM : 0;
}

static int identify(struct import_job *job, const struct subject *subject, char ret_identity[65])
{
    cleanup(buf_release) struct buf text;
    const struct stat *file = &job->file;
    int r;

    buf_init(&text, 4096);
    r = transfer_add_table(subject, 0, &text, &job->ctl->err);
    buf_addf(&text, "%" PRIuMAX " %" PRIuMAX " %jd %jd.%09ld\n", (uintmax_t)file->st_dev,
             (uintmax_t)file->st_ino, (intmax_t)file->st_size, (intmax_t)file->st_mtim.tv_sec,
             file->st_mtim.tv_nsec);
    if (r == 0)
        r = buf_error(&text);
    if (r == 0)
        sha256_hex(buf_span(&text), ret_identity);
    return r;
}

static int take_up(struct import_job *job)
{
    const struct position *position = &job->position;

    if (lseek(job->lines.fd, (off_t)position->offset, SEEK_SET) < 0)
        return -errno;
    job->lines.offset = position->offset;
    job->lines.line = position->line;
    job->items = position->items;
    transfer_note("going on at line %" PRIu64 " of %s; to begin anew, remove %s",
                  position->line + 1, job->name, position->path);
    return 0;
}

/* Without a place for the position, the import works all the same, but cannot go on later. */
static int find_position(struct import_job *job, const struct subject *subject, const char *file)
{
    cleanup_free char *path = NULL;
    struct err reason = {""};
    char identity[65];
    int r;

    if (!S_ISREG(job->file.st_mode))
        return 0;
    r = position_path(job, subject, file, &path);
    if (r == 0)
        r = position_open(path, &job->position, &reason);
    if (r == -EBUSY)
        return err_set(&job->ctl->err, EBUSY, "another itemctl is importing %s", job->name);
    if (r < 0) {
        transfer_note("%s: %s: if it is interrupted, this import will begin anew",
                      job->ctl->config->state_dir, err_text(&reason, r));
        return 0;
    }
    r = identify(job, subject, identity);
    if (r == 0 && position_load(&job->position, identity) && job->position.offset > 0)
        r = take_up(job);
    return r;
}

/* ---- the lines ---- */

/* Puts the batch; where SAVE or it is time, durably and with the position recorded. */
static int flush(struct import_job *job, bool save)
{
    bool keep = job->position.path && (save || clock_steady_ns() >= job->save_ns);
    uint64_t count = job->batch->count;
    int r = batch_write(job->batch, keep ? WRITE_DURABLE : 0, &job->ctl->err);

    if (r < 0)
        return r;
    job->items += count;
    progress_show(&job->progress, job->items, job->lines.offset, (uint64_t)job->file.st_size);
    if (!keep)
        return 0;
    if (count == 0) {
        r = backend_sync(job->batch->subject->backend, &job->ctl->err);
        if (r < 0)
            return r;
    }
    job->position.offset = job->lines.offset;
    job->position.line = job->lines.line;
    job->position.items = job->items;
    job->save_ns = clock_steady_ns() + TRANSFER_SAVE_NS;
    return position_save(&job->position, &job->ctl->err);
}

/* LINE cannot be put: what stands before it is, and the next run begins with it. */
static int stop_at(struct import_job *job, const struct lines *before, int code,
                   const struct err *reason)
{
    int r;

    job->lines.offset = before->offset;
    job->lines.line = before->line;
    r = flush(job, true);
    if (r < 0)
        return r;
    if (before->line)
        transfer_note("%" PRIu64 " line%s before the bad one %s in the table", before->line,
                      before->line == 1 ? "" : "s", before->line == 1 ? "is" : "are");
    return document_fail(job->name, before->line + 1, code, reason, &job->ctl->err);
}

static int import_lines(struct import_job *job)
{
    for (;;) {
        struct lines before = job->lines;
        struct err reason = {""};
        struct span line;
        int r = lines_next(&job->lines, &line);

        if (r == 0)
            return flush(job, true);
        if (r == -EFBIG)
            err_set(&reason, EFBIG, "the line is too long");
        if (r > 0)
            r = text_is_blank(line) ? 0 : batch_add(job->batch, line, &reason);
        if (r < 0)
            return stop_at(job, &before, r, &reason);
        if (batch_full(job->batch)) {
            r = flush(job, false);
            if (r < 0)
                return r;
        }
    }
}

static int open_file(struct import_job *job, const char *file)
{
    bool standard = strcmp(file, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    uint64_t longest = LINE_PER_ITEM * job->batch->subject->backend->max_item_size + (1u << 20);

    job->name = standard ? "standard input" : file;
    if (fd < 0 || fstat(fd, &job->file) < 0)
        return ctl_fail(job->ctl, STATUS_FAILED, "%s: %s", job->name, strerror(errno));
    if (S_ISDIR(job->file.st_mode))
        return ctl_fail(job->ctl, STATUS_FAILED, "%s: %s", job->name, strerror(EISDIR));
    if (standard || !S_ISREG(job->file.st_mode)) {
        job->file.st_mode = S_IFIFO;
        job->file.st_size = 0;
    }
    lines_init(&job->lines, fd, longest);
    return 0;
}

static int import_file(struct import_job *job, const struct subject *subject, const char *file)
{
    int r = open_file(job, file);

    if (r)
        return r;
    r = find_position(job, subject, file);
    progress_begin(&job->progress, "imported");
    if (r == 0)
        r = import_lines(job);
    progress_end(&job->progress);
    if (r == 0)
        r = backend_sync(subject->backend, &job->ctl->err);
    if (r == 0 && job->position.path)
        position_remove(&job->position);
    if (job->lines.fd != STDIN_FILENO)
        close(job->lines.fd);
    lines_release(&job->lines);
    position_close(&job->position);
    return r;
}

static int run_import(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    struct import_job job = {.ctl = ctl, .position.fd = -1};
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    job.batch = malloc(sizeof *job.batch);
    if (!job.batch)
        return -ENOMEM;
    batch_init(job.batch, &subject);
    r = import_file(&job, &subject, ctl->arguments->rest[1]);
    if (r == 0)
        r = transfer_report(ctl, subject.table->name, job.items, "imported");
    batch_release(job.batch);
    free(job.batch);
    return r;
}

const struct command command_import = {
    .name = "import",
    .usage = "TABLE FILE",
    .summary = "Store the items of a file of typed JSON lines",
    .least = 2,
    .most = 2,
    .access = COMMAND_WRITES,
    .run = run_import,
};
