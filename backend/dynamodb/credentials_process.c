/* SPDX-License-Identifier: MIT */
/*
 * credential_process: a command whose standard output is a JSON object with "Version": 1. It runs
 * in a shell, in a process group of its own, so that all of it can be ended when its time is up.
 * Both of its outputs are read, or it might wait for us; of standard error only the beginning is
 * kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/clock.h"

#define COMPLAINT_BYTES_MAX 1024
#define TICK_MS 20    /* how soon an end without a closed output is noticed */
#define CHUNKS_MAX 32 /* in one go: more than a pipe holds, and not for ever */

struct process_provider {
    struct provider provider; /* first */
    char *command;            /* may hold a secret: never shown */
    int time_ms;
};

/* A command under way. */
struct run {
    pid_t pid;
    struct pollfd outputs[2]; /* standard output, standard error; fd -1: at its end */
    struct buf *texts[2];
    bool cut[2]; /* there was more than the text may hold */
    bool ended;
    int status; /* as waitpid says, once it has ended */
};

/* ---- beginning ---- */

/* OUTPUTS are the ends of two pipes that become the command's. */
static int spawn_with(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                      const char *command, const int outputs[2], pid_t *ret_pid)
{
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(actions, outputs[0], 1);
    r = r ? r : posix_spawn_file_actions_adddup2(actions, outputs[1], 2);
    r = r ? r : posix_spawn_file_actions_addclosefrom_np(actions, 3);
    r = r ? r : posix_spawnattr_setpgroup(attributes, 0);
    r = r ? r : posix_spawnattr_setsigmask(attributes, &none);
    r = r ? r : posix_spawnattr_setsigdefault(attributes, &all);
    r = r ? r
          : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
    return -(r ? r : posix_spawn(ret_pid, "/bin/sh", actions, attributes, arguments, environ));
}

