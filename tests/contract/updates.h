/* SPDX-License-Identifier: MIT */
/* Updates of one attribute: counters, lists. */
#include "tests/contract/walks.h"

#include <pthread.h>

/* The new number, or the errno's text. */
static const char *add_at(struct backend *b, const struct table *t, struct key key,
                          const char *attribute, const char *step)
{
    static char told[200];
    const struct update update = {UPDATE_ADD, span_text(attribute), span_text(step)};
    struct item_meta meta = {0};
    struct err err = {""};
    struct buf number;

    buf_init(&number, 200);
    int code = backend_update(b, t, key, &update, &meta, &number, &err);
    check((code == 0) == (err.text[0] == 0));
    check(code == 0 || number.len == 0);
    if (code)
        snprintf(told, sizeof told, "%s", strerror(-code));
    else
        snprintf(told, sizeof told, "%.*s", (int)number.len, number.data);
    buf_release(&number);
    if (code == 0) {
        struct item_meta now = get_meta(b, t, key);
        check(now.version == meta.version && now.size == meta.size && now.ttl == meta.ttl &&
              now.mtime_ns == meta.mtime_ns && now.change_ns == meta.change_ns &&
              now.change == meta.change);
    }
    return told;
}
#define check_add(b, t, key, attribute, step, want)                                                \
    check_text(span_text(add_at((b), (t), key_of((key), NULL), (attribute), (step))), (want))
#define NO_ITEM "No such file or directory"
#define REFUSED "Invalid argument"

static int append_to(struct backend *b, const struct table *t, const char *key,
                     const char *attribute, const char *value, enum update_kind kind)
{
    const struct update update = {kind, span_text(attribute), span_text(value)};
    struct item_meta meta;
    struct err err = {""};
    int code = backend_update(b, t, key_of(key, NULL), &update, &meta, NULL, &err);

    check((code == 0) == (err.text[0] == 0));
    return code;
}

static void numbers_are_added_to(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "a", NULL,
                  "{\"n\": 1.5, \"big\": 12345678901234567890123456789012345678,\n "
                  "\"s\": [1, 2]}\n"),
              0);
    check_add(b, t, "a", "n", "1", "2.5");
    check_add(b, t, "a", "n", "-1.25e1", "-10");
    check_add(b, t, "a", "n", "+0010", "0");
    check_add(b, t, "a", "big", "1", "12345678901234567890123456789012345679");
    check_add(b, t, "a", "new", "0.1", "0.1");
    check_get(b, t, "a", NULL,
              "{\"n\": 0, \"big\": 12345678901234567890123456789012345679,\n \"s\": [1, 2],\n "
              "\"new\": 0.1}\n");
    check_int(put(b, t, "bare", NULL, " 5\n"), 0);
    check_add(b, t, "bare", ITEM_VALUE, "1", "6");
    check_get(b, t, "bare", NULL, " 6\n");
    check_int(put(b, t, "null", NULL, "{\"n\": null}"), 0);
    check_add(b, t, "null", "n", "2", "2");
    check_get(b, t, "null", NULL, "{\"n\": 2}");
    check_int(put(b, t, "null", NULL, "null"), 0);
    check_add(b, t, "null", ITEM_VALUE, "-2", "-2");
    check_get(b, t, "null", NULL, "-2");
    check_int(put(b, t, "empty", NULL, ""), 0);
    check_add(b, t, "empty", "n", "7", "7");
    check_get(b, t, "empty", NULL, "{\"n\": 7}\n");
    table_free(t);
    FACTORY.close(b, true);
}

