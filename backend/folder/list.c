/* SPDX-License-Identifier: MIT */
/*
 * The list of replicas changes while it is used: by plug-in and plug-out, which do it under all
 * stripes, or by whoever edits the configuration. Each process looks at it when it has taken a
 * stripe, so that what is written goes to the replicas that the configuration names at that moment.
 *
 * What is new has to be filled before it is used, since what is missing in one replica only is
 * taken for something that goes back there, and what is there only for something new. So the first
 * who meets a list records that what is new in it is out of use, until it is healed; the number of
 * the list, in the lock file, tells all others that this was done, and by then what is recorded
 * counts. Plug-in fills a replica first, and then changes the list and its number.
 */
#include <errno.h>
#include <string.h>

#include "backend/folder/private.h"
#include "base/log.h"
#include "base/text.h"

bool list_changed(struct folder *folder)
{
    return folder->list.changed && folder->list.changed(folder->list.context);
}

/* The same for the same replicas in any order; never 0. */
static uint64_t list_number(const char *const *paths, size_t count)
{
    uint64_t number = 0;

    for (size_t i = 0; i < count; i++)
        number += hash64(span_text(paths[i]), 1);
    return number ? number : 1;
}

bool list_is_other(struct folder *folder, const char *const *paths, size_t count)
{
    uint64_t agreed = 0;

    return locks_list(folder, &agreed, NULL) == 0 && agreed && agreed != list_number(paths, count);
}

int list_agree(struct folder *folder, const char *const *paths, size_t count, struct err *err)
{
    uint64_t number = list_number(paths, count), agreed = 0;
    int r = locks_list(folder, &agreed, err);

    return r == 0 && agreed != number ? locks_set_list(folder, number, err) : r;
}

static int change(struct folder *folder, const char *const *paths, size_t count, struct err *err)
{
    uint64_t agreed = 0;
    int r = locks_list(folder, &agreed, err);

    if (r == 0)
        r = outs_change(folder, paths, count, agreed == list_number(paths, count), err);
    if (r == 0)
        r = list_agree(folder, paths, count, err);
    if (r == 0 && folder->watch)
        r = watch_change(folder, err);
    folder->rescan = true; /* of what others have written to the new ones meanwhile */
    return r;
}

void list_reload(struct folder *folder)
{
    struct path_list paths = {NULL, 0};
    struct err err = {""};
    int r = folder->list.read(folder->list.context, &paths, &err);

    if (r == 0)
        r = change(folder, (const char *const *)paths.paths, paths.count, &err);
    if (r < 0)
        log_warning("folder", "the replicas stay as they are: %s", err_text(&err, r));
    path_list_release(&paths);
}
