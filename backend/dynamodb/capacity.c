/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/capacity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dynamodb/bucket.h"
#include "base/cleanup.h"

#define OPERATIONS_MAX 16        /* more than there are that consume anything */
#define SLICE_NS (NS_PER_S / 10) /* after which a wait looks whether the request was cancelled */

/* Who waits at a gate, in the order of their coming. Lives on the stack of its thread. */
struct turn {
    struct turn *next;
};

struct gate {
    struct bucket bucket;
    struct turn *first;
};

struct row {
    const char *operation;
    uint64_t requests;
    unsigned waiting;
    int64_t waited_ns;
    double units[CAPACITY_KINDS];
    bool told[CAPACITY_KINDS];
};

struct account {
    struct account *next; /* by name */
    struct gate gates[CAPACITY_KINDS];
    struct row rows[OPERATIONS_MAX];
    size_t count;
    char name[];
};

struct capacity {
    pthread_mutex_t lock; /* guards all below; taken alone, held over nothing but waits at a gate */
    pthread_cond_t moved; /* a turn ended, or a debt became smaller */
    struct gate gates[CAPACITY_KINDS]; /* of all tables together */
    struct account *accounts;
    struct {
        const char *operation;
        enum capacity_asking asking;
    } asked[OPERATIONS_MAX];
    size_t asked_count;
};

/* A request at a gate. */
struct entry {
    const char *operation, *table;
    enum capacity_kind kind;
    double units;
    struct row *row; /* where waiting is counted */
    int64_t deadline_ns;
    const atomic_bool *cancelled;
};

void demand_add(struct demand *demands, size_t *count, const char *table, enum capacity_kind kind,
                double units)
{
    for (size_t i = 0; i < *count; i++)
        if (demands[i].kind == kind && strcmp(demands[i].table, table) == 0) {
            demands[i].units += units;
            return;
        }
    demands[(*count)++] = (struct demand){table, kind, units};
}

/* --- Accounts --- */

/* The account of TABLE, made where there is none; NULL: no memory. */
static struct account *account_of(struct capacity *capacity, const char *table)
{
    struct account **link = &capacity->accounts;
    int order = -1;

    while (*link && (order = strcmp((*link)->name, table)) < 0)
        link = &(*link)->next;
    if (*link && order == 0)
        return *link;
    struct account *account = calloc(1, sizeof *account + strlen(table) + 1);
    if (!account)
        return NULL;
    memcpy(account->name, table, strlen(table) + 1);
    account->next = *link;
    return *link = account;
}

static struct row *row_of(struct account *account, const char *operation)
{
    for (size_t i = 0; i < account->count; i++)
        if (strcmp(account->rows[i].operation, operation) == 0)
            return &account->rows[i];
    assert(account->count < OPERATIONS_MAX);
    account->rows[account->count] = (struct row){.operation = operation};
    return &account->rows[account->count++];
}

int capacity_new(const struct capacity_budget *budgets, size_t count,
                 struct capacity **ret_capacity)
{
    struct capacity *capacity = calloc(1, sizeof *capacity);
    pthread_condattr_t steady;

    if (!capacity)
        return -ENOMEM;
    pthread_mutex_init(&capacity->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&capacity->moved, &steady);
    pthread_condattr_destroy(&steady);
    for (size_t i = 0; i < count; i++) {
        const struct capacity_budget *budget = &budgets[i];
        struct account *account = budget->table ? account_of(capacity, budget->table) : NULL;
        if (budget->table && !account) {
            capacity_free(capacity);
            return -ENOMEM;
        }
        struct gate *gates = account ? account->gates : capacity->gates;
        for (int kind = 0; kind < CAPACITY_KINDS; kind++)
            bucket_init(&gates[kind].bucket, budget->units_s[kind], clock_steady_ns());
    }
    *ret_capacity = capacity;
    return 0;
}

void capacity_free(struct capacity *capacity)
{
    if (!capacity)
        return;
    while (capacity->accounts) {
        struct account *account = capacity->accounts;
        capacity->accounts = account->next;
        free(account);
    }
    pthread_cond_destroy(&capacity->moved);
    pthread_mutex_destroy(&capacity->lock);
    free(capacity);
}

double capacity_limit(struct capacity *capacity, const char *table, enum capacity_kind kind)
{
    scoped_lock(&capacity->lock);
    if (!table)
        return capacity->gates[kind].bucket.rate;
    for (const struct account *account = capacity->accounts; account; account = account->next)
        if (strcmp(account->name, table) == 0)
            return account->gates[kind].bucket.rate;
    return 0;
}

/* --- The gates --- */

