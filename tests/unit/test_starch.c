/* SPDX-License-Identifier: MIT */
/* The codec of Starch's values, and its profile; tests/mounted/sessions.py has the vectors. */
#include <errno.h>

#include "backend/profile/choice.h"
#include "backend/profile/starch_codec.h"
#include "base/cleanup.h"
#include "base/item.h"
#include "tests/check.h"

#define PREFIX "__SERIALIZED__:"

static struct value plain(const char *text)
{
    struct value value = {0};
    struct err err = {""};

    if (value_from_plain(span_text(text), &value, &err) < 0)
        check_fail("%s: %s", text, err.text);
    return value;
}

static void check_value(const struct value *value, const char *typed)
{
    cleanup(buf_release) struct buf out;

    buf_init(&out, 65536);
    value_to_typed(value, &out);
    check_text(buf_span(&out), typed);
}

static void check_plain(const struct value *value, const char *want)
{
    cleanup(buf_release) struct buf out;

    buf_init(&out, 65536);
    value_to_plain(value, (struct value_style){.sort = true}, &out);
    check_text(buf_span(&out), want);
}

/* SHOWN is stored as TYPED, which is shown as BACK. */
static void check_both(const char *shown, const char *typed, const char *back)
{
    cleanup(value_release) struct value value = plain(shown);
    struct err err = {""};

    check_int(starch_store(&value, &err), 0);
    check_value(&value, typed);
    check_int(starch_show(&value, &err), 0);
    check_plain(&value, back);
    check_text(span_text(err.text), "");
}

static void values(void)
{
    check_both("null", "{\"S\":\"__UNDEF__\"}", "null");
    check_both("\"\"", "{\"S\":\"__EMPTY__\"}", "\"\"");
    check_both("true", "{\"S\":\"" PREFIX "true\"}", "true");
    check_both("[]", "{\"S\":\"" PREFIX "[]\"}", "[]");
    check_both("{ \"b\": [null, \"\", 1.50], \"a\": {} }",
               "{\"S\":\"" PREFIX "{\\\"a\\\":{},\\\"b\\\":[null,\\\"\\\",1.50]}\"}",
               "{\"a\":{},\"b\":[null,\"\",1.50]}");
    check_both("5", "{\"S\":\"5\"}", "\"5\"");
    check_both("-0", "{\"S\":\"-0\"}", "\"-0\"");
    check_both("1.5", "{\"N\":\"1.5\"}", "1.5");
    check_both("1e3", "{\"S\":\"1000\"}", "\"1000\"");
    check_both("-10.0", "{\"S\":\"-10\"}", "\"-10\"");
    check_both("15e-1", "{\"N\":\"1.5\"}", "1.5");
    check_both("\"text\"", "{\"S\":\"text\"}", "\"text\"");
    check_both("\"\xc3\xa9\"", "{\"S\":\"\xc3\xa9\"}", "\"\xc3\xa9\"");
    check_both("[\"\xc3\xa9\xe2\x82\xac\"]",
               "{\"S\":\"" PREFIX "[\\\"\xc3\x83\xc2\xa9\xc3\xa2\xc2\x82\xc2\xac\\\"]\"}",
               "[\"\xc3\xa9\xe2\x82\xac\"]");
    check_both("{\"$B\": \"AAE=\"}", "{\"B\":\"AAE=\"}", "{\"$B\":\"AAE=\"}");
    /* A member that looks like a form is one of the map, and shown as one. */
    check_both("{\"$M\": {\"$B\": \"AAE=\"}}", "{\"S\":\"" PREFIX "{\\\"$B\\\":\\\"AAE=\\\"}\"}",
               "{\"$M\":{\"$B\":\"AAE=\"}}");
}

static void check_refused(const char *shown)
{
    cleanup(value_release) struct value value = plain(shown);
    struct err err = {""};

    check_int(starch_store(&value, &err), -EINVAL);
    check(err.text[0] != '\0');
    check_plain(&value, shown); /* untouched */
}

static void ambiguous(void)
{
    check_refused("\"__UNDEF__\"");
    check_refused("\"__EMPTY__\"");
    check_refused("\"" PREFIX "\"");
    check_refused("\"" PREFIX "\\n\"");
    check_refused("\"" PREFIX "null\"");
    check_refused("\"" PREFIX "[1]\\n\"");
    check_refused("[{\"$B\":\"AAE=\"}]");
    check_refused("\"\\ud800\"");
    check_refused("[{\"a\":[\"x\\udfff\"]}]");
    check_refused("{\"\\ud800\":1}");
    check_both("\"" PREFIX "[1]\\n,\"", "{\"S\":\"" PREFIX "[1]\\n,\"}", "\"" PREFIX "[1]\\n,\"");
    check_both("\"" PREFIX "[1]\\n\\n\"", "{\"S\":\"" PREFIX "[1]\\n\\n\"}",
               "\"" PREFIX "[1]\\n\\n\"");
    check_both("\"__EMPTY__\\n\"", "{\"S\":\"__EMPTY__\\n\"}", "\"__EMPTY__\\n\"");
    check_both("\"__SERIALIZED__\"", "{\"S\":\"__SERIALIZED__\"}", "\"__SERIALIZED__\"");
}

