/* SPDX-License-Identifier: MIT */
/*
 * A process of its own that outlives a killed daemon for a moment.
 *
 * A notification about a name may wait in the kernel for a directory's lock, which a request holds
 * that waits for the daemon. When the daemon is killed just then, the waiting thread cannot die,
 * the connection stays open for its sake, the request is never answered, and the mount hangs for
 * good. The way out is to abort the connection from outside: everybody gets ENOTCONN, as when any
 * other daemon dies, and the next start clears the dead mount away.
 */
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The minor device number of the uppermost mount on PATH, which names its connection; -1 when there
 * is none. */
static int connection_of(const char *path)
{
    int found = -1;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    while (mounts && getline(&line, &size, mounts) > 0) {
        int minor;
        char point[4096];
        if (sscanf(line, "%*s %*s %*d:%d %*s %4095s", &minor, point) != 2)
            continue;
        unescape_octal(point);
        if (strcmp(point, path) == 0)
            found = minor;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return found;
}

#define CONNECTIONS "/sys/fs/fuse/connections"

/*
 * The file that aborts the connection when "1" is written to it; -1 where it cannot be had. Where
 * the control filesystem is not mounted, root mounts it in a namespace of its own for a moment.
 * (Never by umount -f of the path: another daemon may have mounted there since.)
 */
static int open_aborter(int connection)
{
    char path[64];
    snprintf(path, sizeof path, CONNECTIONS "/%d/abort", connection);
    int aborter = open(path, O_WRONLY | O_CLOEXEC);
    if (aborter >= 0 || errno != ENOENT)
        return aborter;
    int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (home < 0 || unshare(CLONE_NEWNS) < 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("fusectl", CONNECTIONS, "fusectl", 0, NULL) == 0)
        aborter = open(path, O_WRONLY | O_CLOEXEC);
    if (setns(home, CLONE_NEWNS) < 0) /* a namespace of its own would hold the mount */
        _exit(1);
    close(home);
    return aborter;
}

/* In the new process: waits for the daemon's end. */
__attribute__((noreturn)) static void reap(int connection, pid_t daemon)
{
    sigset_t all, death;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&death);
    sigaddset(&death, SIGUSR1);
    prctl(PR_SET_NAME, "itemfs-reaper");
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    close_range(0, ~0u, 0);
    (void)!chdir("/"); /* where it was started may be unmounted */
    int aborter = open_aborter(connection);
    int signal_number = 0;
    if (aborter < 0)
        _exit(1);
    if (getppid() == daemon) /* else it is dead already */
        sigwait(&death, &signal_number);
    (void)!write(aborter, "1", 1);
    _exit(0);
}

void reaper_start(struct mount *mount)
{
    pid_t daemon = getpid();
    mount->connection = connection_of(mount->mountpoint);
    mount->reaper = fork();
    if (mount->reaper == 0)
        reap(mount->connection, daemon);
}

bool mount_is_covered(struct mount *mount)
{
    int now = mount->connection >= 0 ? connection_of(mount->mountpoint) : -1;
    return now >= 0 && now != mount->connection;
}

void reaper_abort(struct mount *mount)
{
    if (mount->reaper <= 0)
        return;
    kill(mount->reaper, SIGUSR1);
    while (waitpid(mount->reaper, NULL, 0) < 0 && errno == EINTR)
        ;
    mount->reaper = 0;
}

void reaper_stop(struct mount *mount)
{
    if (mount->reaper <= 0)
        return;
    kill(mount->reaper, SIGKILL);
    while (waitpid(mount->reaper, NULL, 0) < 0 && errno == EINTR)
        ;
    mount->reaper = 0;
}