static void join(struct gate *gate, struct turn *turn)
{
    struct turn **last = &gate->first;

    while (*last)
        last = &(*last)->next;
    *last = turn;
}

static void leave(struct capacity *capacity, struct gate *gate, const struct turn *turn)
{
    struct turn **link = &gate->first;

    while (*link != turn)
        link = &(*link)->next;
    *link = turn->next;
    pthread_cond_broadcast(&capacity->moved);
}

/* For LONGEST_NS or until something moves. */
static void wait_a_while(struct capacity *capacity, int64_t longest_ns)
{
    int64_t ns = longest_ns < SLICE_NS ? longest_ns : SLICE_NS;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / NS_PER_S;
    until.tv_nsec = ns % NS_PER_S;
    pthread_cond_timedwait(&capacity->moved, &capacity->lock, &until);
}

static int give_up(const struct entry *entry, const struct gate *gate, bool of_table, int code,
                   struct err *err)
{
    const char *key = entry->kind == CAPACITY_READ ? "read_units" : "write_units";

    if (code == EINTR)
        return err_set(err, code, "%s: interrupted", entry->operation);
    return err_set(err, code, "%s: table %s: the budget of %s = %.15g%s left no room in time",
                   entry->operation, entry->table, key, gate->bucket.rate,
                   of_table ? "" : " for all tables");
}

static int wait_for_turn(struct capacity *capacity, struct gate *gate, const struct turn *turn,
                         const struct entry *entry)
{
    for (;;) {
        int64_t now_ns = clock_steady_ns(), debt_ns = bucket_debt_ns(&gate->bucket, now_ns);

        if (gate->first == turn && debt_ns == 0)
            return 0;
        if (entry->cancelled && atomic_load(entry->cancelled))
            return EINTR;
        if (now_ns >= entry->deadline_ns)
            return ETIMEDOUT;
        int64_t left_ns = entry->deadline_ns - now_ns;
        wait_a_while(capacity, debt_ns > 0 && debt_ns < left_ns ? debt_ns : left_ns);
    }
}

static int pass(struct capacity *capacity, struct gate *gate, const struct entry *entry,
                bool of_table, struct err *err)
{
    struct turn turn = {NULL};
    int64_t begun_ns = clock_steady_ns();
    int code = 0;

    if (!(gate->bucket.rate > 0))
        return 0;
    join(gate, &turn);
    if (gate->first != &turn || bucket_debt_ns(&gate->bucket, begun_ns) > 0) {
        entry->row->waiting++;
        code = wait_for_turn(capacity, gate, &turn, entry);
        entry->row->waiting--;
        entry->row->waited_ns += clock_steady_ns() - begun_ns;
    }
    if (code == 0)
        bucket_take(&gate->bucket, entry->units, clock_steady_ns());
    leave(capacity, gate, &turn);
    return code ? give_up(entry, gate, of_table, code, err) : 0;
}

static void give_back(struct capacity *capacity, struct gate *gate, double units)
{
    bucket_correct(&gate->bucket, -units);
    pthread_cond_broadcast(&capacity->moved);
}

/* The gates of the tables; RET_ENTERED: so many were passed. */
static int enter_tables(struct capacity *capacity, struct entry *entry,
                        const struct demand *demands, size_t count, size_t *ret_entered,
                        struct err *err)
{
    int r = 0;

    assert(count > 0);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct account *account = account_of(capacity, demands[i].table);
        if (!account) {
            err_set(err, ENOMEM, "no memory");
            return -ENOMEM;
        }
        entry->table = demands[i].table;
        entry->kind = demands[i].kind;
        entry->units = demands[i].units;
        entry->row = row_of(account, entry->operation);
        r = pass(capacity, &account->gates[entry->kind], entry, true, err);
        *ret_entered += r == 0;
    }
    return r;
}

static double sum_of(const struct demand *demands, size_t count, enum capacity_kind kind)
{
    double units = 0;

    for (size_t i = 0; i < count; i++)
        units += demands[i].kind == kind ? demands[i].units : 0;
    return units;
}

/* Then those of all tables together, once for the whole request: it must not wait for itself. */
static int enter_all(struct capacity *capacity, struct entry *entry, const struct demand *demands,
                     size_t count, struct err *err)
{
    double reads = sum_of(demands, count, CAPACITY_READ);
    int r = 0;

    entry->kind = CAPACITY_READ;
    entry->units = reads;
    if (reads > 0)
        r = pass(capacity, &capacity->gates[CAPACITY_READ], entry, false, err);
    entry->kind = CAPACITY_WRITE;
    entry->units = sum_of(demands, count, CAPACITY_WRITE);
    if (r == 0 && entry->units > 0) {
        r = pass(capacity, &capacity->gates[CAPACITY_WRITE], entry, false, err);
        if (r < 0)
            give_back(capacity, &capacity->gates[CAPACITY_READ], reads);
    }
    return r;
}

