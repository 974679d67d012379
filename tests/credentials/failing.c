/* SPDX-License-Identifier: MIT */
#include "tests/credentials/failing.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long countdown = -1; /* allocations until the failing one; negative: none fails */
static bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
int __real_vasprintf(char **ret_text, const char *format, va_list args);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **ret_text, const char *format, ...) __attribute__((format(printf, 2, 3)));

void failing_begin(long count)
{
    countdown = count;
    failed = false;
}

bool failing_end(void)
{
    countdown = -1;
    return failed;
}

static bool must_fail(void)
{
    if (countdown < 0 || countdown-- > 0)
        return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return must_fail() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return must_fail() ? NULL : __real_reallocarray(old, count, size);
}

char *__wrap_strdup(const char *text)
{
    return must_fail() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return must_fail() ? NULL : __real_strndup(text, len);
}

/* As the C library's, it leaves no pointer behind that could be used. */
int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
{
    if (!must_fail())
        return __real_vasprintf(ret_text, format, args);
    memset(ret_text, 0x5A, sizeof *ret_text);
    return -1;
}

int __wrap_asprintf(char **ret_text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = __wrap_vasprintf(ret_text, format, args);
    va_end(args);
    return len;
}
