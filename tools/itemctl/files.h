/* SPDX-License-Identifier: MIT */
/* Files written so that they are whole, and on the disk. Errors name the file. */
#ifndef ITEMCTL_FILES_H
#define ITEMCTL_FILES_H

#include "base/err.h"
#include "base/span.h"

/* A path put together, to free; NULL when memory ran out. */
char *path_make(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets the sentence of errno about NAME and returns the errno, negative. */
int file_failed(const char *name, struct err *err);
/* A reader that went away ends the program quietly. */
int file_write(int fd, const char *name, struct span text, struct err *err);
/* A new file of TEXT, on the disk. */
int file_make(const char *path, struct span text, struct err *err);
/* The directory's entries reach the disk; as far as it can be opened. */
int directory_sync(const char *path, struct err *err);
/* The same of the directory that PATH is in. */
int directory_sync_of(const char *path, struct err *err);

#endif
