/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <isa-l/crc.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

/* ISA-L leaves the upper halves of vector registers as they are, and until they are cleared every SSE instruction that
 * follows, a copy or a search, takes three times as long. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
    _mm256_zeroupper();
}
#endif

/* ISA-L takes an int for the length, and neither inverts before nor after. Its second parameter is not const. */
uint32_t hs__crc32c(uint32_t crc, const void *data, size_t bytes)
{
    const size_t piece = (size_t)1 << 30;
    union {
        const void *given;
        unsigned char *wanted;
    } at = {.given = data};
    uint32_t state = ~crc;
    while (bytes) {
        size_t n = bytes < piece ? bytes : piece;
        state = crc32_iscsi(at.wanted, (int)n, state);
        at.wanted += n;
        bytes -= n;
    }
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx"))
        clear_upper_halves();
#endif
    return ~state;
}
