/* SPDX-License-Identifier: MIT */
/* One of AWS's files, line by line, by the rules of Python's configparser, which botocore reads
 * them with. inih has no settings within settings, and cuts names and lines. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/dynamodb/profile_private.h"
#include "backend/dynamodb/secret.h"
#include "base/text.h"

struct reader {
    enum profile_file file;
    const char *path;
    struct profile_text *text;
    struct profile_section *section; /* NULL: none yet */
    bool open;                       /* lines may go on with the section's last setting */
    struct buf value;                /* of that setting, so far */
    size_t indent;                   /* of the last line that went on with nothing */
    unsigned line, setting_line;
    struct err *err;
};

static int refuse(const struct reader *reader, unsigned line, const char *what)
{
    return err_set(reader->err, EINVAL, "%s:%u: %s", reader->path, line, what);
}

static int no_memory(const struct reader *reader)
{
    return err_set(reader->err, ENOMEM, "no memory");
}

static struct span trimmed(struct span text)
{
    while (text.len && isspace((unsigned char)text.data[0]))
        text = span_from(text, 1);
    while (text.len && isspace((unsigned char)text.data[text.len - 1]))
        text.len--;
    return text;
}

static char *copy_of(struct span text)
{
    return strndup(text.data ? text.data : "", text.len);
}

/* ---- sections ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_escape(const char *at, char quote)
{
    return *at == '\\' && (!quote || (quote == '"' && (at[1] == '"' || at[1] == '\\')));
}

/* Counts the words of TEXT as a shell does, and writes the second into SECOND, which has room for
 * TEXT; -1 where a quote is left open. */
static int shell_words(const char *text, char *second)
{
    int words = 0;
    bool inside = false;
    char quote = '\0';
    for (; *text; text++) {
        if (!quote && is_blank(*text)) {
            inside = false;
            continue;
        }
        words += !inside;
        inside = true;
        if (quote ? *text == quote : (*text == '"' || *text == '\'')) {
            quote = quote ? '\0' : *text;
            continue;
        }
        if (is_escape(text, quote) && !*++text)
            return -1;
        if (words == 2)
            *second++ = *text;
    }
    *second = '\0';
    return quote ? -1 : words;
}

/* The kind that HEADER stands for; its name is left in NAME, which has room for HEADER. */
static enum profile_kind kind_of(enum profile_file file, const char *header, char *name)
{
    static const char *const words[] = {"profile", "sso-session", "services"};
    memcpy(name, header, strlen(header) + 1);
    if (strcmp(header, "DEFAULT") == 0) {
        *name = '\0';
        return PROFILE_DEFAULTS;
    }
    if (file == PROFILE_CREDENTIALS_FILE || strcmp(header, "default") == 0)
        return PROFILE_SECTION;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(header, words[i], strlen(words[i])) == 0 && shell_words(header, name) == 2)
            return (enum profile_kind)(PROFILE_SECTION + i);
    return PROFILE_UNKNOWN;
}

static struct profile_section *section_with(struct profile_text *text, const char *header)
{
    for (size_t i = 0; i < text->count; i++)
        if (strcmp(text->sections[i].header, header) == 0)
            return &text->sections[i];
    return NULL;
}

/* Takes over HEADER and NAME. */
static int add_section(struct reader *reader, char *header, char *name)
{
    struct profile_text *text = reader->text;
    struct profile_section *bigger =
        header && name ? reallocarray(text->sections, text->count + 1, sizeof *bigger) : NULL;
    if (!bigger) {
        free(header);
        free(name);
        return no_memory(reader);
    }
    text->sections = bigger;
    reader->section = &bigger[text->count++];
    *reader->section = (struct profile_section){.header = header, .name = name};
    reader->section->kind = kind_of(reader->file, header, name);
    return 0;
}

static int begin_section(struct reader *reader, struct span header)
{
    char *copy = copy_of(header);
    struct profile_section *known = copy ? section_with(reader->text, copy) : NULL;
    if (!known)
        return add_section(reader, copy, copy ? malloc(header.len + 1) : NULL);
    free(copy);
    if (known->kind != PROFILE_DEFAULTS)
        return refuse(reader, reader->line, "the section stands there twice");
    reader->section = known;
    return 0;
}

/* Whether LINE is "[...]", whatever follows; RET_HEADER is what stands between. */
static bool is_header(struct span line, struct span *ret_header)
{
    const char *end = line.data[0] == '[' ? memrchr(line.data, ']', line.len) : NULL;
    if (!end || end == line.data + 1)
        return false;
    *ret_header = span_of(line.data + 1, (size_t)(end - line.data) - 1);
    return true;
}

/* ---- settings ---- */

static struct profile_setting *add_setting(struct reader *reader)
{
    struct profile_section *section = reader->section;
    struct profile_setting *bigger =
        reallocarray(section->settings, section->count + 1, sizeof *bigger);
    if (!bigger)
        return NULL;
    section->settings = bigger;
    bigger[section->count] = (struct profile_setting){0};
    return &bigger[section->count++];
}

