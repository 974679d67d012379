/* SPDX-License-Identifier: MIT */
#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/config_private.h"
#include "base/item.h"

#define FILE_BYTES_MAX (1u << 20)

static const char *const system_state_dir = "/var/lib/itemfs";

static char *home_state_dir(void)
{
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char room[4096], *path;

    if (!home || home[0] != '/') {
        if (getpwuid_r(getuid(), &entry, room, sizeof room, &found) != 0 || !found)
            return strdup(system_state_dir);
        home = entry.pw_dir;
    }
    return asprintf(&path, "%s/.local/state/itemfs", home) < 0 ? NULL : path;
}

static char *default_state_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    char *path;

    if (state && state[0] == '/')
        return asprintf(&path, "%s/itemfs", state) < 0 ? NULL : path;
    return geteuid() == 0 ? strdup(system_state_dir) : home_state_dir();
}

struct config *config_new(void)
{
    struct config *config = calloc(1, sizeof *config);

    if (!config)
        return NULL;
    config->cache_size = 32u << 20;
    config->cache_ttl = 1;
    config->umask = 022;
    config->max_item_size = ITEM_SIZE_DEFAULT;
    config->rename_grace = 3;
    config->stream_poll = 1;
    config->follow = true;
    config->log_level = LOG_LEVEL_INFO;
    config->state_dir = default_state_dir();
    if (!config->state_dir) {
        free(config);
        return NULL;
    }
    return config;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < config->backend_count; i++) {
        free(config->backends[i].name);
        free(config->backends[i].path);
        free(config->backends[i].region);
        free(config->backends[i].endpoint);
        free(config->backends[i].profile);
        free(config->backends[i].ca_file);
        free(config->backends[i].tables);
        path_list_release(&config->backends[i].replicas);
        free(config->backends[i].config);
        free(config->backends[i].environment);
    }
    for (size_t i = 0; i < config->table_count; i++)
        table_config_release(&config->tables[i]);
    free(config->backends);
    free(config->tables);
    free(config->state_dir);
    free(config->path);
    free(config);
}

/* A zeroed place behind the COUNT elements of SIZE bytes in *ARRAY; NULL without memory. */
static void *grow(void **array, size_t *count, size_t size)
{
    char *bigger = reallocarray(*array, *count + 1, size);

    if (!bigger)
        return NULL;
    *array = bigger;
    return memset(bigger + size * (*count)++, 0, size);
}

struct backend_config *config_add_backend(struct config *config, struct span name)
{
    void *array = config->backends;
    struct backend_config *backend = grow(&array, &config->backend_count, sizeof *backend);

    config->backends = array;
    if (backend)
        *backend =
            (struct backend_config){.name = strndup(name.data, name.len), .replica_timeout = 5};
    return backend && backend->name ? backend : NULL;
}

struct table_config *config_add_table(struct config *config, struct span name)
{
    void *array = config->tables;
    struct table_config *table = grow(&array, &config->table_count, sizeof *table);

    config->tables = array;
    if (table)
        *table = (struct table_config){.name = strndup(name.data, name.len),
                                       .function_timeout = 30,
                                       .function_retry = 1,
                                       .function_batch = CONFIG_BATCH_MOST};
    return table && table->name ? table : NULL;
}

int config_add_profile_setting(struct table_config *table, const char *name, const char *value,
                               unsigned line)
{
    void *array = table->profile_settings;
    struct profile_setting *setting = grow(&array, &table->profile_setting_count, sizeof *setting);

    table->profile_settings = array;
    if (setting)
        *setting = (struct profile_setting){strdup(name), strdup(value), line};
    return setting && setting->name && setting->value ? 0 : -ENOMEM;
}

const struct backend_config *config_backend(const struct config *config, struct span name)
{
    for (size_t i = 0; i < config->backend_count; i++)
        if (span_equal(span_text(config->backends[i].name), name))
            return &config->backends[i];
    return NULL;
}

/* ---- lists of paths ---- */

