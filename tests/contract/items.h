/* SPDX-License-Identifier: MIT */
/* Single items: bytes, metadata, conditions, batches, refusals. */
#include "tests/contract/fixture.h"

static void items_come_back(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    static const char odd[] = "a\0b/\xc3\xa9", surrogate[] = "a\0b\xed\xa0\x80/\xc3\xa9";
    struct action action = {.kind = ACTION_PUT,
                            .table = t,
                            .key.partition = lacks(b, LACK_SURROGATES)
                                                 ? span_of(odd, sizeof odd - 1)
                                                 : span_of(surrogate, sizeof surrogate - 1),
                            .body = span_text(" {\"x\" : 1.500e3,\r\n \"y\":\"\\u0000\"}\n\n")};

    check_int(put(b, t, "ada", NULL, "{\"n\": 5}\n"), 0);
    check_get(b, t, "ada", NULL, "{\"n\": 5}\n");
    check_int(apply(b, &action), 0);
    check_body(b, t, action.key, action.body);
    check_int(put(b, t, "empty", NULL, ""), 0);
    check_get(b, t, "empty", NULL, "");
    check_int(put(b, t, "five", NULL, "5"), 0);
    check_get(b, t, "five", NULL, "5");
    check_absent(b, t, "nobody");
    check_int(erase(b, t, "ada", NULL), 0);
    check_absent(b, t, "ada");
    table_free(t);
    FACTORY.close(b, true);
}

static bool meta_equal(struct item_meta a, struct item_meta b)
{
    return a.version == b.version && a.size == b.size && a.mtime_ns == b.mtime_ns &&
           a.ctime_ns == b.ctime_ns && a.ttl == b.ttl && a.change_ns == b.change_ns &&
           a.change == b.change;
}

static void items_have_metadata(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action action = put_action(t, key_of("ada", NULL), "{\"n\": 1}");
    int64_t before = clock_now_ns();

    action.mtime_ns = 12345;
    check_int(apply(b, &action), 0);
    check_int(action.change, CHANGE_INSERT);
    struct item_meta meta = get_meta(b, t, action.key);
    check(meta_equal(meta, action.meta));
    check_int(meta.mtime_ns, 12345);
    check_int(meta.size, shown_body(b, t, action.key, action.body).len);
    check_int(meta.change, CHANGE_INSERT);
    check(meta.ctime_ns >= before && meta.change_ns >= before && meta.version > 0);
    check_int(meta.ttl, 0);

    action.body = span_text("{\"n\": 2}");
    action.mtime_ns = 0;
    check_int(apply(b, &action), 0);
    struct item_meta second = get_meta(b, t, action.key);
    check_int(action.change, CHANGE_MODIFY);
    check_int(second.change, CHANGE_MODIFY);
    check(meta_equal(second, action.meta));
    check(lacks(b, LACK_LOG) ? second.version != meta.version : second.version > meta.version);
    check(second.mtime_ns >= before && second.ctime_ns >= meta.ctime_ns);
    table_free(t);
    FACTORY.close(b, true);
}

static void equal_puts_change_only_times(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action action = put_action(t, key_of("ada", NULL), "{\"n\": 1}");

    check_int(apply(b, &action), 0);
    struct item_meta first = get_meta(b, t, action.key);
    uint64_t end = log_end(b);
    action.mtime_ns = 777;
    check_int(apply(b, &action), 0);
    check_int(action.change, CHANGE_NONE);
    struct item_meta second = get_meta(b, t, action.key);
    check(meta_equal(second, action.meta));
    check_int(second.version, first.version);
    check_int(second.change_ns, first.change_ns);
    check_int(second.mtime_ns, 777);
    check(second.ctime_ns > first.ctime_ns);
    check_log(b, end, "touch:ada");

    struct action touch = {.kind = ACTION_TOUCH, .table = t, .key = action.key, .mtime_ns = 888};
    check_int(apply(b, &touch), 0);
    check_int(get_meta(b, t, action.key).mtime_ns, 888);
    check_int(touch.meta.version, first.version);
    check_log(b, end, "touch:ada touch:ada");
    check(meta_equal(get_meta(b, t, action.key), touch.meta));
    touch.key = key_of("nobody", NULL);
    check_int(apply(b, &touch), -ENOENT);
    table_free(t);
    FACTORY.close(b, true);
}

