/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int told = -1; /* the first process reads the status here */

/* The status that CHILD tells; where it ends without, as it ends. */
__attribute__((noreturn)) static void follow(pid_t child, int from)
{
    unsigned char status;
    ssize_t got;
    int how;

    while ((got = read(from, &status, 1)) < 0 && errno == EINTR)
        ;
    if (got == 1)
        _exit(status);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(how)) {
        signal(WTERMSIG(how), SIG_DFL);
        kill(getpid(), WTERMSIG(how));
    }
    _exit(WIFEXITED(how) ? WEXITSTATUS(how) : EXIT_FAILURE);
}

void apart_begin(void)
{
    int ends[2];
    pid_t parent = getpid();

    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid_t child = fork();
    if (child > 0) {
        close(ends[1]);
        follow(child, ends[0]);
    }
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return;
    }
    told = ends[1];
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
}

void apart_end(int status)
{
    unsigned char byte = (unsigned char)status;
    int null = told >= 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

    if (told < 0)
        return;
    prctl(PR_SET_PDEATHSIG, 0);
    /* Whoever reads what was said must not wait for the end, either. */
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    (void)!write(told, &byte, 1);
}