static void sorted_items_are_added_to(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SORTED))
        return;
    struct table *t = make_table(b, "orders", "id", "n:N", "by-x:x:N");
    struct query query = {.index = table_index(t, span_text("by-x")), .partition = span_text("2")};

    check_int(put(b, t, "a", "1", "{\"x\":1}"), 0);
    check_int(put(b, t, "a", "2", "{\"x\":5}"), 0);
    check_text(span_text(add_at(b, t, key_of("a", "1"), "x", "1")), "2");
    check_text(span_text(query_line(b, t, query)), "a/1");
    check_text(span_text(add_at(b, t, key_of("a", "3"), "x", "1")), NO_ITEM);
    check_text(span_text(add_at(b, t, key_of("a", "1"), "n", "1")), REFUSED);
    check_text(span_text(add_at(b, t, key_of("a", NULL), "x", "1")), REFUSED);
    check_walk(b, t, "a/1={\"x\":2} a/2={\"x\":5}", .bodies = true);
    table_free(t);
    FACTORY.close(b, true);
}

static void refused_updates_change_nothing(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    static const char body[] = "{\"s\": \"7\", \"b\": true, \"l\": [1], \"m\": {\"n\": 1}}";

    check_int(put(b, t, "a", NULL, body), 0);
    check_int(put(b, t, "bare", NULL, "\"7\""), 0);
    check_int(put(b, t, "five", NULL, "5"), 0);
    check_int(put(b, t, "empty", NULL, ""), 0);
    struct item_meta before = get_meta(b, t, key_of("a", NULL));
    uint64_t end = log_end(b);
    check_add(b, t, "nobody", "n", "1", NO_ITEM);
    check_add(b, t, "nobody", ITEM_VALUE, "1", NO_ITEM);
    check_int(append_to(b, t, "nobody", "l", "1", UPDATE_APPEND), -ENOENT);
    check_absent(b, t, "nobody");
    for (const char *const *name =
             (const char *const[]){"s", "b", "l", "m", "id", "", ITEM_VALUE, NULL};
         *name; name++)
        check_add(b, t, "a", *name, "1", REFUSED);
    if (!lacks(b, LACK_TTL))
        check_add(b, t, "a", "-ttl", "1", REFUSED);
    check_add(b, t, "a", "n", "one", REFUSED);
    check_add(b, t, "bare", ITEM_VALUE, "1", REFUSED);
    check_add(b, t, "empty", ITEM_VALUE, "1", REFUSED);
    check_add(b, t, "five", "n", "1", REFUSED);
    for (const char *const *name = (const char *const[]){"s", "b", "m", "id", NULL}; *name; name++)
        check_int(append_to(b, t, "a", *name, "1", UPDATE_APPEND), -EINVAL);
    check_int(append_to(b, t, "a", "s", "\"7\"", UPDATE_APPEND_UNIQUE), -EINVAL);
    check_int(append_to(b, t, "a", "l", "1,2", UPDATE_APPEND), -EINVAL);
    check_int(append_to(b, t, "five", "l", "1", UPDATE_APPEND), -EINVAL);
    check_get(b, t, "a", NULL, body);
    check_get(b, t, "bare", NULL, "\"7\"");
    check_get(b, t, "five", NULL, "5");
    check_get(b, t, "empty", NULL, "");
    check_int(get_meta(b, t, key_of("a", NULL)).version, before.version);
    check_int(log_end(b), end);
    table_free(t);
    FACTORY.close(b, true);
}

static void lists_are_appended_to(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "a", NULL, "{\"n\": 1}"), 0);
    check_int(append_to(b, t, "a", "l", "\"x\"", UPDATE_APPEND), 0);
    check_int(append_to(b, t, "a", "l", "7", UPDATE_APPEND_UNIQUE), 0);
    check_int(append_to(b, t, "a", "l", "\"7\"", UPDATE_APPEND_UNIQUE), 0);
    check_int(append_to(b, t, "a", "l", "7.0", UPDATE_APPEND_UNIQUE), -EEXIST);
    check_int(append_to(b, t, "a", "l", " 7 ", UPDATE_APPEND), 0);
    check_int(append_to(b, t, "a", "l", "[{\"x\":null}]", UPDATE_APPEND), 0);
    check_int(append_to(b, t, "a", "new", "7", UPDATE_APPEND_UNIQUE), 0);
    check_get(b, t, "a", NULL, "{\"n\": 1, \"l\": [\"x\",7,\"7\",7,[{\"x\":null}]], \"new\": [7]}");
    check_int(put(b, t, "set", NULL, "{\"n\": {\"$NS\": [1, 7]}, \"s\": {\"$SS\": [\"a\"]}}"), 0);
    check_int(append_to(b, t, "set", "n", "7", UPDATE_APPEND_UNIQUE), -EEXIST);
    check_int(append_to(b, t, "set", "n", "8", UPDATE_APPEND_UNIQUE), -EINVAL);
    check_int(append_to(b, t, "set", "s", "\"b\"", UPDATE_APPEND), -EINVAL);
    check_int(put(b, t, "bare", NULL, "[]"), 0);
    check_int(append_to(b, t, "bare", ITEM_VALUE, "1", UPDATE_APPEND_UNIQUE), 0);
    check_get(b, t, "bare", NULL, "[1]");
    table_free(t);
    FACTORY.close(b, true);
}

