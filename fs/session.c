/* SPDX-License-Identifier: MIT */
#include "fs/session.h"
#include "fs/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "deliver/deliver.h"
#include "fs/changes.h"
#include "upkeep/upkeep.h"

#define WORKERS 16
#define FILESYSTEM "fuse.itemfs"

/* --- The mount point --- */

/* What a mount answers whose daemon was killed: first the one, then the other. */
static bool is_dead(int error)
{
    return error == ENOTCONN || error == ECONNABORTED;
}

/* Absolute and without links, also where the last component cannot be looked at. */
static char *absolute_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real || !is_dead(errno))
        return real;
    char copy[PATH_MAX], parent[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/'; len--)
        copy[len - 1] = '\0';
    char *slash = strrchr(copy, '/');
    if (slash)
        *slash = '\0';
    if (!realpath(!slash ? "." : *copy ? copy : "/", parent))
        return NULL;
    char *joined = NULL;
    if (asprintf(&joined, "%s/%s", parent, slash ? slash + 1 : copy) < 0)
        return NULL;
    return joined;
}

void unescape_octal(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* Whether the topmost filesystem mounted on PATH is one of ours. */
static bool is_mounted(const char *path)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool ours = false;
    while (mounts && getline(&line, &size, mounts) > 0) {
        char point[PATH_MAX], type[64];
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 ||
            sscanf(dash, " - %63s", type) != 1)
            continue;
        unescape_octal(point);
        if (strcmp(point, path) == 0)
            ours = strcmp(type, FILESYSTEM) == 0;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return ours;
}

/* Takes away the mount that a killed daemon left, where that is ours to do: by ourselves or, for a
 * user who is not root, by fusermount3. */
static void clear_dead(char *path)
{
    if (umount2(path, MNT_DETACH) == 0)
        return;
    char program[] = "fusermount3", options[] = "-uz", end[] = "--";
    char *const command[] = {program, options, end, path, NULL};
    posix_spawn_file_actions_t silent;
    pid_t child;
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&child, program, &silent, NULL, command, environ) == 0)
        waitpid(child, NULL, 0);
    posix_spawn_file_actions_destroy(&silent);
}

int mountpoint_check(const char *path, char **ret_path, struct err *err)
{
    struct stat stat_now;
    struct statvfs answer; /* the kernel has no cached answer to this one */
    int error = stat(path, &stat_now) < 0 || statvfs(path, &answer) < 0 ? errno : 0;
    if (error && !is_dead(error))
        return err_set(err, error, "mount point %s: %s", path, strerror(error));
    if (!error && !S_ISDIR(stat_now.st_mode))
        return err_set(err, ENOTDIR, "mount point %s: not a directory", path);
    cleanup_free char *real = absolute_path(path);
    if (!real)
        return err_set(err, errno, "mount point %s: %s", path, strerror(errno));
    if (is_mounted(real)) {
        if (!error)
            return err_set(err, EBUSY, "mount point %s: something is mounted there already", path);
        clear_dead(real);
        error = stat(real, &stat_now) < 0 ? errno : 0;
    }
    if (error)
        return err_set(err, error, "mount point %s: %s (a dead mount: umount it)", path,
                       strerror(error));
    *ret_path = real;
    real = NULL;
    return 0;
}

/* --- Signals --- */

/* libfuse's handlers end the loop; but first they wait for the requests that are in work. */
static const int ending_signals[] = {SIGHUP, SIGINT, SIGTERM};
#define ENDING_COUNT (sizeof ending_signals / sizeof ending_signals[0])
static struct sigaction fuse_actions[ENDING_COUNT];
static bool caught;          /* signals are */
static _Atomic int ended_by; /* the signal */

static void on_end(int number)
{
    atomic_store(&ended_by, number);
    interrupt_all();
    for (size_t i = 0; i < ENDING_COUNT; i++)
        if (ending_signals[i] == number)
            fuse_actions[i].sa_handler(number);
}

/* Ignored signals stay so. */
static int catch_signals(struct fuse_session *session)
{
    if (fuse_set_signal_handlers(session) < 0)
        return -EIO;
    caught = true;
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        sigaction(ending_signals[i], NULL, &fuse_actions[i]);
        struct sigaction ours = fuse_actions[i];
        if (ours.sa_handler == SIG_IGN || ours.sa_handler == SIG_DFL)
            continue;
        ours.sa_handler = on_end;
        sigaction(ending_signals[i], &ours, NULL);
    }
    return 0;
}

/* Only the thread that waits for the end takes them: any other's would not wake it. The threads
 * that are made meanwhile inherit it. */
static void hold_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ENDING_COUNT; i++)
        sigaddset(&set, ending_signals[i]);
    pthread_sigmask(how, &set, NULL);
}

void session_wake(struct mount *mount)
{
    int number = atomic_load(&ended_by);
    if (number && atomic_load(&mount->serving))
        pthread_kill(mount->server, number);
}

static void release_signals(struct fuse_session *session)
{
    if (!caught)
        return;
    for (size_t i = 0; i < ENDING_COUNT; i++)
        if (fuse_actions[i].sa_handler) /* libfuse takes away its own only */
            sigaction(ending_signals[i], &fuse_actions[i], NULL);
    fuse_remove_signal_handlers(session);
}

/* --- Starting --- */

