/* SPDX-License-Identifier: MIT */
/*
 * The child is watched through a descriptor of its process, so that its end is seen at once. It is
 * waited for only after its group was killed: until then its number is its own, and cannot have
 * become that of somebody else's group.
 */
#include "deliver/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define TICK_MS 100
#define NS_PER_MS INT64_C(1000000)
#define CHUNKS_MAX 32 /* read in one go: more than a pipe holds, and not for ever */

enum { INPUT, COMPLAINT, PROCESS, ENDS };

struct run {
    const struct program *program;
    pid_t pid;
    struct pollfd ends[ENDS]; /* -1: closed */
    size_t written;
    char line[PROGRAM_LINE_MAX + 1];
    size_t line_len;
    unsigned lines;
};

static void close_end(struct run *run, int which)
{
    if (run->ends[which].fd >= 0)
        close(run->ends[which].fd);
    run->ends[which].fd = -1;
}

/* ---- beginning ---- */

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, int input,
                   int complaint)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int r = posix_spawn_file_actions_adddup2(actions, input, STDIN_FILENO);
    r = r ? r : posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(actions, complaint, STDERR_FILENO);
    r = r ? r : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    r = r ? r : posix_spawn_file_actions_addchdir_np(actions, "/");
    r = r ? r : posix_spawnattr_setsigmask(attributes, &none);
    r = r ? r : posix_spawnattr_setsigdefault(attributes, &all);
    r = r ? r
          : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
    return r;
}

