/* SPDX-License-Identifier: MIT */
/* verify: whether the replicas of folders hold the same files, and what to do about it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/replicas.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"
#include "tools/itemctl/progress.h"

#define LINE_BYTES_MAX (1u << 20)

struct verification {
    struct ctl *ctl;
    const struct table *table; /* that is compared */
    struct progress progress;
    struct buf out; /* of one difference */
    uint64_t files, differ, repaired, tables;
    size_t compared, out_of_use;
    bool told; /* a difference was */
};

/* ---- a difference ---- */

static void add_copy_json(struct buf *out, const struct replica_copy *copy)
{
    buf_add_text(out, "{\"Path\": ");
    json_add_string(out, span_text(copy->path));
    buf_addf(out, ", \"Missing\": %s", copy->there ? "false" : "true");
    if (copy->there) {
        buf_addf(out, ", \"Size\": %" PRIu64 ", \"Mtime\": \"", copy->size);
        text_time_ns(copy->mtime_ns, out);
        buf_add_char(out, '"');
    }
    if (copy->newest)
        buf_add_text(out, ", \"Newest\": true");
    if (copy->reason[0]) {
        buf_add_text(out, ", \"Reason\": ");
        json_add_string(out, span_text(copy->reason));
    }
    buf_add_char(out, '}');
}

static void add_json(struct verification *verification, const struct difference *difference)
{
    struct buf *out = &verification->out;

    buf_add_text(out, verification->told ? ",\n " : "{\"Differences\": [\n ");
    buf_add_text(out, "{\"TableName\": ");
    json_add_string(out, span_text(verification->table->name));
    buf_add_text(out, ", \"File\": ");
    json_add_string(out, span_text(difference->name));
    buf_add_text(out, ", \"Since\": \"");
    text_time_ns(difference->since_ns, out);
    buf_addf(out, "\", \"Repaired\": %s, \"Replicas\": [", difference->repaired ? "true" : "false");
    for (size_t i = 0; i < difference->count; i++) {
        buf_add_text(out, i ? ", " : "");
        add_copy_json(out, &difference->copies[i]);
    }
    buf_add_text(out, "]}");
}

static void add_text(struct verification *verification, const struct difference *difference)
{
    struct buf *out = &verification->out;

    text_visible(span_text(verification->table->name), out);
    buf_add_char(out, '/');
    text_visible(span_text(difference->name), out);
    buf_add_text(out, "  since ");
    text_time_ns(difference->since_ns, out);
    buf_add_text(out, difference->repaired ? ", repaired\n" : "\n");
    for (size_t i = 0; i < difference->count; i++) {
        const struct replica_copy *copy = &difference->copies[i];
        buf_add_text(out, "  ");
        text_visible(span_text(copy->path), out);
        if (copy->reason[0]) {
            buf_add_text(out, "  ");
            text_visible(span_text(copy->reason), out);
            buf_add_char(out, '\n');
        } else if (copy->there) {
            buf_addf(out, "  %" PRIu64 " bytes of ", copy->size);
            text_time_ns(copy->mtime_ns, out);
            buf_add_text(out, copy->newest ? ", the newest\n" : "\n");
        } else {
            buf_add_text(out, "  missing\n");
        }
    }
}

static int tell_difference(void *context, const struct difference *difference)
{
    struct verification *verification = context;
    struct err *err = &verification->ctl->err;

    progress_end(&verification->progress);
    buf_clear(&verification->out);
    if (verification->ctl->json)
        add_json(verification, difference);
    else
        add_text(verification, difference);
    verification->told = true;
    return buf_error(&verification->out) ? err_set(err, ENOMEM, "no memory")
                                         : output_write(buf_span(&verification->out), err);
}

/* ---- tables ---- */

static void show_progress(void *context, const struct verify_counts *counts, uint64_t total)
{
    struct verification *verification = context;

    progress_show(&verification->progress, counts->files, counts->files, total);
}

