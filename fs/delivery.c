/* SPDX-License-Identifier: MIT */
/* How the delivery of changes to functions stands. What is not known is left out. */
#include "fs/mount.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/text.h"
#include "deliver/deliver.h"

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* --- status.json --- */

struct delivery_list {
    struct buf *out;
    size_t count;
};

static void add_text(struct buf *out, const char *name, const char *text)
{
    if (!*text)
        return;
    buf_addf(out, ", \"%s\": ", name);
    json_add_string(out, span_text(text));
}

static void add_place(struct buf *out, const struct delivery *delivery)
{
    if (delivery->has_position) {
        buf_add_text(out, ", \"position\": ");
        json_add_string(out, buf_span(&delivery->position));
    }
    if (delivery->has_done) {
        buf_add_text(out, ", \"position_time\": \"");
        text_time_ns(delivery->done_ns, out);
        buf_add_char(out, '"');
    }
    if (delivery->has_behind)
        buf_addf(out, ", \"behind\": %" PRIu64, delivery->behind);
    if (delivery->has_lag)
        buf_addf(out, ", \"lag_seconds\": %.3f", seconds(delivery->lag_ns));
}

static void add_last_error(struct buf *out, const struct delivery *delivery)
{
    if (!delivery->error_ns)
        return;
    add_text(out, "last_error", delivery->error);
    buf_add_text(out, ", \"last_error_time\": \"");
    text_time_ns(delivery->error_ns, out);
    buf_add_char(out, '"');
}

static int add_delivery(void *context, const struct delivery *delivery)
{
    struct delivery_list *list = context;
    struct buf *out = list->out;
    const uint64_t *count = delivery->tally.of;

    buf_add_text(out,
                 list->count++ ? ",\n    {\"table\": " : ",\n  \"delivery\": [\n    {\"table\": ");
    json_add_string(out, span_text(delivery->table));
    add_text(out, "function", delivery->function);
    add_text(out, "state", delivery_state_name(delivery->state));
    add_text(out, "reason", delivery->reason);
    add_place(out, delivery);
    buf_addf(out,
             ", \"records\": %" PRIu64 ", \"batches\": %" PRIu64 ", \"retries\": %" PRIu64
             ", \"dropped\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"lost\": %" PRIu64,
             count[TALLY_DELIVERED], delivery->batches, count[TALLY_RETRIED], count[TALLY_DROPPED],
             count[TALLY_SKIPPED], count[TALLY_LOST]);
    add_last_error(out, delivery);
    buf_add_char(out, '}');
    return 0;
}

void delivery_json(struct mount *mount, struct buf *out)
{
    struct delivery_list list = {.out = out};

    deliver_each(mount->deliver, add_delivery, &list);
    if (list.count)
        buf_add_text(out, "\n  ]");
}

/* --- metrics --- */

struct family {
    const char *name, *type, *help;
    size_t value; /* of struct delivery: a uint64_t; 0: `add` writes it */
    void (*add)(const struct delivery *delivery, struct buf *out);
    size_t known; /* a bool; 0: always */
};

static void add_lag(const struct delivery *delivery, struct buf *out)
{
    buf_addf(out, "%.3f", seconds(delivery->lag_ns));
}

static void add_done(const struct delivery *delivery, struct buf *out)
{
    buf_addf(out, "%.3f", seconds(delivery->done_ns));
}

/* Whether it is this daemon that delivers. */
static void add_active(const struct delivery *delivery, struct buf *out)
{
    buf_addf(out, "%d", delivery->state >= DELIVERY_IDLE);
}

static void add_failing(const struct delivery *delivery, struct buf *out)
{
    buf_addf(out, "%d", delivery->state == DELIVERY_WAITING);
}

#define COUNTER(member) .type = "counter", .value = offsetof(struct delivery, member)
#define COUNTED(kind) COUNTER(tally.of[kind])
#define KNOWN(member) .known = offsetof(struct delivery, member)

static const struct family families[] = {
    {"records_total", COUNTED(TALLY_DELIVERED), .help = "Change records delivered."},
    {"batches_total", COUNTER(batches), .help = "Batches delivered."},
    {"retries_total", COUNTED(TALLY_RETRIED), .help = "Calls made again."},
    {"dropped_records_total", COUNTED(TALLY_DROPPED), .help = "Records that the function refused."},
    {"skipped_records_total", COUNTED(TALLY_SKIPPED), .help = "Records not delivered in 24 hours."},
    {"lost_total", COUNTED(TALLY_LOST), .help = "Times that records were gone, an unknown number."},
    {"position_timestamp_seconds", .type = "gauge", .add = add_done, KNOWN(has_done),
     .help = "When the last record was made that was done with."},
    {"behind_records", .type = "gauge", .help = "Records to be delivered.",
     .value = offsetof(struct delivery, behind), KNOWN(has_behind)},
    {"lag_seconds", .type = "gauge", .help = "Age of the oldest record to be delivered.",
     .add = add_lag, KNOWN(has_lag)},
    {"active", .type = "gauge", .help = "Whether this mount is the one that delivers.",
     .add = add_active},
    {"failing", .type = "gauge", .help = "Whether the last call failed.", .add = add_failing},
};

#define FAMILIES (sizeof families / sizeof families[0])

static void add_sample(const struct family *family, const struct delivery *delivery,
                       struct buf *out)
{
    const char *fields = (const char *)delivery;

    if (family->known && !*(const bool *)(fields + family->known))
        return;
    buf_addf(out, "itemfs_delivery_%s{table=\"", family->name);
    metric_label(out, delivery->table);
    buf_add_text(out, "\"} ");
    if (family->add)
        family->add(delivery, out);
    else
        buf_addf(out, "%" PRIu64, *(const uint64_t *)(const void *)(fields + family->value));
    buf_add_char(out, '\n');
}

/* CONTEXT: a buffer for each family. */
static int add_samples(void *context, const struct delivery *delivery)
{
    struct buf *samples = context;

    for (size_t i = 0; i < FAMILIES; i++)
        add_sample(&families[i], delivery, &samples[i]);
    return 0;
}

void delivery_metrics(struct mount *mount, struct buf *out)
{
    struct buf samples[FAMILIES];

    for (size_t i = 0; i < FAMILIES; i++)
        buf_init(&samples[i], out->max);
    deliver_each(mount->deliver, add_samples, samples);
    for (size_t i = 0; i < FAMILIES; i++) {
        buf_addf(out, "# HELP itemfs_delivery_%s %s\n# TYPE itemfs_delivery_%s %s\n",
                 families[i].name, families[i].help, families[i].name, families[i].type);
        buf_add_span(out, buf_span(&samples[i]));
        buf_release(&samples[i]);
    }
}
