/* SPDX-License-Identifier: MIT */
/* What the mount says of itself: status.json for people and scripts, metrics for Prometheus. */
#include "fs/mount.h"

#include <inttypes.h>

#include "base/json.h"

static const char *const op_names[OP_COUNT] = {
    [OP_LOOKUP] = "lookup",   [OP_GETATTR] = "getattr", [OP_SETATTR] = "setattr",
    [OP_READDIR] = "readdir", [OP_OPEN] = "open",       [OP_READ] = "read",
    [OP_WRITE] = "write",     [OP_FLUSH] = "flush",     [OP_FSYNC] = "fsync",
    [OP_CREATE] = "create",   [OP_UNLINK] = "unlink",   [OP_RENAME] = "rename",
    [OP_XATTR] = "xattr",
};

/* A moment of what is counted. */
struct numbers {
    uint64_t inodes, body_bytes, body_budget, held_drafts, waiting_deletes, tables;
};

static struct numbers numbers_now(struct mount *mount)
{
    scoped_lock(&mount->cache->lock);
    struct numbers now = {.inodes = mount->cache->count,
                          .body_bytes = mount->cache->body_bytes,
                          .body_budget = mount->cache->body_budget};
    for (const struct held_draft *held = mount->held; held; held = held->next)
        now.held_drafts++;
    for (const struct grace *grace = mount->graces; grace; grace = grace->next)
        now.waiting_deletes++;
    for (const struct volume *volume = mount->volumes; volume; volume = volume->next)
        now.tables += !volume->dropped;
    return now;
}

struct replica_list {
    struct buf *out;
    size_t count;
};

static int add_replica(void *context, const struct replica_state *state)
{
    struct replica_list *list = context;
    struct buf *out = list->out;
    buf_add_text(out, list->count++ ? ", {\"path\": " : "{\"path\": ");
    json_add_string(out, span_text(state->path));
    buf_addf(out, ", \"in_use\": %s", state->in_use ? "true" : "false");
    if (!state->in_use) {
        buf_add_text(out, ", \"reason\": ");
        json_add_string(out, span_text(state->reason));
        buf_addf(out, ", \"since\": %" PRId64, state->since_ns / NS_PER_S);
    }
    buf_add_char(out, '}');
    return 0;
}

static void add_replicas(struct backend *backend, struct buf *out)
{
    struct replica_list list = {out, 0};
    uint64_t foreign;
    if (!backend_can(backend, BACKEND_FILES))
        return;
    buf_add_text(out, ", \"replicas\": [");
    backend_replicas(backend, add_replica, &list, &foreign);
    buf_addf(out, "], \"foreign_files\": %" PRIu64, foreign);
}

/* What tells a backend from others of its kind: a file, or where a service is. */
static void add_place(const struct backend_config *config, struct buf *out)
{
    const char *name = config->path ? "path" : config->endpoint ? "endpoint" : "region";
    const char *value = config->path       ? config->path
                        : config->endpoint ? config->endpoint
                        : config->region   ? config->region
                                           : "";
    if (config->replicas.count) {
        name = "path";
        value = config->replicas.paths[0];
    }
    buf_addf(out, ", \"%s\": ", name);
    json_add_string(out, span_text(value));
}

static void add_backend(const struct mount *mount, size_t index, struct buf *out)
{
    const struct backend *backend = mount->stored->backends[index];
    const struct backend_config *config = &mount->config->backends[index];
    buf_add_text(out, "    {\"name\": ");
    json_add_string(out, span_text(config->name));
    buf_addf(out, ", \"kind\": \"%s\"", backend->ops->kind);
    add_place(config, out);
    buf_addf(out,
             ", \"reads\": %" PRIu64 ", \"read_errors\": %" PRIu64 ", \"writes\": %" PRIu64
             ", \"write_errors\": %" PRIu64,
             backend->counters.reads, backend->counters.read_errors, backend->counters.writes,
             backend->counters.write_errors);
    usage_json(mount->stored->backends[index], out);
    add_replicas(mount->stored->backends[index], out);
    buf_addf(out, "}%s\n", index + 1 < mount->stored->count ? "," : "");
}

void status_json(struct mount *mount, struct buf *out)
{
    struct numbers now = numbers_now(mount);
    buf_add_text(out, "{\n  \"version\": \"" ITEMFS_VERSION "\",\n  \"mountpoint\": ");
    json_add_string(out, span_text(mount->mountpoint));
    buf_addf(out, ",\n  \"mounted\": %" PRId64 ",\n  \"read_only\": %s,\n",
             mount->mounted_ns / NS_PER_S, mount->config->read_only ? "true" : "false");
    buf_add_text(out, "  \"backends\": [\n");
    for (size_t i = 0; i < mount->stored->count; i++)
        add_backend(mount, i, out);
    buf_add_text(out, "  ],\n");
    streams_json(mount, out);
    buf_addf(out,
             "  \"tables\": %" PRIu64 ",\n"
             "  \"cache\": {\"inodes\": %" PRIu64 ", \"body_bytes\": %" PRIu64
             ", \"body_budget\": %" PRIu64 "},\n",
             now.tables, now.inodes, now.body_bytes, now.body_budget);
    buf_addf(out,
             "  \"saves\": %" PRIu64 ",\n  \"refusals\": %" PRIu64 ",\n  \"conflicts\": %" PRIu64
             ",\n  \"foreign_changes\": %" PRIu64 ",\n  \"held_drafts\": %" PRIu64
             ",\n  \"waiting_deletes\": %" PRIu64,
             mount->saves, mount->refusals, mount->conflicts, mount->foreign_changes,
             now.held_drafts, now.waiting_deletes);
    delivery_json(mount, out);
    kept_json(mount, out);
    buf_add_text(out, "\n}\n");
}

