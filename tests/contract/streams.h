/* SPDX-License-Identifier: MIT */
/* Streams and leases, also as another object over the same data has them. */
#include "backend/stream.h"
#include "tests/contract/fixture.h"

#define STREAM_ROUNDS 600 /* of 50 ms: a service's records come late */

/* Where there are none, that is said. */
static bool no_streams(struct backend *b)
{
    struct stream *stream = NULL;
    struct err err = {""};

    if (!lacks(b, LACK_STREAMS))
        return false;
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    check_int(backend_stream_open(b, t, STREAM_OLDEST, &stream, &err), -EOPNOTSUPP);
    check(!stream && strstr(err.text, "users") != NULL);
    err_clear(&err);
    check_int(backend_stream_open(b, t, STREAM_NOW, &stream, &err), -EOPNOTSUPP);
    table_free(t);
    return cannot(b, LACK_STREAMS);
}

/* Of a name of its own: an engine may keep the records of a table for the next of its name. */
static struct table *new_table(struct backend *b, const char *name, const char *key,
                               const char *sort)
{
    char own[64];

    snprintf(own, sizeof own, "%s-%ld", name, (long)getpid());
    return make_table(b, own, key, sort, NULL);
}

static struct stream *open_stream(struct backend *b, const struct table *t, const char *position)
{
    struct stream *stream = NULL;
    struct err err = {""};

    check_int(backend_stream_open(b, t, position, &stream, &err), 0);
    check_text(span_text(err.text), "");
    if (!stream)
        exit(1);
    check(stream->pause_ns > 0 && !stream->lost);
    return stream;
}

/* Records as "insert ada {new}", "modify ada {old}>{new}", "~remove ada {old}"; and their ids. */
struct records {
    struct line line;
    char ids[64][80];
    size_t count, stop_at;
};

static int take_change(void *context, const struct change *change)
{
    static const char *const names[] = {"", "insert ", "modify ", "remove "};
    struct records *records = context;
    struct line *line = &records->line;

    if (line->len)
        line_add(line, span_text(" "));
    line_add(line, span_text(change->expired ? "~" : ""));
    line_add(line, span_text(names[change->type]));
    line_add(line, change->key.partition);
    line_add(line, span_text(change->key.sort.len ? "/" : ""));
    line_add(line, change->key.sort);
    line_add(line, span_text(" "));
    line_add(line, change->old_item);
    line_add(line, span_text(change->old_item.data && change->new_item.data ? ">" : ""));
    line_add(line, change->new_item);
    check((change->type == CHANGE_INSERT) == (change->old_item.data == NULL));
    check((change->type == CHANGE_REMOVE) == (change->new_item.data == NULL));
    check((change->version == 0) == (change->type == CHANGE_REMOVE));
    check(change->time_ns > clock_now_ns() - 600 * NS_PER_S &&
          change->time_ns <= clock_now_ns() + NS_PER_S);
    for (size_t i = 0; i < records->count; i++)
        check(strcmp(records->ids[i], change->id) != 0);
    if (records->count < 64)
        snprintf(records->ids[records->count], 80, "%s", change->id);
    records->count++;
    return records->count == records->stop_at ? 7 : 0;
}

/* Reads until there are WANT records, and what comes directly behind them. */
static struct records *read_records(struct stream *stream, size_t limit, size_t want)
{
    static struct records records;
    struct err err = {""};

