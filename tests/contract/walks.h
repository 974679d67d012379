/* SPDX-License-Identifier: MIT */
/* Many items: walks, partitions, queries, indexes. */
#ifndef TESTS_CONTRACT_WALKS_H
#define TESTS_CONTRACT_WALKS_H

#include "tests/contract/fixture.h"

static void walks_go_in_key_order(void)
{
    struct backend *b = FACTORY.open();
    struct table *text = make_table(b, "text", "id", NULL, NULL);
    struct table *number = make_table(b, "number", "id:N", NULL, NULL);
    struct table *binary = make_table(b, "binary", "id:B", NULL, NULL);
    static const char *const texts[] = {"b", "a", "ab", "B", "\xc3\xa9", "\x01"};
    static const char *const numbers[] = {"10",   "9",      "-10",     "-9",        "0", "0.5",
                                          "-0.5", "100000", "0.00001", "123456789", "1"};
    static const char *const blobs[] = {"\xff\x01", "\x01", "\x01\x02", "z", "\xff"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_int(put(b, text, texts[i], NULL, "{}"), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_int(put(b, number, numbers[i], NULL, "{}"), 0);
    for (size_t i = 0; i < sizeof blobs / sizeof *blobs; i++)
        check_int(put(b, binary, blobs[i], NULL, "{}"), 0);
    check_walk(b, text, "\x01 B a ab b \xc3\xa9");
    check_walk(b, number, "-10 -9 -0.5 0 0.00001 0.5 1 9 10 100000 123456789");
    check_walk(b, binary, "\x01 \x01\x02 z \xff \xff\x01");
    if (!lacks(b, LACK_ORDER))
        check_walk(b, number, "0 0.00001 0.5", .after.partition = span_text("-0.5"), .limit = 3);
    table_free(text);
    table_free(number);
    table_free(binary);
    FACTORY.close(b, true);
}

static void walks_go_on_behind_a_key(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_ORDER))
        return;
    struct table *t = make_table(b, "users", "id", NULL, NULL);

    for (const char *const *name = (const char *const[]){"a", "b", "c", "d", "e", NULL}; *name;
         name++)
        check_int(put(b, t, *name, NULL, "{}"), 0);
    check_walk(b, t, "a b", .limit = 2);
    check_int(erase(b, t, "b", NULL), 0);
    check_int(erase(b, t, "c", NULL), 0);
    check_int(put(b, t, "aa", NULL, "{}"), 0);
    check_walk(b, t, "d={}", .after.partition = span_text("b"), .limit = 1, .bodies = true);
    check_walk(b, t, "e", .after.partition = span_text("d"));
    check_walk(b, t, "", .after.partition = span_text("e"));
    table_free(t);
    FACTORY.close(b, true);
}

#define PAGED 40

struct page {
    char last[16];
    int count;
    int seen[PAGED];
};

static int note_page(void *context, const struct record *record)
{
    struct page *page = context;
    size_t len = record->key.partition.len;

    check(len < sizeof page->last);
    memcpy(page->last, record->key.partition.data, len);
    page->last[len] = 0;
    int number = atoi(page->last + 1);
    if (page->last[0] == 'k' && number < PAGED)
        page->seen[number]++;
    page->count++;
    return 0;
}

/* In whatever order: what is there from the beginning to the end is told once, although others come
 * and go, the one that the walk goes on behind among them. */
static void pages_miss_and_repeat_nothing(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct page page = {.count = 0};
    struct err err = {""};
    char key[16], after[16] = "";
    int pages = 0, told = 0;

    for (int i = 0; i < PAGED; i++) {
        snprintf(key, sizeof key, "k%d", i);
        check_int(put(b, t, key, NULL, "{}"), 0);
    }
    do {
        struct walk walk = {.after.partition = span_text(after), .limit = 7, .bodies = true};
        page.count = 0;
        check_int(backend_walk(b, t, &walk, note_page, &page, &err), 0);
        check(page.count <= 7);
        told += page.count;
        snprintf(after, sizeof after, "%s", page.last);
        snprintf(key, sizeof key, "new%d", pages);
        if (++pages % 2) {
            check_int(erase(b, t, after, NULL), 0);
            check_int(put(b, t, key, NULL, "{}"), 0);
        }
    } while (page.count == 7 && pages < 2 * PAGED);
    for (int i = 0; i < PAGED; i++)
        check_int(page.seen[i], 1);
    check(told >= PAGED);
    table_free(t);
    FACTORY.close(b, true);
}

