/* SPDX-License-Identifier: MIT */
/* Time to live. Needs fixture.h's helpers and tables.h's describe. */
#include "tests/contract/tables.h"

static int put_ttl(struct backend *b, const struct table *t, const char *key, int64_t ttl)
{
    char body[64];

    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 "}", ttl);
    return put(b, t, key, t->sort.name ? "1" : NULL, body);
}

static void expired_items_are_not_there(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "cache", "id", NULL, "by-x:x");
    int64_t now = clock_now_s();
    struct query query = {.index = table_index(t, span_text("by-x")), .partition = span_text("1")};

    check_int(put(b, t, "gone", NULL, "{\"-ttl\":1,\"x\":\"1\"}"), 0);
    check_int(put(b, t, "zero", NULL, "{\"-ttl\":0,\"x\":\"1\"}"), 0);
    check_int(put_ttl(b, t, "later", now + 1000), 0);
    check_int(get_meta(b, t, key_of("later", NULL)).ttl, now + 1000);
    check_int(get_meta(b, t, key_of("zero", NULL)).ttl, 0);
    check_get(b, t, "gone", NULL, "No such file or directory");
    check_walk(b, t, "later zero");
    check_text(span_text(query_line(b, t, query)), "zero");
    check_int(put_ttl(b, t, "soon", now + 1), 0);
    check_walk(b, t, "later soon zero");
    while (clock_now_s() <= now)
        usleep(20000);
    check_walk(b, t, "later zero");
    check_get(b, t, "soon", NULL, "No such file or directory");
    table_free(t);
    FACTORY.close(b, true);
}

static void conditions_see_no_expired_items(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct action action = put_action(t, key_of("a", NULL), "{\"-ttl\":1}");

    check_int(apply(b, &action), 0);
    uint64_t end = log_end(b), version = action.meta.version;
    struct action over = put_action(t, action.key, "{}");
    over.condition = (struct condition){COND_VERSION, version};
    check_int(apply(b, &over), -ESTALE);
    over.condition.kind = COND_EXISTS;
    check_int(apply(b, &over), -ENOENT);
    struct action touch = {.kind = ACTION_TOUCH, .table = t, .key = action.key};
    check_int(apply(b, &touch), -ENOENT);
    check_int(log_end(b), end);
    over.condition.kind = COND_ABSENT;
    check_int(apply(b, &over), 0);
    check_int(over.change, CHANGE_INSERT);
    check_text(span_text(log_line(b, end, true)),
               "item:remove!~:a({\"-ttl\":1}>) item:insert!:a(>{})");
    table_free(t);
    FACTORY.close(b, true);
}

static void sweeps_are_deletes(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct table *sorted = make_table(b, "sorted", "id", "n:N", NULL);
    struct err err = {""};
    uint64_t items;
    int64_t changed;

    check_int(put_ttl(b, t, "a", 10), 0);
    check_int(put_ttl(b, t, "b", 9), 0);
    check_int(put_ttl(b, t, "keep", clock_now_s() + 1000), 0);
    check_int(put_ttl(b, sorted, "p", 11), 0);
    check_int(backend_partition(b, sorted, span_text("p"), &items, &changed, &err), -ENOENT);
    check_int(put(b, sorted, "p", "2", "{}"), 0);
    check_int(backend_partition(b, sorted, span_text("p"), &items, &changed, &err), 0);
    check_int(items, 1);
    uint64_t end = log_end(b);
    maintain(b);
    check_log(b, end, "item:remove!~:b item:remove!~:a item:remove!~:p");
    maintain(b);
    check_log(b, end, "item:remove!~:b item:remove!~:a item:remove!~:p");
    check_walk(b, t, "keep");
    check_int(backend_partition(b, sorted, span_text("p"), &items, &changed, &err), 0);
    check_int(items, 1);
    check_int(backend_drop_table(b, t, false, &err), -ENOTEMPTY);
    check_int(erase(b, t, "keep", NULL), 0);
    check_int(put_ttl(b, t, "gone", 5), 0);
    check_int(backend_drop_table(b, t, false, &err), 0);
    table_free(t);
    table_free(sorted);
    FACTORY.close(b, true);
}

