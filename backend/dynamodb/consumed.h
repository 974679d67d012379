/* SPDX-License-Identifier: MIT */
/*
 * ConsumedCapacity of an answer: one entry, or for requests to several tables an array of them.
 * {"TableName": .., "CapacityUnits": 1.5}; a transaction says WriteCapacityUnits too, or, where it
 * was only recognised as one that has been applied before, ReadCapacityUnits. Pure.
 */
#ifndef BACKEND_DYNAMODB_CONSUMED_H
#define BACKEND_DYNAMODB_CONSUMED_H

#include "backend/dynamodb/capacity.h"
#include "base/span.h"

#define CONSUMED_MOST 1e9 /* units: what says more is no answer */

/*
 * What ANSWER (also an error's body) tells of DEMAND's table: its members of SPENT that are told
 * are set, sums of all entries. ONLY: the request is about no other table, so that an entry without
 * a name counts. What is no number from 0 to CONSUMED_MOST counts as not told. False: nothing is.
 */
bool consumed_read(struct span answer, const struct demand *demand, bool only,
                   struct spent *ret_spent);

#endif
