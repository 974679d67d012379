/* SPDX-License-Identifier: MIT */
/* Tables that mount.conf declares, and functions that are written into it. */
#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "tests/check.h"

static struct config *parsed(const char *text)
{
    struct config *config = NULL;
    struct err err = {""};
    int r = config_parse(span_text(text), "/etc/itemfs/m.conf", &config, &err);

    if (r < 0)
        check_fail("%s gives %d: %s", text, r, err.text);
    return config;
}

/* "NAME:KEY[:TYPE][,SORT[:TYPE]]" of each index of TABLE. */
static void check_shape(const struct table *table, const char *want)
{
    struct buf got;

    buf_init(&got, 4096);
    buf_addf(&got, "%s:%s", table->partition.name, value_type_name(table->partition.type));
    if (table->sort.name)
        buf_addf(&got, " %s:%s", table->sort.name, value_type_name(table->sort.type));
    for (size_t i = 0; i < table->index_count; i++)
        buf_addf(&got, " %s=%s,%s", table->indexes[i].name, table->indexes[i].partition.name,
                 table->indexes[i].sort.name ? table->indexes[i].sort.name : "");
    check_text(buf_span(&got), want);
    buf_release(&got);
}

static void declared(void)
{
    struct config *config =
        parsed("[table a]\nkey = id\nsort = at:N\nindex = by-user:uID\n"
               "index = by-day:day,at:N\nseed = data/a.json\ntypes = kernstack\n"
               "[table b]\nkeys = tags\nkey = k\n[table c]\nstream = off\n");
    struct table *a = table_new_default(span_text("a"));
    struct table *b = table_new_default(span_text("b"));
    struct table *c = table_new_default(span_text("c"));

    check_int(config_shape(config, a), 0);
    config_apply(config, a);
    check_shape(a, "id:S at:N by-user=uID, by-day=day,at");
    check(a->keys == KEYS_PLAIN && a->show_keys && a->types == NAMES_KERNSTACK && a->stream);
    check_text(span_text(config->tables[0].seed), "/etc/itemfs/data/a.json");
    check_int(config_shape(config, b), 0);
    check(b->keys == KEYS_PLAIN);
    config_apply(config, b);
    check_shape(b, "k:S");
    check(b->keys == KEYS_TAGS && !b->show_keys && b->types == NAMES_DYNAMODB);
    check_int(config_shape(config, c), 0);
    check_shape(c, "key:S");
    check(c->keys == KEYS_TAGS);
    table_free(a);
    table_free(b);
    table_free(c);
    config_free(config);
}

static void check_error(const char *text, const char *message)
{
    struct config *config = NULL;
    struct err err = {""};

    check_int(config_parse(span_text(text), "m.conf", &config, &err), -EINVAL);
    check_text(span_text(err.text), message);
    config_free(config);
}

static void bad_declarations(void)
{
    static const char alone[] = "m.conf: table a: sort, index and seed belong to a key";

    check_error("[table a]\nsort = at\n", alone);
    check_error("[table a]\nindex = i:x\n", alone);
    check_error("[table a]\nseed = x\n", alone);
    check_error("[table a]\nkey = id\nkey = id\n", "m.conf:3: key is set twice");
    check_error("[table a]\nkey = id:X\n",
                "m.conf:2: key: \"id:X\": the type behind \":\" must be S, N or B");
    check_error("[table a]\nkey = id\nindex = x\n",
                "m.conf:3: index: \"x\": an index is NAME:PK[:TYPE][,SK[:TYPE]]");
    check_error("[table a]\nkey = id\nindex = x:a\nindex = x:b\n",
                "m.conf: table a: two indexes are named \"x\"");
    check_error("[table a]\nkey = id\nsort = id\n",
                "m.conf: table a: \"id\" cannot be partition key and sort key at once");
    check_error("[table a]\nkey = id:N\nkeys = tags\n",
                "m.conf: table a: tag keys need a partition key of type S");
    check_error("[table a]\nkey = id\nttl = id\n",
                "m.conf: table a: \"id\" cannot be the time to live attribute");
    check_error("[table a]\ntypes = other\n",
                "m.conf:2: types: \"other\" is not known here; known: dynamodb, kernstack");
}

static void edit(const char *text, const char *table, const char *function, const char *want)
{
    struct buf got;
    struct err err = {""};

    buf_init(&got, 4096);
    int r =
        config_edit_function(span_text(text), "/etc/itemfs/m.conf", table, function, &got, &err);
    if (want) {
        check_int(r, 0);
        check_text(buf_span(&got), want);
    } else {
        check_int(r, -EINVAL);
        check(strstr(err.text, "a line cannot say that [table t] has the function"));
    }
    buf_release(&got);
}

static void editing_functions(void)
{
    edit("", "t", "exec:/bin/a", "[table t]\nfunction = exec:/bin/a\ntypes = kernstack\n");
    edit("[mount]\nquiet=yes", "t", "exec:/bin/a",
         "[mount]\nquiet=yes\n\n[table t]\nfunction = exec:/bin/a\ntypes = kernstack\n");
    edit("[table t] ; mine\nttl = x\n[table u]\n", "t", "exec:/bin/a b",
         "[table t] ; mine\nfunction = exec:/bin/a b\ntypes = kernstack\nttl = x\n[table u]\n");
    edit("[table t]", "t", "exec:/bin/a", "[table t]\nfunction = exec:/bin/a\ntypes = kernstack\n");
    edit("[table t]\ntypes = dynamodb\n", "t", "exec:/bin/a",
         "[table t]\nfunction = exec:/bin/a\ntypes = dynamodb\n");
    edit("[table u]\nfunction=exec:/bin/u\n[table t]\n  function : exec:/bin/a ; old\n", "t",
         "https://example.org/x",
         "[table u]\nfunction=exec:/bin/u\n[table t]\n  function : https://example.org/x ; "
         "old\ntypes = kernstack\n");
    edit("[table t]\nfunction = exec:/bin/a", "t", "exec:/bin/b",
         "[table t]\nfunction = exec:/bin/b\ntypes = kernstack\n");
    edit("[table t]\nfunction = exec:/bin/a\nttl = x\ntypes = dynamodb\n", "t", "exec:/bin/b",
         "[table t]\nfunction = exec:/bin/b\nttl = x\ntypes = dynamodb\n");
    edit("[table t]\n", "t", "exec:/bin/a ;x", NULL);
    edit("[table t]\n", "t", "exec:/bin/a \n[mount]", NULL);
    edit("[table t]\nfunction = https://example.org\nfunction_secret_file = x\n", "t",
         "exec:/bin/a", NULL);
}

CHECK_MAIN(CHECK_TEST(declared), CHECK_TEST(bad_declarations), CHECK_TEST(editing_functions))
