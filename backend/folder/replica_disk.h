/* SPDX-License-Identifier: MIT */
/*
 * What is done with files below one root, by the thread that calls. All of it is relative to
 * descriptors, opened anew each time: whoever moves or unmounts a root meets nobody.
 */
#ifndef BACKEND_FOLDER_REPLICA_DISK_H
#define BACKEND_FOLDER_REPLICA_DISK_H

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/folder/replica.h"
#include "base/cleanup.h"

/* A root. A value: whoever uses it has a copy. */
struct disk {
    const char *path;
    bool known; /* device and inode: what the root must be */
    dev_t device;
    ino_t inode;
    mode_t mode;  /* of new files; 0: their folder's */
    uint32_t tag; /* in the names of temporaries: whose they are */
    int64_t grain_ns;
};

static inline void close_descriptor(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
#define cleanup_close cleanup(close_descriptor)

/* A folder that is open, and what it is. */
struct folder {
    int fd; /* -1: none */
    struct stat stat;
};

static inline void close_folder(struct folder *folder)
{
    close_descriptor(&folder->fd);
}
#define cleanup_folder cleanup(close_folder)

/* Puts "PATH/FOLDER/NAME: WHY" into ERR and returns -CODE; FOLDER "" and NAME NULL: none. */
int disk_error(const struct disk *disk, const char *folder, const char *name, int code,
               struct err *err);
/* The root, with O_PATH; *RET_FD is to be closed. -ENODEV: missing, or not the one it was. */
int disk_open_root(const struct disk *disk, int *ret_fd, struct err *err);
int disk_open_folder(const struct disk *disk, const char *name, struct folder *ret_folder,
                     struct err *err);
/* Has DISK know the root that is there now. -ENOENT, -ENOTDIR. */
int disk_meet(struct disk *disk, struct err *err);

/* Whether both are one folder. */
static inline bool disk_is_same(const struct disk *a, const struct disk *b)
{
    return a->known && b->known && a->device == b->device && a->inode == b->inode;
}

/* Where there is no such folder, there is no file. */
int disk_stat(const struct disk *disk, const char *folder, const char *name,
              struct file_stat *ret_stat, struct err *err);
struct file_stat disk_file_stat(const struct disk *disk, const struct stat *stat);
int disk_read(const struct disk *disk, const char *folder, const char *name,
              struct file_stat *ret_stat, struct buf *body, struct err *err);
/* Whether another program has the file open for writing; FD is open for reading only. */
enum file_writers { WRITERS_NONE, WRITERS_SOME, WRITERS_UNKNOWN };
enum file_writers file_writers(int fd);
/* The whole file, from its beginning; its stat was the same before and after. -EAGAIN, -EFBIG. */
int disk_read_fd(const struct disk *disk, int fd, struct file_stat *ret_stat, struct buf *body);

/* -EEXIST: a folder of that name is there. */
int disk_make_folder(const struct disk *disk, const char *name, struct err *err);
/* -ENOTEMPTY names what is in it; temporaries of nobody are removed. */
int disk_check_empty(const struct disk *disk, const char *name, struct err *err);
int disk_remove_folder(const struct disk *disk, const char *name, struct err *err);
int disk_rename_folder(const struct disk *disk, const char *from, const char *to, struct err *err);
int disk_sync(const struct disk *disk, struct err *err);
int disk_statfs(const struct disk *disk, struct statvfs *ret_stat, struct err *err);

/* OPS, as replicas_apply; gives up with -ECANCELED before its next step once STOP (or NULL) says
 * so. */
int disk_apply(const struct disk *disk, const struct file_op *ops, size_t count, bool durable,
               const atomic_bool *stop, bool *ret_changed, struct err *err);

/* --- Temporaries: locked by who uses them, so that others know which are left over --- */

struct temporary {
    int fd; /* -1: none */
    char name[sizeof FILE_TEMPORARY_PREFIX + 16];
};

bool file_is_temporary(const char *name);
bool file_is_temporary_of(const char *name, uint32_t tag);
/* A new one, to take the place of NAME, which is OLD: with its attributes, or, where that is NULL,
 * those of new files. *TEMPORARY is to be dropped, also on failure. */
int temporary_make(const struct disk *disk, const struct folder *folder, const char *name,
                   const struct stat *old, struct temporary *temporary);
/* Closes it; removes it, unless it has been renamed (its name is ""). */
void temporary_drop(const struct folder *folder, struct temporary *temporary);
/* Removes NAME, if it is a temporary of nobody. */
void temporary_tidy(const struct folder *folder, const char *name);
int disk_tidy(const struct disk *disk, const char *folder, struct err *err);
/* All of it, at AT. Negative errno. */
int write_whole(int fd, struct span data, off_t at);
int set_time(int fd, int64_t time_ns);
/* As replica_probe; tells the grain of the disk's times. */
int disk_probe(struct disk *disk, int64_t *ret_ns, struct err *err);
/* Whether files can be written in the root, and the grain. A full disk is no failure. */
int disk_try(struct disk *disk, struct err *err);

/* Gives FD, which is MADE, the owner (where we are root), mode, POSIX ACL and extended attributes
 * of NAME, which is OLD; or, where that is NULL, its folder's owner, and MODE unless the folder has
 * an ACL for new files. Negative errno. */
int attributes_take(const struct folder *folder, const char *name, const struct stat *old,
                    const struct stat *made, mode_t mode, int fd);

/* --- Listings, in portions --- */

struct listing;

/* A listing of FOLDER, or, ROOTS, of the folders in the root. To be freed by who was last to use
 * it. */
struct listing *file_list_new(const char *folder, bool roots);
void file_list_free(struct listing *listing); /* accepts NULL */
/* Reads the next portion. */
int file_list_read(struct listing *listing, const struct disk *disk, struct err *err);
/* The next entry of the portion, valid until the next is read; NULL: there is none. */
const struct file_entry *file_list_next(struct listing *listing);
bool file_list_ended(const struct listing *listing);

/* --- Locks --- */

/* One try: *RET_FD -1: there is no such file. -EAGAIN: somebody has it; SOLE: or has it open for
 * writing. */
int disk_lock(const struct disk *disk, const char *folder, const char *name, bool writing,
              bool sole, int *ret_fd, struct err *err);

/* A file that is locked: of its owner, and of calls that were given up. */
struct replica;
struct file_lock {
    atomic_uint references;
    int fd;
    const char *disk_path; /* the disk's, to be compared as a pointer */
    struct replicas *replicas;
    struct replica *replica; /* a reference */
};

#endif
