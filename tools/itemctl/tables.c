/* SPDX-License-Identifier: MIT */
/* tables, describe, create, drop */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define DOCUMENT_MAX (64u << 20)

/* ---- tables ---- */

struct listing {
    struct buf document;
    struct grid grid;
};

static void add_attribute(struct grid *grid, const struct key_attribute *attribute)
{
    if (attribute->name)
        grid_addf(grid, "%s:%s", attribute->name, value_type_name(attribute->type));
    else
        grid_addf(grid, "-");
}

static int list_table(void *context, const struct table *table)
{
    struct listing *listing = context;
    struct grid *grid = &listing->grid;

    buf_add_text(&listing->document, grid->cells ? ", " : "");
    json_add_string(&listing->document, span_text(table->name));
    grid_add(grid, span_text(table->name));
    add_attribute(grid, &table->partition);
    add_attribute(grid, &table->sort);
    grid_addf(grid, "%s", table->keys == KEYS_TAGS ? "tags" : "plain");
    grid_addf(grid, "%s", table->ttl_attribute ? table->ttl_attribute : "-");
    grid_addf(grid, "%s", table->stream ? "on" : "off");
    grid_addf(grid, "%zu", table->index_count);
    return 0;
}

static int run_tables(struct ctl *ctl)
{
    static const char *const heads[] = {"TABLE", "KEY", "SORT", "KEYS", "TTL", "STREAM", "INDEXES"};
    struct listing listing;
    int r;

    buf_init(&listing.document, DOCUMENT_MAX);
    grid_init(&listing.grid, heads, 7);
    buf_add_text(&listing.document, "{\"TableNames\": [");
    r = source_tables(ctl->source, list_table, &listing, &ctl->err);
    if (r == 0)
        ctl_tell_forbidden(ctl);
    buf_add_text(&listing.document, "]}\n");
    if (r == 0)
        r = buf_error(&listing.document);
    if (r == 0)
        r = ctl->json ? output_write(buf_span(&listing.document), &ctl->err)
                      : grid_print(&listing.grid, &ctl->err);
    buf_release(&listing.document);
    grid_release(&listing.grid);
    return r;
}

const struct command command_tables = {
    .name = "tables",
    .usage = "",
    .summary = "List the tables",
    .run = run_tables,
};

/* ---- describe ---- */

static void describe_index(struct grid *grid, const struct index *index)
{
    grid_addf(grid, "Index");
    if (index->sort.name)
        grid_addf(grid, "%s on %s:%s, sorted by %s:%s", index->name, index->partition.name,
                  value_type_name(index->partition.type), index->sort.name,
                  value_type_name(index->sort.type));
    else
        grid_addf(grid, "%s on %s:%s", index->name, index->partition.name,
                  value_type_name(index->partition.type));
}

static int describe_for_people(const struct table *table, struct err *err)
{
    cleanup(grid_release) struct grid grid;
    cleanup(buf_release) struct buf created;

    grid_init(&grid, NULL, 2);
    buf_init(&created, 128);
    text_time_s(table->created_ns / 1000000000, &created);
    grid_addf(&grid, "Table");
    grid_add(&grid, span_text(table->name));
    grid_addf(&grid, "Partition key");
    add_attribute(&grid, &table->partition);
    grid_addf(&grid, "Sort key");
    add_attribute(&grid, &table->sort);
    grid_addf(&grid, "Keys");
    grid_addf(&grid, "%s", table->keys == KEYS_TAGS ? "tags" : "plain");
    grid_addf(&grid, "Time to live");
    grid_addf(&grid, "%s", table->ttl_attribute ? table->ttl_attribute : "-");
    grid_addf(&grid, "Stream");
    grid_addf(&grid, "%s", table->stream ? "on" : "off");
    if (table->read_units) {
        grid_addf(&grid, "Units a second");
        grid_addf(&grid, "%" PRIu64 " read, %" PRIu64 " written", table->read_units,
                  table->write_units);
    }
    for (size_t i = 0; i < table->index_count; i++)
        describe_index(&grid, &table->indexes[i]);
    grid_addf(&grid, "Created");
    grid_add(&grid, buf_span(&created));
    return grid_print(&grid, err);
}

