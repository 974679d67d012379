/* SPDX-License-Identifier: MIT */
/* itemfs: mounts a source. The command line, and going into the background. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "fs/session.h"

static const char usage_text[] =
    "usage: itemfs SOURCE MOUNTPOINT [-f] [-o OPT[,OPT...]]\n"
    "\n"
    "  SOURCE  FILE.db (an embedded store, made if absent) | FOLDER (of JSON files)\n"
    "          | dynamodb:REGION[/TABLE] | FILE.conf\n"
    "  -f      stay in the foreground, log to standard error\n"
    "  -o ...  ro allow_other quiet uid= gid= umask= cache_size= cache_ttl= max_item_size=\n"
    "          rename_grace= state_dir= log_level=; endpoint= profile= region= ca_file=\n"
    "          read_units= write_units= of a service; and FUSE's own options\n"
    "  -V -h   version, help\n"
    "\n"
    "Unmount with: umount MOUNTPOINT, or fusermount3 -u MOUNTPOINT. Manual: itemfs(1).\n";

#define EXIT_USAGE 2

struct arguments {
    const char *source, *mountpoint;
    bool foreground;
    struct fuse_args fuse;
    char *options; /* all -o texts, joined */
};

static int usage_error(const char *what, const char *arg)
{
    fprintf(stderr, "itemfs: %s%s\n%s", what, arg, usage_text);
    return EXIT_USAGE;
}

static void add_options(struct arguments *arguments, const char *text)
{
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s", arguments->options ? arguments->options : "",
                 arguments->options ? "," : "", text) < 0)
        abort();
    free(arguments->options);
    arguments->options = joined;
}

/* What mount(8) passes to its helpers. */
static bool is_from_mount(const char *arg)
{
    static const char *const words[] = {"-n", "-s", "-v", "-r", "-w"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(arg, words[i]) == 0)
            return true;
    return false;
}

/* 0, or an exit status with everything said (-1: ended well). */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    bool helper = strcmp(basename(argv[0]), "mount.itemfs") == 0;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            fputs(usage_text, stdout);
            return -1;
        }
        if (strcmp(arg, "-V") == 0 || strcmp(arg, "--version") == 0) {
            printf("itemfs %s (libfuse %s)\n", ITEMFS_VERSION, fuse_pkgversion());
            return -1;
        }
        if (strcmp(arg, "-f") == 0 && helper)
            return -1; /* mount -f: everything but the mount itself */
        if (strcmp(arg, "-f") == 0)
            arguments->foreground = true;
        else if (is_from_mount(arg))
            continue;
        else if (strncmp(arg, "-o", 2) == 0 && (arg[2] || i + 1 < argc))
            add_options(arguments, arg[2] ? arg + 2 : argv[++i]);
        else if (arg[0] == '-' && arg[1])
            return usage_error("unknown option ", arg);
        else if (!arguments->source)
            arguments->source = arg;
        else if (!arguments->mountpoint)
            arguments->mountpoint = arg;
        else
            return usage_error("one source and one mount point, not also ", arg);
    }
    return arguments->mountpoint ? 0 : usage_error("a source and a mount point are needed", "");
}

/* Words of fstab that are for mount(8) and systemd, not for us. */
static bool is_for_others(const char *option)
{
    static const char *const words[] = {"auto",  "noauto", "user",     "nouser",  "users", "owner",
                                        "group", "nofail", "defaults", "_netdev", "rw"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(option, words[i]) == 0)
            return true;
    return strncmp(option, "x-", 2) == 0 || strncmp(option, "comment=", 8) == 0;
}

static int apply_options(struct arguments *arguments, struct config *config, struct err *err)
{
    char *state = NULL;
    if (!arguments->options)
        return 0;
    for (char *option = strtok_r(arguments->options, ",", &state); option;
         option = strtok_r(NULL, ",", &state)) {
        if (is_for_others(option))
            continue;
        if (strcmp(option, "remount") == 0)
            return err_set(err, EINVAL, "a mount cannot be remounted: umount it, then mount it");
        int code = config_option(config, option, err);
        if (code < 0)
            return code;
        if (code == 1 && (fuse_opt_add_arg(&arguments->fuse, "-o") < 0 ||
                          fuse_opt_add_arg(&arguments->fuse, option) < 0))
            return -ENOMEM;
    }
    return 0;
}

/*
 * Whether the kernel has to compare modes. Where only the mounting user can come in and owns
 * everything, it has not; and checking costs it a request for every file made, since making one
 * invalidates what it knew of the directory.
 */
