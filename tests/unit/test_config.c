/* SPDX-License-Identifier: MIT */
#include "base/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/item.h"
#include "tests/check.h"

static struct config *parsed(const char *text)
{
    struct config *config = NULL;
    struct err err = {""};
    int r = config_parse(span_text(text), "/etc/itemfs/mount.conf", &config, &err);

    if (r < 0)
        check_fail("%s gives %d: %s", text, r, err.text);
    return config;
}

static void check_error(const char *text, const char *message)
{
    struct config *config = NULL;
    struct err err = {""};

    check_int(config_parse(span_text(text), "m.conf", &config, &err), -EINVAL);
    check_text(span_text(err.text), message);
    check(!config);
    config_free(config);
}

static void defaults(void)
{
    struct config *config = parsed("");

    check_int(config->cache_size, 32 << 20);
    check(config->cache_ttl == 1 && config->rename_grace == 3 && config->stream_poll == 1);
    check_int(config->umask, 022);
    check_int(config->max_item_size, ITEM_SIZE_DEFAULT);
    check_int(config->log_level, LOG_LEVEL_INFO);
    check(!config->has_uid && !config->has_gid && !config->allow_other && !config->read_only);
    check_int(config->backend_count, 1);
    check_text(span_text(config->backends[0].name), "store");
    check_text(span_text(config->backends[0].path), "/etc/itemfs/items.db");
    check_int(config->table_count, 0);
    config_free(config);
}

static void every_mount_key(void)
{
    struct config *config = parsed("[mount]\ncache_size = 2G\ncache_ttl: 0.25\nstate_dir = s\n"
                                   "uid=0\ngid = 4294967294\numask = 077\nallow_other = on\r\n"
                                   "read_only=yes\n  quiet = true ; why\nmax_item_size=1K\n"
                                   "rename_grace = 0\nstream_poll = 0.1\nlog_level=debug");

    check_int(config->cache_size, 2LL << 30);
    check(config->cache_ttl == 0.25 && config->rename_grace == 0 && config->stream_poll == 0.1);
    check_text(span_text(config->state_dir), "/etc/itemfs/s");
    check(config->has_uid && config->uid == 0 && config->has_gid && config->gid == 4294967294u);
    check_int(config->umask, 077);
    check(config->allow_other && config->read_only && config->quiet);
    check_int(config->max_item_size, 1024);
    check_int(config->log_level, LOG_LEVEL_DEBUG);
    config_free(config);
}

static void backends_and_tables(void)
{
    struct config *config = parsed("\xef\xbb\xbf"
                                   "[backend a]\n[backend b-2]\ntype=sqlite\npath=/x/y.db\n"
                                   "[ table  my table ] # note\nbackend = b-2\nkeys = tags\n"
                                   "tag_rule = strict\nshow_keys = no\nformat = typed\n"
                                   "ttl = expires at\nstream = off\n[table a]b]\nttl=none\n");
    const struct table_config *table = config_table(config, span_text("my table"));

    check_int(config->backend_count, 2);
    check_text(span_text(config->backends[0].path), "/etc/itemfs/a.db");
    check_text(span_text(config->backends[1].path), "/x/y.db");
    check(table && config->table_count == 2);
    check_text(span_text(table->backend), "b-2");
    check(table->has_keys && table->keys == KEYS_TAGS && table->has_strict_tags &&
          table->strict_tags && table->has_show_keys && !table->show_keys && table->has_format &&
          table->format == FORMAT_TYPED && table->has_stream && !table->stream);
    check_text(span_text(table->ttl), "expires at");
    table = config_table(config, span_text("a]b"));
    check(table && table->has_ttl && !table->ttl && !table->has_keys);
    check(!config_table(config, span_text("a")));
    config_free(config);
}