int capacity_enter(struct capacity *capacity, const char *operation, const struct demand *demands,
                   size_t count, int64_t deadline_ns, const atomic_bool *cancelled, struct err *err)
{
    scoped_lock(&capacity->lock);
    struct entry entry = {
        .operation = operation, .deadline_ns = deadline_ns, .cancelled = cancelled};
    size_t entered = 0;
    int r = enter_tables(capacity, &entry, demands, count, &entered, err);

    if (r == 0)
        r = enter_all(capacity, &entry, demands, count, err);
    for (size_t i = 0; r < 0 && i < entered; i++) {
        struct account *account = account_of(capacity, demands[i].table);
        give_back(capacity, &account->gates[demands[i].kind], demands[i].units);
    }
    return r;
}

/* --- Afterwards --- */

static void settle_gate(struct gate *gate, double units, double taken)
{
    if (taken > 0)
        bucket_correct(&gate->bucket, units - taken);
    else if (units > 0)
        bucket_take(&gate->bucket, units, clock_steady_ns());
}

static void settle_one(struct capacity *capacity, const char *operation,
                       const struct demand *demand, const struct spent *spent)
{
    struct account *account = account_of(capacity, demand->table);
    struct row *row = row_of(account, operation);

    row->requests++;
    for (int kind = 0; kind < CAPACITY_KINDS; kind++) {
        double taken = kind == (int)demand->kind ? demand->units : 0;
        settle_gate(&account->gates[kind], spent->units[kind], taken);
        settle_gate(&capacity->gates[kind], spent->units[kind], taken);
        if (spent->told[kind]) {
            row->units[kind] += spent->units[kind];
            row->told[kind] = true;
        }
    }
}

void capacity_settle(struct capacity *capacity, const char *operation, const struct demand *demands,
                     size_t count, const struct spent *spent)
{
    scoped_lock(&capacity->lock);
    for (size_t i = 0; i < count; i++)
        settle_one(capacity, operation, &demands[i], &spent[i]);
    pthread_cond_broadcast(&capacity->moved);
}

void capacity_count(struct capacity *capacity, const char *operation, const char *table)
{
    scoped_lock(&capacity->lock);
    struct account *account = account_of(capacity, table);

    if (account) /* else there is no memory, and one request is not counted */
        row_of(account, operation)->requests++;
}

enum capacity_asking capacity_asking(struct capacity *capacity, const char *operation)
{
    scoped_lock(&capacity->lock);
    for (size_t i = 0; i < capacity->asked_count; i++)
        if (strcmp(capacity->asked[i].operation, operation) == 0)
            return capacity->asked[i].asking;
    return CAPACITY_UNKNOWN;
}

void capacity_set_asking(struct capacity *capacity, const char *operation,
                         enum capacity_asking asking)
{
    scoped_lock(&capacity->lock);
    size_t i = 0;
    while (i < capacity->asked_count && strcmp(capacity->asked[i].operation, operation) != 0)
        i++;
    assert(i < OPERATIONS_MAX);
    capacity->asked[i].operation = operation;
    capacity->asked[i].asking = asking;
    capacity->asked_count += i == capacity->asked_count;
}

int capacity_usage(struct capacity *capacity, usage_fn each, void *context)
{
    scoped_lock(&capacity->lock);
    const struct gate *all = capacity->gates;
    int r = 0;

    for (const struct account *account = capacity->accounts; r == 0 && account;
         account = account->next) {
        const struct gate *own = account->gates;
        bool limited = own[0].bucket.rate > 0 || own[1].bucket.rate > 0 || all[0].bucket.rate > 0 ||
                       all[1].bucket.rate > 0;
        for (size_t i = 0; r == 0 && i < account->count; i++) {
            const struct row *row = &account->rows[i];
            const struct usage usage = {.table = account->name,
                                        .operation = row->operation,
                                        .requests = row->requests,
                                        .tells_reads = row->told[CAPACITY_READ],
                                        .tells_writes = row->told[CAPACITY_WRITE],
                                        .read_units = row->units[CAPACITY_READ],
                                        .write_units = row->units[CAPACITY_WRITE],
                                        .limited = limited,
                                        .waiting = row->waiting,
                                        .waited_ns = row->waited_ns};
            r = each(context, &usage);
        }
    }
    return r;
}