static bool modes_matter(const struct config *config)
{
    return config->allow_other || (config->has_uid && config->uid != getuid()) ||
           (config->has_gid && config->gid != getgid()) || (config->umask & S_IRWXU);
}

/* What every mount of ours tells the kernel. */
static int add_fuse_options(struct arguments *arguments, const struct config *config)
{
    char *name = NULL;
    char *escaped = calloc(2, strlen(arguments->source) + 1);
    if (!escaped)
        return -ENOMEM;
    char *to = escaped;
    for (const char *from = arguments->source; *from; from++) {
        if (*from == ',' || *from == '\\')
            *to++ = '\\';
        *to++ = *from;
    }
    int code = asprintf(&name, "fsname=%s,subtype=itemfs%s%s%s", escaped,
                        modes_matter(config) ? ",default_permissions" : "",
                        config->allow_other ? ",allow_other" : "", config->read_only ? ",ro" : "");
    free(escaped);
    if (code < 0)
        return -ENOMEM;
    code = fuse_opt_add_arg(&arguments->fuse, "-o") < 0 ||
           fuse_opt_add_arg(&arguments->fuse, name) < 0;
    free(name);
    return code ? -ENOMEM : 0;
}

/* In the background the parent waits for one byte: the mount is up. Its absence means failure, and
 * the child has said why. Returns the child's end, or -1 in the foreground. */
static int go_background(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        close(ends[0]);
        setsid();
        return ends[1];
    }
    close(ends[1]);
    char ready = 0;
    ssize_t got = read(ends[0], &ready, 1);
    _exit(got == 1 && ready == 1 ? 0 : 1);
}

static void tell_ready(int parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (chdir("/") < 0 || null < 0)
        return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
    char ready = 1;
    if (write(parent, &ready, 1) != 1)
        log_warning("start", "the starting process did not wait");
    close(parent);
}

static int serve(struct arguments *arguments, struct config *config, const char *mountpoint)
{
    int parent = arguments->foreground ? -1 : go_background();
    struct err err = {0};
    struct mount *mount;
    enum log_level level = config->log_level;
    int code = session_start(config, mountpoint, &arguments->fuse, &mount, &err);
    if (code == 0) {
        /* Before other threads have something to say: what goes to a terminal is no chance. */
        log_open("itemfs", parent < 0 ? stderr : NULL, level);
        code = session_begin(mount, &err);
        if (code < 0)
            session_stop(mount);
    }
    if (code < 0) {
        fprintf(stderr, "itemfs: %s\n", err_text(&err, code));
        return EXIT_FAILURE;
    }
    if (parent >= 0)
        tell_ready(parent);
    log_info("start", "mounted on %s", mountpoint);
    code = session_run(mount);
    session_stop(mount);
    return code < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Of the allocator: one for each worker would keep what it freed to itself, 20 MiB in a large
 * listing. Small blocks come from each thread's own cache in any case. */
#define ARENAS 2
/* Blocks that go back to the system when they are freed: pages of a listing, mostly. Left to itself
 * the allocator keeps larger and larger ones. */
#define LARGE_BYTES (256 << 10)
#define KEPT_BYTES (4 << 20) /* of small ones, free at the end of the heap */

int main(int argc, char **argv)
{
    const struct rlimit no_core = {0, 0}; /* item bodies stay out of core files */
    setrlimit(RLIMIT_CORE, &no_core);
    mallopt(M_ARENA_MAX, ARENAS);
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    log_open("itemfs", stderr, LOG_LEVEL_INFO);
    struct arguments arguments = {.fuse = FUSE_ARGS_INIT(0, NULL)};
    struct err err = {0};
    struct config *config = NULL;
    char *mountpoint = NULL;
    int status = parse_arguments(argc, argv, &arguments);
    if (status == 0) {
        int code = config_from_source(arguments.source, &config, &err);
        if (code == 0)
            code = fuse_opt_add_arg(&arguments.fuse, "itemfs") < 0 ? -ENOMEM : 0;
        if (code == 0)
            code = apply_options(&arguments, config, &err);
        if (code == 0)
            code = add_fuse_options(&arguments, config);
        if (code == 0)
            code = mountpoint_check(arguments.mountpoint, &mountpoint, &err);
        if (code == 0) {
            status = serve(&arguments, config, mountpoint);
        } else {
            fprintf(stderr, "itemfs: %s\n", err_text(&err, code));
            config_free(config);
            status = EXIT_FAILURE;
        }
    }
    fuse_opt_free_args(&arguments.fuse);
    free(arguments.options);
    free(mountpoint);
    return status < 0 ? EXIT_SUCCESS : status;
}
