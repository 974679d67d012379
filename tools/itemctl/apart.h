/* SPDX-License-Identifier: MIT */
/*
 * A process cannot end while one of its threads waits for a disk that does not answer. So where
 * there may be such a disk the work is done by a second process: the first one, which somebody
 * waits for, ends as soon as that has told how it went, and leaves it to its disk.
 */
#ifndef ITEMCTL_APART_H
#define ITEMCTL_APART_H

/* Returns in the second process; where there can be none, in this one. Before any thread. */
void apart_begin(void);
/* All is said and done, and the status is this one. */
void apart_end(int status);

#endif
