/* SPDX-License-Identifier: MIT */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

/* Times are nanoseconds since the epoch, from 1677-09-21T00:12:44Z to 2262-04-11T23:47:16Z: what is
 * before or after is kept as these. Both are whole seconds, so that nothing overflows where a time
 * is cut to its second. */
#define TIME_S_MOST INT64_C(9223372036)
#define TIME_NS_MOST (TIME_S_MOST * NS_PER_S)

static inline int64_t time_ns_of(struct timespec time)
{
    if (time.tv_sec >= TIME_S_MOST)
        return TIME_NS_MOST;
    if (time.tv_sec < -TIME_S_MOST)
        return -TIME_NS_MOST;
    return (int64_t)time.tv_sec * NS_PER_S + time.tv_nsec;
}
/* Of a number of seconds that others have told, to the millisecond. */
static inline int64_t time_ns_of_s(double seconds)
{
    if (!(seconds > -(double)TIME_S_MOST)) /* also what is no number */
        return -TIME_NS_MOST;
    if (seconds >= (double)TIME_S_MOST)
        return TIME_NS_MOST;
    return (int64_t)(seconds * 1000 + (seconds < 0 ? -0.5 : 0.5)) * (NS_PER_S / 1000);
}
/* Whether TIME_NS may stand for another time, which cannot be told. */
static inline bool time_is_cut(int64_t time_ns)
{
    return time_ns >= TIME_NS_MOST || time_ns <= -TIME_NS_MOST;
}

/* Wall clock, nanoseconds since the epoch. */
static inline int64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return time_ns_of(now);
}
/* Never goes back; counts while the machine sleeps. For intervals. */
static inline int64_t clock_steady_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return time_ns_of(now);
}
/* How far the clock by which the kernel stamps files may be behind. */
static inline int64_t clock_tick_ns(void)
{
    struct timespec tick;
    clock_getres(CLOCK_REALTIME_COARSE, &tick);
    return time_ns_of(tick);
}
static inline int64_t clock_now_s(void)
{
    return clock_now_ns() / NS_PER_S;
}

#endif
