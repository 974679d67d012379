/* SPDX-License-Identifier: MIT */
#include "backend/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[TALLIES] = {
    " delivered=", " retried=", " dropped=", " skipped=", " lost="};

void mark_add(struct span position, const struct tally *tally, struct buf *out)
{
    buf_add_span(out, position);
    for (size_t i = 0; i < TALLIES; i++)
        buf_addf(out, "%s%" PRIu64, names[i], tally->of[i]);
}

static uint64_t number_behind(struct span text)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    return number;
}

void mark_read(struct span mark, struct span *ret_position, struct tally *ret_tally)
{
    *ret_tally = (struct tally){{0}};
    *ret_position = mark;
    for (size_t i = 0; i < TALLIES; i++) {
        size_t len = strlen(names[i]);
        const char *found = mark.len ? memmem(mark.data, mark.len, names[i], len) : NULL;
        if (!found)
            continue;
        size_t at = (size_t)(found - mark.data);
        ret_tally->of[i] = number_behind(span_from(mark, at + len));
        if (at < ret_position->len)
            ret_position->len = at;
    }
}
