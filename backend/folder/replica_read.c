/* SPDX-License-Identifier: MIT */
/* Files and folders of one root, read. */
#include "backend/folder/replica_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define READS 3 /* of a file that changes meanwhile */
#define PORTION 2048

struct file_stat disk_file_stat(const struct disk *disk, const struct stat *stat)
{
    return (struct file_stat){
        .present = true,
        .regular = S_ISREG(stat->st_mode),
        .size = (uint64_t)stat->st_size,
        .mtime_ns = time_ns_of(stat->st_mtim),
        .ctime_ns = time_ns_of(stat->st_ctim),
        .inode = stat->st_ino,
        .grain_ns = disk->grain_ns,
    };
}

int disk_stat(const struct disk *disk, const char *folder, const char *name,
              struct file_stat *ret_stat, struct err *err)
{
    cleanup_folder struct folder opened = {.fd = -1};
    struct stat stat;
    struct err why = {""};
    int code = disk_open_folder(disk, folder, &opened, &why);

    *ret_stat = (struct file_stat){.grain_ns = disk->grain_ns};
    if (code < 0)
        return code == -ENOENT ? 0 : err_set(err, -code, "%s", why.text);
    if (fstatat(opened.fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0)
        *ret_stat = disk_file_stat(disk, &stat);
    else if (errno != ENOENT)
        code = disk_error(disk, folder, name, errno, err);
    return code;
}

/* --- A file --- */

/* Appends SIZE bytes of FD; fewer where it has become shorter. */
static int read_bytes(int fd, size_t size, struct buf *body)
{
    size_t at = body->len, done = 0;

    buf_resize(body, at + size);
    if (buf_error(body))
        return buf_error(body);
    while (done < size) {
        ssize_t got = pread(fd, body->data + at + done, size - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    buf_resize(body, at + done);
    return 0;
}

static bool is_same(const struct file_stat *a, const struct file_stat *b)
{
    return a->size == b->size && a->mtime_ns == b->mtime_ns;
}

int disk_read_fd(const struct disk *disk, int fd, struct file_stat *ret_stat, struct buf *body)
{
    size_t begin = body->len;
    struct stat stat;

    for (int i = 0; i < READS; i++) {
        if (fstat(fd, &stat) < 0)
            return -errno;
        *ret_stat = disk_file_stat(disk, &stat);
        if (ret_stat->size > body->max - begin)
            return -EFBIG;
        int code = read_bytes(fd, (size_t)ret_stat->size, body);
        if (code == 0)
            code = fstat(fd, &stat) < 0 ? -errno : 0;
        struct file_stat after = disk_file_stat(disk, &stat);
        if (code < 0 || (is_same(ret_stat, &after) && body->len - begin == after.size)) {
            if (code < 0 && !buf_error(body))
                buf_resize(body, begin);
            return code;
        }
        buf_resize(body, begin);
    }
    return -EAGAIN;
}

/*
 * Whether another program has the file open for writing: then no lease for reading can be had. What
 * asks for a lease may be told to give it back, by a signal that would end the process; one that is
 * ignored unless somebody wants it takes its place. Where there are no leases, nobody knows.
 */
enum file_writers file_writers(int fd)
{
    if (fcntl(fd, F_SETSIG, SIGURG) < 0)
        return WRITERS_UNKNOWN;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN ? WRITERS_SOME : WRITERS_UNKNOWN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return WRITERS_NONE;
}

int disk_read(const struct disk *disk, const char *folder, const char *name,
              struct file_stat *ret_stat, struct buf *body, struct err *err)
{
    cleanup_folder struct folder opened = {.fd = -1};
    struct stat stat;
    int code = disk_open_folder(disk, folder, &opened, err);

    if (code < 0)
        return code;
    cleanup_close int fd = openat(opened.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    code = fd < 0 || fstat(fd, &stat) < 0 ? -errno : 0;
    *ret_stat = (struct file_stat){.present = code != -ENOENT, .grain_ns = disk->grain_ns};
    bool odd = code == -ELOOP || code == -ENXIO;
    if (code == 0 || (odd && fstatat(opened.fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0))
        *ret_stat = disk_file_stat(disk, &stat);
    if (odd || (code == 0 && !S_ISREG(stat.st_mode)))
        return err_set(err, EINVAL, "%s/%s/%s is no regular file", disk->path, folder, name);
    enum file_writers writers = code == 0 ? file_writers(fd) : WRITERS_UNKNOWN;
    if (writers == WRITERS_SOME)
        code = -ETXTBSY;
    if (code == 0)
        code = disk_read_fd(disk, fd, ret_stat, body);
    ret_stat->unsure = writers == WRITERS_UNKNOWN;
    return code < 0 ? disk_error(disk, folder, name, -code, err) : 0;
}

/* --- Listings --- */

struct named {
    size_t name; /* where it is among the names */
    ino_t inode;
    struct file_stat stat;
};

struct listing {
    char *folder;
    bool roots; /* folders are what is looked for */
    bool ended;
    DIR *dir; /* NULL: not begun */
    struct buf names;
    struct named found[PORTION];
    size_t count, next;
    struct file_entry entry;
};

struct listing *file_list_new(const char *folder, bool roots)
{
    struct listing *listing = calloc(1, sizeof *listing);

    if (!listing)
        return NULL;
    listing->folder = strdup(folder);
    listing->roots = roots;
    buf_init(&listing->names, PORTION * (NAME_MAX + 1));
    if (!listing->folder) {
        free(listing);
        return NULL;
    }
    return listing;
}

void file_list_free(struct listing *listing)
{
    if (!listing)
        return;
    if (listing->dir)
        closedir(listing->dir);
    buf_release(&listing->names);
    free(listing->folder);
    free(listing);
}

bool file_list_ended(const struct listing *listing)
{
    return listing->ended;
}

static int begin(struct listing *listing, const struct disk *disk, struct err *err)
{
    struct folder folder = {.fd = -1};
    int code = disk_open_folder(disk, listing->folder, &folder, err);

    if (code < 0)
        return code;
    listing->dir = fdopendir(folder.fd);
    if (listing->dir)
        return 0;
    code = disk_error(disk, listing->folder, NULL, errno, err);
    close(folder.fd);
    return code;
}

static bool is_wanted(const struct listing *listing, const struct dirent *entry)
{
    if (listing->roots)
        return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
           !file_is_temporary(entry->d_name);
}

/* The names of the next portion. */
static int read_names(struct listing *listing)
{
    struct dirent *entry = NULL;

    buf_clear(&listing->names);
    listing->count = listing->next = 0;
    while (listing->count < PORTION && (errno = 0, entry = readdir(listing->dir))) {
        if (!is_wanted(listing, entry))
            continue;
        listing->found[listing->count++] =
            (struct named){.name = listing->names.len, .inode = entry->d_ino};
        buf_add(&listing->names, entry->d_name, strlen(entry->d_name) + 1);
    }
    if (listing->count < PORTION && errno)
        return -errno;
    listing->ended = !entry;
    return buf_error(&listing->names);
}

static int compare_inodes(const void *a, const void *b)
{
    const struct named *left = a, *right = b;

    return (left->inode > right->inode) - (left->inode < right->inode);
}

/* What has gone since its name was read is not there. */
static int read_stats(struct listing *listing, const struct disk *disk)
{
    size_t kept = 0;

    for (size_t i = 0; i < listing->count; i++) {
        struct named named = listing->found[i];
        struct stat stat;
        if (fstatat(dirfd(listing->dir), listing->names.data + named.name, &stat,
                    AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT)
                continue;
            return -errno;
        }
        if (listing->roots && !S_ISDIR(stat.st_mode))
            continue;
        named.stat = disk_file_stat(disk, &stat);
        listing->found[kept++] = named;
    }
    listing->count = kept;
    return 0;
}

int file_list_read(struct listing *listing, const struct disk *disk, struct err *err)
{
    int code = listing->dir ? 0 : begin(listing, disk, err);

    if (code < 0)
        return code;
    code = read_names(listing);
    /* in the order in which they are on the disk */
    qsort(listing->found, listing->count, sizeof *listing->found, compare_inodes);
    if (code == 0)
        code = read_stats(listing, disk);
    return code < 0 ? disk_error(disk, listing->folder, NULL, -code, err) : 0;
}

const struct file_entry *file_list_next(struct listing *listing)
{
    if (listing->next == listing->count)
        return NULL;
    const struct named *named = &listing->found[listing->next++];
    listing->entry =
        (struct file_entry){.name = listing->names.data + named->name, .stat = named->stat};
    return &listing->entry;
}
