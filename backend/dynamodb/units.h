/* SPDX-License-Identifier: MIT */
/*
 * Capacity units as the service counts them: its developer guide, "DynamoDB item sizes and formats"
 * and "DynamoDB read and write operations". A write counts the larger of the item before and after,
 * in a transaction twice; a query or scan counts what it went over, rounded up once a page. Pure.
 */
#ifndef BACKEND_DYNAMODB_UNITS_H
#define BACKEND_DYNAMODB_UNITS_H

#include <stdint.h>

#define READ_UNIT_BYTES 4096 /* of a consistent read; others consume half a unit */
#define WRITE_UNIT_BYTES 1024
#define PAGE_UNITS 256.0 /* of the megabyte that the service goes over in one request, at most */

static inline double units_of(uint64_t bytes, unsigned unit_bytes)
{
    uint64_t units = (bytes + unit_bytes - 1) / unit_bytes;

    return units > 1 ? (double)units : 1;
}

static inline double read_units(uint64_t bytes)
{
    return units_of(bytes, READ_UNIT_BYTES);
}

static inline double write_units(uint64_t bytes)
{
    return units_of(bytes, WRITE_UNIT_BYTES);
}

#endif
