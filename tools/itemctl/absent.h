/* SPDX-License-Identifier: MIT */
/* Stores that are not there yet: looked at as empty ones, without being made. */
#ifndef ITEMCTL_ABSENT_H
#define ITEMCTL_ABSENT_H

#include "tools/itemctl/itemctl.h"

/* Before the source is opened: stores of CTL's configuration that are not there are others for now,
 * empty and of a place of their own. */
int absent_stand_in(struct ctl *ctl);
/* Whether another one stands in for the store of the backend at PLACE; READ is the configuration as
 * it was read. */
bool absent_is(const struct ctl *ctl, const struct config *read, size_t place);
/* Closes the source and takes them away; CTL's configuration names again what READ does. False:
 * there were none, and the source is still open. */
bool absent_end(struct ctl *ctl, const struct config *read);

#endif
