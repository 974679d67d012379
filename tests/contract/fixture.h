/* SPDX-License-Identifier: MIT */
/*
 * The contract of backend.h as tests that any backend must pass. A test program gives a factory,
 * includes the suites and lists their tests:
 *
 *   static const struct factory factory = {my_open, my_again, my_close};
 *   #define FACTORY factory
 *   #include "tests/contract/items.h" ...
 *   CHECK_MAIN(CONTRACT_ITEMS, ...)
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
};

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

/* The body, or what the error is. */
static inline struct span get_text(struct backend *backend, const struct table *table,
                                   struct key key)
{
    static char text[4096];
    struct err err = {""};
    struct item_meta meta;
    struct buf body;

    buf_init(&body, sizeof text);
    int code = backend_get(backend, table, key, &meta, &body, &err);
    if (code)
        snprintf(text, sizeof text, "%s", strerror(-code));
    else if (body.len)
        memcpy(text, body.data, body.len);
    size_t len = code ? strlen(text) : body.len;
    if (code == 0)
        check_int(meta.size, body.len);
    buf_release(&body);
    return span_of(text, len);
}
#define check_get(backend, table, partition, sort, want)                                           \
    check_text(get_text((backend), (table), key_of((partition), (sort))), (want))

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
        line_add(line, record->body);
    }
    return 0;
}

static inline const char *walk_line(struct backend *backend, const struct table *table,
                                    struct walk walk)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.bodies = walk.bodies};
    check_int(backend_walk(backend, table, &walk, line_record, &line, &err), 0);
    return line.text;
}
#define check_walk(backend, table, want, ...)                                                      \
    check_text(span_text(walk_line((backend), (table), (struct walk){__VA_ARGS__})), (want))

static inline const char *query_line(struct backend *backend, const struct table *table,
                                     struct query query)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.bodies = true};
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
    check_text(span_text(log_line((backend), (after), false)), (want))

static inline uint64_t log_end(struct backend *backend)
{
    uint64_t sequence = 0;
    struct err err = {""};

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
