/* SPDX-License-Identifier: MIT */
/* What doctor says of a table: its keys, what applications it looks like, expiry, stream, rights.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/stream.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/item.h"
#include "base/number.h"
#include "base/text.h"
#include "tools/itemctl/delivery.h"
#include "tools/itemctl/doctor.h"

#define SAMPLE_ITEMS 100
#define EPOCH_FIRST INT64_C(1000000000) /* what lies between may be a time, in seconds */
#define EPOCH_LAST INT64_C(100000000000)

/* Names that applications give to the time at which an item expires, the likeliest first. */
static const char *const expiry_names[] = {"-ttl",       "__STARCH_EXPIRATION__",
                                           "ttl",        "TTL",
                                           "expires",    "expiresAt",
                                           "expires_at", "expiration",
                                           "expire_at"};
#define EXPIRY_NAMES (sizeof expiry_names / sizeof expiry_names[0])

struct sample {
    const struct table *table;
    size_t count;
    size_t joined;               /* keys of several tags, [a-z0-9-] joined by _ */
    size_t sorted;               /* of them, those whose tags are in their order */
    size_t states;               /* items with what Akka's durable state has */
    size_t expiry[EXPIRY_NAMES]; /* items that have such an attribute, which may be a time */
    int code;                    /* of reading them */
    struct err err;
};

struct table_look {
    struct doctor *doctor;
    struct backend *backend;
    const struct table *table;
    const struct table *configured;      /* with what mount.conf says of it */
    const struct table_config *settings; /* of mount.conf; NULL: none */
    char about[TABLE_NAME_MAX + 8];
    struct sample sample;
};

/* What mount.conf says the table is: nothing is to be guessed. */
static bool has_profile(const struct table_look *look)
{
    return look->settings && look->settings->profile;
}

/* ---- a few items ---- */

static bool is_joined_tags(struct span key)
{
    bool joined = false, empty = true;

    for (size_t i = 0; i < key.len; i++) {
        char c = key.data[i];
        if (c == '_' && empty)
            return false;
        if (c != '_' && c != '-' && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return false;
        empty = c == '_';
        joined = joined || c == '_';
    }
    return joined && !empty;
}

static void look_at_key(struct sample *sample, struct span key)
{
    cleanup(buf_release) struct buf sorted;

    buf_init(&sorted, KEY_PART_MAX);
    if (!is_joined_tags(key))
        return;
    sample->joined++;
    sample->sorted +=
        key_sort_tags(key, false, &sorted, NULL) == 0 && span_equal(key, buf_span(&sorted));
}

static bool is_time(const struct value *value)
{
    int64_t number;

    return value && value->type == VALUE_N && number_to_int64(value_text(value), &number) &&
           number >= EPOCH_FIRST && number <= EPOCH_LAST;
}

static int look_at_item(void *context, const struct record *record)
{
    struct sample *sample = context;
    const struct table *table = sample->table;
    cleanup(value_release) struct value item = {0};
    int r = item_from_body(table, record->key, record->body,
                           item_ttl_beside(record->body, record->meta.ttl), &item, &sample->err);

    if (r < 0)
        return r;
    sample->count++;
    if (table->partition.type == VALUE_S && !table_sorted(table))
        look_at_key(sample, record->key.partition);
    for (size_t i = 0; i < EXPIRY_NAMES; i++)
        sample->expiry[i] += is_time(value_member(&item, span_text(expiry_names[i])));
    sample->states +=
        value_member(&item, span_text("revision-nr")) && value_member(&item, span_text("payload"));
    return 0;
}

static void take_sample(struct table_look *look)
{
    const struct walk walk = {.limit = SAMPLE_ITEMS, .bodies = true};

    look->sample.table = look->table;
    look->sample.code = backend_walk(look->backend, look->table, &walk, look_at_item, &look->sample,
                                     &look->sample.err);
    if (look->sample.code == -EACCES)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "A right is missing: its items cannot be read: %s.",
                   err_text(&look->sample.err, look->sample.code));
    else if (look->sample.code < 0)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about, "Its items cannot be read: %s.",
                   err_text(&look->sample.err, look->sample.code));
}

/* ---- what it is ---- */

