/* SPDX-License-Identifier: MIT */
/* Time to live. */
#include "tests/contract/walks.h"

/* A time to live that has passed: a moment ago, since a service takes one of years ago for a
 * mistake, and keeps such items. AGO orders several. */
static int64_t passed(int ago)
{
    return clock_now_s() - 100 - ago;
}

static int put_ttl(struct backend *b, const struct table *t, const char *key, int64_t ttl)
{
    char body[64];

    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 "}", ttl);
    return put(b, t, key, t->sort.name ? "1" : NULL, body);
}

static void expired_items_are_not_there(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, "by-x:x");
    int64_t now = clock_now_s();
    char body[64];
    struct query query = {.index = table_index(t, span_text("by-x")), .partition = span_text("1")};

    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 ",\"x\":\"1\"}", passed(0));
    check_int(put(b, t, "gone", NULL, body), 0);
    check_int(put(b, t, "zero", NULL, "{\"-ttl\":0,\"x\":\"1\"}"), 0);
    check_int(put_ttl(b, t, "later", now + 1000), 0);
    check_int(get_meta(b, t, key_of("later", NULL)).ttl, now + 1000);
    check_int(get_meta(b, t, key_of("zero", NULL)).ttl, 0);
    check_absent(b, t, "gone");
    check_walk(b, t, "later zero");
    check_text(span_text(query_line(b, t, query)), "zero");
    int64_t soon = clock_now_s() + 2;
    check_int(put_ttl(b, t, "soon", soon), 0);
    check_walk(b, t, "later soon zero");
    while (clock_now_s() < soon)
        usleep(20000);
    check_walk(b, t, "later zero");
    check_absent(b, t, "soon");
    table_free(t);
    FACTORY.close(b, true);
}

static void conditions_see_no_expired_items(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    char body[64], log[200];

    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 "}", passed(0));
    struct action action = put_action(t, key_of("a", NULL), body);
    check_int(apply(b, &action), 0);
    uint64_t end = log_end(b), version = action.meta.version;
    struct action over = put_action(t, action.key, "{}"), gone = delete_action(t, action.key);
    over.condition = (struct condition){COND_VERSION, version};
    check_int(apply(b, &over), -ESTALE);
    over.condition.kind = COND_EXISTS;
    check_int(apply(b, &over), -ENOENT);
    gone.condition.kind = COND_EXISTS;
    check_int(apply(b, &gone), -ENOENT);
    struct action touch = {.kind = ACTION_TOUCH, .table = t, .key = action.key};
    check_int(apply(b, &touch), -ENOENT);
    check_int(log_end(b), end);
    over.condition.kind = COND_ABSENT;
    check_int(apply(b, &over), 0);
    check_int(over.change, CHANGE_INSERT);
    snprintf(log, sizeof log, "item:remove!~:a(%s>) item:insert!:a(>{})", body);
    if (!lacks(b, LACK_LOG))
        check_text(span_text(log_line(b, end, true)), log);
    check_int(apply(b, &action), 0);
    gone.condition.kind = COND_NONE;
    check_int(apply(b, &gone), 0);
    check_int(gone.change, CHANGE_NONE);
    check_int(apply(b, &action), 0);
    check_int(action.change, CHANGE_INSERT);
    table_free(t);
    FACTORY.close(b, true);
}

/* An item that has expired is as good as absent for each action of a batch. */
static void batches_see_no_expired_items(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct err err = {""};
    struct action move[2] = {delete_action(t, key_of("a", NULL)),
                             put_action(t, key_of("b", NULL), "{}")};

    check_int(put_ttl(b, t, "a", passed(0)), 0);
    check_int(put_ttl(b, t, "b", passed(0)), 0);
    move[0].condition.kind = COND_EXISTS;
    check_int(backend_write(b, move, 2, 0, &err), -ENOENT);
    check_walk(b, t, "");
    move[0].condition.kind = COND_NONE;
    move[1].condition.kind = COND_ABSENT;
    err_clear(&err);
    check_int(backend_write(b, move, 2, 0, &err), 0);
    check_int(move[0].change, CHANGE_NONE);
    check_int(move[1].change, CHANGE_INSERT);
    check_walk(b, t, "b={}", .bodies = true);
    table_free(t);
    FACTORY.close(b, true);
}

