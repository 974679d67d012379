/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#define LOG_LINE_MAX 2048
#define LOG_SITES 64

/* How much one site said in its running window. Sites that share a slot take it from each other:
 * the count of the one that leaves is written first. */
struct log_site {
    char name[32];
    int64_t since_ns;
    unsigned written;
    unsigned withheld;
};

/* A program has one log, so this is the one global of base/; guarded by `mutex`. */
static struct {
    pthread_mutex_t mutex;
    const char *name;
    FILE *file; /* NULL: syslog */
    bool open;
    enum log_level most;
    struct log_site sites[LOG_SITES];
} the_log = {.mutex = PTHREAD_MUTEX_INITIALIZER, .most = LOG_LEVEL_INFO};

void log_open(const char *name, void *file, enum log_level most)
{
    scoped_lock(&the_log.mutex);
    the_log.name = name;
    the_log.file = file;
    the_log.most = most;
    the_log.open = true;
    if (!file)
        openlog(name, LOG_PID, LOG_DAEMON);
}

static void log_line(enum log_level level, const char *site, const char *line)
{
    static const char *const level_names[] = {"error", "warning", "info", "debug"};
    static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    if (!the_log.open)
        return;
    if (!the_log.file) {
        syslog(priorities[level], "%s: %s: %s", level_names[level], site, line);
        return;
    }
    fprintf(the_log.file, "%s: %s: %s: %s\n", the_log.name, level_names[level], site, line);
    fflush(the_log.file);
}

static void log_site_flush(struct log_site *site)
{
    if (site->withheld == 0)
        return;
    char line[64];
    snprintf(line, sizeof line, "%u further lines were left out", site->withheld);
    log_line(LOG_LEVEL_WARNING, site->name, line);
    site->withheld = 0;
}

/* True when SITE may write one more line now. */
static bool log_site_admit(const char *name)
{
    struct log_site *site = &the_log.sites[hash64(span_text(name), 0) % LOG_SITES];
    int64_t now = clock_steady_ns();
    bool same = strncmp(site->name, name, sizeof site->name - 1) == 0;
    if (!same || now - site->since_ns >= LOG_WINDOW_S * NS_PER_S) {
        log_site_flush(site);
        snprintf(site->name, sizeof site->name, "%s", name);
        site->since_ns = now;
        site->written = 0;
    }
    if (site->written >= LOG_BURST) {
        site->withheld++;
        return false;
    }
    site->written++;
    return true;
}

/* Formats a line in its visible form; no heap, because what is logged may be that memory ran out.
 */
static __attribute__((format(printf, 2, 0))) void log_format(char line[LOG_LINE_MAX],
                                                             const char *format, va_list args)
{
    char text[LOG_LINE_MAX];
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    struct span rest = span_text(text);
    size_t len = 0;
    while (rest.len > 0 && len + TEXT_VISIBLE_MAX < LOG_LINE_MAX) {
        size_t shown_len;
        size_t used = text_visible_step(rest, line + len, &shown_len);
        len += shown_len;
        rest = span_of(rest.data + used, rest.len - used);
    }
    line[len] = '\0';
}

void log_write(enum log_level level, const char *site, const char *format, ...)
{
    char line[LOG_LINE_MAX];
    scoped_lock(&the_log.mutex);
    if (level > the_log.most || !log_site_admit(site))
        return;
    va_list args;
    va_start(args, format);
    log_format(line, format, args);
    va_end(args);
    log_line(level, site, line);
}