int path_list_add(struct path_list *list, const char *path, struct err *err)
{
    void *array = list->paths;
    char **place;

    if (path_list_has(list, path))
        return err_set(err, EINVAL, "%s stands there twice", path);
    if (list->count >= CONFIG_REPLICAS_MOST)
        return err_set(err, EINVAL, "at most %d", CONFIG_REPLICAS_MOST);
    place = grow(&array, &list->count, sizeof *place);
    list->paths = array;
    if (place)
        *place = strdup(path);
    return place && *place ? 0 : -ENOMEM;
}

void path_list_release(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct path_list){NULL, 0};
}

bool path_list_has(const struct path_list *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->paths[i], path) == 0)
            return true;
    return false;
}

bool path_list_equal(const struct path_list *a, const struct path_list *b)
{
    bool equal = a->count == b->count;

    for (size_t i = 0; equal && i < a->count; i++)
        equal = strcmp(a->paths[i], b->paths[i]) == 0;
    return equal;
}

/* ---- sources ---- */

char *path_directory(const char *path)
{
    cleanup_free char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *whole = path_below(here ? here : "/", path);
    char *slash = whole ? strrchr(whole, '/') : NULL;

    if (slash)
        slash[slash == whole] = '\0';
    return whole;
}

static int read_file(const char *path, struct buf *text, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char chunk[8192];
    ssize_t got = -1;

    if (fd >= 0)
        while ((got = read(fd, chunk, sizeof chunk)) > 0)
            buf_add(text, chunk, (size_t)got);
    if (got < 0) {
        int code = errno;

        if (fd >= 0)
            close(fd);
        return err_set(err, code, "%s: %s", path, strerror(code));
    }
    close(fd);
    if (buf_error(text))
        return err_set(err, -buf_error(text), "%s: too large for a configuration", path);
    return 0;
}

static int config_from_file(const char *path, struct config **ret_config, struct err *err)
{
    cleanup(buf_release) struct buf text;
    int r;

    buf_init(&text, FILE_BYTES_MAX);
    r = read_file(path, &text, err);
    return r < 0 ? r : config_parse(buf_span(&text), path, ret_config, err);
}

static int config_from_store(const char *path, struct config **ret_config, struct err *err)
{
    struct config *config = config_new();
    struct backend_config *backend = config ? config_add_backend(config, span_text("store")) : NULL;
    cleanup_free char *directory = path_directory(path);
    const char *slash = strrchr(path, '/');

    if (backend && directory)
        backend->path = path_below(directory, slash ? slash + 1 : path);
    if (!backend || !backend->path) {
        config_free(config);
        return err_set(err, ENOMEM, "no memory");
    }
    *ret_config = config;
    return 0;
}

/* Without the slashes that a shell puts behind a directory's name. */
static int config_from_folder(const char *path, struct config **ret_config, struct err *err)
{
    struct config *config = config_new();
    struct backend_config *backend =
        config ? config_add_backend(config, span_text("folder")) : NULL;
    cleanup_free char *real = realpath(path, NULL);
    int r = -ENOMEM;

    if (!real)
        r = err_set(err, errno, "%s: %s", path, strerror(errno));
    else if (backend) {
        backend->type = BACKEND_TYPE_FOLDER;
        r = path_list_add(&backend->replicas, real, err);
    }
    if (r < 0) {
        config_free(config);
        return r == -ENOMEM ? err_set(err, ENOMEM, "no memory") : r;
    }
    *ret_config = config;
    return 0;
}

/* TEXT is "REGION" or "REGION/TABLE". */
static int config_from_service(const char *text, struct config **ret_config, struct err *err)
{
    struct config *config = config_new();
    struct backend_config *backend =
        config ? config_add_backend(config, span_text("dynamodb")) : NULL;
    size_t region = strcspn(text, "/");
    const char *table = text[region] ? text + region + 1 : NULL;

    if (table && !*table) {
        config_free(config);
        return err_set(err, EINVAL, "dynamodb:%s: a table's name is missing behind \"/\"", text);
    }
    if (backend) {
        backend->type = BACKEND_TYPE_DYNAMODB;
        backend->region = region ? strndup(text, region) : NULL;
        backend->tables = table ? strdup(table) : NULL;
    }
    if (!backend || (region && !backend->region) || (table && !backend->tables)) {
        config_free(config);
        return err_set(err, ENOMEM, "no memory");
    }
    *ret_config = config;
    return 0;
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text), end = strlen(suffix);

    return length >= end && strcmp(text + length - end, suffix) == 0;
}

