/* SPDX-License-Identifier: MIT */
/* Which items go: the tag store's own cases, and the oldest of many. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/sqlite/sqlite.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/set.h"
#include "base/value.h"
#include "tests/check.h"
#include "upkeep/oldest.h"
#include "upkeep/purge.h"

static void read_vectors(struct buf *out)
{
    char block[4096];
    size_t got;
    FILE *file = fopen(TEST_DATA "/vectors/lucinda.json", "rb");
    while (file && (got = fread(block, 1, sizeof block, file)) > 0)
        buf_add(out, block, got);
    if (file)
        fclose(file);
}

static int64_t number_member(const struct value *map, const char *name)
{
    int64_t number = -1;
    check(number_to_int64(value_text(value_member(map, span_text(name))), &number));
    return number;
}

/* Of each vector: how many go, whatever the order in which they are read. */
static void vectors_of_capacity(void)
{
    cleanup(buf_release) struct buf text;
    cleanup(value_release) struct value document = {0};
    size_t cases = 0;
    buf_init(&text, 1 << 20);
    read_vectors(&text);
    check_int(value_from_plain(buf_span(&text), &document, NULL), 0);
    const struct value *list = value_member(&document, span_text("cases"));
    for (size_t i = 0; list && i < list->list.count; i++) {
        const struct value *one = &list->list.items[i];
        if (!span_equal(value_text(value_member(one, span_text("kind"))), span_text("capacity")))
            continue;
        const struct value *expect = value_member(one, span_text("expect"));
        size_t items = value_member(one, span_text("entries"))->list.count;
        uint64_t min = (uint64_t)number_member(one, "min"),
                 max = (uint64_t)number_member(one, "max");
        check_int(purge_excess(items, min, max), number_member(expect, "deleted"));
        cases++;
    }
    check_int(cases, 9);
}

/* The rule in words, item by item. */
static void excess_is_the_rule_item_by_item(void)
{
    for (uint64_t min = 0; min < 5; min++)
        for (uint64_t max = min + 1; max < 12; max++)
            for (uint64_t items = 0; items < 60; items++) {
                uint64_t left = 0;
                for (uint64_t i = 0; i < items; i++)
                    if (++left == max)
                        left = min;
                check_int(purge_excess(items, min, max), items - left);
            }
    check_int(purge_excess(10, 5, 5), 0);
    check_int(purge_excess(10, 6, 5), 0);
    check_int(purge_excess(UINT64_MAX, 0, 1), -1);
}

static struct record record_of(const char *key, int64_t mtime_ns)
{
    return (struct record){.key.partition = span_text(key),
                           .meta = {.version = 1, .mtime_ns = mtime_ns}};
}

static void heaps_keep_the_oldest(void)
{
    struct doomed_list heap = {0};
    char key[48];
    for (int i = 0; i < 1000; i++) { /* 0 to 999 in a scattered order, two keys each */
        int64_t mtime_ns = i * 7919 % 1000;
        for (int twin = 1; twin >= 0; twin--) {
            snprintf(key, sizeof key, "k%03d-%d", (int)mtime_ns, twin);
            struct record record = record_of(key, mtime_ns);
            check_int(oldest_add(&heap, &record, 25), 0);
        }
    }
    oldest_sort(&heap);
    check_int(heap.count, 25);
    for (size_t i = 0; i < heap.count; i++) {
        snprintf(key, sizeof key, "k%03zu-%zu", i / 2, i % 2);
        check_int(heap.items[i].mtime_ns, i / 2);
        check_text(doomed_key(&heap.items[i]).partition, key);
    }
    doomed_release(&heap);
}

