/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_REPLICAS_H
#define HOOKSESS_REPLICAS_H

#include <hooksess/export.h>

/* For programs that train in several processes (group.h): the order of the samples, and random numbers.
 *
 * If all ranks share one position, no sample is lost or read twice. In a step, rank r reads the sample at the position plus
 * r, and adds the rank count to its copy of the position. The checkpoint saves it, so that a run can resume with another
 * rank count:
 *
 *     static int64_t next;
 *     ...
 *     hs_graph_bytes(g, "position", &next, sizeof next);
 *     ...
 *     int64_t at = next + rank;
 *     int64_t sample = hs_epoch_permutation(seed, at / n_samples, n_samples, at % n_samples);
 *     ...
 *     next += rank_count; // when the step is made
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* Returns the sample at a position in the random order of an epoch, which has every sample once. Stores nothing, and takes
 * about 0.2 us for any n_samples.
 *
 * n_samples  number of samples, from 1
 * position   0 to n_samples - 1
 *
 * Returns 0 to n_samples - 1, or -1 if n_samples or position is invalid. The order depends on seed, epoch and n_samples
 * only. It is the same on all machines and in all releases. Any thread. */
HS_API int64_t hs_epoch_permutation(uint64_t seed, int64_t epoch, int64_t n_samples, int64_t position);

/* A generator of random numbers: Philox2x64-10 by Salmon et al. (2011). Not for cryptography. Plain bytes, for
 * hs_graph_bytes(). A program may set `position`. Frozen. */
typedef struct hs_rng {
    uint64_t seed, stream;
    uint64_t position; /* the number of random numbers that were returned */
} hs_rng;

/* Returns a generator. Those of different streams, such as ranks, are independent. */
HS_API hs_rng hs_rng_stream(uint64_t seed, uint64_t stream);
/* Return the next number: any of 64 bits; at least 0 and less than 1, with 53 random bits. The same on all machines and in
 * all releases. NULL: 0. */
HS_API uint64_t hs_rng_next(hs_rng *rng);
HS_API double hs_rng_uniform(hs_rng *rng);

HS_END_DECLS

#endif
