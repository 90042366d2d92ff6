/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

/* SplitMix64: makes the words of a state from any seed, including 0. */
static uint64_t mix(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed, uint64_t stream)
{
    uint64_t at = mix(&seed) ^ stream;
    for (int i = 0; i < 4; i++)
        rng->state[i] = mix(&at);
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint32_t rng_below(struct rng *rng, uint32_t n)
{
    return (uint32_t)((rng_next(rng) >> 32) * n >> 32);
}

float rng_symmetric(struct rng *rng)
{
    return (float)(rng_next(rng) >> 40) * 0x1p-23f - 1;
}