static void many_expired_items_are_swept(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    char key[32];

    for (int i = 0; i < 1200; i++) {
        snprintf(key, sizeof key, "%d", i);
        check_int(put_ttl(b, t, key, 1 + i % 7), 0);
    }
    uint64_t end = log_end(b);
    maintain(b);
    check_int(log_end(b) - end, 1200);
    table_free(t);
    FACTORY.close(b, true);
}

static void values_keep_their_ttl_beside(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    int64_t later = clock_now_s() + 1000;
    struct action action = put_action(t, key_of("five", NULL), "5");

    action.ttl = later;
    check_int(apply(b, &action), 0);
    check_int(action.meta.ttl, later);
    check_int(get_meta(b, t, action.key).ttl, later);
    uint64_t version = action.meta.version;
    check_int(apply(b, &action), 0);
    check_int(action.change, CHANGE_NONE);
    check_int(action.meta.ttl, later);
    action.ttl = 0; /* the same bytes, another TTL: a change */
    check_int(apply(b, &action), 0);
    check_int(action.change, CHANGE_MODIFY);
    check(action.meta.version > version);
    check_int(get_meta(b, t, action.key).ttl, 0);
    action.ttl = 1;
    check_int(apply(b, &action), 0);
    check_get(b, t, "five", NULL, "No such file or directory");
    table_free(t);
    FACTORY.close(b, true);
}

static void another_attribute_expires_anew(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "cache", "id:N", NULL, NULL);
    struct err err = {""};
    struct action five = put_action(t, key_of("5", NULL), "5");

    five.ttl = clock_now_s() + 1000;
    check_int(apply(b, &five), 0);
    check_int(put(b, t, "1", NULL, "{\"-ttl\":1,\"until\":99999999999}"), 0);
    check_int(put(b, t, "2", NULL, "{\"until\":1}"), 0);
    check_walk(b, t, "2 5");
    free(t->ttl_attribute);
    t->ttl_attribute = strdup("until");
    check_int(backend_alter_table(b, t, &err), 0);
    check_walk(b, t, "1 5");
    check_int(get_meta(b, t, key_of("1", NULL)).ttl, 99999999999);
    check_int(get_meta(b, t, five.key).ttl, five.ttl);
    free(t->ttl_attribute);
    t->ttl_attribute = NULL;
    check_int(backend_alter_table(b, t, &err), 0);
    check_walk(b, t, "1 2 5");
    check_int(get_meta(b, t, five.key).ttl, 0);
    maintain(b);
    check_walk(b, t, "1 2 5");
    table_free(t);
    FACTORY.close(b, true);
}

/* Written with a description that another process has changed since: the new rules hold. */
static void old_descriptions_do_no_harm(void)
{
    struct backend *b = FACTORY.open(), *other = FACTORY.again(b);
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct table *altered = table_copy(t);
    struct err err = {""};

    check_int(put(b, t, "a", NULL, "{}"), 0);
    free(altered->ttl_attribute);
    altered->ttl_attribute = strdup("until");
    altered->stream = false;
    check_int(backend_alter_table(other, altered, &err), 0);
    uint64_t end = log_end(b);
    check_int(put(b, t, "b", NULL, "{\"-ttl\":1}"), 0);
    check_int(put(b, t, "c", NULL, "{\"until\":1}"), 0);
    check_walk(b, t, "a b");
    check_log(b, end, "item:insert:b item:insert:c");
    table_free(t);
    table_free(altered);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

#define CONTRACT_EXPIRY                                                                            \
    CHECK_TEST(expired_items_are_not_there), CHECK_TEST(conditions_see_no_expired_items),          \
        CHECK_TEST(sweeps_are_deletes), CHECK_TEST(many_expired_items_are_swept),                  \
        CHECK_TEST(values_keep_their_ttl_beside), CHECK_TEST(another_attribute_expires_anew),      \
        CHECK_TEST(old_descriptions_do_no_harm)