static void errors_name_the_line(void)
{
    check_error("cache_size = 1\n", "m.conf:1: \"cache_size\" stands before the first section");
    check_error("[mount]\n\n# c\ncash = 1\n", "m.conf:4: no key \"cash\" in [mount]");
    check_error("[mount]\npath = x\n", "m.conf:2: no key \"path\" in [mount]");
    check_error("[mount]\nuid = 1\nuid = 1\n", "m.conf:3: uid is set twice");
    check_error("[mount]\n[mount]\n", "m.conf:2: a second [mount]");
    check_error("[mount x]\n", "m.conf:1: [mount] has no name");
    check_error("[backend a]\n[backend a]\n", "m.conf:2: a second [backend a]");
    check_error("[backend]\n",
                "m.conf:1: a backend needs a name of letters, digits, \"-\" and \"_\"");
    check_error("[backend a/b]\n",
                "m.conf:1: a backend needs a name of letters, digits, \"-\" and \"_\"");
    check_error("[table t]\n[table t]\n", "m.conf:2: a second [table t]");
    check_error("[tables]\n", "m.conf:1: no section [tables]; there are [mount], [backend NAME], "
                              "[table NAME]");
    check_error("[mount\n", "m.conf:1: a section is written [NAME]");
    check_error("[mount] x\n", "m.conf:1: a section is written [NAME]");
    check_error("[mount]\nquiet\n",
                "m.conf:2: the line is no [section], no \"key = value\" and no comment");
    check_error("[mount]\nquiet =\n", "m.conf:2: quiet has no value");
    check_error("[table t]\nstream = on\nbackend = x\n[mount]\n",
                "m.conf:3: backend: there is no [backend x]");
    check_error("[backend a]\npath=s\n[backend b]\npath=s\n",
                "m.conf: backends a and b have the same path");
}

static void bad_values(void)
{
    static const struct {
        const char *line, *reason;
    } cases[] = {
        {"cache_size = 12X",
         "cache_size: \"12X\" is no size; write bytes, or a number with K, M or G"},
        {"cache_size = -1",
         "cache_size: \"-1\" is no size; write bytes, or a number with K, M or G"},
        {"cache_size = K", "cache_size: \"K\" is no size; write bytes, or a number with K, M or G"},
        {"cache_size = 99999999999999999999G",
         "cache_size: \"99999999999999999999G\" is too large; the most is 1099511627776 bytes"},
        {"max_item_size = 513M",
         "max_item_size: \"513M\" is too large; the most is 536870912 bytes"},
        {"max_item_size = 0", "max_item_size: \"0\" is too small; the least is 1 bytes"},
        {"cache_ttl = 1e3", "cache_ttl: \"1e3\" is no number of seconds"},
        {"cache_ttl = 1.", "cache_ttl: \"1.\" is no number of seconds"},
        {"cache_ttl = 31536001", "cache_ttl: \"31536001\" seconds are more than a year"},
        {"stream_poll = 0.09", "stream_poll: \"0.09\" is no number of seconds from 0.1 to 60"},
        {"stream_poll = 60.1", "stream_poll: \"60.1\" is no number of seconds from 0.1 to 60"},
        {"stream_poll = 1s", "stream_poll: \"1s\" is no number of seconds"},
        {"uid = root", "uid: \"root\" is no user or group number"},
        {"uid = 4294967295", "uid: \"4294967295\" is no user or group number"},
        {"umask = 0888", "umask: \"0888\" is no octal number up to 777"},
        {"umask = 1000", "umask: \"1000\" is no octal number up to 777"},
        {"quiet = maybe", "quiet: \"maybe\" is neither yes nor no"},
        {"log_level = all",
         "log_level: \"all\" is not known here; known: error, warning, info, debug"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], message[256];

        snprintf(text, sizeof text, "[mount]\n%s\n", cases[i].line);
        snprintf(message, sizeof message, "m.conf:2: %s", cases[i].reason);
        check_error(text, message);
    }
    check_error("[backend a]\ntype = mysql\n",
                "m.conf:2: type: \"mysql\" is not known here; known: sqlite, dynamodb, "
                "folder");
    check_error("[backend a]\ntype = dynamodb\npath = x.db\n",
                "m.conf: backend a: a service has no path");
    check_error("[backend a]\nregion = eu-west-1\n",
                "m.conf: backend a: region, endpoint, profile, ca_file, tables and segments belong "
                "to type = dynamodb");
    check_error("[backend a]\ntype = dynamodb\nsegments = 65\n",
                "m.conf:3: segments: \"65\" is no number from 1 to 64");
    check_error("[backend a]\ntype = dynamodb\nsegments = 2x\n",
                "m.conf:3: segments: \"2x\" is no number from 1 to 64");
    check_error("[backend a]\npath = \"a.db\"\n", "m.conf:2: path: \"a.db\" has a quote at an end; "
                                                  "values are written without quotes");
    check_error("[mount]\nstate_dir = s'\n", "m.conf:2: state_dir: s' has a quote at an end; "
                                             "values are written without quotes");
    check_error("[table t]\nkeys = tag\n",
                "m.conf:2: keys: \"tag\" is not known here; known: plain, tags");
}

