/* SPDX-License-Identifier: MIT */
/* What this mount has deleted as too old or too many. */
#include "fs/mount.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/text.h"
#include "upkeep/upkeep.h"

struct kept_list {
    struct buf *out;
    size_t count;
};

static int add_state(void *context, const struct upkeep_state *state)
{
    struct kept_list *list = context;
    const struct table_config *rule = state->rule;
    struct buf *out = list->out;

    buf_add_text(out,
                 list->count++ ? ",\n    {\"table\": " : ",\n  \"upkeep\": [\n    {\"table\": ");
    json_add_string(out, span_text(rule->name));
    if (rule->keep_seconds)
        buf_addf(out, ", \"keep_seconds\": %" PRIu64, rule->keep_seconds);
    if (rule->keep_max)
        buf_addf(out, ", \"keep_min\": %" PRIu64 ", \"keep_max\": %" PRIu64, rule->keep_min,
                 rule->keep_max);
    buf_addf(out, ", \"looks\": %" PRIu64 ", \"deleted\": %" PRIu64 ", \"changed\": %" PRIu64,
             state->looks, state->deleted, state->changed);
    if (state->look_ns) {
        buf_addf(out, ", \"items\": %" PRIu64 ", \"last_look\": \"", state->items);
        text_time_ns(state->look_ns, out);
        buf_add_char(out, '"');
    }
    if (state->error[0]) {
        buf_add_text(out, ", \"error\": ");
        json_add_string(out, span_text(state->error));
    }
    buf_add_char(out, '}');
    return 0;
}

void kept_json(struct mount *mount, struct buf *out)
{
    struct kept_list list = {.out = out};

    upkeep_each(mount->upkeep, add_state, &list);
    if (list.count)
        buf_add_text(out, "\n  ]");
}

static const struct family {
    const char *name, *type, *help;
    size_t value; /* of struct upkeep_state: a uint64_t; 0: whether there is an error */
} families[] = {
    {"looks_total", "counter", "Looks at tables for items too old or too many.",
     offsetof(struct upkeep_state, looks)},
    {"deleted_items_total", "counter", "Items deleted that were too old or too many.",
     offsetof(struct upkeep_state, deleted)},
    {"changed_items_total", "counter", "Items that were changed before they were deleted.",
     offsetof(struct upkeep_state, changed)},
    {"failing", "gauge", "Whether the last look failed.", 0},
};
#define FAMILIES (sizeof families / sizeof families[0])

struct family_samples {
    const struct family *family;
    struct buf *out;
};

static int add_sample(void *context, const struct upkeep_state *state)
{
    struct family_samples *samples = context;
    size_t value = samples->family->value;
    const char *fields = (const char *)state;

    buf_addf(samples->out, "itemfs_upkeep_%s{table=\"", samples->family->name);
    metric_label(samples->out, state->rule->name);
    buf_addf(samples->out, "\"} %" PRIu64 "\n",
             value ? *(const uint64_t *)(const void *)(fields + value)
                   : (uint64_t)(state->error[0] != '\0'));
    return 0;
}

void kept_metrics(struct mount *mount, struct buf *out)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        struct family_samples samples = {&families[i], out};
        buf_addf(out, "# HELP itemfs_upkeep_%s %s\n# TYPE itemfs_upkeep_%s %s\n", families[i].name,
                 families[i].help, families[i].name, families[i].type);
        upkeep_each(mount->upkeep, add_sample, &samples);
    }
}
