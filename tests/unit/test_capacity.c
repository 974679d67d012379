/* SPDX-License-Identifier: MIT */
/*
 * Budgets among threads. No test waits for time to pass: rates are so low that only what another
 * request gives back opens a gate, or so high that nothing closes it.
 */
#include "backend/dynamodb/capacity.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/check.h"

#define NEVER 1e-6 /* units a second: a unit is owed for eleven days */
#define FAR_NS (600 * NS_PER_S)
#define PATIENCE_NS (60 * NS_PER_S) /* until what must happen counts as not happening */
#define CROWD 6

static struct capacity *capacity_of(const struct capacity_budget *budgets, size_t count)
{
    struct capacity *capacity = NULL;
    check_int(capacity_new(budgets, count, &capacity), 0);
    return capacity;
}

static struct spent spent_of(enum capacity_kind kind, double units, bool told)
{
    struct spent spent = {{0}, {false}};
    spent.units[kind] = units;
    spent.told[kind] = told;
    return spent;
}

/* The request of DEMAND passes without waiting. */
static void enter(struct capacity *capacity, const char *operation, const struct demand *demand)
{
    check_int(capacity_enter(capacity, operation, demand, 1, 0, NULL, NULL), 0);
}

static void settle(struct capacity *capacity, const char *operation, const struct demand *demand,
                   double units, bool told)
{
    struct spent spent = spent_of(demand->kind, units, told);
    capacity_settle(capacity, operation, demand, 1, &spent);
}

static void check_refused(struct capacity *capacity, const struct demand *demands, size_t count,
                          const char *message)
{
    struct err err = {""};
    check_int(capacity_enter(capacity, "Scan", demands, count, 0, NULL, &err), -ETIMEDOUT);
    check_text(span_text(err.text), message);
}

/* --- Counting --- */

struct wanted {
    const char *table, *operation;
    uint64_t requests;
    double read, write; /* -1: not told */
    bool limited;
    size_t found;
};

static int compare_usage(void *context, const struct usage *usage)
{
    struct wanted *wanted = context;
    if (strcmp(usage->table, wanted->table) != 0 ||
        strcmp(usage->operation, wanted->operation) != 0)
        return 0;
    wanted->found++;
    check_int(usage->requests, wanted->requests);
    check((usage->tells_reads ? usage->read_units : -1) == wanted->read);
    check((usage->tells_writes ? usage->write_units : -1) == wanted->write);
    check(usage->limited == wanted->limited);
    check_int(usage->waiting, 0);
    check_int(usage->waited_ns, 0);
    return 0;
}

static void check_usage(struct capacity *capacity, struct wanted wanted)
{
    check_int(capacity_usage(capacity, compare_usage, &wanted), 0);
    check_int(wanted.found, 1);
}

static int count_row(void *context, const struct usage *usage)
{
    (void)usage;
    return ++*(int *)context == 2 ? 77 : 0;
}

static void test_counts(void)
{
    struct capacity *capacity = capacity_of(NULL, 0);
    const struct demand reads = {"users", CAPACITY_READ, 1}, writes = {"users", CAPACITY_WRITE, 1};
    const struct demand others = {"orders", CAPACITY_WRITE, 2};
    int rows = 0;

    check_int(capacity_usage(capacity, count_row, &rows), 0);
    check_int(rows, 0);
    for (int i = 0; i < 3; i++) {
        enter(capacity, "Query", &reads);
        settle(capacity, "Query", &reads, 0.5, true);
    }
    enter(capacity, "PutItem", &writes);
    settle(capacity, "PutItem", &writes, 7, true);
    enter(capacity, "PutItem", &writes);
    settle(capacity, "PutItem", &writes, 1, false);
    enter(capacity, "PutItem", &others);
    settle(capacity, "PutItem", &others, 2, false);
    enter(capacity, "TransactWriteItems", &writes);
    capacity_settle(capacity, "TransactWriteItems", &writes, 1,
                    &(const struct spent){{4, 0}, {true, false}});
    check_usage(capacity, (struct wanted){"users", "Query", 3, 1.5, -1, false, 0});
    check_usage(capacity, (struct wanted){"users", "PutItem", 2, -1, 7, false, 0});
    check_usage(capacity, (struct wanted){"orders", "PutItem", 1, -1, -1, false, 0});
    check_usage(capacity, (struct wanted){"users", "TransactWriteItems", 1, 4, -1, false, 0});
    check_int(capacity_usage(capacity, count_row, &rows), 77); /* what EACH says ends it */
    check_int(rows, 2);
    capacity_free(capacity);
}

