/* SPDX-License-Identifier: MIT */
/*
 * The contract of backend.h as tests that any backend must pass. A test program gives a factory,
 * includes the suites and lists their tests:
 *
 *   static const struct factory factory = {my_open, my_again, my_close, 1500};
 *   #define FACTORY factory
 *   #include "tests/contract/items.h" ...
 *   CHECK_MAIN(CONTRACT_ITEMS, ...)
 *
 * What a backend cannot do by nature stands in one place, enum lack. A test asks lacks(), which
 * says once a test what is left out, and why.
 */
#ifndef TESTS_CONTRACT_FIXTURE_H
#define TESTS_CONTRACT_FIXTURE_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "tests/check.h"

struct factory {
    struct backend *(*open)(void);                /* new and empty */
    struct backend *(*again)(struct backend *);   /* another object over the same data */
    void (*close)(struct backend *, bool remove); /* REMOVE: the data, too */
    int many;                                     /* writes that are many for this backend */
};

/* The first three are what backend_can says; a test program adds the others to `fixture_lacks`. */
enum lack {
    LACK_LOG,
    LACK_ORDER,
    LACK_BYTES,
    LACK_COUNTS,
    LACK_STYLES,
    LACK_RENAMES,
    LACK_SWEEPS,
    LACK_SCHEMA,
    LACK_NANOSECONDS,
    LACK_TTL,
    LACK_STREAMS,
    LACK_SWITCHES,
    LACK_ATOMIC,
    LACK_SURROGATES,
    LACK_SORTED,
    LACK_LIMITS,
    LACK_INDEXES,
    LACK_COUNT
};
static const struct {
    const char *name, *reason;
} fixture_lack[LACK_COUNT] = {
    [LACK_LOG] = {"log", "nothing tells of changes"},
    [LACK_ORDER] = {"order", "walks go in the service's own order"},
    [LACK_BYTES] = {"bytes", "attributes are stored, not bytes: a body has one form"},
    [LACK_COUNTS] = {"counts", "nobody counts the items of a partition"},
    [LACK_STYLES] = {"styles", "tag keys and their sorting are mount.conf's matter"},
    [LACK_RENAMES] = {"renames", "tables cannot be renamed"},
    [LACK_SWEEPS] = {"sweeps", "the service deletes what has expired, when it likes"},
    [LACK_SCHEMA] = {"schema", "a table is what its description says that the caller has"},
    [LACK_NANOSECONDS] = {"nanoseconds", "tables are born at full seconds, or milliseconds"},
    [LACK_TTL] = {"ttl", "there is no time to live"},
    [LACK_STREAMS] = {"streams", "there are no streams"},
    [LACK_SWITCHES] = {"switches", "the engine cannot switch streams off and on"},
    [LACK_ATOMIC] = {"atomic", "the engine's conditional writes are not atomic"},
    [LACK_SORTED] = {"sorted", "a file's name is one key: there are no sort keys"},
    [LACK_SURROGATES] = {"surrogates", "the engine takes no lone surrogates"},
    [LACK_LIMITS] = {"limits", "the engine's sums may be longer than its numbers"},
    [LACK_INDEXES] = {"indexes", "tables without units of their own get no indexes later"},
};
static unsigned fixture_lacks;

static inline bool lacks(const struct backend *backend, enum lack lack)
{
    static const char *test;
    static unsigned told;
    unsigned bit = 1u << lack, all = fixture_lacks;

    all |= backend_can(backend, BACKEND_LOG) ? 0 : 1u << LACK_LOG;
    all |= backend_can(backend, BACKEND_ORDERED) ? 0 : 1u << LACK_ORDER;
    all |= backend_can(backend, BACKEND_KEEPS_BYTES) ? 0 : 1u << LACK_BYTES;
    if (test != check_running) {
        test = check_running;
        told = 0;
    }
    if (all & bit & ~told)
        printf("left out: %s: %s\n", check_running, fixture_lack[lack].reason);
    told |= all & bit;
    return all & bit;
}

/* For a test that has no other matter: closes BACKEND, and the test returns. */
#define cannot(backend, lack)                                                                      \
    (lacks((backend), (lack)) && (FACTORY.close((backend), true), puts("skipped") >= 0))

/* A sort key for a table that may as well have none. */
#define sort_of(backend, key) (lacks((backend), LACK_SORTED) ? NULL : (key))

#define NOTHING ((struct span){NULL, 0})

static inline struct key key_of(const char *partition, const char *sort)
{
    return (struct key){span_text(partition), sort ? span_text(sort) : NOTHING};
}

