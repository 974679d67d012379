/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_DYNAMODB_UPDATE_H
#define BACKEND_DYNAMODB_UPDATE_H

#include "backend/dynamodb/plan.h"

/* Whether PLAN is a put over an item that was read, and changes few enough attributes. */
bool update_can_write(const struct plan *plan);
/* Carries it out, and completes the action; -ESTALE for a conflict. */
int update_write(struct service *service, struct plan *plan, struct err *err);

#endif
