/* SPDX-License-Identifier: MIT */
/* One batch, until it is done with. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "deliver/worker.h"

#define IDS_LINE_MAX 1200 /* bytes of ids in one line of the log */

/* ---- what is said ---- */

static const char *plural(size_t number)
{
    return number == 1 ? "" : "s";
}

/* COUNT records of the batch were not delivered, for good. */
static void say_given_up(const struct worker *worker, const char *what, const char *why)
{
    const struct batch *batch = &worker->batch;
    char ids[IDS_LINE_MAX + 1];

    for (size_t at = 0; at < batch->count;) {
        size_t len = 0, first = at;
        for (; at < batch->count; at++) {
            const char *id = batch_id(batch, at);
            if (at > first && len + strlen(id) + 1 > IDS_LINE_MAX)
                break;
            len += (size_t)snprintf(ids + len, sizeof ids - len, " %s", id);
            len = len < IDS_LINE_MAX ? len : IDS_LINE_MAX;
        }
        log_always(LOG_LEVEL_ERROR, "deliver", "table %s, %s: %s: %zu change%s %s:%s",
                   worker->config->name, worker->config->function.shown, why, at - first,
                   plural(at - first), what, ids);
    }
}

static void say_failed(const struct worker *worker, const char *why, int64_t wait_ns)
{
    log_warning("deliver", "table %s, %s: %s: tried again in %.1f s: %zu change%s, the first is %s",
                worker->config->name, worker->config->function.shown, why,
                (double)wait_ns / (double)NS_PER_S, worker->batch.count,
                plural(worker->batch.count), batch_id(&worker->batch, 0));
}

/* ---- a batch ---- */

/* What became too old while it waited. */
static void skip_old(struct worker *worker)
{
    struct batch *batch = &worker->batch;
    char first[IDS_LINE_MAX];
    struct err why = {""};

    snprintf(first, sizeof first, "%s", batch_id(batch, 0));
    size_t skipped = batch_drop_old(batch, clock_now_ns());
    if (skipped == 0)
        return;
    err_set(&why, 0, "%zu change%s from %s on skipped: not delivered within 24 hours", skipped,
            plural(skipped), first);
    log_error("deliver", "table %s, %s: %s", worker->config->name, worker->config->function.shown,
              why.text);
    worker_note_error(worker, why.text);
    worker_count(worker, TALLY_SKIPPED, skipped);
}

static void note_taken(struct worker *worker, unsigned failures)
{
    worker_count(worker, TALLY_DELIVERED, worker->batch.count);
    pthread_mutex_lock(&worker->lock);
    worker->now.batches++;
    pthread_mutex_unlock(&worker->lock);
    if (failures)
        log_info("deliver", "table %s, %s: taken at last, after %u failure%s", worker->config->name,
                 worker->config->function.shown, failures, plural(failures));
}

static void note_refused(struct worker *worker, const struct outcome *outcome)
{
    say_given_up(worker, "dropped", outcome->why.text);
    worker_note_error(worker, outcome->why.text);
    worker_count(worker, TALLY_DROPPED, worker->batch.count);
}

/* Waits for the next try. -EINTR, -ESTALE. */
static int after_failure(struct worker *worker, uint64_t number, struct backoff *backoff,
                         const struct outcome *outcome)
{
    int code = tenure_pause(&worker->tenure, number, 0);

    if (code) /* then it is no failure of the function's */
        return code;
    int64_t wait_ns = backoff_next(backoff, outcome->wait_ns, worker_chance());
    worker_note_error(worker, outcome->why.text);
    say_failed(worker, outcome->why.text, wait_ns);
    worker_set_state(worker, DELIVERY_WAITING, outcome->why.text);
    return tenure_pause(&worker->tenure, number, wait_ns);
}

/* The lease could not be renewed in time. -EINTR, -ESTALE: or it is lost, or all comes to an end.
 */
static int after_breaking_off(struct worker *worker, uint64_t number)
{
    static const char why[] = "the call was broken off, since the lease could not be renewed";
    int code = tenure_pause(&worker->tenure, number, 0);

    if (code)
        return code;
    log_warning("deliver", "table %s, %s: %s", worker->config->name, worker->config->function.shown,
                why);
    worker_note_error(worker, why);
    worker_set_state(worker, DELIVERY_WAITING, why);
    return 0;
}

/* The calls of one batch. */
struct attempts {
    unsigned calls, failures;
    struct backoff backoff;
};

/* One call, and what comes of it: 0 when the batch is done with, 1 when it is to be tried again. */
static int call_once(struct worker *worker, uint64_t number, struct attempts *attempts)
{
    struct outcome outcome;
    int code = 0;

    worker_set_state(worker, DELIVERY_CALLING, "");
    worker_count(worker, TALLY_RETRIED, attempts->calls++ > 0);
    caller_call(worker->caller, buf_span(&worker->batch.body), tenure_is_uncertain, &worker->tenure,
                &outcome);
    switch (outcome.verdict) {
    case VERDICT_TAKEN: note_taken(worker, attempts->failures); return 0;
    case VERDICT_REFUSED: note_refused(worker, &outcome); return 0;
    case VERDICT_BROKEN_OFF: code = after_breaking_off(worker, number); break;
    case VERDICT_FAILED:
        attempts->failures++;
        code = after_failure(worker, number, &attempts->backoff, &outcome);
        break;
    }
    return code ? code : 1;
}

int worker_deliver(struct worker *worker, uint64_t number)
{
    struct attempts attempts = {.backoff.first_ns =
                                    (int64_t)(worker->config->function_retry * (double)NS_PER_S)};
    int code = 1;

    while (code > 0) {
        skip_old(worker);
        if (worker->batch.count == 0)
            return 0;
        worker_note_oldest(worker, worker->batch.records[0].time_ns);
        code = tenure_confirm(&worker->tenure, number);
        if (code == 0)
            code = call_once(worker, number, &attempts);
    }
    return code;
}