static int stop_at_second(void *context, const struct record *record)
{
    (void)record;
    return ++*(int *)context == 2 ? 42 : 0;
}

static void callbacks_end_walks(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct walk walk = {.bodies = true};
    struct query query = {.partition = span_text("a")};
    struct err err = {""};
    int count = 0;

    check_int(put(b, t, "a", NULL, "{}"), 0);
    check_int(put(b, t, "b", NULL, "{}"), 0);
    check_int(put(b, t, "c", NULL, "{}"), 0);
    check_int(backend_walk(b, t, &walk, stop_at_second, &count, &err), 42);
    check_int(count, 2);
    count = 1;
    check_int(backend_query(b, t, &query, stop_at_second, &count, &err), 42);
    check_walk(b, t, "a b c");
    table_free(t);
    FACTORY.close(b, true);
}

struct partition_line {
    struct line line;
    bool counts;
};

static int line_partition(void *context, const struct partition_info *info)
{
    struct partition_line *line = context;
    char count[40] = " ";

    line_add(&line->line, info->partition);
    if (line->counts)
        snprintf(count, sizeof count, ":%" PRIu64 " ", info->items);
    line_add(&line->line, span_text(count));
    check(info->changed_ns > 0);
    return 0;
}

/* WANT without its counts where nobody counts. */
static void check_partitions(struct backend *b, const struct table *t, const char *after,
                             size_t limit, const char *want)
{
    struct partition_line line = {.counts = !lacks(b, LACK_COUNTS)};
    struct err err = {""};
    char stripped[200] = "";
    size_t len = 0;

    for (bool digits = false; *want && len + 1 < sizeof stripped; want++) {
        digits = !line.counts && (*want == ':' || (digits && *want != ' '));
        if (!digits)
            stripped[len++] = *want;
    }
    check_int(backend_partitions(b, t, span_text(after), limit, line_partition, &line, &err), 0);
    check_text(span_text(line.line.text), stripped);
}

/* When something last came or went there; ITEMS are to be in it. */
static int64_t check_partition(struct backend *b, const struct table *t, const char *partition,
                               uint64_t items)
{
    struct err err = {""};
    uint64_t found = 0;
    int64_t changed_ns = 0;

    check_int(backend_partition(b, t, span_text(partition), &found, &changed_ns, &err), 0);
    int64_t again_ns = 0; /* the time alone */
    check_int(backend_partition(b, t, span_text(partition), NULL, &again_ns, &err), 0);
    check_int(again_ns, changed_ns);
    check(lacks(b, LACK_COUNTS) ? (found > 0) == (items > 0) : found == items);
    return changed_ns;
}

static void partitions_count_their_items(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SORTED))
        return;
    struct table *t = make_table(b, "orders", "cust", "day:N", NULL);
    struct err err = {""};
    uint64_t items = 0;
    int64_t changed;

    check_partitions(b, t, "", 0, "");
    check_int(put(b, t, "c2", "5", "{}"), 0);
    check_int(put(b, t, "c1", "-1", "{}"), 0);
    check_int(put(b, t, "c1", "10", "{}"), 0);
    check_int(put(b, t, "c1", "9", "{}"), 0);
    check_partitions(b, t, "", 0, "c1:3 c2:1 ");
    check_partitions(b, t, "", 1, "c1:3 ");
    check_partitions(b, t, "c1", 0, "c2:1 ");
    check_walk(b, t, "c1/-1 c1/9 c1/10 c2/5");
    check_walk(b, t, "c1/9 c1/10", .after = key_of("c1", "-1"), .in_partition = true);
    if (!lacks(b, LACK_ORDER))
        check_walk(b, t, "c1/10 c2/5", .after = key_of("c1", "9"));
    check_walk(b, t, "c1/-1 c1/9", .after = key_of("c1", ""), .in_partition = true, .limit = 2);

    changed = check_partition(b, t, "c1", 3);
    check_int(put(b, t, "c1", "9", "{\"n\": 1}"), 0);
    check_int(check_partition(b, t, "c1", 3), changed); /* no change of content moves it */
    check_int(erase(b, t, "c1", "9"), 0);
    check(check_partition(b, t, "c1", 2) > changed);
    check_int(erase(b, t, "c2", "5"), 0);
    check_int(backend_partition(b, t, span_text("c2"), &items, &changed, &err), -ENOENT);
    check_partitions(b, t, "", 0, "c1:2 ");
    table_free(t);
    FACTORY.close(b, true);
}

