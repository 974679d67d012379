/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/pages.h"

#include <errno.h>

#define PAGE_RECORDS 512

void pages_init(struct pages *pages, const struct subject *subject)
{
    *pages = (struct pages){.subject = subject};
    key_bytes_init(&pages->last);
}

void pages_release(struct pages *pages)
{
    key_bytes_release(&pages->last);
}

static int take_record(void *context, const struct record *record)
{
    struct pages *pages = context;
    int r = pages->each(pages->context, record);

    if (r < 0)
        return r;
    pages->count++;
    return key_bytes_set(&pages->last, record->key) < 0 ? -ENOMEM : r;
}

int pages_walk(struct pages *pages, struct err *err)
{
    struct walk walk = {.bodies = true};
    bool more = true;

    while (more) {
        uint64_t before = pages->count, left = pages->limit - pages->count;
        int r;

        walk.after = key_bytes_key(&pages->last);
        walk.limit = pages->limit && left < PAGE_RECORDS ? (size_t)left : PAGE_RECORDS;
        r = backend_walk(pages->subject->backend, pages->subject->table, &walk, take_record, pages,
                         err);
        if (r < 0)
            return r;
        more = r > 0 || pages->count - before == walk.limit;
        if (pages->limit && pages->count >= pages->limit)
            more = false;
        r = pages->page(pages->context, pages);
        if (r < 0)
            return r;
    }
    return 0;
}
