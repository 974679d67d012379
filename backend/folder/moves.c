/* SPDX-License-Identifier: MIT */
/*
 * Renames that this object has made itself, and need not look at. The kernel tells of one by two
 * events that have a cookie in common: the first has the temporary's name, which says whose it is,
 * the second the item's.
 */
#include <sys/inotify.h>

#include "backend/folder/private.h"

bool own_moves_has(struct own_moves *moves, const struct replicas *replicas,
                   const struct inotify_event *event)
{
    if ((event->mask & IN_MOVED_FROM) && event->len && replicas_own(replicas, event->name)) {
        moves->cookies[moves->at++ % OWN_MOVES] = event->cookie;
        return true;
    }
    for (size_t i = 0; (event->mask & IN_MOVED_TO) && event->cookie && i < OWN_MOVES; i++) {
        if (moves->cookies[i] != event->cookie)
            continue;
        moves->cookies[i] = 0;
        return true;
    }
    return false;
}
