/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_DYNAMODB_UPDATE_H
#define BACKEND_DYNAMODB_UPDATE_H

#include "backend/dynamodb/plan.h"

/* Carries PLAN out and completes its action, where it is a put over an item that was read and
 * changes few enough attributes: RET_FITS. Else nothing is done. -ESTALE for a conflict. */
int update_write(struct service *service, struct plan *plan, bool *ret_fits, struct err *err);

#endif