static void test_demands(void)
{
    struct demand demands[4];
    size_t count = 0;

    demand_add(demands, &count, "users", CAPACITY_WRITE, 2);
    demand_add(demands, &count, "orders", CAPACITY_WRITE, 1);
    demand_add(demands, &count, "users", CAPACITY_WRITE, 0.5);
    demand_add(demands, &count, "users", CAPACITY_READ, 4);
    check_int(count, 3);
    check(demands[0].units == 2.5 && demands[1].units == 1 && demands[2].units == 4);
}

/* --- Budgets --- */

static void test_limits(void)
{
    const struct capacity_budget budgets[] = {{NULL, {25, 0}}, {"users", {0.5, 3}}};
    struct capacity *capacity = capacity_of(budgets, 2);

    check(capacity_limit(capacity, NULL, CAPACITY_READ) == 25);
    check(capacity_limit(capacity, NULL, CAPACITY_WRITE) == 0);
    check(capacity_limit(capacity, "users", CAPACITY_READ) == 0.5);
    check(capacity_limit(capacity, "users", CAPACITY_WRITE) == 3);
    check(capacity_limit(capacity, "orders", CAPACITY_READ) == 0);
    capacity_free(capacity);
}

/* A debt of a table holds up that table's reads: no writes, no other table. */
static void test_kinds_and_tables_apart(void)
{
    const struct capacity_budget budgets[] = {{"users", {NEVER, NEVER}}, {"orders", {NEVER, 0}}};
    struct capacity *capacity = capacity_of(budgets, 2);
    const struct demand reads = {"users", CAPACITY_READ, 1}, writes = {"users", CAPACITY_WRITE, 1};
    const struct demand others = {"orders", CAPACITY_READ, 1};

    enter(capacity, "Scan", &reads);
    check_refused(capacity, &reads, 1,
                  "Scan: table users: the budget of read_units = 1e-06 left no room in time");
    enter(capacity, "PutItem", &writes);
    enter(capacity, "Scan", &others);
    settle(capacity, "Scan", &reads, 0, false);
    check_usage(capacity, (struct wanted){"users", "PutItem", 0, -1, -1, true, 0});
    capacity_free(capacity);
}

/* What is refused at the last gate has taken nothing at those before. */
static void test_refused_takes_nothing(void)
{
    const struct capacity_budget budgets[] = {
        {NULL, {NEVER, NEVER}}, {"a", {NEVER, 0}}, {"b", {NEVER, 0}}};
    struct capacity *capacity = capacity_of(budgets, 3);
    const struct demand a = {"a", CAPACITY_READ, 1}, b = {"b", CAPACITY_READ, 1};
    const struct demand c = {"c", CAPACITY_WRITE, 1};
    const struct demand all[] = {
        {"a", CAPACITY_READ, 5}, {"b", CAPACITY_READ, 5}, {"c", CAPACITY_WRITE, 5}};

    enter(capacity, "PutItem", &c);
    check_refused(
        capacity, all, 3,
        "Scan: table c: the budget of write_units = 1e-06 for all tables left no room in time");
    enter(capacity, "Query", &a);
    check_refused(
        capacity, &b, 1,
        "Scan: table b: the budget of read_units = 1e-06 for all tables left no room in time");
    check_refused(capacity, all, 2,
                  "Scan: table a: the budget of read_units = 1e-06 left no room in time");
    settle(capacity, "Query", &a, 0, false);
    enter(capacity, "Query", &b);
    settle(capacity, "Query", &b, 0, false);
    enter(capacity, "Query", &a);
    capacity_free(capacity);
}

/* A request for several tables passes as one, and what it took is owed as a whole. */
static void test_does_not_wait_for_itself(void)
{
    const struct capacity_budget budget = {NULL, {NEVER, NEVER}};
    struct capacity *capacity = capacity_of(&budget, 1);
    const struct demand demands[] = {
        {"a", CAPACITY_WRITE, 2}, {"b", CAPACITY_WRITE, 4}, {"c", CAPACITY_READ, 1}};
    const struct spent nothing[3] = {{{0}, {false}}};
    const struct demand others = {"d", CAPACITY_WRITE, 1};

    check_int(capacity_enter(capacity, "TransactWriteItems", demands, 3, 0, NULL, NULL), 0);
    check_refused(
        capacity, &others, 1,
        "Scan: table d: the budget of write_units = 1e-06 for all tables left no room in time");
    capacity_settle(capacity, "TransactWriteItems", demands, 3, nothing);
    check_int(capacity_enter(capacity, "TransactWriteItems", demands, 3, 0, NULL, NULL), 0);
    capacity_free(capacity);
}

