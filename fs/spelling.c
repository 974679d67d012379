/* SPDX-License-Identifier: MIT */
/*
 * rsync --delete into a table of tag keys.
 *
 * rsync sends an item under the sender's order of tags, then deletes the name that the listing
 * shows, because the sender has no such name: the item would be lost. Its generator lists and
 * deletes, and is the parent of the receiver, which renames. So when either has used an item under
 * another spelling, the generator's deletion of the listed one is taken as done: what rsync wants
 * gone is the name, and what the sender has is there.
 *
 * Where it deletes before it has looked (--delete-before, --delete-during), its deletions of items
 * with several tags wait until it has ended, and are forgotten when it asks for another spelling
 * meanwhile (grace.c): the item is there as it was, with its time to live. With --backup it renames
 * to a backup name where it would delete: the same holds.
 *
 * Who used what is kept in a table of its own, since the kernel may forget an inode meanwhile: by
 * the item's inode number, open addressing, entries of processes that ended dropped when it grows.
 */
#include "fs/mount.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define ENTRIES_FIRST 256

struct spelling {
    uint64_t item; /* inode number; 0: free */
    pid_t user, parent;
};

/* The parent of process PID, and whether it is rsync; 0 where it is gone. */
static pid_t parent_of(pid_t pid, bool *ret_rsync)
{
    char path[64], name[32] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "re");
    if (stat && fscanf(stat, "%*d (%31[^)]) %*c %d", name, &parent) != 2)
        parent = 0;
    if (stat)
        fclose(stat);
    *ret_rsync = strcmp(name, "rsync") == 0;
    return parent;
}

/* The entry of ITEM that USER made, or the free one for it. Each who has used an item has an entry:
 * two runs may go on at once. */
static struct spelling *slot_of(const struct spellings *spellings, uint64_t item, pid_t user)
{
    size_t at = item & (spellings->size - 1);
    while (spellings->entries[at].item &&
           (spellings->entries[at].item != item || spellings->entries[at].user != user))
        at = (at + 1) & (spellings->size - 1);
    return &spellings->entries[at];
}

static bool is_alive(pid_t pid)
{
    return pid > 1 && (kill(pid, 0) == 0 || errno == EPERM);
}

/* Room for one more; false without memory. */
static bool make_room(struct spellings *spellings)
{
    if (spellings->count * 2 < spellings->size)
        return true;
    struct spellings old = *spellings;
    size_t size = old.size ? old.size * 2 : ENTRIES_FIRST;
    spellings->entries = calloc(size, sizeof *spellings->entries);
    if (!spellings->entries) {
        *spellings = old;
        return false;
    }
    spellings->size = size;
    spellings->count = 0;
    pid_t checked = 0; /* entries of one run stand together in time: the last answer serves */
    bool alive = false;
    for (size_t i = 0; i < old.size; i++) {
        struct spelling *entry = &old.entries[i];
        if (entry->item && entry->user != checked) {
            checked = entry->user;
            alive = is_alive(entry->user) || is_alive(entry->parent);
        }
        if (entry->item && alive) {
            *slot_of(spellings, entry->item, entry->user) = *entry;
            spellings->count++;
        }
    }
    free(old.entries);
    return true;
}

void spelling_note_locked(struct mount *mount, const struct inode *item, bool alias, pid_t pid)
{
    bool rsync = false;
    if (!alias || pid == 0)
        return;
    pid_t parent = parent_of(pid, &rsync);
    struct spellings *spellings = &mount->spellings;
    if (!rsync || !make_room(spellings))
        return;
    struct spelling *entry = slot_of(spellings, item->number, pid);
    spellings->count += entry->item == 0;
    *entry = (struct spelling){item->number, pid, parent};
}

/* Whether PID, or a child of it, has used ITEM under another spelling. */
static bool has_other_spelling(const struct spellings *spellings, const struct inode *item,
                               pid_t pid)
{
    if (spellings->count == 0)
        return false;
    size_t at = item->number & (spellings->size - 1);
    for (; spellings->entries[at].item; at = (at + 1) & (spellings->size - 1)) {
        const struct spelling *entry = &spellings->entries[at];
        if (entry->item == item->number && (entry->user == pid || entry->parent == pid))
            return true;
    }
    return false;
}

enum spelling_fate spelling_fate_locked(struct mount *mount, const struct inode *item, bool alias,
                                        pid_t pid)
{
    bool rsync = false;
    if (alias || pid == 0 || volume_table(item->volume)->keys != KEYS_TAGS ||
        !memchr(item->name, '_', item->name_len))
        return SPELLING_GOES;
    if (has_other_spelling(&mount->spellings, item, pid))
        return SPELLING_KEPT;
    (void)parent_of(pid, &rsync);
    return rsync ? SPELLING_WAITS : SPELLING_GOES;
}