static void add_attribute(struct buf *out, const char *before,
                          const struct key_attribute *attribute)
{
    if (attribute->name)
        buf_addf(out, "%s\"%s\" (%s)", before, attribute->name, value_type_name(attribute->type));
}

/* As the configuration has it, which is made when it is used next. */
static void describe(struct table_look *look)
{
    const struct table *table = look->configured;
    cleanup(buf_release) struct buf text;

    buf_init(&text, 1u << 20);
    add_attribute(&text, "Key ", &table->partition);
    add_attribute(&text, ", sorted by ", &table->sort);
    buf_addf(&text, ", %s; ", table->keys == KEYS_TAGS ? "of tags" : "plain");
    if (table->index_count)
        buf_addf(&text, "%zu index%s; ", table->index_count, table->index_count == 1 ? "" : "es");
    if (table->ttl_attribute)
        buf_addf(&text, "items expire by \"%s\"; ", table->ttl_attribute);
    else
        buf_add_text(&text, table->ttl_unknown ? "the service does not tell whether items expire; "
                                               : "items do not expire; ");
    buf_addf(&text, "the stream is %s.", table->stream ? "on" : "off");
    if (has_profile(look))
        buf_addf(&text, " Its profile is %s.", look->settings->profile);
    if (look->sample.code == 0 && look->sample.count == 0)
        buf_add_text(&text, " It has no items.");
    if (buf_error(&text))
        look->doctor->no_memory = true;
    else
        doctor_say(look->doctor, DOCTOR_FINE, look->about, "%s", text.data);
}

static bool has_key(const struct key_attribute *attribute, const char *name, enum value_type type)
{
    return attribute->name && strcmp(attribute->name, name) == 0 && attribute->type == type;
}

static bool has_index(const struct table *table, const char *name)
{
    const struct index *index = table_index(table, span_text(name));

    return index && has_key(&index->partition, "persistence-id", VALUE_S) &&
           has_key(&index->sort, "sequence-nr", VALUE_N);
}

/* The profile that the table has the shape of, and by what it was known; or NULL. */
static const char *fitting_profile(const struct table_look *look, const char **ret_sign)
{
    const struct table *table = look->table;
    bool akka =
        has_key(&table->partition, "pkey", VALUE_S) && has_key(&table->sort, "skey", VALUE_S);

    if (has_key(&table->partition, "__STARCH_KEY__", VALUE_S) && !table_sorted(table)) {
        *ret_sign = "its key is __STARCH_KEY__: session state of Starch";
        return "starch";
    }
    if (has_index(table, "GetSnapshotRowsIndex")) {
        *ret_sign = "it has GetSnapshotRowsIndex: snapshots of Akka persistence";
        return "akka-snapshot";
    }
    if (has_index(table, "GetJournalRowsIndex")) {
        *ret_sign = "it has GetJournalRowsIndex: a journal of Akka persistence";
        return "akka-journal";
    }
    if (akka && look->sample.count && look->sample.states == look->sample.count) {
        *ret_sign = "its items have revision-nr and payload: durable state of Akka persistence";
        return "akka-state";
    }
    return NULL;
}

static void propose_profile(struct table_look *look)
{
    const char *sign, *profile = fitting_profile(look, &sign);
    char line[64];

    if (!profile || has_profile(look))
        return;
    snprintf(line, sizeof line, "profile = %s", profile);
    doctor_say(look->doctor, DOCTOR_NOTE, look->about, "The profile %s fits.", profile);
    doctor_propose(look->doctor, "table", look->table->name, line, sign);
}

/* Keys that are lists of tags, in a table that does not know it. */
static void propose_tags(struct table_look *look)
{
    const struct sample *sample = &look->sample;

    if (look->table->keys == KEYS_TAGS || has_profile(look) ||
        (look->settings && look->settings->has_keys) || sample->joined == 0 ||
        sample->sorted < sample->joined || sample->joined * 2 < sample->count)
        return;
    doctor_say(look->doctor, DOCTOR_NOTE, look->about,
               "Its keys look like lists of tags: %zu of %zu that were looked at are several words "
               "joined by _, all in their order.",
               sample->joined, sample->count);
    doctor_propose(look->doctor, "table", look->table->name, "keys = tags",
                   "then any order of the same tags names the same item");
}