static void batches_touch_and_write(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct action actions[2] = {
        put_action(t, key_of("a", NULL), "1"),
        {.kind = ACTION_TOUCH, .table = t, .key = key_of("nobody", NULL), .mtime_ns = 777}};

    check_int(put(b, t, "b", NULL, "2"), 0);
    check_int(backend_write(b, actions, 2, 0, &err), -ENOENT);
    check_walk(b, t, "b=2", .bodies = true);
    actions[1].key = key_of("b", NULL);
    err_clear(&err);
    check_int(backend_write(b, actions, 2, 0, &err), 0);
    check_walk(b, t, "a=1 b=2", .bodies = true);
    check_int(get_meta(b, t, actions[1].key).mtime_ns, 777);
    table_free(t);
    FACTORY.close(b, true);
}

static int put_if(struct backend *b, const struct table *t, const char *key, const char *body,
                  enum condition_kind kind, uint64_t version)
{
    struct action action = put_action(t, key_of(key, NULL), body);
    action.condition = (struct condition){kind, version};
    return apply(b, &action);
}

static int delete_if(struct backend *b, const struct table *t, const char *key,
                     enum condition_kind kind, uint64_t version)
{
    struct action action = delete_action(t, key_of(key, NULL));
    action.condition = (struct condition){kind, version};
    return apply(b, &action);
}

static void conditions_hold(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put_if(b, t, "ada", "1", COND_EXISTS, 0), -ENOENT);
    check_int(put_if(b, t, "ada", "1", COND_VERSION, 1), -ESTALE);
    check_int(put_if(b, t, "ada", "1", COND_ABSENT, 0), 0);
    check_int(put_if(b, t, "ada", "2", COND_ABSENT, 0), -EEXIST);
    check_get(b, t, "ada", NULL, "1");
    uint64_t version = get_meta(b, t, key_of("ada", NULL)).version;
    check_int(put_if(b, t, "ada", "2", COND_EXISTS, 0), 0);
    check_int(put_if(b, t, "ada", "3", COND_VERSION, version), -ESTALE);
    check_int(delete_if(b, t, "ada", COND_VERSION, version), -ESTALE);
    version = get_meta(b, t, key_of("ada", NULL)).version;
    check_int(put_if(b, t, "ada", "3", COND_VERSION, version), 0);
    check_int(delete_if(b, t, "ada", COND_EXISTS, 0), 0);
    check_int(delete_if(b, t, "ada", COND_EXISTS, 0), -ENOENT);
    check_int(delete_if(b, t, "ada", COND_VERSION, version), -ESTALE);
    struct action action = delete_action(t, key_of("ada", NULL));
    check_int(apply(b, &action), 0);
    check_int(action.change, CHANGE_NONE);
    table_free(t);
    FACTORY.close(b, true);
}

static void batches_are_all_or_nothing(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct action actions[4] = {
        put_action(t, key_of("a", NULL), "1"), put_action(t, key_of("b", NULL), "2"),
        delete_action(t, key_of("old", NULL)), put_action(t, key_of("c", NULL), "3")};

    check_int(put(b, t, "old", NULL, "0"), 0);
    uint64_t end = log_end(b);
    actions[3].condition.kind = COND_EXISTS;
    check_int(backend_write(b, actions, 4, 0, &err), -ENOENT);
    check(strstr(err.text, "users/c") != NULL);
    check_walk(b, t, "old=0", .bodies = true);
    check_int(log_end(b), end);
    actions[3].condition.kind = COND_ABSENT;
    err_clear(&err);
    check_int(backend_write(b, actions, 4, 0, &err), 0);
    check_walk(b, t, "a=1 b=2 c=3", .bodies = true);
    check_int(backend_write(b, NULL, 0, 0, &err), 0);
    check_int(backend_write(b, NULL, 0, WRITE_DURABLE, &err), 0);
    table_free(t);
    FACTORY.close(b, true);
}

