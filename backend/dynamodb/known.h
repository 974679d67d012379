/* SPDX-License-Identifier: MIT */
/* Descriptions of tables, by name, each with the time when it was read; also of those that may not
 * be described. Not locked here. */
#ifndef BACKEND_DYNAMODB_KNOWN_H
#define BACKEND_DYNAMODB_KNOWN_H

#include "base/buf.h"
#include "base/table.h"

struct known_table {
    struct table *table; /* on the heap, as what follows */
    char *denied;        /* why it may not be described: then TABLE has a name and nothing else */
    char *stream_arn, *stream_label; /* of the stream that was switched on last; both or none */
    uint64_t bytes;  /* of its items, as last counted some hours ago; 0: not known */
    uint64_t items;  /* likewise */
    int64_t read_ns; /* steady clock */
    bool ttl_denied; /* the service does not say whether items expire */
};
void known_table_release(struct known_table *);

struct known_tables {
    struct known_table *tables; /* by name */
    size_t count;
    int64_t listed_ns; /* steady clock: when all names were last read; 0: not yet */
};

/* NULL: not known. Valid until the next change. */
const struct known_table *known_tables_find(const struct known_tables *, struct span name);
/* Puts TABLE, which is taken over also on -ENOMEM, in the place of an earlier one of its name. */
int known_tables_put(struct known_tables *, struct known_table *table);
void known_tables_remove(struct known_tables *, struct span name);
/* Forgets all that are not among NAMES, each with a NUL behind it. */
void known_tables_keep(struct known_tables *, const struct buf *names);
void known_tables_release(struct known_tables *);

#endif
