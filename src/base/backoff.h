/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_BACKOFF_H
#define HS_BASE_BACKOFF_H

#include <stdint.h>

/* Exponential backoff: how long to wait between attempts. */

/* Seconds to wait after `failures` failures in a row (at least 1): `first` after one failure, twice as long after each
 * further one, at most `most`. */
static inline double hs__backoff_secs(double first, double most, int64_t failures)
{
    double secs = first;
    for (int64_t i = 1; i < failures && secs < most; i++)
        secs *= 2;
    return secs < most ? secs : most;
}

/* The same in nanoseconds: 1, 2, 4 ... 64 seconds. */
static inline int64_t hs__backoff_ns(int64_t failures)
{
    return (int64_t)(hs__backoff_secs(1, 64, failures) * 1e9);
}

#endif
