/* SPDX-License-Identifier: MIT */
/*
 * Items and bodies. A body is the bytes of an item's file in plain form; an item is its attributes
 * as a typed map, key attributes included.
 *
 *   body                        item (table with key "id", name "a")
 *   {"id": "a", "n": 5}         {"id":{"S":"a"},"n":{"N":"5"}}     the key may stand in the body
 *   {"n": 5}                    {"id":{"S":"a"},"n":{"N":"5"}}     or only in the name
 *   5                           {"id":{"S":"a"},"$value":{"N":"5"}}  no object: one attribute
 *   (no bytes)                  {"id":{"S":"a"}}                   a new empty file
 *
 * Local backends keep the bytes of a body exactly. They are rewritten only where a name or a time
 * to live says otherwise, and then by the smallest edit of the text: item_fit_key, item_set_ttl.
 */
#ifndef BASE_ITEM_H
#define BASE_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/key.h"
#include "base/table.h"
#include "base/value.h"

#define ITEM_VALUE "$value"
#define ITEM_SIZE_DEFAULT (16u << 20) /* bytes of a body; configurable: max_item_size */

/* What one pass over a body tells; produced by item_examine. */
struct item_facts {
    bool is_object;
    bool is_empty;    /* no bytes at all */
    bool key_differs; /* names another key than KEY: item_fit_key will rewrite it */
    bool has_ttl;     /* the TTL attribute stands in the body, of whatever type */
    int64_t ttl;      /* epoch seconds, 0: never expires (absent, not N, not an integer, <= 0) */
};

/*
 * Checks BODY as the body of the item KEY: JSON rules (json.h) and the "$" forms (value.h; only
 * their grammar), a top-level member named as a key attribute must be a scalar that can name a key
 * (string or number, for B {"$B": ..}), index attributes must have the index's type. Saves as
 * -EINVAL with line and column, or with the member's name. `ret_incomplete` (may be NULL): the text
 * ended early. Fast: one pass, no tree. An empty body is fine.
 */
int item_examine(const struct table *table, struct key key, struct span body,
                 struct item_facts *ret_facts, bool *ret_incomplete, struct err *err);

/* Appends BODY with its key members replaced by KEY's values, all other bytes as they were. */
int item_fit_key(const struct table *table, struct key key, struct span body, struct buf *out,
                 struct err *err);

/* Appends the parts of the key that BODY, which has passed item_examine, names by its own members;
 * KEY's where it has none. */
int item_named_key(const struct table *table, struct key key, struct span body,
                   struct buf *partition, struct buf *sort, struct err *err);

/*
 * Appends BODY with the TTL attribute set to SECONDS (0: removed), all other bytes as they were: an
 * existing member's value is replaced; a new member goes to the end in the style of the member
 * before it (same line, or a line of its own with the same indent). An empty body becomes an
 * object. -EINVAL where the body is no object (the backend then keeps the TTL beside it), or the
 * table has no TTL attribute.
 */
int item_set_ttl(const struct table *table, struct span body, int64_t seconds, struct buf *out,
                 struct err *err);

/* The item of a body: an M with key attributes, and the TTL where TTL (beside the body) is not 0.
 * The body must have passed item_examine. */
int item_from_body(const struct table *table, struct key key, struct span body, int64_t ttl,
                   struct value *ret_item, struct err *err);

/* The body of an item: canonical plain form, 2-space indent, key attributes first where the table
 * shows keys (else left out), the rest sorted, final newline. An item with only "$value" beside
 * its key (and TTL) gives that value bare, on one line; ret_ttl is the TTL to keep beside it. */
int item_to_body(const struct table *table, const struct value *item, struct buf *out,
                 int64_t *ret_ttl, struct err *err);

/* What a backend that stores attributes, not bytes, will give back for BODY: appended to OUT. */
int item_render(const struct table *table, struct key key, struct span body, int64_t ttl,
                struct buf *out, struct err *err);

/* Appends the typed item on one line (key attributes included): streams, itemctl, export. */
int item_to_typed(const struct table *table, struct key key, struct span body, int64_t ttl,
                  struct buf *out, struct err *err);

/* Reads a typed item; its key attributes must be there with the right types. Canonical key parts
 * are appended to PARTITION and SORT. */
int item_from_typed(const struct table *table, struct span typed, struct value *ret_item,
                    struct buf *partition, struct buf *sort, struct err *err);

/* The TTL that BODY does not carry itself, where TTL is the item's: only bodies that are no objects
 * have one beside. */
int64_t item_ttl_beside(struct span body, int64_t ttl);
/* When a typed item expires: epoch seconds, 0: never. */
int64_t item_ttl(const struct table *table, const struct value *item);
/* Whether what ITEM, in canonical form, has for keys of indexes can be that; -EINVAL. */
int item_check_indexes(const struct table *table, const struct value *item, struct err *err);

/* A file of a table with format = typed: rendering, and back into a plain canonical body. */
int item_body_to_typed_file(const struct table *table, struct key key, struct span body,
                            int64_t ttl, struct buf *out, struct err *err);
int item_body_from_typed_file(const struct table *table, struct key key, struct span file,
                              struct buf *body, int64_t *ret_ttl, struct err *err);

/*
 * Calls EACH for the key values of every index that BODY's item belongs to: INDEX of the table,
 * canonical parts. A body without an index's attributes is not in that index. The TTL attribute
 * and the key attributes (from KEY) may be index attributes too.
 */
typedef int (*item_index_fn)(void *context, size_t index, struct span partition, struct span sort);
int item_index_keys(const struct table *table, struct key key, struct span body, int64_t ttl,
                    item_index_fn each, void *context, struct err *err);

/* What expired longer ago than this never does, where others make items that were not meant to: a
 * number of seconds, an old date. The rule of DynamoDB. */
#define ITEM_LONG_GONE_S (5LL * 366 * 86400)

static inline bool item_expired(int64_t ttl, int64_t now_seconds)
{
    return ttl > 0 && ttl <= now_seconds;
}

/* The second up to which, with itself, a time to live of TABLE has passed when it is NOW. */
static inline int64_t table_passed_s(const struct table *table, int64_t now_seconds)
{
    return now_seconds - (table->ttl_whole ? 1 : 0);
}

static inline bool item_gone(const struct table *table, int64_t ttl, int64_t now_seconds)
{
    return item_expired(ttl, table_passed_s(table, now_seconds));
}

#endif
