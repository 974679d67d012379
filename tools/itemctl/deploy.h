/* SPDX-License-Identifier: MIT */
/* What the files of `itemctl deploy` share. */
#ifndef ITEMCTL_DEPLOY_H
#define ITEMCTL_DEPLOY_H

#include "base/stack.h"
#include "tools/itemctl/plan.h"

struct deploy {
    struct ctl *ctl;
    const char *file;      /* that declares: stack.json or mount.conf */
    char *prefix;          /* of the names that stand in it: "" or its directory with a slash */
    struct config *config; /* of the source, with its settings; `ctl` has one without them, so that
                              opening the source changes no table */
    struct stack *stack;   /* NULL: mount.conf declares */
    struct plan *plans;    /* one for each declared table */
    size_t count;
    bool dry, force;
    bool edited; /* mount.conf has been given functions */
};

/* The functions of the stack, and of mount.conf, that changes are delivered to. */
int deploy_find_functions(struct deploy *deploy, struct err *err);
int deploy_edit_functions(struct deploy *deploy, struct err *err);
/* Which functions nobody will call, on stderr. */
void deploy_tell_functions(const struct deploy *deploy);
/* What was done, or would be. */
int deploy_print(const struct deploy *deploy, struct err *err);

#endif
