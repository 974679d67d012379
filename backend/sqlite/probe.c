/* SPDX-License-Identifier: MIT */
/*
 * Whether a file is a store, told from its first bytes, before SQLite may touch it: opening another
 * program's database could already replay or remove its log. The header's layout:
 * https://www.sqlite.org/fileformat2.html#the_database_header
 *
 * Closing a descriptor drops all POSIX locks that this process holds on the file, so a file that is
 * open as a store already must never be probed; open.c sees to that.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "backend/sqlite/store.h"

#define HEADER_MAGIC "SQLite format 3" /* and its NUL */
#define HEADER_FORMAT 18               /* 2: with a write-ahead log */
#define HEADER_VERSION 60
#define HEADER_APPLICATION 68
#define HEADER_SIZE 100
#define ROOT_CELLS (HEADER_SIZE + 3) /* entries of the schema table, when it is one page */
#define PROBE_SIZE (HEADER_SIZE + 8)
#define ROOT_IS_LEAF 0x0d

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int judge(const unsigned char *header, const char *path, struct err *err)
{
    if (memcmp(header, HEADER_MAGIC, sizeof HEADER_MAGIC) != 0)
        return err_set(err, EINVAL, "%s is not an itemfs store, nor any SQLite database", path);
    uint32_t application = big_endian(header + HEADER_APPLICATION);
    uint32_t version = big_endian(header + HEADER_VERSION);
    bool tables =
        header[HEADER_SIZE] != ROOT_IS_LEAF || header[ROOT_CELLS] || header[ROOT_CELLS + 1];
    /* With a log it may have tables that are only there; a store has its name before its log. */
    if (application == 0 && !tables && header[HEADER_FORMAT] == 1)
        return 0;
    if (application != STORE_APPLICATION_ID)
        return err_set(err, EINVAL, "%s is a SQLite database of another program", path);
    if (version > STORE_VERSION)
        return err_set(err, EINVAL, "%s has format %u, and this program knows %d: it is newer",
                       path, version, STORE_VERSION);
    return 0;
}

int probe_file(const char *path, struct err *err)
{
    unsigned char header[PROBE_SIZE];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    ssize_t len = pread(fd, header, sizeof header, 0);
    int code = len < 0 ? errno : 0;
    close(fd);
    if (code)
        return err_set(err, code, "%s: %s", path, strerror(code));
    if (len == 0)
        return 0;
    if ((size_t)len < sizeof header)
        return err_set(err, EINVAL, "%s is not an itemfs store", path);
    return judge(header, path, err);
}
