/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the next request.
 *
 * Programs send requests in trains: a lookup, an open, a read. A worker that sleeps between them
 * has to be woken each time, which on virtual machines costs more than the request (an interrupt to
 * a processor that the host has put to sleep: 20 microseconds and more). So a worker that has just
 * served a request looks for the next one for a moment before it sleeps. One worker at a time does,
 * and none on a machine with one processor.
 */
#include "fs/session.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#define SPIN_NS (50 * 1000) /* a bit over what being woken costs */

static atomic_bool spinning;

static void spin(int fd)
{
    if (atomic_exchange(&spinning, true))
        return;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t end = clock_steady_ns() + SPIN_NS;
    while (poll(&ready, 1, 0) == 0 && clock_steady_ns() < end)
        ;
    atomic_store(&spinning, false);
}

static ssize_t wait_read(int fd, void *buf, size_t size, void *userdata)
{
    (void)userdata;
    spin(fd);
    return read(fd, buf, size);
}

static ssize_t wait_writev(int fd, struct iovec *parts, int count, void *userdata)
{
    (void)userdata;
    return writev(fd, parts, count);
}

int session_spin(struct fuse_session *session)
{
    static const struct fuse_custom_io io = {.read = wait_read, .writev = wait_writev};
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return 0;
    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
