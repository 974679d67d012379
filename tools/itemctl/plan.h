/* SPDX-License-Identifier: MIT */
/*
 * What a deploy will do: each declared table compared with the one that is there.
 *
 * - One that is not there is made.
 * - A stream that is declared and off is switched on: nothing is lost by it. One that is on and not
 *   declared is left on, and told of; with force it is switched off.
 * - The time to live is changed where no item would expire at once, the style of keys where there
 *   are no items; both where mount.conf says so, which holds whenever the source is opened. Else
 * they need force. The time to live of a service that has none, or does not let it be asked for, is
 *   left, and told.
 * - Indexes that are new are made; for one that is another, or not declared, force drops the one
 *   that is there. Items stay as they are.
 * - For other keys, which no table can be given, force drops it with its items and makes it anew.
 */
#ifndef ITEMCTL_PLAN_H
#define ITEMCTL_PLAN_H

#include "base/stack.h"
#include "tools/itemctl/seeds.h"

enum plan_action { PLAN_NONE, PLAN_MAKE, PLAN_CHANGE, PLAN_REPLACE };

/* What becomes of a difference. */
enum plan_remedy { REMEDY_CHANGE, REMEDY_INDEX, REMEDY_REPLACE, REMEDY_LEAVE, REMEDY_REFUSE };

struct plan_difference {
    char *what; /* "key", "index by-user" */
    char *declared, *there;
    enum plan_remedy remedy;
};

struct plan_function {
    const char *name;            /* in the stack; NULL: mount.conf names none by a name */
    const char *url;             /* that the stack has for it; NULL */
    const struct function *call; /* what is called from the next mount on; NULL: nothing */
    bool edit;                   /* mount.conf is to say so */
};

struct plan {
    struct subject subject; /* where it is, and as it is to be */
    bool by_profile; /* its profile says what it is like, and takes what fits it: that is left */
    bool settled;    /* mount.conf declares it; what it does not say of these is left as it is: */
    bool says_ttl, says_keys, says_stream;
    struct table *now; /* NULL: it is not there */
    bool has_items;    /* likewise */
    enum plan_action action;
    struct plan_difference *differences;
    size_t difference_count;
    struct plan_function function;
    struct seeds seeds;
};

void plan_init(struct plan *plan);
void plan_release(struct plan *plan);
/* Compares; `subject`, `settled` and `says_*` are set, the rest is found. */
int plan_make(struct plan *plan, struct source *source, bool force, struct err *err);
int plan_add_difference(struct plan *plan, const char *what, const char *declared,
                        const char *there, enum plan_remedy remedy);
/* The first difference that is in the way of all, or NULL. */
const struct plan_difference *plan_refused(const struct plan *plan);
/* Does it. What was done before a failure stays, and is found done the next time. */
int plan_apply(struct plan *plan, struct source *source, struct err *err);

#endif
