/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_VECTOR_H
#define TRAINER_VECTOR_H

#include <stddef.h>
#include <stdlib.h> /* for __GLIBC__ */

/* Stands before a function whose loops are worth wide vector instructions: the compiler makes it for processors with and
 * without them, and the program takes what suits the one it runs on. All give the same numbers: sums keep their order, and
 * no multiplication is contracted with an addition (-ffp-contract=off). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&                               \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORIZED
#endif

/* Asks for memory that will be read soon. */
static inline void prefetch(const void *bytes, size_t n)
{
    enum { CACHE_LINE = 64 };
    for (size_t i = 0; i < n; i += CACHE_LINE)
        __builtin_prefetch((const char *)bytes + i);
}

#endif
