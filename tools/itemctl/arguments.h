/* SPDX-License-Identifier: MIT */
/* A command line, taken apart: global options before or behind the command, its own options, and
 * the rest. Pure. */
#ifndef ITEMCTL_ARGUMENTS_H
#define ITEMCTL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "tools/itemctl/itemctl.h"

struct given_option {
    const char *name;
    const char *values[2];
};

struct arguments {
    const struct command *command; /* NULL: none was named */
    const char *source;            /* NULL: not given */
    bool json, help, version;
    bool inspects; /* Kernstack's form: types are called as there */
    struct given_option *options;
    size_t option_count;
    const char **rest;
    int rest_count;
};

/* Takes ARGV[1..] apart with COMMANDS (ended by NULL). -EINVAL with a sentence; `command` is set as
 * soon as it is known, also then. The strings are those of ARGV. */
int arguments_parse(int argc, char **argv, const struct command *const *commands,
                    struct arguments *ret_arguments, struct err *err);
void arguments_release(struct arguments *arguments);

/* The option NAME, the FROM-th that was given (0: the first), or NULL. */
const struct given_option *arguments_option(const struct arguments *arguments, const char *name,
                                            size_t from);
/* Its value, or NULL. */
const char *arguments_value(const struct arguments *arguments, const char *name);

#endif
