/* SPDX-License-Identifier: MIT */
/* Scope-bound release: `cleanup(buf_release) struct buf text = ...`, `cleanup_free char *p`. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>

#define cleanup(release) __attribute__((cleanup(release)))

static inline void cleanup_free_pointer(void *pointer)
{
    free(*(void **)pointer);
}
#define cleanup_free cleanup(cleanup_free_pointer)

static inline void cleanup_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}
/* Holds MUTEX (a pointer) until the end of the enclosing block. One per block. */
#define scoped_lock(mutex)                                                                         \
    cleanup(cleanup_unlock) pthread_mutex_t *scoped_mutex = (mutex);                               \
    pthread_mutex_lock(scoped_mutex)

#endif
