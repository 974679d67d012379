/* SPDX-License-Identifier: MIT */
/*
 * inih splits lines into keys and values. Two things it leaves to us, both done in the function
 * that hands it lines: it cuts section names to 49 bytes and does not tell of sections without
 * keys, so headers are read here; and it splits long lines silently, so they are refused here.
 * Since it asks for a line only after it is done with the one before, the number of the line last
 * handed out is also the line of every key.
 */
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config_private.h"

#define LINE_BYTES_MAX 1024
#define SPACE " \t\r\n\v\f"

struct parser {
    struct span rest; /* of the text */
    const char *path; /* for messages */
    const char *directory;
    struct config *config;
    unsigned line;
    enum section section;
    void *target;             /* what the section's settings go to */
    bool seen[SETTINGS_MOST]; /* settings of this section, by number */
    bool mount_seen;          /* there was a [mount] */
    unsigned *table_line;     /* by table: where its backend is named, 0: nowhere */
    int error;
    struct err *err;
};

__attribute__((format(printf, 2, 3))) static int parser_fail(struct parser *parser,
                                                             const char *format, ...)
{
    char *reason = NULL;
    va_list arguments;

    if (parser->error)
        return parser->error;
    va_start(arguments, format);
    if (vasprintf(&reason, format, arguments) < 0)
        reason = NULL;
    va_end(arguments);
    parser->error = err_set(parser->err, EINVAL, "%s:%u: %s", parser->path, parser->line,
                            reason ? reason : "is wrong");
    free(reason);
    return parser->error;
}

static int begin_mount(struct parser *parser, struct span name)
{
    if (name.len)
        return parser_fail(parser, "[mount] has no name");
    if (parser->mount_seen)
        return parser_fail(parser, "a second [mount]");
    parser->mount_seen = true;
    parser->target = parser->config;
    return 0;
}

static bool is_plain_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!memchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
                    name.data[i], 64))
            return false;
    return name.len > 0;
}

static int begin_backend(struct parser *parser, struct span name)
{
    if (!is_plain_name(name))
        return parser_fail(parser, "a backend needs a name of letters, digits, \"-\" and \"_\"");
    if (config_backend(parser->config, name))
        return parser_fail(parser, "a second [backend %.*s]", (int)name.len, name.data);
    parser->target = config_add_backend(parser->config, name);
    return parser->target ? 0 : (parser->error = -ENOMEM);
}

static int begin_table(struct parser *parser, struct span name)
{
    struct err reason = {""};
    unsigned *lines;

    if (table_check_name(name, &reason) < 0)
        return parser_fail(parser, "%s", reason.text);
    if (config_table(parser->config, name))
        return parser_fail(parser, "a second [table %.*s]", (int)name.len, name.data);
    parser->target = config_add_table(parser->config, name);
    lines = reallocarray(parser->table_line, parser->config->table_count, sizeof *lines);
    if (!parser->target || !lines)
        return parser->error = -ENOMEM;
    parser->table_line = lines;
    ((struct table_config *)parser->target)->line = parser->line;
    lines[parser->config->table_count - 1] = 0;
    return 0;
}

static struct span trimmed(struct span text)
{
    while (text.len && memchr(SPACE, text.data[0], sizeof SPACE - 1))
        text = span_of(text.data + 1, text.len - 1);
    while (text.len && memchr(SPACE, text.data[text.len - 1], sizeof SPACE - 1))
        text.len--;
    return text;
}

/* LINE begins with "["; its name ends at a "]" behind which only a comment may follow. */
static int begin_section(struct parser *parser, struct span line)
{
    struct span inside, kind;
    size_t end = 0;

    for (size_t i = 1; i < line.len && !end; i++) {
        struct span rest = trimmed(span_of(line.data + i + 1, line.len - i - 1));

        if (line.data[i] == ']' && (!rest.len || rest.data[0] == ';' || rest.data[0] == '#'))
            end = i;
    }
    if (!end)
        return parser_fail(parser, "a section is written [NAME]");
    inside = trimmed(span_of(line.data + 1, end - 1));
    kind = inside;
    for (kind.len = 0; kind.len < inside.len && !memchr(SPACE, inside.data[kind.len], 6);)
        kind.len++;
    inside = trimmed(span_of(inside.data + kind.len, inside.len - kind.len));
    parser->section = section_from_name(kind);
    memset(parser->seen, 0, sizeof parser->seen);
    switch (parser->section) {
    case SECTION_MOUNT: return begin_mount(parser, inside);
    case SECTION_BACKEND: return begin_backend(parser, inside);
    case SECTION_TABLE: return begin_table(parser, inside);
    case SECTION_NONE: break;
    }
    return parser_fail(parser, "no section [%.*s]; there are [mount], [backend NAME], [table NAME]",
                       (int)kind.len, kind.data);
}

