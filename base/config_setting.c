/* SPDX-License-Identifier: MIT */
#include "base/config_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config_value.h"

#define CACHE_SIZE_MOST (UINT64_C(1) << 40)
#define ITEM_SIZE_MOST (UINT64_C(512) << 20) /* a value in SQLite ends at 1e9 bytes */
#define WAIT_LEAST_MS 10
#define WAIT_MOST_MS 3600000

enum form {
    FORM_SIZE,      /* uint64_t: bytes, LEAST to MOST */
    FORM_COUNT,     /* uint64_t, LEAST to MOST */
    FORM_SECONDS,   /* double */
    FORM_WAIT,      /* double: seconds, LEAST to MOST milliseconds */
    FORM_UNITS,     /* double; 0: not set */
    FORM_ID,        /* uid_t, gid_t */
    FORM_MODE,      /* unsigned, octal */
    FORM_SWITCH,    /* bool */
    FORM_WORD,      /* enum: the place in WORDS */
    FORM_WORD_BOOL, /* bool: false for the first of two WORDS */
    FORM_TEXT,      /* char * */
    FORM_PATH,      /* char *, made absolute */
    FORM_ATTRIBUTE, /* char *, NULL for "none" */
    FORM_PATHS,     /* struct path_list, from names between commas */
    FORM_FUNCTION,  /* struct function */
    FORM_KEY,       /* struct key_attribute */
    FORM_INDEX,     /* struct index_list, which one is added to */
};

struct setting {
    enum section section;
    const char *name;
    enum form form;
    size_t field;
    size_t has; /* offset of a bool that tells that it was set; 0: there is none */
    const char *const *words;
    uint64_t least, most;
};

static const char *const level_words[] = {"error", "warning", "info", "debug", NULL};
static const char *const type_words[] = {"sqlite", "dynamodb", "folder", NULL};
static const char *const layout_words[] = {"auto", "tables", "table", NULL};
static const char *const fsync_words[] = {"asked", "always", NULL};
static const char *const keys_words[] = {"plain", "tags", NULL};
static const char *const rule_words[] = {"any", "strict", NULL};
static const char *const format_words[] = {"plain", "typed", NULL};

static const char *const types_words[] = {"dynamodb", "kernstack", NULL};

#define MOUNT(key, kind)                                                                           \
    .section = SECTION_MOUNT, .name = #key, .form = kind, .field = offsetof(struct config, key)
#define BACKEND(key, kind)                                                                         \
    .section = SECTION_BACKEND, .name = #key, .form = kind,                                        \
    .field = offsetof(struct backend_config, key)
#define TABLE(key, kind, member)                                                                   \
    .section = SECTION_TABLE, .name = #key, .form = kind,                                          \
    .field = offsetof(struct table_config, member)
#define HAS(type, member) .has = offsetof(struct type, member)
#define HAS_FUNCTION_KEY HAS(table_config, has_function_key)
#define HAS_FOLDER_KEY HAS(backend_config, has_folder_key)