static int verify_table(struct verification *verification, const char *name)
{
    struct ctl *ctl = verification->ctl;
    const struct verify_options options = {arguments_option(ctl->arguments, "--repair", 0) != NULL,
                                           show_progress, verification};
    cleanup(subject_release) struct subject subject = {NULL, NULL};
    struct verify_counts counts;
    int r = source_table(ctl->source, span_text(name), &subject.backend, &subject.table, &ctl->err);

    if (r < 0)
        return r;
    verification->table = subject.table;
    progress_begin(&verification->progress, "compared");
    r = backend_verify(subject.backend, subject.table, &options, tell_difference, &counts,
                       &ctl->err);
    progress_end(&verification->progress);
    verification->tables++;
    verification->files += counts.files;
    verification->differ += counts.differ;
    verification->repaired += counts.repaired;
    if (counts.compared > verification->compared)
        verification->compared = counts.compared;
    if (counts.out > verification->out_of_use)
        verification->out_of_use = counts.out;
    return r;
}

static int note_table(void *context, const struct table *table)
{
    struct buf *names = context;

    buf_add(names, table->name, strlen(table->name) + 1);
    return buf_error(names);
}

static bool is_of_folders(struct ctl *ctl, const char *name)
{
    cleanup(subject_release) struct subject subject = {NULL, NULL};

    return source_table(ctl->source, span_text(name), &subject.backend, &subject.table, NULL) ==
               0 &&
           backend_can(subject.backend, BACKEND_FILES);
}

/* All tables that are folders; that there are folders at all is known. */
static int verify_all(struct verification *verification)
{
    struct ctl *ctl = verification->ctl;
    cleanup(buf_release) struct buf names;
    bool folders = false;

    buf_init(&names, SIZE_MAX / 2);
    for (size_t i = 0; i < ctl->source->count; i++)
        folders |= backend_can(ctl->source->backends[i], BACKEND_FILES);
    if (!folders)
        return ctl_fail(ctl, STATUS_FAILED, "%s has no replicas: they are folders of files",
                        ctl->source_name);
    int r = source_tables(ctl->source, note_table, &names, &ctl->err);
    for (size_t at = 0; r == 0 && at < names.len; at += strlen(names.data + at) + 1)
        if (is_of_folders(ctl, names.data + at))
            r = verify_table(verification, names.data + at);
    return r;
}

/* ---- the command ---- */

static int print_end(struct verification *verification)
{
    struct buf *out = &verification->out;
    struct err *err = &verification->ctl->err;

    buf_clear(out);
    if (verification->ctl->json)
        buf_addf(out,
                 "%s], \"Files\": %" PRIu64 ", \"Differ\": %" PRIu64 ", \"Repaired\": %" PRIu64
                 ", \"Replicas\": %zu, \"OutOfUse\": %zu}\n",
                 verification->told ? "\n" : "{\"Differences\": [", verification->files,
                 verification->differ, verification->repaired, verification->compared,
                 verification->out_of_use);
    else
        buf_addf(out,
                 "%" PRIu64 " files in %zu replicas: %" PRIu64 " differ, %" PRIu64 " repaired\n",
                 verification->files, verification->compared, verification->differ,
                 verification->repaired);
    return buf_error(out) ? err_set(err, ENOMEM, "no memory") : output_write(buf_span(out), err);
}

static int judge(struct verification *verification)
{
    struct ctl *ctl = verification->ctl;

    if (verification->out_of_use)
        return ctl_fail(ctl, STATUS_FAILED, "%zu replicas are out of use, and were not compared",
                        verification->out_of_use);
    if (verification->differ > verification->repaired)
        return ctl_fail(ctl, STATUS_FAILED, "%" PRIu64 " files differ",
                        verification->differ - verification->repaired);
    return 0;
}

static int run_verify(struct ctl *ctl)
{
    struct verification verification = {.ctl = ctl};

    buf_init(&verification.out, LINE_BYTES_MAX);
    int r = ctl->arguments->rest_count ? verify_table(&verification, ctl->arguments->rest[0])
                                       : verify_all(&verification);
    if (r == 0)
        r = print_end(&verification);
    if (r == 0)
        r = judge(&verification);
    buf_release(&verification.out);
    return r;
}

static const struct option_spec verify_options[] = {{"--repair", 0, true}, {NULL, 0, false}};

const struct command command_verify = {
    .name = "verify",
    .usage = "[--repair] [TABLE]",
    .summary = "Compare the replicas of folders, and make them alike",
    .options = verify_options,
    .most = 1,
    .run = run_verify,
};
