/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/dynamodb/profile_private.h"
#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/text.h"

#define FILE_BYTES_MAX (1u << 20)

struct profiles {
    struct profile_text files[PROFILE_FILES];
    char *paths[PROFILE_FILES];
    char *unreadable;
};

struct profiles *profiles_new(void)
{
    return calloc(1, sizeof(struct profiles));
}

static void section_release(struct profile_section *section)
{
    for (size_t i = 0; i < section->count; i++) {
        free(section->settings[i].key);
        free(section->settings[i].subkey);
        secret_free(section->settings[i].value);
    }
    free(section->settings);
    free(section->header);
    free(section->name);
}

static void text_release(struct profile_text *text)
{
    for (size_t i = 0; i < text->count; i++)
        section_release(&text->sections[i]);
    free(text->sections);
    *text = (struct profile_text){0};
}

void profiles_free(struct profiles *profiles)
{
    if (!profiles)
        return;
    for (int file = 0; file < PROFILE_FILES; file++) {
        text_release(&profiles->files[file]);
        free(profiles->paths[file]);
    }
    free(profiles->unreadable);
    free(profiles);
}

int profiles_parse(struct profiles *profiles, enum profile_file file, struct span text,
                   const char *path, struct err *err)
{
    text_release(&profiles->files[file]);
    return profile_read(file, text, path, &profiles->files[file], err);
}

/* ---- the files ---- */

static char *file_path(enum profile_file file)
{
    static const char *const variables[] = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"};
    static const char *const usual[] = {"~/.aws/credentials", "~/.aws/config"};
    const char *named = environment(variables[file]);
    return path_expand(named ? named : usual[file]);
}

static int load_file(struct profiles *profiles, enum profile_file file, struct err *err)
{
    cleanup(secret_buf_release) struct buf text = {0};
    struct err reason = {""};
    const char *path = profiles->paths[file] = file_path(file);
    if (!path)
        return err_set(err, ENOMEM, "no memory");
    int r = file_read(path, FILE_BYTES_MAX, &text, &reason);
    if (r == -ENOENT || r == -ENOTDIR || r == -EISDIR)
        return 0;
    if (r == -EFBIG || r == -ENOMEM)
        return err_set(err, r == -ENOMEM ? ENOMEM : EINVAL, "%s", reason.text);
    if (r < 0) {
        free(profiles->unreadable);
        profiles->unreadable = strdup(reason.text);
        return profiles->unreadable ? 0 : err_set(err, ENOMEM, "no memory");
    }
    return profiles_parse(profiles, file, buf_span(&text), path, err);
}

int profiles_load(struct profiles **ret_profiles, struct err *err)
{
    struct profiles *profiles = profiles_new();
    int r = 0;
    if (!profiles)
        return err_set(err, ENOMEM, "no memory");
    for (int file = 0; file < PROFILE_FILES && r == 0; file++)
        r = load_file(profiles, (enum profile_file)file, err);
    if (r < 0) {
        profiles_free(profiles);
        return r;
    }
    *ret_profiles = profiles;
    return 0;
}

const char *profiles_path(const struct profiles *profiles, enum profile_file file)
{
    return profiles->paths[file];
}

const char *profiles_unreadable(const struct profiles *profiles)
{
    return profiles->unreadable;
}

/* ---- look-up ---- */

/* [default] and [profile default] may both be there: as in botocore, the later one counts. */
static const struct profile_section *find(const struct profile_text *text, enum profile_kind kind,
                                          const char *name)
{
    for (size_t i = text->count; i > 0; i--) {
        const struct profile_section *section = &text->sections[i - 1];
        if (section->kind == kind && strcmp(section->name, name) == 0)
            return section;
    }
    return NULL;
}

static const char *get_in(const struct profile_section *section, const char *key,
                          const char *subkey)
{
    for (size_t i = section ? section->count : 0; i > 0; i--) {
        const struct profile_setting *setting = &section->settings[i - 1];
        if (strcmp(setting->key, key) == 0 && text_equal(setting->subkey, subkey))
            return setting->value;
    }
    return NULL;
}

static const char *get_from(const struct profile_text *text, enum profile_kind kind,
                            const char *name, const char *key, const char *subkey)
{
    const struct profile_section *section = find(text, kind, name);
    const char *value = get_in(section, key, subkey);
    return section && !value ? get_in(find(text, PROFILE_DEFAULTS, ""), key, subkey) : value;
}

bool profiles_have(const struct profiles *profiles, enum profile_kind kind, const char *name)
{
    for (int file = 0; file < PROFILE_FILES; file++)
        if (find(&profiles->files[file], kind, name))
            return true;
    return false;
}

const char *profiles_get(const struct profiles *profiles, enum profile_kind kind, const char *name,
                         const char *key, const char *subkey)
{
    const char *value = NULL;
    for (int file = 0; file < PROFILE_FILES && !value; file++)
        value = get_from(&profiles->files[file], kind, name, key, subkey);
    return value;
}

const char *profile_get_from(const struct profiles *profiles, enum profile_file file,
                             const char *profile, const char *key)
{
    return get_from(&profiles->files[file], PROFILE_SECTION, profile, key, NULL);
}