/* Creates a table from the forms of table.h: "id", "n:N", "by-x:x,y:N"; and describes it. */
static struct table *make_table(struct backend *backend, const char *name, const char *key,
                                const char *sort, const char *index)
{
    struct err err = {""};
    struct table *table = table_new_default(span_text(name)), *made = NULL;

    key_attribute_release(&table->partition);
    check_int(key_attribute_parse(span_text(key), &table->partition, &err), 0);
    if (sort)
        check_int(key_attribute_parse(span_text(sort), &table->sort, &err), 0);
    if (sort || index || table->partition.type != VALUE_S)
        table->keys = KEYS_PLAIN;
    if (index) {
        table->indexes = calloc(1, sizeof *table->indexes);
        table->index_count = 1;
        check_int(index_parse(span_text(index), table->indexes, &err), 0);
    }
    check_int(backend_create_table(backend, table, &err), 0);
    check_int(backend_describe(backend, span_text(name), &made, &err), 0);
    check_text(span_text(err.text), "");
    table_free(table);
    if (!made)
        exit(1);
    return made;
}

static inline struct action put_action(const struct table *table, struct key key, const char *body)
{
    return (struct action){.kind = ACTION_PUT, .table = table, .key = key, .body = span_text(body)};
}

static inline struct action delete_action(const struct table *table, struct key key)
{
    return (struct action){.kind = ACTION_DELETE, .table = table, .key = key};
}

/* One action; the message of a failure must be there. */
static inline int apply(struct backend *backend, struct action *action)
{
    struct err err = {""};
    int code = backend_write(backend, action, 1, 0, &err);

    check((code == 0) == (err.text[0] == 0));
    return code;
}

static inline int put(struct backend *backend, const struct table *table, const char *partition,
                      const char *sort, const char *body)
{
    struct action action = put_action(table, key_of(partition, sort), body);
    return apply(backend, &action);
}

static inline int erase(struct backend *backend, const struct table *table, const char *partition,
                        const char *sort)
{
    struct action action = delete_action(table, key_of(partition, sort));
    return apply(backend, &action);
}

/* What a reader will see of BODY: the bytes, or the one form that attributes have. */
static inline struct span shown_body(const struct backend *backend, const struct table *table,
                                     struct key key, struct span body)
{
    static struct buf shown;
    struct err err = {""};

    if (!lacks(backend, LACK_BYTES))
        return body;
    buf_release(&shown);
    buf_init(&shown, 4096);
    check_int(item_render(table, key, body, 0, &shown, &err), 0);
    return buf_span(&shown);
}

static inline void check_body_at(const char *file, int line, struct backend *backend,
                                 const struct table *table, struct key key, struct span want)
{
    struct err err = {""};
    struct item_meta meta = {0};
    struct buf body;

    buf_init(&body, 4096);
    int code = backend_get(backend, table, key, &meta, &body, &err);
    check_span_at(file, line, "the error", span_text(code ? err.text : ""), NOTHING);
    check_span_at(file, line, "the body", buf_span(&body), shown_body(backend, table, key, want));
    check_int(meta.size, body.len);
    buf_release(&body);
}
#define check_body(backend, table, key, want)                                                      \
    check_body_at(__FILE__, __LINE__, (backend), (table), (key), (want))
#define check_get(backend, table, partition, sort, want)                                           \
    check_body((backend), (table), key_of((partition), (sort)), span_text(want))

static inline int get_code(struct backend *backend, const struct table *table, struct key key)
{
    struct item_meta meta;
    struct err err = {""};
    struct buf body;

    buf_init(&body, 4096);
    int code = backend_get(backend, table, key, &meta, &body, &err);
    check((code == 0) == (err.text[0] == 0));
    check(code == 0 || body.len == 0);
    buf_release(&body);
    return code;
}
#define check_absent(backend, table, partition)                                                    \
    check_int(get_code((backend), (table), key_of((partition), NULL)), -ENOENT)

static inline struct item_meta get_meta(struct backend *backend, const struct table *table,
                                        struct key key)
{
    struct item_meta meta = {0};
    struct err err = {""};

    check_int(backend_get(backend, table, key, &meta, NULL, &err), 0);
    return meta;
}

/* What a walk, a query or the log tells, as one line of text. */
struct line {
    char text[8192];
    size_t len;
    bool bodies;
    const struct backend *backend; /* of bodies */
    const struct table *table;
};

static inline void line_add(struct line *line, struct span text)
{
    size_t room = sizeof line->text - line->len - 1;
    size_t len = text.len < room ? text.len : room;

    if (len)
        memcpy(line->text + line->len, text.data, len);
    line->len += len;
    line->text[line->len] = 0;
}

/* Attributes without those of the key, on one line, as tests write bodies; the form in which they
 * came must be the one that they have. */
static inline void line_add_attributes(struct line *line, const struct record *record)
{
    struct value value = {0};
    struct err err = {""};
    struct buf text;

    check_span(record->body, shown_body(line->backend, line->table, record->key, record->body));
    buf_init(&text, 4096);
    check_int(value_from_plain(record->body, &value, &err), 0);
    if (value.type == VALUE_M) {
        value_member_remove(&value, span_text(line->table->partition.name));
        if (line->table->sort.name)
            value_member_remove(&value, span_text(line->table->sort.name));
    }
    value_to_plain(&value, (struct value_style){.sort = true}, &text);
    line_add(line, buf_span(&text));
    value_release(&value);
    buf_release(&text);
}

