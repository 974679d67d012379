/* SPDX-License-Identifier: MIT */
/* Tables: making, describing, changing, dropping; their directory times. */
#ifndef TESTS_CONTRACT_TABLES_H
#define TESTS_CONTRACT_TABLES_H

#include "tests/contract/fixture.h"

static int line_table(void *context, const struct table *table)
{
    line_add(context, span_text(table->name));
    line_add(context, span_text(" "));
    return 0;
}

static const char *table_line(struct backend *b)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.len = 0};
    check_int(backend_tables(b, line_table, &line, &err), 0);
    return line.text;
}

static struct table *describe(struct backend *b, const char *name)
{
    struct table *table = NULL;
    struct err err = {""};

    check_int(backend_describe(b, span_text(name), &table, &err), 0);
    if (!table)
        exit(1);
    return table;
}

static void tables_are_described(void)
{
    struct backend *b = FACTORY.open();
    struct err err = {""};
    int64_t before = clock_now_ns();
    struct table *t = make_table(b, "orders", "cust", sort_of(b, "day:N"), "by-x:x:B,y");
    struct table *users = make_table(b, "users", "key", NULL, NULL);
    struct table *none = NULL;

    check_text(span_text(table_line(b)), "orders users ");
    check_text(span_text(t->partition.name), "cust");
    check_int(t->partition.type, VALUE_S);
    if (!lacks(b, LACK_SORTED)) {
        check_text(span_text(t->sort.name), "day");
        check_int(t->sort.type, VALUE_N);
    }
    check_int(t->keys, KEYS_PLAIN);
    check_int(t->index_count, 1);
    check_text(span_text(t->indexes[0].name), "by-x");
    check_int(t->indexes[0].partition.type, VALUE_B);
    check_text(span_text(t->indexes[0].sort.name), "y");
    check_text(span_text(t->ttl_attribute), lacks(b, LACK_TTL) ? "" : TABLE_TTL_DEFAULT);
    check(t->show_keys && (t->stream || lacks(b, LACK_STREAMS)));
    if (lacks(b, LACK_NANOSECONDS))
        before -= NS_PER_S;
    check(t->created_ns >= before && t->changed_ns >= before);
    check(t->created_ns <= clock_now_ns());
    if (!lacks(b, LACK_STYLES))
        check(users->keys == KEYS_TAGS && !users->show_keys);
    check(users->id != t->id && users->id > 0);
    check_int(backend_create_table(b, users, &err), -EEXIST);
    check(strstr(err.text, "users") != NULL);
    err_clear(&err);
    check_int(backend_describe(b, span_text("nobody"), &none, &err), -ENOENT);
    free(users->name);
    users->name = strdup("a/b");
    check_int(backend_create_table(b, users, &err), -EINVAL);
    table_free(t);
    table_free(users);
    FACTORY.close(b, true);
}

static void tables_are_dropped(void)
{
    struct backend *b = FACTORY.open();
    struct err err = {""};
    struct table *t = make_table(b, "users", "id", NULL, "by-n:n:N");

    check_int(put(b, t, "ada", NULL, "{\"n\": 1}"), 0);
    check_int(backend_drop_table(b, t, false, &err), -ENOTEMPTY);
    check_get(b, t, "ada", NULL, "{\"n\": 1}");
    check_int(erase(b, t, "ada", NULL), 0);
    check_int(backend_drop_table(b, t, false, &err), 0);
    check_int(backend_drop_table(b, t, false, &err), -ENOENT);
    check_text(span_text(table_line(b)), "");
    check_int(put(b, t, "ada", NULL, "1"), -ENOENT);

    struct table *second = make_table(b, "users", "id", NULL, NULL);
    check(second->id != t->id);
    check_int(put(b, second, "bob", NULL, "1"), 0);
    check_int(backend_drop_table(b, second, true, &err), 0);
    struct table *third = make_table(b, "users", "id", NULL, NULL);
    check_walk(b, third, "");
    check(third->id != second->id && third->id != t->id);
    table_free(t);
    table_free(second);
    table_free(third);
    FACTORY.close(b, true);
}

static void tables_are_altered(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_RENAMES))
        return;
    struct err err = {""};
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct table *other = make_table(b, "other", "id", NULL, NULL);
    uint64_t end = log_end(b);

    check_int(put(b, t, "ada", NULL, "1"), 0);
    free(t->name);
    t->name = strdup("other");
    check_int(backend_alter_table(b, t, &err), -EEXIST);
    err_clear(&err);
    free(t->name);
    t->name = strdup("people");
    t->stream = false;
    t->keys = KEYS_PLAIN;
    check_int(backend_alter_table(b, t, &err), 0);
    check_text(span_text(table_line(b)), "other people ");
    struct table *now = describe(b, "people");
    check(!now->stream && now->keys == KEYS_PLAIN && now->id == t->id);
    check_get(b, now, "ada", NULL, "1");
    check_int(put(b, now, "bob", NULL, "2"), 0);
    check_log(b, end, "item:insert!:ada schema item:insert:bob");
    check_int(backend_drop_table(b, other, false, &err), 0);
    check_int(backend_alter_table(b, other, &err), -ENOENT);
    table_free(t);
    table_free(other);
    table_free(now);
    FACTORY.close(b, true);
}