static void folders(void)
{
    struct config *config = parsed("[backend a]\ntype = folder\npath = db\n"
                                   "[backend b]\ntype = folder\nreplicas = /x/a , b\n"
                                   "layout = table\nfsync = always\nreplica_timeout = 0.5\n");
    const struct backend_config *a = &config->backends[0], *b = &config->backends[1];

    check(a->type == BACKEND_TYPE_FOLDER && a->path == NULL && a->replicas.count == 1);
    check(strcmp(strrchr(a->replicas.paths[0], '/'), "/db") == 0 && a->replicas.paths[0][0] == '/');
    check(a->layout == LAYOUT_AUTO && !a->fsync_always && a->replica_timeout == 5);
    check_int(b->replicas.count, 2);
    check_text(span_text(b->replicas.paths[0]), "/x/a");
    check(strcmp(strrchr(b->replicas.paths[1], '/'), "/b") == 0);
    check(b->layout == LAYOUT_TABLE && b->fsync_always && b->replica_timeout == 0.5);
    config_free(config);
}

static void bad_folders(void)
{
    check_error("[backend a]\ntype = folder\n",
                "m.conf: backend a: a folder needs path, replicas or config");
    check_error("[backend a]\ntype = folder\npath = x\nreplicas = y\n",
                "m.conf: backend a: either path, replicas or config");
    check_error("[backend a]\ntype = folder\nconfig = x\nenvironment = e\nreplicas = y\n",
                "m.conf: backend a: either path, replicas or config");
    check_error("[backend a]\ntype = folder\nconfig = x\n",
                "m.conf: backend a: config and environment go together");
    check_error("[backend a]\ntype = folder\npath = x\nenvironment = e\n",
                "m.conf: backend a: config and environment go together");
    check_error("[backend a]\ntype = folder\nconfig = x\nenvironment = e\nlayout = tables\n",
                "m.conf: backend a: what config names is the folder of one table (layout = table)");
    check_error("[backend a]\nfsync = asked\n",
                "m.conf: backend a: replicas, config, environment, layout, fsync and "
                "replica_timeout belong to type = folder");
    check_error("[backend a]\ntype = folder\nreplicas = /x,\n",
                "m.conf:3: replicas: a name is missing beside a comma");
    check_error("[backend a]\ntype = folder\nreplicas = /x, /x\n",
                "m.conf:3: replicas: /x stands there twice");
    check_error("[backend a]\ntype = folder\nreplicas = \"/x\"\n",
                "m.conf:3: replicas: \"/x\": values are written without quotes");
    check_error("[backend a]\ntype = folder\npath = x\nlayout = both\n",
                "m.conf:4: layout: \"both\" is not known here; known: auto, tables, table");
    check_error("[backend a]\ntype = folder\npath = x\nregion = r\n",
                "m.conf: backend a: region, endpoint, profile, ca_file, tables and segments belong "
                "to type = dynamodb");
}

