/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/consumed.h"

#include "tests/check.h"

#define NOT_TOLD (-1)

/* What ANSWER tells of the table "users": read and write units, NOT_TOLD where it does not. */
static void check_answer(const char *answer, enum capacity_kind kind, bool only, double read,
                         double write)
{
    const struct demand demand = {"users", kind, 1};
    struct spent spent = {{0}, {false}};
    bool told = consumed_read(span_text(answer), &demand, only, &spent);
    double got_read = spent.told[CAPACITY_READ] ? spent.units[CAPACITY_READ] : NOT_TOLD;
    double got_write = spent.told[CAPACITY_WRITE] ? spent.units[CAPACITY_WRITE] : NOT_TOLD;

    if (got_read != read || got_write != write || told != (read != NOT_TOLD || write != NOT_TOLD))
        check_fail("%s: told %d, reads %g, writes %g", answer, told, got_read, got_write);
}

static void test_one_entry(void)
{
    check_answer("{\"Item\":{},\"ConsumedCapacity\":{\"TableName\":\"users\","
                 "\"CapacityUnits\":1.5}}",
                 CAPACITY_READ, true, 1.5, NOT_TOLD);
    check_answer("{\"ConsumedCapacity\":{\"CapacityUnits\":3,\"TableName\":\"users\"}}",
                 CAPACITY_WRITE, true, NOT_TOLD, 3);
    check_answer("{\"ConsumedCapacity\":{\"CapacityUnits\":0.0,\"TableName\":\"users\"}}",
                 CAPACITY_READ, true, 0, NOT_TOLD);
    check_answer("{\"__type\":\"x#ConditionalCheckFailedException\","
                 "\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":2}}",
                 CAPACITY_WRITE, true, NOT_TOLD, 2);
}

/* A transaction that had been applied before is told as a read. */
static void test_transactions(void)
{
    check_answer("{\"ConsumedCapacity\":[{\"TableName\":\"users\",\"CapacityUnits\":12,"
                 "\"WriteCapacityUnits\":12}]}",
                 CAPACITY_WRITE, true, NOT_TOLD, 12);
    check_answer("{\"ConsumedCapacity\":[{\"TableName\":\"users\",\"CapacityUnits\":6,"
                 "\"ReadCapacityUnits\":6}]}",
                 CAPACITY_WRITE, true, 6, NOT_TOLD);
    check_answer("{\"ConsumedCapacity\":[{\"TableName\":\"users\",\"ReadCapacityUnits\":2,"
                 "\"WriteCapacityUnits\":4}]}",
                 CAPACITY_WRITE, true, 2, 4);
}

static void test_several_tables(void)
{
    const char *answer = "{\"ConsumedCapacity\":[{\"TableName\":\"orders\",\"CapacityUnits\":7},"
                         "{\"TableName\":\"users\",\"CapacityUnits\":1},{\"CapacityUnits\":100},"
                         "{\"TableName\":\"users\",\"CapacityUnits\":0.5}]}";

    check_answer(answer, CAPACITY_WRITE, false, NOT_TOLD, 1.5);
    check_answer("{\"ConsumedCapacity\":[{\"TableName\":\"orders\",\"CapacityUnits\":7}]}",
                 CAPACITY_WRITE, false, NOT_TOLD, NOT_TOLD);
}

/* An entry without a name is the request's only table's; one with another name is not. */
static void test_names(void)
{
    check_answer("{\"ConsumedCapacity\":{\"CapacityUnits\":2}}", CAPACITY_READ, true, 2, NOT_TOLD);
    check_answer("{\"ConsumedCapacity\":{\"CapacityUnits\":2}}", CAPACITY_READ, false, NOT_TOLD,
                 NOT_TOLD);
    check_answer("{\"ConsumedCapacity\":{\"TableName\":\"user\",\"CapacityUnits\":2}}",
                 CAPACITY_READ, true, NOT_TOLD, NOT_TOLD);
    check_answer("{\"ConsumedCapacity\":{\"TableName\":\"us\\u0065rs\",\"CapacityUnits\":2}}",
                 CAPACITY_READ, true, 2, NOT_TOLD);
}

static void test_nothing_told(void)
{
    static const char *const answers[] = {
        "",
        "{}",
        "[]",
        "{\"ConsumedCapacity\":null}",
        "{\"ConsumedCapacity\":[]}",
        "{\"ConsumedCapacity\":{}}",
        "{\"ConsumedCapacity\":5}",
        "{\"ConsumedCapacity\":\"5\"}",
        "{\"ConsumedCapacity\":[5,null,\"x\"]}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\"}}",
        "{\"ConsumedCapacity\":{\"TableName\":5,\"CapacityUnits\":1}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":null}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":\"1\"}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":-1}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":1e10}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":true}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"CapacityUnits\":{}}}",
        "{\"ConsumedCapacity\":{\"TableName\":\"users\",\"Table\":{\"CapacityUnits\":1}}}",
    };

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        for (int only = 0; only < 2; only++)
            check_answer(answers[i], CAPACITY_READ, only, NOT_TOLD, NOT_TOLD);
    check_answer("{\"ConsumedCapacity\":{\"CapacityUnits\":"
                 "0.0000000000000000000000000000000000000000000000000000000000000001}}",
                 CAPACITY_READ, true, NOT_TOLD, NOT_TOLD); /* longer than any that a service says */
}

CHECK_MAIN(CHECK_TEST(test_one_entry), CHECK_TEST(test_transactions),
           CHECK_TEST(test_several_tables), CHECK_TEST(test_names), CHECK_TEST(test_nothing_told))
