/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_RNG_H
#define TRAINER_RNG_H

#include <stdint.h>

/* A random number generator, xoshiro256** (Blackman and Vigna). Its state is four words. To resume
 * a sequence, save them. */
struct rng {
    uint64_t state[4];
};

/* Each pair of seed and stream starts an independent sequence. */
void rng_seed(struct rng *rng, uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);
/* Returns a number from 0 to n - 1. */
uint32_t rng_below(struct rng *rng, uint32_t n);
/* Returns a number from -1 to 1. */
float rng_symmetric(struct rng *rng);

#endif
