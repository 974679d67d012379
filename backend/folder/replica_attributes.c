/* SPDX-License-Identifier: MIT */
/*
 * Who may do what with a file, and what programs have noted of it: a file that takes another's
 * place has its mode, owner, POSIX ACL and extended attributes. What the system keeps of a file's
 * content or by its own policy ("security.") is its own matter.
 */
#include "backend/folder/replica_disk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define ACL "system.posix_acl_access"
#define DEFAULT_ACL "system.posix_acl_default"
#define SECURITY "security."
#define ATTRIBUTES_MOST 65536 /* the kernel's own limit for a list, and for a value */
#define LIST_USUAL 512

/* What a disk does not have (owners, modes, attributes) is no failure. */
static bool is_refusal(int code)
{
    return code == EPERM || code == EINVAL || code == ENOTSUP || code == ENOSYS;
}

static int take_owner(int fd, const struct stat *made, const struct stat *owner)
{
    if (geteuid() == 0 && (made->st_uid != owner->st_uid || made->st_gid != owner->st_gid) &&
        fchown(fd, owner->st_uid, owner->st_gid) < 0 && !is_refusal(errno))
        return -errno;
    return 0;
}

static int take_mode(int fd, const struct stat *made, mode_t mode)
{
    if ((made->st_mode & 07777) != mode && fchmod(fd, mode) < 0 && !is_refusal(errno))
        return -errno;
    return 0;
}

/* --- Of the file that is replaced --- */

/* Where the file is found that is no descriptor's: "/proc/self/fd/FOLDER/NAME". */
struct old_path {
    char text[sizeof "/proc/self/fd//" + 10 + NAME_MAX];
};

static int copy_one(const struct old_path *old, const char *name, int fd, char *value)
{
    ssize_t size = lgetxattr(old->text, name, value, ATTRIBUTES_MOST);

    if (size < 0)
        return errno == ENODATA || errno == ENOENT || is_refusal(errno) ? 0 : -errno;
    if (fsetxattr(fd, name, value, (size_t)size, 0) < 0 && !is_refusal(errno))
        return -errno;
    return 0;
}

static int copy_all(const struct old_path *old, const char *names, size_t len, int fd)
{
    cleanup_free char *value = malloc(ATTRIBUTES_MOST);
    int code = value ? 0 : -ENOMEM;

    for (const char *name = names; code == 0 && name < names + len; name += strlen(name) + 1)
        if (strncmp(name, SECURITY, strlen(SECURITY)) != 0)
            code = copy_one(old, name, fd, value);
    return code;
}

static bool has_acl(const char *names, size_t len)
{
    for (const char *name = names; name < names + len; name += strlen(name) + 1)
        if (strcmp(name, ACL) == 0)
            return true;
    return false;
}

/* The folder's ACL for new files is not for one that has been there. */
static int drop_acl(int fd)
{
    char names[LIST_USUAL];
    ssize_t len = flistxattr(fd, names, sizeof names);

    if (len > 0 && has_acl(names, (size_t)len) && fremovexattr(fd, ACL) < 0 && errno != ENODATA)
        return -errno;
    return 0;
}

static int keep_listed(const struct old_path *old, const char *names, ssize_t len, int fd)
{
    if (len < 0)
        return errno == ENOENT || is_refusal(errno) ? 0 : -errno;
    int code = has_acl(names, (size_t)len) ? 0 : drop_acl(fd);
    return code == 0 && len > 0 ? copy_all(old, names, (size_t)len, fd) : code;
}

static int keep_xattrs(const struct folder *folder, const char *name, int fd)
{
    char usual[LIST_USUAL];
    struct old_path old;

    snprintf(old.text, sizeof old.text, "/proc/self/fd/%d/%s", folder->fd, name);
    ssize_t len = llistxattr(old.text, usual, sizeof usual);
    if (len >= 0 || errno != ERANGE)
        return keep_listed(&old, usual, len, fd);
    cleanup_free char *more = malloc(ATTRIBUTES_MOST);
    if (!more)
        return -ENOMEM;
    return keep_listed(&old, more, llistxattr(old.text, more, ATTRIBUTES_MOST), fd);
}

/* --- Both --- */

/* A folder that says by an ACL what its new files permit has had its way already. */
static int take_new_mode(const struct folder *folder, int fd, const struct stat *made, mode_t mode)
{
    if ((made->st_mode & 07777) == mode || fgetxattr(folder->fd, DEFAULT_ACL, NULL, 0) > 0)
        return 0;
    return take_mode(fd, made, mode);
}

int attributes_take(const struct folder *folder, const char *name, const struct stat *old,
                    const struct stat *made, mode_t mode, int fd)
{
    int code = take_owner(fd, made, old ? old : &folder->stat);

    if (code < 0)
        return code;
    if (!old)
        return take_new_mode(folder, fd, made, mode);
    code = take_mode(fd, made, mode);
    return code ? code : keep_xattrs(folder, name, fd); /* an ACL is part of the mode: it is last */
}
