/* SPDX-License-Identifier: MIT */
/* changes TABLE: the records of a table's stream that are still kept, oldest first, one JSON
 * document a line, as change_to_json makes them. */
#include <errno.h>
#include <string.h>

#include "backend/stream.h"
#include "base/cleanup.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define PAGE_RECORDS 256
#define LINE_MAX_BYTES UINT32_MAX

struct reader {
    struct ctl *ctl;
    const struct table *table;
    const char *from; /* id of the record to go on behind; NULL: all from here on */
    struct buf line;
};

static int write_record(void *context, const struct change *change)
{
    struct reader *reader = context;

    if (reader->from) {
        if (strcmp(reader->from, change->id) == 0)
            reader->from = NULL;
        return 0;
    }
    buf_clear(&reader->line);
    change_to_json(reader->table, change, &reader->line);
    buf_add_char(&reader->line, '\n');
    int r = buf_error(&reader->line);
    return r ? r : output_write(buf_span(&reader->line), &reader->ctl->err);
}

static int read_stream(struct reader *reader, struct stream *stream)
{
    struct err *err = &reader->ctl->err;
    int r = 1;

    while (r > 0)
        r = backend_stream_next(stream, PAGE_RECORDS, write_record, reader, err);
    if (r == 0 && reader->from)
        return ctl_fail(
            reader->ctl, STATUS_ABSENT,
            "the stream of %s has no change %s: it never had, or it is older than what is kept",
            reader->table->name, reader->from);
    return r;
}

static const struct option_spec changes_options[] = {{"--from", 1, false}, {NULL, 0, false}};

static int run_changes(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    struct stream *stream = NULL;
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    if (!subject.table->stream)
        return ctl_fail(ctl, STATUS_FAILED, "the stream of table %s is off", subject.table->name);
    struct reader reader = {
        .ctl = ctl, .table = subject.table, .from = arguments_value(ctl->arguments, "--from")};
    buf_init(&reader.line, LINE_MAX_BYTES);
    r = backend_stream_open(subject.backend, subject.table, STREAM_OLDEST, &stream, &ctl->err);
    if (r == 0)
        r = read_stream(&reader, stream);
    backend_stream_close(stream);
    buf_release(&reader.line);
    return r;
}

const struct command command_changes = {
    .name = "changes",
    .usage = "TABLE [--from ID]",
    .summary = "Print the change records kept, all or those behind the change ID",
    .options = changes_options,
    .least = 1,
    .most = 1,
    .run = run_changes,
};
