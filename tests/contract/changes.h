/* SPDX-License-Identifier: MIT */
/* The change log, as other objects over the same data see it; many threads at once. */
#include <pthread.h>

#include "tests/contract/fixture.h"

static void logs_carry_both_bodies(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_LOG))
        return;
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct table *sorted = make_table(b, "sorted", "n:N", sort_of(b, "d:N"), NULL);
    uint64_t end = log_end(b);

    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    check_int(put(b, t, "ada", NULL, "{\"n\":2}"), 0);
    check_int(erase(b, t, "ada", NULL), 0);
    check_int(put(b, sorted, "-5", sort_of(b, "10"), ""), 0);
    check_text(span_text(log_line(b, end, true)),
               "item:insert!:ada(>{\"n\":1}) item:modify!:ada({\"n\":1}>{\"n\":2})"
               " item:remove!:ada({\"n\":2}>) item:insert!:-5(>)");
    struct line line = {.bodies = false};
    struct err err = {""};
    check_int(backend_log(b, end + 1, 2, line_entry, &line, &err), 0);
    check_text(span_text(line.text), "item:modify!:ada item:remove!:ada");
    check_int(get_meta(b, sorted, key_of("-5", sort_of(b, "10"))).version, log_end(b));
    table_free(t);
    table_free(sorted);
    FACTORY.close(b, true);
}

/* What a program does beside its own files is told to it as anybody's is. */
static void batches_may_be_told(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_LOG))
        return;
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action actions[] = {put_action(t, key_of("a", NULL), "1"),
                               put_action(t, key_of("b", NULL), "2")};
    uint64_t end = log_end(b);
    struct err err = {""};

    check_int(backend_write(b, actions, 2, WRITE_TOLD, &err), 0);
    check_int(put(b, t, "c", NULL, "3"), 0);
    check_log(b, end, "item:insert!@:a item:insert!@:b item:insert!:c");
    table_free(t);
    FACTORY.close(b, true);
}

static bool polled(struct backend *b)
{
    struct err err = {""};
    bool changed = false;

    check_int(backend_poll(b, &changed, &err), 0);
    return changed;
}

static void backends_without_a_log_say_so(void)
{
    struct backend *b = FACTORY.open();
    struct line line = {.bodies = false};
    struct err err = {""};
    uint64_t sequence;
    bool changed;
    char id[33];

    if (!backend_can(b, BACKEND_LOG)) {
        check_int(backend_poll(b, &changed, &err), -EOPNOTSUPP);
        check(strstr(err.text, "change log") != NULL);
        check_int(backend_log_position(b, &sequence, &err), -EOPNOTSUPP);
        check_int(backend_log(b, 0, 0, line_entry, &line, &err), -EOPNOTSUPP);
        check_int(backend_change_id(b, 1, 5, id), -EOPNOTSUPP);
    }
    FACTORY.close(b, true);
}

static void others_see_items(void)
{
    struct backend *b = FACTORY.open(), *other = FACTORY.again(b);
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    check_get(other, t, "ada", NULL, "{\"n\":1}");
    struct item_meta here = get_meta(b, t, key_of("ada", NULL));
    struct item_meta there = get_meta(other, t, key_of("ada", NULL));
    check(here.version == there.version && here.mtime_ns == there.mtime_ns &&
          here.ctime_ns == there.ctime_ns);
    struct action action = put_action(t, key_of("ada", NULL), "{\"n\":2}");
    action.condition = (struct condition){COND_VERSION, there.version};
    check_int(apply(other, &action), 0);
    check_int(apply(b, &action), -ESTALE);
    check_get(b, t, "ada", NULL, "{\"n\":2}");
    table_free(t);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

/* A move of what somebody has added to meanwhile: what it does not know, it would lose. */
static void batches_see_what_others_add(void)
{
    struct backend *b = FACTORY.open(), *other = FACTORY.again(b);
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};

    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    struct action move[2] = {delete_action(t, key_of("ada", NULL)),
                             put_action(t, key_of("bob", NULL), "{\"n\":1}")};
    move[0].condition = (struct condition){COND_VERSION, get_meta(b, t, move[0].key).version};
    check_int(put(other, t, "ada", NULL, "{\"m\":2,\"n\":1}"), 0);
    check_int(backend_write(b, move, 2, 0, &err), -ESTALE);
    check_get(b, t, "ada", NULL, "{\"m\":2,\"n\":1}");
    check_absent(b, t, "bob");
    table_free(t);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

static void others_see_changes(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_LOG))
        return;
    struct backend *other = FACTORY.again(b);
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    uint64_t end = log_end(b);

    polled(other);
    check(!polled(other));
    check_int(put(b, t, "ada", NULL, "1"), 0);
    check(polled(other));
    check(!polled(other));
    check_get(other, t, "ada", NULL, "1");
    check_int(put(other, t, "bob", NULL, "2"), 0);
    check(polled(b));
    check_log(b, end, "item:insert!:ada item:insert!@:bob");
    check_log(other, end, "item:insert!@:ada item:insert!:bob");
    check_int(log_end(b), log_end(other));
    char own[33], others[33];
    check_int(backend_change_id(b, 1, 5, own), 0);
    check_int(backend_change_id(other, 1, 5, others), 0);
    check_text(span_text(own), others);
    check_int(strlen(own), 32);
    check_int(backend_change_id(b, 2, 5, own), 0);
    check(strcmp(own, others) != 0);
    check_int(backend_change_id(b, 1, 6, own), 0);
    check(strcmp(own, others) != 0);
    table_free(t);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

#define WRITERS 8

struct writer {
    struct backend *backend;
    const struct table *table;
    int number, writes;
    int failures;
};

