/* SPDX-License-Identifier: MIT */
/* How large pages are, and how long who made a debt may wait for it. */
#include "backend/dynamodb/portion.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/dynamodb/service.h"
#include "base/clock.h"
#include "tests/check.h"

#define NEVER 1e-6 /* units a second: a unit is owed for eleven days */

static void test_learning(void)
{
    check(portion_learn(0, 1, 75) == 75);     /* nothing was known */
    check(portion_learn(0, 0, 1) == 0);       /* an empty page tells nothing */
    check(portion_learn(0.5, 0, 1) == 0.5);   /* likewise */
    check(portion_learn(0.5, 10, 0) == 0.5);  /* nor does one that is not told of */
    check(portion_learn(0.25, 1, 1) == 0.25); /* one unit is the least of all: no contradiction */
    check(portion_learn(0.25, 8, 3) == 0.25); /* between 2/8 and 3/8 */
    check(portion_learn(0.25, 8, 3.5) == 3.5 / 8);
    check(portion_learn(1, 8, 2) == 0.625);
    check(portion_learn(0.5, 4, 300) == 75); /* up at once */
    check(portion_learn(75, 100, 1) == (75 + 0.01) / 2);
}

static void test_items(void)
{
    check_int(portion_items(3, 0), 1);
    check_int(portion_items(3, 75), 1);
    check_int(portion_items(100, 75), 1);
    check_int(portion_items(200, 75), 2);
    check_int(portion_items(8, 0.25), 32);
    check_int(portion_items(0.01, 0.25), 1);
    check_int(portion_items(255, 1e-9), 1000000);
}

static void test_tables(void)
{
    struct portions portions = {0};
    check(portions_find(&portions, 7) == 0);
    check(portions_find(&portions, 0) == 0);
    portions_put(&portions, 7, 3.5);
    check(portions_find(&portions, 7) == 3.5);
    check(portions_find(&portions, 7 + PORTIONS) == 0);
    portions_put(&portions, 7 + PORTIONS, 1);
    check(portions_find(&portions, 7) == 0);
    check(portions_find(&portions, 7 + PORTIONS) == 1);
}

/* A request behind a debt of RATE / 4 seconds, of which OWN_NS are its own; the service does not
 * answer, and a call may take a bit less than the second that four units a second cost here. */
static int ask(double rate, int64_t own_ns)
{
    const struct capacity_budget budget = {NULL, {rate, 0}};
    const struct client_options options = {.credentials = {.endpoint = "http://127.0.0.1:1"},
                                           .deadline_ms = 900};
    struct service service = {.backend.ops = NULL};
    struct demand before = {"users", CAPACITY_READ, 1}, demand = before;
    const struct spent spent = {{rate / 4 + 1, 0}, {true}};
    struct outcome outcome;
    struct buf body;

    check_int(client_open(&options, &service.client, NULL), 0);
    check_int(capacity_new(&budget, 1, &service.capacity), 0);
    check_int(capacity_enter(service.capacity, "Scan", &before, 1, 0, NULL, NULL), 0);
    capacity_settle(service.capacity, "Scan", &before, 1, &spent);
    buf_init(&body, 4096);
    buf_add_text(&body, "{\"TableName\":\"users\"");
    const struct spending spending = {
        .operation = "Scan", .demands = &demand, .count = 1, .body = &body, .own_ns = own_ns};
    int r = service_spend_for(&service, &spending, &outcome, NULL);
    outcome_release(&outcome);
    buf_release(&body);
    client_close(service.client);
    capacity_free(service.capacity);
    return r;
}

/* A debt that is the caller's own is waited for beyond the deadline, another's is not; and behind
 * it there is time for the request. */
static void test_own_debt(void)
{
    setenv("AWS_REGION", "us-east-1", 1);
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    check_int(ask(NEVER, 0), -ETIMEDOUT);
    check_int(ask(4, 60 * NS_PER_S), -EHOSTUNREACH);
}

CHECK_MAIN(CHECK_TEST(test_learning), CHECK_TEST(test_items), CHECK_TEST(test_tables),
           CHECK_TEST(test_own_debt))