static const struct setting settings[] = {
    {MOUNT(cache_size, FORM_SIZE), .most = CACHE_SIZE_MOST},
    {MOUNT(cache_ttl, FORM_SECONDS)},
    {MOUNT(state_dir, FORM_PATH)},
    {MOUNT(uid, FORM_ID), HAS(config, has_uid)},
    {MOUNT(gid, FORM_ID), HAS(config, has_gid)},
    {MOUNT(umask, FORM_MODE)},
    {MOUNT(allow_other, FORM_SWITCH)},
    {MOUNT(read_only, FORM_SWITCH)},
    {MOUNT(quiet, FORM_SWITCH)},
    {MOUNT(max_item_size, FORM_SIZE), .least = 1, .most = ITEM_SIZE_MOST},
    {MOUNT(rename_grace, FORM_SECONDS)},
    {MOUNT(stream_poll, FORM_WAIT), .least = 100, .most = 60000},
    {MOUNT(follow, FORM_SWITCH)},
    {MOUNT(log_level, FORM_WORD), .words = level_words},
    {BACKEND(type, FORM_WORD), .words = type_words},
    {BACKEND(path, FORM_PATH)},
    {BACKEND(region, FORM_TEXT)},
    {BACKEND(endpoint, FORM_TEXT)},
    {BACKEND(profile, FORM_TEXT)},
    {BACKEND(ca_file, FORM_PATH)},
    {BACKEND(tables, FORM_TEXT)},
    {BACKEND(segments, FORM_COUNT), .least = 1, .most = CONFIG_SEGMENTS_MOST},
    {BACKEND(read_units, FORM_UNITS)},
    {BACKEND(write_units, FORM_UNITS)},
    {BACKEND(replicas, FORM_PATHS), HAS_FOLDER_KEY},
    {BACKEND(config, FORM_PATH), HAS_FOLDER_KEY},
    {BACKEND(environment, FORM_TEXT), HAS_FOLDER_KEY},
    {BACKEND(layout, FORM_WORD), HAS_FOLDER_KEY, .words = layout_words},
    {.section = SECTION_BACKEND,
     .name = "fsync",
     .form = FORM_WORD_BOOL,
     .field = offsetof(struct backend_config, fsync_always),
     HAS_FOLDER_KEY,
     .words = fsync_words},
    {BACKEND(replica_timeout, FORM_WAIT), HAS_FOLDER_KEY, .least = 100, .most = 600000},
    {TABLE(backend, FORM_TEXT, backend)},
    {TABLE(keys, FORM_WORD, keys), HAS(table_config, has_keys), .words = keys_words},
    {TABLE(tag_rule, FORM_WORD_BOOL, strict_tags), HAS(table_config, has_strict_tags),
     .words = rule_words},
    {TABLE(show_keys, FORM_SWITCH, show_keys), HAS(table_config, has_show_keys)},
    {TABLE(format, FORM_WORD, format), HAS(table_config, has_format), .words = format_words},
    {TABLE(types, FORM_WORD, types), HAS(table_config, has_types), .words = types_words},
    {TABLE(ttl, FORM_ATTRIBUTE, ttl), HAS(table_config, has_ttl)},
    {TABLE(profile, FORM_TEXT, profile)},
    {TABLE(stream, FORM_SWITCH, stream), HAS(table_config, has_stream)},
    {TABLE(key, FORM_KEY, key)},
    {TABLE(sort, FORM_KEY, sort)},
    {TABLE(index, FORM_INDEX, indexes)},
    {TABLE(seed, FORM_PATH, seed)},
    {TABLE(read_units, FORM_UNITS, read_units)},
    {TABLE(write_units, FORM_UNITS, write_units)},
    {TABLE(keep_seconds, FORM_COUNT, keep_seconds), .least = 1, .most = CONFIG_KEEP_MOST},
    {TABLE(keep_min, FORM_COUNT, keep_min), HAS(table_config, has_keep_min),
     .most = CONFIG_KEEP_MOST},
    {TABLE(keep_max, FORM_COUNT, keep_max), HAS(table_config, has_keep_max), .least = 1,
     .most = CONFIG_KEEP_MOST},
    {TABLE(function, FORM_FUNCTION, function)},
    {TABLE(function_timeout, FORM_WAIT, function_timeout), HAS_FUNCTION_KEY, .least = WAIT_LEAST_MS,
     .most = WAIT_MOST_MS},
    {TABLE(function_retry, FORM_WAIT, function_retry), HAS_FUNCTION_KEY, .least = WAIT_LEAST_MS,
     .most = WAIT_MOST_MS},
    {TABLE(function_batch, FORM_COUNT, function_batch), HAS_FUNCTION_KEY, .least = 1,
     .most = CONFIG_BATCH_MOST},
    {TABLE(function_secret_file, FORM_PATH, function_secret_file), HAS_FUNCTION_KEY},
    {TABLE(function_ca_file, FORM_PATH, function_ca_file), HAS_FUNCTION_KEY},
};
#define SETTING_COUNT (sizeof settings / sizeof settings[0])
_Static_assert(SETTING_COUNT <= SETTINGS_MOST, "as setting_number promises");
/* put_word and config_value_id write enums and ids as unsigned. */
_Static_assert(sizeof(enum log_level) == sizeof(unsigned) &&
                   sizeof(enum folder_layout) == sizeof(unsigned) &&
                   sizeof(uid_t) == sizeof(unsigned) && sizeof(gid_t) == sizeof(unsigned),
               "enums and ids are stored as unsigned");

static const char *const section_names[] = {"", "mount", "backend", "table"};

enum section section_from_name(struct span name)
{
    for (int i = SECTION_MOUNT; i <= SECTION_TABLE; i++)
        if (span_equal(name, span_text(section_names[i])))
            return (enum section)i;
    return SECTION_NONE;
}

const char *section_name(enum section section)
{
    return section_names[section];
}

const char *config_key(size_t number, const char **ret_section)
{
    if (number >= SETTING_COUNT)
        return NULL;
    *ret_section = section_names[settings[number].section];
    return settings[number].name;
}

const struct setting *setting_find(enum section section, const char *name)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].section == section && strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

unsigned setting_number(const struct setting *setting)
{
    return (unsigned)(setting - settings);
}

bool setting_repeats(const struct setting *setting)
{
    return setting->form == FORM_INDEX;
}

bool setting_is_switch(const struct setting *setting)
{
    return setting->form == FORM_SWITCH;
}

