/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define SHOW_EVERY_NS (NS_PER_S / 10)
#define BAR_WIDTH 30

void progress_begin(struct progress *progress, const char *verb)
{
    *progress = (struct progress){.on = isatty(STDERR_FILENO), .verb = verb};
}

void progress_show(struct progress *progress, uint64_t items, uint64_t done, uint64_t total)
{
    int64_t now = progress->on ? clock_steady_ns() : 0;
    int filled, percent;

    if (!progress->on || now < progress->next_ns)
        return;
    progress->next_ns = now + SHOW_EVERY_NS;
    progress->shown = true;
    if (total == 0) {
        fprintf(stderr, "\r%llu items %s\033[K", (unsigned long long)items, progress->verb);
        return;
    }
    percent = (int)((double)done * 100 / (double)total);
    percent = percent > 100 ? 100 : percent;
    filled = percent * BAR_WIDTH / 100;
    fprintf(stderr, "\r[%.*s%*s] %3d %%  %llu items %s\033[K", filled,
            "##############################", BAR_WIDTH - filled, "", percent,
            (unsigned long long)items, progress->verb);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
