/* SPDX-License-Identifier: MIT */
/*
 * Which disk a replica's is. What is missing on another one says nothing: a folder that is left
 * where a disk is not mounted must not be taken for the disk, and filled; nor may what a disk lacks
 * that has taken the place of the one that was known be taken for deleted. So two rows of the table
 * of replicas (outs.c) tell of each, as it was when it was last in use: "disk PATH", where it was
 * mounted, and "root PATH", which folder it was: its inode and when that was made. The kernel's
 * number of the device is not the same after each start.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/folder/private.h"

/* The last part of PATH that is the root of a mount, as its length; 0: none can be told. */
static size_t find_mount(const char *path)
{
    char at[PATH_MAX];
    struct statx stat;

    snprintf(at, sizeof at, "%s", path);
    for (size_t len = strlen(at); len > 0;) {
        if (statx(AT_FDCWD, at, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_INO, &stat) < 0 ||
            !(stat.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
            return 0;
        if (stat.stx_attributes & STATX_ATTR_MOUNT_ROOT)
            return len;
        while (len > 1 && at[len - 1] != '/')
            len--;
        if (len > 1)
            len--;
        else if (strcmp(at, "/") == 0)
            return 0;
        at[len] = '\0';
    }
    return 0;
}

/* Which folder PATH is; "": its disk does not tell. */
static void identify(const char *path, char ret_text[64])
{
    const unsigned wanted = STATX_INO | STATX_BTIME;
    struct statx stat;

    ret_text[0] = '\0';
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, wanted, &stat) == 0 &&
        (stat.stx_mask & wanted) == wanted)
        snprintf(ret_text, 64, "%" PRIu64 " %" PRId64 ".%09" PRIu32, (uint64_t)stat.stx_ino,
                 (int64_t)stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
}

static void make_key(const char *kind, const char *path, char ret_key[PATH_MAX + 8])
{
    snprintf(ret_key, PATH_MAX + 8, "%s %s", kind, path);
}

/* The row of KIND, into TEXT. 1; 0: there is none. */
static int read_row(struct folder *folder, const char *kind, const char *path, struct buf *text,
                    struct err *err)
{
    char key[PATH_MAX + 8];
    int64_t noted_ns;

    make_key(kind, path, key);
    int r = outs_get(folder, key, text, &noted_ns, err);
    return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int note(struct folder *folder, const char *kind, const char *path, const char *text,
                struct err *err)
{
    cleanup(buf_release) struct buf before;
    char key[PATH_MAX + 8];

    buf_init(&before, OUTS_ROW_MOST);
    make_key(kind, path, key);
    int r = read_row(folder, kind, path, &before, err);
    if (r < 0 || (r == 1 && strcmp(before.data, text) == 0))
        return r < 0 ? r : 0;
    return outs_put(folder, key, text, 0, err);
}

int disk_note(struct folder *folder, const char *path, struct err *err)
{
    char mount[PATH_MAX], root[64];

    snprintf(mount, sizeof mount, "%.*s", (int)find_mount(path), path);
    identify(path, root);
    int r = note(folder, "root", path, root, err);
    return r ? r : note(folder, "disk", path, mount, err);
}

int disk_forget(struct folder *folder, const char *path, struct err *err)
{
    static const char *const kinds[] = {"disk", "root"};
    char key[PATH_MAX + 8];
    int r = 0;

    for (size_t i = 0; r == 0 && i < 2; i++) {
        make_key(kinds[i], path, key);
        r = outs_put(folder, key, NULL, 0, err);
    }
    return r;
}

int disk_is_noted(struct folder *folder, const char *path, struct err *err)
{
    cleanup(buf_release) struct buf mount;

    buf_init(&mount, OUTS_ROW_MOST);
    return read_row(folder, "disk", path, &mount, err);
}

int disk_check(struct folder *folder, const char *path, enum disk_is *ret_is, struct err *err)
{
    cleanup(buf_release) struct buf mount, root;
    char found[64];

    buf_init(&mount, OUTS_ROW_MOST);
    buf_init(&root, OUTS_ROW_MOST);
    int noted = read_row(folder, "disk", path, &mount, err);
    int r = noted < 0 ? noted : read_row(folder, "root", path, &root, err);
    if (r < 0)
        return r;
    if (noted && mount.data[0] && find_mount(mount.data) != strlen(mount.data))
        return err_set(err, ENOENT, "%s: its disk is not mounted on %s", path, mount.data);
    identify(path, found);
    *ret_is = !noted                                                                ? DISK_NEW
              : r == 1 && root.data[0] && found[0] && strcmp(found, root.data) != 0 ? DISK_OTHER
                                                                                    : DISK_SAME;
    return 0;
}
