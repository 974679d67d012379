/* SPDX-License-Identifier: MIT */
/* What mount.conf says of profiles. */
#include "backend/profile/choice.h"

#include <errno.h>

#include "tests/check.h"

static struct config *parsed(const char *text)
{
    struct config *config = NULL;
    struct err err = {""};

    if (config_parse(span_text(text), "m.conf", &config, &err) < 0)
        check_fail("%s", err.text);
    return config;
}

/* Keys that are none of ours are kept for the profile, which says whether they are its own. */
static void kept(void)
{
    struct config *config = parsed("[table a]\nkey_field = k\nprofile = starch\nother = 1\n"
                                   "[table b]\n");
    const struct table_config *a = &config->tables[0];

    check_text(span_text(a->profile), "starch");
    check_int(a->line, 1);
    check_int(a->profile_setting_count, 2);
    check_text(span_text(a->profile_settings[0].name), "key_field");
    check_text(span_text(a->profile_settings[0].value), "k");
    check_int(a->profile_settings[0].line, 2);
    check_int(a->profile_settings[1].line, 4);
    check(!config->tables[1].profile && config->tables[1].profile_setting_count == 0);
    config_free(config);
}

static void check_refused(const char *text, const char *message)
{
    struct config *config = NULL;
    struct err err = {""};

    check_int(config_parse(span_text(text), "m.conf", &config, &err), -EINVAL);
    check_text(span_text(err.text), message);
}

static void refused(void)
{
    check_refused("[table a]\nstream = on\nother = 1\n", "m.conf:3: no key \"other\" in [table]");
    check_refused("[table a]\nprofile = x\no = 1\no = 2\n", "m.conf:4: o is set twice");
    check_refused("[table a]\nprofile = x\nprofile = y\n", "m.conf:3: profile is set twice");
    check_refused("[table a]\nprofile = x\no =\n", "m.conf:3: o has no value");
    check_refused(
        "[table a]\nprofile = x\nttl = t\n",
        "m.conf: table a: key, sort, index, keys, tag_rule, show_keys, format and ttl are "
        "what its profile says");
    check_refused(
        "[table a]\nprofile = x\nkey = k\n",
        "m.conf: table a: key, sort, index, keys, tag_rule, show_keys, format and ttl are "
        "what its profile says");
    check_refused("[mount]\nother = 1\n", "m.conf:2: no key \"other\" in [mount]");
}

static void chosen(void)
{
    struct config *config = parsed("[table a]\nprofile = starch\nkey_field = k\n"
                                   "consistent_read = no\n[table b]\n");
    struct profile_choice choice = {NULL, NULL};
    struct err err = {""};

    check_int(profile_choose(config, &config->tables[0], &choice, &err), 0);
    check_text(span_text(choice.profile->name), "starch");
    check_text(span_text(choice.options[0].text), "k");
    check_text(span_text(choice.options[1].text), "__STARCH_EXPIRATION__");
    check(!choice.options[2].on && choice.options[3].on);
    profile_choice_release(&choice);
    check_int(profile_choose(config, &config->tables[1], &choice, &err), 0);
    check(!choice.profile);
    config_free(config);
}

CHECK_MAIN(CHECK_TEST(kept), CHECK_TEST(refused), CHECK_TEST(chosen))