static int check_line(struct parser *parser, struct span line)
{
    struct span text = trimmed(line);

    if (line.len >= LINE_BYTES_MAX)
        return parser_fail(parser, "the line is longer than %d bytes", LINE_BYTES_MAX - 1);
    if (memchr(line.data, 0, line.len))
        return parser_fail(parser, "the line holds a NUL byte");
    if (text.len && text.data[0] == '[')
        return begin_section(parser, text);
    return 0;
}

/* inih's reader, as fgets: ROOM is larger than any line that check_line admits. */
static char *next_line(char *room, int size, void *context)
{
    struct parser *parser = context;
    const char *end;
    struct span line = parser->rest;

    if (parser->error || !line.len)
        return NULL;
    end = memchr(line.data, '\n', line.len);
    if (end)
        line.len = (size_t)(end - line.data);
    parser->line++;
    if (check_line(parser, line) < 0 || line.len + 2 > (size_t)size)
        return NULL;
    memcpy(room, line.data, line.len);
    memcpy(room + line.len, "\n", 2);
    line.len += end != NULL;
    parser->rest = span_of(parser->rest.data + line.len, parser->rest.len - line.len);
    return room;
}

/* A key of a table that is none of ours may be one of its profile, which stands further down. */
static int take_unknown(struct parser *parser, const char *name, const char *value)
{
    struct table_config *table = parser->target;

    if (parser->section != SECTION_TABLE)
        return parser_fail(parser, "no key \"%s\" in [%s]", name, section_name(parser->section));
    for (size_t i = 0; i < table->profile_setting_count; i++)
        if (strcmp(table->profile_settings[i].name, name) == 0)
            return parser_fail(parser, "%s is set twice", name);
    if (!*value)
        return parser_fail(parser, "%s has no value", name);
    if (config_add_profile_setting(table, name, value, parser->line) < 0)
        return parser->error = -ENOMEM;
    return 0;
}

/* inih's handler: one key. */
static int take_setting(void *context, const char *section, const char *name, const char *value)
{
    struct parser *parser = context;
    const struct setting *setting = setting_find(parser->section, name);
    struct err reason = {""};
    bool *seen;
    int r;

    (void)section;
    if (parser->error)
        return 0;
    if (parser->section == SECTION_NONE)
        return parser_fail(parser, "\"%s\" stands before the first section", name) == 0;
    if (!setting)
        return take_unknown(parser, name, value) == 0;
    seen = &parser->seen[setting_number(setting)];
    if (*seen && !setting_repeats(setting))
        return parser_fail(parser, "%s is set twice", name) == 0;
    *seen = true;
    r = setting_apply(setting, parser->target, value, parser->directory, &reason);
    if (r == -EINVAL)
        return parser_fail(parser, "%s", reason.text) == 0;
    if (r < 0)
        parser->error = r;
    if (setting == setting_find(SECTION_BACKEND, "path") ||
        setting == setting_find(SECTION_BACKEND, "replicas"))
        ((struct backend_config *)parser->target)->replicas_line = parser->line;
    if (setting == setting_find(SECTION_TABLE, "function"))
        ((struct table_config *)parser->target)->function_line = parser->line;
    if (setting == setting_find(SECTION_TABLE, "backend"))
        parser->table_line[parser->config->table_count - 1] = parser->line;
    return r == 0;
}

/* ---- the whole file ---- */

static int default_backend(struct parser *parser)
{
    struct backend_config *backend;

    if (parser->config->backend_count)
        return 0;
    backend = config_add_backend(parser->config, span_text("store"));
    if (!backend || !(backend->path = path_below(parser->directory, "items.db")))
        return -ENOMEM;
    return 0;
}

