/* SPDX-License-Identifier: MIT */
/* Amazon DynamoDB and what speaks its protocol, as a backend. It keeps items only: scratch files,
 * drafts and times of items are kept beside it (backend/beside.h). */
#ifndef BACKEND_DYNAMODB_DYNAMODB_H
#define BACKEND_DYNAMODB_DYNAMODB_H

#include "backend/backend.h"
#include "backend/dynamodb/capacity.h"

#define DYNAMODB_SEGMENTS 4
#define DYNAMODB_STREAM_POLL_MS 1000

struct dynamodb_options {
    const char *region;   /* NULL: of the environment or the profile */
    const char *endpoint; /* URL; NULL: the region's own */
    const char *profile;  /* NULL: AWS_PROFILE, else "default" */
    const char *ca_file;  /* NULL: the system's certificates */
    const char *tables;   /* those shown, separated by commas; NULL: all */
    bool read_only;
    unsigned segments;       /* that a table is read in at once, at most; 0: DYNAMODB_SEGMENTS */
    unsigned stream_poll_ms; /* between looks at a stream; 0: DYNAMODB_STREAM_POLL_MS */
    uint64_t max_item_size;  /* bytes of a body; the service has a limit of its own, 400 KB */
    const struct capacity_budget *budgets; /* of tables and of all together, each once */
    size_t budget_count;
};

/* Finds credentials and asks for the tables once. Errors as client_call; all but the table's name
 * may be left out. */
int dynamodb_open(const struct dynamodb_options *options, struct backend **ret_backend,
                  struct err *err);

/* Where the backend's requests go, whoever said so: the configuration, the environment, a profile.
 */
const char *dynamodb_endpoint(struct backend *backend);
const char *dynamodb_region(struct backend *backend);

#endif