static int spawn(const char *command, const int outputs[2], pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int r = -posix_spawn_file_actions_init(&actions);
    if (r < 0)
        return r;
    r = -posix_spawnattr_init(&attributes);
    if (r == 0) {
        r = spawn_with(&actions, &attributes, command, outputs, ret_pid);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

static int run_begin(struct run *run, const char *command)
{
    int output[2], complaint[2];
    if (pipe2(output, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(complaint, O_CLOEXEC) < 0) {
        int r = -errno;
        close(output[0]);
        close(output[1]);
        return r;
    }
    /* Only our ends do not block. */
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    fcntl(complaint[0], F_SETFL, O_NONBLOCK);
    run->outputs[0] = (struct pollfd){.fd = output[0], .events = POLLIN};
    run->outputs[1] = (struct pollfd){.fd = complaint[0], .events = POLLIN};
    int r = spawn(command, (const int[]){output[1], complaint[1]}, &run->pid);
    close(output[1]);
    close(complaint[1]);
    return r;
}

/* ---- reading ---- */

static void close_output(struct pollfd *output)
{
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
}

/* Takes over as much of the LEN bytes at DATA as TEXT may hold; whether that is all. */
static bool keep(struct buf *text, const char *data, size_t len)
{
    size_t room = text->max - text->len;
    buf_add(text, data, len < room ? len : room);
    return len <= room;
}

static void read_output(struct run *run, int which)
{
    struct pollfd *output = &run->outputs[which];
    char chunk[4096];
    ssize_t got = 1;
    for (int i = 0; i < CHUNKS_MAX && got > 0; i++) {
        got = read(output->fd, chunk, sizeof chunk);
        if (got > 0 && !keep(run->texts[which], chunk, (size_t)got))
            run->cut[which] = true;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        close_output(output);
    explicit_bzero(chunk, sizeof chunk);
}

static void read_outputs(struct run *run)
{
    for (int i = 0; i < 2; i++)
        if (run->outputs[i].fd >= 0)
            read_output(run, i);
}

/* Where somebody else has waited for our children, what it wrote decides. */
static void look_for_end(struct run *run)
{
    pid_t ended = waitpid(run->pid, &run->status, WNOHANG);
    if (ended < 0)
        run->status = 0;
    run->ended = ended != 0;
}

/* Until the command itself has ended: what it leaves in the background may keep its outputs. One
 * that takes too long, or writes too much, is ended. */
static int run_to_end(struct run *run, int time_ms)
{
    int64_t until_ns = clock_steady_ns() + time_ms * INT64_C(1000000);
    while (!run->ended && !run->cut[0] && clock_steady_ns() < until_ns) {
        poll(run->outputs, 2, TICK_MS);
        look_for_end(run);
        read_outputs(run);
    }
    if (!run->ended) {
        kill(-run->pid, SIGKILL);
        waitpid(run->pid, &run->status, 0);
    }
    return run->cut[0] ? -EFBIG : run->ended ? 0 : -ETIMEDOUT;
}

/* ---- what came of it ---- */

static struct span first_line(const struct buf *text)
{
    const char *end = text->len ? memchr(text->data, '\n', text->len) : NULL;
    return span_of(text->data, end ? (size_t)(end - text->data) : text->len);
}

static int check_status(const struct run *run, struct err *err)
{
    struct span line = first_line(run->texts[1]);
    if (WIFSIGNALED(run->status))
        return err_set(err, EACCES, "the process was ended by signal %d", WTERMSIG(run->status));
    if (WEXITSTATUS(run->status) == 0)
        return 0;
    return err_set(err, EACCES, "the process ended with status %d%s%.*s", WEXITSTATUS(run->status),
                   line.len ? ": " : "", (int)line.len, line.len ? line.data : "");
}

static int read_answer(struct span answer, struct credentials *ret_credentials, struct err *err)
{
    struct credentials found = {0};
    struct span version;
    int r = credentials_from_json(answer, &names_process, &found, err);
    if (r < 0)
        return r;
    r = member_raw(answer, "Version", &version, err);
    if (r == 0 || (r > 0 && !span_equal(version, span_text("1"))))
        r = err_set(err, EIO, "the process's answer has not \"Version\": 1");
    if (r < 0) {
        credentials_release(&found);
        return r;
    }
    *ret_credentials = found;
    return 0;
}

static int run_command(struct run *run, const struct process_provider *self,
                       struct credentials *ret_credentials, struct err *err)
{
    int r = run_begin(run, self->command);
    if (r < 0)
        return err_set(err, -r, "the process cannot be started: %s", strerror(-r));
    r = run_to_end(run, self->time_ms);
    if (r == -EFBIG)
        return err_set(err, EIO, "the process wrote more than %u bytes", SECRET_BYTES_MAX);
    if (r < 0)
        return err_set(err, -r, "the process did not end within %d ms", self->time_ms);
    r = check_status(run, err);
    if (r < 0)
        return r;
    return read_answer(buf_span(run->texts[0]), ret_credentials, err);
}

static int fetch_process(struct provider *provider, struct credentials *ret_credentials,
                         struct err *err)
{
    cleanup(secret_buf_release) struct buf output = {0};
    cleanup(secret_buf_release) struct buf complaint = {0};
    struct run run = {.outputs = {{.fd = -1}, {.fd = -1}}, .texts = {&output, &complaint}};
    if (secret_buf_init(&output, SECRET_BYTES_MAX) < 0 ||
        secret_buf_init(&complaint, COMPLAINT_BYTES_MAX) < 0)
        return err_set(err, ENOMEM, "no memory");
    int r = run_command(&run, (const struct process_provider *)provider, ret_credentials, err);
    close_output(&run.outputs[0]);
    close_output(&run.outputs[1]);
    return r;
}

static void free_process(struct provider *provider)
{
    secret_free(((struct process_provider *)provider)->command);
    provider_discard(provider);
}

static const struct provider_ops process_ops = {.fetch = fetch_process, .free = free_process};

int link_process(struct chain *chain, const char *profile, struct provider **ret_provider,
                 struct err *err)
{
    const char *command = profile_get(chain->profiles, profile, "credential_process");
    if (!command)
        return 0;
    struct process_provider *self =
        provider_new(sizeof *self, &process_ops, "profile %s (process)", profile);
    if (self)
        self->command = strdup(command);
    if (!self || !self->command) {
        provider_free(self ? &self->provider : NULL);
        return err_set(err, ENOMEM, "no memory");
    }
    self->time_ms = chain->hooks.process_ms;
    *ret_provider = &self->provider;
    return 1;
}
