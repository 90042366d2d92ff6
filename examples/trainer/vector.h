/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_VECTOR_H
#define TRAINER_VECTOR_H

#include <stddef.h>
#include <stdlib.h> /* for __GLIBC__ */

/* Put it before a function whose loops profit from wide vector instructions. The compiler makes several versions of the
 * function, and the program chooses one for its processor when it starts. All give the same numbers: sums keep their order,
 * and no multiplication is contracted with an addition (-ffp-contract=off). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&                               \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORIZED
#endif

/* Loads memory into the cache that will be read soon. */
static inline void prefetch(const void *bytes, size_t n)
{
    enum { CACHE_LINE = 64 };
    for (size_t i = 0; i < n; i += CACHE_LINE)
        __builtin_prefetch((const char *)bytes + i);
}

#endif