/* What an answer tells besides what was expected is owed too. */
static void test_unexpected_units(void)
{
    const struct capacity_budget budget = {"users", {NEVER, 0}};
    struct capacity *capacity = capacity_of(&budget, 1);
    const struct demand writes = {"users", CAPACITY_WRITE, 1}, reads = {"users", CAPACITY_READ, 1};

    enter(capacity, "TransactWriteItems", &writes);
    capacity_settle(capacity, "TransactWriteItems", &writes, 1,
                    &(const struct spent){{4, 0}, {true, false}});
    check_refused(capacity, &reads, 1,
                  "Scan: table users: the budget of read_units = 1e-06 left no room in time");
    capacity_free(capacity);
}

static void test_cancelled(void)
{
    const struct capacity_budget budget = {NULL, {NEVER, 0}};
    struct capacity *capacity = capacity_of(&budget, 1);
    const struct demand reads = {"users", CAPACITY_READ, 1};
    atomic_bool cancelled = true;
    struct err err = {""};

    check_int(capacity_enter(capacity, "Scan", &reads, 1, 0, &cancelled, &err), 0); /* no wait */
    check_int(
        capacity_enter(capacity, "Scan", &reads, 1, clock_steady_ns() + FAR_NS, &cancelled, &err),
        -EINTR);
    check_text(span_text(err.text), "Scan: interrupted");
    capacity_free(capacity);
}

/* A request with enough time waits, and not a moment less than what is owed: the ninth comes when
 * the first eight are paid for. */
static void test_waits_for_what_is_owed(void)
{
    const struct capacity_budget budget = {"users", {20, 0}};
    int64_t begun_ns = clock_steady_ns();
    struct capacity *capacity = capacity_of(&budget, 1);
    const struct demand reads = {"users", CAPACITY_READ, 1};

    for (int i = 0; i < 9; i++) {
        check_int(capacity_enter(capacity, "Query", &reads, 1, begun_ns + FAR_NS, NULL, NULL), 0);
        settle(capacity, "Query", &reads, 1, true);
    }
    check(clock_steady_ns() - begun_ns >= 8 * NS_PER_S / 20);
    capacity_free(capacity);
}

/* --- Threads --- */

struct crowd {
    struct capacity *capacity;
    const char *table;
    atomic_int passed;
    int order[CROWD];
};

struct member_of_crowd {
    struct crowd *crowd;
    int number;
    atomic_bool cancelled;
    pthread_t thread;
    int code;
};

static int add_waiting(void *context, const struct usage *usage)
{
    *(unsigned *)context += usage->waiting;
    return 0;
}

static void wait_for_waiting(struct capacity *capacity, unsigned count)
{
    int64_t end_ns = clock_steady_ns() + PATIENCE_NS;

    for (unsigned found = count + 1; found != count; sched_yield()) {
        found = 0;
        capacity_usage(capacity, add_waiting, &found);
        if (clock_steady_ns() > end_ns) {
            check_fail("%u requests wait, not %u", found, count);
            abort();
        }
    }
}

static void *come(void *context)
{
    struct member_of_crowd *member = context;
    struct crowd *crowd = member->crowd;
    const struct demand reads = {crowd->table, CAPACITY_READ, 10};

    member->code = capacity_enter(crowd->capacity, "Scan", &reads, 1, clock_steady_ns() + FAR_NS,
                                  &member->cancelled, NULL);
    if (member->code == 0)
        crowd->order[atomic_fetch_add(&crowd->passed, 1)] = member->number;
    return NULL;
}

static void start(struct crowd *crowd, struct member_of_crowd *members, unsigned waiting)
{
    for (int i = 0; i < CROWD; i++) {
        members[i] = (struct member_of_crowd){.crowd = crowd, .number = i};
        check_int(pthread_create(&members[i].thread, NULL, come, &members[i]), 0);
        wait_for_waiting(crowd->capacity, waiting + (unsigned)i + 1);
    }
}

/* In the order of their coming, one by one, as each gives back; who went away is passed over. */
static void test_fair(void)
{
    const struct capacity_budget budget = {"users", {NEVER, 0}};
    struct capacity *capacity = capacity_of(&budget, 1);
    struct crowd crowd = {.capacity = capacity, .table = "users"};
    const struct demand reads = {"users", CAPACITY_READ, 10};
    struct member_of_crowd members[CROWD];
    const int wanted[] = {0, 1, 3, 4, 5};

    enter(capacity, "Scan", &reads);
    start(&crowd, members, 0);
    atomic_store(&members[2].cancelled, true);
    pthread_join(members[2].thread, NULL);
    check_int(members[2].code, -EINTR);
    for (int i = 0; i < CROWD - 1; i++) {
        check_int(crowd.passed, i);
        settle(capacity, "Scan", &reads, 0, false);
        pthread_join(members[wanted[i]].thread, NULL);
        check_int(members[wanted[i]].code, 0);
        check_int(crowd.order[i], wanted[i]);
        wait_for_waiting(capacity, (unsigned)(CROWD - 2 - i));
    }
    check_int(crowd.passed, CROWD - 1);
    capacity_free(capacity);
}