    records = (struct records){.stop_at = 0};
    for (int round = 0; round < STREAM_ROUNDS; round++) {
        int code = 1;
        while (code > 0)
            code = backend_stream_next(stream, limit, take_change, &records, &err);
        check_int(code, 0);
        check_text(span_text(err.text), "");
        if (records.count >= want || code < 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    check_int(records.count, want);
    return &records;
}
#define check_records(stream, want_count, want)                                                    \
    check_text(span_text(read_records((stream), 0, (want_count))->line.text), (want))

static void close_stream(struct stream *stream)
{
    check(!stream->lost);
    backend_stream_close(stream);
}

#define ADA(n) "{\"id\":{\"S\":\"ada\"},\"n\":{\"N\":\"" #n "\"}}"

static void streams_tell_what_was_changed(void)
{
    struct backend *b = FACTORY.open();
    if (no_streams(b))
        return;
    struct table *t = new_table(b, "users", "id", NULL);
    struct table *sorted = new_table(b, "sorted", "s", sort_of(b, "d:N"));
    struct stream *stream = open_stream(b, t, STREAM_OLDEST);
    struct stream *second = open_stream(b, sorted, STREAM_OLDEST);

    check_records(stream, 0, "");
    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0); /* equal: nothing has changed */
    check_int(put(b, t, "ada", NULL, "{\"n\":2}"), 0);
    check_int(erase(b, t, "ada", NULL), 0);
    check_int(erase(b, t, "ada", NULL), 0); /* nothing there: nothing has changed */
    check_int(put(b, sorted, "x", sort_of(b, "10"), "{}"), 0);
    check_records(stream, 3,
                  "insert ada " ADA(1) " modify ada " ADA(1) ">" ADA(2) " remove ada " ADA(2));
    check_records(second, 1,
                  lacks(b, LACK_SORTED) ? "insert x {\"s\":{\"S\":\"x\"}}"
                                        : "insert x/10 {\"d\":{\"N\":\"10\"},\"s\":{\"S\":\"x\"}}");
    check_records(stream, 0, "");
    close_stream(stream);
    close_stream(second);
    table_free(t);
    table_free(sorted);
    FACTORY.close(b, true);
}

static void positions_are_gone_on_from(void)
{
    struct backend *b = FACTORY.open();
    if (no_streams(b))
        return;
    struct backend *other = FACTORY.again(b);
    struct table *t = new_table(b, "users", "id", NULL);
    struct records records = {.stop_at = 2};
    struct buf position;
    struct err err = {""};

    for (int i = 1; i <= 5; i++) {
        char body[32];
        snprintf(body, sizeof body, "{\"n\":%d}", i);
        check_int(put(b, t, "ada", NULL, body), 0);
    }
    struct stream *stream = open_stream(b, t, STREAM_OLDEST);
    static struct records all;
    all = *read_records(stream, 2, 5); /* however small the portions */
    close_stream(stream);

    /* A callback that ends the reading has been given its record. */
    stream = open_stream(b, t, STREAM_OLDEST);
    check_int(backend_stream_next(stream, 0, take_change, &records, &err), 7);
    buf_init(&position, LEASE_TEXT_MAX);
    check_int(backend_stream_position(stream, &position), 0);
    buf_add_char(&position, '\0');
    for (const char *at = position.data; *at; at++)
        check(*at >= ' ' && *at <= '~');
    close_stream(stream);
    for (int round = 0; round < 2; round++) { /* as often as one likes, by whomever */
        stream = open_stream(round ? other : b, t, position.data);
        const struct records *rest = read_records(stream, 0, 3);
        check_text(span_text(rest->line.text), "modify ada " ADA(2) ">" ADA(3) " modify ada " ADA(
                                                   3) ">" ADA(4) " modify ada " ADA(4) ">" ADA(5));
        for (int i = 0; i < 3; i++)
            check_text(span_text(rest->ids[i]), all.ids[i + 2]);
        close_stream(stream);
    }
    stream = NULL;
    check_int(backend_stream_open(b, t, "no such place", &stream, &err), -EINVAL);
    check(!stream && strstr(err.text, "users") != NULL);
    buf_release(&position);
    table_free(t);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

static void streams_begin_now(void)
{
    struct backend *b = FACTORY.open();
    if (no_streams(b))
        return;
    struct backend *other = FACTORY.again(b);
    struct table *t = new_table(b, "users", "id", NULL);

    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    struct stream *stream = open_stream(b, t, STREAM_NOW);
    check_int(put(other, t, "ada", NULL, "{\"n\":2}"), 0);
    check_records(stream, 1, "modify ada " ADA(1) ">" ADA(2));
    close_stream(stream);
    table_free(t);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

static int note_version(void *context, const struct change *change)
{
    *(uint64_t *)context = change->version;
    return 0;
}

/* So whoever has written an item knows its record again. */
static void versions_are_those_of_the_items(void)
{
    struct backend *b = FACTORY.open();
    if (no_streams(b))
        return;
    struct table *t = new_table(b, "users", "id", NULL);
    struct stream *stream = open_stream(b, t, STREAM_NOW);
    struct action action = put_action(t, key_of("ada", NULL), "{\"n\": 1.50, \"b\": {}}");
    uint64_t version = 0;
    struct err err = {""};

    check_int(apply(b, &action), 0);
    check_int(action.meta.version, get_meta(b, t, key_of("ada", NULL)).version);
    for (int round = 0; version == 0 && round < STREAM_ROUNDS; round++) {
        check(backend_stream_next(stream, 0, note_version, &version, &err) >= 0);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    check(version == action.meta.version);
    close_stream(stream);
    table_free(t);
    FACTORY.close(b, true);
}

static void switch_stream(struct backend *b, struct table *t, bool on)
{
    struct err err = {""};

    t->stream = on;
    check_int(backend_alter_table(b, t, &err), 0);
    check_text(span_text(err.text), "");
}

static void records_stop_with_the_stream(void)
{
    struct backend *b = FACTORY.open();
    if (no_streams(b) || cannot(b, LACK_SWITCHES))
        return;
    struct table *t = new_table(b, "users", "id", NULL);
    struct stream *stream = open_stream(b, t, STREAM_OLDEST);

    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    check_records(stream, 1, "insert ada " ADA(1));
    switch_stream(b, t, false);
    check_int(put(b, t, "ada", NULL, "{\"n\":2}"), 0);
    check_records(stream, 0, "");
    switch_stream(b, t, true);
    check_int(put(b, t, "ada", NULL, "{\"n\":3}"), 0);
    check_records(stream, 1, "modify ada " ADA(2) ">" ADA(3));
    close_stream(stream);
    table_free(t);
    FACTORY.close(b, true);
}

static void behind_is_counted(void)
{
    struct backend *b = FACTORY.open();
    if (no_streams(b))
        return;
    struct table *t = new_table(b, "users", "id", NULL);
    struct table *t2 = new_table(b, "others", "id", NULL);
    struct stream *stream = open_stream(b, t, STREAM_OLDEST);
    struct records records = {.stop_at = 1};
    struct err err = {""};
    uint64_t behind = 99;

    for (int i = 0; i < 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        check_int(put(b, t, key, NULL, "{}"), 0);
        check_int(put(b, t2, key, NULL, "{}"), 0);
    }
    int code = backend_stream_behind(stream, &behind, &err);
    if (code != -EOPNOTSUPP) {
        check_int(code, 0);
        check_int(behind, 3);
        check_int(backend_stream_next(stream, 0, take_change, &records, &err), 7);
        check_int(backend_stream_behind(stream, &behind, &err), 0);
        check_int(behind, 2);
    }
    close_stream(stream);
    table_free(t);
    table_free(t2);
    FACTORY.close(b, true);
}

static void check_lease(struct backend *b, uint64_t count, const char *holder, const char *position)
{
    struct lease lease;
    struct err err = {""};

    lease_init(&lease);
    buf_add_text(&lease.holder, "what it held");
    check_int(backend_lease_read(b, span_text("users"), &lease, &err), 0);
    check_int(lease.count, count);
    check_span(buf_span(&lease.holder), span_text(holder));
    check_span(buf_span(&lease.position), span_text(position));
    lease_release(&lease);
}

static int write_lease(struct backend *b, uint64_t count, const char *holder, const char *position)
{
    struct err err = {""};
    int code = backend_lease_write(b, span_text("users"), count, span_text(holder),
                                   span_text(position), &err);

    check((code == 0) == (err.text[0] == 0));
    return code;
}

static void leases_have_one_holder(void)
{
    struct backend *b = FACTORY.open();
    struct backend *other = FACTORY.again(b);

    check_lease(b, 0, "", "");
    check_int(write_lease(b, 1, "me", ""), -ESTALE);
    check_int(write_lease(b, 0, "me", STREAM_OLDEST), 0);
    check_int(write_lease(other, 0, "you", ""), -ESTALE);
    check_lease(other, 1, "me", STREAM_OLDEST);
    check_int(write_lease(b, 1, "me", "behind 5"), 0);
    check_int(write_lease(other, 1, "you", "nowhere"), -ESTALE);
    check_int(write_lease(other, 2, "you", "behind 5"), 0);
    check_int(write_lease(b, 2, "me", "behind 6"), -ESTALE);
    check_lease(b, 3, "you", "behind 5");
    check_int(write_lease(other, 3, "", "behind 7"), 0);
    check_lease(b, 4, "", "behind 7");
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

#define CONTRACT_STREAMS                                                                           \
    CHECK_TEST(streams_tell_what_was_changed), CHECK_TEST(positions_are_gone_on_from),             \
        CHECK_TEST(streams_begin_now), CHECK_TEST(versions_are_those_of_the_items),                \
        CHECK_TEST(records_stop_with_the_stream), CHECK_TEST(behind_is_counted),                   \
        CHECK_TEST(leases_have_one_holder)
