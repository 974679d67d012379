/* SPDX-License-Identifier: MIT */
#include "backend/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "tests/check.h"

static char directory[64];

static void begin(void)
{
    snprintf(directory, sizeof directory, "/tmp/test_source.XXXXXX");
    check(mkdtemp(directory) != NULL);
}

static void end(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r %s", directory);
    check_int(system(command), 0);
}

static struct config *configured(const char *text)
{
    struct config *config = NULL;
    struct err err = {""};
    char path[128];

    snprintf(path, sizeof path, "%s/mount.conf", directory);
    if (config_parse(span_text(text), path, &config, &err) < 0)
        check_fail("%s", err.text);
    return config;
}

static struct source *opened(const struct config *config)
{
    struct source *source = NULL;
    struct err err = {""};

    if (source_open(config, true, &source, &err) < 0)
        check_fail("%s", err.text);
    return source;
}

static void make(struct backend *backend, const char *name, enum value_type type)
{
    struct table *table = table_new_default(span_text(name));
    struct err err = {""};

    table->partition.type = type;
    table->keys = type == VALUE_S ? KEYS_TAGS : KEYS_PLAIN;
    if (backend_create_table(backend, table, &err) < 0)
        check_fail("%s", err.text);
    table_free(table);
}

static int add_name(void *context, const struct table *table)
{
    buf_addf(context, "%s:%c ", table->name, table->keys == KEYS_TAGS ? 't' : 'p');
    return 0;
}

static void check_tables(struct source *source, const char *want)
{
    cleanup(buf_release) struct buf names;
    struct err err = {""};

    buf_init(&names, 4096);
    check_int(source_tables(source, add_name, &names, &err), 0);
    check_text(buf_span(&names), want);
}

static void check_place(struct source *source, const char *name, size_t place)
{
    struct backend *backend = NULL;
    struct table *table = NULL;
    struct err err = {""};

    check_int(source_table(source, span_text(name), &backend, &table, &err), 0);
    check(backend == source->backends[place]);
    table_free(table);
}

static void one_store(void)
{
    struct config *config = configured("");
    struct source *source = NULL;
    struct backend *backend;
    struct table *table;
    struct err err = {""};

    check_int(source_open(config, false, &source, &err), -ENOENT);
    check(source == NULL && err.text[0]);
    err_clear(&err);
    source = opened(config);
    check_tables(source, "");
    check_int(source_table(source, span_text("t"), &backend, &table, &err), -ENOENT);
    check_text(span_text(err.text), "there is no table \"t\"");
    make(source->backends[0], "t", VALUE_S);
    check_place(source, "t", 0);
    check(source_backend_for(source, span_text("new")) == source->backends[0]);
    source_close(source);
    source_close(NULL);
    config_free(config);
}

static void two_stores(void)
{
    struct config *config = configured("[backend a]\n[backend b]\n[table both]\nbackend = b\n"
                                       "[table elsewhere]\nbackend = b\n");
    struct source *source = opened(config);

    make(source->backends[0], "both", VALUE_N);
    make(source->backends[1], "both", VALUE_S);
    make(source->backends[0], "z", VALUE_S);
    make(source->backends[1], "a", VALUE_N);
    make(source->backends[0], "same", VALUE_S);
    make(source->backends[1], "same", VALUE_N);
    make(source->backends[0], "elsewhere", VALUE_S);
    check_tables(source, "a:p both:t elsewhere:t same:t z:t ");
    check_place(source, "both", 1);
    check_place(source, "same", 0);
    check_place(source, "a", 1);
    check_place(source, "elsewhere", 0); /* configured for b, but it is in a */
    check(source_backend_for(source, span_text("elsewhere")) == source->backends[1]);
    check(source_backend_for(source, span_text("new")) == source->backends[0]);
    source_close(source);
    config_free(config);
}

/* Settings of the configuration get into the store, for old tables and for new ones. */
static void settings_are_kept(void)
{
    struct config *config = configured("");
    struct source *source = opened(config);
    struct backend *backend = NULL;
    struct table *table = NULL;
    struct err err = {""};

    make(source->backends[0], "old", VALUE_S);
    source_close(source);
    config_free(config);

    config = configured("[table old]\nttl = gone\nkeys = plain\nformat = typed\n"
                        "[table new]\nstream = off\n");
    source = opened(config);
    check_int(backend_describe(source->backends[0], span_text("old"), &table, &err), 0);
    check_text(span_text(table->ttl_attribute), "gone");
    check_int(table->keys, KEYS_PLAIN);
    table_free(table);
    make(source->backends[0], "new", VALUE_S);
    check_int(source_table(source, span_text("new"), &backend, &table, &err), 0);
    check(!table->stream);
    table_free(table);
    check_int(backend_describe(backend, span_text("new"), &table, &err), 0);
    check(!table->stream);
    table_free(table);
    check_int(source_table(source, span_text("old"), &backend, &table, &err), 0);
    check(table->format == FORMAT_TYPED && table->show_keys);
    table_free(table);
    source_close(source);
    config_free(config);
}

/* A read-only source shows what the store has, and what concerns this mount alone. */
static void read_only(void)
{
    struct config *config = configured("");
    struct source *source = opened(config);
    struct backend *backend = NULL;
    struct table *table = NULL;
    struct err err = {""};

    make(source->backends[0], "t", VALUE_S);
    source_close(source);
    config_free(config);
    config = configured("[mount]\nread_only = yes\n[table t]\nkeys = plain\nttl = x\n"
                        "format = typed\n");
    source = opened(config);
    check_int(source_table(source, span_text("t"), &backend, &table, &err), 0);
    check_text(span_text(table->ttl_attribute), TABLE_TTL_DEFAULT);
    check(table->keys == KEYS_TAGS && !table->show_keys && table->format == FORMAT_TYPED);
    table_free(table);
    source_close(source);
    config_free(config);
}

/* Tag keys are for text: told when the source is opened, and no reason to hide other tables. */
static void impossible_setting(void)
{
    struct config *config = configured("[table n]\nkeys = tags\n");
    struct source *source = opened(config);
    struct backend *backend = NULL;
    struct table *table = NULL;
    struct err err = {""};

    make(source->backends[0], "n", VALUE_N);
    make(source->backends[0], "s", VALUE_S);
    check_tables(source, "n:p s:t ");
    check_int(source_table(source, span_text("n"), &backend, &table, &err), -EINVAL);
    check(err.text[0]);
    source_close(source);
    source = NULL;
    err_clear(&err);
    check_int(source_open(config, false, &source, &err), -EINVAL);
    check(err.text[0] && !source);
    config_free(config);
}

#define IN_DIRECTORY(test)                                                                         \
    static void test##_in_directory(void)                                                          \
    {                                                                                              \
        begin();                                                                                   \
        test();                                                                                    \
        end();                                                                                     \
    }
IN_DIRECTORY(one_store)
IN_DIRECTORY(two_stores)
IN_DIRECTORY(settings_are_kept)
IN_DIRECTORY(read_only)
IN_DIRECTORY(impossible_setting)

CHECK_MAIN(CHECK_TEST(one_store_in_directory), CHECK_TEST(two_stores_in_directory),
           CHECK_TEST(settings_are_kept_in_directory), CHECK_TEST(read_only_in_directory),
           CHECK_TEST(impossible_setting_in_directory))
