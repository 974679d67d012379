/* SPDX-License-Identifier: MIT */
/* Capacity that a service's tables have consumed through this mount. What the service does not tell
 * is left out: it is not known, which is not none. */
#include "fs/mount.h"

#include <inttypes.h>

#include "base/json.h"

/* --- status.json --- */

struct usage_list {
    struct buf *out;
    size_t count;
};

static int add_usage(void *context, const struct usage *usage)
{
    struct usage_list *list = context;
    struct buf *out = list->out;

    buf_add_text(out, list->count++ ? ",\n" : ",\n     \"consumed\": [\n");
    buf_add_text(out, "      {\"table\": ");
    json_add_string(out, span_text(usage->table));
    buf_addf(out, ", \"operation\": \"%s\", \"requests\": %" PRIu64, usage->operation,
             usage->requests);
    if (usage->tells_reads)
        buf_addf(out, ", \"read_units\": %.15g", usage->read_units);
    if (usage->tells_writes)
        buf_addf(out, ", \"write_units\": %.15g", usage->write_units);
    if (usage->limited)
        buf_addf(out, ", \"waiting\": %u, \"waited_seconds\": %.6f", usage->waiting,
                 (double)usage->waited_ns / 1e9);
    buf_add_char(out, '}');
    return 0;
}

void usage_json(struct backend *backend, struct buf *out)
{
    struct usage_list list = {.out = out};

    backend_usage(backend, add_usage, &list);
    if (list.count)
        buf_add_text(out, "\n     ]");
}

/* --- metrics --- */

struct family {
    const char *name, *type, *help;
    bool (*known)(const struct usage *usage); /* NULL: always */
    void (*add)(const struct usage *usage, struct buf *out);
};

static bool tells_reads(const struct usage *usage)
{
    return usage->tells_reads;
}

static bool tells_writes(const struct usage *usage)
{
    return usage->tells_writes;
}

static bool is_limited(const struct usage *usage)
{
    return usage->limited;
}

static void add_requests(const struct usage *usage, struct buf *out)
{
    buf_addf(out, "%" PRIu64, usage->requests);
}

static void add_reads(const struct usage *usage, struct buf *out)
{
    buf_addf(out, "%.15g", usage->read_units);
}

static void add_writes(const struct usage *usage, struct buf *out)
{
    buf_addf(out, "%.15g", usage->write_units);
}

static void add_waiting(const struct usage *usage, struct buf *out)
{
    buf_addf(out, "%u", usage->waiting);
}

static void add_waited(const struct usage *usage, struct buf *out)
{
    buf_addf(out, "%.6f", (double)usage->waited_ns / 1e9);
}

static const struct family families[] = {
    {"item_requests_total", "counter", "Requests to a service for items.", NULL, add_requests},
    {"consumed_read_units_total", "counter", "Read units consumed, as the service tells.",
     tells_reads, add_reads},
    {"consumed_write_units_total", "counter", "Write units consumed, as the service tells.",
     tells_writes, add_writes},
    {"budget_waiting", "gauge", "Requests that wait for a budget of units.", is_limited,
     add_waiting},
    {"budget_wait_seconds_total", "counter", "Time that requests have waited for a budget.",
     is_limited, add_waited},
};

struct sample {
    const struct family *family;
    const char *backend;
    struct buf *out;
};

void metric_label(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"' || *text == '\n')
            buf_add_char(out, '\\');
        buf_add_char(out, *text == '\n' ? 'n' : *text);
    }
}

static int add_sample(void *context, const struct usage *usage)
{
    const struct sample *sample = context;
    struct buf *out = sample->out;

    if (sample->family->known && !sample->family->known(usage))
        return 0;
    buf_addf(out, "itemfs_%s{backend=\"%s\",table=\"", sample->family->name, sample->backend);
    metric_label(out, usage->table);
    buf_addf(out, "\",operation=\"%s\"} ", usage->operation);
    sample->family->add(usage, out);
    buf_add_char(out, '\n');
    return 0;
}

void usage_metrics(struct mount *mount, struct buf *out)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct family *family = &families[i];
        buf_addf(out, "# HELP itemfs_%s %s\n# TYPE itemfs_%s %s\n", family->name, family->help,
                 family->name, family->type);
        for (size_t place = 0; place < mount->stored->count; place++) {
            struct sample sample = {family, mount->config->backends[place].name, out};
            backend_usage(mount->stored->backends[place], add_sample, &sample);
        }
    }
}