static struct mount *mount_new(struct config *config, const char *mountpoint)
{
    struct mount *mount = calloc(1, sizeof *mount);
    if (!mount)
        return NULL;
    mount->config = config;
    mount->mountpoint = mountpoint;
    mount->mounted_ns = clock_now_ns();
    mount->uid = config->has_uid ? config->uid : getuid();
    mount->gid = config->has_gid ? config->gid : getgid();
    struct sysinfo info;
    if (sysinfo(&info) == 0)
        mount->prefill_budget = (uint64_t)info.totalram * info.mem_unit / 8;
    mount->cache = cache_new(config->cache_size);
    if (!mount->cache) {
        free(mount);
        return NULL;
    }
    return mount;
}

/* Before a store is made. */
static int session_new(struct mount *mount, struct fuse_args *args, struct err *err)
{
    mount->session = fuse_session_new(args, &itemfs_ops, sizeof itemfs_ops, mount);
    return mount->session ? 0 : err_set(err, EINVAL, "an option is known neither here nor to FUSE");
}

static int session_mount(struct mount *mount, struct err *err)
{
    if (catch_signals(mount->session) < 0)
        return err_set(err, EIO, "cannot handle signals");
    if (fuse_session_mount(mount->session, mount->mountpoint) < 0)
        return err_set(err, EPERM,
                       "cannot mount on %s (the line above says why; without one: is "
                       "/dev/fuse there, and fusermount3 installed?)",
                       mount->mountpoint);
    return session_workers(mount->session);
}

int session_start(struct config *config, const char *mountpoint, struct fuse_args *args,
                  struct mount **ret_mount, struct err *err)
{
    struct mount *mount = mount_new(config, mountpoint);
    if (!mount) {
        config_free(config);
        return -ENOMEM;
    }
    hold_signals(SIG_BLOCK);
    int code = session_new(mount, args, err);
    config->watch = true;
    if (code == 0)
        code = source_check_mountpoint(config, mountpoint, err);
    if (code == 0)
        code = source_open(config, !config->read_only, &mount->stored, err);
    if (code == 0)
        code = source_show(mount->stored, &mount->source, err);
    if (code == 0)
        code = session_mount(mount, err);
    if (code == 0)
        reaper_start(mount);
    if (code == 0)
        code = notifier_start(mount, err);
    if (code == 0)
        code = filler_start(mount, err);
    if (code == 0)
        code = changes_start(mount, err);
    if (code == 0)
        code = follow_prepare(mount, err);
    if (code < 0) {
        session_stop(mount);
        return code;
    }
    *ret_mount = mount;
    return 0;
}

static void first_read_failed(void *context, const char *table, const char *why)
{
    (void)context;
    log_warning("profile", "table %s: the first read failed: %s", table, why);
}

int session_begin(struct mount *mount, struct err *err)
{
    source_first_reads(mount->stored, first_read_failed, NULL);
    int code = follow_start(mount, err);
    if (code == 0)
        code = deliver_start(mount->config, mount->stored, mount->mountpoint, &mount->deliver, err);
    if (code == 0)
        code = upkeep_start(mount->config, mount->stored, &mount->upkeep, err);
    return code;
}

int session_run(struct mount *mount)
{
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    if (!loop)
        return -ENOMEM;
    fuse_loop_cfg_set_max_threads(loop, WORKERS);
    fuse_loop_cfg_set_idle_threads(loop, WORKERS);
    fuse_loop_cfg_set_clone_fd(loop, 0);
    mount->server = pthread_self();
    atomic_store(&mount->serving, true);
    hold_signals(SIG_UNBLOCK);
    int code = fuse_session_loop_mt(mount->session, loop);
    atomic_store(&mount->serving, false);
    fuse_loop_cfg_destroy(loop);
    return code < 0 ? code : 0; /* above 0: the signal that ended it */
}

/* What is still in memory goes where it belongs. */
static void finish_work(struct mount *mount)
{
    if (!mount->config->read_only) {
        save_all(mount);
        grace_run(mount, NULL, true);
        drafts_retry(mount);
    }
    for (const struct held_draft *held = mount->held; held; held = held->next)
        log_error("draft", "a refused save of table %.*s could not be kept: %.*s",
                  (int)held->draft.table.len, held->draft.table.data, (int)held->draft.reason.len,
                  held->draft.reason.data);
}

static void free_lists(struct mount *mount)
{
    while (mount->held) {
        struct held_draft *held = mount->held;
        mount->held = held->next;
        body_unref(held->body);
        free(held);
    }
    while (mount->graces) {
        struct grace *grace = mount->graces;
        mount->graces = grace->next;
        free(grace->name);
        free(grace);
    }
    for (size_t i = 0; i < REPORT_RING; i++)
        free(mount->reports[i].name);
    free(mount->spellings.entries);
    for (size_t i = 0; i < AUTHORED_RING; i++)
        free(mount->authored[i].name);
}

void session_stop(struct mount *mount)
{
    deliver_leave(mount->deliver);
    upkeep_stop(mount->upkeep);
    if (mount->followers)
        follow_stop(mount);
    if (mount->notifier)
        finish_work(mount);
    changes_stop(mount);
    deliver_stop(mount->deliver);
    if (mount->session) {
        filler_stop(mount);
        notifier_stop(mount);        /* before the descriptor it writes to is closed */
        if (mount_is_covered(mount)) /* then nothing is unmounted: that would go by the path */
            reaper_abort(mount);
        fuse_session_unmount(mount->session);
        reaper_stop(mount);
        release_signals(mount->session);
        fuse_session_destroy(mount->session);
    }
    listings_free(mount);
    handles_free(mount);
    source_close(mount->source);
    source_close(mount->stored);
    free_lists(mount);
    volumes_free(mount);
    cache_free(mount->cache);
    config_free(mount->config);
    free(mount);
}
