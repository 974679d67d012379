/* SPDX-License-Identifier: MIT */
/*
 * A call is attempts until one stands. Two reasons to send again cost nothing and are taken once a
 * call: a clock that was wrong, and credentials that had expired. Nothing was applied then, and the
 * next attempt differs from the last. All others are retries: counted, paid for, waited for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "backend/dynamodb/client_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define SLICE_MS 100 /* after which a wait looks whether the call was cancelled */
#define NS_PER_MS INT64_C(1000000)

struct run {
    struct client *client;
    const struct call *call;
    struct outcome *outcome;
    int64_t deadline_ns;
    unsigned retries;
    int paid; /* for the last retry */
    bool clock_set, refreshed;
};

static bool run_is_cancelled(const struct run *run)
{
    return run->call->cancelled && atomic_load(run->call->cancelled);
}

static int64_t left_ms(const struct run *run)
{
    return (run->deadline_ns - clock_steady_ns()) / NS_PER_MS;
}

static void run_attempt(struct run *run, struct attempt *attempt)
{
    int64_t left = left_ms(run);
    if (run_is_cancelled(run)) {
        attempt->code = err_set(&attempt->err, EINTR, "interrupted");
        return;
    }
    if (left <= 0) {
        attempt->code = err_set(&attempt->err, ETIMEDOUT, "no time was left");
        return;
    }
    int64_t most = run->client->request_ms;
    run->outcome->attempts++;
    attempt_run(run->client, run->call, (int)(left < most ? left : most), attempt);
}

/* Takes the service's time for ours where they differ by more than it accepts. */
static bool set_clock(struct run *run, const struct attempt *attempt)
{
    int64_t theirs;
    if (run->clock_set || answer_date(attempt->response.date, &theirs))
        return false;
    if (llabs(theirs - attempt->signed_s) < CLIENT_SKEW_MIN_S)
        return false;
    atomic_store(&run->client->skew_s, theirs - clock_now_s());
    run->clock_set = true;
    return true;
}

static bool refresh(struct run *run, const struct attempt *attempt)
{
    if (run->refreshed)
        return false;
    credential_source_expired(run->client->credentials, &attempt->credentials);
    run->refreshed = true;
    return true;
}

/* In [0, 1). */
static double chance(void)
{
    uint32_t bits = 0;
    /* So few bytes come whole, or not at all before the system has any; then it waits for none. */
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) < 0)
        bits = (uint32_t)clock_steady_ns();
    return bits * 0x1p-32;
}

/* Ends early when the call is cancelled: the next attempt sees that. */
static void wait_ms(const struct run *run, int64_t ms)
{
    for (int64_t left = ms; left > 0 && !run_is_cancelled(run); left -= SLICE_MS) {
        int64_t slice = left < SLICE_MS ? left : SLICE_MS;
        struct timespec time = {.tv_nsec = (long)(slice * NS_PER_MS)};
        nanosleep(&time, NULL);
    }
}

static int pay(struct run *run, enum retry_kind kind)
{
    scoped_lock(&run->client->lock);
    return retry_bucket_take(&run->client->bucket, kind);
}

static bool retry(struct run *run, const struct attempt *attempt)
{
    if (run->retries + 1 >= RETRY_ATTEMPTS)
        return false;
    int64_t delay =
        retry_delay_ms(attempt->kind, run->retries + 1, chance(), attempt->response.retry_after_ms);
    if (delay >= left_ms(run))
        return false;
    int paid = pay(run, attempt->kind);
    if (paid == 0)
        return false;
    log_debug("dynamodb", "%s: attempt %u: %s; again in %lld ms", run->call->operation,
              run->outcome->attempts, err_text(&attempt->err, attempt->code), (long long)delay);
    run->paid = paid;
    run->retries++;
    wait_ms(run, delay);
    return true;
}

/* Whether the call goes on after an attempt that failed; what must come before has been done. */
static bool goes_on(struct run *run, const struct attempt *attempt)
{
    if (attempt->uncertain && run->call->once)
        return false;
    switch (attempt->kind) {
    case RETRY_TRANSIENT:
    case RETRY_THROTTLED: return retry(run, attempt);
    case RETRY_SKEWED: return set_clock(run, attempt);
    case RETRY_CREDENTIALS: return refresh(run, attempt);
    default: return false;
    }
}

static void succeed(struct run *run)
{
    scoped_lock(&run->client->lock);
    retry_bucket_give(&run->client->bucket, run->paid);
}

static int explain(const struct run *run, const struct attempt *attempt, struct err *err)
{
    bool lost = attempt->uncertain && run->call->once;
    bool network = attempt->code == -ETIMEDOUT || attempt->code == -EHOSTUNREACH;
    int code = lost && network ? -EIO : attempt->code;
    char tried[32] = "";
    if (run->outcome->attempts > 1)
        snprintf(tried, sizeof tried, ", tried %u times", run->outcome->attempts);
    return err_set(err, -code, "%s%s%s: %s", run->call->operation,
                   lost ? " may have been applied" : "", tried,
                   err_text(&attempt->err, attempt->code));
}

/* Moves what the last attempt brought to where the caller wants it. */
static void hand_over(struct client *client, struct attempt *attempt, struct outcome *outcome)
{
    buf_release(&outcome->body);
    outcome->body = attempt->response.body;
    buf_init(&attempt->response.body, HTTP_BODY_MAX);
    snprintf(outcome->type, sizeof outcome->type, "%s", attempt->error.type);
    snprintf(outcome->request_id, sizeof outcome->request_id, "%s", attempt->response.request_id);
    outcome->uncertain = attempt->uncertain;
    if (answer_date(attempt->response.date, &outcome->date_s))
        outcome->date_s = 0;
    else
        atomic_store(&client->told_s, outcome->date_s - clock_now_s());
}

/* True when there is to be another. */
static bool run_once(struct run *run, int *ret_code, struct err *err)
{
    cleanup(attempt_release) struct attempt attempt;
    attempt_init(&attempt);
    run_attempt(run, &attempt);
    if (attempt.code && goes_on(run, &attempt)) {
        run->outcome->repeated |= attempt.uncertain;
        return true;
    }
    if (attempt.code == 0)
        succeed(run);
    *ret_code = attempt.code ? explain(run, &attempt, err) : 0;
    hand_over(run->client, &attempt, run->outcome);
    return false;
}

int client_call(struct client *client, const struct call *call, struct outcome *ret_outcome,
                struct err *err)
{
    struct run run = {
        .client = client,
        .call = call,
        .outcome = ret_outcome,
        .deadline_ns =
            (call->begun_ns ? call->begun_ns : clock_steady_ns()) + client_deadline_ns(client),
    };
    int code = 0;

    outcome_release(ret_outcome);
    outcome_init(ret_outcome);
    atomic_fetch_add(&client->calls, 1);
    while (run_once(&run, &code, err))
        continue;
    if (code)
        atomic_fetch_add(&client->failed, 1);
    return code;
}