/* An attribute that looks like the time of expiry, in a table whose items do not expire. */
static void propose_ttl(struct table_look *look)
{
    const struct sample *sample = &look->sample;
    char line[64];

    if (look->table->ttl_attribute || has_profile(look) ||
        (look->settings && look->settings->has_ttl))
        return;
    for (size_t i = 0; i < EXPIRY_NAMES; i++) {
        if (!sample->expiry[i])
            continue;
        doctor_say(look->doctor, DOCTOR_NOTE, look->about,
                   "%zu of %zu items that were looked at have \"%s\", a number that may be a time, "
                   "and it is not the table's time to live.",
                   sample->expiry[i], sample->count, expiry_names[i]);
        snprintf(line, sizeof line, "ttl = %s", expiry_names[i]);
        doctor_propose(look->doctor, "table", look->table->name, line,
                       "if they are to expire by it: those whose time has passed are gone then");
        return;
    }
}

/* ---- streams and functions ---- */

static void read_stream(struct table_look *look)
{
    struct stream *stream;
    struct err reason = {""};
    int r = backend_stream_open(look->backend, look->table, STREAM_NOW, &stream, &reason);

    if (r == 0)
        backend_stream_close(stream);
    else if (r != -EOPNOTSUPP)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about, "%sits stream cannot be read: %s.",
                   r == -EACCES ? "A right is missing: " : "The stream is on, but ",
                   err_text(&reason, r));
}

static void look_at_stream(struct table_look *look)
{
    bool told = look->settings && look->settings->has_stream;

    if (look->table->stream) {
        read_stream(look);
        return;
    }
    if (told || look->configured->stream || backend_can(look->backend, BACKEND_LOG))
        return;
    doctor_say(look->doctor, DOCTOR_NOTE, look->about,
               "Its stream is off: what others change is seen after cache_ttl seconds only, and "
               "there are no records of changes.");
    doctor_propose(look->doctor, "table", look->table->name, "stream = on",
                   "if a mount is to see changes at once; the service charges for it");
}

static void look_at_delivery(struct table_look *look)
{
    struct delivery delivery;
    struct err reason = {""};
    int r = delivery_look(look->backend, look->table, look->settings, &delivery, &reason);

    if (r < 0) {
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "How far the delivery has come cannot be read: %s.", err_text(&reason, r));
        return;
    }
    if (delivery.counted && delivery.lag.records && delivery.lease.holder.len == 0)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "%" PRIu64
                   " change%s for %s, and nobody delivers: a mount of this configuration "
                   "would.",
                   delivery.lag.records, delivery.lag.records == 1 ? " waits" : "s wait",
                   delivery.function);
    delivery_release(&delivery);
}

static void look_at_function(struct table_look *look)
{
    const struct function *function = look->settings ? &look->settings->function : NULL;
    bool on = look->configured->stream;

    if (!function || function->kind == FUNCTION_NONE)
        return;
    if (!on) {
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "It has a function, and its stream is off: nothing is delivered.");
        doctor_propose(look->doctor, "table", look->table->name, "stream = on",
                       "so that changes are recorded, and delivered");
    }
    if (function->kind == FUNCTION_PROGRAM && access(function->arguments[0], X_OK) < 0)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "Its function %s cannot be run by this user: %s.", function->shown,
                   strerror(errno));
    if (on)
        look_at_delivery(look);
}

/* ---- rights ---- */

static void make_part(const struct key_attribute *attribute, struct buf *out)
{
    if (attribute->name && attribute->type == VALUE_N)
        buf_addf(out, "-%lld", (long long)clock_now_ns());
    else if (attribute->name)
        buf_addf(out, "itemctl-doctor-%lld-%d", (long long)clock_now_ns(), (int)getpid());
}

/* An item that is not there is deleted under the condition that it is. */
static void try_writing(struct table_look *look)
{
    cleanup(buf_release) struct buf partition, sort;
    struct err reason = {""};

    buf_init(&partition, 256);
    buf_init(&sort, 256);
    make_part(&look->table->partition, &partition);
    make_part(&look->table->sort, &sort);
    struct action action = {.kind = ACTION_DELETE,
                            .table = look->table,
                            .key = {buf_span(&partition), buf_span(&sort)},
                            .condition.kind = COND_EXISTS};
    int r = buf_error(&partition) || buf_error(&sort)
                ? -ENOMEM
                : backend_write(look->backend, &action, 1, 0, &reason);
    if (r == -EACCES)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "A right is missing: nothing can be written: %s.", err_text(&reason, r));
    else if (r < 0 && r != -ENOENT && r != -EROFS)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about, "Nothing can be written: %s.",
                   err_text(&reason, r));
}

