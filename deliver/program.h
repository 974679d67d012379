/* SPDX-License-Identifier: MIT */
/* A program that is given a text and is judged by how it ends. */
#ifndef DELIVER_PROGRAM_H
#define DELIVER_PROGRAM_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/err.h"
#include "base/span.h"

#define PROGRAM_LINE_MAX 1024 /* bytes of a line that are given; the rest of it is left out */
#define PROGRAM_LINES_MAX 100 /* of one run that are given */
#define PROGRAM_TERM_MS 2000  /* between being asked to end and being killed */
#define PROGRAM_KILL_MS 1000  /* then it hangs in the kernel, and is left to it */

typedef void (*line_fn)(void *context, const char *line);

struct program {
    char *const *arguments;   /* its whole path first, NULL at the end */
    char *const *environment; /* all of it */
    struct span input;        /* on its standard input */
    int64_t timeout_ns;
    cancelled_fn cancelled; /* may be NULL; asked at least every 200 ms */
    const void *cancelled_context;
    line_fn line; /* of its standard error, as it comes; may hold any bytes but NUL */
    void *context;
};

/*
 * Runs it to its end: 0 when it ended with status 0, whether it has read its input or not. -ECHILD:
 * it ended otherwise; -ETIMEDOUT, -EINTR (cancelled); others where it could not be started.
 *
 * It is the leader of a session of its own, in /, with signals as they are by default, and has no
 * descriptors but its standard ones; standard output leads nowhere. Whatever is left of its process
 * group when it ends is killed. When its time is up the group is asked to end (SIGTERM), and killed
 * PROGRAM_TERM_MS later. The calling thread must block SIGPIPE; what the program makes has the
 * caller's umask.
 */
int program_run(const struct program *program, struct err *err);

#endif