int config_from_source(const char *source, struct config **ret_config, struct err *err)
{
    struct stat found;

    if (!*source)
        return err_set(err, EINVAL, "the source is empty");
    if (strncmp(source, "dynamodb:", 9) == 0)
        return config_from_service(source + 9, ret_config, err);
    if (has_suffix(source, "/") || (stat(source, &found) == 0 && S_ISDIR(found.st_mode)))
        return config_from_folder(source, ret_config, err);
    if (has_suffix(source, ".conf"))
        return config_from_file(source, ret_config, err);
    if (!has_suffix(source, ".db") && access(source, F_OK) != 0)
        return err_set(err, ENOENT, "%s: there is no such file; a new store is named FILE.db",
                       source);
    return config_from_store(source, ret_config, err);
}

/* ---- use ---- */

/* "endpoint", "profile", ... as an option: for each service of the configuration; a budget is one
 * for each then. */
static int service_option(struct config *config, const char *name, const char *value,
                          struct err *err)
{
    static const char *const known[] = {"endpoint",   "profile",     "region", "ca_file",
                                        "read_units", "write_units", NULL};
    cleanup_free char *here = getcwd(NULL, 0);
    size_t at = 0, services = 0;
    int r = 0;

    while (known[at] && strcmp(known[at], name) != 0)
        at++;
    if (!known[at])
        return 1;
    const struct setting *setting = setting_find(SECTION_BACKEND, name);
    for (size_t i = 0; r == 0 && i < config->backend_count; i++) {
        if (config->backends[i].type != BACKEND_TYPE_DYNAMODB)
            continue;
        services++;
        r = setting_apply(setting, &config->backends[i], value ? value : "", here ? here : "/",
                          err);
    }
    if (r == 0 && services == 0)
        return err_set(err, EINVAL, "%s: no backend of the source is of type dynamodb", name);
    return r;
}

int config_option(struct config *config, const char *option, struct err *err)
{
    size_t length = strcspn(option, "=");
    cleanup_free char *name = strndup(option, length);
    const char *value = option[length] ? option + length + 1 : NULL;
    const struct setting *setting;
    cleanup_free char *here = NULL;

    if (!name)
        return err_set(err, ENOMEM, "no memory");
    setting = setting_find(SECTION_MOUNT, strcmp(name, "ro") == 0 ? "read_only" : name);
    if (!setting)
        return service_option(config, name, value, err);
    if (!value && setting_is_switch(setting))
        value = "yes";
    here = getcwd(NULL, 0);
    return setting_apply(setting, config, value ? value : "", here ? here : "/", err);
}

const struct table_config *config_table(const struct config *config, struct span name)
{
    for (size_t i = 0; i < config->table_count; i++)
        if (span_equal(span_text(config->tables[i].name), name))
            return &config->tables[i];
    return NULL;
}

/* Leaves the attribute as it is where memory ran out. */
static void apply_ttl(struct table *table, const char *attribute)
{
    char *copy = attribute ? strdup(attribute) : NULL;

    if (attribute && !copy)
        return;
    free(table->ttl_attribute);
    table->ttl_attribute = copy;
}

void config_apply(const struct config *config, struct table *table)
{
    const struct table_config *settings = config_table(config, span_text(table->name));

    if (!settings)
        return;
    if (settings->has_keys) {
        table->keys = settings->keys;
        table->show_keys = settings->keys == KEYS_PLAIN;
    }
    if (settings->has_strict_tags)
        table->strict_tags = settings->strict_tags;
    if (settings->has_show_keys)
        table->show_keys = settings->show_keys;
    if (settings->has_format)
        table->format = settings->format;
    if (settings->has_types)
        table->types = settings->types;
    if (settings->has_ttl)
        apply_ttl(table, settings->ttl);
    if (settings->has_stream)
        table->stream = settings->stream;
}