static void check_unreadable(const char *text)
{
    cleanup(value_release) struct value value = {0};
    struct err err = {""};

    check_int(value_new_text(VALUE_S, span_text(text), &value), 0);
    check_int(starch_show(&value, &err), -EINVAL);
    check(strstr(err.text, PREFIX) != NULL);
}

static void unreadable(void)
{
    check_unreadable(PREFIX "nope");
    check_unreadable(PREFIX "[1");
    check_unreadable(PREFIX "[1]]");
    check_unreadable(PREFIX "\"\xe2\x82\xac\""); /* no byte */
    check_unreadable(PREFIX "\"\xc3\xa9\"");     /* a byte that is no UTF-8 */
    check_unreadable(PREFIX "\"\xc3\x83\"");     /* likewise */
    check_unreadable(PREFIX "{\"a\":1,\"a\":2}");
}

/* --- The profile --- */

static int64_t shown_ttl(const char *typed)
{
    struct profile_choice choice;
    struct profile_facts facts = {-1, false};
    cleanup(value_release) struct value item = {0};
    struct table *table = table_new(span_text("t"));

    check_int(profile_choose_named("starch", &choice, NULL), 0);
    check_int(profile_make_table(&choice, table, NULL), 0);
    const struct profile_table profiled = {
        .profile = choice.profile, .options = choice.options, .stored = table, .shown = table};
    check_int(value_map_from_typed(span_text(typed), &item, NULL), 0);
    check_int(choice.profile->show(&profiled, &item, &facts, NULL), 0);
    check(!value_member(&item, span_text("__STARCH_EXPIRATION__")));
    table_free(table);
    profile_choice_release(&choice);
    return facts.ttl;
}

static void expirations(void)
{
    static const struct {
        const char *value;
        int64_t ttl;
    } cases[] = {
        {"{\"N\":\"0\"}", 0},       {"{\"N\":\"100\"}", 100},  {"{\"S\":\"100\"}", 100},
        {"{\"N\":\"100.9\"}", 100}, {"{\"N\":\"0.5\"}", 1},    {"{\"N\":\"-5\"}", 1},
        {"{\"N\":\"-0.5\"}", 1},    {"{\"N\":\"1e3\"}", 1000}, {"{\"N\":\"1e40\"}", 0},
        {"{\"S\":\"soon\"}", 0},    {"{\"S\":\"0\"}", 0},      {"{\"BOOL\":true}", 0},
        {"{\"N\":\"0.0\"}", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char typed[200];
        snprintf(typed, sizeof typed, "{\"__STARCH_EXPIRATION__\":%s}", cases[i].value);
        int64_t ttl = shown_ttl(typed);
        if (ttl != cases[i].ttl)
            check_fail("%s expires at %lld", cases[i].value, (long long)ttl);
    }
    check_int(shown_ttl("{}"), 0);
}

/* An item is there in the second of its expiration. */
static void the_last_second(void)
{
    struct table table = {.ttl_whole = true};

    check(!item_gone(&table, 100, 100));
    check(item_gone(&table, 100, 101));
    check(!item_gone(&table, 0, 101));
    table.ttl_whole = false;
    check(item_gone(&table, 100, 100));
}

static void made_and_fitting(void)
{
    struct profile_choice choice;
    struct table *table = table_new(span_text("starch_states"));
    struct err err = {""};

    check_int(profile_choose_named("starch", &choice, &err), 0);
    check_int(profile_make_table(&choice, table, &err), 0);
    check_text(span_text(table->partition.name), "__STARCH_KEY__");
    check_text(span_text(table->ttl_attribute), "__STARCH_EXPIRATION__");
    check(table->read_units == 10 && table->write_units == 10 && table->ttl_whole);
    check(!table->eventual && !table_sorted(table) && table->keys == KEYS_PLAIN);
    check_text(span_text(choice.profile->first_read(choice.options)),
               "starch-store-dynamodb-initialization");
    table->partition.type = VALUE_N;
    check_int(choice.profile->fit(choice.options, table, &err), -EINVAL);
    check(strstr(err.text, "is no string") != NULL);
    table_free(table);
    profile_choice_release(&choice);
    check_int(profile_choose_named("perl", &choice, NULL), -EINVAL);
}

/* Each profile is found by its name, and its options have names of their own. */
static void every_profile(void)
{
    const struct profile *profile;

    for (size_t i = 0; (profile = profile_number(i)); i++) {
        struct profile_choice choice;
        check(profile_find(profile->name) == profile);
        check_int(profile_choose_named(profile->name, &choice, NULL), 0);
        profile_choice_release(&choice);
        for (const struct profile_option *a = profile->options; a->name; a++)
            for (const struct profile_option *b = profile->options; b < a; b++)
                check(strcmp(a->name, b->name) != 0);
    }
    check(profile_find("starch") != NULL);
    check(profile_find("") == NULL);
}

CHECK_MAIN(CHECK_TEST(values), CHECK_TEST(ambiguous), CHECK_TEST(unreadable),
           CHECK_TEST(expirations), CHECK_TEST(the_last_second), CHECK_TEST(made_and_fitting),
           CHECK_TEST(every_profile))
