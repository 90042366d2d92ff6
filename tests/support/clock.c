/* SPDX-License-Identifier: Apache-2.0 */
#include "support/clock.h"

#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

static _Atomic int64_t own;
_Atomic int64_t *clock_ahead_ns = &own;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    enum { SECOND = 1000000000 };
    int result = __real_clock_gettime(clock, now);
    if (clock != CLOCK_MONOTONIC)
        return result;
    int64_t ns = now->tv_nsec + atomic_load(clock_ahead_ns);
    now->tv_sec += (time_t)(ns / SECOND);
    now->tv_nsec = (long)(ns % SECOND);
    return result;
}
