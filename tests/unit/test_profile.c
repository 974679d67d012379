/* SPDX-License-Identifier: MIT */
/* AWS's files: what botocore reads in them (vectors/make_profiles.py), and what is ours to say. */
#include "backend/dynamodb/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/dynamodb/reply.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "tests/check.h"

struct look {
    struct profiles *profiles;
    enum profile_kind kind;
    const char *name, *key;
};

static char *text_of(struct span raw)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    json_unescape(span_of(raw.data + 1, raw.len - 2), &text);
    return buf_take(&text, NULL);
}

static void check_value(const struct look *look, const char *subkey, struct span raw)
{
    cleanup_free char *want = text_of(raw);
    const char *got = profiles_get(look->profiles, look->kind, look->name, look->key, subkey);
    if (!got || strcmp(got, want) != 0)
        check_fail("%s: %s %s is \"%s\", not \"%s\"", look->name, look->key, subkey ? subkey : "",
                   got ? got : "(none)", want);
}

static int check_subsetting(void *context, struct span name, struct span raw)
{
    cleanup_free char *subkey = strndup(name.data, name.len);
    check_value(context, subkey, raw);
    return 0;
}

static int check_setting(void *context, struct span name, struct span raw)
{
    struct look *look = context;
    cleanup_free char *key = strndup(name.data, name.len);
    look->key = key;
    if (raw.data[0] == '{')
        reply_each_member(raw, check_subsetting, look);
    else
        check_value(look, NULL, raw);
    if (raw.data[0] == '{')
        check(!profiles_get(look->profiles, look->kind, look->name, key, NULL));
    return 0;
}

static int check_section(void *context, struct span name, struct span raw)
{
    struct look *look = context;
    cleanup_free char *copy = strndup(name.data, name.len);
    look->name = copy;
    if (!profiles_have(look->profiles, look->kind, copy))
        check_fail("there is no section %s", copy);
    return reply_each_member(raw, check_setting, look);
}

static int check_absent(void *context, struct span raw)
{
    struct look *look = context;
    cleanup_free char *name = text_of(raw);
    if (profiles_have(look->profiles, PROFILE_SECTION, name))
        check_fail("there is a profile %s", name);
    return 0;
}

static void check_sections(struct profiles *profiles, struct span text)
{
    static const char *const kinds[] = {"sections.profile", "sections.sso", "sections.services"};
    struct look look = {.profiles = profiles};
    struct span raw;
    for (unsigned i = 0; i < 3; i++) {
        look.kind = (enum profile_kind)i;
        if (reply_path(text, kinds[i], &raw))
            reply_each_member(raw, check_section, &look);
    }
    check(reply_member(text, "absent", &raw));
    reply_each(raw, check_absent, &look);
    check(!profiles_get(profiles, PROFILE_SECTION, "default", "not there", NULL));
}

static int run_case(void *context, struct span text)
{
    struct profiles *profiles = profiles_new();
    cleanup(buf_release) struct buf file;
    struct err err = {""};
    struct span raw;
    unsigned *cases = context;
    enum profile_file which =
        reply_text_is(text, "file", "config") ? PROFILE_CONFIG_FILE : PROFILE_CREDENTIALS_FILE;
    buf_init(&file, 1 << 20);
    reply_text(text, "text", &file);
    int r = profiles_parse(profiles, which, buf_span(&file), "/f", &err);
    int want = reply_member(text, "sections", &raw) ? 0 : -EINVAL;
    if (r != want)
        check_fail("%s: %d %s", file.data ? file.data : "", r, err.text);
    if (r == 0)
        check_sections(profiles, text);
    profiles_free(profiles);
    ++*cases;
    return 0;
}

static void test_vectors(void)
{
    cleanup(buf_release) struct buf text;
    FILE *file = fopen(TEST_DATA "/vectors/profiles.json", "rb");
    char chunk[4096];
    size_t got;
    unsigned cases = 0;
    buf_init(&text, 1 << 20);
    check(file != NULL);
    while (file && (got = fread(chunk, 1, sizeof chunk, file)) > 0)
        buf_add(&text, chunk, got);
    if (file)
        fclose(file);
    check_int(json_check(buf_span(&text), NULL, NULL), 0);
    reply_each(buf_span(&text), run_case, &cases);
    check_int(cases, 55);
}

static void check_refused(struct span text, const char *want)
{
    struct profiles *profiles = profiles_new();
    struct err err = {""};
    check_int(profiles_parse(profiles, PROFILE_CONFIG_FILE, text, "/f", &err), -EINVAL);
    check_text(span_text(err.text), want);
    profiles_free(profiles);
}