char *path_below(const char *directory, const char *name)
{
    char *path = NULL;

    if (name[0] == '/')
        return strdup(name);
    if (asprintf(&path, "%s%s%s", directory, strcmp(directory, "/") ? "/" : "", name) < 0)
        return NULL;
    return path;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static int put_text(const struct setting *setting, char **field, const char *text,
                    const char *directory, struct err *err)
{
    char *copy;

    if (setting->form == FORM_PATH && (is_quote(text[0]) || is_quote(text[strlen(text) - 1])))
        return err_set(err, EINVAL, "%s has a quote at an end; values are written without quotes",
                       text);
    if (setting->form == FORM_ATTRIBUTE && strcmp(text, "none") == 0) {
        free(*field);
        *field = NULL;
        return 0;
    }
    copy = setting->form == FORM_PATH ? path_below(directory, text) : strdup(text);
    if (!copy)
        return -ENOMEM;
    free(*field);
    *field = copy;
    return 0;
}

/* A name stands between commas, without the white space around it. */
static int put_paths(struct path_list *field, const char *text, const char *directory,
                     struct err *err)
{
    struct path_list list = {NULL, 0};
    int r = 0;

    while (r == 0) {
        size_t skip = strspn(text, " \t"), len = strcspn(text + skip, ","), end = skip + len;
        while (len && strchr(" \t", text[skip + len - 1]))
            len--;
        cleanup_free char *name = strndup(text + skip, len);
        cleanup_free char *path = name ? path_below(directory, name) : NULL;
        if (len == 0)
            r = err_set(err, EINVAL, "a name is missing beside a comma");
        else if (is_quote(text[skip]))
            r = err_set(err, EINVAL, "%s: values are written without quotes", name ? name : "");
        else
            r = path ? path_list_add(&list, path, err) : -ENOMEM;
        if (!text[end])
            break;
        text += end + 1;
    }
    if (r < 0) {
        path_list_release(&list);
        return r;
    }
    path_list_release(field);
    *field = list;
    return 0;
}

static int put_word(const struct setting *setting, void *field, const char *text, struct err *err)
{
    unsigned place;
    int r = config_value_word(text, setting->words, &place, err);

    if (r < 0)
        return r;
    if (setting->form == FORM_WORD_BOOL)
        *(bool *)field = place == 1;
    else
        memcpy(field, &place, sizeof place);
    return 0;
}

static int put_function(struct function *field, const char *text, struct err *err)
{
    struct function function;
    int r = function_parse(text, &function, err);

    if (r < 0)
        return r;
    function_release(field);
    *field = function;
    return 0;
}

static int put_key(struct key_attribute *field, const char *text, struct err *err)
{
    struct key_attribute attribute;
    int r = key_attribute_parse(span_text(text), &attribute, err);

    if (r < 0)
        return r;
    key_attribute_release(field);
    *field = attribute;
    return 0;
}

static int add_index(struct index_list *field, const char *text, struct err *err)
{
    struct index *more = reallocarray(field->indexes, field->count + 1, sizeof *more);

    if (!more)
        return -ENOMEM;
    field->indexes = more;
    int r = index_parse(span_text(text), &more[field->count], err);
    field->count += r == 0;
    return r;
}

static int setting_put(const struct setting *setting, void *field, const char *text,
                       const char *directory, struct err *err)
{
    switch (setting->form) {
    case FORM_SIZE: return config_value_size(text, setting->least, setting->most, field, err);
    case FORM_COUNT: return config_value_count(text, setting->least, setting->most, field, err);
    case FORM_SECONDS: return config_value_seconds(text, field, err);
    case FORM_WAIT:
        return config_value_seconds_between(text, (double)setting->least / 1000,
                                            (double)setting->most / 1000, field, err);
    case FORM_UNITS: return config_value_units(text, field, err);
    case FORM_ID: return config_value_id(text, field, err);
    case FORM_MODE: return config_value_mode(text, field, err);
    case FORM_SWITCH: return config_value_bool(text, field, err);
    case FORM_WORD:
    case FORM_WORD_BOOL: return put_word(setting, field, text, err);
    case FORM_TEXT:
    case FORM_PATH:
    case FORM_ATTRIBUTE: return put_text(setting, field, text, directory, err);
    case FORM_PATHS: return put_paths(field, text, directory, err);
    case FORM_FUNCTION: return put_function(field, text, err);
    case FORM_KEY: return put_key(field, text, err);
    case FORM_INDEX: return add_index(field, text, err);
    }
    return -EINVAL;
}

int setting_apply(const struct setting *setting, void *target, const char *text,
                  const char *directory, struct err *err)
{
    struct err reason = {""};
    int r;

    if (!*text)
        return err_set(err, EINVAL, "%s has no value", setting->name);
    r = setting_put(setting, (char *)target + setting->field, text, directory, &reason);
    if (r == -EINVAL)
        return err_set(err, EINVAL, "%s: %s", setting->name, reason.text);
    if (r < 0)
        return r;
    if (setting->has)
        *(bool *)((char *)target + setting->has) = true;
    return 0;
}
