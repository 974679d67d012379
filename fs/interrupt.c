/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait for a service while nobody waits for them.
 *
 * Callers that are interrupted. The kernel tells of each signal that a program handles, also of
 * those after which it wants to go on: the size of a terminal, a child's end. No program expects
 * EINTR from stat for these. So a request is given up only when the caller is about to end, or was
 * asked to. Uncaught deadly signals arrive as SIGKILL (signal.c of the kernel, complete_signal);
 * SIGQUIT does not. A program that ends has its files closed by the kernel, under the signal that
 * ended it: what it wrote is saved all the same.
 *
 * The end of the mount. A listing may be waiting for its budget, which would keep the daemon for a
 * minute. The flags of requests that read stand in slots that are always there, so that a signal's
 * handler can set them: one too many is no harm at that time.
 */
#include "fs/ops.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "fs/session.h"

#define SLOTS 64         /* more than there are workers */
#define FLAG_EXITING 0x4 /* PF_EXITING of the kernel's sched.h, as in /proc/PID/stat */

static struct slot {
    atomic_bool taken, given_up;
} slots[SLOTS];
static atomic_bool ending;

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

static bool is_exiting(pid_t thread)
{
    char path[64], line[1024];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", thread);
    FILE *stat = fopen(path, "re");
    if (!stat)
        return false;
    /* Its name is in brackets, and may hold any. */
    const char *behind = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
    bool found = behind && sscanf(behind, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1;
    fclose(stat);
    return found && (flags & FLAG_EXITING);
}

bool interrupt_is_meant(fuse_req_t req, bool reading)
{
    uint64_t deadly = bit(SIGKILL) | bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT);
    pid_t caller = fuse_req_ctx(req)->pid;
    return (pending_signals(caller) & deadly) && (reading || !is_exiting(caller));
}

static void on_interrupt(fuse_req_t req, void *context)
{
    const struct interrupt *interrupt = context;
    if (interrupt_is_meant(req, interrupt->reading))
        atomic_store(interrupt->flag, true);
}

/* NULL: there are none left. */
static struct slot *take_slot(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        bool taken = false;
        if (!atomic_compare_exchange_strong(&slots[i].taken, &taken, true))
            continue;
        atomic_store(&slots[i].given_up, false);
        if (atomic_load(&ending))
            atomic_store(&slots[i].given_up, true);
        return &slots[i];
    }
    return NULL;
}

void interrupt_all(void)
{
    atomic_store(&ending, true); /* before the slots are gone through: take_slot looks after it */
    for (size_t i = 0; i < SLOTS; i++)
        atomic_store(&slots[i].given_up, true);
}

void interrupt_begin(struct interrupt *interrupt, fuse_req_t req, const struct inode *inode,
                     bool reading)
{
    *interrupt = (struct interrupt){.req = req, .reading = reading};
    if (inode->volume && backend_can(inode->volume->backend, BACKEND_LOG)) /* it is at hand */
        return;
    struct slot *slot = reading ? take_slot() : NULL;
    interrupt->flag = slot ? &slot->given_up : &interrupt->own;
    cancel_set(interrupt->flag);
    if (req)
        fuse_req_interrupt_func(req, on_interrupt, interrupt);
}

void interrupt_end(struct interrupt *interrupt)
{
    if (!interrupt->flag)
        return;
    if (interrupt->req) /* waits for one that is running */
        fuse_req_interrupt_func(interrupt->req, NULL, NULL);
    cancel_set(NULL);
    for (size_t i = 0; i < SLOTS; i++)
        if (interrupt->flag == &slots[i].given_up)
            atomic_store(&slots[i].taken, false);
}
