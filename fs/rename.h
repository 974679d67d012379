/* SPDX-License-Identifier: MIT */
/* What the forms of rename share. */
#ifndef FS_RENAME_H
#define FS_RENAME_H

#include "fs/operations.h"

struct rename {
    struct mount *mount;
    struct inode *source, *target; /* references; target NULL when there is none */
    struct inode *dir;             /* the new one */
    struct span name;              /* the new file name */
    struct span part;              /* key part, or the scratch name */
    bool item;                     /* the new place is an item's */
    unsigned flags;
    bool alias;        /* `name` is not the one listings show */
    bool source_alias; /* nor is the name that `source` had been asked for */
    pid_t pid;
    bool rewritten;
};

/* What INODE shows now, written or committed, with a reference. */
int current_content(struct mount *, struct inode *inode, struct body **ret_body,
                    int64_t *ret_mtime_ns, struct err *);
/* The action that moves a scratch object to NAME in DIR. */
void move_action_locked(const struct inode *inode, const struct inode *dir, struct span name,
                        struct action *ret_action);
/* A backend has other scratch than this mount knows (CODE is -ESTALE or -EEXIST): the kernel is to
 * look both names up once more. */
int rename_look_again(struct rename *rename, int code);
/* An item to a scratch name (backup.c). */
int rename_to_backup(struct rename *rename, struct err *);
/* RENAME_EXCHANGE (exchange.c). */
int rename_exchange(struct rename *rename, struct err *);

#endif