static void queries_have_bounds(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SORTED))
        return;
    struct table *t = make_table(b, "orders", "cust", "n:N", NULL);
    struct span c = span_text("c");

    for (const char *const *n = (const char *const[]){"-20", "-3", "0", "4", "15", "100", NULL}; *n;
         n++)
        check_int(put(b, t, "c", *n, "{}"), 0);
    check_int(put(b, t, "d", "5", "{}"), 0);
    check_query(b, t, "c/-20 c/-3 c/0 c/4 c/15 c/100", .partition = c);
    check_query(b, t, "c/100 c/15", .partition = c, .reverse = true, .limit = 2);
    check_query(b, t, "c/-3 c/0 c/4", .partition = c, .has_from = true, .from = span_text("-3"),
                .has_to = true, .to = span_text("4"));
    check_query(b, t, "c/4 c/0 c/-3", .partition = c, .has_from = true, .from = span_text("-3.5"),
                .has_to = true, .to = span_text("14.9"), .reverse = true);
    check_query(b, t, "c/15 c/100", .partition = c, .has_from = true, .from = span_text("5"));
    check_query(b, t, "c/-20 c/-3", .partition = c, .has_to = true, .to = span_text("-1"));
    check_query(b, t, "", .partition = span_text("nobody"));
    check_query(b, t, "Invalid argument", .partition = NOTHING);
    table_free(t);
    FACTORY.close(b, true);
}

static void indexes_follow_items(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "orders", "id", NULL, "by-status:status,n:N");
    const struct index *index = table_index(t, span_text("by-status"));
    struct query open = {.index = index, .partition = span_text("open")};
    struct query done = {.index = index, .partition = span_text("done")};

    check(index != NULL);
    check_int(put(b, t, "a", NULL, "{\"status\":\"open\",\"n\":10}"), 0);
    check_int(put(b, t, "b", NULL, "{\"status\":\"open\",\"n\":-9}"), 0);
    check_int(put(b, t, "c", NULL, "{\"status\":\"done\",\"n\":9}"), 0);
    check_int(put(b, t, "d", NULL, "{\"status\":\"open\"}"), 0);
    check_int(put(b, t, "e", NULL, "5"), 0);
    check_text(span_text(query_line(b, t, open)), "b a");
    check_int(put(b, t, "a", NULL, "{\"status\":\"done\",\"n\":10}"), 0);
    check_int(put(b, t, "d", NULL, "{\"status\":\"open\",\"n\":0.5}"), 0);
    check_text(span_text(query_line(b, t, open)), "b d");
    check_text(span_text(query_line(b, t, done)), "c a");
    check_int(erase(b, t, "c", NULL), 0);
    check_text(span_text(query_line(b, t, done)), "a");
    open.reverse = true;
    open.has_from = true;
    open.from = span_text("0");
    check_text(span_text(query_line(b, t, open)), "d");
    open.has_from = false;
    open.has_to = true;
    open.to = span_text("0");
    check_text(span_text(query_line(b, t, open)), "b");
    /* An index attribute of another type is refused: the index could not have it. */
    check_int(put(b, t, "f", NULL, "{\"status\":5,\"n\":1}"), -EINVAL);
    table_free(t);
    FACTORY.close(b, true);
}

