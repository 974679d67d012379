/* SPDX-License-Identifier: MIT */
#include "backend/drafts.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"

#define NUMBER_MOST (UINT64_MAX / 20)

struct draft_naming {
    struct span stem, reason;
    uint64_t size;
    uint64_t last;  /* number; 1: the stem itself; 0: it is free */
    uint64_t alike; /* the id of one that may be the same; 0: none is */
};

/* The number of PATH among those called STEM; 0: it is not. */
static uint64_t number_of(struct span stem, struct span path)
{
    uint64_t number = 0;

    if (path.len < stem.len || memcmp(path.data, stem.data, stem.len) != 0)
        return 0;
    if (path.len == stem.len)
        return 1;
    if (path.data[stem.len] != '.')
        return 0;
    for (size_t i = stem.len + 1; i < path.len; i++) {
        if (path.data[i] < '0' || path.data[i] > '9' || number > NUMBER_MOST)
            return 0;
        number = number * 10 + (uint64_t)(path.data[i] - '0');
    }
    return number;
}

void draft_naming_note(struct draft_naming *naming, const struct draft *draft)
{
    uint64_t number = number_of(naming->stem, draft->path);

    if (number == 0)
        return;
    if (number > naming->last)
        naming->last = number;
    if (draft->size == naming->size && span_equal(draft->reason, naming->reason))
        naming->alike = draft->id;
}

static int note(void *context, const struct draft *draft)
{
    draft_naming_note(context, draft);
    return 0;
}

static bool draft_has(struct backend *backend, uint64_t id, struct span bytes)
{
    cleanup(buf_release) struct buf body;

    buf_init(&body, SIZE_MAX / 2);
    return id && backend_draft_read(backend, id, &body, NULL) == 0 &&
           span_equal(buf_span(&body), bytes);
}

int draft_name(struct backend *backend, struct draft *draft, struct buf *path, struct span bytes,
               draft_more_fn more, void *context, struct err *err)
{
    struct draft_naming naming = {
        .stem = buf_span(path), .reason = draft->reason, .size = bytes.len};
    int r = backend_draft_list(backend, draft->table, note, &naming, err);

    if (r < 0)
        return r;
    if (draft_has(backend, naming.alike, bytes))
        return 1;
    if (more)
        more(context, &naming);
    if (naming.last)
        buf_addf(path, ".%" PRIu64, naming.last + 1);
    draft->path = buf_span(path);
    return buf_error(path) ? err_set(err, -buf_error(path), "no memory") : 0;
}
