/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

double hs__backoff_secs(double first, double most, int64_t failures)
{
    double secs = first;
    for (int64_t i = 1; i < failures && secs < most; i++)
        secs *= 2;
    return secs < most ? secs : most;
}

int64_t hs__backoff_ns(int64_t failures)
{
    return (int64_t)(hs__backoff_secs(1, 64, failures) * 1e9);
}
