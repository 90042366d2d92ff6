/* SPDX-License-Identifier: Apache-2.0 */
/* The random order of the samples of an epoch, computed for one position at a time. */
#include <hooksess/replicas.h>

#define N_ROUNDS 24 /* with fewer, some orders of small sets are more frequent than others */

/* The output function of SplitMix64. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A Feistel network: a bijection of the numbers of `bits` bits. Rounds change the low part and the high part in turn by a
 * function of the other part and the key. */
static uint64_t permute(uint64_t x, unsigned bits, uint64_t key)
{
    unsigned low_bits = (bits + 1) / 2;
    uint64_t low_mask = (UINT64_C(1) << low_bits) - 1, high_mask = (UINT64_C(1) << (bits - low_bits)) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits;
    for (unsigned round = 0; round < N_ROUNDS; round += 2) {
        low ^= mix(key + (high << 5 | round) * UINT64_C(0x9e3779b97f4a7c15)) & low_mask;
        high ^= mix(key + (low << 5 | (round + 1)) * UINT64_C(0x9e3779b97f4a7c15)) & high_mask;
    }
    return high << low_bits | low;
}

int64_t hs_epoch_permutation(uint64_t seed, int64_t epoch, int64_t n_samples, int64_t position)
{
    unsigned bits = 0;
    if (n_samples < 1 || position < 0 || position >= n_samples)
        return -1;
    while ((uint64_t)(n_samples - 1) >> bits)
        bits++;
    uint64_t n = (uint64_t)n_samples, x = (uint64_t)position;
    uint64_t key = mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + (uint64_t)epoch * UINT64_C(0x9e3779b97f4a7c15));
    /* Cycle walking: the network permutes up to 2 n - 2 numbers. Repeat it until the number is a sample. */
    do
        x = permute(x, bits, key);
    while (x >= n);
    return (int64_t)x;
}