/* ---- settings that the table cannot have ---- */

static int look_for_unsorted(void *context, const struct record *record)
{
    struct table_look *look = context;
    cleanup(buf_release) struct buf sorted;

    buf_init(&sorted, KEY_PART_MAX);
    int r = key_sort_tags(record->key.partition, false, &sorted, NULL);
    if (r < 0 || span_equal(record->key.partition, buf_span(&sorted)))
        return r;
    doctor_say(
        look->doctor, DOCTOR_PROBLEM, look->about,
        "%s says keys = tags, and it cannot have them: the tags of \"%.*s\" are not in their "
        "order. Nothing that uses this configuration works, until that item is renamed to "
        "\"%.*s\", or keys are plain.",
        look->doctor->ctl->source_name, (int)record->key.partition.len, record->key.partition.data,
        (int)sorted.len, sorted.data);
    return 1;
}

/* All keys are read: one is enough to keep a table from having tag keys. */
static void check_tag_keys(struct table_look *look)
{
    const struct scan_range range = {.bodies = false};
    struct scan *scan;
    struct err reason = {""};

    if (look->configured->keys != KEYS_TAGS || look->table->keys == KEYS_TAGS ||
        !backend_can(look->backend, BACKEND_SETTINGS))
        return;
    int r = backend_scan_open(look->backend, look->table, &range, &scan, &reason);
    if (r < 0)
        return;
    while (r == 0 && !scan->ended)
        r = backend_scan_next(scan, SAMPLE_ITEMS, look_for_unsorted, look, &reason);
    backend_scan_close(scan);
}

static void check_settings(struct table_look *look)
{
    struct err reason = {""};

    if (table_check(look->configured, &reason) < 0)
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "%s says of it what it cannot have: %s. Nothing that uses this configuration "
                   "works.",
                   look->doctor->ctl->source_name, reason.text);
    else
        check_tag_keys(look);
}

/* ---- all of it ---- */

static void compare_declaration(struct table_look *look)
{
    struct table *declared = table_copy(look->table);

    if (!declared || config_shape(look->doctor->config, declared) < 0)
        look->doctor->no_memory = true;
    else if (!table_shape_equal(declared, look->table))
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->about,
                   "Its keys or indexes are not those that %s declares: itemctl deploy --dry-run "
                   "shows the differences.",
                   look->doctor->ctl->source_name);
    table_free(declared);
}

void doctor_look_at_table(struct doctor *doctor, struct backend *backend, const struct table *table)
{
    struct table *configured = table_copy(table);
    struct table_look look = {.doctor = doctor,
                              .backend = backend,
                              .table = table,
                              .configured = configured,
                              .settings = config_table(doctor->config, span_text(table->name))};

    if (!configured) {
        doctor->no_memory = true;
        return;
    }
    config_apply(doctor->config, configured);
    snprintf(look.about, sizeof look.about, "table %s", table->name);
    take_sample(&look);
    describe(&look);
    check_settings(&look);
    propose_profile(&look);
    propose_tags(&look);
    propose_ttl(&look);
    look_at_stream(&look);
    look_at_function(&look);
    try_writing(&look);
    compare_declaration(&look);
    table_free(configured);
}

void doctor_look_at_sections(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->config->table_count; i++) {
        const struct table_config *settings = &doctor->config->tables[i];
        struct backend *backend;
        struct table *table;
        char about[TABLE_NAME_MAX + 8];
        int r =
            source_table(doctor->ctl->source, span_text(settings->name), &backend, &table, NULL);
        snprintf(about, sizeof about, "table %s", settings->name);
        if (r == 0)
            table_free(table);
        else if (r == -ENOENT && settings->key.name)
            doctor_say(doctor, DOCTOR_PROBLEM, about,
                       "%s declares it, and it is not there: itemctl deploy makes it.",
                       doctor->ctl->source_name);
        else if (r == -ENOENT)
            doctor_say(doctor, DOCTOR_NOTE, about, "%s has a section for it, and it is not there.",
                       doctor->ctl->source_name);
    }
}
