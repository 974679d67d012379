/* SPDX-License-Identifier: MIT */
/* What the parts of the views share: view.c, view_tags.c, view_index.c. */
#ifndef FS_VIEW_PRIVATE_H
#define FS_VIEW_PRIVATE_H

#include "fs/view.h"

/* Where a path ends: tags/ and index/, index/TABLE/, tags/TABLE/ and index/TABLE/INDEX/, and so on.
 */
enum depth { DEPTH_TOP, DEPTH_TABLE, DEPTH_VALUES, DEPTH_VALUE, DEPTH_LINK };

/* What a path says, as far as it goes. */
struct view {
    struct mount *mount;
    enum depth depth;
    struct inode *dir; /* the table's, a reference */
    struct backend *backend;
    const struct table *table;
    const struct index *index; /* NULL: of tags */
    size_t index_number;
    struct buf value; /* the tag, or the canonical value */
    struct span name; /* of the link */
};

/* The type of what directories of values stand for; of a tag, S. */
enum value_type view_value_type(const struct view *view);
/* All tags of the table, but for the empty one, which no name can have; all values of the index. */
int view_each_value(const struct view *view, value_fn each, void *context, struct err *err);
/* What the directory NAME stands for, into view->value; -ENOENT for what is no such name. */
int view_find_value(struct view *view, struct span name, struct err *err);

/* Whether the link view->name is there, -ENOENT, and where it leads to: TARGET may be NULL. */
int view_find_tagged(struct view *view, struct buf *target, struct err *err);
int view_find_indexed(struct view *view, struct buf *target, struct err *err);
/* All links. */
int view_list_tagged(const struct view *view, control_fn each, void *context, struct err *err);
int view_list_indexed(const struct view *view, control_fn each, void *context, struct err *err);

#endif
