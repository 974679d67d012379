/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define STATUS_BROKEN_PIPE 141

void output_broken(void)
{
    _exit(STATUS_BROKEN_PIPE);
}

static int output_failed(struct err *err)
{
    int code = errno ? errno : EIO;

    if (code == EPIPE)
        output_broken();
    return err_set(err, code, "standard output: %s", strerror(code));
}

int output_write(struct span text, struct err *err)
{
    errno = 0;
    if (text.len && fwrite(text.data, 1, text.len, stdout) != text.len)
        return output_failed(err);
    return 0;
}

int output_text(const char *text, struct err *err)
{
    return output_write(span_text(text), err);
}

int output_finish(struct err *err)
{
    errno = 0;
    return fflush(stdout) != 0 || ferror(stdout) ? output_failed(err) : 0;
}

void output_discard(void)
{
    fflush(stdout);
}