static void budgets(void)
{
    struct config *config = parsed("[backend a]\n[backend b]\ntype = dynamodb\nread_units = 25\n"
                                   "write_units = 0.5\n[table t]\nread_units = 1000000000\n"
                                   "[table u]\nbackend = b\nwrite_units = 00.001\n[table v]\n");
    struct err err = {""};

    check(config->backends[0].read_units == 0 && config->backends[0].write_units == 0);
    check(config->backends[1].read_units == 25 && config->backends[1].write_units == 0.5);
    check(config->tables[0].read_units == 1e9 && config->tables[0].write_units == 0);
    check(config->tables[1].read_units == 0 && config->tables[1].write_units == 0.001);
    check(config->tables[2].read_units == 0 && config->tables[2].write_units == 0);
    check_int(config_option(config, "read_units=7.5", &err), 0);
    check(config->backends[1].read_units == 7.5 && config->backends[0].read_units == 0);
    check_int(config_option(config, "write_units=none", &err), -EINVAL);
    check_text(span_text(err.text), "write_units: \"none\" is no number of units a second above 0");
    config_free(config);
    config = parsed("");
    err_clear(&err);
    check_int(config_option(config, "write_units=1", &err), -EINVAL);
    check_text(span_text(err.text), "write_units: no backend of the source is of type dynamodb");
    config_free(config);
}

static void bad_budgets(void)
{
    static const char *const values[] = {"0", "0.0", "-1", "1e3", "5.", ".5", "many", "1 2", "+1"};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[256], message[256];

        snprintf(text, sizeof text, "[backend a]\ntype = dynamodb\nread_units = %s\n", values[i]);
        snprintf(message, sizeof message,
                 "m.conf:3: read_units: \"%s\" is no number of units a second above 0", values[i]);
        check_error(text, message);
    }
    check_error(
        "[table a]\nwrite_units = 1000000001\n",
        "m.conf:2: write_units: \"1000000001\" is too large; the most is 1000000000 units a "
        "second");
    check_error("[backend a]\nread_units = 5\n",
                "m.conf: backend a: read_units and write_units belong to type = dynamodb");
    check_error("[backend a]\n[backend b]\ntype = dynamodb\n[table t]\nbackend = a\n"
                "write_units = 5\n",
                "m.conf: table t: read_units and write_units belong to type = dynamodb");
    check_error("[table t]\nread_units = 5\n",
                "m.conf: table t: read_units and write_units belong to type = dynamodb");
    check_error("[mount]\nread_units = 5\n", "m.conf:2: no key \"read_units\" in [mount]");
}

static void functions(void)
{
    struct config *config = parsed("[table a]\nfunction = https://h/p?q=1\nfunction_timeout = 0.5\n"
                                   "function_retry=2\nfunction_batch = 7\n"
                                   "function_secret_file = s\nfunction_ca_file = /ca.pem\n"
                                   "[table b]\nfunction = exec:/bin/p \"a b\" ; a comment\n"
                                   "[table c]\n");
    const struct table_config *a = &config->tables[0], *b = &config->tables[1];

    check_int(a->function.kind, FUNCTION_HTTP);
    check_text(span_text(a->function.url), "https://h/p?q=1");
    check(a->function_timeout == 0.5 && a->function_retry == 2 && a->function_batch == 7);
    check_text(span_text(a->function_secret_file), "/etc/itemfs/s");
    check_text(span_text(a->function_ca_file), "/ca.pem");
    check_int(b->function.kind, FUNCTION_PROGRAM);
    check_text(span_text(b->function.arguments[1]), "a b");
    check(!b->function.arguments[2]);
    check(b->function_timeout == 30 && b->function_retry == 1 && b->function_batch == 100);
    check(!b->function_secret_file && !b->function_ca_file);
    check_int(config->tables[2].function.kind, FUNCTION_NONE);
    config_free(config);
}