static void indexes_of_every_type(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SORTED))
        return;
    struct table *t = make_table(b, "things", "id", "s", "by-blob:blob:B");
    struct query query = {.index = table_index(t, span_text("by-blob")),
                          .partition = span_of("\0\xff", 2)};

    check_int(put(b, t, "p", "x", "{\"blob\":{\"$B\":\"AP8=\"}}"), 0);
    check_int(put(b, t, "p", "y", "{\"blob\":{\"$B\":\"AP8=\"}}"), 0);
    check_int(put(b, t, "q", "x", "{\"blob\":{\"$B\":\"AA==\"}}"), 0);
    const char *line = query_line(b, t, query);
    if (!lacks(b, LACK_ORDER) || line[2] == 'x') /* of equal index keys */
        check_text(span_text(line), "p/x p/y");
    else
        check_text(span_text(line), "p/y p/x");
    query.reverse = true;
    query.limit = 1;
    if (!lacks(b, LACK_ORDER))
        check_text(span_text(query_line(b, t, query)), "p/y");
    query.has_from = true;
    check_text(span_text(query_line(b, t, query)), "Invalid argument");
    table_free(t);
    FACTORY.close(b, true);
}

static int line_value(void *context, struct span value)
{
    struct line *line = context;

    if (line->len)
        line_add(line, span_text(" "));
    line_add(line, value);
    return 0;
}

static void check_values(struct backend *b, const struct table *t, const char *want)
{
    static char got_words[8192];
    struct line line = {.text = ""};
    struct err err = {""};

    check_int(backend_index_values(b, t, &t->indexes[0], line_value, &line, &err), 0);
    check_text(span_text(lacks(b, LACK_ORDER) ? sorted_words(line.text, got_words) : line.text),
               want);
}

static int stop_at_once(void *context, struct span value)
{
    (void)context;
    (void)value;
    return 7;
}

static void indexes_tell_their_values(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "orders", "id", NULL, "by-status:status,n:N");
    struct table *numbers = make_table(b, "numbers", "id", NULL, "by-n:n:N");
    struct err err = {""};
    char key[16], body[64];

    check_values(b, t, "");
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof key, "k%d", i);
        snprintf(body, sizeof body, "{\"status\":\"s%d\",\"n\":%d}", i % 3, i);
        check_int(put(b, t, key, NULL, body), 0);
    }
    check_int(put(b, t, "without", NULL, "{\"status\":\"x\"}"), 0);
    check_values(b, t, "s0 s1 s2");
    check_int(put(b, t, "k0", NULL, "{\"status\":\"T\",\"n\":1}"), 0);
    check_values(b, t, "T s0 s1 s2");
    check_int(erase(b, t, "k0", NULL), 0);
    check_values(b, t, "s0 s1 s2");
    if (!lacks(b, LACK_TTL)) {
        snprintf(body, sizeof body, "{\"status\":\"old\",\"n\":1,\"-ttl\":%lld}",
                 (long long)clock_now_s() - 60);
        check_int(put(b, t, "gone", NULL, body), 0);
        check_values(b, t, "s0 s1 s2");
    }
    check_int(backend_index_values(b, t, &t->indexes[0], stop_at_once, NULL, &err), 7);

    check_int(put(b, numbers, "a", NULL, "{\"n\":10}"), 0);
    check_int(put(b, numbers, "b", NULL, "{\"n\":-9.50}"), 0);
    check_int(put(b, numbers, "c", NULL, "{\"n\":10.0}"), 0);
    check_values(b, numbers, "-9.5 10");
    table_free(t);
    table_free(numbers);
    FACTORY.close(b, true);
}

#define CONTRACT_WALKS                                                                             \
    CHECK_TEST(walks_go_in_key_order), CHECK_TEST(walks_go_on_behind_a_key),                       \
        CHECK_TEST(pages_miss_and_repeat_nothing), CHECK_TEST(callbacks_end_walks),                \
        CHECK_TEST(partitions_count_their_items), CHECK_TEST(queries_have_bounds),                 \
        CHECK_TEST(indexes_tell_their_values), CHECK_TEST(indexes_follow_items),                   \
        CHECK_TEST(indexes_of_every_type)

#endif