/* One line of a setting that has settings of its own: that of the section's place AT. */
static int add_subsetting(struct reader *reader, size_t at, struct span line)
{
    const char *equals = memchr(line.data, '=', line.len);
    if (!equals)
        return refuse(reader, reader->setting_line, "a line of this setting has no \"=\"");
    size_t len = (size_t)(equals - line.data);
    struct profile_setting *setting = add_setting(reader);
    if (!setting)
        return no_memory(reader);
    setting->key = strdup(reader->section->settings[at].key);
    setting->subkey = copy_of(trimmed(span_of(line.data, len)));
    setting->value = copy_of(trimmed(span_from(line, len + 1)));
    return setting->key && setting->subkey && setting->value ? 0 : no_memory(reader);
}

static int add_subsettings(struct reader *reader, struct span lines)
{
    size_t at = reader->section->count - 1;
    int r = 0;
    while (lines.len && r == 0) {
        const char *end = memchr(lines.data, '\n', lines.len);
        struct span line = span_of(lines.data, end ? (size_t)(end - lines.data) : lines.len);
        lines = span_from(lines, line.len + (end != NULL));
        line = trimmed(line);
        if (line.len)
            r = add_subsetting(reader, at, line);
    }
    return r;
}

/* The value of the section's last setting is complete. One with settings of its own keeps no value,
 * but its key, against a second one. */
static int end_setting(struct reader *reader)
{
    if (!reader->open)
        return 0;
    reader->open = false;
    struct span value = buf_span(&reader->value);
    while (value.len && isspace((unsigned char)value.data[value.len - 1]))
        value.len--;
    if (value.len && value.data[0] == '\n')
        return add_subsettings(reader, value);
    struct profile_setting *setting = &reader->section->settings[reader->section->count - 1];
    setting->value = copy_of(value);
    return setting->value ? 0 : no_memory(reader);
}

static bool has_key(const struct profile_section *section, const char *key)
{
    for (size_t i = 0; i < section->count; i++)
        if (!section->settings[i].subkey && strcmp(section->settings[i].key, key) == 0)
            return true;
    return false;
}

static char *key_of(struct span text)
{
    char *key = copy_of(trimmed(text));
    for (char *at = key; at && *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return key;
}

static int begin_setting(struct reader *reader, struct span line)
{
    size_t len = 0;
    while (len < line.len && line.data[len] != '=' && line.data[len] != ':')
        len++;
    if (len == 0 || len == line.len)
        return refuse(reader, reader->line, "the line is no setting (KEY = VALUE)");
    cleanup_free char *key = key_of(span_of(line.data, len));
    if (key && has_key(reader->section, key))
        return refuse(reader, reader->line, "the setting stands there twice");
    struct profile_setting *setting = key ? add_setting(reader) : NULL;
    if (!setting)
        return no_memory(reader);
    setting->key = key;
    key = NULL;
    buf_clear(&reader->value);
    buf_add_span(&reader->value, trimmed(span_from(line, len + 1)));
    reader->open = true;
    reader->setting_line = reader->line;
    return 0;
}

/* ---- lines ---- */

static int read_line(struct reader *reader, struct span line)
{
    struct span text = trimmed(line), header;
    size_t indent = (size_t)(text.data - line.data);
    if (text.len && (text.data[0] == '#' || text.data[0] == ';'))
        return 0;
    if (!text.len || (reader->open && indent > reader->indent)) {
        if (reader->open) {
            buf_add_char(&reader->value, '\n');
            buf_add_span(&reader->value, text);
        }
        return 0;
    }
    reader->indent = indent;
    int r = end_setting(reader);
    if (r < 0)
        return r;
    if (is_header(text, &header))
        return begin_section(reader, header);
    if (!reader->section)
        return refuse(reader, reader->line, "the line stands before the first [section]");
    return begin_setting(reader, text);
}

static int read_lines(struct reader *reader, struct span text)
{
    int r = 0;
    while (text.len && r == 0) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        reader->line++;
        r = read_line(reader, span_of(text.data, len));
        text = span_from(text, len + (end != NULL));
    }
    r = r ? r : end_setting(reader);
    return r ? r : buf_error(&reader->value) ? no_memory(reader) : 0;
}

int profile_read(enum profile_file file, struct span text, const char *path,
                 struct profile_text *ret_text, struct err *err)
{
    struct reader reader = {.file = file, .path = path, .text = ret_text, .err = err};
    if (!text_is_utf8(text, false) || (text.len && memchr(text.data, '\0', text.len)))
        return err_set(err, EINVAL, "%s: is no text (UTF-8)", path);
    int r = secret_buf_init(&reader.value, text.len + 2);
    r = r < 0 ? no_memory(&reader) : read_lines(&reader, text);
    secret_buf_release(&reader.value);
    return r;
}