/* Where the last action cannot be, those before it have not been either. */
static void refused_batches_leave_all(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "a", NULL, "{\"n\":1}"), 0);
    check_int(put(b, t, "b", NULL, "{\"n\":2}"), 0);
    struct item_meta a = get_meta(b, t, key_of("a", NULL));
    for (int i = 0; i < 3; i++) {
        static const int codes[] = {-ESTALE, -EEXIST, -EINVAL};
        struct err err = {""};
        struct action actions[3] = {put_action(t, key_of("a", NULL), "{\"n\":3}"),
                                    delete_action(t, key_of("b", NULL)),
                                    put_action(t, key_of(i == 1 ? "b" : "c", NULL), "{}")};
        actions[0].condition = (struct condition){COND_VERSION, a.version};
        actions[2].condition = (struct condition){i ? COND_ABSENT : COND_VERSION, 1};
        if (i == 1)
            actions[1].key = key_of("nobody", NULL);
        if (i == 2)
            actions[2].body = span_text("{\"n\":");
        check_int(backend_write(b, actions, 3, 0, &err), codes[i]);
        check(err.text[0] != 0);
        check_walk(b, t, "a={\"n\":1} b={\"n\":2}", .bodies = true);
        check(meta_equal(get_meta(b, t, key_of("a", NULL)), a));
    }
    table_free(t);
    FACTORY.close(b, true);
}

static void moves_and_exchanges(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};

    check_int(put(b, t, "a", NULL, "1"), 0);
    check_int(put(b, t, "b", NULL, "2"), 0);
    uint64_t end = log_end(b);
    struct action move[2] = {delete_action(t, key_of("a", NULL)),
                             put_action(t, key_of("c", NULL), "1")};
    move[1].condition.kind = COND_ABSENT;
    check_int(backend_write(b, move, 2, 0, &err), 0);
    check_walk(b, t, "b=2 c=1", .bodies = true);
    check_int(move[0].change, CHANGE_REMOVE);
    check_int(move[1].change, CHANGE_INSERT);
    check_log(b, end, "item:remove!:a item:insert!:c");

    struct action exchange[2] = {put_action(t, key_of("b", NULL), "1"),
                                 put_action(t, key_of("c", NULL), "2")};
    exchange[0].condition =
        (struct condition){COND_VERSION, get_meta(b, t, key_of("b", NULL)).version};
    exchange[1].condition = (struct condition){COND_VERSION, move[1].meta.version};
    check_int(backend_write(b, exchange, 2, WRITE_DURABLE, &err), 0);
    check_walk(b, t, "b=1 c=2", .bodies = true);

    struct action over[2] = {delete_action(t, key_of("b", NULL)),
                             put_action(t, key_of("c", NULL), "1")};
    check_int(backend_write(b, over, 2, 0, &err), 0);
    check_int(over[1].change, CHANGE_MODIFY);
    check_walk(b, t, "c=1", .bodies = true);
    table_free(t);
    FACTORY.close(b, true);
}

static void refusals_have_reasons(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct table *numbers = make_table(b, "numbers", "n:N", NULL, NULL);
    struct err err = {""};
    struct action action = put_action(t, key_of("ada", NULL), "{\"a\": 1, \"a\": 2}");

    check_int(backend_write(b, &action, 1, 0, &err), -EINVAL);
    check(strstr(err.text, "line 1") || strstr(err.text, "1:"));
    check_int(put(b, t, "ada", NULL, "{\"a\": "), -EINVAL);
    check_int(put(b, t, "ada", NULL, "1 2"), -EINVAL);
    check_int(put(b, t, "", NULL, "1"), -EINVAL);
    check_int(put(b, t, "a", "sort", "1"), -EINVAL);
    check_int(put(b, t, "\xff", NULL, "1"), -EINVAL);
    check_int(put(b, numbers, "5.0", NULL, "{}"), -EINVAL);
    check_int(put(b, numbers, "five", NULL, "{}"), -EINVAL);
    check_int(put(b, numbers, "5", NULL, "{}"), 0);

    char *big = malloc(b->max_item_size + 2);
    memset(big, '1', b->max_item_size + 1);
    big[b->max_item_size + 1] = 0;
    err_clear(&err);
    action = put_action(t, key_of("a\nda", NULL), big);
    check_int(backend_write(b, &action, 1, 0, &err), -EFBIG);
    check(strstr(err.text, "users/a%0Ada") != NULL);
    char limit[32];
    snprintf(limit, sizeof limit, "%" PRIu64, b->max_item_size);
    check(strstr(err.text, limit) != NULL);
    free(big);
    check_walk(b, t, "");
    table_free(t);
    table_free(numbers);
    FACTORY.close(b, true);
}

