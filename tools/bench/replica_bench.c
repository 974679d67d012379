/* SPDX-License-Identifier: MIT */
/*
 * What files in replicas take, beside what a bare program takes for the same: replica_bench
 * DIRECTORY [FILES]. DIRECTORY must not exist and is removed afterwards. Prints "name: value unit"
 * lines, the median of the rounds. Files have 300 bytes; "new" makes them, "over" replaces them,
 * "list" reads names and stats of all.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/folder/replica.h"
#include "base/clock.h"

#define ROUNDS 5
#define SIZE 300
#define DURABLE_FILES 200
#define PATHS 2

enum way { BARE, ONE, TWO, WAYS };
static const char *const way_names[] = {"bare", "one", "two"};

struct bench {
    char paths[WAYS][PATHS][256];
    struct replicas *replicas[WAYS];
    unsigned files;
    unsigned first; /* number of the next file to be made */
    char body[SIZE];
};

static void fail(const char *what)
{
    fprintf(stderr, "replica_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void bare_write(struct bench *bench, int folder, const char *name, bool durable)
{
    int fd = openat(folder, ".temporary", O_WRONLY | O_CREAT | O_EXCL, 0644);

    if (fd < 0 || write(fd, bench->body, SIZE) != SIZE || (durable && fsync(fd) < 0) ||
        renameat(folder, ".temporary", folder, name) < 0 || close(fd) < 0 ||
        (durable && fsync(folder) < 0))
        fail(name);
}

static void write_all(struct bench *bench, enum way way, unsigned files, bool durable)
{
    int folder = open(bench->paths[way][0], O_RDONLY | O_DIRECTORY);
    struct err err = {""};
    bool changed;

    for (unsigned i = 0; i < files; i++) {
        char name[32];
        snprintf(name, sizeof name, "item-%07u.json", bench->first + i);
        if (way == BARE) {
            bare_write(bench, folder, name, durable);
            continue;
        }
        struct file_op op = {.kind = FILE_PUT,
                             .folder = "",
                             .name = name,
                             .body = span_of(bench->body, SIZE),
                             .mtime_ns = clock_now_ns()};
        if (replicas_apply(bench->replicas[way], &op, 1, durable, &changed, &err) < 0)
            fail(err.text);
    }
    close(folder);
}

static int count_entry(void *context, const struct file_entry *entry)
{
    *(unsigned *)context += entry->stat.regular;
    return 0;
}

static unsigned bare_list(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;
    struct dirent *entry;

    while ((entry = readdir(dir))) {
        struct statx stat;
        if (statx(dirfd(dir), entry->d_name, AT_SYMLINK_NOFOLLOW,
                  STATX_TYPE | STATX_SIZE | STATX_MTIME | STATX_INO, &stat) == 0)
            count += S_ISREG(stat.stx_mode);
    }
    closedir(dir);
    return count;
}

static void list_all(struct bench *bench, enum way way, unsigned files, bool durable)
{
    struct err err = {""};
    unsigned count = 0;

    (void)durable;
    if (way == BARE)
        count = bare_list(bench->paths[way][0]);
    else if (replica_list(bench->replicas[way], 0, "", count_entry, &count, &err) < 0)
        fail(err.text);
    if (count != files)
        fail("a file is missing");
}

typedef void (*round_fn)(struct bench *bench, enum way way, unsigned files, bool durable);

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* Rounds of the ways in turn, so that what else goes on meets all of them; each begins STEP files
 * behind the one before. */
static void measure(struct bench *bench, const char *name, round_fn round, unsigned files,
                    bool durable, unsigned step)
{
    double times[WAYS][ROUNDS];

    bench->first = 0;
    for (unsigned i = 0; i < ROUNDS; i++, bench->first += step)
        for (enum way way = 0; way < WAYS; way++) {
            int64_t begin_ns = clock_steady_ns();
            round(bench, way, files, durable);
            times[way][i] = (double)(clock_steady_ns() - begin_ns) / 1e3 / files;
        }
    for (enum way way = 0; way < WAYS; way++) {
        qsort(times[way], ROUNDS, sizeof(double), compare);
        printf("%s_%s: %.2f us\n", name, way_names[way], times[way][ROUNDS / 2]);
    }
    for (enum way way = ONE; way < WAYS; way++)
        printf("%s_%s_ratio: %.2f\n", name, way_names[way],
               times[way][ROUNDS / 2] / times[BARE][ROUNDS / 2]);
    fflush(stdout);
}

static void make_places(struct bench *bench, const char *directory)
{
    if (mkdir(directory, 0755) < 0)
        fail(directory);
    for (enum way way = 0; way < WAYS; way++) {
        const char *paths[PATHS];
        size_t count = way == TWO ? 2 : 1;
        for (size_t i = 0; i < count; i++) {
            snprintf(bench->paths[way][i], sizeof bench->paths[way][i], "%s/%s%zu", directory,
                     way_names[way], i);
            paths[i] = bench->paths[way][i];
            if (mkdir(paths[i], 0755) < 0)
                fail(paths[i]);
        }
        struct replica_options options = {
            .paths = paths, .count = count, .timeout_ns = 60 * NS_PER_S};
        struct err err = {""};
        if (way != BARE && replicas_open(&options, &bench->replicas[way], &err) < 0)
            fail(err.text);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench;
    char command[512];

    bench.files = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100000;
    if (argc < 2 || argv[1][0] != '/' || bench.files < ROUNDS * DURABLE_FILES) {
        fprintf(stderr, "usage: replica_bench DIRECTORY [FILES]   (%d or more)\n",
                ROUNDS * DURABLE_FILES);
        return 2;
    }
    memset(bench.body, ' ', SIZE);
    memcpy(bench.body, "{}", 2);
    make_places(&bench, argv[1]);
    measure(&bench, "new", write_all, bench.files / ROUNDS, false, bench.files / ROUNDS);
    measure(&bench, "over", write_all, bench.files / ROUNDS, false, 0);
    measure(&bench, "durable", write_all, DURABLE_FILES, true, 0);
    measure(&bench, "list", list_all, bench.files / ROUNDS * ROUNDS, false, 0);
    for (enum way way = ONE; way < WAYS; way++)
        replicas_close(bench.replicas[way]);
    snprintf(command, sizeof command, "rm -rf '%s'", argv[1]);
    return system(command) == 0 ? 0 : 1;
}