/* Who waits for a table's budget holds up nobody at that of all together. */
static void test_tables_overtake(void)
{
    const struct capacity_budget budgets[] = {{NULL, {1e9, 0}}, {"slow", {NEVER, 0}}};
    struct capacity *capacity = capacity_of(budgets, 2);
    struct crowd crowd = {.capacity = capacity, .table = "slow"};
    const struct demand slow = {"slow", CAPACITY_READ, 10}, quick = {"quick", CAPACITY_READ, 10};
    struct member_of_crowd members[CROWD];

    enter(capacity, "Scan", &slow);
    start(&crowd, members, 0);
    for (int i = 0; i < 100; i++) {
        check_int(
            capacity_enter(capacity, "Scan", &quick, 1, clock_steady_ns() + FAR_NS, NULL, NULL), 0);
        settle(capacity, "Scan", &quick, 0, false);
    }
    check_int(crowd.passed, 0);
    for (int i = 0; i < CROWD; i++)
        atomic_store(&members[i].cancelled, true);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(members[i].thread, NULL);
        check_int(members[i].code, -EINTR);
    }
    capacity_free(capacity);
}

/* Many threads, many tables: nobody is lost, and all is counted. */
static void *work(void *context)
{
    struct capacity *capacity = context;
    static const char *const tables[] = {"a", "b", "c"};
    for (int i = 0; i < 3000; i++) {
        const struct demand demands[] = {{tables[i % 3], CAPACITY_READ, 2},
                                         {tables[(i + 1) % 3], CAPACITY_WRITE, 1}};
        const struct spent spent[] = {spent_of(CAPACITY_READ, 0.5, true),
                                      spent_of(CAPACITY_WRITE, 3, true)};
        if (capacity_enter(capacity, "Mixed", demands, 2, clock_steady_ns() + FAR_NS, NULL, NULL))
            return context;
        capacity_settle(capacity, "Mixed", demands, 2, spent);
    }
    return NULL;
}

static int add_units(void *context, const struct usage *usage)
{
    double *sums = context;
    sums[0] += usage->read_units;
    sums[1] += usage->write_units;
    return 0;
}

static void test_many_threads(void)
{
    const struct capacity_budget budgets[] = {{NULL, {1e7, 1e7}}, {"a", {1e7, 0}}, {"b", {0, 1e7}}};
    struct capacity *capacity = capacity_of(budgets, 3);
    pthread_t threads[CROWD];
    double sums[2] = {0};

    for (int i = 0; i < CROWD; i++)
        check_int(pthread_create(&threads[i], NULL, work, capacity), 0);
    for (int i = 0; i < CROWD; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        check(failed == NULL);
    }
    capacity_usage(capacity, add_units, sums);
    check(sums[0] == CROWD * 3000 * 0.5 && sums[1] == CROWD * 3000 * 3.0);
    capacity_free(capacity);
}

static void test_asking(void)
{
    struct capacity *capacity = capacity_of(NULL, 0);

    check_int(capacity_asking(capacity, "Scan"), CAPACITY_UNKNOWN);
    capacity_set_asking(capacity, "Scan", CAPACITY_ACCEPTED);
    capacity_set_asking(capacity, "Query", CAPACITY_REFUSED);
    check_int(capacity_asking(capacity, "Scan"), CAPACITY_ACCEPTED);
    check_int(capacity_asking(capacity, "Query"), CAPACITY_REFUSED);
    capacity_set_asking(capacity, "Scan", CAPACITY_REFUSED);
    check_int(capacity_asking(capacity, "Scan"), CAPACITY_REFUSED);
    check_int(capacity_asking(capacity, "PutItem"), CAPACITY_UNKNOWN);
    capacity_free(capacity);
    capacity_free(NULL);
}

CHECK_MAIN(CHECK_TEST(test_counts), CHECK_TEST(test_demands), CHECK_TEST(test_limits),
           CHECK_TEST(test_kinds_and_tables_apart), CHECK_TEST(test_refused_takes_nothing),
           CHECK_TEST(test_does_not_wait_for_itself), CHECK_TEST(test_unexpected_units),
           CHECK_TEST(test_cancelled), CHECK_TEST(test_waits_for_what_is_owed),
           CHECK_TEST(test_fair), CHECK_TEST(test_tables_overtake), CHECK_TEST(test_many_threads),
           CHECK_TEST(test_asking))
