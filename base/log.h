/* SPDX-License-Identifier: MIT */
/*
 * The log of a program: standard error, or syslog once it runs in the background. Only fs/,
 * deliver/, upkeep/ and tools/ speak through it. Lines of one SITE (usually a literal such as
 * "save") above LOG_BURST in LOG_WINDOW_S seconds are counted instead of written, and the count
 * follows.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

#define LOG_BURST 20
#define LOG_WINDOW_S 10

/* NAME stands before each line; FILE is where lines go (NULL: syslog); kept, not copied. */
void log_open(const char *name, void *file, enum log_level most);
void log_write(enum log_level level, const char *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a line that is never left out: what it says is written nowhere else, and something
 * else bounds how often it is said. */
void log_always(enum log_level level, const char *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(site, ...) log_write(LOG_LEVEL_ERROR, site, __VA_ARGS__)
#define log_warning(site, ...) log_write(LOG_LEVEL_WARNING, site, __VA_ARGS__)
#define log_info(site, ...) log_write(LOG_LEVEL_INFO, site, __VA_ARGS__)
#define log_debug(site, ...) log_write(LOG_LEVEL_DEBUG, site, __VA_ARGS__)

#endif
