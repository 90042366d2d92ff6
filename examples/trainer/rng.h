/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_RNG_H
#define TRAINER_RNG_H

#include <stdint.h>

/* A random number generator, xoshiro256** (Blackman and Vigna). Its four words are all there is to it: whoever saves them
 * can go on from there. */
struct rng {
    uint64_t state[4];
};

/* One seed gives many streams that have nothing to do with one another. */
void rng_seed(struct rng *rng, uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);
/* 0 ... n - 1. */
uint32_t rng_below(struct rng *rng, uint32_t n);
/* -1 ... 1. */
float rng_symmetric(struct rng *rng);

#endif