static void bad_functions(void)
{
    check_error("[table t]\nfunction = ftp://h/\n",
                "m.conf:2: function: a function is https://..., "
                "http://... or exec:/PATH/PROGRAM");
    check_error("[table t]\nfunction = exec:bin/p\n",
                "m.conf:2: function: exec: wants the whole path of a program: exec:/PATH/PROGRAM");
    check_error("[table t]\n\nfunction = http://example.com/\n",
                "m.conf:3: function: http:// to example.com, which is not this machine, a private "
                "address or a name of one word: use https://");
    check_error("[table t]\nfunction = https://h/\nfunction_batch = 101\n",
                "m.conf:3: function_batch: \"101\" is no number from 1 to 100");
    check_error("[table t]\nfunction = https://h/\nfunction_timeout = 0\n",
                "m.conf:3: function_timeout: \"0\" is no number of seconds from 0.01 to 3600");
    check_error("[table t]\nfunction = https://h/\nfunction_retry = 3601\n",
                "m.conf:3: function_retry: \"3601\" is no number of seconds from 0.01 to 3600");
    check_error("[table t]\nfunction_retry = 1\n",
                "m.conf: table t: function_* belongs to a function");
    check_error("[table t]\nfunction = exec:/bin/p\nfunction_secret_file = s\n",
                "m.conf: table t: function_secret_file and function_ca_file belong to a URL");
    check_error("[table t]\nfunction = exec:/bin/p\nfunction_ca_file = s\n",
                "m.conf: table t: function_secret_file and function_ca_file belong to a URL");
}

/* Lines that inih would cut or stop at are refused as a whole. */
static void bad_lines(void)
{
    cleanup(buf_release) struct buf text;
    struct config *config = NULL;
    struct err err = {""};

    buf_init(&text, 4096);
    buf_add_text(&text, "[mount]\n#");
    while (text.len < 8 + 1023)
        buf_add_char(&text, 'x');
    buf_add_text(&text, "\nuid = 5\n");
    check_int(config_parse(buf_span(&text), "m.conf", &config, &err), 0);
    check(config && config->uid == 5);
    config_free(config);
    config = NULL;
    buf_splice(&text, 9, 0, span_text("y"));
    check_int(config_parse(buf_span(&text), "m.conf", &config, &err), -EINVAL);
    check_text(span_text(err.text), "m.conf:2: the line is longer than 1023 bytes");
    err_clear(&err);
    check_int(config_parse(span_of("[mount]\nuid\0 = 1\n", 17), "m.conf", &config, &err), -EINVAL);
    check_text(span_text(err.text), "m.conf:2: the line holds a NUL byte");
}

/* Every line of the example parses when it is switched on, and it names every key. */
static void example(void)
{
    cleanup(buf_release) struct buf text;
    FILE *file = fopen(TEST_DATA "/../mount.conf.example", "r");
    size_t lines[96] = {0}, known = 0;
    const char *section, *name;
    char line[1024], current[64] = "";

    check(file != NULL);
    buf_init(&text, 1 << 16);
    while (file && fgets(line, sizeof line, file)) {
        char *body = line[0] == '#' && line[1] != ' ' && line[1] != '\n' ? line + 1 : line;

        buf_add_text(&text, body);
        sscanf(body, "[%63[a-z]", current);
        for (size_t i = 0; (name = config_key(i, &section)); i++)
            if (body[0] != '#' && strncmp(body, name, strlen(name)) == 0 &&
                strncmp(body + strlen(name), " = ", 3) == 0 && strcmp(section, current) == 0)
                lines[i]++;
    }
    if (file)
        fclose(file);
    for (; (name = config_key(known, &section)); known++)
        if (strcmp(name, "profile") == 0 ? !lines[known] /* several profiles */
                                         : lines[known] != (strcmp(name, "type") == 0 ? 4 : 1))
            check_fail("the example has %zu lines for %s in [%s]", lines[known], name, section);
    check_int(known, 54);
    check(!buf_error(&text));
    config_free(parsed(text.data));
}

static void keeping(void)
{
    struct config *config = parsed("[table a]\nkeep_seconds=86400\nkeep_min=0\nkeep_max=10\n"
                                   "[table b]\n");

    check_int(config->tables[0].keep_seconds, 86400);
    check_int(config->tables[0].keep_min, 0);
    check_int(config->tables[0].keep_max, 10);
    check_int(config->tables[1].keep_seconds, 0);
    check_int(config->tables[1].keep_max, 0);
    config_free(config);
}