static inline int line_record(void *context, const struct record *record)
{
    struct line *line = context;

    if (line->len)
        line_add(line, span_text(" "));
    line_add(line, record->key.partition);
    if (record->key.sort.len) {
        line_add(line, span_text("/"));
        line_add(line, record->key.sort);
    }
    check((record->body.data != NULL) == line->bodies);
    if (record->body.data) {
        check_int(record->meta.size, record->body.len);
        line_add(line, span_text("="));
        if (lacks(line->backend, LACK_BYTES))
            line_add_attributes(line, record);
        else
            line_add(line, record->body);
    }
    return 0;
}

static inline int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of TEXT in the order of their bytes. */
static inline const char *sorted_words(const char *text, char out[8192])
{
    static char copy[8192];
    char *words[1024], *rest = copy;
    size_t count = 0;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; count < 1024 && (word = strsep(&rest, " "));)
        words[count++] = word;
    qsort(words, count, sizeof words[0], compare_words);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++)
        snprintf(out + strlen(out), 8192 - strlen(out), "%s%s", i ? " " : "", words[i]);
    return out;
}

static inline void check_walk_at(const char *file, int line, struct backend *backend,
                                 const struct table *table, const char *want, struct walk walk)
{
    static struct line told;
    static char got_words[8192], want_words[8192];
    struct err err = {""};

    told = (struct line){.bodies = walk.bodies, .backend = backend, .table = table};
    check_int(backend_walk(backend, table, &walk, line_record, &told, &err), 0);
    if (walk.in_partition || !lacks(backend, LACK_ORDER))
        check_span_at(file, line, "the walk", span_text(told.text), span_text(want));
    else
        check_span_at(file, line, "the walk", span_text(sorted_words(told.text, got_words)),
                      span_text(sorted_words(want, want_words)));
}
#define check_walk(backend, table, want, ...)                                                      \
    check_walk_at(__FILE__, __LINE__, (backend), (table), (want), (struct walk){__VA_ARGS__})

static inline const char *query_line(struct backend *backend, const struct table *table,
                                     struct query query)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.bodies = true, .backend = backend, .table = table};
    int code = backend_query(backend, table, &query, line_record, &line, &err);
    if (code)
        snprintf(line.text, sizeof line.text, "%s", strerror(-code));
    for (char *at = line.text; code == 0 && (at = strchr(at, '=')) != NULL;) {
        char *end = strchr(at, ' '); /* bodies are not of interest here, and have no spaces */
        memmove(at, end ? end : at + strlen(at), end ? strlen(end) + 1 : 1);
    }
    return line.text;
}
#define check_query(backend, table, want, ...)                                                     \
    check_text(span_text(query_line((backend), (table), (struct query){__VA_ARGS__})), (want))

/* "INSERT users ada", with ! for streamed, ~ for expired, @ for another's. */
static inline int line_entry(void *context, const struct log_entry *entry)
{
    static const char *const kinds[] = {"item", "touch", "scratch", "schema", "draft"};
    static const char *const changes[] = {"", ":insert", ":modify", ":remove"};
    struct line *line = context;

    if (line->len)
        line_add(line, span_text(" "));
    line_add(line, span_text(kinds[entry->kind]));
    line_add(line, span_text(changes[entry->change]));
    if (entry->streamed)
        line_add(line, span_text("!"));
    if (entry->expired)
        line_add(line, span_text("~"));
    if (!entry->own)
        line_add(line, span_text("@"));
    if (entry->key.partition.len) {
        line_add(line, span_text(":"));
        line_add(line, entry->key.partition);
    }
    if (entry->scratch_name.data) {
        line_add(line, span_text(":"));
        line_add(line, entry->scratch_name);
    }
    if (line->bodies && (entry->old_body.data || entry->new_body.data)) {
        line_add(line, span_text("("));
        line_add(line, entry->old_body);
        line_add(line, span_text(">"));
        line_add(line, entry->new_body);
        line_add(line, span_text(")"));
    }
    check(entry->sequence > 0 && entry->time_ns > 0);
    return 0;
}

static inline const char *log_line(struct backend *backend, uint64_t after, bool bodies)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.bodies = bodies};
    check_int(backend_log(backend, after, 0, line_entry, &line, &err), 0);
    return line.text;
}
#define check_log(backend, after, want)                                                            \
    do {                                                                                           \
        if (!lacks((backend), LACK_LOG))                                                           \
            check_text(span_text(log_line((backend), (after), false)), (want));                    \
    } while (0)

/* 0 where there is no log. */
static inline uint64_t log_end(struct backend *backend)
{
    uint64_t sequence = 0;
    struct err err = {""};

    if (!lacks(backend, LACK_LOG))
        check_int(backend_log_position(backend, &sequence, &err), 0);
    return sequence;
}

static inline void maintain(struct backend *backend)
{
    struct err err = {""};
    int64_t next_ns;

    check_int(backend_maintain(backend, &next_ns, &err), 0);
    check(next_ns >= 0 && next_ns <= 60 * NS_PER_S);
}

#endif
