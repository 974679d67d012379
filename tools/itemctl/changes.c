/* SPDX-License-Identifier: MIT */
/*
 * changes TABLE: the records of a table's stream that are still kept, oldest first, one JSON
 * document a line:
 *
 *   {"change_type":"MODIFY","keys":{..},"old_item":{..},"new_item":{..},"change_id":"..",
 *    "time":"2024-01-05T10:00:00.123456789Z"}
 *
 * with typed items; an item that was or is not there is absent from the record, and "expired":true
 * stands in the REMOVE that a time to live made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define PAGE_ENTRIES 256
#define PAGE_BYTES (4u << 20)
#define PAGE_BYTES_MAX UINT32_MAX

/* An entry of the page; its items stand in the page's text, for a change's id can only be asked for
 * when the backend is done with the page. */
struct line {
    uint64_t sequence;
    size_t end;
    int64_t time_ns;
    enum change_type change;
    bool expired;
};

struct reader {
    struct ctl *ctl;
    const struct subject *subject;
    const char *from; /* id of the record to go on behind; NULL: all from here on */
    uint64_t after;   /* sequence */
    size_t entries;   /* in the page, of all tables */
    struct buf text;
    struct line lines[PAGE_ENTRIES];
    size_t count;
};

static const char *change_name(enum change_type change)
{
    switch (change) {
    case CHANGE_INSERT: return "INSERT";
    case CHANGE_MODIFY: return "MODIFY";
    case CHANGE_REMOVE: return "REMOVE";
    case CHANGE_NONE: break;
    }
    return "NONE";
}

static int add_item(struct reader *reader, const char *name, struct key key, struct span body,
                    int64_t ttl)
{
    if (!body.data)
        return 0;
    buf_addf(&reader->text, ",\"%s\":", name);
    return item_to_typed(reader->subject->table, key, body, item_ttl_beside(body, ttl),
                         &reader->text, &reader->ctl->err);
}

static int take_entry(void *context, const struct log_entry *entry)
{
    struct reader *reader = context;
    struct line *line = &reader->lines[reader->count];
    int r;

    reader->after = entry->sequence;
    reader->entries++;
    if (entry->kind != LOG_ITEM || !entry->streamed ||
        entry->table_id != reader->subject->table->id)
        return 0;
    buf_add_text(&reader->text, "\"keys\":");
    key_to_typed(reader->subject->table, entry->key, &reader->text);
    r = add_item(reader, "old_item", entry->key, entry->old_body, entry->old_ttl);
    if (r == 0)
        r = add_item(reader, "new_item", entry->key, entry->new_body, entry->new_ttl);
    if (r == 0)
        r = buf_error(&reader->text);
    if (r < 0)
        return r;
    *line = (struct line){
        .sequence = entry->sequence,
        .end = reader->text.len,
        .time_ns = entry->time_ns,
        .change = entry->change,
        .expired = entry->expired,
    };
    reader->count++;
    return reader->text.len >= PAGE_BYTES;
}

static int write_line(struct reader *reader, const struct line *line, struct span items,
                      const char *id)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, PAGE_BYTES_MAX);
    buf_addf(&text, "{\"change_type\":\"%s\",", change_name(line->change));
    buf_add_span(&text, items);
    buf_addf(&text, ",\"change_id\":\"%s\",\"time\":\"", id);
    output_time_ns(&text, line->time_ns);
    buf_add_text(&text, line->expired ? "\",\"expired\":true}\n" : "\"}\n");
    return buf_error(&text) ? buf_error(&text) : output_write(buf_span(&text), &reader->ctl->err);
}

static int write_page(struct reader *reader)
{
    size_t begin = 0;

    for (size_t i = 0; i < reader->count; i++) {
        const struct line *line = &reader->lines[i];
        struct span items = span_of(reader->text.data + begin, line->end - begin);
        char id[33];
        int r = backend_change_id(reader->subject->backend, line->sequence, id);

        begin = line->end;
        if (r < 0)
            return r;
        if (!reader->from)
            r = write_line(reader, line, items, id);
        else if (strcmp(reader->from, id) == 0)
            reader->from = NULL;
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_log(struct reader *reader)
{
    int r = 1;

    while (r > 0 || reader->entries == PAGE_ENTRIES) {
        reader->entries = reader->count = 0;
        buf_clear(&reader->text);
        r = backend_log(reader->subject->backend, reader->after, PAGE_ENTRIES, take_entry, reader,
                        &reader->ctl->err);
        if (r < 0)
            return r;
        int written = write_page(reader);
        if (written < 0)
            return written;
    }
    if (reader->from)
        return ctl_fail(
            reader->ctl, STATUS_ABSENT,
            "the stream of %s has no change %s: it never had, or it is older than what is kept",
            reader->subject->table->name, reader->from);
    return 0;
}

static const struct option_spec changes_options[] = {{"--from", 1, false}, {NULL, 0, false}};

static int run_changes(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    struct reader *reader;
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    if (!subject.table->stream)
        return ctl_fail(ctl, STATUS_FAILED, "the stream of table %s is off", subject.table->name);
    reader = calloc(1, sizeof *reader);
    if (!reader)
        return -ENOMEM;
    reader->ctl = ctl;
    reader->subject = &subject;
    reader->from = arguments_value(ctl->arguments, "--from");
    buf_init(&reader->text, PAGE_BYTES_MAX);
    r = read_log(reader);
    buf_release(&reader->text);
    free(reader);
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
