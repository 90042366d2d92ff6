/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by counter: Philox2x64-10. The key is the seed, and the counter is position and stream. */
#include <hooksess/replicas.h>

/* Returns the high 64 bits of a product. */
static uint64_t multiply_high(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)a * b >> 64);
#else
    uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
    uint64_t other = a_low * b_high + (uint32_t)middle;
    return a_high * b_high + (middle >> 32) + (other >> 32);
#endif
}

hs_rng hs_rng_stream(uint64_t seed, uint64_t stream)
{
    return (hs_rng){seed, stream, 0};
}

uint64_t hs_rng_next(hs_rng *rng)
{
    if (!rng)
        return 0;
    const uint64_t multiplier = UINT64_C(0xd2b74407b1ce6e93);
    uint64_t first = rng->position++, second = rng->stream, key = rng->seed;
    for (int round = 0; round < 10; round++) {
        uint64_t high = multiply_high(first, multiplier), low = first * multiplier;
        first = high ^ key ^ second;
        second = low;
        key += UINT64_C(0x9e3779b97f4a7c15);
    }
    return first;
}

double hs_rng_uniform(hs_rng *rng)
{
    return (double)(hs_rng_next(rng) >> 11) * 0x1p-53;
}
