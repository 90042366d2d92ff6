/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTING_SECONDS_H
#define HS_TESTING_SECONDS_H

#include <math.h>
#include <stdint.h>

#define HS__CLOCK_START_NS 1000000000000000000 /* in 2001 */

/* Returns the seconds in nanoseconds, or -1 for a negative number, NaN, or more than 1e9 seconds. */
static inline int64_t hs__seconds_to_ns(double secs)
{
    return secs >= 0 && secs <= 1e9 ? llround(secs * 1e9) : -1;
}

#endif