static void bad_keeping(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[table t]\nkeep_min=1\n", "m.conf: table t: keep_min and keep_max go "
                                    "together"},
        {"[table t]\nkeep_max=1\n", "m.conf: table t: keep_min and keep_max go "
                                    "together"},
        {"[table t]\nkeep_min=5\nkeep_max=5\n", "m.conf: table t: keep_min must be below keep_max"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_error(cases[i].text, cases[i].message);
}

static void options(void)
{
    struct config *config = parsed("");
    struct err err = {""};

    check_int(config_option(config, "uid=1000", &err), 0);
    check(config->has_uid && config->uid == 1000);
    check_int(config_option(config, "ro", &err), 0);
    check(config->read_only);
    check_int(config_option(config, "allow_other", &err), 0);
    check(config->allow_other);
    check_int(config_option(config, "cache_size=64M", &err), 0);
    check_int(config->cache_size, 64 << 20);
    check_int(config_option(config, "state_dir=/a/b", &err), 0);
    check_text(span_text(config->state_dir), "/a/b");
    check_int(config_option(config, "rw", &err), 1);
    check_int(config_option(config, "max_read=4096", &err), 1);
    check_text(span_text(err.text), "");
    check_int(config_option(config, "uid", &err), -EINVAL);
    check_text(span_text(err.text), "uid has no value");
    err_clear(&err);
    check_int(config_option(config, "cache_size=much", &err), -EINVAL);
    check_text(span_text(err.text),
               "cache_size: \"much\" is no size; write bytes, or a number with K, M or G");
    config_free(config);
}

static void check_source(const char *source, int want, const char *message)
{
    struct config *config = NULL;
    struct err err = {""};

    check_int(config_from_source(source, &config, &err), want);
    check_text(span_text(err.text), message);
    config_free(config);
}

static void sources(void)
{
    char directory[] = "/tmp/test_config.XXXXXX", path[64], want[128];
    struct config *config = NULL;
    struct err err = {""};
    FILE *file;

    check(mkdtemp(directory) && chdir(directory) == 0);
    check_source("", -EINVAL, "the source is empty");
    check_source("absent/", -ENOENT, "absent/: No such file or directory");
    check_int(config_from_source("./", &config, &err), 0);
    check_int(config->backends[0].type, BACKEND_TYPE_FOLDER);
    check_text(span_text(config->backends[0].name), "folder");
    check(config->backends[0].path == NULL && config->backends[0].replicas.count == 1);
    check_text(span_text(config->backends[0].replicas.paths[0]), directory);
    check(config->backends[0].replica_timeout == 5 && !config->backends[0].fsync_always);
    config_free(config);
    check_source("items", -ENOENT, "items: there is no such file; a new store is named FILE.db");
    check_source("dynamodb:eu-central-1/", -EINVAL,
                 "dynamodb:eu-central-1/: a table's name is missing behind \"/\"");
    check_source("no.conf", -ENOENT, "no.conf: No such file or directory");
    check_int(config_from_source("new.db", &config, &err), 0);
    snprintf(want, sizeof want, "%s/new.db", directory);
    check_text(span_text(config->backends[0].path), want);
    check_text(span_text(config->backends[0].name), "store");
    config_free(config);

    snprintf(path, sizeof path, "%s/a.conf", directory);
    file = fopen(path, "w");
    check(file && fputs("[backend x]\npath = d/x.db\n[mount]\nuid = me\n", file) >= 0);
    fclose(file);
    check_source("a.conf", -EINVAL, "a.conf:4: uid: \"me\" is no user or group number");
    file = fopen(path, "w");
    check(file && fputs("[backend x]\npath = d/x.db\n", file) >= 0);
    fclose(file);
    config = NULL;
    check_int(config_from_source("a.conf", &config, &err), 0);
    snprintf(want, sizeof want, "%s/d/x.db", directory);
    check_text(span_text(config->backends[0].path), want);
    config_free(config);
    unlink(path);
    check(chdir("/") == 0 && rmdir(directory) == 0);
}