/* Each writes keys of its own, and once in a while meets a condition that does not hold. */
static void *write_many(void *context)
{
    struct writer *writer = context;
    char key[32];

    for (int i = 0; i < writer->writes; i++) {
        snprintf(key, sizeof key, "%d-%d", writer->number, i);
        struct key name = key_of(key, writer->table->sort.name ? "1" : NULL);
        struct action action = put_action(writer->table, name, "{\"n\": 1}");
        struct err err = {""};
        unsigned flags = i % 50 == 0 ? WRITE_DURABLE : 0;
        action.condition.kind = COND_ABSENT;
        writer->failures += backend_write(writer->backend, &action, 1, flags, &err) != 0;
        if (i % 3)
            continue;
        struct err refused = {""};
        writer->failures += backend_write(writer->backend, &action, 1, flags, &refused) != -EEXIST;
    }
    return NULL;
}

static void *read_many(void *context)
{
    struct writer *reader = context;
    struct walk walk = {.bodies = true};
    uint64_t last = 0;

    for (int i = 0; i < 30; i++) {
        struct line line = {.bodies = true, .backend = reader->backend, .table = reader->table};
        struct err err = {""};
        uint64_t now = 0;
        bool changed;
        int64_t next_ns;
        reader->failures +=
            backend_walk(reader->backend, reader->table, &walk, line_record, &line, &err) != 0;
        if (backend_can(reader->backend, BACKEND_LOG)) {
            reader->failures +=
                backend_log_position(reader->backend, &now, &err) != 0 || now < last;
            reader->failures += backend_poll(reader->backend, &changed, &err) != 0;
        }
        reader->failures += backend_maintain(reader->backend, &next_ns, &err) != 0;
        reader->failures += backend_sync(reader->backend, &err) != 0;
        last = now;
    }
    return NULL;
}

static int count_record(void *context, const struct record *record)
{
    (void)record;
    ++*(int *)context;
    return 0;
}

static void threads_lose_nothing(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_ATOMIC))
        return;
    struct table *t = make_table(b, "orders", "id", sort_of(b, "n:N"), NULL);
    struct writer workers[WRITERS + 1];
    pthread_t threads[WRITERS + 1];
    struct walk walk = {.limit = 0};
    struct err err = {""};
    uint64_t end = log_end(b);
    int count = 0, writes = FACTORY.many / 10;

    for (int i = 0; i < WRITERS + 1; i++) {
        workers[i] = (struct writer){b, t, i, writes, 0};
        check_int(
            pthread_create(&threads[i], NULL, i < WRITERS ? write_many : read_many, &workers[i]),
            0);
    }
    for (int i = 0; i < WRITERS + 1; i++) {
        pthread_join(threads[i], NULL);
        check_int(workers[i].failures, 0);
    }
    check_int(backend_walk(b, t, &walk, count_record, &count, &err), 0);
    check_int(count, WRITERS * writes);
    if (!lacks(b, LACK_LOG))
        check_int(log_end(b) - end, WRITERS * writes);
    table_free(t);
    FACTORY.close(b, true);
}

/* All want to move the same item, each to a place of its own: one does, and the item is there. */
static void *move_away(void *context)
{
    struct writer *mover = context;
    char key[32];
    struct err err = {""};

    const char *sort = mover->table->sort.name ? "1" : NULL;
    snprintf(key, sizeof key, "to-%d", mover->number);
    struct action move[2] = {delete_action(mover->table, key_of("from", sort)),
                             put_action(mover->table, key_of(key, sort), "{\"n\":1}")};
    move[0].condition.kind = COND_EXISTS;
    move[1].condition.kind = COND_ABSENT;
    mover->failures = backend_write(mover->backend, move, 2, 0, &err);
    return NULL;
}

static void one_of_many_moves(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_ATOMIC))
        return;
    struct table *t = make_table(b, "orders", "id", sort_of(b, "n:N"), NULL);
    struct writer movers[WRITERS];
    pthread_t threads[WRITERS];
    struct walk walk = {.limit = 0};
    struct err err = {""};

    for (int round = 0; round < 5; round++) {
        int moved = 0, count = 0;
        char key[32] = "nobody";
        check_int(put(b, t, "from", sort_of(b, "1"), "{\"n\":1}"), 0);
        for (int i = 0; i < WRITERS; i++) {
            movers[i] = (struct writer){b, t, i, 0, 0};
            check_int(pthread_create(&threads[i], NULL, move_away, &movers[i]), 0);
        }
        for (int i = 0; i < WRITERS; i++) {
            pthread_join(threads[i], NULL);
            moved += movers[i].failures == 0;
            check(movers[i].failures == 0 || movers[i].failures == -ESTALE ||
                  movers[i].failures == -ENOENT || movers[i].failures == -EBUSY);
            if (movers[i].failures == 0)
                snprintf(key, sizeof key, "to-%d", i);
        }
        check_int(backend_walk(b, t, &walk, count_record, &count, &err), 0);
        check_int(count, 1);
        check_int(moved, 1);
        check_int(erase(b, t, key, sort_of(b, "1")), 0);
    }
    table_free(t);
    FACTORY.close(b, true);
}

#define CONTRACT_CHANGES                                                                           \
    CHECK_TEST(logs_carry_both_bodies), CHECK_TEST(batches_may_be_told),                           \
        CHECK_TEST(backends_without_a_log_say_so), CHECK_TEST(others_see_items),                   \
        CHECK_TEST(batches_see_what_others_add), CHECK_TEST(others_see_changes),                   \
        CHECK_TEST(threads_lose_nothing), CHECK_TEST(one_of_many_moves)
