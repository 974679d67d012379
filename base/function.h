/* SPDX-License-Identifier: MIT */
/*
 * What a table's changes are delivered to, as mount.conf names it:
 *
 *   https://HOST[:PORT]/PATH            http:// only where the address tells that it is near: this
 *                                       machine, private addresses, names of one word
 *   exec:/PATH/PROGRAM ARGUMENT ...     words are separated by blanks; "..." keeps them, with \"
 * and
 *                                       \\ for " and \; '...' keeps everything. No shell: nothing
 *                                       else means anything.
 *
 * Pure: whether the host or the program is there is found out when it is called.
 */
#ifndef BASE_FUNCTION_H
#define BASE_FUNCTION_H

#include <stdbool.h>

#include "base/err.h"

#define FUNCTION_SHOWN_MAX 300

enum function_kind { FUNCTION_NONE, FUNCTION_HTTP, FUNCTION_PROGRAM };

struct function {
    enum function_kind kind;
    char *url;        /* HTTP */
    char **arguments; /* PROGRAM: its path, its arguments, NULL */
    char *shown;      /* for people: without a URL's query and a program's arguments, which may be
                         secrets; FUNCTION_SHOWN_MAX bytes at most, so that lines of the log have
                         room for what is said of it */
};

/* What *RET_FUNCTION held is not released. -EINVAL with a reason that does not quote what may be
 * secret; -ENOMEM. */
int function_parse(const char *text, struct function *ret_function, struct err *err);
/* Whether both call the same. */
bool function_equal(const struct function *a, const struct function *b);
/* Accepts a zeroed one, which is what it leaves. */
void function_release(struct function *function);

#endif
