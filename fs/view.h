/* SPDX-License-Identifier: MIT */
/*
 * Views: directories of symlinks to items, below the control directory. PATH is relative to it.
 *
 *   tags/TABLE/TAG/NAME            the items (of a sorted table: the partitions) that carry a tag
 *   index/TABLE/INDEX/VALUE/NAME   the items that an index has under a value
 *
 * They are made of the backend's answers each time that somebody looks. The directory of a tag or
 * value that no item has is there, and empty: to say more would take a walk through the table. A
 * link is looked at by itself: it is there where the item is, and has the tag or value.
 *
 * NAME is the item's own where that says all. In an index it is made of the value of the index's
 * sort key, where it has one, and the item's key (name_from_parts), so that links sort as the index
 * does.
 */
#ifndef FS_VIEW_H
#define FS_VIEW_H

#include "fs/mount.h"

#define VIEW_TAGS "tags"
#define VIEW_INDEX "index"

/* Whether PATH is one of a view. */
bool view_is(struct span path);
/* What PATH is; where that is a link, TARGET (may be NULL) gets what it leads to. -ENOENT. */
int view_stat(struct mount *, struct span path, enum control_kind *ret_kind, struct buf *target,
              struct err *err);
int view_list(struct mount *, struct span path, control_fn each, void *context, struct err *err);

#endif
