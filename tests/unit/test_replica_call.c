/* SPDX-License-Identifier: MIT */
/* Tasks that are given up, and those that wait for them; no file is touched. */
#include "backend/folder/replica_call.h"

#include <semaphore.h>

#include "tests/check.h"

#define SHORT_NS INT64_C(50000000)
#define LATE_NS INT64_C(1000000000)
#define LONG_NS INT64_C(60000000000)

static sem_t begun, may_end;
static atomic_int ended, run_beside, run_behind;

/* Hangs until it is let go, whatever it is told. */
static int hang(struct task *task, const struct disk *disk)
{
    (void)disk;
    sem_post(&begun);
    while (sem_wait(&may_end) < 0)
        continue;
    task->stat.size = strlen(task->call->ops->name); /* its own still */
    atomic_fetch_add(&ended, 1);
    return 0;
}

static int note(struct task *task, const struct disk *disk)
{
    (void)disk;
    atomic_fetch_add(atomic_load(&ended) ? &run_behind : &run_beside, 1);
    return task->call->op_count > 0 ? -EPERM : 0;
}

static void begin(void)
{
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    atomic_store(&ended, 0);
    atomic_store(&run_beside, 0);
    atomic_store(&run_behind, 0);
}

static struct call *call_of(struct replica *replica, task_fn run)
{
    char name[] = "a.json";
    struct file_op op = call_name("t", name);
    struct call *call = call_new(run, &op, run == hang);

    memset(name, 'x', sizeof name - 1); /* the call has a copy */
    call_add(call, replica_get(replica));
    return call;
}

static int result(struct call *call)
{
    struct err err = {""};

    return task_result(&call->tasks[0], SHORT_NS, &err);
}

static void test_ordinary(void)
{
    struct replica *replica = replica_new("/none", 0, 0, 0);
    struct call *call = call_of(replica, note);
    begin();

    for (int i = 0; i < 3; i++) {
        call_do(call, LONG_NS, i == 0);
        check_int(result(call), 0);
    }
    check_int(run_beside, 3);
    call_put(call);
    replica_close(replica);
}

/* A call that has begun in REPLICA and was given up. */
static void give_up(struct replica *replica)
{
    struct call *call = NULL;

    do { /* one that could not begin in time was dropped */
        call_put(call);
        call = call_of(replica, hang);
        call_do(call, SHORT_NS, false);
        check_int(result(call), -ETIMEDOUT);
    } while (sem_trywait(&begun) < 0);
    check(replica_is_busy(replica) && atomic_load(&call->stop));
    call_put(call);
}

static void *hang_in(void *context)
{
    struct call *call = call_of(context, hang);

    call_do(call, LONG_NS, false);
    check_int(result(call), 0);
    check_int(call->tasks[0].stat.size, 6);
    call_put(call);
    return NULL;
}

/* COUNT calls at once, each of which needs a thread, as far as there may be so many. */
static void begin_many(struct replica *replica, pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        check_int(pthread_create(&threads[i], NULL, hang_in, replica), 0);
    for (int i = 0; i < count && i < REPLICA_THREADS_MOST; i++)
        sem_wait(&begun);
}

static void end_many(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        sem_post(&may_end);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    check_int(ended, count);
}

struct waiting {
    struct replica *replica;
    int code;
};

static void *wait_behind(void *context)
{
    struct waiting *waiting = context;
    struct call *call = call_of(waiting->replica, note);

    call_do(call, LONG_NS, true); /* also one that would be done alone */
    waiting->code = result(call);
    call_put(call);
    return NULL;
}

static unsigned count_queued(struct replica *replica)
{
    scoped_lock(&replica->lock);
    return replica->queued;
}

/* What was given up goes on with what is its own; nothing begins beside it. */
static void test_nothing_begins_beside_what_was_given_up(void)
{
    struct replica *replica = replica_new("/none", 0, 0, 0);
    struct call *dropped = call_of(replica, note);
    struct waiting waiting = {replica, 1};
    pthread_t thread, threads[2];

    begin();
    begin_many(replica, threads, 2); /* there are threads that have nothing to do */
    end_many(threads, 2);
    begin();
    give_up(replica);
    call_do(dropped, SHORT_NS, false);
    check_int(result(dropped), -ETIMEDOUT);
    call_put(dropped);
    check_int(pthread_create(&thread, NULL, wait_behind, &waiting), 0);
    while (count_queued(replica) == 0)
        sched_yield();
    sem_post(&may_end);
    pthread_join(thread, NULL);
    check_int(waiting.code, 0);
    check(ended == 1 && run_beside == 0 && run_behind == 1 && !replica_is_busy(replica));
    replica_close(replica);
}

/* One that answers in time is heard, though another does not. */
static void test_one_of_two_is_late(void)
{
    struct replica *good = replica_new("/good", 0, 0, 0), *bad = replica_new("/bad", 1, 0, 0);
    struct call *both = call_of(good, note);
    struct err err = {""};
    begin();

    give_up(bad);
    call_add(both, replica_get(bad));
    call_do(both, LATE_NS, false);
    check_int(result(both), 0);
    check_int(task_result(&both->tasks[1], LATE_NS, &err), -ETIMEDOUT);
    check_text(span_text(err.text), "/bad did not answer within 1.0 seconds");
    call_put(both);
    replica_close(good);
    replica_close(bad); /* does not wait for it */
    check_int(ended, 0);
    sem_post(&may_end);
    while (!ended)
        sched_yield();
}

#define MANY (REPLICA_THREADS_MOST + 3)

static void test_threads_are_bounded(void)
{
    struct replica *replica = replica_new("/none", 0, 0, 0);
    pthread_t threads[MANY];
    begin();

    begin_many(replica, threads, MANY);
    while (count_queued(replica) < MANY - REPLICA_THREADS_MOST)
        sched_yield();
    check(sem_trywait(&begun) < 0);
    end_many(threads, MANY);
    replica_close(replica);
}

CHECK_MAIN(CHECK_TEST(test_ordinary), CHECK_TEST(test_nothing_begins_beside_what_was_given_up),
           CHECK_TEST(test_one_of_two_is_late), CHECK_TEST(test_threads_are_bounded))