/* The place, and nothing of what stands there: it may be a secret. */
static void test_messages(void)
{
    check_refused(span_text("[default]\nk = v\nsecret\n"),
                  "/f:3: the line is no setting (KEY = VALUE)");
    check_refused(span_text("\nsecret = x\n"), "/f:2: the line stands before the first [section]");
    check_refused(span_text("[a]\n[b]\n[a]\n"), "/f:3: the section stands there twice");
    check_refused(span_text("[a]\nsecret = x\n\nsecret = y\n"),
                  "/f:4: the setting stands there twice");
    check_refused(span_text("[a]\nk = 1\ns3 =\n  a = b\n  secret\n\n"),
                  "/f:3: a line of this setting has no \"=\"");
    check_refused(span_text("[a]\nk = \xff\n"), "/f: is no text (UTF-8)");
    check_refused(span_of("[a]\nk = \0\n", 10), "/f: is no text (UTF-8)");
}

static void parse(struct profiles *profiles, enum profile_file file, const char *text)
{
    check_int(profiles_parse(profiles, file, span_text(text), "/f", NULL), 0);
}

static void check_profile(const struct profiles *profiles, const char *profile, const char *key,
                          const char *want)
{
    const char *got = profile_get(profiles, profile, key);
    if (!want ? got != NULL : !got || strcmp(got, want) != 0)
        check_fail("%s %s is %s, not %s", profile, key, got ? got : "(none)",
                   want ? want : "(none)");
}

/* The credentials file counts before the config file, setting by setting. */
static void test_both_files(void)
{
    struct profiles *profiles = profiles_new();
    parse(profiles, PROFILE_CONFIG_FILE, "[profile a]\nx = 1\ny = 2\n[profile b]\nx = 3\n");
    parse(profiles, PROFILE_CREDENTIALS_FILE, "[a]\nx = 4\nz = 5\n[c]\nx = 6\n");
    check_profile(profiles, "a", "x", "4");
    check_profile(profiles, "a", "y", "2");
    check_profile(profiles, "a", "z", "5");
    check_profile(profiles, "b", "x", "3");
    check_profile(profiles, "c", "x", "6");
    check_profile(profiles, "d", "x", NULL);
    check_text(span_text(profile_get_from(profiles, PROFILE_CONFIG_FILE, "a", "x")), "1");
    check(!profile_get_from(profiles, PROFILE_CONFIG_FILE, "a", "z"));
    check(!profile_get_from(profiles, PROFILE_CREDENTIALS_FILE, "a", "y"));
    parse(profiles, PROFILE_CREDENTIALS_FILE, "");
    check_profile(profiles, "a", "x", "1");
    profiles_free(profiles);
    profiles_free(NULL);
}

/* ---- files ---- */

static char directory[64];

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void test_places(void)
{
    char path[128];
    struct profiles *profiles;
    setenv("HOME", directory, 1);
    unsetenv("AWS_CONFIG_FILE");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "", 1);
    check_int(profiles_load(&profiles, NULL), 0);
    check(!profiles_have(profiles, PROFILE_SECTION, "default"));
    profiles_free(profiles);
    snprintf(path, sizeof path, "%s/.aws", directory);
    check_int(mkdir(path, 0700), 0);
    write_file(".aws/config", "[default]\nx = config\n");
    write_file(".aws/credentials", "[default]\ny = credentials\n");
    check_int(profiles_load(&profiles, NULL), 0);
    check_profile(profiles, "default", "x", "config");
    check_profile(profiles, "default", "y", "credentials");
    snprintf(path, sizeof path, "%s/.aws/config", directory);
    check_text(span_text(profiles_path(profiles, PROFILE_CONFIG_FILE)), path);
    profiles_free(profiles);
    write_file("other", "[default]\nx = other\n");
    setenv("AWS_CONFIG_FILE", "~/other", 1);
    check_int(profiles_load(&profiles, NULL), 0);
    check_profile(profiles, "default", "x", "other");
    profiles_free(profiles);
}

static void test_odd_files(void)
{
    struct profiles *profiles = NULL;
    struct err err = {""};
    char *large = malloc((1 << 20) + 2);
    setenv("AWS_CONFIG_FILE", directory, 1); /* a directory counts as none */
    check_int(profiles_load(&profiles, NULL), 0);
    profiles_free(profiles);
    memset(large, '#', (1 << 20) + 1);
    large[(1 << 20) + 1] = '\0';
    write_file("large", large);
    free(large);
    setenv("AWS_CONFIG_FILE", "~/large", 1);
    check_int(profiles_load(&profiles, &err), -EINVAL);
    check(strstr(err.text, "/large: larger than 1048576 bytes") != NULL);
    setenv("AWS_CONFIG_FILE", "/proc/self/mem", 1); /* there, but not to be read at its beginning */
    check_int(profiles_load(&profiles, NULL), 0);
    check_text(span_text(profiles_unreadable(profiles)), "/proc/self/mem: Input/output error");
    profiles_free(profiles);
}

static void begin(void)
{
    snprintf(directory, sizeof directory, "/tmp/test_profile.XXXXXX");
    check(mkdtemp(directory) != NULL);
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    check_int(system(command), 0);
}

CHECK_MAIN(CHECK_TEST(test_vectors), CHECK_TEST(test_messages), CHECK_TEST(test_both_files),
           CHECK_TEST(begin), CHECK_TEST(test_places), CHECK_TEST(test_odd_files), CHECK_TEST(end))