static void streams_are_switched(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_STREAMS) || cannot(b, LACK_SWITCHES))
        return;
    struct err err = {""};
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "ada", NULL, "1"), 0);
    for (int i = 0; i < 2; i++) {
        t->stream = !t->stream;
        check_int(backend_alter_table(b, t, &err), 0);
        struct table *now = describe(b, "users");
        check(now->stream == t->stream && now->id == t->id);
        table_free(now);
    }
    check_get(b, t, "ada", NULL, "1");
    check_int(backend_drop_table(b, t, true, &err), 0);
    check_int(backend_alter_table(b, t, &err), -ENOENT);
    table_free(t);
    FACTORY.close(b, true);
}

static void tag_keys_need_sorted_tags(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_STYLES))
        return;
    struct err err = {""};
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    t->keys = KEYS_PLAIN;
    check_int(backend_alter_table(b, t, &err), 0);
    check_int(put(b, t, "x_y", NULL, "1"), 0);
    check_int(put(b, t, "y_x", NULL, "2"), 0);
    t->keys = KEYS_TAGS;
    check_int(backend_alter_table(b, t, &err), -EINVAL);
    check(strstr(err.text, "\"y_x\"") && strstr(err.text, "\"x_y\""));
    struct table *now = describe(b, "users");
    check(now->keys == KEYS_PLAIN);
    check_int(erase(b, now, "y_x", NULL), 0);
    err_clear(&err);
    check_int(backend_alter_table(b, t, &err), 0);
    check_get(b, t, "x_y", NULL, "1");
    table_free(now);
    table_free(t);
    FACTORY.close(b, true);
}

/* Gives table T the index of that form instead of those it has, and describes it. */
static struct table *alter_index(struct backend *b, struct table *t, const char *form)
{
    struct err err = {""};
    struct index index;

    while (t->index_count)
        table_remove_index(t, t->index_count - 1);
    check_int(index_parse(span_text(form), &index, &err), 0);
    check_int(table_add_index(t, &index), 0);
    index_release(&index);
    check_int(backend_alter_indexes(b, t, &err), 0);
    check_text(span_text(err.text), "");
    struct table *now = describe(b, t->name);
    check(now->id == t->id && table_shape_equal(now, t));
    table_free(t);
    return now;
}

static void indexes_are_altered(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_INDEXES))
        return;
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    check_int(put(b, t, "ada", NULL, "{\"x\":1,\"y\":7}"), 0);
    check_int(put(b, t, "bob", NULL, "{\"x\":\"1\"}"), 0); /* another type: not in the index */
    check_int(put(b, t, "eve", NULL, "{\"x\":1,\"y\":2}"), 0);
    t = alter_index(b, t, "by-x:x:N,y:N");
    check_query(b, t, "eve ada", .index = t->indexes, .partition = span_text("1"));
    check_int(put(b, t, "eve", NULL, "{\"x\":1,\"y\":9}"), 0);
    check_query(b, t, "ada eve", .index = t->indexes, .partition = span_text("1"));
    t = alter_index(b, t, "by-x:y:N"); /* of the same name */
    check_query(b, t, "ada", .index = t->indexes, .partition = span_text("7"));
    check_int(erase(b, t, "ada", NULL), 0);
    check_query(b, t, "", .index = t->indexes, .partition = span_text("7"));
    check_get(b, t, "bob", NULL, "{\"x\":\"1\"}");
    table_free(t);
    FACTORY.close(b, true);
}

static int64_t table_changed(struct backend *b, const char *name)
{
    struct table *table = describe(b, name);
    int64_t changed = table->changed_ns;

    table_free(table);
    return changed;
}

static void directory_times_move_with_items(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct table *quiet = make_table(b, "quiet", "id", NULL, NULL);
    int64_t made = table_changed(b, "users");

    check_int(put(b, t, "ada", NULL, "1"), 0);
    int64_t inserted = table_changed(b, "users");
    check(inserted > made);
    check_int(put(b, t, "ada", NULL, "2"), 0);
    check_int(put(b, t, "ada", NULL, "2"), 0);
    check_int(table_changed(b, "users"), inserted);
    check_int(erase(b, t, "ada", NULL), 0);
    int64_t removed = table_changed(b, "users");
    check(removed > inserted);
    check_int(table_changed(b, "quiet"), quiet->changed_ns);

    /* Many changes later, and seen from another object, it is still that. */
    for (int i = 0; i < FACTORY.many; i++)
        check_int(put(b, t, "x", NULL, i % 2 ? "1" : "2"), 0);
    int64_t last = table_changed(b, "users");
    check(last > removed);
    maintain(b);
    struct backend *other = FACTORY.again(b);
    check_int(table_changed(other, "users"), last);
    check_int(table_changed(other, "quiet"), quiet->changed_ns);
    FACTORY.close(b, false);
    check_int(table_changed(other, "users"), last);
    table_free(t);
    table_free(quiet);
    FACTORY.close(other, true);
}

#define CONTRACT_TABLES                                                                            \
    CHECK_TEST(tables_are_described), CHECK_TEST(tables_are_dropped),                              \
        CHECK_TEST(tables_are_altered), CHECK_TEST(indexes_are_altered),                           \
        CHECK_TEST(streams_are_switched), CHECK_TEST(tag_keys_need_sorted_tags),                   \
        CHECK_TEST(directory_times_move_with_items)

#endif
