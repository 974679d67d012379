/* SPDX-License-Identifier: MIT */
/*
 * Reading a body member by member, in place: what item.c and its neighbours share. Nothing else
 * includes it. The attributes of {"$M": {..}} are those of the inner object; a body that is no
 * object has the one member "$value".
 */
#ifndef BASE_ITEM_BODY_H
#define BASE_ITEM_BODY_H

#include "base/item.h"
#include "base/json.h"

/* What an index needs of its key attributes, for messages. */
#define ITEM_INDEX_STRING "a string that is not empty"
#define ITEM_INDEX_NUMBER "a number of at most 38 digits"

enum body_kind { BODY_EMPTY, BODY_BARE, BODY_OBJECT };

struct body_reader {
    enum body_kind kind;
    bool wrapped;      /* the attributes stand in {"$M": {..}} */
    const char *open;  /* of BODY_OBJECT: the "{" of the attributes */
    const char *close; /* and its "}", once body_next gave 0 */
    bool incomplete;   /* the error was an early end of the text */

    struct span body;
    struct json_reader *json;
    struct json_token pending; /* read ahead */
    bool has_pending;
    bool done;
    struct buf name;
    struct err *err;
};

struct body_member {
    struct span name;     /* unescaped, until the next call */
    struct span raw_name; /* as in the text, without quotes; empty for a bare body */
    struct json_token first;
    struct span raw; /* the value's text */
};

/* Fills READER in any case: body_close it. An empty BODY is BODY_EMPTY. */
int body_open(struct body_reader *reader, struct span body, struct err *err);
void body_close(struct body_reader *reader);
/* 1: a member; 0: none is left, and the document ended well; else an error. */
int body_next(struct body_reader *reader, struct body_member *ret_member);

/* Appends READER's body, which is an object of which no member was read yet, with the member NAME
 * set to TEXT (data NULL: removed), by the smallest edit. */
int body_set_member(struct body_reader *reader, struct span name, struct span text,
                    struct buf *out);

/* The attribute of the key part that NAME is, or NULL. */
const struct key_attribute *item_key_attribute(const struct table *table, struct span name);
/*
 * Whether MEMBER, named as the key attribute ATTRIBUTE, names another key than PART: 1, 0. -EINVAL
 * when it is nothing that can name a key.
 */
int item_member_differs(const struct table *table, const struct key_attribute *attribute,
                        struct span part, const struct body_reader *reader,
                        const struct body_member *member);
/* The part of KEY that belongs to the key attribute ATTRIBUTE of TABLE. */
struct span item_key_part(const struct table *table, struct key key,
                          const struct key_attribute *attribute);

/* Appends the canonical bytes of an index attribute of TYPE from the text of a plain value. 1: the
 * value is none of that type that an index could hold. -ENOMEM. */
int item_index_part(enum value_type type, struct span raw, struct buf *out);

static inline bool item_is_ttl(const struct table *table, struct span name)
{
    return table->ttl_attribute && span_equal(name, span_text(table->ttl_attribute));
}

#endif
