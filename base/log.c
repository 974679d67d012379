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
#define LOG_SITE_MAX 32

/* How much one site said in its running window. Sites that share a slot take it from each other:
 * the count of the one that leaves is written first. */
struct log_site {
    char name[LOG_SITE_MAX];
    int64_t since_ns;
    unsigned written;
    unsigned withheld;
};

/* Where lines go. */
struct log_target {
    const char *name;
    FILE *file; /* NULL: syslog */
    bool open;
    enum log_level most;
};

/* A program has one log, so this is the one global of base/; guarded by `mutex`, which is not held
 * while a line is written. */
static struct {
    pthread_mutex_t mutex;
    struct log_target target;
    struct log_site sites[LOG_SITES];
} the_log = {.mutex = PTHREAD_MUTEX_INITIALIZER, .target = {.most = LOG_LEVEL_INFO}};

void log_open(const char *name, void *file, enum log_level most)
{
    scoped_lock(&the_log.mutex);
    the_log.target = (struct log_target){.name = name, .file = file, .open = true, .most = most};
    if (!file)
        openlog(name, LOG_PID, LOG_DAEMON);
}

/* What is to be written for one call. */
struct log_plan {
    struct log_target target;
    bool admitted;
    unsigned left_out; /* lines of `left_out_site` that were counted only */
    char left_out_site[LOG_SITE_MAX];
};

/* Whether lines of this level go anywhere. */
static bool log_is_told(enum log_level level, struct log_plan *plan)
{
    plan->target = the_log.target;
    return plan->target.open && level <= plan->target.most;
}

static void log_plan(enum log_level level, const char *name, struct log_plan *plan)
{
    scoped_lock(&the_log.mutex);
    if (!log_is_told(level, plan))
        return;
    struct log_site *site = &the_log.sites[hash64(span_text(name), 0) % LOG_SITES];
    int64_t now = clock_steady_ns();
    bool same = strncmp(site->name, name, sizeof site->name - 1) == 0;
    if (!same || now - site->since_ns >= LOG_WINDOW_S * NS_PER_S) {
        plan->left_out = site->withheld;
        memcpy(plan->left_out_site, site->name, sizeof site->name);
        *site = (struct log_site){.since_ns = now};
        snprintf(site->name, sizeof site->name, "%s", name);
    }
    plan->admitted = site->written < LOG_BURST;
    if (plan->admitted)
        site->written++;
    else
        site->withheld++;
}

/* One call writes one whole line, so that lines of several threads do not mix. */
static void log_line(const struct log_target *target, enum log_level level, const char *site,
                     const char *line)
{
    static const char *const level_names[] = {"error", "warning", "info", "debug"};
    static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    if (!target->file) {
        syslog(priorities[level], "%s: %s: %s", level_names[level], site, line);
        return;
    }
    fprintf(target->file, "%s: %s: %s: %s\n", target->name, level_names[level], site, line);
    fflush(target->file);
}

/* Formats a line in its visible form. No heap: what is logged may be that memory ran out. */
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
        rest = span_from(rest, used);
    }
    line[len] = '\0';
}

void log_write(enum log_level level, const char *site, const char *format, ...)
{
    struct log_plan plan = {.admitted = false};
    char line[LOG_LINE_MAX];
    log_plan(level, site, &plan);
    if (plan.left_out > 0) {
        snprintf(line, sizeof line, "%u further lines were left out", plan.left_out);
        log_line(&plan.target, LOG_LEVEL_INFO, plan.left_out_site, line);
    }
    if (!plan.admitted)
        return;
    va_list args;
    va_start(args, format);
    log_format(line, format, args);
    va_end(args);
    log_line(&plan.target, level, site, line);
}

void log_always(enum log_level level, const char *site, const char *format, ...)
{
    struct log_plan plan = {.admitted = false};
    char line[LOG_LINE_MAX];
    pthread_mutex_lock(&the_log.mutex);
    plan.admitted = log_is_told(level, &plan);
    pthread_mutex_unlock(&the_log.mutex);
    if (!plan.admitted)
        return;
    va_list args;
    va_start(args, format);
    log_format(line, format, args);
    va_end(args);
    log_line(&plan.target, level, site, line);
}
