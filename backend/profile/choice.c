/* SPDX-License-Identifier: MIT */
#include "backend/profile/choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config_value.h"

static size_t option_count(const struct profile *profile)
{
    size_t count = 0;

    while (profile->options[count].name)
        count++;
    return count;
}

static const struct profile_option *find_option(const struct profile *profile, const char *name)
{
    for (const struct profile_option *option = profile->options; option->name; option++)
        if (strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

static int put_text(struct profile_value *value, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        return -ENOMEM;
    free(value->text);
    value->text = copy;
    return 0;
}

static int put_option(const struct profile_option *option, struct profile_value *value,
                      const char *text, struct err *err)
{
    unsigned place;
    int r;

    switch (option->kind) {
    case OPTION_TEXT: return put_text(value, text);
    case OPTION_SWITCH: return config_value_bool(text, &value->on, err);
    case OPTION_COUNT:
        return config_value_count(text, option->least, option->most, &value->count, err);
    case OPTION_WORD:
        r = config_value_word(text, option->words, &place, err);
        if (r == 0)
            value->count = place;
        return r;
    }
    return -EINVAL;
}

/* All options of PROFILE as they are when nothing is said. */
static int choose(const struct profile *profile, struct profile_choice *ret_choice, struct err *err)
{
    struct profile_choice choice = {profile,
                                    calloc(option_count(profile) + 1, sizeof *choice.options)};
    int r = choice.options ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && profile->options[i].name; i++)
        if (profile->options[i].normal)
            r = put_option(&profile->options[i], &choice.options[i], profile->options[i].normal,
                           err);
    if (r < 0)
        profile_choice_release(&choice);
    else
        *ret_choice = choice;
    return r;
}

void profile_choice_release(struct profile_choice *choice)
{
    for (size_t i = 0; choice->options && choice->profile->options[i].name; i++)
        free(choice->options[i].text);
    free(choice->options);
    *choice = (struct profile_choice){NULL, NULL};
}

/* "starch, akka-journal" */
static void add_names(struct buf *out)
{
    const struct profile *profile;

    for (size_t i = 0; (profile = profile_number(i)); i++)
        buf_addf(out, "%s%s", i ? ", " : "", profile->name);
}

static int refuse_name(const char *name, struct err *err)
{
    cleanup(buf_release) struct buf names;

    buf_init(&names, 4096);
    add_names(&names);
    return err_set(err, EINVAL, "profile: there is no \"%s\"; there are %s", name,
                   buf_error(&names) ? "others" : names.data);
}

int profile_choose_named(const char *name, struct profile_choice *ret_choice, struct err *err)
{
    const struct profile *profile = profile_find(name);

    return profile ? choose(profile, ret_choice, err) : refuse_name(name, err);
}

static int apply_setting(struct profile_choice *choice, const struct profile_setting *setting,
                         struct err *err)
{
    const struct profile_option *option = find_option(choice->profile, setting->name);
    struct err reason = {""};

    if (!option)
        return err_set(err, EINVAL, "no key \"%s\" in [table] with profile = %s", setting->name,
                       choice->profile->name);
    int r = put_option(option, &choice->options[option - choice->profile->options], setting->value,
                       &reason);
    return r == -EINVAL ? err_set(err, EINVAL, "%s: %s", setting->name, reason.text) : r;
}

int profile_choose(const struct config *config, const struct table_config *settings,
                   struct profile_choice *ret_choice, struct err *err)
{
    struct profile_choice choice = {NULL, NULL};
    struct err reason = {""};
    unsigned line = settings->line;
    int r = settings->profile ? profile_choose_named(settings->profile, &choice, &reason) : 0;

    for (size_t i = 0; r == 0 && choice.profile && i < settings->profile_setting_count; i++) {
        line = settings->profile_settings[i].line;
        r = apply_setting(&choice, &settings->profile_settings[i], &reason);
    }
    if (r == 0 && choice.profile && choice.profile->check) {
        line = settings->line;
        r = choice.profile->check(choice.options, &reason);
    }
    if (r == 0) {
        *ret_choice = choice;
        return 0;
    }
    profile_choice_release(&choice);
    return err_set(err, -r, "%s:%u: [table %s]: %s", config->path ? config->path : "", line,
                   settings->name, err_text(&reason, r));
}

int profile_make_table(const struct profile_choice *choice, struct table *table, struct err *err)
{
    int r = choice->profile->make(choice->options, table, err);

    return r ? r : choice->profile->fit(choice->options, table, err);
}
