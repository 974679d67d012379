/* SPDX-License-Identifier: MIT */
/* Who delivers, as two daemons over one store settle it. Times are short here; no test depends on a
 * machine being fast. */
#include "deliver/tenure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/sqlite/sqlite.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/check.h"

#define MS (NS_PER_S / 1000)
#define NEVER (3600 * NS_PER_S)

static const struct tenure_times quick = {
    .renew_ns = 100 * MS, .fresh_ns = 5 * NS_PER_S, .lapse_ns = 20 * NS_PER_S, .look_ns = 20 * MS};

struct side {
    struct backend *backend;
    struct tenure tenure;
};

static char store_path[64];

static void side_open(struct side *side, const char *holder, struct tenure_times times)
{
    struct sqlite_options options = {.create = true};
    struct err err = {""};

    snprintf(store_path, sizeof store_path, "/tmp/test_tenure.%d.db", (int)getpid());
    if (sqlite_open(store_path, &options, &side->backend, &err) < 0) {
        check_fail("%s", err.text);
        exit(1);
    }
    tenure_init(&side->tenure, holder);
    side->tenure.times = times;
    check_int(tenure_start(&side->tenure, side->backend, "users", &err), 0);
}

static void side_close(struct side *side)
{
    tenure_stop(&side->tenure);
    tenure_release(&side->tenure);
    backend_close(side->backend);
}

static void remove_store(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < 3; i++) {
        char path[80];
        snprintf(path, sizeof path, "%s%s", store_path, suffixes[i]);
        unlink(path);
    }
}

static uint64_t check_lease(struct side *side, const char *holder, const char *position)
{
    cleanup(lease_release) struct lease lease;
    struct err err = {""};
    struct tally tally;
    struct span kept;

    lease_init(&lease);
    check_int(backend_lease_read(side->backend, span_text("users"), &lease, &err), 0);
    check_text(buf_span(&lease.holder), holder);
    mark_read(buf_span(&lease.position), &kept, &tally);
    check_text(kept, position);
    return lease.count;
}

static uint64_t check_begins(struct side *side, const char *position)
{
    cleanup(buf_release) struct buf got;
    uint64_t number = 0;

    buf_init(&got, LEASE_TEXT_MAX);
    check_int(tenure_begin(&side->tenure, &number, &got), 0);
    check_text(buf_span(&got), position);
    check(!atomic_load(&side->tenure.over));
    return number;
}

static uint64_t tenures(struct side *side)
{
    scoped_lock(&side->tenure.lock);
    return side->tenure.number;
}

/* Somebody else writes the lease that stands as it is now, and never again. */
static void take_away(struct side *side, const char *holder)
{
    struct err err = {""};
    int code;

    do {
        cleanup(lease_release) struct lease lease;
        lease_init(&lease);
        check_int(backend_lease_read(side->backend, span_text("users"), &lease, &err), 0);
        code = backend_lease_write(side->backend, span_text("users"), lease.count,
                                   span_text(holder), span_text("theirs"), &err);
    } while (code == -ESTALE); /* it was renewed meanwhile */
    check_int(code, 0);
}

static void test_first_of_all(void)
{
    struct side side;

    side_open(&side, "me", quick);
    uint64_t number = check_begins(&side, STREAM_OLDEST);
    check_int(number, 1);
    check_int(tenure_confirm(&side.tenure, number), 0);
    check(!tenure_is_uncertain(&side.tenure)); /* for 5 s */
    check_int(tenure_keep(&side.tenure, number, span_text("place 1")), 0);
    check_lease(&side, "me", "place 1");
    check_int(tenure_note(&side.tenure, number, span_text("place 2")), 0);
    check_begins(&side, "place 2"); /* where its user would go on */
    tenure_stop(&side.tenure);
    check(tenure_is_uncertain(&side.tenure));
    check_lease(&side, "", "place 2");
    side_close(&side);
    remove_store();
}

/* What came of the delivery goes with the lease from one to the next. */
static void test_tally(void)
{
    cleanup(lease_release) struct lease lease;
    struct err err = {""};
    struct side one, two;

    lease_init(&lease);
    side_open(&one, "one", quick);
    uint64_t number = check_begins(&one, STREAM_OLDEST);
    tenure_count(&one.tenure, TALLY_DELIVERED, 100);
    tenure_count(&one.tenure, TALLY_RETRIED, 2);
    check_int(tenure_keep(&one.tenure, number, span_text("place")), 0);
    side_close(&one);
    side_open(&two, "two", quick);
    number = check_begins(&two, "place");
    tenure_count(&two.tenure, TALLY_DELIVERED, 1);
    tenure_count(&two.tenure, TALLY_LOST, 1);
    check_int(tenure_keep(&two.tenure, number, span_text("later")), 0);
    check_int(backend_lease_read(two.backend, span_text("users"), &lease, &err), 0);
    check_text(buf_span(&lease.position),
               "later delivered=101 retried=2 dropped=0 skipped=0 lost=1");
    side_close(&two);
    remove_store();
}

static void test_given_back(void)
{
    struct side one, two;

    side_open(&one, "one", quick);
    uint64_t number = check_begins(&one, STREAM_OLDEST);
    side_open(&two, "two", quick);
    check_int(tenure_keep(&one.tenure, number, span_text("place")), 0);
    check_int(tenure_pause(&two.tenure, 0, 300 * MS), 0);
    check_int(tenures(&two), 0);
    tenure_stop(&one.tenure);
    check_int(tenure_keep(&one.tenure, number, span_text("late")), -ESTALE);
    check_begins(&two, "place");
    side_close(&one);
    side_close(&two);
    remove_store();
}