static void sweeps_are_deletes(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SWEEPS))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct table *sorted = make_table(b, "sorted", "id", sort_of(b, "n:N"), NULL);
    struct err err = {""};
    uint64_t items;
    int64_t changed;

    check_int(put_ttl(b, t, "a", passed(1)), 0);
    check_int(put_ttl(b, t, "b", passed(2)), 0);
    check_int(put_ttl(b, t, "keep", clock_now_s() + 1000), 0);
    check_int(put_ttl(b, sorted, "p", passed(0)), 0);
    if (!lacks(b, LACK_SORTED)) {
        check_int(backend_partition(b, sorted, span_text("p"), &items, &changed, &err), -ENOENT);
        check_int(put(b, sorted, "p", "2", "{}"), 0);
        check_partition(b, sorted, "p", 1);
    }
    uint64_t end = log_end(b);
    maintain(b);
    check_log(b, end, "item:remove!~:b item:remove!~:a item:remove!~:p");
    maintain(b);
    check_log(b, end, "item:remove!~:b item:remove!~:a item:remove!~:p");
    check_walk(b, t, "keep");
    if (!lacks(b, LACK_SORTED))
        check_partition(b, sorted, "p", 1);
    table_free(t);
    table_free(sorted);
    FACTORY.close(b, true);
}

static void expired_items_hold_no_table(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct err err = {""};

    check_int(put_ttl(b, t, "keep", clock_now_s() + 1000), 0);
    check_int(put_ttl(b, t, "gone", passed(0)), 0);
    maintain(b);
    check_int(backend_drop_table(b, t, false, &err), -ENOTEMPTY);
    check_int(erase(b, t, "keep", NULL), 0);
    err_clear(&err);
    check_int(backend_drop_table(b, t, false, &err), 0);
    table_free(t);
    FACTORY.close(b, true);
}

static void many_expired_items_are_swept(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SWEEPS))
        return;
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    char key[32];

    for (int i = 0; i < FACTORY.many; i++) {
        snprintf(key, sizeof key, "%d", i);
        check_int(put_ttl(b, t, key, passed(i % 7)), 0);
    }
    uint64_t end = log_end(b);
    maintain(b);
    check_int(log_end(b) - end, FACTORY.many);
    table_free(t);
    FACTORY.close(b, true);
}

static void values_keep_their_ttl_beside(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
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
    check(action.meta.version != version);
    check_int(get_meta(b, t, action.key).ttl, 0);
    action.ttl = passed(0);
    check_int(apply(b, &action), 0);
    check_absent(b, t, "five");
    table_free(t);
    FACTORY.close(b, true);
}

static void another_attribute_expires_anew(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_TTL))
        return;
    struct table *t = make_table(b, "cache", "id:N", NULL, NULL);
    struct err err = {""};
    struct action five = put_action(t, key_of("5", NULL), "5");
    char body[80];

    five.ttl = clock_now_s() + 1000;
    check_int(apply(b, &five), 0);
    snprintf(body, sizeof body, "{\"-ttl\":%" PRId64 ",\"until\":99999999999}", passed(0));
    check_int(put(b, t, "1", NULL, body), 0);
    snprintf(body, sizeof body, "{\"until\":%" PRId64 "}", passed(0));
    check_int(put(b, t, "2", NULL, body), 0);
    check_walk(b, t, "2 5");
    free(t->ttl_attribute);
    t->ttl_attribute = strdup("until");
    check_int(backend_alter_table(b, t, &err), 0);
    check_walk(b, t, "1 5");
    check_int(get_meta(b, t, key_of("1", NULL)).ttl, 99999999999);
    if (!lacks(b, LACK_BYTES)) /* else it is an attribute like others */
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
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SCHEMA))
        return;
    struct backend *other = FACTORY.again(b);
    struct table *t = make_table(b, "cache", "id", NULL, NULL);
    struct table *altered = table_copy(t);
    struct err err = {""};
    char body[64];

    check_int(put(b, t, "a", NULL, "{}"), 0);
    free(altered->ttl_attribute);
    altered->ttl_attribute = strdup("until");
    altered->stream = false;
    check_int(backend_alter_table(other, altered, &err), 0);
    uint64_t end = log_end(b);
    check_int(put_ttl(b, t, "b", passed(0)), 0);
    snprintf(body, sizeof body, "{\"until\":%" PRId64 "}", passed(0));
    check_int(put(b, t, "c", NULL, body), 0);
    check_walk(b, t, "a b");
    check_log(b, end, "item:insert:b item:insert:c");
    table_free(t);
    table_free(altered);
    FACTORY.close(other, false);
    FACTORY.close(b, true);
}

#define CONTRACT_EXPIRY                                                                            \
    CHECK_TEST(expired_items_are_not_there), CHECK_TEST(conditions_see_no_expired_items),          \
        CHECK_TEST(batches_see_no_expired_items), CHECK_TEST(sweeps_are_deletes),                  \
        CHECK_TEST(expired_items_hold_no_table), CHECK_TEST(many_expired_items_are_swept),         \
        CHECK_TEST(values_keep_their_ttl_beside), CHECK_TEST(another_attribute_expires_anew),      \
        CHECK_TEST(old_descriptions_do_no_harm)
