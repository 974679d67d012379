/* SPDX-License-Identifier: MIT */
#include "base/set.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text.h"

#define ROOM_FIRST 256

void set_init(struct set *set, size_t max)
{
    *set = (struct set){.slots = NULL};
    buf_init(&set->bytes, max);
}

void set_release(struct set *set)
{
    buf_release(&set->bytes);
    free(set->slots);
    set->slots = NULL;
    set->room = set->count = 0;
}

static struct span value_at(const struct set *set, size_t begin)
{
    size_t len;
    memcpy(&len, set->bytes.data + begin, sizeof len);
    return span_of(set->bytes.data + begin + sizeof len, len);
}

/* The slot of VALUE, or the free one that it would have. */
static size_t *slot_of(const struct set *set, struct span value)
{
    size_t at = hash64(value, 0) & (set->room - 1);
    while (set->slots[at] && !span_equal(value_at(set, set->slots[at] - 1), value))
        at = (at + 1) & (set->room - 1);
    return &set->slots[at];
}

static int grow(struct set *set)
{
    struct set larger = *set;
    larger.room = set->room ? 2 * set->room : ROOM_FIRST;
    larger.slots = calloc(larger.room, sizeof *larger.slots);
    if (!larger.slots)
        return -ENOMEM;
    for (size_t i = 0; i < set->room; i++)
        if (set->slots[i])
            *slot_of(&larger, value_at(set, set->slots[i] - 1)) = set->slots[i];
    free(set->slots);
    *set = larger;
    return 0;
}

int set_add(struct set *set, struct span value)
{
    int code = 2 * set->count >= set->room ? grow(set) : 0;
    if (code < 0)
        return code;
    size_t *slot = slot_of(set, value);
    if (*slot)
        return 0;
    size_t begin = set->bytes.len;
    buf_add(&set->bytes, &value.len, sizeof value.len);
    buf_add_span(&set->bytes, value);
    if (buf_error(&set->bytes))
        return buf_error(&set->bytes);
    *slot = begin + 1;
    set->count++;
    return 1;
}