static int describe_as_json(const struct table *table, struct err *err)
{
    cleanup(buf_release) struct buf document;

    buf_init(&document, DOCUMENT_MAX);
    table_to_json(table, &document);
    return buf_error(&document) ? buf_error(&document) : output_write(buf_span(&document), err);
}

static int run_describe(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    int r = subject_open(ctl, &subject);

    if (r < 0)
        return r;
    return ctl->json ? describe_as_json(subject.table, &ctl->err)
                     : describe_for_people(subject.table, &ctl->err);
}

const struct command command_describe = {
    .name = "describe",
    .usage = "TABLE",
    .summary = "Show a table's keys, indexes and settings",
    .least = 1,
    .most = 1,
    .run = run_describe,
};

/* ---- create ---- */

static const struct option_spec create_options[] = {
    {"--key", 1, false},        {"--sort", 1, false},        {"--index", 1, true},
    {"--ttl", 1, false},        {"--stream", 1, false},      {"--keys", 1, false},
    {"--read-units", 1, false}, {"--write-units", 1, false}, {"--profile", 1, false},
    {NULL, 0, false},
};

static int set_attribute(struct ctl *ctl, const char *option, struct key_attribute *attribute)
{
    const char *text = arguments_value(ctl->arguments, option);
    struct key_attribute parsed;
    struct err reason = {""};

    if (!text)
        return 0;
    if (key_attribute_parse(span_text(text), &parsed, &reason) < 0)
        return ctl_usage(ctl, "%s %s: %s", option, text, reason.text);
    key_attribute_release(attribute);
    *attribute = parsed;
    return 0;
}

static int add_indexes(struct ctl *ctl, struct table *table)
{
    const struct given_option *option;

    for (size_t i = 0; (option = arguments_option(ctl->arguments, "--index", i)); i++) {
        struct index *more = reallocarray(table->indexes, table->index_count + 1, sizeof *more);
        struct err reason = {""};

        if (!more)
            return -ENOMEM;
        table->indexes = more;
        if (index_parse(span_text(option->values[0]), &more[table->index_count], &reason) < 0)
            return ctl_usage(ctl, "--index %s: %s", option->values[0], reason.text);
        table->index_count++;
    }
    return 0;
}

/* Which of the two words an option has: 1 the first, 0 the second, -1 absent; else a status. */
static int choose(struct ctl *ctl, const char *option, const char *yes, const char *no,
                  int *ret_choice)
{
    const char *text = arguments_value(ctl->arguments, option);

    *ret_choice = -1;
    if (!text)
        return 0;
    if (strcmp(text, yes) != 0 && strcmp(text, no) != 0)
        return ctl_usage(ctl, "%s is %s or %s, not \"%s\"", option, yes, no, text);
    *ret_choice = strcmp(text, yes) == 0;
    return 0;
}

static int set_ttl(struct ctl *ctl, struct table *table)
{
    const char *text = arguments_value(ctl->arguments, "--ttl");
    bool none = text && strcmp(text, "none") == 0;
    char *copy = text && !none ? strdup(text) : NULL;

    if (!text)
        return 0;
    if (!none && !copy)
        return -ENOMEM;
    free(table->ttl_attribute);
    table->ttl_attribute = copy;
    return 0;
}

static int read_units(struct ctl *ctl, const char *option, uint64_t *ret_units)
{
    const char *text = arguments_value(ctl->arguments, option);
    int64_t units = 0;

    if (text && (!number_is_json(span_text(text)) || !number_to_int64(span_text(text), &units) ||
                 units <= 0))
        return ctl_usage(ctl, "%s is a number from 1, not \"%s\"", option, text);
    if (text)
        *ret_units = (uint64_t)units;
    return 0;
}

static int set_units(struct ctl *ctl, struct table *table)
{
    int r = read_units(ctl, "--read-units", &table->read_units);

    if (r == 0)
        r = read_units(ctl, "--write-units", &table->write_units);
    if (r == 0 && !table->read_units != !table->write_units)
        r = ctl_usage(ctl, "--read-units and --write-units go together");
    return r;
}

