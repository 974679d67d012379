/* SPDX-License-Identifier: MIT */
/*
 * Where an export goes. Lines come in any order; from time to time what was written is made safe,
 * and a position tells how much that is, so that a later export can go on from there. Under its
 * name an export appears only when it is whole.
 */
#ifndef ITEMCTL_SINK_H
#define ITEMCTL_SINK_H

#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/position.h"

enum sink_found {
    SINK_NEW,       /* nothing was there */
    SINK_OF_NO_USE, /* something was, and is gone */
    SINK_GOES_ON,
};

struct sink;
struct sink_ops {
    /* Appends the line of an item, given typed. */
    void (*add)(struct buf *lines, struct span typed);
    /* Takes up what an earlier export left behind, as POSITION tells of it; all is given up where
     * that is of no use, or KNOWN is false. An enum sink_found or a negative errno. NULL: none ever
     * leaves anything. */
    int (*take_up)(struct sink *, const struct position *position, bool known, struct err *);
    int (*write)(struct sink *, struct span lines, uint64_t items, struct err *);
    /* 1: what was written is safe, and POSITION tells how much it is. 0: it is not the time; with
     * NOW it always is. */
    int (*settle)(struct sink *, struct position *position, bool now, struct err *);
    /* All is written, ITEMS in all. Afterwards it stands under its name. */
    int (*finish)(struct sink *, uint64_t items, struct err *);
    void (*close)(struct sink *);
};
struct sink {
    const struct sink_ops *ops;
    char *position; /* path of the position's file; NULL: none is kept */
};

/* FILE, or what is no regular file ("-", a pipe, a device), which is written directly. */
int sink_file_open(const char *file, struct sink **ret_sink, struct err *err);
/* The layout of DynamoDB's exports to S3, in the directory FOLDER (layout.h). */
int sink_layout_open(struct ctl *ctl, const struct subject *subject, const char *folder,
                     struct sink **ret_sink, struct err *err);

#endif