/* Large keys: fewer are kept, and what had no room is not overtaken by what is newer. */
static void heaps_are_bounded_in_bytes(void)
{
    struct doomed_list heap = {0};
    static char large[KEY_PART_MAX + 1];
    memset(large, 'k', KEY_PART_MAX);
    const int64_t many = 2 * DOOMED_BYTES / KEY_PART_MAX;
    for (int64_t i = many; i > 0; i--) {
        struct record record = record_of(large, i);
        check_int(oldest_add(&heap, &record, DOOMED_MOST), 0);
    }
    check(heap.bytes <= DOOMED_BYTES);
    size_t kept = heap.count;
    check(kept > 1000 && kept < (size_t)many);
    struct record newer = record_of("small", many), older = record_of("small", 0);
    check_int(oldest_add(&heap, &newer, DOOMED_MOST), 0);
    check_int(heap.count, kept);
    check_int(oldest_add(&heap, &older, DOOMED_MOST), 0);
    oldest_sort(&heap);
    for (size_t i = 0; i < heap.count; i++)
        check_int(heap.items[i].mtime_ns, i);
    doomed_release(&heap);
}

static void rules_judge_items(void)
{
    const struct key key = {span_text("a_b"), {NULL, 0}};
    struct item_meta meta = {.mtime_ns = 100};
    struct purge_rule rule = {.kind = PURGE_UNTIL, .before_ns = 100};
    check(!purge_meets(&rule, key, &meta)); /* strictly older only */
    rule.before_ns = 101;
    check(purge_meets(&rule, key, &meta));
    rule = (struct purge_rule){.kind = PURGE_TAG, .tag = span_text("b")};
    check(purge_meets(&rule, key, &meta));
    rule.tag = span_text("a_b");
    check(!purge_meets(&rule, key, &meta));
    rule.kind = PURGE_ALL;
    check(purge_meets(&rule, key, &meta));
}

static void sets_tell_what_is_new(void)
{
    struct set set;
    char text[16];
    set_init(&set, 100000);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2000; i++) {
            snprintf(text, sizeof text, "%d", i);
            check_int(set_add(&set, span_text(text)), round == 0);
        }
    check_int(set_add(&set, span_of("", 0)), 1);
    check_int(set_add(&set, span_of("", 0)), 0);
    check_int(set_add(&set, span_of("1\0", 2)), 1);
    set_release(&set);
    set_init(&set, 20);
    check_int(set_add(&set, span_text("0123456789")), 1);
    check_int(set_add(&set, span_text("x")), -EFBIG);
    check_int(set_add(&set, span_text("x")), -EFBIG);
    set_release(&set);
}

/* --- On a store --- */

static char path[] = "/tmp/test_purge.XXXXXX";
static struct backend *backend;
static struct table *table;

static void open_store(void)
{
    const struct sqlite_options options = {.create = true, .max_item_size = 1 << 20};
    struct err err = {""};
    struct table *wanted = table_new_default(span_text("t"));
    int file = mkstemp(path);
    check(file >= 0 && close(file) == 0);
    check_int(sqlite_open(path, &options, &backend, &err), 0);
    check_int(backend_create_table(backend, wanted, &err), 0);
    check_int(backend_describe(backend, span_text("t"), &table, &err), 0);
    check_text(span_text(err.text), "");
    table_free(wanted);
}

static void close_store(void)
{
    table_free(table);
    backend_close(backend);
    check_int(unlink(path), 0);
}

#define FILL_ITEMS 500

/* COUNT items whose mtimes, from 1000 s on, are in another order than their keys. */
static void fill(unsigned count)
{
    static char keys[FILL_ITEMS][16];
    static struct action actions[FILL_ITEMS];
    struct err err = {""};
    for (unsigned i = 0; i < count; i++) {
        unsigned at = i % FILL_ITEMS;
        snprintf(keys[at], sizeof keys[at], "k%06u", i);
        actions[at] = (struct action){.kind = ACTION_PUT,
                                      .table = table,
                                      .key.partition = span_text(keys[at]),
                                      .body = span_text("1"),
                                      .mtime_ns = (1000 + (int64_t)i * 7919 % count) * NS_PER_S};
        if (at + 1 == FILL_ITEMS || i + 1 == count)
            check_int(backend_write(backend, actions, at + 1, 0, &err), 0);
    }
}