/* Options that say how a table is keyed stand for all of what is declared of that; check_configured
 * compares. */
static int forget_declared(struct ctl *ctl, struct table *table)
{
    static const char *const shaping[] = {"--key", "--sort", "--index"};
    const struct table_config *settings = config_table(ctl->config, span_text(table->name));
    struct table *plain = NULL;
    bool given = false;

    for (size_t i = 0; i < sizeof shaping / sizeof shaping[0]; i++)
        given = given || arguments_option(ctl->arguments, shaping[i], 0);
    if (!given || !settings || !settings->key.name)
        return 0;
    plain = table_new_default(span_text(table->name));
    int r = plain ? table_take_shape(table, plain) : -ENOMEM;
    table_free(plain);
    return r;
}

/* As mkdir makes it, then as the configuration has it, then as the options say. A table that is
 * given a key of its own has plain keys unless told otherwise: its keys are not lists of tags. */
static int shape_table(struct ctl *ctl, struct table *table)
{
    int keys, stream = -1;
    int r = choose(ctl, "--keys", "tags", "plain", &keys);

    if (r == 0)
        r = forget_declared(ctl, table);
    if (arguments_value(ctl->arguments, "--key") || arguments_value(ctl->arguments, "--sort"))
        table->keys = KEYS_PLAIN;
    config_apply(ctl->config, table);
    if (r == 0)
        r = choose(ctl, "--stream", "on", "off", &stream);
    if (r == 0)
        r = set_attribute(ctl, "--key", &table->partition);
    if (r == 0)
        r = set_attribute(ctl, "--sort", &table->sort);
    if (r == 0)
        r = add_indexes(ctl, table);
    if (r == 0)
        r = set_ttl(ctl, table);
    if (r == 0)
        r = set_units(ctl, table);
    if (r)
        return r;
    if (keys >= 0)
        table->keys = keys ? KEYS_TAGS : KEYS_PLAIN;
    if (stream >= 0)
        table->stream = stream;
    return 0;
}

/* The configuration would change the table again as soon as it is used. */
static int check_configured(struct ctl *ctl, const struct table *table)
{
    struct table *configured = table_copy(table);
    bool same;

    if (!configured)
        return -ENOMEM;
    if (config_shape(ctl->config, configured) < 0) {
        table_free(configured);
        return -ENOMEM;
    }
    configured->keys = table->keys;
    config_apply(ctl->config, configured);
    same = table_shape_equal(configured, table) && configured->keys == table->keys &&
           configured->stream == table->stream &&
           text_equal(configured->ttl_attribute, table->ttl_attribute);
    table_free(configured);
    if (!same)
        return ctl_usage(ctl, "%s: [table %s] says otherwise of keys, indexes, ttl or stream",
                         ctl->source_name, table->name);
    return 0;
}

/* A service does not keep that keys are tags: without a word in the configuration nobody would know
 * it the next time. */
static int check_kept(struct ctl *ctl, const struct table *table)
{
    struct table *plain = table_copy(table);

    if (!plain)
        return -ENOMEM;
    plain->keys = KEYS_PLAIN;
    config_apply(ctl->config, plain);
    bool kept =
        table->keys == KEYS_PLAIN || plain->keys == KEYS_TAGS ||
        backend_can(source_backend_for(ctl->source, span_text(table->name)), BACKEND_SETTINGS);
    table_free(plain);
    return kept ? 0
                : ctl_usage(ctl,
                            "a service does not keep that keys are tags: say \"keys = tags\" in "
                            "[table %s] of a mount.conf",
                            table->name);
}

static int check_new(struct ctl *ctl, const struct table *table)
{
    struct subject existing = {0};
    struct err reason = {""};
    int r;

    if (table_check(table, &reason) < 0)
        return ctl_usage(ctl, "%s", reason.text);
    r = source_table(ctl->source, span_text(table->name), &existing.backend, &existing.table,
                     &reason);
    if (r == 0) {
        subject_release(&existing);
        return err_set(&ctl->err, EEXIST, "table %s already exists", table->name);
    }
    return r == -ENOENT ? 0 : err_set(&ctl->err, -r, "%s", err_text(&reason, r));
}

