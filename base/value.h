/* SPDX-License-Identifier: MIT */
/*
 * Attribute values as DynamoDB has them, as a tree in memory, and their two JSON forms:
 *
 *   plain   what item files show: string S, number N, true/false BOOL, null NULL, array L, object
 *           M; what JSON lacks is {"$B": base64}, {"$SS": [..]}, {"$NS": [..]}, {"$BS": [..]}; an
 *           object with one member of such a name is {"$M": {..}}.
 *   typed   DynamoDB's wire form: {"S": ".."}, {"N": "5"}, {"M": {..}} ...
 *
 * Anything that goes in comes out the same: numbers keep their text, strings may hold NUL and lone
 * surrogates (WTF-8), members keep their order.
 *
 * The arrays of lists and maps are grown by the functions below only: they keep room to spare that
 * no field tells of.
 */
#ifndef BASE_VALUE_H
#define BASE_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum value_type {
    VALUE_S,
    VALUE_N,
    VALUE_B,
    VALUE_BOOL,
    VALUE_NULL,
    VALUE_L,
    VALUE_M,
    VALUE_SS,
    VALUE_NS,
    VALUE_BS,
};

struct value {
    enum value_type type;
    union {
        struct { /* S (WTF-8), N (JSON number text), B (raw bytes): heap, NUL behind len */
            char *data;
            size_t len;
        } text;
        bool boolean;
        struct { /* L, and the sets (whose elements are S, N or B) */
            struct value *items;
            size_t count;
        } list;
        struct { /* M */
            struct member *members;
            size_t count;
        } map;
    };
};

struct member {
    char *name;
    size_t name_len;
    struct value value;
};

/* Frees what VALUE owns, not VALUE itself; a zeroed one is a valid empty S. */
void value_release(struct value *value);

static inline struct span value_text(const struct value *value)
{
    return span_of(value->text.data, value->text.len);
}

/* "S", "N", .. "BS"; and back (false when NAME is no type). */
const char *value_type_name(enum value_type type);
bool value_type_from_name(struct span name, enum value_type *ret_type);

/* Reads one document in plain form. -EINVAL with line and column; bad "$" forms are EINVAL too
 * ({"$B": 5}, sets with wrong elements, empty sets, duplicate set elements: numbers by value). */
int value_from_plain(struct span text, struct value *ret_value, struct err *err);
/* The same of JSON alone: every object is a map, whatever its members are called. */
int value_from_json(struct span text, struct value *ret_value, struct err *err);
/* Whether JSON can tell VALUE: there is no binary and no set in it. */
bool value_is_json(const struct value *value);
/* Reads one document in typed form: a single attribute value, {"S": ".."}. Numbers in DynamoDB's
 * looser forms are turned into JSON grammar, else kept as written. "BIN" is taken as "B", and "B"
 * with true or false as "BOOL": Kernstack's names. */
int value_from_typed(struct span text, struct value *ret_value, struct err *err);
/* Reads a typed item, {"name": {"S": ".."}, ..}, into an M. */
int value_map_from_typed(struct span text, struct value *ret_map, struct err *err);

/* Appends the plain form. INDENT 0: one line without spaces; else that many spaces a level.
 * Members of maps are sorted by name bytes when SORT; FIRST (may be NULL) lists COUNT names of the
 * outermost map that stand before the rest. No final newline. */
/* `json`: objects as they stand, without "$M", for values with no binary and no sets
 * (value_is_json). */
struct value_style {
    int indent;
    bool sort;
    bool json;
    const struct span *first;
    size_t first_count;
};
void value_to_plain(const struct value *value, struct value_style style, struct buf *out);
/* Appends the typed form on one line, members sorted; of an M as an item: the bare map. */
void value_to_typed(const struct value *value, struct buf *out);
void value_map_to_typed(const struct value *map, struct buf *out);

/* Kernstack calls two types otherwise: BOOL is B there, and B is BIN. */
enum type_names { NAMES_DYNAMODB, NAMES_KERNSTACK };
/* Appends the item TYPED, which is in DynamoDB's form, with the types called by NAMES. */
int value_map_rename(struct span typed, enum type_names names, struct buf *out, struct err *err);

/* The member NAME of an M, or NULL. */
struct value *value_member(const struct value *map, struct span name);
/* Adds or replaces a member; takes VALUE, also on failure. -ENOMEM. */
int value_member_set(struct value *map, struct span name, struct value value);
/* Removes a member; does nothing when there is none. */
void value_member_remove(struct value *map, struct span name);
/* A new S, N or B holding a copy of TEXT; an M without members. */
int value_new_text(enum value_type type, struct span text, struct value *ret_value);
struct value value_new_map(void);

/* Gives VALUE the form in which a service that stores attributes gives them back: numbers as plain
 * decimals without superfluous zeros, sets sorted. -ERANGE for a number of more than 38 digits or
 * beyond the service's range, -ENOMEM. */
int value_canonical(struct value *value, struct err *err);

/* Gives sets the order of their elements' bytes, which services do not keep; at any depth. */
void value_sort_sets(struct value *value);

/* Equal in type and content; maps and sets in any order, numbers by value. */
bool value_equal(const struct value *a, const struct value *b);

#endif