/* A folder is named in one way. */
static int check_folder(struct parser *parser, const struct backend_config *backend)
{
    int ways = (backend->path != NULL) + (backend->replicas.count > 0) + (backend->config != NULL);
    const char *why = NULL;

    if (ways != 1)
        why = ways ? "either path, replicas or config" : "a folder needs path, replicas or config";
    else if ((backend->config != NULL) != (backend->environment != NULL))
        why = "config and environment go together";
    else if (backend->config && backend->layout == LAYOUT_TABLES)
        why = "what config names is the folder of one table (layout = table)";
    return why ? err_set(parser->err, EINVAL, "%s: backend %s: %s", parser->path, backend->name,
                         why)
               : 0;
}

/* What belongs to one type is an error with another. */
static int check_type(struct parser *parser, const struct backend_config *backend)
{
    bool service = backend->type == BACKEND_TYPE_DYNAMODB;
    bool has_service = backend->region || backend->endpoint || backend->profile ||
                       backend->ca_file || backend->tables || backend->segments;
    int r = backend->type == BACKEND_TYPE_FOLDER ? check_folder(parser, backend) : 0;

    if (r < 0)
        return r;
    if (backend->type != BACKEND_TYPE_FOLDER && backend->has_folder_key)
        return err_set(parser->err, EINVAL,
                       "%s: backend %s: replicas, config, environment, layout, fsync and "
                       "replica_timeout belong to type = folder",
                       parser->path, backend->name);
    if (service && backend->path)
        return err_set(parser->err, EINVAL, "%s: backend %s: a service has no path", parser->path,
                       backend->name);
    if (!service && has_service)
        return err_set(parser->err, EINVAL,
                       "%s: backend %s: region, endpoint, profile, ca_file, tables and segments "
                       "belong to type = dynamodb",
                       parser->path, backend->name);
    return 0;
}

static const char budget_place[] = "read_units and write_units belong to type = dynamodb";

static int check_budget(struct parser *parser, const struct backend_config *backend)
{
    if (backend->type == BACKEND_TYPE_DYNAMODB || !(backend->read_units + backend->write_units > 0))
        return 0;
    return err_set(parser->err, EINVAL, "%s: backend %s: %s", parser->path, backend->name,
                   budget_place);
}

/* A table that names no backend may be in any. */
static int check_table_budget(struct parser *parser, const struct table_config *table)
{
    const struct config *config = parser->config;

    if (!(table->read_units + table->write_units > 0))
        return 0;
    for (size_t i = 0; i < config->backend_count; i++)
        if (config->backends[i].type == BACKEND_TYPE_DYNAMODB &&
            (!table->backend || strcmp(table->backend, config->backends[i].name) == 0))
            return 0;
    return err_set(parser->err, EINVAL, "%s: table %s: %s", parser->path, table->name,
                   budget_place);
}

static int check_function(struct parser *parser, const struct table_config *table)
{
    enum function_kind kind = table->function.kind;

    if (table->has_function_key && kind == FUNCTION_NONE)
        return err_set(parser->err, EINVAL, "%s: table %s: function_* belongs to a function",
                       parser->path, table->name);
    if ((table->function_secret_file || table->function_ca_file) && kind != FUNCTION_HTTP)
        return err_set(parser->err, EINVAL,
                       "%s: table %s: function_secret_file and function_ca_file belong to a URL",
                       parser->path, table->name);
    return 0;
}

/* `path` of a folder is its only replica. */
static int path_to_replica(struct parser *parser, struct backend_config *backend)
{
    int r = backend->path ? path_list_add(&backend->replicas, backend->path, parser->err) : 0;

    free(backend->path);
    backend->path = NULL;
    return r;
}

static int check_keep(struct parser *parser, const struct table_config *table)
{
    if (table->has_keep_min != table->has_keep_max)
        return err_set(parser->err, EINVAL, "%s: table %s: keep_min and keep_max go together",
                       parser->path, table->name);
    if (table->has_keep_max && table->keep_min >= table->keep_max)
        return err_set(parser->err, EINVAL, "%s: table %s: keep_min must be below keep_max",
                       parser->path, table->name);
    return 0;
}

static int check_declared(struct parser *parser, const struct table_config *table)
{
    struct err reason = {""};
    int r = table_config_check(parser->config, table, &reason);

    return r == -EINVAL ? err_set(parser->err, EINVAL, "%s: table %s: %s", parser->path,
                                  table->name, reason.text)
                        : r;
}

