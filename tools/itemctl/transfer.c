/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/output.h"

int transfer_add_table(const struct subject *subject, uint64_t sequence, struct buf *identity,
                       struct err *err)
{
    char id[33] = "";
    int r = 0;

    if (backend_can(subject->backend, BACKEND_LOG))
        r = backend_change_id(subject->backend, sequence, 0, id);
    if (r < 0)
        return err_set(err, -r, "the store does not tell which one it is");
    buf_addf(identity, "%s %" PRIu64 "\n", id, subject->table->id);
    return buf_error(identity);
}

const struct backend_config *transfer_config(const struct ctl *ctl, const struct backend *backend)
{
    size_t place = 0;

    while (place + 1 < ctl->source->count && ctl->source->backends[place] != backend)
        place++;
    return &ctl->config->backends[place];
}

int transfer_segments(struct ctl *ctl, unsigned *ret_segments)
{
    const char *text = arguments_value(ctl->arguments, "--segments");
    int64_t segments = 0;

    if (text && (!number_is_json(span_text(text)) || !number_to_int64(span_text(text), &segments) ||
                 segments < 1 || segments > CONFIG_SEGMENTS_MOST))
        return ctl_usage(ctl, "--segments is a number from 1 to %d, not \"%s\"",
                         CONFIG_SEGMENTS_MOST, text);
    *ret_segments = (unsigned)segments;
    return 0;
}

int transfer_status(int code)
{
    return code == -EBUSY ? STATUS_FAILED : code;
}

int transfer_report(struct ctl *ctl, const char *table, uint64_t items, const char *verb)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 4096);
    if (ctl->json) {
        buf_add_text(&text, "{\"TableName\": ");
        json_add_string(&text, span_text(table));
        buf_addf(&text, ", \"ItemCount\": %" PRIu64 "}\n", items);
    } else {
        buf_addf(&text, "%" PRIu64 " item%s %s\n", items, items == 1 ? "" : "s", verb);
    }
    return buf_error(&text) ? buf_error(&text) : output_write(buf_span(&text), &ctl->err);
}

void transfer_note(const char *format, ...)
{
    struct err text = {""};
    char *line = NULL;
    va_list values;

    va_start(values, format);
    if (vasprintf(&line, format, values) < 0)
        line = NULL;
    va_end(values);
    if (line)
        err_set(&text, 1, "%s", line); /* for what it does to bytes a terminal could act on */
    fprintf(stderr, "itemctl: %s\n", text.text);
    free(line);
}
