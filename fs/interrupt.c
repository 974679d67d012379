/* SPDX-License-Identifier: MIT */
/*
 * Callers that are interrupted while they wait for a service. The kernel tells of each signal that
 * a program handles, also of those after which it wants to go on: the size of a terminal, a child's
 * end. No program expects EINTR from stat for these. So a request is given up only when the caller
 * is about to end, or was asked to. Uncaught deadly signals arrive as SIGKILL (signal.c of the
 * kernel, complete_signal); SIGQUIT does not.
 */
#include "fs/ops.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cancel.h"

static uint64_t bit(int number)
{
    return UINT64_C(1) << (number - 1);
}

/* The signals that wait for THREAD or its process; all where that is not told. */
static uint64_t pending_signals(pid_t thread)
{
    char path[64], line[256];
    uint64_t pending = 0;
    snprintf(path, sizeof path, "/proc/%d/status", thread);
    FILE *status = fopen(path, "re");
    if (!status)
        return UINT64_MAX;
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "SigPnd:", 7) == 0 || strncmp(line, "ShdPnd:", 7) == 0)
            pending |= strtoull(line + 7, NULL, 16);
    fclose(status);
    return pending;
}

static void on_interrupt(fuse_req_t req, void *context)
{
    uint64_t ending = bit(SIGKILL) | bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT);
    struct interrupt *interrupt = context;
    if (pending_signals(fuse_req_ctx(req)->pid) & ending)
        atomic_store(&interrupt->given_up, true);
}

void interrupt_begin(struct interrupt *interrupt, fuse_req_t req, const struct inode *inode)
{
    *interrupt = (struct interrupt){.req = NULL};
    if (inode->volume && backend_can(inode->volume->backend, BACKEND_LOG)) /* it is at hand */
        return;
    interrupt->req = req;
    cancel_set(&interrupt->given_up);
    fuse_req_interrupt_func(req, on_interrupt, interrupt);
}

void interrupt_end(struct interrupt *interrupt)
{
    if (!interrupt->req)
        return;
    fuse_req_interrupt_func(interrupt->req, NULL, NULL); /* waits for one that is running */
    cancel_set(NULL);
}
