/* SPDX-License-Identifier: MIT */
/* The subcommands of maintain that are about replicas. */
#ifndef ITEMCTL_REPLICAS_H
#define ITEMCTL_REPLICAS_H

#include "tools/itemctl/itemctl.h"

/* Does the one that the arguments name, and returns as a command does; the source is not open yet.
 * RET_IS_ONE false: they name none of them. */
int replicas_maintain(struct ctl *ctl, bool *ret_is_one);

#endif
