/* SPDX-License-Identifier: MIT */
/*
 * Who has a file open, where a flush does not tell whether it is the end of a save. Each child of a
 * shell or of a program that starts others closes what it inherited, and a shell itself closes the
 * descriptor that it has just duplicated: each time that is a flush.
 */
#include "fs/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The process of thread PID: its id as `ps` shows it; 0 when it is gone. */
static pid_t process_of(pid_t pid)
{
    char path[64], line[256];
    pid_t process = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Tgid: %d", &process) == 1)
            break;
    if (status)
        fclose(status);
    return process;
}

/* Whether the descriptor that FDINFO tells of is one of the inode NUMBER. The path behind it would
 * be another one in another mount namespace. */
static bool is_open_on(int directory, const char *fdinfo, uint64_t number)
{
    int fd = openat(directory, fdinfo, O_RDONLY | O_CLOEXEC);
    FILE *info = fd >= 0 ? fdopen(fd, "re") : NULL;
    char line[256];
    unsigned long long found = 0;
    while (info && fgets(line, sizeof line, info))
        if (sscanf(line, "ino: %llu", &found) == 1)
            break;
    if (info)
        fclose(info);
    else if (fd >= 0)
        close(fd);
    return found == number;
}

/* Whether PROCESS has INODE open. True also where it is not ours to look at. */
static bool holds_open(pid_t process, const struct inode *inode)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fdinfo", (int)process);
    DIR *descriptors = opendir(path);
    if (!descriptors)
        return errno != ENOENT;
    bool held = false;
    for (const struct dirent *entry; !held && (entry = readdir(descriptors));)
        held =
            entry->d_name[0] != '.' && is_open_on(dirfd(descriptors), entry->d_name, inode->number);
    closedir(descriptors);
    return held;
}

/* The same for its children: a program may have started another one to write the file. */
static bool children_hold_open(pid_t process, const struct inode *inode)
{
    char path[64];
    int child;
    bool held = false;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *children = fopen(path, "re");
    while (children && !held && fscanf(children, "%d", &child) == 1)
        held = holds_open(child, inode);
    if (children)
        fclose(children);
    return held;
}

bool opener_goes_on(pid_t opener, const struct inode *inode, pid_t pid, bool written)
{
    if (opener == 0 || pid == 0 || (written && opener == pid))
        return false;
    opener = process_of(opener);
    if (opener == 0 || (written && opener == process_of(pid)))
        return false;
    return holds_open(opener, inode) || (!written && children_hold_open(opener, inode));
}