static void names_win_over_bodies(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action action = put_action(t, key_of("bob", NULL), "{ \"id\": \"ada\", \"n\": 1 }");
    struct span fitted = span_text("{ \"id\": \"bob\", \"n\": 1 }");

    check_int(apply(b, &action), 0);
    check_body(b, t, action.key, fitted);
    check_int(action.meta.size, shown_body(b, t, action.key, fitted).len);
    check_int(put(b, t, "bob", NULL, fitted.data), 0);
    check_int(get_meta(b, t, action.key).version, action.meta.version);
    table_free(t);
    FACTORY.close(b, true);
}

/* For another content; with a log not even for the same. */
static void versions_are_never_used_again(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    uint64_t versions[5] = {0};

    for (int i = 0; i < 5; i++) {
        char body[8];
        snprintf(body, sizeof body, "%d", lacks(b, LACK_LOG) ? i : 1);
        struct action action = put_action(t, key_of("ada", NULL), body);
        check_int(apply(b, &action), 0);
        versions[i] = action.meta.version;
        for (int j = 0; j < i; j++)
            check(lacks(b, LACK_LOG) ? versions[i] != versions[j] : versions[i] > versions[j]);
        check_int(erase(b, t, "ada", NULL), 0);
        maintain(b);
        struct backend *other = FACTORY.again(b);
        FACTORY.close(b, false);
        b = other;
    }
    table_free(t);
    FACTORY.close(b, true);
}

static void durable_writes_and_syncs(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct action action = put_action(t, key_of("ada", NULL), "1");

    check_int(backend_write(b, &action, 1, WRITE_DURABLE, &err), 0);
    check_int(put(b, t, "bob", NULL, "2"), 0);
    check_int(backend_sync(b, &err), 0);
    check_int(backend_sync(b, &err), 0);
    struct statvfs space;
    check_int(backend_statfs(b, &space, &err), 0);
    check(space.f_blocks > 0);
    check(b->counters.writes >= 3 && b->counters.write_ns > 0);
    table_free(t);
    FACTORY.close(b, true);
}

/* A save of the same bytes leaves the version as it is: the mtime tells. */
static void deletions_ask_for_times(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action action = put_action(t, key_of("ada", NULL), "{\"n\": 1}");

    action.mtime_ns = 1000 * NS_PER_S;
    check_int(apply(b, &action), 0);
    struct action gone = delete_action(t, action.key);
    gone.condition = (struct condition){COND_VERSION, action.meta.version};
    gone.mtime_ns = action.meta.mtime_ns;
    action.mtime_ns = 2000 * NS_PER_S;
    check_int(apply(b, &action), 0);
    check(action.meta.version == gone.condition.version);
    check_int(apply(b, &gone), -ESTALE);
    check_get(b, t, "ada", NULL, "{\"n\": 1}");
    gone.mtime_ns = action.meta.mtime_ns;
    check_int(apply(b, &gone), 0);
    check_int(gone.change, CHANGE_REMOVE);
    check_absent(b, t, "ada");
    check_int(apply(b, &gone), -ESTALE);
    table_free(t);
    FACTORY.close(b, true);
}

#define CONTRACT_ITEMS                                                                             \
    CHECK_TEST(items_come_back), CHECK_TEST(items_have_metadata),                                  \
        CHECK_TEST(equal_puts_change_only_times), CHECK_TEST(batches_touch_and_write),             \
        CHECK_TEST(conditions_hold), CHECK_TEST(batches_are_all_or_nothing),                       \
        CHECK_TEST(refused_batches_leave_all), CHECK_TEST(moves_and_exchanges),                    \
        CHECK_TEST(refusals_have_reasons), CHECK_TEST(names_win_over_bodies),                      \
        CHECK_TEST(deletions_ask_for_times), CHECK_TEST(versions_are_never_used_again),            \
        CHECK_TEST(durable_writes_and_syncs)