/* A batch in which one item has been saved meanwhile: that one stays, the others go. */
struct meddler {
    struct err err;
    bool done;
};

static void save_one(void *context, const struct purge_count *count)
{
    struct meddler *meddler = context;
    if (count->deleted == 0 || meddler->done)
        return;
    struct action action = {.kind = ACTION_PUT,
                            .table = table,
                            .key.partition = span_text("k000007"),
                            .body = span_text("1")};
    check_int(backend_write(backend, &action, 1, 0, &meddler->err), 0);
    meddler->done = true;
}

static uint64_t items_left(void)
{
    const struct purge_rule all = {.kind = PURGE_ALL};
    struct purge_count count;
    struct err err = {""};
    check_int(purge(backend, table, &all, true, 0, NULL, NULL, &count, &err), 0);
    check_int(count.deleted, count.items);
    return count.items;
}

/* It is among the last of the oldest; after the first page of deletions it is the newest. */
static void what_is_saved_meanwhile_stays(void)
{
    const struct purge_rule rule = {.kind = PURGE_CAPACITY, .min = 10, .max = 20};
    struct meddler meddler = {.done = false};
    struct purge_count count;
    struct item_meta meta;
    struct err err = {""};
    fill(2000);
    struct action last = {.kind = ACTION_TOUCH,
                          .table = table,
                          .key.partition = span_text("k000007"),
                          .mtime_ns = 2985 * NS_PER_S};
    check_int(backend_write(backend, &last, 1, 0, &err), 0);
    check_int(purge(backend, table, &rule, false, 0, save_one, &meddler, &count, &err), 0);
    check(meddler.done);
    check_int(count.items, 2000);
    check_int(count.wanted, 1990);
    check_int(count.deleted, 1989);
    check_int(count.changed, 1);
    check_int(items_left(), 11);
    const struct key key = {span_text("k000007"), {NULL, 0}};
    check_int(backend_get(backend, table, key, &meta, NULL, &err), 0);
    const struct purge_rule all = {.kind = PURGE_ALL};
    check_int(purge(backend, table, &all, false, 0, NULL, NULL, &count, &err), 0);
    check_int(count.deleted, 11);
}

/* More than are kept at a time: they are looked through again. */
static void more_than_fit_at_once(void)
{
    const struct purge_rule rule = {.kind = PURGE_CAPACITY, .min = 100, .max = 101};
    struct purge_count count;
    struct err err = {""};
    unsigned many = DOOMED_MOST + 1000;
    fill(many);
    check_int(purge(backend, table, &rule, false, 0, NULL, NULL, &count, &err), 0);
    check_int(count.deleted, many - 100);
    check_int(items_left(), 100);
    const struct purge_rule old = {.kind = PURGE_UNTIL,
                                   .before_ns = (1000 + (int64_t)many - 100) * NS_PER_S};
    check_int(purge(backend, table, &old, true, 0, NULL, NULL, &count, &err), 0);
    check_int(count.deleted, 0); /* the newest are left */
    check_int(count.oldest_ns, old.before_ns);
}

static void it_can_be_called_off(void)
{
    const struct purge_rule all = {.kind = PURGE_ALL};
    struct purge_count count;
    struct err err = {""};
    atomic_bool off = true;
    cancel_set(&off);
    check_int(purge(backend, table, &all, false, 0, NULL, NULL, &count, &err), -EINTR);
    cancel_set(NULL);
    check_int(items_left(), 100 - count.deleted);
}

CHECK_MAIN(CHECK_TEST(vectors_of_capacity), CHECK_TEST(excess_is_the_rule_item_by_item),
           CHECK_TEST(heaps_keep_the_oldest), CHECK_TEST(heaps_are_bounded_in_bytes),
           CHECK_TEST(rules_judge_items), CHECK_TEST(sets_tell_what_is_new), CHECK_TEST(open_store),
           CHECK_TEST(what_is_saved_meanwhile_stays), CHECK_TEST(more_than_fit_at_once),
           CHECK_TEST(it_can_be_called_off), CHECK_TEST(close_store))
