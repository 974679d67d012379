/* SPDX-License-Identifier: MIT */
/*
 * Files that are about to be changed. Somebody else may be at work on one: under a lock (flock), or
 * without one, having it open for writing. He is waited for. What he has done counts first: the
 * files are looked at when the lock is had, not before. A writer who keeps the file open has not
 * said that he is done, so that what he has written is no item yet, and is not overwritten either.
 */
#include <errno.h>
#include <time.h>

#include "backend/folder/private.h"

#define PAUSE_NS (NS_PER_S / 1000)

/* One try. */
static int claim(struct folder *folder, struct known *known, const char *name, struct span part,
                 enum claim how, struct file_lock **ret_lock, struct found *ret_found,
                 struct err *err)
{
    bool mend = how == CLAIM_MEND;
    struct err own = {""};
    int r = 0;

    if (how != CLAIM_LOOSE)
        r = replicas_lock_file(folder->replicas, known->folder, name,
                               mend ? LOCK_TO_MEND : LOCK_TO_REPLACE, ret_lock, &own);
    if (r < 0)
        return err_set(err, r == -EAGAIN ? EBUSY : -r, "%s", err_text(&own, r));
    return reconcile_locked(folder, known, name, part, mend ? LOOK_MEND : LOOK_CLAIM, ret_found,
                            err);
}

int file_claim(struct folder *folder, struct known *known, const char *name, struct span part,
               enum claim how, struct file_lock **ret_lock, bool *ret_differ, struct err *err)
{
    int64_t until_ns = clock_steady_ns() + (how == CLAIM_MEND ? 0 : FILE_LOCK_WAIT_NS);
    struct file_lock *lock = NULL;
    struct found found = {.busy = false};
    int r;

    while ((r = claim(folder, known, name, part, how, &lock, &found, err)) == 0 && found.busy) {
        file_lock_release(lock);
        lock = NULL;
        if (clock_steady_ns() >= until_ns)
            return err_set(err, EBUSY, "%s%s%s is being written by another program", known->folder,
                           known->folder[0] ? "/" : "", name);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    *ret_differ = found.differ;
    if (r < 0)
        file_lock_release(lock);
    else
        *ret_lock = lock;
    return r;
}
