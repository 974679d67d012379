/* SPDX-License-Identifier: MIT */
/*
 * Updates of items through a mount (base/update.h): an extended attribute that is set and never
 * there.
 *
 *     setfattr -n user.itemfs.add.hits -v 1 page.json
 *     setfattr -n user.itemfs.append.log -v '"started"' job.json
 *     setfattr -n user.itemfs.append_unique.members -v 7 group.json
 *
 * The item's body is changed where it is stored, so a new inode shows it, as after a change made
 * elsewhere; whoever has the old one open goes on reading what that had.
 */
#include "fs/operations.h"

#include <errno.h>

static const struct {
    const char *prefix;
    enum update_kind kind;
} forms[] = {
    {"add.", UPDATE_ADD},
    {"append.", UPDATE_APPEND},
    {"append_unique.", UPDATE_APPEND_UNIQUE},
};

bool update_from_xattr(struct span name, struct span value, struct update *ret_update)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t len = strlen(forms[i].prefix);
        if (name.len <= len || memcmp(name.data, forms[i].prefix, len) != 0)
            continue;
        *ret_update = (struct update){forms[i].kind, span_from(name, len), value};
        return true;
    }
    return false;
}

/* Whether INODE's name can be updated now; COPY its key, to be released also on failure. One that
 * was outdated under the caller's path is no matter: the update is of what the item has become. */
static int begin(struct mount *mount, struct inode *inode, struct key_copy *copy, struct err *err)
{
    scoped_lock(&mount->cache->lock);
    int code = key_copy_locked(inode, copy);
    if (code < 0)
        return code;
    if (inode->state == INODE_REMOVED)
        return err_set(err, ENOENT, "was removed");
    if (inode->edit && (inode->edit->dirty || inode->edit->fresh || inode->edit->saving))
        return err_set(err, EBUSY, "is being written: what is written would be lost");
    return 0;
}

int fs_update(struct mount *mount, struct inode *inode, const struct update *update,
              struct err *err)
{
    struct key_copy copy;
    struct item_meta meta;
    cleanup(buf_release) struct buf number;
    buf_init(&number, 512);
    int code = begin(mount, inode, &copy, err);
    if (code == 0)
        code = backend_update(inode->volume->backend, volume_table(inode->volume), copy.key, update,
                              &meta, &number, err);
    key_copy_release(&copy);
    scoped_lock(&mount->cache->lock);
    if (code == 0 && inode->state == INODE_ATTACHED)
        outdate_locked(mount, inode);
    return code;
}