/* Whoever has it stands still: not before its time is up, by this side's clock. */
static void test_lapsed(void)
{
    struct tenure_times times = quick;
    struct side one, two;

    times.lapse_ns = 600 * MS;
    side_open(&one, "one", quick);
    check_begins(&one, STREAM_OLDEST);
    tenure_stop(&one.tenure);
    take_away(&one, "dead");
    int64_t began_ns = clock_steady_ns();
    side_open(&two, "two", times);
    check_begins(&two, "theirs");
    check(clock_steady_ns() - began_ns >= times.lapse_ns);
    check_int(check_lease(&two, "two", "theirs"), 4); /* taken, given back, taken away, taken */
    side_close(&one);
    side_close(&two);
    remove_store();
}

static void test_renewed_lease_does_not_lapse(void)
{
    struct tenure_times times = quick;
    struct side one, two;

    times.lapse_ns = 1500 * MS;
    side_open(&one, "one", quick);
    uint64_t number = check_begins(&one, STREAM_OLDEST);
    side_open(&two, "two", times);
    check_int(tenure_pause(&one.tenure, number, 3 * NS_PER_S), 0);
    check_int(tenures(&two), 0);
    check_int(tenure_confirm(&one.tenure, number), 0);
    side_close(&one);
    side_close(&two);
    remove_store();
}

static void test_lost(void)
{
    struct tenure_times times = quick;
    struct side side;

    times.lapse_ns = 500 * MS;
    side_open(&side, "me", times);
    uint64_t number = check_begins(&side, STREAM_OLDEST);
    take_away(&side, "you");
    check_int(tenure_keep(&side.tenure, number, span_text("mine")), -ESTALE);
    check(atomic_load(&side.tenure.over));
    check_lease(&side, "you", "theirs"); /* and nothing of mine was written */
    check_int(tenure_confirm(&side.tenure, number), -ESTALE);
    check_int(tenure_note(&side.tenure, number, span_text("mine")), -ESTALE);
    check_int(tenure_pause(&side.tenure, number, NEVER), -ESTALE);
    uint64_t next = check_begins(&side, "theirs"); /* who stood still */
    check(next > number);
    check_int(tenure_keep(&side.tenure, number, span_text("mine")), -ESTALE);
    side_close(&side);
    remove_store();
}

/* The answer to a write may be lost: a lease that names us is ours. */
static void test_own_name(void)
{
    struct side side;

    side_open(&side, "me", quick);
    uint64_t number = check_begins(&side, STREAM_OLDEST);
    take_away(&side, "me");
    check_int(tenure_pause(&side.tenure, number, NEVER), -ESTALE);
    check_begins(&side, "theirs");
    side_close(&side);
    remove_store();
}

/* A tenure that was not renewed for long, as of a daemon that was stopped, is not certain. */
static void test_uncertain(void)
{
    struct tenure_times times = quick;
    struct side side;

    times.renew_ns = NEVER;
    times.fresh_ns = 50 * MS;
    times.look_ns = NEVER;
    side_open(&side, "me", times);
    uint64_t number = check_begins(&side, STREAM_OLDEST);
    check_int(tenure_pause(&side.tenure, number, 60 * MS), 0);
    check_int(check_lease(&side, "me", STREAM_OLDEST), 1);
    check(!atomic_load(&side.tenure.over));
    check(tenure_is_uncertain(&side.tenure)); /* what is being called is broken off */
    check_int(tenure_confirm(&side.tenure, number), 0);
    check(check_lease(&side, "me", STREAM_OLDEST) >= 2);
    take_away(&side, "you");
    check_int(tenure_pause(&side.tenure, number, 60 * MS), 0); /* nobody has told it */
    check_int(tenure_confirm(&side.tenure, number), -ESTALE);
    side_close(&side);
    remove_store();
}

static void *user_main(void *context)
{
    struct side *side = context;
    uint64_t number;
    struct buf position;

    buf_init(&position, LEASE_TEXT_MAX);
    int code = tenure_begin(&side->tenure, &number, &position);
    buf_release(&position);
    return code == -EINTR ? side : NULL;
}

static void test_users_are_sent_away(void)
{
    struct side one, two;
    pthread_t user;
    void *sent = NULL;

    side_open(&one, "one", quick);
    uint64_t number = check_begins(&one, STREAM_OLDEST);
    side_open(&two, "two", quick);
    check(pthread_create(&user, NULL, user_main, &two) == 0);
    tenure_leave(&two.tenure);
    pthread_join(user, &sent);
    check(sent == &two);
    tenure_stop(&two.tenure);

    tenure_leave(&one.tenure);
    check_int(tenure_confirm(&one.tenure, number), -EINTR);
    check_int(tenure_pause(&one.tenure, number, NEVER), -EINTR);
    check(!atomic_load(&one.tenure.over));
    check_int(tenure_keep(&one.tenure, number, span_text("last")), 0); /* what was delivered */
    tenure_call_off(&one.tenure);
    check(atomic_load(&one.tenure.over));
    side_close(&one);
    check_lease(&two, "", "last");
    side_close(&two);
    remove_store();
}

CHECK_MAIN(CHECK_TEST(test_first_of_all), CHECK_TEST(test_tally), CHECK_TEST(test_given_back),
           CHECK_TEST(test_lapsed), CHECK_TEST(test_renewed_lease_does_not_lapse),
           CHECK_TEST(test_lost), CHECK_TEST(test_own_name), CHECK_TEST(test_uncertain),
           CHECK_TEST(test_users_are_sent_away))