static void services(void)
{
    struct config *config = NULL;
    struct err err = {""};

    check_int(config_from_source("dynamodb:eu-central-1/orders", &config, &err), 0);
    check_int(config->backend_count, 1);
    check_int(config->backends[0].type, BACKEND_TYPE_DYNAMODB);
    check_text(span_text(config->backends[0].region), "eu-central-1");
    check_text(span_text(config->backends[0].tables), "orders");
    check(!config->backends[0].path);
    check_int(config_option(config, "endpoint=http://localhost:8000", &err), 0);
    check_text(span_text(config->backends[0].endpoint), "http://localhost:8000");
    check_int(config_option(config, "profile=work", &err), 0);
    check_text(span_text(config->backends[0].profile), "work");
    config_free(config);
    check_int(config_from_source("dynamodb:", &config, &err), 0);
    check(!config->backends[0].region && !config->backends[0].tables);
    config_free(config);
    config = parsed("[backend a]\n[backend b]\ntype=dynamodb\nregion=r\ntables=x, y\n");
    check_text(span_text(config->backends[0].path), "/etc/itemfs/a.db");
    check_text(span_text(config->backends[1].tables), "x, y");
    check_int(config_option(config, "region=s", &err), 0);
    check_text(span_text(config->backends[1].region), "s");
    check(!config->backends[0].region);
    config_free(config);
    config = parsed("");
    check_int(config_option(config, "profile=work", &err), -EINVAL);
    check_text(span_text(err.text), "profile: no backend of the source is of type dynamodb");
    config_free(config);
}

static void state_directories(void)
{
    struct config *config;

    setenv("XDG_STATE_HOME", "/x/state", 1);
    config = parsed("");
    check_text(span_text(config->state_dir), "/x/state/itemfs");
    config_free(config);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/home/ada", 1);
    config = parsed("");
    check_text(span_text(config->state_dir),
               geteuid() == 0 ? "/var/lib/itemfs" : "/home/ada/.local/state/itemfs");
    config_free(config);
}

static void applying(void)
{
    struct config *config = parsed("[table a]\nkeys=plain\nttl=none\nformat=typed\nstream=off\n"
                                   "[table b]\nttl=gone\ntag_rule=strict\nshow_keys=yes\n");
    struct table *a = table_new_default(span_text("a"));
    struct table *b = table_new_default(span_text("b"));
    struct table *c = table_new_default(span_text("c"));

    config_apply(config, a);
    check(a->keys == KEYS_PLAIN && a->show_keys && !a->ttl_attribute && !a->stream);
    check_int(a->format, FORMAT_TYPED);
    config_apply(config, b);
    check(b->keys == KEYS_TAGS && b->strict_tags && b->show_keys && b->stream);
    check_text(span_text(b->ttl_attribute), "gone");
    config_apply(config, c);
    check_text(span_text(c->ttl_attribute), TABLE_TTL_DEFAULT);
    table_free(a);
    table_free(b);
    table_free(c);
    config_free(config);
}

CHECK_MAIN(CHECK_TEST(defaults), CHECK_TEST(every_mount_key), CHECK_TEST(backends_and_tables),
           CHECK_TEST(errors_name_the_line), CHECK_TEST(bad_values), CHECK_TEST(folders),
           CHECK_TEST(bad_folders), CHECK_TEST(budgets), CHECK_TEST(bad_budgets),
           CHECK_TEST(functions), CHECK_TEST(bad_functions), CHECK_TEST(bad_lines),
           CHECK_TEST(example), CHECK_TEST(keeping), CHECK_TEST(bad_keeping), CHECK_TEST(options),
           CHECK_TEST(sources), CHECK_TEST(services), CHECK_TEST(state_directories),
           CHECK_TEST(applying))