static int default_path(struct parser *parser, struct backend_config *backend)
{
    cleanup_free char *name = NULL;

    if (backend->type == BACKEND_TYPE_FOLDER)
        return path_to_replica(parser, backend);
    if (backend->path || backend->type == BACKEND_TYPE_DYNAMODB)
        return 0;
    if (asprintf(&name, "%s.db", backend->name) < 0)
        return -ENOMEM;
    backend->path = path_below(parser->directory, name);
    return backend->path ? 0 : -ENOMEM;
}

/* Without a profile nobody knows the keys that are none of ours; with one it says the rest. */
static int check_profile(struct parser *parser, const struct table_config *table)
{
    bool has_own = table->key.name || table->has_keys || table->has_strict_tags ||
                   table->has_show_keys || table->has_format || table->has_ttl;

    if (!table->profile && table->profile_setting_count) {
        parser->line = table->profile_settings[0].line;
        return parser_fail(parser, "no key \"%s\" in [table]", table->profile_settings[0].name);
    }
    if (table->profile && has_own)
        return err_set(parser->err, EINVAL,
                       "%s: table %s: key, sort, index, keys, tag_rule, show_keys, format and ttl "
                       "are what its profile says",
                       parser->path, table->name);
    return 0;
}

/* What can only be said at the end: backends have paths of their own, tables name known ones. */
static int finish(struct parser *parser)
{
    struct config *config = parser->config;
    int r = default_backend(parser);

    for (size_t i = 0; r == 0 && i < config->backend_count; i++) {
        r = check_type(parser, &config->backends[i]);
        if (r == 0)
            r = check_budget(parser, &config->backends[i]);
        if (r == 0)
            r = default_path(parser, &config->backends[i]);
        for (size_t j = 0; r == 0 && j < i && config->backends[i].path; j++)
            if (config->backends[j].path &&
                strcmp(config->backends[i].path, config->backends[j].path) == 0)
                return err_set(parser->err, EINVAL, "%s: backends %s and %s have the same path",
                               parser->path, config->backends[j].name, config->backends[i].name);
    }
    for (size_t i = 0; r == 0 && i < config->table_count; i++) {
        const char *backend = config->tables[i].backend;

        parser->line = parser->table_line[i];
        if (backend && !config_backend(config, span_text(backend)))
            r = parser_fail(parser, "backend: there is no [backend %s]", backend);
        if (r == 0)
            r = check_table_budget(parser, &config->tables[i]);
        if (r == 0)
            r = check_function(parser, &config->tables[i]);
        if (r == 0)
            r = check_keep(parser, &config->tables[i]);
        if (r == 0)
            r = check_declared(parser, &config->tables[i]);
        if (r == 0)
            r = check_profile(parser, &config->tables[i]);
    }
    return r;
}

static pthread_mutex_t inih_lock = PTHREAD_MUTEX_INITIALIZER; /* guards its switches */

static int run_parser(struct parser *parser)
{
    int r;

    scoped_lock(&inih_lock);
    /* How inih is built differs between distributions; these settings are its own switches. */
    ini_allow_multiline = false;
    ini_allow_no_value = false;
    ini_stop_on_first_error = true;
    ini_max_line = LINE_BYTES_MAX + 8;

    r = ini_parse_stream(next_line, parser, take_setting, parser);
    if (parser->error)
        return parser->error;
    if (r < 0)
        return -ENOMEM;
    if (r > 0)
        return parser_fail(parser, "the line is no [section], no \"key = value\" and no comment");
    return finish(parser);
}

static struct span without_byte_order_mark(struct span text)
{
    bool marked = text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0;

    return marked ? span_of(text.data + 3, text.len - 3) : text;
}

int config_parse(struct span text, const char *path, struct config **ret_config, struct err *err)
{
    cleanup_free char *directory = path_directory(path);
    const char *slash = strrchr(path, '/');
    struct parser parser = {
        .rest = without_byte_order_mark(text), .path = path, .directory = directory, .err = err};
    int r = -ENOMEM;

    parser.config = config_new();
    if (directory && parser.config)
        parser.config->path = path_below(directory, slash ? slash + 1 : path);
    if (directory && parser.config && parser.config->path)
        r = run_parser(&parser);
    free(parser.table_line);
    if (r < 0) {
        config_free(parser.config);
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    }
    *ret_config = parser.config;
    return 0;
}