static void updates_keep_times_to_live(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    int64_t now = clock_now_s();
    char body[64];

    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 ",\"n\":1}", now - 100);
    check_int(put(b, t, "gone", NULL, body), 0);
    check_add(b, t, "gone", "n", "1", NO_ITEM);
    check_int(append_to(b, t, "gone", "l", "1", UPDATE_APPEND), -ENOENT);
    check_absent(b, t, "gone");
    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 ",\"n\":1}", now + 1000);
    check_int(put(b, t, "later", NULL, body), 0);
    check_add(b, t, "later", "n", "1", "2");
    check_int(get_meta(b, t, key_of("later", NULL)).ttl, now + 1000);
    struct action bare = put_action(t, key_of("bare", NULL), "5");
    bare.ttl = now + 1000;
    check_int(apply(b, &bare), 0);
    check_add(b, t, "bare", ITEM_VALUE, "1", "6");
    check_int(get_meta(b, t, bare.key).ttl, now + 1000);
    table_free(t);
    FACTORY.close(b, true);
}

static void updates_are_logged(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "a", NULL, "{\"n\":1}"), 0);
    uint64_t end = log_end(b);
    struct item_meta before = get_meta(b, t, key_of("a", NULL));
    check_add(b, t, "a", "n", "1", "2");
    check_int(append_to(b, t, "a", "l", "1", UPDATE_APPEND), 0);
    struct item_meta after = get_meta(b, t, key_of("a", NULL));
    check(after.version != before.version && after.mtime_ns >= before.mtime_ns);
    check_int(after.change, CHANGE_MODIFY);
    if (!lacks(b, LACK_LOG))
        check_text(span_text(log_line(b, end, true)),
                   "item:modify!:a({\"n\":1}>{\"n\":2}) "
                   "item:modify!:a({\"n\":2}>{\"n\":2,\"l\":[1]})");
    table_free(t);
    FACTORY.close(b, true);
}

/* What would have to be rounded is refused by whoever reckons. */
static void sums_beyond_limits_are_refused(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_LIMITS))
        return;
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    static const char body[] = "{\"n\": 9.5e125}";

    check_int(put(b, t, "a", NULL, body), 0);
    for (const char *const *step = (const char *const[]){"9e125", "1", "-1e-130", NULL}; *step;
         step++) {
        const char *told = add_at(b, t, key_of("a", NULL), "n", *step);
        check(strcmp(told, strerror(ERANGE)) == 0 || strcmp(told, REFUSED) == 0);
    }
    check_get(b, t, "a", NULL, body);
    table_free(t);
    FACTORY.close(b, true);
}

static void updated_items_stay_within_their_size(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_BYTES))
        return;
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    static char body[100000]; /* what the fixtures' backends take */

    memset(body, ' ', sizeof body);
    memcpy(body, "[1]", 3);
    struct action full = {.kind = ACTION_PUT,
                          .table = t,
                          .key = key_of("full", NULL),
                          .body = span_of(body, sizeof body)};
    check_int(apply(b, &full), 0);
    check_int(append_to(b, t, "full", ITEM_VALUE, "1", UPDATE_APPEND), -EFBIG);
    check_int(get_meta(b, t, full.key).version, full.meta.version);
    table_free(t);
    FACTORY.close(b, true);
}

