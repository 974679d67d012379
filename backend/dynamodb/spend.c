/* SPDX-License-Identifier: MIT */
/*
 * Requests for items, which consume capacity: held to the budgets, counted afterwards.
 *
 * All of them ask for ReturnConsumedCapacity = TOTAL, which includes indexes; INDEXES would tell
 * them apart, but there are services that refuse it. One that refuses TOTAL too is asked again
 * without, and not with it from then on.
 *
 * What an answer does not tell is not counted, but budgets hold all the same: a write stands as it
 * was estimated, a read as large as its answer. A refused condition is not told of, and has
 * consumed what the write would have.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dynamodb/consumed.h"
#include "backend/dynamodb/service.h"
#include "backend/dynamodb/units.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* A write that was tried and came to nothing. */
static bool is_refused_write(const struct outcome *outcome)
{
    return strcmp(outcome->type, "ConditionalCheckFailedException") == 0 ||
           strcmp(outcome->type, "TransactionCanceledException") == 0;
}

/* Sends BODY, an open object, closed by ASKING for the capacity or without. */
static int send_closed(struct service *service, const struct call *call, struct buf *body,
                       bool asking, struct outcome *outcome, struct err *err)
{
    struct call sent = *call;
    size_t open = body->len;

    if (asking)
        request_text(body, "ReturnConsumedCapacity", span_text("TOTAL"));
    buf_add_char(body, '}');
    if (buf_error(body))
        return err_set(err, -buf_error(body), "%s: the request is too large", call->operation);
    sent.body = buf_span(body);
    int r = client_call(service->client, &sent, outcome, err);
    buf_resize(body, open);
    return r;
}

static int send_asking(struct service *service, const struct call *call, struct buf *body,
                       struct outcome *outcome, struct err *err)
{
    enum capacity_asking asking = capacity_asking(service->capacity, call->operation);
    struct err own = {""};

    if (asking == CAPACITY_REFUSED)
        return send_closed(service, call, body, false, outcome, err);
    int r = send_closed(service, call, body, true, outcome, &own);
    if (r == -EINVAL && asking == CAPACITY_UNKNOWN && outcome->type[0]) {
        err_clear(&own);
        r = send_closed(service, call, body, false, outcome, &own);
        if (r == 0 || is_refused_write(outcome))
            capacity_set_asking(service->capacity, call->operation, CAPACITY_REFUSED);
    } else if (asking == CAPACITY_UNKNOWN && (r == 0 || is_refused_write(outcome))) {
        capacity_set_asking(service->capacity, call->operation, CAPACITY_ACCEPTED);
    }
    return r < 0 ? err_set(err, -r, "%s", err_text(&own, r)) : 0;
}

/* Whether the table has other keys than its description says: it was dropped, and made anew. The
 * words are those of DynamoDB and of the services that are like it. */
static bool is_outdated(int code, const struct outcome *outcome)
{
    static const char *const words[] = {"does not match the schema", "key schema element",
                                        "The provided starting key is"};
    struct span said = buf_span(&outcome->body);

    if (code == -ENOENT)
        return true;
    for (size_t i = 0; code == -EINVAL && i < sizeof words / sizeof words[0]; i++)
        if (said.len && memmem(said.data, said.len, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Whoever asks for them next asks the service. */
static void forget_tables(struct service *service, const struct demand *demands, size_t count)
{
    scoped_lock(&service->lock);
    for (size_t i = 0; i < count; i++)
        known_tables_remove(&service->known, span_text(demands[i].table));
    service->known.listed_ns = 0; /* what is known are not all */
}

/* What a request consumed as far as is known. */
static struct spent spent_on(const struct demand *demand, bool only, int code,
                             const struct outcome *outcome)
{
    struct spent spent = {{0}, {false}};

    if (consumed_read(buf_span(&outcome->body), demand, only, &spent))
        return spent;
    if (code == 0 && demand->kind == CAPACITY_READ)
        spent.units[CAPACITY_READ] = read_units(outcome->body.len);
    else if (code == 0 || outcome->uncertain || is_refused_write(outcome))
        spent.units[demand->kind] = demand->units;
    return spent;
}

static void settle(struct service *service, const char *operation, struct demand *demands,
                   size_t count, struct spent *spent, int code, const struct outcome *outcome)
{
    for (size_t i = 0; i < count; i++)
        spent[i] = spent_on(&demands[i], count == 1, code, outcome);
    capacity_settle(service->capacity, operation, demands, count, spent);
    for (size_t i = 0; i < count; i++)
        demands[i].units = spent[i].units[demands[i].kind];
}

/* Waits for the budgets. A write that was not sent yet may be given up. */
static int enter(struct service *service, const struct spending *spending, int64_t deadline_ns,
                 struct err *err)
{
    const atomic_bool *cancelled = spending->cancelled ? spending->cancelled : cancel_flag();

    if (cancelled && atomic_load(cancelled))
        return err_set(err, EINTR, "%s: interrupted", spending->operation);
    return capacity_enter(service->capacity, spending->operation, spending->demands,
                          spending->count, deadline_ns, cancelled, err);
}

int service_spend_for(struct service *service, const struct spending *spending,
                      struct outcome *ret_outcome, struct err *err)
{
    const char *operation = spending->operation;
    size_t count = spending->count;
    int64_t begun_ns = clock_steady_ns() + spending->own_ns;
    cleanup_free struct spent *spent = calloc(count, sizeof *spent);

    outcome_init(ret_outcome);
    if (!spent)
        return err_set(err, ENOMEM, "no memory");
    int r = enter(service, spending, begun_ns + client_deadline_ns(service->client), err);
    if (r < 0)
        return r;
    if (spending->demands[0].kind == CAPACITY_WRITE) /* with all that is looked at behind it */
        cancel_set(NULL);
    int64_t now_ns = clock_steady_ns();
    const struct call call = {.operation = operation,
                              .once = spending->once,
                              .cancelled = spending->cancelled,
                              .begun_ns = begun_ns < now_ns ? begun_ns : now_ns};
    r = send_asking(service, &call, spending->body, ret_outcome, err);
    if (is_outdated(r, ret_outcome))
        forget_tables(service, spending->demands, count);
    settle(service, operation, spending->demands, count, spent, r, ret_outcome);
    return r;
}

int service_spend(struct service *service, const char *operation, struct demand *demands,
                  size_t count, struct buf *body, const atomic_bool *cancelled,
                  struct outcome *ret_outcome, struct err *err)
{
    const struct spending spending = {.operation = operation,
                                      .demands = demands,
                                      .count = count,
                                      .body = body,
                                      .cancelled = cancelled};

    return service_spend_for(service, &spending, ret_outcome, err);
}

int service_usage(struct backend *backend, usage_fn each, void *context)
{
    return capacity_usage(service_of(backend)->capacity, each, context);
}