/* What a profile says of a table is not said again. */
static int check_profile_alone(struct ctl *ctl)
{
    static const char *const options[] = {"--key", "--sort", "--keys", "--ttl"};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (arguments_value(ctl->arguments, options[i]))
            return ctl_usage(ctl, "%s is what the table's profile says", options[i]);
    return 0;
}

/* A table of the profile NAME, with the options that the configuration has for it. */
static int new_with_profile(struct ctl *ctl, const char *name, struct table **ret_table)
{
    struct span table = span_text(ctl->arguments->rest[0]);
    const struct profile_choice *configured = source_choice(ctl->source, table);
    struct profile_choice own = {NULL, NULL};
    struct err reason = {""};

    if (configured && strcmp(configured->profile->name, name) != 0)
        return ctl_usage(ctl, "%s: [table %s] has profile = %s", ctl->source_name,
                         ctl->arguments->rest[0], configured->profile->name);
    if (!configured && profile_choose_named(name, &own, &reason) < 0)
        return ctl_usage(ctl, "--%s", reason.text);
    *ret_table = source_new_profile_table(ctl->source, table, configured ? configured : &own);
    if (own.profile)
        profile_choice_release(&own);
    return *ret_table ? 0 : -ENOMEM;
}

static int new_table(struct ctl *ctl, struct table **ret_table)
{
    struct span name = span_text(ctl->arguments->rest[0]);
    const char *profile = arguments_value(ctl->arguments, "--profile");
    int r = profile || source_choice(ctl->source, name) ? check_profile_alone(ctl) : 0;

    if (r)
        return r;
    if (profile)
        return new_with_profile(ctl, profile, ret_table);
    *ret_table = source_new_table(ctl->source, name);
    return *ret_table ? 0 : -ENOMEM;
}

static int run_create(struct ctl *ctl)
{
    struct span name = span_text(ctl->arguments->rest[0]);
    struct err reason = {""};
    struct table *table = NULL;
    int r;

    if (table_check_name(name, &reason) < 0)
        return ctl_usage(ctl, "%s", reason.text);
    r = new_table(ctl, &table);
    if (r)
        return r;
    assert(table);
    r = shape_table(ctl, table);
    if (r == 0)
        r = check_configured(ctl, table);
    if (r == 0)
        r = check_kept(ctl, table);
    if (r == 0)
        r = check_new(ctl, table);
    if (r == 0)
        r = backend_create_table(source_backend_for(ctl->source, name), table, &ctl->err);
    table_free(table);
    return r;
}

const struct command command_create = {
    .name = "create",
    .usage = "TABLE [--key NAME[:S|N|B]] [--sort NAME[:TYPE]]\n"
             "           [--index NAME:PK[:TYPE][,SK[:TYPE]]]... [--ttl ATTR|none] "
             "[--stream on|off]\n"
             "           [--keys tags|plain] [--read-units N --write-units N] [--profile NAME]",
    .summary = "Make a table",
    .options = create_options,
    .least = 1,
    .most = 1,
    .access = COMMAND_CREATES,
    .run = run_create,
};

/* ---- drop ---- */

static const struct option_spec drop_options[] = {{"--force", 0, true}, {NULL, 0, false}};

static int run_drop(struct ctl *ctl)
{
    cleanup(subject_release) struct subject subject = {0};
    bool force = arguments_option(ctl->arguments, "--force", 0) != NULL;
    int r = subject_open(ctl, &subject);

    return r < 0 ? r : backend_drop_table(subject.backend, subject.table, force, &ctl->err);
}

const struct command command_drop = {
    .name = "drop",
    .usage = "TABLE [--force]",
    .summary = "Remove an empty table; with --force also its items",
    .options = drop_options,
    .least = 1,
    .most = 1,
    .access = COMMAND_WRITES,
    .run = run_drop,
};