#define COUNTERS 8

struct counter {
    struct backend *backend;
    const struct table *table;
    int number, count, failures, held;
};

/* Adds to one number; appends values of its own, and one that all append. */
static void *count_and_append(void *context)
{
    struct counter *counter = context;
    const struct key key = key_of("a", NULL);
    struct item_meta meta;
    char value[32];

    for (int i = 0; i < counter->count; i++) {
        struct err err = {""};
        struct buf number;
        const struct update add = {UPDATE_ADD, span_text("n"), span_text("0.1")};
        const struct update same = {UPDATE_APPEND_UNIQUE, span_text("same"), span_text("7")};
        snprintf(value, sizeof value, "%d", counter->number * counter->count + i);
        const struct update own = {UPDATE_APPEND_UNIQUE, span_text("l"), span_text(value)};
        buf_init(&number, 200);
        counter->failures +=
            backend_update(counter->backend, counter->table, key, &add, &meta, &number, &err) != 0;
        counter->failures +=
            backend_update(counter->backend, counter->table, key, &own, &meta, NULL, &err) != 0;
        int code = backend_update(counter->backend, counter->table, key, &same, &meta, NULL, &err);
        counter->held += code == -EEXIST;
        counter->failures += code != 0 && code != -EEXIST;
        buf_release(&number);
    }
    return NULL;
}

/* The list L has each of the numbers below COUNT once, those of one thread in their order. */
static void check_list(const struct value *item, int count)
{
    const struct value *list = value_member(item, span_text("l"));
    int each = count / COUNTERS, next[COUNTERS] = {0}, seen = 0;

    check(list && list->type == VALUE_L && (int)list->list.count == count);
    for (int i = 0; list && i < (int)list->list.count; i++) {
        int number = atoi(list->list.items[i].text.data);
        check(number / each < COUNTERS && next[number / each]++ == number % each);
        seen++;
    }
    check_int(seen, count);
}

static void updates_lose_nothing(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_ATOMIC))
        return;
    struct backend *second = FACTORY.again(b);
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct counter counters[COUNTERS];
    pthread_t threads[COUNTERS];
    int each = FACTORY.many / 10, held = 0;
    char total[32];

    check_int(put(b, t, "a", NULL, "{\"n\": 0}"), 0);
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = (struct counter){i % 2 ? b : second, t, i, each, 0, 0};
        check_int(pthread_create(&threads[i], NULL, count_and_append, &counters[i]), 0);
    }
    for (int i = 0; i < COUNTERS; i++) {
        pthread_join(threads[i], NULL);
        check_int(counters[i].failures, 0);
        held += counters[i].held;
    }
    check_int(held, COUNTERS * each - 1);
    snprintf(total, sizeof total, "%d", COUNTERS * each / 10);
    check_add(b, t, "a", "n", "0", total);
    struct value item = {0};
    struct item_meta meta;
    struct err err = {""};
    struct buf body;
    buf_init(&body, 1000000);
    check_int(backend_get(b, t, key_of("a", NULL), &meta, &body, &err), 0);
    check_int(value_from_plain(buf_span(&body), &item, &err), 0);
    check_list(&item, COUNTERS * each);
    buf_release(&body);
    value_release(&item);
    table_free(t);
    FACTORY.close(second, false);
    FACTORY.close(b, true);
}

#define CONTRACT_UPDATES                                                                           \
    CHECK_TEST(numbers_are_added_to), CHECK_TEST(sorted_items_are_added_to),                       \
        CHECK_TEST(refused_updates_change_nothing), CHECK_TEST(lists_are_appended_to),             \
        CHECK_TEST(updates_keep_times_to_live), CHECK_TEST(updates_are_logged),                    \
        CHECK_TEST(sums_beyond_limits_are_refused),                                                \
        CHECK_TEST(updated_items_stay_within_their_size), CHECK_TEST(updates_lose_nothing)