static void metric(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    buf_addf(out, "# HELP itemfs_%s %s\n# TYPE itemfs_%s %s\nitemfs_%s %" PRIu64 "\n", name, help,
             name, type, name, value);
}

/* One counter of all backends, DIVISOR units a shown one. */
static void backend_metric(struct mount *mount, struct buf *out, const char *name, const char *help,
                           size_t offset, double divisor)
{
    buf_addf(out, "# HELP itemfs_backend_%s %s\n# TYPE itemfs_backend_%s counter\n", name, help,
             name);
    for (size_t i = 0; i < mount->stored->count; i++) {
        const char *counters = (const char *)&mount->stored->backends[i]->counters;
        uint64_t value = *(const _Atomic uint64_t *)(const void *)(counters + offset);
        buf_addf(out, "itemfs_backend_%s{backend=\"%s\"} ", name, mount->config->backends[i].name);
        if (divisor == 1)
            buf_addf(out, "%" PRIu64 "\n", value);
        else
            buf_addf(out, "%.6f\n", (double)value / divisor);
    }
}

static int count_out(void *context, const struct replica_state *state)
{
    *(uint64_t *)context += !state->in_use;
    return 0;
}

static void folder_metrics(struct mount *mount, struct buf *out)
{
    uint64_t outs = 0, foreign = 0;
    if (!may_change_behind(mount, NULL))
        return;
    for (size_t i = 0; i < mount->stored->count; i++) {
        uint64_t some;
        backend_replicas(mount->stored->backends[i], count_out, &outs, &some);
        foreign += some;
    }
    metric(out, "replicas_out", "gauge", "Replicas that are out of use.", outs);
    metric(out, "foreign_files", "gauge", "Files in folders that look like items and are none.",
           foreign);
}

void status_metrics(struct mount *mount, struct buf *out)
{
    struct numbers now = numbers_now(mount);
    buf_add_text(out, "# HELP itemfs_operations_total Requests from the kernel.\n"
                      "# TYPE itemfs_operations_total counter\n");
    for (int i = 0; i < OP_COUNT; i++)
        buf_addf(out, "itemfs_operations_total{op=\"%s\"} %" PRIu64 "\n", op_names[i],
                 mount->ops[i]);
    metric(out, "operation_errors_total", "counter", "Requests answered with an error.",
           mount->op_errors);
    metric(out, "saves_total", "counter", "Items saved.", mount->saves);
    metric(out, "refusals_total", "counter", "Saves refused, kept as drafts.", mount->refusals);
    metric(out, "conflicts_total", "counter", "Saves refused for a change made elsewhere.",
           mount->conflicts);
    metric(out, "foreign_changes_total", "counter", "Changes made elsewhere and seen here.",
           mount->foreign_changes);
    metric(out, "prefilled_total", "counter", "Items handed to the kernel ahead of reads.",
           mount->prefilled);
    metric(out, "inodes", "gauge", "Inodes known.", now.inodes);
    metric(out, "body_bytes", "gauge", "Bytes of item bodies in memory.", now.body_bytes);
    metric(out, "held_drafts", "gauge", "Drafts that no backend could take yet.", now.held_drafts);
    backend_metric(mount, out, "reads_total", "Reads of the backend.",
                   offsetof(struct backend_counters, reads), 1);
    backend_metric(mount, out, "read_errors_total", "Reads that failed.",
                   offsetof(struct backend_counters, read_errors), 1);
    backend_metric(mount, out, "writes_total", "Batches written to the backend.",
                   offsetof(struct backend_counters, writes), 1);
    backend_metric(mount, out, "write_errors_total", "Batches that failed.",
                   offsetof(struct backend_counters, write_errors), 1);
    backend_metric(mount, out, "read_seconds_total", "Time spent in reads.",
                   offsetof(struct backend_counters, read_ns), 1e9);
    backend_metric(mount, out, "write_seconds_total", "Time spent in writes.",
                   offsetof(struct backend_counters, write_ns), 1e9);
    folder_metrics(mount, out);
    usage_metrics(mount, out);
    streams_metrics(mount, out);
    delivery_metrics(mount, out);
    kept_metrics(mount, out);
}
