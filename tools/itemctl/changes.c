/* SPDX-License-Identifier: MIT */
/*
 * changes TABLE: the records of a table's stream, oldest first, one JSON document a line, as
 * change_to_json makes them: those that are still kept, and with --follow those that come.
 *
 * Who follows ends when a signal says so, as that signal ends a program; when the reader of what it
 * prints goes away, quietly; or when the table is dropped. A failure ends it too: it can be started
 * again behind the last record that it has printed.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/stream.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define PAGE_RECORDS 256
#define LINE_MAX_BYTES UINT32_MAX
#define TABLE_EVERY_NS NS_PER_S /* how often a store is asked whether the table is there */
#define TABLE_EVERY_SERVICE_NS (10 * NS_PER_S)

struct reader {
    struct ctl *ctl;
    const struct subject *subject;
    struct stream *stream;
    const char *from; /* id of the record to go on behind; NULL: all from here on */
    bool started;     /* a first part of the stream was read */
    bool gap;         /* in what was read since */
    struct buf line, visible;
    int64_t asked_ns; /* steady clock: for the table */
};

/* --- Signals --- */

static const int ending_signals[] = {SIGHUP, SIGINT, SIGTERM};
#define ENDING_COUNT (sizeof ending_signals / sizeof ending_signals[0])
static volatile sig_atomic_t ended_by;
static atomic_bool ended; /* also calls to a service are given up */

static void on_end(int number)
{
    ended_by = number;
    atomic_store(&ended, true);
}

/* The first one ends what is going on, between two records; the second one ends it at once. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};

    for (size_t i = 0; i < ENDING_COUNT; i++) {
        struct sigaction now;
        if (sigaction(ending_signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(ending_signals[i], &action, NULL);
    }
    cancel_set(&ended);
}

/* --- Records --- */

static const char *name_of(const struct reader *reader)
{
    return reader->subject->table->name;
}

/* At first the oldest record may just have become too old: that is no gap. */
static void tell_gap(struct reader *reader)
{
    if (reader->stream->lost && reader->started) {
        reader->gap = true;
        fprintf(stderr, "itemctl: changes of table %s were gone before they could be read\n",
                name_of(reader));
    }
    reader->stream->lost = false;
}

static int write_record(void *context, const struct change *change)
{
    struct reader *reader = context;
    struct buf *line = &reader->line;

    tell_gap(reader);
    if (atomic_load(&ended))
        return -EINTR;
    if (reader->from) {
        if (strcmp(reader->from, change->id) == 0)
            reader->from = NULL;
        return 0;
    }
    buf_clear(line);
    change_to_json(reader->subject->table, change, line);
    if (!reader->ctl->json) { /* JSON has escapes for some of what a terminal acts on */
        buf_clear(&reader->visible);
        text_visible(buf_span(line), &reader->visible);
        line = &reader->visible;
    }
    buf_add_char(line, '\n');
    int r = buf_error(&reader->line) ? buf_error(&reader->line) : buf_error(line);
    return r ? r : output_write(buf_span(line), &reader->ctl->err);
}

/* Up to where there is no more for now. */
static int read_to_end(struct reader *reader)
{
    int r = 1;

    while (r > 0) {
        r = backend_stream_next(reader->stream, PAGE_RECORDS, write_record, reader,
                                &reader->ctl->err);
        tell_gap(reader);
        reader->started = true;
    }
    if (r == 0 && reader->from)
        return ctl_fail(
            reader->ctl, STATUS_ABSENT,
            "the stream of %s has no change %s: it never had, or it is older than what is kept",
            name_of(reader), reader->from);
    return r;
}

static int read_kept(struct reader *reader)
{
    int r = read_to_end(reader);

    return r == 0 && reader->gap
               ? ctl_fail(reader->ctl, STATUS_FAILED, "what was printed is not complete")
               : r;
}

/* --- Following --- */

static bool is_dropped(struct reader *reader)
{
    const struct subject *subject = reader->subject;
    int64_t now_ns = clock_steady_ns();
    bool told = backend_can(subject->backend, BACKEND_LOG);
    struct table *found = NULL;

    if (now_ns - reader->asked_ns < (told ? TABLE_EVERY_NS : TABLE_EVERY_SERVICE_NS))
        return false;
    reader->asked_ns = now_ns;
    int r = backend_describe(subject->backend, span_text(subject->table->name), &found, NULL);
    bool dropped = r == -ENOENT || (r == 0 && found->id != subject->table->id);
    table_free(found);
    return dropped;
}

/* Until there may be more, a signal comes, or nobody reads what is printed. */
static int wait_for_more(const struct stream *stream, struct err *err)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    struct timespec pause = {stream->pause_ns / NS_PER_S, stream->pause_ns % NS_PER_S};
    sigset_t ending, before;
    int r = output_finish(err);

    if (r)
        return r;
    sigemptyset(&ending);
    for (size_t i = 0; i < ENDING_COUNT; i++)
        sigaddset(&ending, ending_signals[i]);
    sigprocmask(SIG_BLOCK, &ending, &before);
    if (!atomic_load(&ended) && ppoll(&out, 1, &pause, &before) > 0)
        output_broken();
    sigprocmask(SIG_SETMASK, &before, NULL);
    return atomic_load(&ended) ? -EINTR : 0;
}

static int follow(struct reader *reader)
{
    for (;;) {
        bool dropped = is_dropped(reader); /* before it is read for the last time */
        int r = read_to_end(reader);

        if (r == -ENOENT || (r == 0 && dropped)) {
            err_clear(&reader->ctl->err);
            return ctl_fail(reader->ctl, STATUS_FAILED, "table %s was dropped", name_of(reader));
        }
        if (r == 0)
            r = wait_for_more(reader->stream, &reader->ctl->err);
        if (r)
            return r;
    }
}

/* What was printed goes out, and the signal takes its way. */
static void end_by_signal(void)
{
    output_discard();
    signal(ended_by, SIG_DFL);
    raise(ended_by);
}

static const struct option_spec changes_options[] = {
    {"--from", 1, false}, {"--follow", 0, false}, {NULL, 0, false}};

static int run_changes(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    bool follows = arguments_option(ctl->arguments, "--follow", 0) != NULL;
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    if (!subject.table->stream && !follows)
        return ctl_fail(
            ctl, STATUS_FAILED,
            "the stream of table %s is off; \"stream = on\" in [table %s] of mount.conf "
            "switches it on",
            subject.table->name, subject.table->name);
    if (!subject.table->stream)
        fprintf(stderr, "itemctl: the stream of table %s is off: waiting until it is on\n",
                subject.table->name);
    struct reader reader = {.ctl = ctl,
                            .subject = &subject,
                            .from = arguments_value(ctl->arguments, "--from"),
                            .asked_ns = clock_steady_ns()};
    buf_init(&reader.line, LINE_MAX_BYTES);
    buf_init(&reader.visible, LINE_MAX_BYTES);
    if (follows)
        catch_signals();
    r = backend_stream_open(subject.backend, subject.table, STREAM_OLDEST, &reader.stream,
                            &ctl->err);
    if (r == 0)
        r = follows ? follow(&reader) : read_kept(&reader);
    backend_stream_close(reader.stream);
    buf_release(&reader.line);
    buf_release(&reader.visible);
    if (r && atomic_load(&ended))
        end_by_signal();
    return r;
}

const struct command command_changes = {
    .name = "changes",
    .usage = "TABLE [--from ID] [--follow]",
    .summary = "Print the change records kept, all or those behind the change ID, and follow them",
    .options = changes_options,
    .least = 1,
    .most = 1,
    .run = run_changes,
};
