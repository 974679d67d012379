/* SPDX-License-Identifier: MIT */
/* An action as it goes to the service: what is written, and what that was compared with. Used by
 * write.c and update.c. */
#ifndef BACKEND_DYNAMODB_PLAN_H
#define BACKEND_DYNAMODB_PLAN_H

#include "backend/dynamodb/service.h"

/* What the service has under a key. */
struct stored {
    struct value item; /* an M, spelled as the service does: some compare numbers as text */
    uint64_t version;  /* 0: nothing is there, or what is there has expired */
};

void stored_release(struct stored *stored);
/* From an item's typed JSON. */
int stored_from_typed(const struct table *table, struct span typed, struct stored *ret_stored,
                      struct err *err);
/* Reads what is there now; where nothing is there, that is the answer. */
int stored_read(struct service *service, const struct action *action, struct stored *ret_stored,
                struct err *err);

/* An action as it goes to the service. */
struct plan {
    struct action *action;
    struct value item;  /* PUT: what is written, canonical */
    uint64_t version;   /* PUT: of that */
    struct stored base; /* what was there, where that was asked for */
    size_t size;        /* of the body that a reader will see */
    int64_t ttl;
};

void plans_release(struct plan *plans, size_t count); /* accepts NULL; frees PLANS */
/* Completes PLAN, which has its action, and checks its condition as far as that can be told here.
 * SEVERAL: it will be part of a transaction. */
int plan_action(struct service *service, struct plan *plan, bool several, struct err *err);
/* The action has been applied over an item of version OLD; 0: nothing was there. */
void plan_done(struct plan *plan, uint64_t old);
/* A condition failed although the item has the version that it names: then the service cannot
 * compare maps or lists, and is asked without from now on. What they hold is seen in the old item
 * all the same (check_old). */
bool plan_cannot_compare(struct service *service, const struct plan *plan);
/* Appends the parameters of the request, an open object, to OUT. */
void plan_request(struct service *service, struct buf *out, const struct plan *plan);
/* Units that it will consume: the larger of the item before, where that is known, and after. */
double plan_units(const struct plan *plan);

void request_item(struct buf *out, const char *name, const struct value *item);
/* Whether it has shown that it cannot compare maps and lists. */
bool service_is_flat(struct service *service);

#endif