static int spawn(struct run *run, int input, int complaint)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int r = posix_spawn_file_actions_init(&actions);
    if (r)
        return -r;
    r = posix_spawnattr_init(&attributes);
    if (r == 0) {
        r = prepare(&actions, &attributes, input, complaint);
        r = r ? r
              : posix_spawn(&run->pid, run->program->arguments[0], &actions, &attributes,
                            run->program->arguments, run->program->environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Only our ends do not block. */
static void take_ends(struct run *run, int input, int complaint)
{
    fcntl(input, F_SETFL, O_NONBLOCK);
    fcntl(complaint, F_SETFL, O_NONBLOCK);
    run->ends[INPUT] = (struct pollfd){.fd = input, .events = POLLOUT};
    run->ends[COMPLAINT] = (struct pollfd){.fd = complaint, .events = POLLIN};
}

static int begin(struct run *run)
{
    int input[2], complaint[2];
    if (pipe2(input, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(complaint, O_CLOEXEC) < 0) {
        int r = -errno;
        close(input[0]);
        close(input[1]);
        return r;
    }
    take_ends(run, input[1], complaint[0]);
    int r = spawn(run, input[0], complaint[1]);
    close(input[0]);
    close(complaint[1]);
    if (r < 0)
        return r;
    int process = (int)syscall(SYS_pidfd_open, run->pid, 0);
    if (process < 0) {
        r = -errno;
        kill(-run->pid, SIGKILL);
        waitpid(run->pid, NULL, 0);
        return r;
    }
    run->ends[PROCESS] = (struct pollfd){.fd = process, .events = POLLIN};
    return 0;
}

/* ---- its input and its complaints ---- */

/* A program that does not read it, or not all, may do so. */
static void write_input(struct run *run)
{
    struct span rest = span_from(run->program->input, run->written);
    ssize_t put = rest.len ? write(run->ends[INPUT].fd, rest.data, rest.len) : 0;
    if (put > 0)
        run->written += (size_t)put;
    if (run->written == run->program->input.len || (put < 0 && errno != EAGAIN && errno != EINTR))
        close_end(run, INPUT);
}

static void end_line(struct run *run)
{
    run->line[run->line_len] = '\0';
    if (run->line_len && run->lines++ < PROGRAM_LINES_MAX)
        run->program->line(run->program->context, run->line);
    run->line_len = 0;
}

static void take_complaint(struct run *run, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] == '\n')
            end_line(run);
        else if (run->line_len < PROGRAM_LINE_MAX && data[i])
            run->line[run->line_len++] = data[i];
}

static void read_complaints(struct run *run)
{
    char chunk[4096];
    ssize_t got = 1;
    for (int i = 0; i < CHUNKS_MAX && got > 0; i++) {
        got = read(run->ends[COMPLAINT].fd, chunk, sizeof chunk);
        if (got > 0)
            take_complaint(run, chunk, (size_t)got);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        close_end(run, COMPLAINT);
}

static int tick(int64_t until_ns)
{
    int64_t left_ms = (until_ns - clock_steady_ns()) / NS_PER_MS + 1;
    return left_ms < 0 ? 0 : left_ms < TICK_MS ? (int)left_ms : TICK_MS;
}

/* True once the program has ended; it is not waited for yet. */
static bool look(struct run *run, int64_t until_ns)
{
    int ready = poll(run->ends, ENDS, tick(until_ns));
    if (ready <= 0)
        return false;
    if (run->ends[INPUT].fd >= 0 && run->ends[INPUT].revents)
        write_input(run);
    if (run->ends[COMPLAINT].fd >= 0 && run->ends[COMPLAINT].revents)
        read_complaints(run);
    return run->ends[PROCESS].revents != 0;
}

/* ---- ending ---- */

static bool run_is_cancelled(const struct run *run)
{
    return run->program->cancelled && run->program->cancelled(run->program->cancelled_context);
}

/* Until it has ended: 0; else -ETIMEDOUT, or -EINTR. */
static int wait_for_end(struct run *run, int64_t time_ns, bool heeds_call)
{
    int64_t until_ns = clock_steady_ns() + time_ns;
    while (!look(run, until_ns)) {
        if (heeds_call && run_is_cancelled(run))
            return -EINTR;
        if (clock_steady_ns() >= until_ns)
            return -ETIMEDOUT;
    }
    return 0;
}

/* Asks the group to end, and then makes it. False: the kernel does not let it go. */
static bool force(struct run *run)
{
    kill(-run->pid, SIGTERM);
    if (wait_for_end(run, PROGRAM_TERM_MS * NS_PER_MS, false) == 0)
        return true;
    kill(-run->pid, SIGKILL);
    return wait_for_end(run, PROGRAM_KILL_MS * NS_PER_MS, false) == 0;
}

static int explain_status(int status, struct err *err)
{
    if (WIFSIGNALED(status))
        return err_set(err, ECHILD, "the program was ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status))
        return err_set(err, ECHILD, "the program ended with status %d", WEXITSTATUS(status));
    return 0;
}

/* It has ended: what is left of it goes, and what it has said is heard. */
static int finish(struct run *run, int code, struct err *err)
{
    int status = 0;
    kill(-run->pid, SIGKILL);
    if (run->ends[COMPLAINT].fd >= 0)
        read_complaints(run);
    end_line(run);
    while (waitpid(run->pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_set(err, errno, "how the program ended is not known: %s", strerror(errno));
    return code ? code : explain_status(status, err);
}

static int run_to_end(struct run *run, struct err *err)
{
    int code = begin(run);
    if (code < 0)
        return err_set(err, -code, "%s cannot be started: %s", run->program->arguments[0],
                       strerror(-code));
    code = wait_for_end(run, run->program->timeout_ns, true);
    if (code == -ETIMEDOUT)
        err_set(err, ETIMEDOUT, "the program did not end within %.15g s",
                (double)run->program->timeout_ns / (double)NS_PER_S);
    if (code == -EINTR)
        err_set(err, EINTR, "the program was broken off");
    if (code < 0 && !force(run))
        return code;
    return finish(run, code, err);
}

int program_run(const struct program *program, struct err *err)
{
    struct run run = {.program = program, .ends = {{.fd = -1}, {.fd = -1}, {.fd = -1}}};
    int code = run_to_end(&run, err);
    for (int i = 0; i < ENDS; i++)
        close_end(&run, i);
    return code;
}
